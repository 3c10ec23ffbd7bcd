"""CRAM's optimisation 1 (green §IV-C1): subscriptions with equal bit vectors are one group, a GIF.

A group of identical filters (GIF) has units: single subscriptions, or clusters of them with the group's profile. Which
units of two groups are clustered depends on the relation of the groups:

    equal       (a group with itself) as many of its units as can be allocated, repeatedly
    superset    the lightest unit of the covering group with as many units of the covered one as can be allocated
    intersect   the lightest unit of each
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import accumulate

from runnel.planning.algorithms.cram.closeness import count_common_bits, covers
from runnel.planning.load import Item
from runnel.planning.profiles import Profile, Weights, size


class Relation(Enum):
    """The relation of two profiles."""

    EQUAL = "equal"
    SUPERSET = "superset"
    SUBSET = "subset"
    INTERSECT = "intersect"
    EMPTY = "empty"


def relation(one: Profile, other: Profile) -> Relation:
    """The relation of the bits of two profiles.

    >>> relation({0: 7}, {0: 3}), relation({0: 3}, {0: 6}), relation({0: 1}, {1: 1})
    (<Relation.SUPERSET: 'superset'>, <Relation.INTERSECT: 'intersect'>, <Relation.EMPTY: 'empty'>)
    """
    if covers(one, other):
        return Relation.EQUAL if covers(other, one) else Relation.SUPERSET
    if covers(other, one):
        return Relation.SUBSET
    return Relation.INTERSECT if count_common_bits(one, other) else Relation.EMPTY


class Gif:
    """A group of identical filters. Parents, children and mark belong to the poset."""

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
        """The numbers of its units, the lightest first."""
        return [number for _, number in self._units]

    @property
    def lightest(self) -> int:
        """The unit with the least need."""
        return self._units[0][1]

    def add(self, need: int, unit: int) -> None:
        """Add a unit."""
        insort(self._units, (need, unit))

    def remove(self, need: int, unit: int) -> None:
        """Remove a unit."""
        self._units.remove((need, unit))


def key_of(profile: Profile) -> tuple[tuple[int, int], ...]:
    """A dictionary key that is the same for equal profiles."""
    return tuple(sorted(profile.items()))


def group_by_profile(
    items: Sequence[Item], grouping: bool = True, weights: Weights | None = None
) -> list[Gif]:
    """Group items with equal profiles, in the order of the first of each; items without traffic are in no group.

    >>> items = [Item({0: 3}, 5, (0,)), Item({0: 1}, 2, (1,)), Item({0: 3}, 4, (2,)), Item({}, 0, (3,))]
    >>> groups = group_by_profile(items)
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


def largest_passing(limit: int, test: Callable[[int], bool]) -> int:
    """The largest count up to `limit` that passes a test, by binary search; 0 if not even 1 passes.

    >>> largest_passing(100, lambda count: count <= 37), largest_passing(100, lambda count: True)
    (37, 100)
    >>> largest_passing(5, lambda count: False)
    0
    """
    if limit <= 0:
        return 0
    if test(limit):
        return limit
    low, high = 0, limit  # low passes (or is 0), high does not
    while high - low > 1:
        middle = (low + high) // 2
        if test(middle):
            low = middle
        else:
            high = middle
    return low


def count_within(needs: Iterable[int], room: int) -> int:
    """How many of these needs, from the first on, fit into a room together.

    >>> count_within([1, 2, 3], 3)
    2
    """
    count = 0
    for total in accumulate(needs):
        if total > room:
            break
        count += 1
    return count
