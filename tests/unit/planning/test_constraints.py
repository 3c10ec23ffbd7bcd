"""Pinned clients, excluded brokers, head-room, limited moves; and that equal brokers are exchanged to save moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runnel.errors import InputError
from runnel.planning.documents.constraints import Constraints, assign_roles
from runnel.planning.documents.plan import Plan
from runnel.planning.layout import Layout
from runnel.planning.load import Bin, Delay
from runnel.planning.planner import PlanOptions, make_plan
from support.planning_small import ALL, BROKERS, small_network


def plan(output: float = 100.0, **constraints: object) -> Plan:
    return make_plan(small_network(output), PlanOptions(), Constraints(**constraints))  # type: ignore[arg-type]


def test_a_pinned_subscription_stays_and_others_join_it() -> None:
    found = plan(pinned={"s0": "B5"})
    assert found.subscriptions["s0"] == "B5" and found.brokers == 2
    assert list(found.subscriptions.values()).count("B5") > 1


def test_a_pinned_publisher_keeps_its_broker_in_the_overlay() -> None:
    found = plan(pinned={"P1": "B3", "s2": "B4"})
    assert found.publishers["P1"] == "B3" and {"B3", "B4"} <= set(found.overlay)


def test_a_pinned_publisher_is_no_subscription_to_the_bound() -> None:
    """Ten subscriptions to all of 10 msg/s are as many as a broker can match; the publisher makes no eleventh."""
    network = small_network(1_000.0, Delay(0, 10_000_000), profiles=({0: ALL},) * 10)
    network = replace(
        network,
        publishers=network.publishers[:1],
        spans=network.spans[:1],
        publisher_homes=network.publisher_homes[:1],
    )
    found = make_plan(network, PlanOptions(), Constraints({"P0": "B3"}))
    assert found.brokers == found.brokers_at_least == 1


def test_a_pinned_publisher_needs_no_output_for_subscriptions_that_are_with_it() -> None:
    """Two that want all of its 20 B/s leave no room for a third copy, and need none."""
    network = small_network(50.0, profiles=({0: ALL},) * 2)
    others = tuple(BROKERS[1:])
    found = make_plan(network, PlanOptions(), Constraints({"P0": "B0"}, others))
    assert set(found.subscriptions.values()) == {"B0"} and found.after["B0"].output_ratio == 0.8
    small = small_network(15.0, profiles=({0: 0b11},))
    assert make_plan(small, PlanOptions(), Constraints({"P0": "B0"}, others)).brokers == 1


def test_an_excluded_broker_is_drained() -> None:
    for broker in plan().overlay:
        found = plan(excluded=(broker,))
        assert broker not in found.overlay and broker in found.freed


def test_head_room_is_left_on_every_broker() -> None:
    found = plan(headroom_percent=40.0)
    assert found.brokers == 3
    assert all(load.output_ratio < 0.6 for load in found.after.values())


@pytest.mark.parametrize("most", range(0, 16))
def test_at_most_so_many_moves(most: int) -> None:
    found = plan(max_moves=most)
    assert len(found.moved) <= most


def test_more_moves_free_more_brokers() -> None:
    counts = [plan(max_moves=most).brokers for most in (0, 3, 6, 15)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 6 and counts[-1] == 2 and len(set(counts)) > 2


def test_without_moves_an_excluded_broker_with_clients_cannot_be_drained() -> None:
    with pytest.raises(InputError, match="at most 0 moves"):
        plan(max_moves=0, excluded=("B0",))


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ({"headroom_percent": 100.0}, "head-room is from 0"),
        ({"max_moves": -1}, "most moves"),
        ({"excluded": ("B0",), "pinned": {"s0": "B0"}}, "give up one of them"),
        ({"excluded": ("B9",)}, "B9, which is not in the network"),
        ({"pinned": {"nobody": "B0"}}, "no such subscription or publisher"),
        ({"excluded": BROKERS}, "no broker that may be used"),
        ({"pinned": {f"s{n}": "B1" for n in range(12)}}, "pin less there"),
    ],
)
def test_what_cannot_be_kept_is_said(constraints: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(**constraints)  # type: ignore[arg-type]


def test_the_baselines_know_no_pins() -> None:
    with pytest.raises(InputError, match="MANUAL cannot keep clients pinned"):
        make_plan(small_network(), PlanOptions("MANUAL"), Constraints({"s0": "B0"}))


def test_brokers_of_a_kind_are_exchanged_so_that_more_clients_stay() -> None:
    """All of B2's and B4's clients are together, under the names B0 and B1; B5 is of another kind."""
    network = small_network()
    at = dict(enumerate(network.subscription_homes))
    layout = Layout(
        {"B0": None, "B1": "B0"},
        {
            "B0": tuple(n for n, home in at.items() if home in ("B2", "B5")),
            "B1": tuple(n for n, home in at.items() if home not in ("B2", "B5")),
        },
        {0: "B0", 1: "B0", 2: "B1"},
    )
    bins = [Bin(name, 50 if name == "B5" else 100) for name in BROKERS]
    found = layout.rename_brokers(assign_roles(layout, network, bins))
    assert found.root == "B2", (
        "two subscriptions and P1 are there already; as many at B5, which is too small"
    )
    assert found.subscriptions["B2"] == layout.subscriptions["B0"]
    pinned = [Bin(name, 100, base=network.items()[0] if name == "B0" else None) for name in BROKERS]
    assert layout.rename_brokers(assign_roles(layout, network, pinned)).root == "B0"
