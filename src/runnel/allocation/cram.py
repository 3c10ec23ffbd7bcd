"""CRAM, clustering with resource awareness and minimisation: green §IV-C.

Begin with BIN PACKING. Then, again and again: cluster the closest pair, pack everything; if that fails, undo it and
never try that pair again. The loop is in clustering.py, the three optimisations in gifs.py, poset.py and there; each
can be switched off. Here is the packing after every step, and what is kept of it.

Decisions, where the paper is silent or wrong:

- It returns the last scheme that fitted. This one returns the best seen, BIN PACKING's included: fewest brokers, then
  the lowest total rate; and besides it, for Phase 3, the scheme with the lowest rate for every larger number of
  brokers, as long as more brokers buy a lower rate (`schemes`, best first).
- The number of brokers is known at every step. The rate is worked out where that number changes and at every
  `judge_every`-th step in between, since clustering lowers it step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runnel.allocation.bound import lower_bound
from runnel.allocation.clustering import Clustering, CramOptions
from runnel.allocation.load import Bin, Item, Traffic
from runnel.allocation.packing import Order, Packer, Run, Scheme, bin_packing
from runnel.allocation.splitting import fewest_split


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
    options, units = options or CramOptions(), list(items)
    packer = Packer(bins, units, traffic)
    order = Order((number, one.need) for number, one in enumerate(items))
    start = bin_packing(items, bins, traffic)
    pool = Pool(packer, order, start, options.judge_every)
    clustering = Clustering(units, pool, traffic, options)
    clustering.run()
    if options.split:
        clusters = [units[number] for number in order.numbers()]
        least, most = lower_bound(items, bins, traffic), pool.schemes()[0].brokers
        pool.offer(fewest_split(clusters, items, packer.bins, traffic, least, most))
    return CramResult(
        pool.schemes(),
        clustering.gifs,
        clustering.computations_first,
        clustering.computations,
        pool.packings,
        len(order),
    )


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

    @property
    def room_max(self) -> int:
        """The largest broker's."""
        return self._packer.room_max

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
