"""The matching benchmark runs, and its last line is the JSON object that programs read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench" / "matching.py"


@pytest.mark.slow
def test_a_quick_run_reports_every_figure(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH), "--quick", "--workload", "stock"]
    command += ["--workload", "intervals-5-0.1", "--engine", "index", "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["bench"] == "matching"
    assert report["machine"]["cores"] >= 1
    assert {row["output"] for row in report["rows"]} == {"slices", "views", "ids"}
    assert {row["workload"] for row in report["rows"]} == {"stock", "intervals"}
    for row in report["rows"]:
        assert row["engine"] == "index"
        assert row["subscriptions"] == 500
        for figure in ("events_per_s", "inserts_per_s", "removes_per_s", "churn_per_s"):
            assert row[figure] > 0
        assert "bytes_per_subscription" in row
    # An empty folder of data: the row says that its quotes are made up.
    assert report["rows"][0]["source"] == "synthetic quotes"


def test_a_folder_of_data_that_is_not_there(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH), "--data", str(tmp_path / "nowhere")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no such folder" in done.stderr
