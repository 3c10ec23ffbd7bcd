"""The core benchmark runs, and its last line is the JSON object that programs read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench" / "core.py"
FIGURES = {
    "door": "us_per_publication",
    "part": "us_per_publication",
    "access": "ratio",  # a difference of two short runs may be below 0
    "handlings": "handlings_per_s",
    "memory": "memory_gib",
    "build": "build_s",
}


@pytest.mark.slow
def test_a_quick_run_reports_every_figure() -> None:
    command = [sys.executable, str(BENCH), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["bench"] == "core"
    assert report["machine"]["cores"] >= 1
    rows = report["rows"]
    assert {row["figure"] for row in rows} >= set(FIGURES) - {"door", "part"}
    for row in rows:
        assert row[FIGURES[row["figure"]]] >= 0
        assert "met" not in row, "a quick run is held to nothing"
