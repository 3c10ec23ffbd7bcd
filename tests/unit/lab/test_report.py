"""Claims, tables and the report: what holds follows from the numbers, and the files say the same twice."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from runnel.errors import InputError
from runnel.lab.claims import Claim, at_least, at_most, exactly, near
from runnel.lab.figures import Axis, Chart, Series
from runnel.lab.report import (
    Findings,
    Setup,
    Table,
    claims_table,
    results_json,
    write_report,
)

SETUP = Setup(["routing"], "quick", 7)


@pytest.mark.parametrize(
    ("claim", "holds"),
    [
        (near("c", 46.7, 46.7, percent=0), True),
        (near("c", 47.1, 46.7, percent=1), True),
        (near("c", 47.2, 46.7, percent=1), False),
        (near("c", -10.1, -10, percent=1), True),
        (near("c", 0.09, 0.08, absolute=0.01), True),  # though 0.09 − 0.08 > 0.01 in floats
        (near("c", 0.0901, 0.08, absolute=0.01), False),
        (exactly("c", 0.1 + 0.2, 0.3), True),
        (exactly("c", 1, 0), False),
        (at_most("c", 5, 5), True),
        (at_most("c", 5.1, 5), False),
        (at_least("c", 5, 5), True),
        (at_least("c", 4.9, 5), False),
        (near("c", math.nan, 1, percent=1), False),
        (exactly("c", math.nan, math.nan), False),
        (at_most("c", -math.inf, 5), False),
        (at_least("c", math.inf, 5), False),
    ],
)
def test_whether_a_claim_holds(claim: Claim, holds: bool) -> None:
    assert claim.holds is holds


def test_a_tolerance_is_given_in_one_way() -> None:
    with pytest.raises(InputError, match="either in percent or absolute"):
        near("rate", 1, 1)
    with pytest.raises(InputError, match="either in percent or absolute"):
        near("rate", 1, 1, percent=1, absolute=1)


def findings() -> Findings:
    chart = Chart(
        *("rate", "Rate", "A caption.", "lines", Axis("brokers"), Axis("rate", "msg/s")),
        [Series("average", [1, 2], [3, 4])],
    )
    return Findings(
        "routing",
        "Plain routing",
        "Eighty brokers.",
        [
            near("busiest broker", 140 / 3, 46.7, percent=1, unit="msg/s", source="green Fig. 5c"),
            exactly("lost", 3, 0).with_note("a | b", calibrated=True),
            at_most("measured by nobody", math.nan, 5),
        ],
        [chart],
        [Table("runs", "All runs", ["broker", "rate"], [["B1", 140 / 3], ["B2", None]])],
    )


def test_results_have_one_row_per_claim_and_no_false_digits() -> None:
    whole = json.loads(results_json(SETUP, [findings()]))
    assert (whole["scale"], whole["seed"]) == ("quick", 7)
    first, second, third = whole["claims"]
    assert first == {
        "experiment": "routing",
        "claim": "busiest broker",
        "paper": 46.7,
        "ours": 46.6666667,
        "unit": "msg/s",
        "tolerance": "± 1%",
        "holds": True,
        "calibrated": False,
        "source": "green Fig. 5c",
        "note": "",
    }
    assert (second["paper"], second["holds"], second["calibrated"]) == (None, False, True)
    assert third["ours"] is None and third["holds"] is False


def test_the_report_is_the_same_twice_and_names_its_figures(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_report(SETUP, [findings()], tmp_path / name)
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*.*"))
    assert [str(file) for file in files] == [
        *("report.md", "results.json"),
        *("routing/rate.png", "routing/rate.svg", "routing/runs.csv", "routing/runs.md"),
    ]
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    text = (tmp_path / "one" / "report.md").read_text()
    assert "1 of 3 claims hold" in text
    assert "runnel reproduce routing --scale quick --seed 7" in text
    assert "![Rate](routing/rate.svg)" in text
    assert "| lost |  | 3 | = 0 | **no**, calibrated | a \\| b |" in text


def test_tables_for_programs_and_for_people(tmp_path: Path) -> None:
    table = findings().tables[0]
    assert table.as_csv() == "broker,rate\nB1,46.6666667\nB2,\n"
    assert table.as_markdown() == "| broker | rate |\n|:--|--:|\n| B1 | 46.67 |\n| B2 |  |\n"
    with pytest.raises(InputError, match="'t': a row has 1 cells, there are 2 columns"):
        Table("t", "", ["a", "b"], [["x"]])


def test_what_was_not_measured_says_so() -> None:
    assert claims_table(findings()).rows[2][2] == "not measured"


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(InputError, match="choose another place with --out"):
        write_report(SETUP, [Findings("routing", "Plain routing")], tmp_path / "out")
