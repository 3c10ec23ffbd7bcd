"""The experiment `green`, on eight brokers: all rows are there, chance has no part in them, plans run as laid out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runnel.errors import BugError, InputError
from runnel.lab.experiment import find_experiment
from runnel.lab.experiments.green import experiment as green
from runnel.lab.experiments.green.cases import (
    AWARE,
    FBF,
    HEADROOM,
    IOU,
    LAST,
    MANUAL,
    PACKING,
    SPLIT,
    GreenCase,
    Net,
)
from runnel.lab.experiments.green.live import run_live_case
from runnel.lab.experiments.green.run import past_events, plan_case, profile_network, run_case
from runnel.lab.planned_network import make_planned_network
from runnel.lab.run import run_scenario
from runnel.lab.scenario_workload import make_scenario_workload
from runnel.language import Filter
from runnel.planning.layout import Layout
from runnel.workload.shape import WorkloadPublisher
from support.twice import run_twice

PROGRAM = """
import sys
from pathlib import Path
from runnel.lab.experiment import ExperimentContext, find_experiment
from runnel.lab.experiments.green import experiment as green
from runnel.lab.experiments.green.cases import Net
from runnel.lab.figures import draw
from runnel.lab.report import Setup, make_results
from runnel.lab.results import encode_results

net = Net(8, 4, 8, days=35, capacity=0.1)
green.EXTENTS["quick"] = green.GreenExtent(
    homogeneous=(net._replace(per_publisher=16), net),
    heterogeneous=(net._replace(per_publisher=20, kind="heterogeneous"), net._replace(kind="heterogeneous")),
    large=(net._replace(brokers=12),), minutes=0.5, long_minutes=1.0, at=net, small=net, bits=(64,),
    headrooms=(0.0,), days=(70,), capacities=(2.0,), seconds_each=0.1, live=40, live_bits=64,
)
if __name__ == "__main__":
    out = Path(sys.argv[1])
    context = ExperimentContext(find_experiment("green"), "quick", 1, out / "green")
    found = context.experiment.run(context)
    both = [(context.experiment.criteria(), [found])]
    results = make_results(Setup(["green"], "quick", 1), both, "a machine")
    (out / "results.json").write_text(encode_results(results))
    (out / "runs.csv").write_text(found.tables[0].as_csv())
    for chart in found.charts[:2] + found.charts[-1:]:
        draw(chart, out)
    assert len({chart.name for chart in found.charts}) == len(found.charts)
"""
SURE = (
    *("ours-lost", "ours-duplicates", "ours-stray", "ours-undrained", "ours-predicted-rate"),
    *("ours-busiest", "allocate-all", "live-bir", "live-inexact"),
)
"""What holds at any size."""
TINY = Net(8, 4, 10, days=35, capacity=0.1)


@pytest.mark.slow
def test_all_rows_are_there_and_the_same_whatever_the_hash_seed(tmp_path: Path) -> None:
    one, rows = run_twice(PROGRAM, tmp_path)
    assert {id: rows[id].ours for id in SURE if rows[id].outcome != "holds"} == {}
    assert [id for id, row in rows.items() if not row.values] == []
    assert [id for id, row in rows.items() if row.kind == "calibrated"] == [
        *("none-overloaded", "saturated")
    ]
    assert rows["ours-lost"].note.endswith(" runs")
    for id, row in rows.items():
        if row.values:
            assert set(row.curves) == set(row.declared.over), id
    assert not list(one.glob("green/runs/*/trace"))  # there are many, and large


def test_settings_that_are_not_printed_are_swept_as_declared() -> None:
    plan, declared = green.EXTENTS["paper"], find_experiment("green").criteria().constants
    for name, swept, usual in (
        ("headroom", plan.headrooms, HEADROOM),
        ("days", plan.days, plan.small.days),
        ("capacity", plan.capacities, plan.small.capacity),
    ):
        assert declared[name].sweep == tuple(sorted({*swept, usual})), name


def test_every_case_has_a_name_of_its_own() -> None:
    for plan in green.EXTENTS.values():
        cases = plan.cases()
        assert len({case.name for case in cases}) == len(cases)
        assert all(plan.seconds(case) > 0 for case in cases)


def test_the_quick_scale_is_said_to_take_a_minute_not_seconds() -> None:
    """It took 94 s, figures apart, where other work took most of two processors."""
    assert 45 < find_experiment("green").seconds("quick") < 120


@pytest.mark.parametrize("algorithm", [MANUAL, *AWARE])
def test_a_plan_that_is_run_has_the_load_that_was_predicted(tmp_path: Path, algorithm: str) -> None:
    """Thirty seconds are 35 publications of each publisher: all quotes, once."""
    found, timing = run_case(GreenCase(TINY, algorithm, 0.5), tmp_path, 1)
    assert found.rate_error < 0.04 and found.output_error < 0.04
    assert found.delivered.is_exact and found.delivered.owed > 0
    assert found.brokers == (TINY.brokers if algorithm == MANUAL else found.brokers)
    if algorithm in AWARE:
        assert found.brokers < TINY.brokers and not found.overloaded
    assert timing["plan_cpu_s"] >= 0


def test_a_live_run_plans_what_brokers_answer_and_places_publishers_by_itself(
    tmp_path: Path,
) -> None:
    found, _ = run_live_case(GreenCase(TINY, IOU, 0.5, bits=64, live=40), tmp_path, 1)
    live = found.live
    assert live is not None and live.asking.brokers == TINY.brokers == live.asking.requests
    assert 0 < live.asking.bytes < live.asking.written_bytes
    assert found.brokers == live.brokers < TINY.brokers
    assert abs(live.brokers - live.offline_brokers) <= 1
    assert live.moved > 0 and live.same_homes <= live.publishers == TINY.publishers
    assert live.profiled.is_exact and live.profiled_drained and live.profiled.owed > 0
    assert found.delivered.is_exact and found.delivered.owed > 0 and found.drained
    assert not list(tmp_path.glob("*/trace"))


def test_a_live_run_needs_brokers_of_one_capacity(tmp_path: Path) -> None:
    net = Net(8, 4, 16, "heterogeneous", days=35, capacity=0.1)
    with pytest.raises(BugError, match="homogeneous"):
        run_live_case(GreenCase(net, IOU, 0.5, bits=64, live=40), tmp_path, 1)


def test_fewer_brokers_or_a_lower_rate(tmp_path: Path) -> None:
    found = {
        name: run_case(GreenCase(TINY._replace(per_publisher=30), name, 0.5), tmp_path / name, 1)[0]
        for name in (PACKING, IOU, LAST, SPLIT, FBF)
    }
    assert found[SPLIT].brokers <= found[IOU].brokers <= found[PACKING].brokers
    assert found[LAST].rate.mean <= found[IOU].rate.mean < found[PACKING].rate.mean
    assert found[IOU].planning.gifs > 0 == found[FBF].planning.gifs


def test_publishers_stay_at_the_root_without_grape_and_are_placed_in_manual_with_it() -> None:
    network = profile_network(TINY, 64, 1)
    rooted = plan_case(GreenCase(TINY, IOU, 1, "without GRAPE"), network, 1).layout
    assert set(rooted.publishers.values()) == {rooted.root}
    plain, placed = (
        plan_case(GreenCase(TINY, MANUAL, 1, grape), network, 1).layout
        for grape in ("", "with GRAPE")
    )
    assert plain.parents == placed.parents and plain.subscriptions == placed.subscriptions
    assert plain.publishers != placed.publishers


def test_a_layout_is_run_as_it_is(tmp_path: Path) -> None:
    """Brokers that are not in it do not start; everybody is where it says; others cannot be run on it."""
    network = profile_network(TINY, 64, 1)
    subscribers = tuple(range(len(network.subscriptions)))
    layout = Layout(
        {"B3": None, "B5": "B3"},
        {"B3": subscribers[::2], "B5": subscribers[1::2]},
        dict.fromkeys(range(len(network.publishers)), "B5"),
    )
    planned = make_planned_network(layout, network)
    assert planned.shape.brokers == ("B3", "B5") and planned.shape.links == (("B5", "B3"),)
    capacity = {one.name: one for one in network.brokers}["B5"]
    assert planned.resources["B5"].output_bytes_per_second == round(capacity.output or 0)
    assert planned.resources["B5"].match_ns_each == capacity.delay.each_ns
    scenario = replace(GreenCase(TINY, MANUAL, 0.2).scenario(), planned=planned)
    run = run_scenario(scenario, tmp_path, 1)
    assert run.info.brokers == 2 and run.info.drained
    fewer = replace(planned, homes={"pub-YHOO": "B3"})
    with pytest.raises(InputError, match="the plan has no broker for"):
        make_scenario_workload(replace(scenario, planned=fewer), planned.shape, 1)


def test_what_waits_for_the_output_is_added_up(tmp_path: Path) -> None:
    """One broker that takes 10 ms for each of ten copies: they wait 10, 20 … 100 ms, 55 on average."""
    net = Net(1, 1, 10, days=35)
    network = profile_network(net, 64, 1)
    frame = network.publishers[0].bandwidth / network.publishers[0].rate
    layout = Layout({"B0": None}, {"B0": tuple(range(10))}, {0: "B0"})
    planned = make_planned_network(layout, network)
    slow = replace(
        planned.resources["B0"], output_bytes_per_second=round(100 * frame), match_ns_each=0
    )
    slow = replace(slow, match_ns_base=0)
    scenario = replace(
        GreenCase(net, MANUAL, 0.2).scenario(), planned=replace(planned, resources={"B0": slow})
    )
    whole = [n for n, profile in enumerate(network.profiles) if profile == {0: (1 << 64) - 1}]
    run = run_scenario(scenario, tmp_path, 1)
    # Subscriptions with an inequality want a part of all: fewer copies, a shorter wait.
    assert 5 * (len(whole) + 1) <= run.client_wait_ns / 1e6 <= 55.5
    unlimited = replace(slow, output_bytes_per_second=0)
    free = replace(scenario, planned=replace(planned, resources={"B0": unlimited}))
    assert run_scenario(free, tmp_path / "free", 1).client_wait_ns == 0


def test_who_does_not_repeat_has_no_past() -> None:
    with pytest.raises(BugError, match="has no past"):
        past_events(WorkloadPublisher("P", Filter([]), 1.0, [{"a": 1}]), 3)
