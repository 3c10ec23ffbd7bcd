"""The algorithms on any tree, against the recursions as the paper prints them; and trees from what brokers said."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.modules.placement.grape import (
    CLIENT,
    BrokerReport,
    Candidate,
    Choice,
    SessionTree,
    choose,
)
from runnel.modules.placement.messages import BrokerTrace, Hop
from runnel.modules.placement.reports import ANSWER_BYTES_MAX, build_session_tree, reports_that_fit


@st.composite
def trees(draw: st.DrawFn) -> dict[str, BrokerReport]:
    count = draw(st.integers(1, 9))
    beside: dict[int, list[int]] = {n: [] for n in range(count)}
    for n in range(1, count):
        parent = draw(st.integers(0, n - 1))
        beside[n].append(parent)
        beside[parent].append(n)
    times = st.integers(0, 1_000).map(lambda ms: ms / 1_000)
    return {
        f"B{n}": BrokerReport(
            f"B{n}",
            (*(f"B{other}" for other in others), "silent"),
            draw(st.integers(0, 255)),
            draw(st.integers(0, 20)),
            draw(times),
            draw(times),
            {target: draw(times) for target in (CLIENT, *(f"B{o}" for o in others))},
            {f"B{other}": draw(times) for other in others},
        )
        for n, others in beside.items()
    }


@dataclass
class Stats:
    total_delay: float = 0.0
    total_deliveries: int = 0


def calc_avg_delay(
    reports: dict[str, BrokerReport], stats: Stats, so_far: float, here: str, before: str | None
) -> None:
    """Algorithm 1 as printed."""
    report = reports[here]
    stats.total_delay += report.deliveries * (so_far + report.delay_to(CLIENT))
    stats.total_deliveries += report.deliveries
    for neighbour in report.neighbours:
        if neighbour != before and neighbour in reports:
            calc_avg_delay(reports, stats, so_far + report.delay_to(neighbour), neighbour, here)


def calc_total_msg_rate(reports: dict[str, BrokerReport], here: str, before: str | None) -> int:
    """Algorithm 2 as printed."""
    return calc_downstream_bv(reports, here, before).bit_count() + sum(
        calc_total_msg_rate(reports, neighbour, here)
        for neighbour in reports[here].neighbours
        if neighbour != before and neighbour in reports
    )


def calc_downstream_bv(reports: dict[str, BrokerReport], here: str, before: str | None) -> int:
    """Algorithm 3 as printed, without its memory."""
    bits = reports[here].bits
    for neighbour in reports[here].neighbours:
        if neighbour != before and neighbour in reports:
            bits |= calc_downstream_bv(reports, neighbour, here)
    return bits


@given(trees())
def test_the_algorithms_are_the_printed_ones(reports: dict[str, BrokerReport]) -> None:
    session = SessionTree(reports)
    for broker in reports:
        stats = Stats()
        calc_avg_delay(reports, stats, 0.25, broker, None)
        printed = stats.total_delay / stats.total_deliveries if stats.total_deliveries else 0.0
        assert session.calc_avg_delay(broker, 0.25) == pytest.approx(printed)
        assert session.calc_total_msg_rate(broker) == calc_total_msg_rate(reports, broker, None)
        for neighbour in reports[broker].neighbours[:-1]:
            found = session.calc_downstream_bv(broker, neighbour)
            assert found == calc_downstream_bv(reports, broker, neighbour)


@given(trees(), st.floats(0, 100), st.sampled_from(["delay", "load"]))
def test_the_chosen_broker_is_the_best_of_those_kept(
    reports: dict[str, BrokerReport], weight: float, metric: str
) -> None:
    choice = choose(reports, "B0", metric, weight)  # type: ignore[arg-type]
    chosen = next(one for one in choice.candidates if one.broker == choice.broker)
    for one in choice.candidates:
        if one.kept and metric == "load":
            assert chosen.delay_s <= one.delay_s
        elif one.kept:
            assert chosen.load <= one.load
    assert choice.gain_percent("B0", metric) >= 0  # type: ignore[arg-type]


def test_what_the_publisher_measures_counts_and_who_is_out_of_reach_is_dropped() -> None:
    def at(broker: str, *neighbours: str, deliveries: int) -> BrokerReport:
        return BrokerReport(
            broker, neighbours, 1, deliveries, link_s=dict.fromkeys(neighbours, 1.0)
        )

    chain = {
        "A": at("A", "B", deliveries=1),
        "B": at("B", "A", "C", deliveries=2),
        "C": at("C", "B", deliveries=9),
    }
    assert choose(chain, "A", "delay").broker == "C"
    assert choose(chain, "A", "delay", 100.0, {"A": 0.1, "B": 0.1, "C": 0.9}).broker == "B"
    choice = choose(chain, "A", "delay", 100.0, {"A": 0.1, "C": 3.0})
    assert choice.broker == "A" and [one.kept for one in choice.candidates] == [True, False, False]
    assert choose(chain, "A", "load", 50.0, {"A": 0.1}).broker == "A"


@pytest.mark.parametrize(
    ("metric", "here_is_kept", "gain"),
    [("load", False, 60.0), ("load", True, 25.0), ("delay", False, 25.0), ("delay", True, 60.0)],
)
def test_the_gain_is_in_the_metric_that_speaks_against_staying(
    metric: str, here_is_kept: bool, gain: float
) -> None:
    here, there = Candidate("A", 0, 0.4, 10, here_is_kept), Candidate("B", 1, 0.3, 4)
    assert Choice("B", (here, there)).gain_percent("A", metric) == pytest.approx(gain)  # type: ignore[arg-type]


def report_of(broker: str, *hops: str, bits: bytes = b"\x01", link_ns: int = 0) -> BrokerTrace:
    return BrokerTrace(broker, "", bits, 1, 0, 0, 0, tuple(Hop(hop, 5, link_ns) for hop in hops))


def test_a_link_is_one_for_both_ends() -> None:
    tree = build_session_tree(
        "A", [report_of("A", "B", link_ns=3_000), report_of("B", "A", "C"), report_of("C", "B")]
    )
    assert {name: report.neighbours for name, report in tree.items()} == {
        "A": ("B",),
        "B": ("A", "C"),
        "C": ("B",),
    }
    assert tree["B"].link_s == {"A": 3e-6, "C": 0.0}
    assert tree["B"].output_s == {CLIENT: 0.0, "A": 5e-9, "C": 5e-9}


def test_what_brokers_say_is_a_tree_whatever_they_say() -> None:
    circle = [
        report_of("A", "B", "C"),
        report_of("B", "C", "A"),
        report_of("C", "A", "B", "C"),
        report_of("D", "A"),
    ]
    tree = build_session_tree("A", circle)
    assert list(tree) == ["A", "B", "C"], "nobody says that it sent D anything"
    assert sum(len(report.neighbours) for report in tree.values()) == 4
    assert choose(tree, "A").broker in tree


def test_an_answer_fits_a_frame() -> None:
    large = report_of("A", bits=b"\xff" * 4_000)
    kept = reports_that_fit([large] * 1_000)
    assert 200 < len(kept) < 1_000 and len(kept) * 4_000 < ANSWER_BYTES_MAX
    assert reports_that_fit([report_of("A"), report_of("B")]) == (report_of("A"), report_of("B"))
