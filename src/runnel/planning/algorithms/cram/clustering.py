"""The clustering of CRAM (green §IV-C): repeatedly cluster the closest pair of groups, if an allocation test permits.

The paper is named in docs/glossary.md, as all papers are.

A *unit* is a subscription, or a cluster of them that is allocated as one. Its number is its place in the list `units`,
which only grows: a new cluster is appended, and those that it replaces stay there but are in no group any more. A
*group* is the paper's GIF (group of identical filters): the units with one and the same profile, whatever their filters
say, or a single unit if `grouping` is off. Names in the code say `gif` or `group` and mean the same: one
`planning/algorithms/cram/gifs.py::Gif`. A unit *needs* output of its broker, and a broker has *room* for so much
output, both in millionths of a byte per second (planning/load.py).

`Clustering.run` is the loop of the paper: take the pair of groups with the highest closeness, cluster units of the two
as their relation asks for (`_cluster`), test, and do not try a pair again that failed. One kind of pair is tried again,
a group with itself: after a cluster from elsewhere has entered the group (`_merge`).

The test is an argument (`AllocationTest`). CRAM tests whether everything can still be allocated (`cram.py::Pool`). If a
part of a large network is clustered separately (`cluster`), the test is whether the cluster fits one broker.

Decisions, where the paper is silent:

- A cluster that needs more than the room of the largest broker fails without a packing (`cram.py::Pool.try_replace`).
- What a search finds is recorded for the group, and for the partner that it found, too, if the two are closer than the
  partner and its own present partner.
- Under XOR the closeness of two groups is never zero, so nothing can be pruned: the search is exhaustive.
- `weighted` (not in the paper): a bit counts with the rate of its publisher, so that closeness is of messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Protocol

from runnel.planning.algorithms.cram.closeness import PAIR_METRICS, Metric, covers
from runnel.planning.algorithms.cram.exhaustive import ExhaustiveSearch
from runnel.planning.algorithms.cram.gifs import (
    Gif,
    Relation,
    count_within,
    group_by_profile,
    key_of,
    largest_passing,
    relation,
)
from runnel.planning.algorithms.cram.poset import (
    GifPoset,
    Search,
    closeness_with_set,
    covered_gif_set,
)
from runnel.planning.load import Bin, Item, Traffic
from runnel.planning.profiles import Profile, union


@dataclass(frozen=True, slots=True)
class CramOptions:
    """The metric, and the paper's three optimisations."""

    metric: Metric = "IOU"
    grouping: bool = True  # optimisation 1: GIFs
    pruning: bool = True  # optimisation 2: the poset (poset.py)
    one_to_many: bool = True  # optimisation 3; the paper has it for all metrics but XOR
    split: bool = False  # splitting.py; not in the paper
    judge_every: int = 64  # steps between two computations of the rate (cram.py)
    weighted: bool = False  # not in the paper; exhaustive search does not support it


class AllocationTest(Protocol):
    """Decides whether units may be clustered.

    It is made with the same list of units as the `Clustering` that asks it, and is the one that appends to it.
    """

    @property
    def room_max(self) -> int:
        """No cluster may need more output than this."""

    def try_replace(self, numbers: Sequence[int], cluster: Item, keep: bool) -> bool:
        """Whether a cluster may replace the units with these numbers. If so and if `keep`, it does.

        Then the cluster is appended to the list of units: its number is the last. Otherwise nothing has changed.
        """


class Clustering:
    """One run: the groups of units, and every group's closest partner.

    `units` is shared with the test, which appends every new cluster to it (`AllocationTest.try_replace`).
    """

    def __init__(
        self, units: list[Item], test: AllocationTest, traffic: Traffic, options: CramOptions
    ) -> None:
        self._options = options
        self._units = units
        self._test = test
        self._weights = traffic.weights if options.weighted else None
        gifs = group_by_profile(units, options.grouping, self._weights)
        self._gifs = {gif.number: gif for gif in gifs}
        # How many groups there are at the start; the number of the next new one.
        self.gifs_first = self._next = len(gifs)
        self._by_key = {key_of(gif.profile): gif for gif in gifs} if options.grouping else {}
        self._search: Search = (
            GifPoset(options.metric, self._weights)
            if options.pruning and options.metric != "XOR"
            else ExhaustiveSearch(options.metric, traffic.spans)
        )
        self._search.add_all(gifs)
        self._banned: set[tuple[int, int]] = set()  # pairs of groups that failed
        # Group → closeness, and its closest partner.
        self._partners: dict[int, tuple[float, int]] = {}
        # (−closeness, group, its partner); entries that `_partners` does not have any more are skipped when popped.
        self._heap: list[tuple[float, int, int]] = []
        self.computations_first = 0  # how many there were when every group had its first partner

    @property
    def computations(self) -> int:
        """How many times closeness was computed."""
        return self._search.computations

    def run(self) -> None:
        """The loop of the paper: step 1, step 2, repeat."""
        for gif in self._gifs.values():
            self._find_partner(gif)
        heapify(self._heap)
        self.computations_first = self.computations
        while pair := self._next_pair():
            one, other = pair
            if not self._cluster(one, other):
                self._banned.add(_pair_key(one, other))
            # The entry of `one` is no longer in the heap. That of `other` is, and is looked at when it is popped.
            if one.count:
                self._renew_partner(one)

    def numbers(self) -> list[int]:
        """The numbers of the present units, without those that have no traffic."""
        return sorted(number for gif in self._gifs.values() for number in gif.units)

    # Step 1: find the closest partners.

    def _may_pair(self, one: Gif, other: Gif) -> bool:
        return _pair_key(one, other) not in self._banned

    def _find_partner(self, gif: Gif) -> None:
        """Record the closest partner of a group; a group with several units is its own closest partner."""
        if gif.count > 1 and self._may_pair(gif, gif):
            # Under every metric a profile is closest to itself.
            own = PAIR_METRICS[self._options.metric](gif.size, gif.size, gif.size)
            self._record_partner(gif, own, gif.number)
            return
        found = self._search.closest(gif, self._may_pair)
        if found is None:
            self._partners.pop(gif.number, None)
            return
        value, partner = found
        self._record_partner(gif, value, partner.number)
        if value > self._partners.get(partner.number, (0.0, 0))[0]:
            self._record_partner(partner, value, gif.number)

    def _record_partner(self, gif: Gif, value: float, partner: int) -> None:
        self._partners[gif.number] = (value, partner)
        heappush(self._heap, (-value, gif.number, partner))

    def _next_pair(self) -> tuple[Gif, Gif] | None:
        """The pair with the highest closeness. A group whose partner is gone gets another when it is popped."""
        while self._heap:
            value, number, partner = heappop(self._heap)
            gif = self._gifs.get(number)
            if gif and self._partners.get(number) == (-value, partner):
                if self._can_pair(gif, partner):
                    return gif, self._gifs[partner]
                self._find_partner(gif)
        return None

    def _can_pair(self, gif: Gif, partner: int) -> bool:
        other = self._gifs.get(partner)
        if other is None or not self._may_pair(gif, other):
            return False
        return other is not gif or gif.count > 1

    def _renew_partner(self, gif: Gif) -> None:
        """After a group's turn, record its partner again, or another if they can no longer be paired."""
        value, partner = self._partners[gif.number]
        if self._can_pair(gif, partner):
            self._record_partner(gif, value, partner)
        else:
            self._find_partner(gif)

    # Step 2: cluster, and test whether everything still fits.

    def _cluster(self, one: Gif, other: Gif) -> bool:
        """Cluster units of two groups as their relation asks for; whether the pair may be tried again."""
        if one is other:
            self._cluster_equal(one)
            return False  # what is left of the group could not be clustered
        how = relation(one.profile, other.profile)
        if how is Relation.SUPERSET:
            return self._cluster_covered(one, other)
        if how is Relation.SUBSET:
            return self._cluster_covered(other, one)
        if how is Relation.INTERSECT and self._cluster_one_to_many(one, other):
            return True
        # Also if they have nothing in common, which under XOR can be the closest pair.
        return self._merge([(one, one.lightest), (other, other.lightest)])

    def _cluster_equal(self, gif: Gif) -> None:
        """Cluster as many units of a group as can be allocated, then as many of the rest, and so on."""
        rest = gif.units
        while len(rest) > 1:
            limit = count_within((self._units[unit].need for unit in rest), self._test.room_max)
            count = self._merge_as_many_as_fit(
                [], [(gif, unit) for unit in rest[:limit]], at_least=2
            )
            if count < 2:
                return
            rest = rest[count:]

    def _cluster_covered(self, above: Gif, below: Gif) -> bool:
        """Cluster the lightest unit of the covering group with as many of the covered one as can be allocated."""
        unit = above.lightest
        room = self._test.room_max - self._units[unit].need
        units = below.units
        limit = count_within((self._units[number].need for number in units), room)
        parts = [(below, number) for number in units[:limit]]
        return self._merge_as_many_as_fit([(above, unit)], parts, at_least=1) > 0

    def _merge_as_many_as_fit(
        self, first: list[tuple[Gif, int]], parts: list[tuple[Gif, int]], at_least: int
    ) -> int:
        """Cluster `first` with as many of the parts as can be allocated, and return that number."""
        if len(parts) < at_least or self._merge(first + parts):
            return len(parts) if len(parts) >= at_least else 0
        low = at_least - 1
        count = low + largest_passing(
            len(parts) - 1 - low, lambda n: self._fits(first + parts[: low + n])
        )
        return count if count > low and self._merge(first + parts[:count]) else 0

    def _cluster_one_to_many(self, one: Gif, other: Gif) -> bool:
        """Optimisation 3: cluster each of the two with groups that it covers, if that is at least as close."""
        options = self._options
        if not options.one_to_many or options.metric == "XOR":
            return False
        value, _ = self._partners[one.number]
        pair_need = self._need(one) + self._need(other)
        has_clustered = False
        for gif in (one, other):
            if not gif.count:
                continue
            covered = [
                below
                for below in self._search.find_covered(gif)
                if below is not gif and self._may_pair(gif, below)
            ]
            chosen = covered_gif_set(
                covered, self._need, pair_need - self._need(gif), self._weights
            )
            if (
                chosen
                and closeness_with_set(options.metric, gif.profile, chosen, self._weights) >= value
            ):
                parts = [(below, below.lightest) for below in (gif, *chosen)]
                has_clustered = self._merge(parts) or has_clustered
        return has_clustered

    def _need(self, gif: Gif) -> int:
        """The output that the lightest unit of a group needs."""
        return self._units[gif.lightest].need

    def _fits(self, parts: list[tuple[Gif, int]]) -> bool:
        """Whether these units could be clustered: the test, and nothing changes."""
        cluster = self._make_cluster(parts)
        return self._test.try_replace([number for _, number in parts], cluster, keep=False)

    def _merge(self, parts: list[tuple[Gif, int]]) -> bool:
        """Make one cluster of these units, each named with its group, if the test permits; whether it did.

        The units leave their groups, and a group that is empty then is dropped. The cluster enters the group with its
        profile, which may be that of the first unit, another that exists, or one that is made for it.
        """
        cluster = self._make_cluster(parts)
        if not self._test.try_replace([number for _, number in parts], cluster, keep=True):
            return False
        for gif, number in parts:
            gif.remove(self._units[number].need, number)
        first_group = parts[0][0]
        group = self._group_of(cluster.profile, first_group)
        group.add(cluster.need, len(self._units) - 1)  # the test has appended it
        for gif in {gif.number: gif for gif, _ in parts}.values():
            if not gif.count:
                self._drop_group(gif)
        if group is not first_group:
            # The cluster may be clustered with those that are in the group already.
            self._banned.discard((group.number, group.number))
            self._find_partner(group)
        return True

    def _make_cluster(self, parts: list[tuple[Gif, int]]) -> Item:
        """Units as one: the OR of their bits, the sum of their needs."""
        units = [self._units[number] for _, number in parts]
        return Item(
            _union(parts),
            sum(unit.need for unit in units),
            tuple(member for unit in units for member in unit.members),
            sum(unit.count for unit in units),
        )

    def _group_of(self, profile: Profile, likely: Gif) -> Gif:
        """The group with this profile, which is made if there is none; `likely` is tried first."""
        grouping = self._options.grouping
        if grouping and likely.profile == profile:
            return likely
        key = key_of(profile)
        if grouping and key in self._by_key:
            return self._by_key[key]
        gif = self._gifs[self._next] = Gif(self._next, profile, self._weights)
        self._next += 1
        if grouping:
            self._by_key[key] = gif
        self._search.add(gif)
        return gif

    def _drop_group(self, gif: Gif) -> None:
        del self._gifs[gif.number]
        self._partners.pop(gif.number, None)
        if self._options.grouping:
            del self._by_key[key_of(gif.profile)]
        self._search.remove(gif)


class SingleBrokerTest:
    """The test for a part of a network: whether the cluster fits one broker."""

    def __init__(self, broker: Bin, units: list[Item], traffic: Traffic) -> None:
        self.room_max = broker.room
        self._bin = broker
        self._units = units
        self._traffic = traffic

    def try_replace(self, numbers: Sequence[int], cluster: Item, keep: bool) -> bool:
        """Whether the cluster fits the broker."""
        broker = self._bin
        rate = self._traffic.rate(cluster.profile) if broker.delay.takes_time else 0
        fits = broker.accepts(cluster.need, rate, cluster.count)
        if fits and keep:
            self._units.append(cluster)
        return fits


def cluster(
    items: Sequence[Item], broker: Bin, traffic: Traffic, options: CramOptions
) -> list[Item]:
    """Cluster items so that each cluster fits this broker; items without traffic are not clustered.

    >>> from runnel.planning.profiles import PublisherProfile
    >>> traffic = Traffic((PublisherProfile("P", 10.0, 10.0, 9),), (10,))
    >>> items = [Item({0: bits}, 5, (n,)) for n, bits in enumerate((0b1111, 0b110000, 0b1110, 0b110000))]
    >>> [found.members for found in cluster(items, Bin("A", 10), traffic, CramOptions())]
    [(0, 2), (1, 3)]
    """
    units = list(items)
    clustering = Clustering(units, SingleBrokerTest(broker, units, traffic), traffic, options)
    clustering.run()
    quiet = [item for item in items if not item.profile]
    return [*(units[number] for number in clustering.numbers()), *quiet]


def _pair_key(one: Gif, other: Gif) -> tuple[int, int]:
    return (one.number, other.number) if one.number < other.number else (other.number, one.number)


def _union(parts: Sequence[tuple[Gif, int]]) -> Profile:
    """The OR of the groups' profiles. In most cases the first covers the others."""
    first = parts[0][0].profile
    others = {gif.number: gif.profile for gif, _ in parts[1:]}.values()
    return first if all(covers(first, other) for other in others) else union([first, *others])
