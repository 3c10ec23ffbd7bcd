"""`runnel match` on real files: what it finds, how it reports, and how it fails."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runnel.cli.main import main

FILTERS = """\
cheap: symbol = 'YHOO' AND close < 20
busy: [volume,>,300000]
busier: volume > 300000
never: close > 1000
"""
EVENTS = [
    {"symbol": "YHOO", "close": 18.37, "volume": 6200},
    {"symbol": "YHOO", "close": 19.00, "volume": 400000},
    {"symbol": "MSFT", "close": 27.10, "volume": 500000},
    {"symbol": "INTC", "close": 30.00, "volume": 100},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "filters.txt").write_text(FILTERS)
    lines = "".join(json.dumps(event) + "\n" for event in EVENTS)
    (tmp_path / "events.jsonl").write_text(lines)
    return tmp_path


def run(folder: Path, *options: str) -> Result:
    files = ["--filters", str(folder / "filters.txt"), "--events", str(folder / "events.jsonl")]
    return CliRunner().invoke(main, ["match", *files, *options])


@pytest.mark.parametrize("engine", ["auto", "index"])
def test_json_report(folder: Path, engine: str) -> None:
    result = run(folder, "--json", "--engine", engine)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["events"], report["filters"], report["matches"]) == (4, 4, 6)
    assert report["unwanted_events"] == 1
    assert report["engine"] in ("compiled", "index")
    assert report["events_per_s"] > 0
    assert {row["id"]: row["matches"] for row in report["counts"]} == {
        "cheap": 2,
        "busy": 2,
        "busier": 2,
        "never": 0,
    }
    assert report["counts"][0] == {
        "id": "cheap",
        "filter": "symbol = 'YHOO' AND close < 20",
        "matches": 2,
        "share": 0.5,
    }


def test_table_for_people(folder: Path) -> None:
    result = run(folder, "--show", "1")
    assert result.exit_code == 0, result.output
    assert "busy +1 equal" in result.output
    assert "50.0%" in result.output
    assert "events/s" in result.output
    assert "symbol=YHOO close=18.37 volume=6200" in result.output
    assert "1 wanted by no filter" in result.output
    assert "choosy" not in result.output


def test_top_limits_both_reports(folder: Path) -> None:
    table = run(folder, "--top", "1").output
    assert "cheap" in table
    assert "busy" not in table
    assert "and 3 more filters" in table
    assert len(json.loads(run(folder, "--top", "1", "--json").stdout)["counts"]) == 1


def test_output_names_who_wants_each_event(folder: Path) -> None:
    out = folder / "out.jsonl"
    assert run(folder, "--output", str(out)).exit_code == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines == [
        {"event": 1, "filters": ["cheap"]},
        {"event": 2, "filters": ["cheap", "busy", "busier"]},
        {"event": 3, "filters": ["busy", "busier"]},
        {"event": 4, "filters": []},
    ]


def test_no_events_at_all(folder: Path) -> None:
    (folder / "events.jsonl").write_text("")
    assert "0" in run(folder).output
    assert json.loads(run(folder, "--json").stdout)["events_per_s"] == 0


def test_more_events_than_a_batch(folder: Path) -> None:
    (folder / "events.jsonl").write_text('{"volume": 300001}\n' * 1000)
    report = json.loads(run(folder, "--json").stdout)
    assert (report["events"], report["matches"]) == (1000, 2000)


def test_a_bad_filter_shows_line_column_and_caret(folder: Path) -> None:
    (folder / "filters.txt").write_text("good: a = 1\nbad: symbol = = 'YHOO'\n")
    result = run(folder)
    assert result.exit_code == 2
    first, text, caret = result.stderr.splitlines()[:3]
    assert f"{folder / 'filters.txt'}, line 2, column 15: expected" in first
    assert text.strip() == "symbol = = 'YHOO'"
    assert text[caret.index("^")] == "="
    assert text[: caret.index("^")].count("=") == 1


def test_a_bad_event_names_its_line(folder: Path) -> None:
    (folder / "events.jsonl").write_text('{"a": 1}\n{"a": }\n')
    result = run(folder)
    assert result.exit_code == 2
    assert "events.jsonl, line 2" in result.stderr


@pytest.mark.parametrize("option", ["--filters", "--events", "--output"])
def test_a_path_that_cannot_be_used(folder: Path, option: str) -> None:
    missing = str(folder / "nowhere" / "file.jsonl")
    result = run(folder, option, missing)
    assert result.exit_code == 2
    assert missing in result.stderr


def test_options_are_checked(folder: Path) -> None:
    assert run(folder, "--engine", "magic").exit_code == 2
    assert run(folder, "--top", "-1").exit_code == 2
    assert CliRunner().invoke(main, ["match"]).exit_code == 2


def test_help_teaches_with_an_example() -> None:
    result = CliRunner().invoke(main, ["match", "--help"])
    assert "Example:" in result.output
    assert "runnel match --filters filters.txt --events events.jsonl" in result.output


def test_the_installed_program_in_a_process_of_its_own(folder: Path) -> None:
    program = Path(sys.executable).with_name("runnel")
    command = [program, "match", "--filters", "filters.txt", "--events", "events.jsonl", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)  # type: ignore[arg-type]
    assert json.loads(done.stdout)["matches"] == 6
    assert done.stderr == ""
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("runnel 0.")
    assert "engine" in version.stdout


def test_stocks_writes_what_match_reads(tmp_path: Path) -> None:
    options = ["--symbols", "5", "--days", "20", "--filters", "50"]
    made = CliRunner().invoke(main, ["stocks", str(tmp_path), *options])
    assert made.exit_code == 0, made.output
    files = [
        "--filters",
        str(tmp_path / "filters.txt"),
        "--events",
        str(tmp_path / "quotes.parquet"),
    ]
    result = CliRunner().invoke(main, ["match", *files, "--json"])
    report = json.loads(result.stdout)
    assert (report["events"], report["filters"]) == (100, 50)
    assert report["matches"] > 0


def test_stocks_says_what_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    made = CliRunner().invoke(main, ["stocks", str(tmp_path / "file" / "in"), "--symbols", "2"])
    assert made.exit_code == 2
    assert "cannot be written" in made.output


def test_stocks_from_real_quotes(tmp_path: Path) -> None:
    row = (
        '{"symbol": "YHOO", "open": 1, "high": 3, "low": 1, "close": 2, "volume": 5, "date": "d"}\n'
    )
    (tmp_path / "real.jsonl").write_text(row)
    options = ["--quotes", str(tmp_path / "real.jsonl"), "--filters", "3"]
    made = CliRunner().invoke(main, ["stocks", str(tmp_path / "out"), *options])
    assert made.exit_code == 0, made.output
    assert "wrote 1 quotes" in made.output


def test_many_filters_are_sorted_by_how_choosy_they_are(folder: Path) -> None:
    lines = [f"volume > {volume}" for volume in range(0, 600_000, 10_000)]
    (folder / "filters.txt").write_text("\n".join(lines))
    shares = run(folder, "--top", "0").output
    assert "how choosy the filters are" in shares
    for label, count in (("all of them", 1), ("10 % and more", 49), ("none", 10)):
        assert re.search(rf"{label} +{count}\b", shares)
