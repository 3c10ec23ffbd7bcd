"""An experiment run twice, under two hash seeds, beside each other: chance has no part in what it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

WITHIN_S = 600


def run_twice(program: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Run a program that writes into the folder it is told; where the first wrote, and the rows of its claims.

    Everything that both wrote must be the same but for timings, and for folders.
    """
    file = folder / "program.py"
    file.write_text(program)
    runs = {}
    for name in ("1", "2"):
        (folder / name).mkdir()
        runs[name] = subprocess.Popen(
            [sys.executable, str(file), str(folder / name)],
            env=os.environ | {"PYTHONHASHSEED": name},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    for run in runs.values():
        told, _ = run.communicate(timeout=WITHIN_S)
        assert run.returncode == 0, told
    one, two = folder / "1", folder / "2"
    same = [path.name for path in one.iterdir() if path.is_file() and path.name != "timings.txt"]
    assert {Path(name).suffix for name in same} == {".json", ".csv", ".svg", ".png"}
    for name in same:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    claims = json.loads((one / "results.json").read_text())["claims"]
    return one, {row["claim"]: row for row in claims}
