"""`runnel reproduce`, with an experiment small enough to be run here: a star of three brokers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runnel.cli.main import main
from runnel.errors import BugError, InputError
from runnel.lab import experiment as registry
from runnel.lab.claims import RowValue
from runnel.lab.expectation import check_deliveries
from runnel.lab.experiment import ExperimentContext, ExperimentStep, Scale, experiment, experiments
from runnel.lab.metrics import Window
from runnel.lab.report import Findings
from runnel.lab.reproduce import measure_again, reproduce
from runnel.lab.results import compare_values, find_mistakes, read_results
from runnel.lab.scenario import make_scenario
from runnel.trace.reader import open_trace

CRITERIA = """
[[row]]
id = "lost"
kind = "ours"
claim = "deliveries lost"
low = 0
high = 0

[[row]]
id = "again"
kind = "claim"
claim = "deliveries owed in the second run, above the first"
quote = "the same twice"
source = "§1"
word = "exactly"
paper = 0

[[row]]
id = "owed"
kind = "ours"
claim = "deliveries owed"
low = 1

[[row]]
id = "never"
kind = "claim"
claim = "what nobody measures"
quote = "immeasurable"
source = "§2"
word = "higher"
"""
STAR = {
    "topology": {"shape": "star", "brokers": 3},
    "workload": {
        "name": "stocks",
        "templates": "green",
        "publishers": 2,
        "per_publisher": 5,
        "brokers": 3,
    },
    "time": {"warm_up_s": 1, "measure_s": 5},
    "trace": {"interval_s": 1},
}


def steps(scale: Scale) -> Sequence[ExperimentStep]:
    return [ExperimentStep("first", 1), ExperimentStep("second", 3)]


def star(context: ExperimentContext) -> Findings:
    """Two runs of one scenario; what the second got is what the first got."""
    runs = [context.simulate(name, make_scenario(STAR)) for name in ("first", "second")]
    found = [
        check_deliveries(
            open_trace(run.trace), Window(run.info.window_start_ns, run.info.window_end_ns), 0
        )
        for run in runs
    ]
    more = 1 if context.scale == "paper" else 0  # at the paper's scale a row must differ
    values = {
        "lost": RowValue(sum(one.lost for one in found)),
        "again": RowValue(found[1].owed - found[0].owed + more),
        "owed": RowValue(found[0].owed),
    }
    return Findings("star", "A star of three brokers", values=values)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    experiments()
    monkeypatch.setattr(registry, "_EXPERIMENTS", dict(registry._EXPERIMENTS))
    experiment("star", "A star of three brokers", steps, criteria_file(tmp_path_factory))(star)


def criteria_file(folders: pytest.TempPathFactory) -> Path:
    file = folders.mktemp("criteria") / "claims.toml"
    file.write_text(CRITERIA)
    return file


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["reproduce", *arguments])


def test_without_a_name_the_experiments_are_listed() -> None:
    result = run()
    assert result.exit_code == 0
    assert "routing" in result.output and "A star of three brokers" in result.output
    assert "4 s" in result.output  # about


def test_rows_that_hold_end_with_exit_code_0(tmp_path: Path) -> None:
    result = run("star", "--out", str(tmp_path / "out"), "--seed", "3")
    assert result.exit_code == 0, result.output
    assert "star, claims: 1 of 2 hold, 0 differ, 1 not measured" in result.output
    assert "star, our own: 2 of 2 hold, 0 differ, 0 not measured" in result.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("report.md", "figures.md", "results.json", "timings.json", "star")
    }
    timings = json.loads((tmp_path / "out" / "timings.json").read_text())
    assert set(timings["experiments"]["star"]["steps"]) == {"first", "second"}
    assert timings["experiments"]["star"]["steps"]["first"]["handlings"] > 0


def test_a_row_that_differs_ends_with_exit_code_1(tmp_path: Path) -> None:
    result = run("star", "--scale", "paper", "--out", str(tmp_path))
    assert result.exit_code == 1
    assert "star, claims: 0 of 2 hold, 1 differs, 1 not measured" in result.output
    rows = read_results(tmp_path / "results.json").rows
    assert [row.outcome for row in rows] == ["holds", "differs", "holds", "not measured"]


def test_several_seeds_are_judged_by_their_median(tmp_path: Path) -> None:
    found = reproduce(["star"], "quick", 3, tmp_path, seeds=3).results
    assert found.seeds == (3, 4, 5) and found.command.endswith("--seed 3 --seeds 3")
    one = {row.id: row for row in found.rows}["owed"]
    assert len(one.values) == 3 and len(set(one.values)) > 1
    assert one.ours == sorted(value for value in one.values if value is not None)[1]
    assert find_mistakes(found, {"star": experiments()["star"].expected("quick")}) == []
    timings = json.loads((tmp_path / "timings.json").read_text())["experiments"]
    assert list(timings) == [f"star (seed {seed})" for seed in (3, 4, 5)]


def test_some_rows_measured_again_are_what_they_were(tmp_path: Path) -> None:
    found = reproduce(["star"], "quick", 3, tmp_path / "one").results
    again = {"star": measure_again("star", ["lost", "owed"], "quick", 3, tmp_path / "two")}
    assert compare_values(found, 3, again) == []
    with pytest.raises(InputError, match="star has no row lots"):
        measure_again("star", ["lots"], "quick", 3, tmp_path / "three")


def test_the_same_seed_gives_the_same_results_also_over_those_of_before(tmp_path: Path) -> None:
    names = ("results.json", "report.md")
    found = []
    for seed, folder in ((3, "one"), (3, "two"), (3, "two"), (4, "two")):
        reproduce(["star"], "quick", seed, tmp_path / folder)
        found.append([(tmp_path / folder / name).read_bytes() for name in names])
    assert found[0] == found[1] == found[2] != found[3]


def test_progress_goes_up_to_all(tmp_path: Path) -> None:
    told: list[tuple[float, str]] = []
    reproduce(["star"], "quick", 1, tmp_path, lambda share, what: told.append((share, what)))
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert max(share for share, what in told if what == "star: first") == 0.25


def test_mistakes_are_told_with_what_to_do(tmp_path: Path) -> None:
    wrong = run("rooting", "--out", str(tmp_path))
    assert wrong.exit_code == 2
    assert (
        "there is no experiment 'rooting'; there are green, placement, routing, star"
        in wrong.output
    )
    (tmp_path / "file").write_text("")
    assert "choose another place with --out" in run("star", "--out", str(tmp_path / "file")).output
    with pytest.raises(InputError, match="at least one"):
        reproduce([], "quick", 1, tmp_path)


def test_a_step_that_was_not_announced_and_a_second_of_one_name_are_bugs(tmp_path: Path) -> None:
    context = ExperimentContext(experiments()["star"], "quick", 1, tmp_path)
    with pytest.raises(BugError, match="no step 'third'"), context.step("third"):
        pass
    with pytest.raises(BugError, match="two experiments called star"):
        experiment("star", "again", steps, tmp_path / "claims.toml")(star)


def test_nothing_that_is_no_trace_is_removed_to_make_room(tmp_path: Path) -> None:
    precious = tmp_path / "star" / "runs" / "seed-1" / "first" / "notes.txt"
    precious.parent.mkdir(parents=True)
    precious.write_text("mine")
    reproduce(["star"], "quick", 1, tmp_path)
    reproduce(["star"], "quick", 1, tmp_path)
    assert precious.read_text() == "mine"
