"""Subscriptions without traffic, where head-room is learned: they are dealt out to the brokers with most output left.

They need nothing today, so first fit puts all of them into the broker that is full first; and if any of them begin to
receive, as some do, it is that broker which is overloaded. Not in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heapreplace

from runnel.planning.layout import Layout, predict_loads
from runnel.planning.load import Bin, Item, Traffic


def deal_quiet(
    layout: Layout,
    quiet: Sequence[Item],
    items: Sequence[Item],
    traffic: Traffic,
    bins: Mapping[str, Bin],
) -> Layout:
    """The layout with these items too. While they are dealt out, each counts as much as a subscription on average."""
    if not quiet:
        return layout
    loads = predict_loads(layout, items, traffic)
    average = sum(one.need for one in items) // max(1, sum(one.count for one in items))
    left = [(load.output - bins[broker].room, broker) for broker, load in loads.items()]
    heapify(left)  # the broker with most output left is first
    dealt: dict[str, list[int]] = {broker: [] for broker in layout.parents}
    for one in quiet:
        full, broker = left[0]
        heapreplace(left, (full + average * one.count, broker))
        dealt[broker] += one.members
    places = {
        broker: tuple(sorted([*layout.subscriptions.get(broker, ()), *more]))
        for broker, more in dealt.items()
    }
    return replace(layout, subscriptions=places)
