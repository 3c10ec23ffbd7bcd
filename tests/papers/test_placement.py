"""Worked examples of placement: Figs. 1 to 3 as the text describes them, and Algorithms 1 to 3 by hand."""

from __future__ import annotations

import pytest

from runnel.modules.placement.grape import CLIENT, BrokerReport, SessionTree, choose, with_delivery
from runnel.modules.placement.pop import LOCAL, ProfileTable, next_step

# Fig. 1: P is at B1. The text gives B1's table and 15 behind B5, all of them at and behind B6; how B6's 15 are
# shared out is not in our text, only that none of its neighbours satisfies the condition.
FIG_1 = {
    "B1": ProfileTable({"B2": 6, "B4": 3, "B5": 15, LOCAL: 1}, traced=1),
    "B5": ProfileTable({"B6": 15, LOCAL: 0}, traced=1),
    "B6": ProfileTable({"B7": 6, "B8": 5, LOCAL: 4}, traced=1),
}


def test_fig_1_the_request_goes_from_b1_by_b5_to_b6() -> None:
    path, broker, upstream, behind = ["B1"], "B1", None, 0.0
    told = []
    while (step := next_step(FIG_1[broker], upstream, behind)).closest is not None:
        upstream, broker, behind = broker, step.closest, step.behind
        path.append(broker)
        told.append(behind)
    assert path == ["B1", "B5", "B6"]
    assert told == [10, 10], "10 subscribers at B1 and behind B2 and B4, none at B5"


@pytest.mark.parametrize(
    ("table", "closest"),
    [
        ({"B1": 7, "B3": 2, LOCAL: 1}, "B1"),  # (a) a neighbour satisfies the closest condition
        ({"B1": 4, "B3": 4, LOCAL: 1}, None),  # (b) none does: the broker itself
        ({"B1": 2, LOCAL: 5}, None),  # (c) the original broker is the closest
        ({"B1": 5, LOCAL: 5}, None),  # half is not more than the rest
    ],
)
def test_fig_2_all_outcomes(table: dict[str, float], closest: str | None) -> None:
    assert next_step(ProfileTable(table, traced=1), None, 0).closest == closest


def test_damping_keeps_a_publisher_from_moving_for_one_subscriber() -> None:
    table = ProfileTable({"B1": 6, LOCAL: 5}, traced=1)
    assert next_step(table, None, 0).closest == "B1"
    assert next_step(table, None, 0, damping=1).closest is None


def test_fig_3_the_bit_vector_of_a_trace_session() -> None:
    bits = 0
    for number in (213, 215, 216, 217, 220, 222, 225, 226):
        bits = with_delivery(bits, 212, number)
    printed = "0 1 0 1 1 1 0 0 1 0 1 0 0 1 1 0 0".split()
    assert [str(bits >> place & 1) for place in range(17)] == printed


# Five brokers, the publisher at A:   A – B – C, B – D – E
FIVE = {
    "A": BrokerReport("A", ("B",), 0b0000, 0, 0.0, 0.001, {"B": 0.002}, {"B": 0.010}),
    "B": BrokerReport(
        "B",
        ("A", "C", "D"),
        0b0001,
        1,
        0.0,
        0.001,
        {CLIENT: 0.001, "A": 0.002, "C": 0.002, "D": 0.002},
        {"A": 0.010, "C": 0.010, "D": 0.010},
    ),
    "C": BrokerReport(
        "C", ("B",), 0b0011, 2, 0.0, 0.001, {CLIENT: 0.001, "B": 0.002}, {"B": 0.010}
    ),
    "D": BrokerReport(
        "D",
        ("B", "E"),
        0b0000,
        0,
        0.0,
        0.001,
        {"B": 0.002, "E": 0.002},
        {"B": 0.010, "E": 0.010},
    ),
    "E": BrokerReport(
        "E", ("D",), 0b1111, 4, 0.0, 0.001, {CLIENT: 0.001, "D": 0.002}, {"D": 0.010}
    ),
}


@pytest.mark.parametrize(
    ("broker", "upstream", "bits"),
    [
        ("C", "B", 0b0011),
        ("D", "B", 0b1111),
        ("B", "A", 0b1111),
        ("B", "D", 0b0011),
        ("B", "C", 0b1111),
        ("A", "B", 0b0000),
    ],
)
def test_algorithm_3_by_hand(broker: str, upstream: str, bits: int) -> None:
    assert SessionTree(FIVE).calc_downstream_bv(broker, upstream) == bits


@pytest.mark.parametrize(
    ("broker", "rate"),
    [
        ("A", 4 + 4 + 2 + 4 + 4),  # A, B, C, D, E
        ("B", 0 + 4 + 2 + 4 + 4),
        ("C", 0 + 4 + 4 + 4 + 4),
        ("D", 0 + 2 + 2 + 4 + 4),
        ("E", 0 + 2 + 2 + 2 + 4),
    ],
)
def test_algorithm_2_by_hand(broker: str, rate: int) -> None:
    assert SessionTree(FIVE).calc_total_msg_rate(broker) == rate


def test_algorithm_1_by_hand() -> None:
    # A hop costs 1 ms of matching, 2 ms of queueing and 10 ms on the link; a delivery 1 + 1 ms.
    # From E: 4 deliveries at 2 ms, 1 at 26 + 2, 2 at 39 + 2: 118 ms over 7 deliveries.
    session = SessionTree(FIVE)
    assert session.calc_avg_delay("E") == pytest.approx(0.118 / 7)
    # From B: 1 at 2 ms, 2 at 15 ms, 4 at 28 ms.
    assert session.calc_avg_delay("B") == pytest.approx((0.002 + 2 * 0.015 + 4 * 0.028) / 7)
    assert session.calc_avg_delay("B", ping_s=0.1) == pytest.approx(0.1 + 0.144 / 7)


def test_the_choice_follows_the_metric_and_its_weight() -> None:
    assert choose(FIVE, "A", "load", 100).broker == "E"
    assert choose(FIVE, "A", "delay", 100).broker == "E"
    far = {broker: 0.5 if broker == "E" else 0.0 for broker in FIVE}
    assert choose(FIVE, "A", "delay", 100, far).broker == "D", "E takes half a second to reach"
    assert choose(FIVE, "A", "load", 100, far).broker == "E", "which is of no interest here"
    # With the least weight everything is kept, and the other metric alone decides.
    assert choose(FIVE, "A", "load", 0, far).broker == choose(FIVE, "A", "delay", 100, far).broker


def test_ties_are_settled_by_hops_then_by_staying() -> None:
    same = {name: BrokerReport(name, neighbours, 1, 1) for name, neighbours in TRIANGLE.items()}
    assert choose(same, "M").broker == "M"
    nothing_here = same | {"M": BrokerReport("M", TRIANGLE["M"], 0, 0)}
    assert choose(nothing_here, "L").broker == "L"


TRIANGLE = {"L": ("M",), "M": ("L", "R"), "R": ("M",)}


def test_a_chain_of_thousands_is_no_problem() -> None:
    names = [f"B{n}" for n in range(3_000)]
    chain = {
        name: BrokerReport(name, tuple(names[max(0, n - 1) : n] + names[n + 1 : n + 2]), 1, 1)
        for n, name in enumerate(names)
    }
    assert SessionTree(chain).calc_downstream_bv(names[0], None) == 1
