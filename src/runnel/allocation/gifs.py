"""CRAM's optimisation 1 (green §IV-C1): subscriptions with equal bit vectors are one group, a GIF.

A group of identical filters holds units: single subscriptions, or clusters of them with the group's own profile. Which
units of two groups are clustered depends on how the groups relate:

    equal       (a group with itself) as many of its units as can be allocated, again and again
    superset    the lightest unit of the covering group with as many units of the covered one as can be allocated
    intersect   the lightest unit of each
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import accumulate

from runnel.allocation.closeness import covers, in_common
from runnel.allocation.load import Item
from runnel.allocation.profiles import Profile, Weights, size


class Relation(Enum):
    """How two profiles relate."""

    EQUAL = "equal"
    SUPERSET = "superset"
    SUBSET = "subset"
    INTERSECT = "intersect"
    EMPTY = "empty"


def relation(one: Profile, other: Profile) -> Relation:
    """How the bits of two profiles relate.

    >>> relation({0: 7}, {0: 3}), relation({0: 3}, {0: 6}), relation({0: 1}, {1: 1})
    (<Relation.SUPERSET: 'superset'>, <Relation.INTERSECT: 'intersect'>, <Relation.EMPTY: 'empty'>)
    """
    if covers(one, other):
        return Relation.EQUAL if covers(other, one) else Relation.SUPERSET
    if covers(other, one):
        return Relation.SUBSET
    return Relation.INTERSECT if in_common(one, other) else Relation.EMPTY


class Gif:
    """A group of identical filters. Parents, children and mark are the poset's."""

    __slots__ = ("_units", "children", "mark", "number", "parents", "profile", "size")

    def __init__(self, number: int, profile: Profile, weights: Weights | None = None) -> None:
        self.number = number
        self.profile = profile
        self.size = size(profile, weights)
        self._units: list[tuple[int, int]] = []  # (need, number of the unit), lightest first
        self.parents: dict[int, Gif] = {}
        self.children: dict[int, Gif] = {}
        self.mark = 0

    @property
    def count(self) -> int:
        """How many units it has."""
        return len(self._units)

    @property
    def units(self) -> list[int]:
        """Its units, the lightest first."""
        return [number for _, number in self._units]

    @property
    def lightest(self) -> int:
        """The unit with the least need."""
        return self._units[0][1]

    def add(self, need: int, unit: int) -> None:
        """One more unit."""
        insort(self._units, (need, unit))

    def remove(self, need: int, unit: int) -> None:
        """One fewer."""
        self._units.remove((need, unit))


def key_of(profile: Profile) -> tuple[tuple[int, int], ...]:
    """What equal profiles have in common, for a dictionary."""
    return tuple(sorted(profile.items()))


def grouped(
    items: Sequence[Item], grouping: bool = True, weights: Weights | None = None
) -> list[Gif]:
    """The groups of these items, in the order of their first; those without traffic are in none.

    >>> groups = grouped([Item({0: 3}, 5, (0,)), Item({0: 1}, 2, (1,)), Item({0: 3}, 4, (2,)), Item({}, 0, (3,))])
    >>> [(group.profile, group.units) for group in groups]
    [({0: 3}, [2, 0]), ({0: 1}, [1])]
    """
    found: dict[object, Gif] = {}
    for number, one in enumerate(items):
        if one.profile:
            key = key_of(one.profile) if grouping else number
            group = found.setdefault(key, Gif(len(found), one.profile, weights))
            group.add(one.need, number)
    return list(found.values())


def most(limit: int, test: Callable[[int], bool]) -> int:
    """The largest count up to `limit` that passes, by binary search; 0 if not even 1 does.

    >>> most(100, lambda count: count <= 37), most(100, lambda count: True), most(5, lambda count: False)
    (37, 100, 0)
    """
    if limit <= 0:
        return 0
    if test(limit):
        return limit
    low, high = 0, limit  # low passes (or is nothing), high does not
    while high - low > 1:
        middle = (low + high) // 2
        if test(middle):
            low = middle
        else:
            high = middle
    return low


def how_many_within(needs: Iterable[int], room: int) -> int:
    """How many of these, from the first on, fit into so much.

    >>> how_many_within([1, 2, 3], 3)
    2
    """
    count = 0
    for total in accumulate(needs):
        if total > room:
            break
        count += 1
    return count
