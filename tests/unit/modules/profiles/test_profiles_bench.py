"""The benchmark of profiles runs, and its last line is the JSON object that programs read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[4] / "bench" / "profiles.py"


@pytest.mark.slow
def test_a_quick_run_reports_every_figure() -> None:
    command = [sys.executable, str(BENCH), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["bench"] == "profiles"
    assert len(report["rows"]) == 8
    for row in report["rows"]:
        assert row["us_per_delivery"] > 0
        assert "met" not in row, "a quick run is held to nothing"
