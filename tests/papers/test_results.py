"""The committed results in docs/results: judged by what is declared, reports made of them, values that a run gives."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from runnel.lab.experiment import experiments
from runnel.lab.history import find_late_criteria, knows_history
from runnel.lab.report import report_markdown
from runnel.lab.reproduce import measure_again
from runnel.lab.results import FILE, Results, compare_values, find_mistakes, read_results

FOLDER = Path(__file__).parents[2] / "docs" / "results"
FILES = sorted(FOLDER.glob(f"*/{FILE}"))
QUICK = [file for file in FILES if read_results(file).scale == "quick"]
DRAWN = 3
names = pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)


def test_both_papers_have_results() -> None:
    found = {one.name for file in FILES for one in read_results(file).experiments}
    assert {"green", "placement"} <= found


@names
def test_they_were_judged_by_what_is_declared(file: Path) -> None:
    results = read_results(file)
    expected = {name: one.expected(results.scale) for name, one in experiments().items()}  # type: ignore[arg-type]
    assert find_mistakes(results, expected) == []


@names
def test_their_criteria_were_committed_before_them(file: Path) -> None:
    if not knows_history(file.parent):
        pytest.skip("there is no history here")
    criteria = {name: one.criteria_file for name, one in experiments().items()}
    assert find_late_criteria(read_results(file), file, criteria) == []


@names
def test_the_report_is_made_of_them(file: Path) -> None:
    assert (file.parent / "report.md").read_text() == report_markdown(read_results(file))


@pytest.mark.slow
@pytest.mark.parametrize("file", QUICK, ids=lambda file: file.parent.name)
def test_rows_drawn_at_random_are_what_they_were(file: Path, tmp_path: Path) -> None:
    """Three rows, others every time; one seed of those that were run, and of the first also notes and curves."""
    results = read_results(file)
    seed = random.SystemRandom().choice(results.seeds)
    drawn = draw_rows(results)
    measured = {
        name: measure_again(name, ids, "quick", seed, tmp_path / name)
        for name, ids in drawn.items()
    }
    assert compare_values(results, seed, measured) == []


def draw_rows(results: Results) -> dict[str, list[str]]:
    """Rows by their experiments."""
    known = [row for row in results.rows if row.values and not row.declared.by_clock]
    found: dict[str, list[str]] = {}
    for row in random.SystemRandom().sample(known, DRAWN):
        found.setdefault(row.experiment, []).append(row.id)
    return found
