"""The benchmark of the laboratory runs, and its last line is the JSON object that programs read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench" / "lab.py"


@pytest.mark.slow
def test_a_quick_run_reports_every_case() -> None:
    command = [sys.executable, str(BENCH), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["bench"] == "lab"
    found = [(row["scenario"], row["traced"]) for row in report["rows"]]
    assert found == [("green-80", "all"), ("green-80", "load only"), ("green-1000", "all")]
    for row in report["rows"]:
        assert row["handlings"] > 100 and row["handlings_per_s"] > 0 and row["memory_gib"] > 0
        assert "met" not in row, "a quick run is held to nothing"
