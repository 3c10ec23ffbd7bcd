"""The planner's benchmark runs, and its last line is JSON with every figure."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runnel.planning.planner import ALGORITHMS

BENCH = Path(__file__).parents[3] / "bench" / "planner.py"


@pytest.mark.slow
def test_a_quick_run_reports_every_figure() -> None:
    command = [sys.executable, str(BENCH), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["bench"] == "planner"
    rows = report["rows"]
    assert {row["algorithm"] for row in rows if "cpu_s" in row and "used" in row} == set(ALGORITHMS)
    assert {row.get("figure") for row in rows} >= {"growth", "optimisations"}
    for row in rows:
        assert "met" not in row, "a quick run is held to nothing"
        if "at least" in row:
            assert 1 <= row["at least"] <= row["brokers"]
