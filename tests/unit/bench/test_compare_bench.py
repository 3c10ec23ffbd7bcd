"""Two trees are compared row by row: what a row is called, and how sure its ratio is."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[3] / "bench"


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCH)
    return importlib.import_module("compare")


def test_a_row_is_called_by_its_parameters_and_not_by_what_was_measured(
    compare: ModuleType,
) -> None:
    row = {"figure": "door", "chunk": 10, "us_per_publication": 7, "spread": 0, "met": True}
    assert compare._name(row) == "figure=door chunk=10"
    assert compare._name(row | {"us_per_publication": 8}) == compare._name(row)
    assert compare._name(row | {"chunk": 100}) != compare._name(row)


def test_what_is_off_does_not_change_the_name_and_what_is_on_does(compare: ModuleType) -> None:
    row = {"figure": "door", "trace": "all"}
    assert compare._name(row | {"profiles": False}) == compare._name(row)
    assert compare._name(row | {"profiles": True}) == "figure=door trace=all profiles=True"


def test_the_interval_lies_around_the_median_and_widens_with_the_ratios(
    compare: ModuleType,
) -> None:
    narrow = [0.99, 1.0, 1.01] * 5
    wide = [0.5, 1.0, 1.5] * 5
    assert compare.interval(narrow) == (0.99, 1.01)
    assert compare.interval(wide) == (0.5, 1.5)


def test_one_run_that_was_disturbed_does_not_move_the_interval(compare: ModuleType) -> None:
    low, high = compare.interval([0.97, 0.98, 0.98, 0.99, 0.99, 0.99, 1.0, 1.0, 1.01, 9.0])
    assert 0.97 <= low <= 0.99 <= high <= 1.01


def test_what_every_benchmark_measures_is_compared(compare: ModuleType) -> None:
    for bench, figure in (("trace", "us_per_row"), ("profiles", "us_per_delivery")):
        assert figure in (BENCH / f"{bench}.py").read_text(encoding="utf-8")
        assert compare.COST[figure] == 1
