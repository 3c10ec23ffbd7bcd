"""The closest partner by comparison with every group: PAIRWISE uses it, and poset pruning is compared with it.

Comparing one group with all others is one operation on packed matrices, with one matrix per publisher.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from runnel.bits import Words, count_common_bits, pack, words_for
from runnel.planning.algorithms.cram.closeness import ARRAY_METRICS, Metric
from runnel.planning.algorithms.cram.gifs import Gif
from runnel.planning.algorithms.cram.poset import Allowed


class Block:
    """The vectors of one publisher: a matrix with a row per group that has one."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._rows: Words = np.zeros((8, words_for(length)), dtype=np.uint64)
        self._places: npt.NDArray[np.int64] = np.zeros(8, dtype=np.int64)
        self._count = 0

    def add(self, place: int, bits: int) -> None:
        """Add a row, for the group at a place."""
        if self._count == len(self._places):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            self._places = np.concatenate([self._places, np.zeros_like(self._places)])
        self._rows[self._count] = pack([bits], self.length)[0]
        self._places[self._count] = place
        self._count += 1

    def drop_dead_rows(self, alive: npt.NDArray[np.bool_]) -> None:
        """Delete the rows of groups that have been removed."""
        kept = np.flatnonzero(alive[self._places[: self._count]])
        self._rows[: len(kept)] = self._rows[kept]
        self._places[: len(kept)] = self._places[kept]
        self._count = len(kept)

    def add_common(self, bits: int, totals: npt.NDArray[np.int64]) -> None:
        """Add the number of bits in common with every row to the totals of the groups."""
        row = pack([bits], self.length)[0]
        totals[self._places[: self._count]] += count_common_bits(self._rows[: self._count], row)


class ExhaustiveSearch:
    """Finds partners by comparing a group with every other."""

    def __init__(self, metric: Metric, spans: Sequence[int]) -> None:
        self.computations = 0
        self._metric = ARRAY_METRICS[metric]
        self._blocks = [Block(span) for span in spans]
        self._gifs: list[Gif] = []
        self._places: dict[int, int] = {}  # group → its place
        self._sizes: npt.NDArray[np.int64] = np.ones(64, dtype=np.int64)
        self._alive: npt.NDArray[np.bool_] = np.zeros(64, dtype=bool)
        self._dead = 0

    def add_all(self, gifs: Sequence[Gif]) -> None:
        """Add the groups at the start."""
        for gif in gifs:
            self.add(gif)

    def add(self, gif: Gif) -> None:
        """Add a group."""
        place = len(self._gifs)
        if place == len(self._sizes):
            self._sizes = np.concatenate([self._sizes, np.ones_like(self._sizes)])
            self._alive = np.concatenate([self._alive, np.zeros_like(self._alive)])
        self._gifs.append(gif)
        self._places[gif.number] = place
        self._sizes[place] = gif.size
        self._alive[place] = True
        for publisher, bits in gif.profile.items():
            self._blocks[publisher].add(place, bits)

    def remove(self, gif: Gif) -> None:
        """Remove a group; when most rows are of removed groups, these rows are deleted."""
        self._alive[self._places.pop(gif.number)] = False
        self._dead += 1
        if self._dead > len(self._places):
            for block in self._blocks:
                block.drop_dead_rows(self._alive)
            self._dead = 0

    def closest(self, gif: Gif, allowed: Allowed) -> tuple[float, Gif] | None:
        """The closest other group that may be paired; among equals the one that was added first."""
        values = self._metric(self._count_common(gif), gif.size, self._sizes[: len(self._gifs)])
        values = np.where(self._alive[: len(self._gifs)], values, 0.0)
        values[self._places[gif.number]] = 0.0
        self.computations += len(self._places) - 1
        while True:
            place = int(values.argmax())
            if values[place] <= 0:
                return None
            if allowed(gif, self._gifs[place]):
                return float(values[place]), self._gifs[place]
            values[place] = 0.0

    def find_covered(self, gif: Gif) -> list[Gif]:
        """All groups that this one covers."""
        both = self._count_common(gif)
        sizes = self._sizes[: len(self._gifs)]
        inside = self._alive[: len(self._gifs)] & (both == sizes) & (sizes < gif.size)
        return [self._gifs[place] for place in np.flatnonzero(inside)]

    def _count_common(self, gif: Gif) -> npt.NDArray[np.int64]:
        totals = np.zeros(len(self._gifs), dtype=np.int64)
        for publisher, bits in gif.profile.items():
            self._blocks[publisher].add_common(bits, totals)
        return totals
