"""The benchmark of tracing runs, and its last line is the JSON object that programs read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench" / "trace.py"


@pytest.mark.slow
def test_a_quick_run_reports_every_figure() -> None:
    command = [sys.executable, str(BENCH), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["bench"] == "trace"
    rows = report["rows"]
    assert {row["figure"] for row in rows} == {"record", "write", "door", "both"}
    for row in rows:
        unit = "us_per_publication" if row["figure"] in ("door", "both") else "us_per_row"
        assert row[unit] > 0
        assert "met" not in row, "a quick run is held to nothing"
