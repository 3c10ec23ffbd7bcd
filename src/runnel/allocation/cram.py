"""CRAM, clustering with resource awareness and minimisation: green §IV-C.

Begin with BIN PACKING. Then, again and again: cluster the closest pair, pack everything; if that fails, undo it and
never try that pair again. The three optimisations are in gifs.py, poset.py and here; each can be switched off.

Decisions, where the paper is silent or wrong:

- It returns the last scheme that fitted. This one returns the best seen, BIN PACKING's included: fewest brokers, then
  the lowest total rate; and besides it, for Phase 3, the scheme with the lowest rate for every larger number of
  brokers, as long as more brokers buy a lower rate (`schemes`, best first).
- The number of brokers is known at every step. The rate is worked out where that number changes and at every
  `judge_every`-th step in between, since clustering lowers it step by step.
- A cluster that is larger than any broker's room fails without packing.
- A partner that was found is noted for both, where it is the closer one.
- Under XOR nobody is apart, so there is nothing to prune: it is searched exhaustively.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from runnel.allocation.bound import lower_bound
from runnel.allocation.closeness import OF_TWO, Metric, covers
from runnel.allocation.exhaustive import Exhaustive
from runnel.allocation.gifs import Gif, Relation, grouped, how_many_within, key_of, most, relation
from runnel.allocation.load import Bin, Item, Traffic
from runnel.allocation.packing import Order, Packer, Run, Scheme, bin_packing
from runnel.allocation.poset import Poset, Search, closeness_with_set, covered_set
from runnel.allocation.profiles import Profile, union
from runnel.allocation.splitting import split_packing


@dataclass(frozen=True, slots=True)
class CramOptions:
    """The metric, and the paper's three optimisations."""

    metric: Metric = "IOU"
    grouping: bool = True  # 1
    pruning: bool = True  # 2
    one_to_many: bool = True  # 3; the paper has it for all metrics but XOR
    split: bool = False  # splitting.py; not in the paper
    judge_every: int = 64


@dataclass(frozen=True, slots=True)
class CramResult:
    """What came out, and what it took."""

    schemes: tuple[Scheme, ...]
    gifs: int  # groups at the start
    computations_first: (
        int  # of closeness, to find every group's first partner: the paper's 280,000
    )
    computations: int  # in all
    packings: int
    units: int  # clusters and single subscriptions at the end

    @property
    def best(self) -> Scheme:
        """Fewest brokers, then the lowest rate."""
        return self.schemes[0]


def cram(
    items: Sequence[Item], bins: Sequence[Bin], traffic: Traffic, options: CramOptions | None = None
) -> CramResult:
    """Run CRAM; an error says what does not fit even without clustering.

    >>> from runnel.allocation.profiles import PublisherProfile
    >>> traffic = Traffic((PublisherProfile("P", 10.0, 10.0, 9),), (10,))
    >>> items = [Item({0: bits}, 5, (n,)) for n, bits in enumerate((0b1111, 0b110000, 0b1110, 0b110000))]
    >>> cram(items, [Bin("A", 10), Bin("B", 10)], traffic).best.placed
    {'A': (0, 2), 'B': (1, 3)}
    """
    return _Cram(items, bins, traffic, options or CramOptions()).run()


class _Cram:
    """One run: units, their groups, and every group's closest partner."""

    def __init__(
        self, items: Sequence[Item], bins: Sequence[Bin], traffic: Traffic, options: CramOptions
    ) -> None:
        self._options = options
        self._units = list(items)
        self._single = len(items)
        start = bin_packing(items, bins, traffic)
        self._packer = Packer(bins, self._units, traffic)
        self._order = Order((number, one.need) for number, one in enumerate(items))
        self._pool = Pool(self._packer, self._order, start, options.judge_every)
        gifs = grouped(items, options.grouping)
        self._gifs = {gif.number: gif for gif in gifs}
        self._started = self._next = len(gifs)
        self._by_key = {key_of(gif.profile): gif for gif in gifs} if options.grouping else {}
        self._search: Search = (
            Poset(options.metric)
            if options.pruning and options.metric != "XOR"
            else Exhaustive(options.metric, traffic.spans)
        )
        self._search.add_all(gifs)
        self._banned: set[tuple[int, int]] = set()
        self._partners: dict[int, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, int]] = []  # (−closeness, group, its partner)

    def run(self) -> CramResult:
        """The loop of the paper: step 1, step 2, repeat."""
        for gif in self._gifs.values():
            self._find_partner(gif)
        heapify(self._heap)
        first = self._search.computations
        while pair := self._next_pair():
            one, other = pair
            if not self._cluster(one, other):
                self._banned.add(_pair(one, other))
            if one.count:
                self._keep_partner(one)
        if self._options.split:
            self._pool.offer(self._split())
        return CramResult(
            self._pool.schemes(),
            self._started,
            first,
            self._search.computations,
            self._pool.packings,
            len(self._order),
        )

    def _split(self) -> Scheme | None:
        """The clusters of the end, split, on as few brokers as possible."""
        packer = self._packer
        items = self._units[: self._single]
        clusters = [self._units[number] for number in self._order.numbers()]
        fewest = self._pool.schemes()[0].brokers
        for brokers in range(lower_bound(items, packer.bins, packer.traffic), fewest + 1):
            found = split_packing(clusters, items, packer.bins, packer.traffic, brokers)
            if found:
                return found
        return None

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
            limit = how_many_within(
                (self._units[unit].need for unit in rest), self._packer.room_max
            )
            count = self._most_merged([], [(gif, unit) for unit in rest[:limit]], at_least=2)
            if count < 2:
                return
            rest = rest[count:]

    def _cluster_covered(self, above: Gif, below: Gif) -> bool:
        """The lightest unit of the covering group, and as many of the covered one as can be allocated."""
        unit = above.lightest
        room = self._packer.room_max - self._units[unit].need
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
            chosen = covered_set(covered, self._need, pair_need - self._need(gif))
            if chosen and closeness_with_set(options.metric, gif.profile, chosen) >= value:
                parts = [(gif, gif.lightest), *((g, g.lightest) for g in chosen)]
                done = self._merge(parts) or done
        return done

    def _need(self, gif: Gif) -> int:
        return self._units[gif.lightest].need

    def _fits(self, parts: list[tuple[Gif, int]]) -> bool:
        """The allocation test alone."""
        unit = self._clustered(parts)
        return self._pool.swap([number for _, number in parts], unit, keep=False)

    def _merge(self, parts: list[tuple[Gif, int]]) -> bool:
        """Cluster units if everything can still be allocated: their bits are OR-ed, their needs summed."""
        unit = self._clustered(parts)
        if not self._pool.swap([number for _, number in parts], unit, keep=True):
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
        gif = self._gifs[self._next] = Gif(self._next, profile)
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


class Pool:
    """The units as they are packed now, and the best schemes seen."""

    def __init__(self, packer: Packer, order: Order, start: Scheme, judge_every: int) -> None:
        self.packings = 1
        self._packer = packer
        self._order = order
        self._best: dict[int, Scheme] = {start.brokers: start}
        self._last: tuple[int, list[int], list[list[Run]]] | None = None  # brokers, order, runs
        self._judge_every = judge_every
        self._unjudged = 0

    def swap(self, numbers: Sequence[int], unit: Item, keep: bool) -> bool:
        """Put one unit in the place of others; if that cannot be packed, or is not to be kept, as it was."""
        packer, order, units = self._packer, self._order, self._packer.items
        if unit.need > packer.room_max:
            return False
        number = len(units)
        units.append(unit)
        for one in numbers:
            order.remove(one, units[one].need)
        order.add(number, unit.need)
        runs = packer.sorted_fit(order)
        self.packings += 1
        if runs is None or not keep:
            order.remove(number, unit.need)
            for one in numbers:
                order.add(one, units[one].need)
            units.pop()
        else:
            self._record(runs)
        return runs is not None

    def _record(self, runs: list[list[Run]]) -> None:
        brokers = self._packer.brokers(runs)
        if self._last and (self._last[0] != brokers or self._unjudged >= self._judge_every):
            self._judge()
        self._last = (brokers, self._order.numbers(), runs)
        self._unjudged += 1

    def _judge(self) -> None:
        if self._last:
            _, numbers, runs = self._last
            self.offer(self._packer.scheme(numbers, runs))
        self._unjudged = 0

    def offer(self, scheme: Scheme | None) -> None:
        """Keep a scheme if it is the best with so many brokers."""
        if scheme:
            known = self._best.get(scheme.brokers)
            if known is None or scheme.rate < known.rate:
                self._best[scheme.brokers] = scheme

    def schemes(self) -> tuple[Scheme, ...]:
        """The best scheme first; each further one has more brokers and a lower rate."""
        self._judge()
        found: list[Scheme] = []
        for _, scheme in sorted(self._best.items()):
            if not found or scheme.rate < found[-1].rate:
                found.append(scheme)
        return tuple(found)


def _pair(one: Gif, other: Gif) -> tuple[int, int]:
    return (one.number, other.number) if one.number < other.number else (other.number, one.number)


def _union(parts: Sequence[tuple[Gif, int]]) -> Profile:
    """The OR of the groups' profiles; the first covers the rest in most cases."""
    first = parts[0][0].profile
    others = {gif.number: gif.profile for gif, _ in parts[1:]}.values()
    return first if all(covers(first, one) for one in others) else union([first, *others])
