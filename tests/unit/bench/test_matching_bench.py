"""The matching benchmark runs, and its last line is the JSON object that programs read."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[3] / "bench" / "matching.py"


def test_a_quick_run_reports_every_figure() -> None:
    command = [sys.executable, str(BENCH), "--quick", "--workload", "stock"]
    command += ["--workload", "intervals-5-0.1", "--engine", "index", "--data", "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["bench"] == "matching"
    assert report["machine"]["cores"] >= 1
    assert {row["output"] for row in report["rows"]} == {"answer", "slices", "ids"}
    assert {row["workload"] for row in report["rows"]} == {"stock", "intervals"}
    for row in report["rows"]:
        assert row["engine"] == "index"
        assert row["subscriptions"] == 500
        for figure in ("events_per_s", "inserts_per_s", "removes_per_s", "churn_per_s"):
            assert row[figure] > 0
        assert "bytes_per_subscription" in row
