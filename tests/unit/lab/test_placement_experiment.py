"""The experiment `placement`, on seven brokers: all its rows are there, and chance has no part in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from runnel.errors import InputError
from runnel.lab.experiment import ExperimentContext, find_experiment
from runnel.lab.experiments.placement import experiment as placement
from runnel.lab.experiments.placement.cases import (
    CLUSTER,
    GAIN_PERCENT,
    RATE_PER_MIN,
    WIDE,
    Pace,
    Pings,
    PlacementCase,
    measure,
)
from runnel.lab.experiments.placement.sweeps import PlacementSweeps, delay, utilisation
from runnel.lab.run import run_scenario
from runnel.lab.scenario import make_scenario
from support.twice import run_twice

PROGRAM = """
import sys
from pathlib import Path
from runnel.lab.experiment import ExperimentContext, find_experiment
from runnel.lab.experiments.placement import experiment as placement
from runnel.lab.experiments.placement.cases import Pace
from runnel.lab.figures import draw
from runnel.lab.report import Setup, make_results
from runnel.lab.results import encode_results

placement.EXTENTS["quick"] = placement.PlacementExtent(
    Pace(7, publishers=1, faster=20.0), enterprise=(1, 4), random=(4,), fan_out_4=(1, 4), mixes_4=("enterprise",),
    at=4, weights=(1, 100), grape_thresholds=(10, 400, 12_800), pop_thresholds=(10, 400), publications=650,
    rates_per_min=(30.0,), latencies_ms=(80.0,), more_brokers=15, shared=24.0, rate_of_series=4.5, seconds_each=0.1,
    hundreds=31, publishers_of_hundreds=2,
)
if __name__ == "__main__":
    out = Path(sys.argv[1])
    context = ExperimentContext(find_experiment("placement"), "quick", 1, out / "placement")
    found = context.experiment.run(context)
    both = [(context.experiment.criteria(), [found])]
    results = make_results(Setup(["placement"], "quick", 1), both, "a machine")
    (out / "results.json").write_text(encode_results(results))
    (out / "runs.csv").write_text(found.tables[0].as_csv())
    for chart in found.charts[:1] + found.charts[-1:]:
        draw(chart, out)
    assert len({chart.name for chart in found.charts}) == len(found.charts)
"""
SURE = (
    *("lost", "ours-duplicates", "ours-stray", "ours-undrained", "ours-undone"),
    *("same-broker", "grape-12800-moved", "selection-70-ms"),
)
"""What holds at any size."""


@pytest.mark.slow
def test_all_rows_are_there_and_the_same_whatever_the_hash_seed(tmp_path: Path) -> None:
    _, rows = run_twice(PROGRAM, tmp_path)
    assert {id: rows[id].ours for id in SURE if rows[id].outcome != "holds"} == {}
    assert [id for id, row in rows.items() if not row.values] == []
    assert [id for id, row in rows.items() if row.kind == "calibrated"] == [
        *("overhead-pop", "random-overloads")
    ]
    assert "in 65 runs with" in rows["lost"].note
    in_series, at_once = rows["pings-wide"].ours, rows["pings-at-once"].ours
    assert in_series is not None and at_once is not None and in_series > 100 * at_once > 0
    for id, row in rows.items():
        if row.values:
            assert set(row.curves) == set(row.declared.over), id


def test_settings_that_are_not_printed_are_swept_as_declared() -> None:
    plan, declared = placement.EXTENTS["paper"], find_experiment("placement").criteria().constants
    for name, swept, usual in (
        ("rate", plan.rates_per_min, RATE_PER_MIN),
        ("latency", plan.latencies_ms, WIDE.latency_ms),
        ("brokers", (plan.more_brokers,), 0),
        ("gain", (placement.DEFAULT_GAIN,), GAIN_PERCENT),
        ("x", plan.enterprise, 1),
    ):
        assert declared[name].sweep == tuple(sorted({*swept, usual})), name


def test_grape_moves_for_any_gain_as_in_the_paper() -> None:
    for name in ("load 100%", "delay 100%"):
        scenario = PlacementCase(WIDE, "random", 16, name).scenario(Pace(63, 40, 1.0))
        assert scenario.placement is not None and scenario.placement.gain_percent_min == 0
    assert "for any gain" in placement.setting(placement.EXTENTS["paper"])


def test_a_pace_changes_rates_and_windows_together() -> None:
    case = PlacementCase(WIDE, "enterprise", 4, "POP")
    slow, fast = (case.scenario(Pace(7, 2, faster)) for faster in (1.0, 10.0))
    assert slow.placement is not None and fast.placement is not None
    assert slow.placement.w_s == 60 and fast.placement.w_s == 6
    assert slow.placement.n == fast.placement.n == 50
    slow_rate, fast_rate = (one.workload.parameters["rate_per_min"] for one in (slow, fast))
    assert fast_rate == 10 * slow_rate
    assert slow.time.measure_s == pytest.approx(10 * fast.time.measure_s)
    assert (
        PlacementCase(WIDE, "enterprise", 4, "static").scenario(Pace(7, 2, 1.0)).placement is None
    )
    grape = PlacementCase(CLUSTER, "random", 4, "delay 25%").scenario(Pace(7, 2, 1.0)).placement
    assert grape is not None
    assert (grape.algorithm, grape.metric, grape.weight_percent) == ("grape", "delay", 25)


@pytest.mark.parametrize("pings", ["at once", "in series"])
def test_pings_in_series_take_as_long_as_all_of_them(tmp_path: Path, pings: Pings) -> None:
    case = PlacementCase(CLUSTER, "enterprise", 15, "delay 1%", pings=pings)
    found = measure(run_scenario(case.scenario(Pace(15, 1, 50.0)), tmp_path, 1))
    ((brokers, took_s),) = found.pings
    assert brokers > 5
    round_trip_s = 2 * CLUSTER.client_ms / 1e3
    times = brokers if pings == "in series" else 1
    # And one way there and back to the publisher that is asked.
    assert took_s == pytest.approx(5 * times * round_trip_s + round_trip_s)


@pytest.mark.slow
def test_one_run_against_another(tmp_path: Path) -> None:
    """What is saved is worked out of two runs, each measured where it was run."""
    cases = [PlacementCase(WIDE, "enterprise", 1, name) for name in ("static", "load 100%")]
    experiment = find_experiment("placement")
    context = ExperimentContext(experiment, "quick", 1, tmp_path)
    scenarios = {case.name: case.scenario(Pace(15, 2, 50.0)) for case in cases}
    found = context.simulate_all(scenarios, measure)
    assert list(found) == list(scenarios)
    assert set(context.timings) == set(scenarios)
    sweeps = PlacementSweeps({case: found[case.name] for case in cases}, 1)
    static, load = found.values()
    assert static.hops > load.hops == 0
    assert static.migrated == static.added == 0 < load.migrated <= 2
    assert sweeps.values_by_x(utilisation, WIDE, "enterprise", "static") == {
        1: 100 * static.input_ratio
    }
    both_miles = 2 * WIDE.client_ms
    assert sweeps.value_of(delay, cases[1]) == pytest.approx(both_miles, abs=10)  # and matching
    saved = sweeps.reductions_by_x(delay, WIDE, "enterprise", "load 100%")[1]
    assert saved == pytest.approx(
        100 - 100 * sweeps.value_of(delay, cases[1]) / sweeps.value_of(delay, cases[0])
    )


def test_mistakes_in_other_processes_are_told_as_such(tmp_path: Path) -> None:
    context = ExperimentContext(find_experiment("placement"), "quick", 1, tmp_path)
    workload = {"name": "stocks", "per_publisher": 0}
    wrong = make_scenario({"topology": {"shape": "star"}, "workload": workload})
    step = placement.steps("quick")[0].name
    with pytest.raises(InputError, match=r"^workload\.per_publisher: "):
        context.simulate_all({step: wrong}, measure)
