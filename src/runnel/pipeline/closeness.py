"""The nearest partner of every group under INTERSECT, XOR, IOS or IOU, without looking at all pairs.

    inverted index   groups that share no publisher have nothing in common, so a group is held against vectors of its
                     own publishers only. Under XOR such groups are still 1 / (|a| + |b|) close: the smallest group
                     stands for all of them.
    cardinality      vectors lie in the order of their groups' sizes. Two groups cannot have more in common than the
                     smaller one has, so sizes bound closeness; those near the own size are looked at first, and what
                     cannot be closer than the best of them is never looked at.
    sieve            the first quarter of a vector tells how much two can have in common at most: what is common there,
                     and all of the rest of the smaller rest. Few have enough for that, and are looked at to the end.
    packed           all vectors, a column each, go to every task once; tasks get ids of groups in Arrow batches.

Closeness is that of allocation/closeness.py, and of equals the one that came first (with the least id) is taken, as
allocation/exhaustive.py does, which is the oracle of the tests. A group without any partner has no row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.allocation.bits import Words, common_columns, popcounts
from runnel.allocation.closeness import OF_MANY, Metric

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = "gif bigint, partner bigint, closeness double, computed bigint"
NEAR = 512
"""How many of each publisher's vectors, those nearest in size, are looked at first."""

SIEVE = 4
"""The share of a vector's words that the sieve looks at: a quarter."""

TASKS = 64
"""At most; several for each core, since they take unequal times, though each unpacks all vectors."""

BATCH = 2_048
"""Groups that are worth a task."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Packed:
    """All vectors. Groups are numbered by id; columns are in the order of publisher, size of the group, number."""

    ids: Ints  # of groups
    sizes: Ints
    distinct: Ints  # sizes that there are
    smallest: Ints  # the two groups with the least size, of equals those that came first
    columns: Words  # one per vector
    ones: Ints  # bits set in a column
    rests: npt.NDArray[np.uint32]  # those of them that the sieve does not see
    groups: Ints  # whose vector a column is
    column_sizes: Ints  # of those groups
    publishers: Ints  # of a column, as a place in `firsts`
    firsts: Ints  # of each publisher, its first column; and where the last one ends
    own: Ints  # columns, group by group
    own_firsts: Ints  # of each group, its first place in `own`; and where the last one ends


def pack(ids: Ints, publishers: Ints, words: Words) -> Packed:
    """From one row per vector: its group's id, its publisher, its words."""
    known, number = np.unique(ids, return_inverse=True)
    sizes = np.zeros(len(known), np.int64)
    np.add.at(sizes, number, popcounts(words))
    order = np.lexsort((number, sizes[number], publishers))
    groups = number[order].astype(np.int64)
    _, firsts, which = np.unique(publishers[order], return_index=True, return_inverse=True)
    own = np.argsort(groups, kind="stable")
    in_order = words[order]
    return Packed(
        known,
        sizes,
        np.unique(sizes),
        np.argsort(sizes, kind="stable")[:2],
        np.ascontiguousarray(in_order.T),
        popcounts(in_order),
        popcounts(in_order[:, _head(words.shape[1]) :]).astype(np.uint32),
        groups,
        sizes[groups],
        which.astype(np.int64),
        np.append(firsts, len(order)).astype(np.int64),
        own,
        np.searchsorted(groups[own], np.arange(len(known) + 1)),
    )


def _head(words: int) -> int:
    """How many words the sieve looks at."""
    return -(-words // SIEVE)


class Best(NamedTuple):
    """The closest group so far: how close, and its number turned over, so that of equals the first is the largest."""

    closeness: float
    turned: float


NOBODY = -math.inf


class Search:
    """Finds partners among packed vectors. `minimum`: what is less close than that is no partner."""

    def __init__(self, packed: Packed, metric: Metric, minimum: float = 0.0) -> None:
        self._packed = packed
        self._metric = OF_MANY[metric]
        self._is_xor = metric == "XOR"
        self._minimum = minimum
        self.computed = 0

    def nearest(self, number: int) -> tuple[float, int] | None:
        """How close the closest other group is, and its number."""
        packed = self._packed
        own = packed.own[packed.own_firsts[number] : packed.own_firsts[number + 1]]
        best = self._without_sharing(number)
        near = self._near(int(own[0]))
        best = self._among(number, own, near, best)
        low, high = self._reach(number, best.closeness)
        for rest in ((low, min(high, near[0] - 1)), (max(low, near[1] + 1), high)):
            if rest[0] <= rest[1]:
                best = self._among(number, own, rest, best)
        return (
            None
            if best.turned == NOBODY or best.closeness <= 0
            else (best.closeness, -int(best.turned))
        )

    def _without_sharing(self, number: int) -> Best:
        """Under XOR, the smallest group is as close as any that shares nothing; else those are not close at all."""
        worst = Best(self._minimum, NOBODY)
        others = [int(one) for one in self._packed.smallest if one != number]
        if not self._is_xor or not others:
            return worst
        sizes = self._packed.sizes
        return max(worst, Best(float(self._metric(0, sizes[number], sizes[others[0]])), -others[0]))

    def _near(self, column: int) -> tuple[int, int]:
        """The sizes of the vectors that lie around a column of the same publisher."""
        packed = self._packed
        publisher = packed.publishers[column]
        low = max(int(packed.firsts[publisher]), column - NEAR // 2)
        high = min(int(packed.firsts[publisher + 1]), column + NEAR // 2) - 1
        return int(packed.column_sizes[low]), int(packed.column_sizes[high])

    def _reach(self, number: int, closeness: float) -> tuple[int, int]:
        """The sizes with which a group can be so close: when the smaller has nothing that the larger has not."""
        size, distinct = self._packed.sizes[number], self._packed.distinct
        possible = np.flatnonzero(
            self._metric(np.minimum(size, distinct), size, distinct) >= closeness
        )
        if not len(possible):
            return 0, -1
        return int(distinct[possible[0]]), int(distinct[possible[-1]])

    def _among(self, number: int, own: Ints, sizes: tuple[int, int], best: Best) -> Best:
        """The best so far, or a closer one of the groups with sizes from the first to the second of `sizes`."""
        packed = self._packed
        low, high = sizes
        least = self._least(number, low, best.closeness)
        found, counts = [], []
        for column in own.tolist():
            publisher = packed.publishers[column]
            first, end = packed.firsts[publisher], packed.firsts[publisher + 1]
            in_order = packed.column_sizes[first:end]
            start = int(first + np.searchsorted(in_order, low, "left"))
            stop = int(first + np.searchsorted(in_order, high, "right"))
            # What the other own vectors may add at most.
            elsewhere = int(packed.sizes[number] - packed.ones[column])
            alive, common = self._common(column, start, stop, least - elsewhere)
            counts.append(common)
            found.append(packed.groups[alive])
            self.computed += stop - start
        groups, both = found[0], counts[0]
        if len(own) > 1:  # what several publishers have in common adds up
            groups, which = np.unique(np.concatenate(found), return_inverse=True)
            both = np.bincount(which, np.concatenate(counts), len(groups)).astype(np.uint32)
        # Few have enough in common: only these are reckoned with any further.
        enough = np.flatnonzero(both >= least)
        groups, common = groups[enough], both[enough].astype(np.int64)
        values = self._metric(common, packed.sizes[number], packed.sizes[groups])
        values[groups == number] = -1.0
        if not len(values):
            return best
        most = values.max()
        return max(best, Best(float(most), -int(groups[values == most].min())))

    def _common(self, column: int, start: int, stop: int, least: int) -> tuple[Ints, Ints]:
        """The columns from `start` to `stop` that may have `least` bits in common with one, and how many they have."""
        packed = self._packed
        row = packed.columns[:, column]
        head = _head(len(row))
        common = common_columns(packed.columns[:head, start:stop], row[:head])
        at_most = common + np.minimum(packed.rests[start:stop], packed.rests[column])
        alive = np.flatnonzero(at_most >= least)
        rest = common_columns(packed.columns[head:, start + alive], row[head:])
        return (start + alive).astype(np.int64), common[alive].astype(np.int64) + rest

    def _least(self, number: int, low: int, closeness: float) -> int:
        """How many bits a group of at least this size must have in common to be so close; more, if it is larger."""
        size = self._packed.sizes[number]
        counts = np.arange(size + 1)
        enough = np.flatnonzero(self._metric(counts, size, low) >= closeness)
        return int(enough[0]) if len(enough) else int(counts[-1]) + 1


def closeness(groups: DataFrame, metric: Metric, minimum: float = 0.0) -> DataFrame:
    """(gif, partner, closeness, computed): each group's nearest partner that is at least so close.

    `computed` says how many vectors were looked at for it.
    """
    one = groups.select("gif", F.explode("profile").alias("one"))
    packed = packed_of(one.select("gif", "one.publisher", "one.words").toArrow())
    # What a function holds on to goes to the tasks with it; Spark broadcasts what is large.
    tasks = min(TASKS, 1 + len(packed.ids) // BATCH)
    spread = groups.select("gif").repartition(tasks, "gif")
    return spread.mapInArrow(_searching(packed, metric, minimum), SCHEMA)


def packed_of(table: pa.Table) -> Packed:
    """From a table with the columns gif, publisher, words."""
    if not table.num_rows:
        return pack(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 1), np.uint64))
    words = table["words"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    matrix = words.view(np.uint64).reshape(table.num_rows, -1)
    return pack(table["gif"].to_numpy(), table["publisher"].to_numpy(), matrix)


def _searching(
    packed: Packed, metric: Metric, minimum: float
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def search(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _batch(packed, metric, minimum, batch.column(0).to_numpy())

    return search


def _batch(packed: Packed, metric: Metric, minimum: float, gifs: Ints) -> pa.RecordBatch:
    rows: list[tuple[int, int, float, int]] = []
    for gif, number in zip(gifs.tolist(), np.searchsorted(packed.ids, gifs).tolist(), strict=True):
        search = Search(packed, metric, minimum)
        partner = search.nearest(number)
        if partner is not None:
            rows.append((gif, int(packed.ids[partner[1]]), partner[0], search.computed))
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    kinds = (pa.int64(), pa.int64(), pa.float64(), pa.int64())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=["gif", "partner", "closeness", "computed"])
