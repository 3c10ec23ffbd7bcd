"""One engine for the whole world: each publication is matched once, however many brokers it passes.

A subscription has one number in the whole world, with a count of the brokers that hold it; each broker keeps only its
own table from number to hop. The engine's answer for a publication is remembered until the engine changes. The
numbers are sorted, so that next hops come in an order that does not depend on the engine.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from runnel.language import Selection
from runnel.matching import Engine, distinct, make_engine
from runnel.wire import Publication

_REMEMBERED_MAX = 4096


class Numbers:
    """An answer that can be kept: the numbers of the subscriptions that match a publication."""

    __slots__ = ("_numbers",)

    def __init__(self, numbers: array[int]) -> None:
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def ids(self) -> array[int]:
        """All numbers, in an array of the caller's own."""
        return self._numbers[:]

    def slices(self) -> list[array[int]]:
        """The same, in one piece."""
        return [self._numbers]

    def distinct(self, table: array[int]) -> list[int]:
        """The distinct non-negative values that the table has for the numbers."""
        return distinct(self._numbers, table)


class SharedMatcher:
    """The matcher of every broker of a world.

    >>> from runnel.language import parse
    >>> from runnel.wire import make_publication
    >>> matcher = SharedMatcher()
    >>> matcher.add(7, parse("a > 5")), matcher.add(7, parse("a > 5"))
    (0, 0)
    >>> list(matcher.match(make_publication(1, 1, {"a": 9})))
    [0]
    >>> matcher.remove(7); matcher.remove(7); len(matcher)
    0
    """

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine if engine is not None else make_engine()
        self._numbers: dict[int, list[int]] = {}  # subscription → [number, brokers that hold it]
        self._free: list[int] = []
        self._remembered: dict[tuple[int, int], Numbers] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, subscription: int, selection: Selection) -> int:
        """Count one more broker that holds the subscription; returns its number."""
        known = self._numbers.get(subscription)
        if known is not None:
            known[1] += 1
            return known[0]
        number = self._free.pop() if self._free else len(self._numbers)
        self._numbers[subscription] = [number, 1]
        self._engine.add(number, selection)
        self._remembered.clear()
        return number

    def remove(self, subscription: int) -> None:
        """Count one broker less."""
        known = self._numbers[subscription]
        known[1] -= 1
        if not known[1]:
            del self._numbers[subscription]
            self._free.append(known[0])
            self._engine.remove(known[0])
            self._remembered.clear()

    def match(self, publication: Publication) -> Numbers:
        """The numbers of the subscriptions that match a publication."""
        identity = (publication.advertisement, publication.counter)
        known = self._remembered.get(identity)
        if known is None:
            if len(self._remembered) >= _REMEMBERED_MAX:
                self._remembered.clear()
            found = sorted(self._engine.match(publication.attributes).ids())
            known = self._remembered[identity] = Numbers(array("q", found))
        return known

    def forget(self) -> None:
        """Forget all remembered answers."""
        self._remembered.clear()
