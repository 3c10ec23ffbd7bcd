"""Plans in parts, without Spark: parts of a workload are clustered separately, and compared with CRAM on the whole."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from runnel.errors import InputError
from runnel.planning.algorithms.cram.clustering import CramOptions, cluster
from runnel.planning.algorithms.cram.cram import cram
from runnel.planning.algorithms.cram.sharding import (
    Parts,
    cluster_in_pieces,
    clustering_options,
    lay_out_parts,
    reference_bin,
)
from runnel.planning.algorithms.cram.splitting import split_on_fewest_brokers, split_packing
from runnel.planning.algorithms.packing import DoesNotFit
from runnel.planning.documents.constraints import Task
from runnel.planning.layout import overloaded_brokers, predict_loads
from runnel.planning.load import MICRO, Bin, Delay, Item, Traffic
from runnel.planning.planner import PlanOptions, lay_out
from runnel.planning.profiles import PublisherProfile, union

SPAN = 100


def traffic_of(publishers: int, rates: tuple[float, ...] = (1.0,)) -> Traffic:
    """Publishers with these rates in turn; a message has 100 bytes."""
    in_turn = [rates[number % len(rates)] for number in range(publishers)]
    profiles = (
        PublisherProfile(f"P{n}", rate, 100 * rate, SPAN - 1) for n, rate in enumerate(in_turn)
    )
    return Traffic(tuple(profiles), (SPAN,) * publishers)


def items_of(traffic: Traffic, each: int, seed: int = 1) -> list[Item]:
    """`each` subscriptions to every publisher; their bits are those below a random threshold."""
    lots = Random(f"{seed}/items")
    found: list[Any] = []
    for publisher in range(len(traffic.publishers)):
        for _ in range(each):
            profile = {publisher: (1 << lots.randint(SPAN // 2, SPAN)) - 1}
            found.append(Item(profile, traffic.need(profile), (len(found),)))
    return found


def bins_of(count: int, output: int, delay: Delay | None = None) -> list[Bin]:
    return [Bin(f"B{n}", output * MICRO - 1, delay or Delay()) for n in range(count)]


def parts_of(items: list[Item], traffic: Traffic, bins: list[Bin]) -> tuple[Parts, list[Item]]:
    """Cluster the subscriptions of every publisher separately: the parts, and the pieces with their members."""
    options = clustering_options(PlanOptions())
    pieces: list[Item] = []
    clusters: list[list[int]] = []
    for publisher in range(len(traffic.publishers)):
        part = [one for one in items if publisher in one.profile]
        for found in cluster_in_pieces(part, reference_bin(bins), traffic, options):
            clusters.append(list(range(len(pieces), len(pieces) + len(found))))
            pieces += found
    named = [replace(one, members=(number,)) for number, one in enumerate(pieces)]
    return Parts(named, clusters), pieces


def test_nothing_is_lost_in_pieces_and_every_cluster_fits() -> None:
    traffic = traffic_of(3)
    items = items_of(traffic, 50)
    one = Bin("", 1_500 * MICRO)
    found = cluster_in_pieces(items, one, traffic, CramOptions())
    assert sorted(n for each in found for piece in each for n in piece.members) == list(range(150))
    for each in found:
        assert sum(piece.need for piece in each) <= one.room
        for piece in each:
            members = [items[n] for n in piece.members]
            assert piece.profile == union(member.profile for member in members)
            assert piece.need == sum(member.need for member in members)
            assert piece.count == len(members)


def test_clusters_keep_to_what_a_broker_can_match() -> None:
    traffic = traffic_of(4, (10.0,))
    items = items_of(traffic, 10)
    one = Bin("", 10**9 * MICRO, Delay(50_000_000, 0))  # 20 messages a second: two publishers
    found = cluster(items, one, traffic, CramOptions())
    assert len(found) > 1
    assert all(traffic.rate(each.profile) <= 20 * MICRO for each in found)


def test_parts_come_to_what_the_whole_comes_to() -> None:
    traffic = traffic_of(8)
    items = items_of(traffic, 60)
    bins = bins_of(60, 1_200)
    parts, _ = parts_of(items, traffic, bins)
    layout = lay_out_parts(
        parts, Task(tuple(parts.pieces), tuple(bins), {}), traffic, PlanOptions()
    )
    loads = predict_loads(layout, parts.pieces, traffic)
    assert not overloaded_brokers(loads, {one.name: one for one in bins})
    whole = lay_out(
        Task(tuple(items), tuple(bins), {}), items, traffic, PlanOptions("CRAM-SPLIT")
    ).layout
    rate = sum(load.input for load in predict_loads(whole, items, traffic).values())
    assert abs(len(loads) - len(whole.parents)) <= 1
    assert sum(load.input for load in loads.values()) <= 1.05 * rate


def test_what_does_not_fit_is_an_error() -> None:
    traffic = traffic_of(2)
    bins = bins_of(2, 1_200)
    parts, _ = parts_of(items_of(traffic, 60), traffic, bins)
    with pytest.raises(DoesNotFit):
        lay_out_parts(parts, Task(tuple(parts.pieces), tuple(bins), {}), traffic, PlanOptions())


def test_xor_has_no_parts_and_without_brokers_there_is_no_plan() -> None:
    with pytest.raises(InputError, match="planned in one process"):
        clustering_options(PlanOptions("CRAM-XOR"))
    with pytest.raises(InputError, match="exclude fewer"):
        reference_bin([])


def test_a_bit_of_a_fast_publisher_is_worth_more() -> None:
    traffic = traffic_of(2, (1.0, 100.0))
    # The middle one has more bits in common with the slow side, but more messages with the fast one.
    middle, slow, fast = {0: 0b1111, 1: 0b11}, {0: 0b1111}, {1: 0b11}
    items = [Item(profile, 4, (n,)) for n, profile in enumerate((middle, slow, fast))]
    plain = cluster(items, Bin("", 8), traffic, CramOptions(metric="IOU"))
    weighted = cluster(items, Bin("", 8), traffic, CramOptions(metric="IOU", weighted=True))
    assert (0, 1) in [one.members for one in plain]
    assert (0, 2) in [one.members for one in weighted]


def test_the_fewest_brokers_are_found_in_large_steps_too() -> None:
    traffic = traffic_of(1)
    items = [Item({0: 1}, 6, (n,)) for n in range(40)]  # a broker of 10 takes one
    bins = [Bin(f"B{n}", 10) for n in range(64)]
    found = split_on_fewest_brokers(items, items, bins, traffic, 24, 64)
    assert found is not None and found.brokers == 40
    assert split_on_fewest_brokers(items, items, bins, traffic, 24, 39) is None
    assert split_packing(items, items, bins, traffic, 39) is None


def test_cram_does_as_before_with_clusters_of_its_own() -> None:
    traffic = traffic_of(3)
    items, bins = items_of(traffic, 20), bins_of(10, 1_200)
    result = cram(items, bins, traffic, CramOptions(split=True))
    assert sorted(n for found in result.best.placed.values() for n in found) == list(range(60))
