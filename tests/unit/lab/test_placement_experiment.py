"""The experiment `placement`, on seven brokers: all its rows are there, and chance has no part in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from runnel.errors import InputError
from runnel.lab.experiment import Desk, find_experiment
from runnel.lab.experiments import placement
from runnel.lab.experiments.placement_cases import CLUSTER, WIDE, Case, Pace, measure
from runnel.lab.experiments.placement_sweeps import Sweeps, delay, utilisation
from runnel.lab.scenario import make_scenario
from twice import run_twice

PROGRAM = """
import sys
from pathlib import Path
from runnel.lab.experiment import Desk, find_experiment
from runnel.lab.experiments import placement
from runnel.lab.experiments.placement_cases import Pace
from runnel.lab.figures import draw
from runnel.lab.report import Setup, results_json

placement.PLANS["quick"] = placement.Plan(
    Pace(7, publishers=1, faster=20.0), enterprise=(1, 4), random=(4,), fan_out_4=(1,), mixes_4=("enterprise",),
    at=4, weights=(1, 100), grape_thresholds=(10, 400, 12_800), pop_thresholds=(10, 400), publications=650,
    rates_per_min=(30.0,), seconds_each=0.1,
)
if __name__ == "__main__":
    out = Path(sys.argv[1])
    desk = Desk(find_experiment("placement"), "quick", 1, out / "placement")
    found = desk.experiment.run(desk)
    (out / "results.json").write_text(results_json(Setup(["placement"], "quick", 1), [found]))
    (out / "runs.csv").write_text(found.tables[0].as_csv())
    (out / "timings.txt").write_text(repr(desk.timings[placement.SELECTING]["milliseconds"]))
    for chart in found.charts[:1] + found.charts[-1:]:
        draw(chart, out)
    assert len({chart.name for chart in found.charts}) == len(found.charts)
"""
SURE = (
    *("deliveries lost", "deliveries made twice", "deliveries to who did not ask for them"),
    *("runs that did not drain", "migrations undone"),
    "X = 1: publishers for whom POP and GRAPE choose different brokers",
    "GRAPE with 12,800 samples: publishers moved",
    "GRAPE chooses among 63 brokers within 70 ms (1: yes)",
)
"""What holds at any size."""


def test_all_rows_are_there_and_the_same_whatever_the_hash_seed(tmp_path: Path) -> None:
    one, rows = run_twice(PROGRAM, tmp_path)
    assert len(rows) == 52
    assert [claim for claim in SURE if not rows[claim]["holds"]] == []
    assert [claim for claim, row in rows.items() if row["calibrated"]] == [
        "message overhead of POP"
    ]
    assert "in 36 runs with" in rows["deliveries lost"]["note"]
    assert float((one / "timings.txt").read_text()) > 0


def test_a_pace_changes_rates_and_windows_together() -> None:
    case = Case(WIDE, "enterprise", 4, "POP")
    slow, fast = (case.scenario(Pace(7, 2, faster)) for faster in (1.0, 10.0))
    assert slow.placement is not None and fast.placement is not None
    assert slow.placement.w_s == 60 and fast.placement.w_s == 6
    assert slow.placement.n == fast.placement.n == 50
    slow_rate, fast_rate = (one.workload.parameters["rate_per_min"] for one in (slow, fast))
    assert fast_rate == 10 * slow_rate
    assert slow.time.measure_s == pytest.approx(10 * fast.time.measure_s)
    assert Case(WIDE, "enterprise", 4, "static").scenario(Pace(7, 2, 1.0)).placement is None
    grape = Case(CLUSTER, "random", 4, "delay 25%").scenario(Pace(7, 2, 1.0)).placement
    assert grape is not None
    assert (grape.algorithm, grape.metric, grape.weight_percent) == ("grape", "delay", 25)


def test_one_run_against_another(tmp_path: Path) -> None:
    """What is saved is worked out of two runs, each measured where it was run."""
    cases = [Case(WIDE, "enterprise", 1, name) for name in ("static", "load 100%")]
    experiment = find_experiment("placement")
    desk = Desk(experiment, "quick", 1, tmp_path)
    scenarios = {case.name: case.scenario(Pace(15, 2, 50.0)) for case in cases}
    found = desk.simulate_all(scenarios, measure)
    assert list(found) == list(scenarios)
    assert set(desk.timings) == set(scenarios)
    sweeps = Sweeps({case: found[case.name] for case in cases}, 1)
    static, load = found.values()
    assert static.hops > load.hops == 0
    assert static.migrated == static.added == 0 < load.migrated <= 2
    assert sweeps.over_x(utilisation, WIDE, "enterprise", "static") == {1: 100 * static.input_ratio}
    both_miles = 2 * WIDE.client_ms
    assert sweeps.get(delay, cases[1]) == pytest.approx(both_miles, abs=10)  # and matching
    saved = sweeps.saved(delay, WIDE, "enterprise", "load 100%")[1]
    assert saved == pytest.approx(
        100 - 100 * sweeps.get(delay, cases[1]) / sweeps.get(delay, cases[0])
    )


def test_mistakes_in_other_processes_are_told_as_such(tmp_path: Path) -> None:
    desk = Desk(find_experiment("placement"), "quick", 1, tmp_path)
    workload = {"name": "stocks", "per_publisher": 0}
    wrong = make_scenario({"topology": {"shape": "star"}, "workload": workload})
    step = placement.steps("quick")[0].name
    with pytest.raises(InputError, match=r"^workload\.per_publisher: "):
        desk.simulate_all({step: wrong}, measure)
