"""CRAM for networks that are too large for one process: parts are clustered separately, then packed together.

    cluster_in_pieces   clusters one part by itself; each cluster fits a broker and is made of small pieces
    lay_out_parts       packs all pieces on as few brokers as possible, whole clusters if they fit, else single pieces

Not in the paper. A part has the subscriptions with the same dominant publisher: subscriptions of other parts have
little in common with them, so that CRAM would not cluster them together either. But a part cannot take account of the
room that other parts leave in brokers; so clusters are made of pieces, about `PIECES` to a broker, and the packing may
split them (splitting.py). The number of pieces grows with brokers, not with subscriptions: the process that packs has
the pieces only.

Bits are weighted by the rate of their publisher. XOR, under which any two groups are close, cannot be sharded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from runnel.errors import InputError
from runnel.planning.algorithms.bound import lower_bound
from runnel.planning.algorithms.cram.clustering import CramOptions, cluster
from runnel.planning.algorithms.cram.cram import cram
from runnel.planning.algorithms.cram.splitting import split_on_fewest_brokers
from runnel.planning.algorithms.overlay import Allocate
from runnel.planning.algorithms.packing import DoesNotFit, Scheme, bin_packing
from runnel.planning.documents.constraints import Task
from runnel.planning.layout import Layout
from runnel.planning.load import Bin, Item, Traffic
from runnel.planning.planner import METRICS, PlanOptions, best_layout
from runnel.planning.profiles import union

PIECES = 40
"""Pieces to a broker. With more of them brokers are filled better, but packing takes longer."""

FEW = 5_000
"""BIN PACKING is tried only with so many pieces at most: it mixes all interests, so its overlays can take hours."""

SHARDABLE = tuple(name for name in METRICS if name != "CRAM-XOR")
"""The algorithms that can plan a network in parts."""


def clustering_options(options: PlanOptions) -> CramOptions:
    """The options with which parts are clustered."""
    if options.algorithm not in SHARDABLE:
        raise InputError(
            f"{options.algorithm} is planned in one process; in parts there are {', '.join(SHARDABLE)}"
        )
    return replace(
        options.cram, metric=METRICS[options.algorithm], split=True, weighted=True, pruning=True
    )


def reference_bin(bins: Sequence[Bin]) -> Bin:
    """The broker that clusters must fit: the one with the most output left."""
    if not bins:
        raise InputError("there is no broker that may be used: exclude fewer")
    widest = max(bins, key=lambda one: one.left)
    return Bin("", widest.left, widest.delay)


def cluster_in_pieces(
    items: Sequence[Item], one: Bin, traffic: Traffic, options: CramOptions
) -> list[list[Item]]:
    """Cluster the items of one part so that each cluster fits one broker; a cluster is a list of pieces.

    >>> from runnel.planning.profiles import PublisherProfile
    >>> traffic = Traffic((PublisherProfile("P", 10.0, 10.0, 9),), (10,))
    >>> items = [Item({0: 0b11 << n % 2}, 1, (n,)) for n in range(120)]
    >>> found = cluster_in_pieces(items, Bin("", 80), traffic, CramOptions())
    >>> [(len(each), max(len(piece.members) for piece in each)) for each in found]
    [(30, 2), (30, 2)]
    """
    small = replace(one, room=one.room // PIECES)
    # Items that are large already rarely find a partner, and the search takes longer for them.
    light = [each for each in items if 2 * each.need <= small.room]
    pieces = [*cluster(light, small, traffic, options)]
    pieces += [each for each in items if 2 * each.need > small.room]
    named = [replace(piece, members=(number,)) for number, piece in enumerate(pieces)]
    found = cluster(named, one, traffic, options)
    return [[pieces[number] for number in sorted(each.members)] for each in found]


@dataclass(frozen=True, slots=True)
class Parts:
    """All pieces, and the clusters as lists of their numbers. Pinned clients are in no cluster."""

    pieces: list[Item]
    clusters: list[list[int]]

    def without_quiet(self) -> Parts:
        """The same without the clusters that have no traffic; their pieces keep their numbers."""
        busy = [each for each in self.clusters if any(self.pieces[n].profile for n in each)]
        return Parts(self.pieces, busy)

    def cluster_items(self) -> list[Item]:
        """Every cluster as one item, whose members are pieces."""
        return [_join_pieces([self.pieces[number] for number in each]) for each in self.clusters]


def _join_pieces(pieces: Sequence[Item]) -> Item:
    return Item(
        union(one.profile for one in pieces),
        sum(one.need for one in pieces),
        tuple(member for one in pieces for member in one.members),
        sum(one.count for one in pieces),
    )


def lay_out_parts(parts: Parts, task: Task, traffic: Traffic, options: PlanOptions) -> Layout:
    """The best layout for these pieces, from packing by clusters and from BIN PACKING."""
    chosen = clustering_options(options)

    def by_cram(some: Sequence[Item], bins: Sequence[Bin], traffic: Traffic) -> Scheme:
        return cram(some, bins, traffic, chosen).best

    pieces, bins = parts.pieces, task.bins
    least = lower_bound(pieces, bins, traffic)
    split = split_on_fewest_brokers(parts.cluster_items(), pieces, bins, traffic, least, len(bins))
    candidates: list[tuple[Scheme, Allocate]] = [(split, by_cram)] if split else []
    if not split or len(pieces) <= FEW:
        try:
            candidates.append((bin_packing(task.items, bins, traffic), bin_packing))
        except DoesNotFit:
            if not split:
                raise
    return best_layout(candidates, task, pieces, traffic, options)
