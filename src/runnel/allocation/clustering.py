"""Clustering as CRAM does it (green §IV-C): again and again the closest pair of groups, as long as a test allows.

The test is an argument. CRAM's is whether everything can still be allocated (cram.py). Where nobody sees everything, it
is whether the cluster fits a broker of its own (`cluster`): so a part of a large network is clustered by itself.

Decisions, where the paper is silent or wrong:

- A cluster that is larger than any broker's room fails without a test.
- A partner that was found is noted for both, where it is the closer one.
- Under XOR nobody is apart, so there is nothing to prune: it is searched exhaustively.
- `weighted` (not in the paper): a bit counts for as much as its publisher sends, so that closeness is of messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Protocol

from runnel.allocation.closeness import OF_TWO, Metric, covers
from runnel.allocation.exhaustive import Exhaustive
from runnel.allocation.gifs import Gif, Relation, grouped, how_many_within, key_of, most, relation
from runnel.allocation.load import Bin, Item, Traffic
from runnel.allocation.poset import Poset, Search, closeness_with_set, covered_set
from runnel.allocation.profiles import Profile, union


@dataclass(frozen=True, slots=True)
class CramOptions:
    """The metric, and the paper's three optimisations."""

    metric: Metric = "IOU"
    grouping: bool = True  # 1
    pruning: bool = True  # 2
    one_to_many: bool = True  # 3; the paper has it for all metrics but XOR
    split: bool = False  # splitting.py; not in the paper
    judge_every: int = 64
    weighted: bool = False  # not in the paper; exhaustive search knows no weights


class Test(Protocol):
    """Who says whether units may be clustered."""

    @property
    def room_max(self) -> int:
        """No cluster may need more than this."""

    def swap(self, numbers: Sequence[int], unit: Item, keep: bool) -> bool:
        """Whether one unit may stand in the place of others; if so, and it is to be kept, it is the newest unit."""


class Clustering:
    """One run: units, their groups, and every group's closest partner. `units` grows; numbers stay."""

    def __init__(
        self, units: list[Item], test: Test, traffic: Traffic, options: CramOptions
    ) -> None:
        self._options = options
        self._units = units
        self._test = test
        self._weights = traffic.weights if options.weighted else None
        gifs = grouped(units, options.grouping, self._weights)
        self._gifs = {gif.number: gif for gif in gifs}
        self.gifs = self._next = len(gifs)  # at the start
        self._by_key = {key_of(gif.profile): gif for gif in gifs} if options.grouping else {}
        self._search: Search = (
            Poset(options.metric, self._weights)
            if options.pruning and options.metric != "XOR"
            else Exhaustive(options.metric, traffic.spans)
        )
        self._search.add_all(gifs)
        self._banned: set[tuple[int, int]] = set()
        self._partners: dict[int, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, int]] = []  # (−closeness, group, its partner)
        self.computations_first = 0

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
                self._banned.add(_pair(one, other))
            if one.count:
                self._keep_partner(one)

    def numbers(self) -> list[int]:
        """The units that there are now, without those that have no traffic."""
        return sorted(number for gif in self._gifs.values() for number in gif.units)

    # Step 1: who is closest to whom.

    def _allowed(self, one: Gif, other: Gif) -> bool:
        return _pair(one, other) not in self._banned

    def _find_partner(self, gif: Gif) -> None:
        """A group with several units is its own closest partner; else the search says."""
        if gif.count > 1 and self._allowed(gif, gif):
            # No other profile is closer to one than itself, under any of the metrics.
            own = OF_TWO[self._options.metric](gif.size, gif.size, gif.size)
            self._note(gif, own, gif.number)
            return
        found = self._search.closest(gif, self._allowed)
        if found is None:
            self._partners.pop(gif.number, None)
            return
        value, partner = found
        self._note(gif, value, partner.number)
        if value > self._partners.get(partner.number, (0.0, 0))[0]:
            self._note(partner, value, gif.number)

    def _note(self, gif: Gif, value: float, partner: int) -> None:
        self._partners[gif.number] = (value, partner)
        heappush(self._heap, (-value, gif.number, partner))

    def _next_pair(self) -> tuple[Gif, Gif] | None:
        """The pair with the highest closeness. Who lost its partner looks for another when its turn comes."""
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
        if other is None or not self._allowed(gif, other):
            return False
        return other is not gif or gif.count > 1

    def _keep_partner(self, gif: Gif) -> None:
        """After its turn: the partner on record, if it still holds, or another."""
        value, partner = self._partners[gif.number]
        if self._can_pair(gif, partner):
            self._note(gif, value, partner)
        else:
            self._find_partner(gif)

    # Step 2: cluster, and see whether everything still fits.

    def _cluster(self, one: Gif, other: Gif) -> bool:
        """Cluster units of two groups as their relation asks for; False if nothing could be clustered."""
        if one is other:
            self._cluster_equal(one)
            return False  # done for good: what is left over could not be clustered
        how = relation(one.profile, other.profile)
        if how is Relation.SUPERSET:
            return self._cluster_covered(one, other)
        if how is Relation.SUBSET:
            return self._cluster_covered(other, one)
        if how is Relation.INTERSECT and self._one_to_many(one, other):
            return True
        return self._merge([(one, one.lightest), (other, other.lightest)])

    def _cluster_equal(self, gif: Gif) -> None:
        """As many units of a group as can be allocated, then as many of the rest, and so on."""
        rest = gif.units
        while len(rest) > 1:
            limit = how_many_within((self._units[unit].need for unit in rest), self._test.room_max)
            count = self._most_merged([], [(gif, unit) for unit in rest[:limit]], at_least=2)
            if count < 2:
                return
            rest = rest[count:]

    def _cluster_covered(self, above: Gif, below: Gif) -> bool:
        """The lightest unit of the covering group, and as many of the covered one as can be allocated."""
        unit = above.lightest
        room = self._test.room_max - self._units[unit].need
        units = below.units
        limit = how_many_within((self._units[one].need for one in units), room)
        parts = [(below, one) for one in units[:limit]]
        return self._most_merged([(above, unit)], parts, at_least=1) > 0

    def _most_merged(
        self, first: list[tuple[Gif, int]], parts: list[tuple[Gif, int]], at_least: int
    ) -> int:
        """Cluster `first` with as many of the parts as can be allocated; how many they were."""
        if len(parts) < at_least or self._merge(first + parts):
            return len(parts) if len(parts) >= at_least else 0
        low = at_least - 1
        count = low + most(len(parts) - 1 - low, lambda n: self._fits(first + parts[: low + n]))
        return count if count > low and self._merge(first + parts[:count]) else 0

    def _one_to_many(self, one: Gif, other: Gif) -> bool:
        """Optimisation 3: each of the two with groups that it covers, where that is at least as close."""
        options = self._options
        if not options.one_to_many or options.metric == "XOR":
            return False
        value, _ = self._partners[one.number]
        pair_need = self._need(one) + self._need(other)
        done = False
        for gif in (one, other):
            if not gif.count:
                continue
            covered = [
                g for g in self._search.covered(gif) if g is not gif and self._allowed(gif, g)
            ]
            chosen = covered_set(covered, self._need, pair_need - self._need(gif), self._weights)
            if (
                chosen
                and closeness_with_set(options.metric, gif.profile, chosen, self._weights) >= value
            ):
                parts = [(gif, gif.lightest), *((g, g.lightest) for g in chosen)]
                done = self._merge(parts) or done
        return done

    def _need(self, gif: Gif) -> int:
        return self._units[gif.lightest].need

    def _fits(self, parts: list[tuple[Gif, int]]) -> bool:
        """The allocation test alone."""
        unit = self._clustered(parts)
        return self._test.swap([number for _, number in parts], unit, keep=False)

    def _merge(self, parts: list[tuple[Gif, int]]) -> bool:
        """Cluster units if everything can still be allocated: their bits are OR-ed, their needs summed."""
        unit = self._clustered(parts)
        if not self._test.swap([number for _, number in parts], unit, keep=True):
            return False
        for gif, number in parts:
            gif.remove(self._units[number].need, number)
        near = parts[0][0]
        home = self._group_of(unit.profile, near)
        home.add(unit.need, len(self._units) - 1)
        for gif in {gif.number: gif for gif, _ in parts}.values():
            if not gif.count:
                self._drop(gif)
        if home is not near:
            # A unit from elsewhere may go together with what is there.
            self._banned.discard((home.number, home.number))
            self._find_partner(home)
        return True

    def _clustered(self, parts: list[tuple[Gif, int]]) -> Item:
        units = [self._units[number] for _, number in parts]
        return Item(
            _union(parts),
            sum(one.need for one in units),
            tuple(member for one in units for member in one.members),
            sum(one.count for one in units),
        )

    def _group_of(self, profile: Profile, near: Gif) -> Gif:
        """The group with this profile, if need be a new one; `near` is likely to be it."""
        grouping = self._options.grouping
        if grouping and near.profile == profile:
            return near
        key = key_of(profile)
        if grouping and key in self._by_key:
            return self._by_key[key]
        gif = self._gifs[self._next] = Gif(self._next, profile, self._weights)
        self._next += 1
        if grouping:
            self._by_key[key] = gif
        self._search.add(gif)
        return gif

    def _drop(self, gif: Gif) -> None:
        del self._gifs[gif.number]
        self._partners.pop(gif.number, None)
        if self._options.grouping:
            del self._by_key[key_of(gif.profile)]
        self._search.remove(gif)


class OfItsOwn:
    """The test where nobody sees everything: every cluster fits a broker of its own."""

    def __init__(self, one: Bin, units: list[Item], traffic: Traffic) -> None:
        self.room_max = one.room
        self._bin = one
        self._units = units
        self._traffic = traffic

    def swap(self, numbers: Sequence[int], unit: Item, keep: bool) -> bool:
        """Whether it fits; nothing else matters."""
        one = self._bin
        rate = self._traffic.rate(unit.profile) if one.delay.limits else 0
        fits = one.accepts(unit.need, rate, unit.count)
        if fits and keep:
            self._units.append(unit)
        return fits


def cluster(items: Sequence[Item], one: Bin, traffic: Traffic, options: CramOptions) -> list[Item]:
    """Clusters of these items, each of which fits one broker; what has no traffic stays by itself.

    >>> from runnel.allocation.profiles import PublisherProfile
    >>> traffic = Traffic((PublisherProfile("P", 10.0, 10.0, 9),), (10,))
    >>> items = [Item({0: bits}, 5, (n,)) for n, bits in enumerate((0b1111, 0b110000, 0b1110, 0b110000))]
    >>> [found.members for found in cluster(items, Bin("A", 10), traffic, CramOptions())]
    [(0, 2), (1, 3)]
    """
    units = list(items)
    clustering = Clustering(units, OfItsOwn(one, units, traffic), traffic, options)
    clustering.run()
    quiet = [item for item in items if not item.profile]
    return [*(units[number] for number in clustering.numbers()), *quiet]


def _pair(one: Gif, other: Gif) -> tuple[int, int]:
    return (one.number, other.number) if one.number < other.number else (other.number, one.number)


def _union(parts: Sequence[tuple[Gif, int]]) -> Profile:
    """The OR of the groups' profiles; the first covers the rest in most cases."""
    first = parts[0][0].profile
    others = {gif.number: gif.profile for gif, _ in parts[1:]}.values()
    return first if all(covers(first, one) for one in others) else union([first, *others])
