"""Git says whether criteria were committed before the results that they judge."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runnel.lab.claims import RowValue
from runnel.lab.criteria import read_criteria
from runnel.lab.history import find_late_criteria, knows_history
from runnel.lab.report import Findings, Setup, make_results
from runnel.lab.results import Results, encode_results

ROW = '[[row]]\nid = "lost"\nkind = "ours"\nclaim = "deliveries lost"\nhigh = {}\n'


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(name="folder")
def _repository(tmp_path: Path) -> Path:
    try:
        git(tmp_path, "init", "--quiet")
    except OSError:
        pytest.skip("git is not there")
    (tmp_path / "lab").mkdir()
    (tmp_path / "docs").mkdir()
    return tmp_path


def declare(folder: Path, high: int) -> None:
    (folder / "lab" / "claims.toml").write_text(ROW.format(high))


def measure(folder: Path) -> Results:
    criteria = read_criteria(folder / "lab" / "claims.toml")
    found = Findings("star", "A star", values={"lost": RowValue(3)})
    results = make_results(Setup(["star"], "quick", 1), [(criteria, [found])], "here")
    (folder / "docs" / "results.json").write_text(encode_results(results))
    return results


def commit(folder: Path, what: str) -> None:
    git(folder, "add", what)
    git(folder, "commit", "--quiet", "--message", what)


def told(folder: Path, results: Results) -> list[str]:
    assert knows_history(folder / "docs")
    criteria = {"star": folder / "lab" / "claims.toml"}
    return find_late_criteria(results, folder / "docs" / "results.json", criteria)


def test_criteria_that_were_committed_first_are_fine(folder: Path) -> None:
    declare(folder, 0)
    commit(folder, "lab")
    results = measure(folder)
    assert told(folder, results) == []  # not committed yet
    commit(folder, "docs")
    assert told(folder, results) == []
    declare(folder, 5)
    commit(folder, "lab")
    assert told(folder, results) == []  # that the criteria are others now is told elsewhere


def test_criteria_that_were_loosened_and_committed_with_the_results_are_told(folder: Path) -> None:
    declare(folder, 0)
    commit(folder, "lab")
    declare(folder, 5)
    results = measure(folder)
    commit(folder, ".")
    assert "were not committed before the results" in told(folder, results)[0]


def test_criteria_that_were_committed_after_the_results_are_told(folder: Path) -> None:
    declare(folder, 5)
    results = measure(folder)
    commit(folder, "docs")
    assert "were never committed" in told(folder, results)[0]
    commit(folder, "lab")
    assert "were not committed before the results" in told(folder, results)[0]
