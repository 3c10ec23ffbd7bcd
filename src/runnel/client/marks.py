"""High-water marks: which publications were delivered already, by advertisement.

A publisher's counter only rises along a path, so remembering the highest one delivered is enough to recognise all
earlier ones. Memory is bounded: only the most recently used advertisements are kept.
"""

from __future__ import annotations

MARKS_MAX = 1 << 16


class Marks:
    """The highest counter of each advertisement.

    >>> marks = Marks()
    >>> marks.advance(7, 1), marks.advance(7, 3), marks.advance(7, 3), marks.advance(7, 2)
    (True, True, False, False)
    """

    __slots__ = ("_highest", "_last")

    def __init__(self) -> None:
        self._highest: dict[int, int] = {}  # the most recently used stands last
        self._last = -1

    def __contains__(self, advertisement: int) -> bool:
        return advertisement in self._highest

    def advance(self, advertisement: int, counter: int) -> bool:
        """Note a publication; returns False if it, or a later one, was noted before."""
        highest = self._highest
        if counter <= highest.get(advertisement, 0):
            return False
        if advertisement != self._last:
            highest.pop(advertisement, None)
            self._last = advertisement
        highest[advertisement] = counter
        if len(highest) > MARKS_MAX:
            del highest[next(iter(highest))]
        return True
