"""CRAM for networks that no single process sees whole: parts are clustered by themselves, then packed together.

    in_pieces      one part, where nobody sees the others: clusters that fit a broker, each made of small pieces
    lay_out_parts  all pieces together: on as few brokers as possible, clusters whole where they fit, else by pieces

Not in the paper. A part is what shares its dominant publisher: groups of other publishers have little in common with
it, so that CRAM would not look at them either. What is lost is that parts know nothing of the brokers left over; so
clusters are made of pieces, about `PIECES` to a broker, and packing may take them apart (splitting.py). Pieces are as
many as brokers, however many subscriptions there are: the one process that packs never sees those.

Bits are weighted: one of a fast publisher is worth more. XOR, under which everybody is close to all, has no parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from runnel.allocation.bound import lower_bound
from runnel.allocation.clustering import CramOptions, cluster
from runnel.allocation.constraints import Task
from runnel.allocation.cram import cram
from runnel.allocation.layout import Layout
from runnel.allocation.load import Bin, Item, Traffic
from runnel.allocation.overlay import Allocate
from runnel.allocation.packing import DoesNotFit, Scheme, bin_packing
from runnel.allocation.planner import METRICS, PlanOptions, best_layout
from runnel.allocation.profiles import union
from runnel.allocation.splitting import fewest_split
from runnel.errors import InputError

PIECES = 40
"""Pieces to a broker: the more, the fuller brokers get, and the more there is to pack."""

FEW = 5_000
"""Pieces. With more of them BIN PACKING, which mixes everybody with everybody, makes overlays that take hours."""

AT_SCALE = tuple(name for name in METRICS if name != "CRAM-XOR")
"""The algorithms that have parts."""


def options_of(options: PlanOptions) -> CramOptions:
    """How parts are clustered."""
    if options.algorithm not in AT_SCALE:
        raise InputError(
            f"{options.algorithm} is planned in one process; in parts there are {', '.join(AT_SCALE)}"
        )
    return replace(
        options.cram, metric=METRICS[options.algorithm], split=True, weighted=True, pruning=True
    )


def reference(bins: Sequence[Bin]) -> Bin:
    """The broker that clusters are made for: the one with the most output left."""
    if not bins:
        raise InputError("there is no broker that may be used: exclude fewer")
    widest = max(bins, key=lambda one: one.left)
    return Bin("", widest.left, widest.delay)


def in_pieces(
    items: Sequence[Item], one: Bin, traffic: Traffic, options: CramOptions
) -> list[list[Item]]:
    """Clusters of a part of the items, each of which fits one broker, as lists of pieces.

    >>> from runnel.allocation.profiles import PublisherProfile
    >>> traffic = Traffic((PublisherProfile("P", 10.0, 10.0, 9),), (10,))
    >>> items = [Item({0: 0b11 << n % 2}, 1, (n,)) for n in range(120)]
    >>> found = in_pieces(items, Bin("", 80), traffic, CramOptions())
    >>> [(len(each), max(len(piece.members) for piece in each)) for each in found]
    [(30, 2), (30, 2)]
    """
    small = replace(one, room=one.room // PIECES)
    # What is large already would hardly find a partner, and look for it all the longer.
    light = [each for each in items if 2 * each.need <= small.room]
    pieces = [*cluster(light, small, traffic, options)]
    pieces += [each for each in items if 2 * each.need > small.room]
    named = [replace(piece, members=(number,)) for number, piece in enumerate(pieces)]
    found = cluster(named, one, traffic, options)
    return [[pieces[number] for number in sorted(each.members)] for each in found]


@dataclass(frozen=True, slots=True)
class Parts:
    """All pieces, by number, and which of them are one cluster; what is pinned is in none."""

    pieces: list[Item]
    clusters: list[list[int]]

    def clustered(self) -> list[Item]:
        """Every cluster as one item, whose members are pieces."""
        return [_joined([self.pieces[number] for number in each]) for each in self.clusters]


def _joined(pieces: Sequence[Item]) -> Item:
    return Item(
        union(one.profile for one in pieces),
        sum(one.need for one in pieces),
        tuple(member for one in pieces for member in one.members),
        sum(one.count for one in pieces),
    )


def lay_out_parts(parts: Parts, task: Task, traffic: Traffic, options: PlanOptions) -> Layout:
    """The network for these pieces: the best of what packing by clusters and BIN PACKING lead to."""
    chosen = options_of(options)

    def by_cram(some: Sequence[Item], bins: Sequence[Bin], traffic: Traffic) -> Scheme:
        return cram(some, bins, traffic, chosen).best

    pieces, bins = parts.pieces, task.bins
    least = lower_bound(pieces, bins, traffic)
    split = fewest_split(parts.clustered(), pieces, bins, traffic, least, len(bins))
    candidates: list[tuple[Scheme, Allocate]] = [(split, by_cram)] if split else []
    if not split or len(pieces) <= FEW:
        try:
            candidates.append((bin_packing(task.items, bins, traffic), bin_packing))
        except DoesNotFit:
            if not split:
                raise
    return best_layout(candidates, task, pieces, traffic, options)
