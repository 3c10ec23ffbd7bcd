"""A reproduction that was interrupted goes on where it stopped; rows are measured when no run is under way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runnel.lab import done_jobs
from runnel.lab import experiment as registry
from runnel.lab.claims import RowValue
from runnel.lab.done_jobs import DoneJobs
from runnel.lab.experiment import (
    ExperimentContext,
    ExperimentStep,
    Jobs,
    Scale,
    experiment,
    experiments,
)
from runnel.lab.report import Findings
from runnel.lab.reproduce import reproduce
from support.squaring import note_and_square

STEPS = ("one", "two", "three")
CRITERIA = """
[[row]]
id = "sum"
kind = "ours"
claim = "the sum of all jobs"
low = 0
"""


def steps(scale: Scale) -> Sequence[ExperimentStep]:
    return [ExperimentStep(name, 1.0) for name in STEPS]


@pytest.fixture(name="folder")
def _registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder in which jobs note what they do."""
    experiments()
    monkeypatch.setattr(registry, "_EXPERIMENTS", dict(registry._EXPERIMENTS))
    (tmp_path / "claims.toml").write_text(CRITERIA)

    def jobs(scale: Scale) -> Jobs:
        return Jobs({name: (str(tmp_path), n, 0) for n, name in enumerate(STEPS)}, note_and_square)

    @experiment("squares", "Squares", steps, tmp_path / "claims.toml", jobs=jobs)
    def run(context: ExperimentContext) -> Findings:
        before = begun(tmp_path)
        found = context.run_jobs(*jobs(context.scale))
        assert begun(tmp_path) == before, (
            "all jobs of all seeds are done before any row is measured"
        )
        assert set(context.timings) == set(STEPS)
        return Findings("squares", "Squares", values={"sum": RowValue(sum(found.values()))})

    return tmp_path


def begun(folder: Path) -> list[str]:
    return sorted("-".join(file.name.split("-")[:2]) for file in folder.glob("begun/*"))


def test_an_interrupted_reproduction_goes_on_where_it_stopped(folder: Path) -> None:
    (folder / "fail-2-8").touch()
    with pytest.raises(ValueError, match="interrupted"):
        reproduce(["squares"], "quick", 7, folder / "out", seeds=2)
    kept = len(list((folder / "out" / "squares" / "done").iterdir()))
    assert kept >= 3
    (folder / "fail-2-8").unlink()
    before = len(begun(folder))
    found = reproduce(["squares"], "quick", 7, folder / "out", seeds=2).results
    assert len(begun(folder)) - before == 6 - kept
    assert found.rows[0].values == (5 + 3 * 7, 5 + 3 * 8)
    assert not (folder / "out" / "squares" / "done").exists(), "nothing is left to go stale"
    reproduce(["squares"], "quick", 7, folder / "out", seeds=2)
    assert len(begun(folder)) - before == 6 - kept + 6, "what was complete is measured anew"


def test_the_jobs_of_all_seeds_share_one_pool(folder: Path) -> None:
    reproduce(["squares"], "quick", 1, folder / "out", seeds=4)
    processes = {file.name.split("-")[2] for file in folder.glob("begun/*")}
    assert len(processes) <= (os.cpu_count() or 1) and len(begun(folder)) == 12


@pytest.mark.parametrize("change", ["step", "job", "seed", "source"])
def test_a_result_is_found_by_all_that_it_follows_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    done = DoneJobs(tmp_path / "done")
    key: dict[str, Any] = {"step": "one", "job": (1, sum, steps), "seed": 3}
    assert done.find(**key) is None
    done.keep(**key, result=(5, {}))
    assert DoneJobs(tmp_path / "done").find(**key) == (5, {})
    if change == "source":
        monkeypatch.setattr(done_jobs, "digest_of_source", lambda: "another")
    else:
        key[change] = {"step": "two", "job": (2, sum, steps), "seed": 4}[change]
    assert done.find(**key) is None


def test_half_a_result_counts_as_none(tmp_path: Path) -> None:
    done = DoneJobs(tmp_path)
    done.keep("one", 1, 1, (5, {}))
    file = next(tmp_path.iterdir())
    file.write_bytes(file.read_bytes()[:-3])
    assert done.find("one", 1, 1) is None
