"""`runnel reproduce routing` as a user runs it: its claims hold, and chance has no part in what it writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runnel.lab.results import read_results

PROGRAM = [
    sys.executable,
    "-m",
    "runnel",
    "reproduce",
    "routing",
    "--scale",
    "quick",
    "--seed",
    "1",
]


@pytest.mark.slow
def test_its_claims_hold_and_every_file_is_the_same_whatever_the_hash_seed(tmp_path: Path) -> None:
    runs = {
        name: subprocess.Popen(
            [*PROGRAM, "--out", str(tmp_path / name)],
            env=os.environ | {"PYTHONHASHSEED": name},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in ("1", "2")
    }
    for run in runs.values():
        told, _ = run.communicate(timeout=600)
        assert run.returncode == 0, told
    one, two = tmp_path / "1", tmp_path / "2"
    rows = read_results(one / "results.json").rows
    assert len(rows) == 12 and all(row.outcome == "holds" for row in rows)
    written = [*one.glob("*.*"), *(one / "routing").glob("*.*")]
    same = [path.relative_to(one) for path in written if path.name != "timings.json"]
    assert {path.suffix for path in same} == {".json", ".md", ".csv", ".svg", ".png"}
    for path in same:
        assert (one / path).read_bytes() == (two / path).read_bytes(), path
