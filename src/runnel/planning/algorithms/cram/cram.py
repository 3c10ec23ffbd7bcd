"""CRAM, clustering with resource awareness and minimisation: green §IV-C.

Begin with BIN PACKING. Then repeat: cluster the closest pair and pack everything; if that fails, undo it and never try
that pair again. The loop is in clustering.py. Each of the three optimisations can be switched off: 1 is in gifs.py, 2
in poset.py, 3 in clustering.py (`clustering.py::Clustering._cluster_one_to_many`; the set that it clusters is picked in
poset.py). This file has the packing after every step, and the best schemes.

Decisions, where the paper is silent or wrong:

- The paper returns the last scheme that fitted. This one returns the best, BIN PACKING's included: the fewest brokers,
  then the lowest total rate. For Phase 3 it also returns the scheme with the lowest rate for every larger number of
  brokers, as long as more brokers lead to a lower rate (`schemes`, best first). The paper's is `last`.
- The number of brokers is known after every step. The rate is computed only when that number changes and at every
  `judge_every`-th step in between, since clustering lowers it step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runnel.planning.algorithms.bound import lower_bound
from runnel.planning.algorithms.cram.clustering import Clustering, CramOptions
from runnel.planning.algorithms.cram.splitting import split_on_fewest_brokers
from runnel.planning.algorithms.packing import Order, Packer, PlaceRange, Scheme, bin_packing
from runnel.planning.load import Bin, Item, Traffic


@dataclass(frozen=True, slots=True)
class CramResult:
    """The schemes, and how much work it was to find them."""

    schemes: tuple[Scheme, ...]
    last: Scheme  # with which clustering ends, as the paper has it
    gifs: int  # groups at the start
    computations_first: int  # of closeness, until every group has a partner: the paper's 280,000
    computations: int  # in total
    packings: int
    units: int  # clusters and single subscriptions at the end, of those with traffic

    @property
    def best(self) -> Scheme:
        """The scheme with the fewest brokers, then the lowest rate."""
        return self.schemes[0]


def cram(
    items: Sequence[Item], bins: Sequence[Bin], traffic: Traffic, options: CramOptions | None = None
) -> CramResult:
    """Run CRAM; DoesNotFit if BIN PACKING cannot allocate everything.

    >>> from runnel.planning.profiles import PublisherProfile
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
    last = pool.last()
    if options.split:
        clusters = [units[number] for number in order.numbers()]
        least, most = lower_bound(items, bins, traffic), pool.schemes()[0].brokers
        pool.offer(split_on_fewest_brokers(clusters, items, packer.bins, traffic, least, most))
    return CramResult(
        pool.schemes(),
        last,
        clustering.gifs_first,
        clustering.computations_first,
        clustering.computations,
        pool.packings,
        len(clustering.numbers()),
    )


class Pool:
    """The present units and their packing, and the best schemes so far."""

    def __init__(self, packer: Packer, order: Order, start: Scheme, judge_every: int) -> None:
        self.packings = 1
        self._packer = packer
        self._order = order
        self._start = start
        self._best: dict[int, Scheme] = {start.brokers: start}
        self._last: tuple[int, list[int], list[list[PlaceRange]]] | None = (
            None  # brokers, order, runs
        )
        self._judge_every = judge_every
        self._unjudged = 0

    @property
    def room_max(self) -> int:
        """The room of the largest broker."""
        return self._packer.room_max

    def try_replace(self, numbers: Sequence[int], cluster: Item, keep: bool) -> bool:
        """Replace units by a cluster; if that cannot be packed, or if not `keep`, undo it. Whether it can be packed.

        `units` is the list that the packer and the `Clustering` share. `order` has the units that are to be packed.
        """
        packer, order, units = self._packer, self._order, self._packer.items
        if cluster.need > packer.room_max:
            return False
        number = len(units)
        units.append(cluster)
        for one in numbers:
            order.remove(one, units[one].need)
        order.add(number, cluster.need)
        runs = packer.pack_sorted(order)
        self.packings += 1
        if runs is None or not keep:
            order.remove(number, cluster.need)
            for one in numbers:
                order.add(one, units[one].need)
            units.pop()
        else:
            self._record(runs)
        return runs is not None

    def _record(self, runs: list[list[PlaceRange]]) -> None:
        brokers = self._packer.brokers(runs)
        if self._last and (self._last[0] != brokers or self._unjudged >= self._judge_every):
            self._judge()
        self._last = (brokers, self._order.numbers(), runs)
        self._unjudged += 1

    def _judge(self) -> None:
        self.offer(self.last())
        self._unjudged = 0

    def last(self) -> Scheme:
        """The scheme of the last step that could be packed."""
        if self._last is None:
            return self._start
        _, numbers, runs = self._last
        return self._packer.scheme(numbers, runs)

    def offer(self, scheme: Scheme | None) -> None:
        """Keep a scheme if it is the best with its number of brokers."""
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
