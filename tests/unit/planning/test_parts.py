"""The smaller parts: conversion of bits, the bound, clusters by PAIRWISE, the baselines, splitting, the solver."""

from __future__ import annotations

import numpy as np
import pytest

from runnel import bits
from runnel.errors import InputError
from runnel.planning.algorithms.baselines import automatic_layout, manual_layout
from runnel.planning.algorithms.bound import lower_bound
from runnel.planning.algorithms.cram.splitting import split_packing
from runnel.planning.algorithms.exact import pack_exactly
from runnel.planning.algorithms.pairwise import pairwise_clusters, pairwise_scheme
from runnel.planning.layout import overloaded_brokers, parents_from_links, predict_loads
from runnel.planning.load import Bin, Capacity, Delay, Item, Traffic
from runnel.planning.profiles import PublisherProfile
from support.planning_small import small_network

TRAFFIC = Traffic((PublisherProfile("P", 10.0, 10.0, 9),), (10,))


def items(*vectors: int) -> list[Item]:
    return [Item({0: one} if one else {}, 10, (n,)) for n, one in enumerate(vectors)]


@pytest.mark.parametrize("length", [1, 63, 64, 65, 1_280])
def test_bits_go_there_and_back(length: int) -> None:
    vectors = [0, 1, (1 << length) - 1, 1 << (length - 1)]
    matrix = bits.pack(vectors, length)
    assert matrix.shape == (4, bits.words_for(length))
    assert bits.unpack(matrix) == vectors
    assert bits.count_bits(matrix).tolist() == [one.bit_count() for one in vectors]
    assert bits.count_common_bits(matrix, matrix[2]).tolist() == [
        one.bit_count() for one in vectors
    ]


def test_counting_by_table_is_counting() -> None:
    matrix = np.array([[0, 1], [2**64 - 1, 5]], dtype=np.uint64)
    assert bits._count_by_table(matrix).tolist() == [[0, 1], [64, 2]]


def test_places_of_bits() -> None:
    assert bits.vector_of_places([]) == 0
    assert bits.vector_of_places([0, 9, 64]) == 1 | 1 << 9 | 1 << 64


def test_the_bound_by_output_and_by_matching() -> None:
    rooms = [Bin("A", 25), Bin("B", 15), Bin("C", 15)]
    assert lower_bound(items(1, 1, 1), rooms, TRAFFIC) == 2
    assert lower_bound(items(*[1] * 9), rooms, TRAFFIC) == 4, "more than there are"
    assert lower_bound([], rooms, TRAFFIC) == 0
    # 10 msg/s can be matched with at most 5 subscriptions, 1 msg/s with 95.
    slow = [Bin(name, 10_000, Delay(50_000_000, 10_000_000)) for name in "ABCD"]
    assert lower_bound(items(*[1023] * 12), slow, TRAFFIC) == 3
    assert lower_bound(items(*[1] * 12), slow, TRAFFIC) == 1
    assert lower_bound(items(*[1] * 90, *[1023] * 6), slow, TRAFFIC) == 2


def test_the_bound_counts_what_is_pinned_once() -> None:
    pool = items(*[1] * 4)
    kept = Bin("C", 20, base=Item({0: 1}, 10, (3,)))
    assert lower_bound(pool, [Bin("A", 40), Bin("B", 40), kept], TRAFFIC) == 2
    assert lower_bound([], [Bin("A", 40), kept], TRAFFIC) == 1
    # A pinned publisher needs output for its publications, unless its subscriptions are all with it.
    publishes = Item({0: 1}, 10, (), 0)
    assert lower_bound(pool, [Bin("A", 40, base=publishes), Bin("B", 40)], TRAFFIC) == 1
    slow = Delay(50_000_000, 10_000_000)
    full = [Bin("A", 10_000, slow, Item({0: 1023}, 10, (), 0)), Bin("B", 10_000, slow)]
    assert lower_bound(items(*[1023] * 5), full, TRAFFIC) == 1
    several = [Item({0: 1023}, 10, (n,), 3) for n in range(4)]
    assert lower_bound(several, full, TRAFFIC) == 3, "12 subscriptions, 5 to a broker"


def test_pairwise_stops_at_the_number_asked_for() -> None:
    vectors = [0b1111, 0b1111, 0b1110, 0b11 << 8, 0b10 << 8, 0]
    for count in range(1, 7):
        found = pairwise_clusters(items(*vectors), TRAFFIC, count)
        assert len(found) == count
        assert sorted(n for cluster in found for n in cluster) == list(range(6))
    assert {frozenset(one) for one in pairwise_clusters(items(*vectors[:5]), TRAFFIC, 2)} == {
        frozenset({0, 1, 2}),
        frozenset({3, 4}),
    }


def test_pairwise_spreads_subscriptions_without_traffic_over_the_clusters() -> None:
    pool = items(0b1111, 0b1111, 0, 0b11 << 8, 0, 0)
    assert pairwise_clusters(pool, TRAFFIC, 2) == [[0, 1, 2, 5], [3, 4]]
    assert sorted(map(len, pairwise_clusters(pool, TRAFFIC, 3))) == [2, 2, 2]
    assert pairwise_clusters(items(0, 0, 0), TRAFFIC, 2) == [[0, 2], [1]]


def test_pairwise_n_gives_each_broker_a_cluster_and_k_draws() -> None:
    pool = items(1, 2, 4, 8, 16, 32)
    each = pairwise_scheme(pool, ["A", "B", "C"], TRAFFIC)
    assert all(each.placed.values())
    three = [pairwise_scheme(pool, ["A", "B", "C"], TRAFFIC, 3, seed) for seed in range(20)]
    assert not all(all(one.placed.values()) for one in three), "also with a cluster for each broker"
    drawn = pairwise_scheme(pool, ["A", "B", "C"], TRAFFIC, 5, seed=1)
    assert drawn == pairwise_scheme(pool, ["A", "B", "C"], TRAFFIC, 5, seed=1)
    assert sorted(n for numbers in drawn.placed.values() for n in numbers) == list(range(6))


def test_manual_has_a_fan_out_of_two_the_strongest_on_top() -> None:
    bins = [Bin(f"B{n}", 100 * (n + 1)) for n in range(7)]
    layout = manual_layout(bins, 1_000, 20, seed=1)
    assert layout.root == "B6" and layout.parents["B5"] == layout.parents["B4"] == "B6"
    children = list(layout.parents.values())
    assert max(children.count(f"B{n}") for n in range(7)) == 2
    assert len(layout.subscriptions["B6"]) > 3 * len(layout.subscriptions["B0"])
    assert manual_layout(bins, 50, 5, seed=2) != manual_layout(bins, 50, 5, seed=3)


def test_automatic_is_a_tree_by_lot() -> None:
    bins = [Bin(f"B{n}", 100) for n in range(20)]
    layout = automatic_layout(bins, 50, 5, seed=1)
    assert set(layout.neighbours()) == {one.name for one in bins}
    assert layout == automatic_layout(bins, 50, 5, seed=1) != automatic_layout(bins, 50, 5, seed=2)


def test_what_a_network_in_use_has_to_do() -> None:
    """P0 is at B0 and sends 10 msg/s; all of it goes down the chain as far as somebody wants it."""
    network = small_network(profiles=({0: (1 << 20) - 1}, {0: 0b1}))
    layout = network.layout()
    assert layout is not None
    loads = predict_loads(layout, network.items(), network.traffic())
    assert [load.input for load in loads.values()][:3] == [10_000_000, 500_000, 10_000_000]
    assert loads["B0"].output == 20_000_000 + 1_000_000, "to s0, and one message of twenty to B1"
    bins = {one.name: one for one in network.bins()}
    assert overloaded_brokers(loads, bins) == []
    assert overloaded_brokers(loads, {**bins, "B0": Bin("B0", 20_999_999)}) == ["B0"]


def test_a_network_that_is_no_tree_has_no_layout() -> None:
    assert small_network(links=(("B0", "B1"),) * 5).layout() is None
    assert small_network(links=()).layout() is None
    assert parents_from_links(["A", "B"], [("A", "B")], "B") == {"B": None, "A": "B"}


def test_splitting_gives_up_where_pieces_do_not_fit_either() -> None:
    pool = items(1, 2, 4)
    clusters = [Item({0: 7}, 30, (0, 1, 2), 3)]
    bins = [Bin("A", 15), Bin("B", 15), Bin("C", 15)]
    assert split_packing(clusters, pool, bins, TRAFFIC, 2) is None
    found = split_packing(clusters, pool, bins, TRAFFIC, 3)
    assert found is not None and sorted(map(len, found.placed.values())) == [1, 1, 1]


def test_a_capacity_must_be_a_number() -> None:
    with pytest.raises(InputError, match="give bytes per second"):
        Capacity("B", -1.0)
    assert Capacity("B", None).room > 10**20


def test_the_exact_packing_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "scipy.optimize", None)
    with pytest.raises(InputError, match=r"runnel\[solver\]"):
        pack_exactly(items(1), [Bin("A", 10)], TRAFFIC)


def test_the_exact_packing_by_hand() -> None:
    pytest.importorskip("scipy")
    pool = [Item({0: 1 << n}, need, (n,)) for n, need in enumerate((6, 5, 5, 4, 4, 4))]
    best = pack_exactly(pool, [Bin(name, 14) for name in "ABC"], TRAFFIC)
    assert best is not None and best.brokers == 2, "6 + 4 + 4 and 5 + 5 + 4: nothing is left over"
    assert pack_exactly(pool, [Bin("A", 14)], TRAFFIC) is None
    # The same brokers, the lower rate: who wants the same goes together.
    pairs = [
        Item({0: bits}, 5, (n,)) for n, bits in enumerate((0b1111, 0b110000, 0b1111, 0b110000))
    ]
    best = pack_exactly(pairs, [Bin(name, 10) for name in "AB"], TRAFFIC)
    assert best is not None and sorted(best.placed.values()) == [(0, 2), (1, 3)]
    assert best.rate == 6_000_000


def test_splitting_keeps_a_cluster_whole_in_the_tightest_gap_that_holds_it() -> None:
    pool = [Item({0: 1 << n}, 2, (n,)) for n in range(5)]
    clusters = [Item({0: 0b00111}, 6, (0, 1, 2), 3), Item({0: 0b11000}, 4, (3, 4), 2)]
    found = split_packing(clusters, pool, [Bin("A", 10), Bin("B", 6)], TRAFFIC, 2)
    assert found is not None and found.placed == {"A": (3, 4), "B": (0, 1, 2)}
    assert found.rate == 5_000_000
