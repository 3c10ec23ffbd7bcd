"""High-water marks: which publications were delivered already, by advertisement.

A publisher's counter only rises along a path, so the highest one delivered tells all that came before it. What
is remembered is bounded: of very many advertisements those heard of last.
"""

from __future__ import annotations

MARKS_MAX = 1 << 16


class Marks:
    """The highest counter of each advertisement.

    >>> marks = Marks()
    >>> marks.rise(7, 1), marks.rise(7, 3), marks.rise(7, 3), marks.rise(7, 2)
    (True, True, False, False)
    """

    __slots__ = ("_highest", "_last")

    def __init__(self) -> None:
        self._highest: dict[int, int] = {}  # the one heard of last stands last
        self._last = -1

    def __contains__(self, advertisement: int) -> bool:
        return advertisement in self._highest

    def rise(self, advertisement: int, counter: int) -> bool:
        """Note a publication; False if it, or a later one, was noted before."""
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
