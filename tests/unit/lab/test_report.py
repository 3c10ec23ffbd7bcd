"""Tables and the report: the files say the same twice, and digits that mean nothing are not in them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from runnel.errors import InputError
from runnel.lab.claims import RowValue
from runnel.lab.criteria import Criteria, Criterion
from runnel.lab.figures import Axis, Chart, Series
from runnel.lab.report import Findings, Setup, Table, claims_table, make_results, write_report
from runnel.lab.results import Results, read_results

SETUP = Setup(["routing"], "quick", 7)
CRITERIA = Criteria(
    (
        Criterion("busiest", "claim", "busiest broker", "46.7", "Fig. 5c", "about", 46.7, "msg/s"),
        Criterion("lost", "ours", "lost", low=0, high=0),
        Criterion("nobody", "ours", "measured by nobody", high=5),
    )
)


def findings() -> Findings:
    chart = Chart(
        "rate",
        "Rate",
        "A caption.",
        "lines",
        Axis("brokers"),
        Axis("rate", "msg/s"),
        [Series("average", [1, 2], [3, 4])],
    )
    values = {
        "busiest": RowValue(140 / 3),
        "lost": RowValue(3, "a | b"),
        "nobody": RowValue(math.nan),
    }
    table = Table("runs", "All runs", ["broker", "rate"], [["B1", 140 / 3], ["B2", None]])
    return Findings("routing", "Plain routing", "Eighty brokers.", values, [chart], [table])


def results() -> Results:
    return make_results(SETUP, [(CRITERIA, [findings()])], "a machine")


def test_results_have_no_false_digits() -> None:
    first, second, third = results().rows
    assert (first.ours, first.outcome) == (46.6666667, "holds")
    assert (second.ours, second.outcome, second.note) == (3, "differs", "a | b")
    assert (third.ours, third.outcome, third.values) == (None, "not measured", (None,))


def test_the_report_is_the_same_twice_and_names_its_figures(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_report(results(), [findings()], tmp_path / name)
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*.*"))
    assert [str(file) for file in files] == [
        *("figures.md", "report.md", "results.json"),
        *("routing/rate.png", "routing/rate.svg", "routing/runs.csv", "routing/runs.md"),
    ]
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    assert read_results(tmp_path / "one" / "results.json") == results()
    text = (tmp_path / "one" / "report.md").read_text()
    assert "- claims: 1 of 1 hold, 0 differ, 0 not measured" in text
    assert "runnel reproduce routing --scale quick --seed 7" in text
    figures = (tmp_path / "one" / "figures.md").read_text()
    assert "![Rate](routing/rate.svg)" in figures and "| B1 | 46.67 |" in figures
    assert "| lost |  | = 0 | 3 | **differs** | a \\| b |" in text


def test_tables_for_programs_and_for_people(tmp_path: Path) -> None:
    table = findings().tables[0]
    assert table.as_csv() == "broker,rate\nB1,46.6666667\nB2,\n"
    assert table.as_markdown() == "| broker | rate |\n|:--|--:|\n| B1 | 46.67 |\n| B2 |  |\n"
    with pytest.raises(InputError, match="'t': a row has 1 cells, there are 2 columns"):
        Table("t", "", ["a", "b"], [["x"]])


def test_what_was_not_measured_says_so() -> None:
    assert claims_table(results().rows).rows[2][3:5] == ["not measured", "**not measured**"]


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(InputError, match="choose another place with --out"):
        write_report(results(), [], tmp_path / "out")
