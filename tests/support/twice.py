"""Runs an experiment twice at the same time, under two hash seeds: both runs must write the same files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from runnel.lab.claims import Row
from runnel.lab.results import FILE, Results, encode_results, read_results

WITHIN_S = 600


def run_twice(program: str, folder: Path) -> tuple[Path, dict[str, Row]]:
    """Run a program that writes into a given folder; the folder of the first run, and its rows by their ids.

    All files that both runs wrote must be equal, except for times by the clock.
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
        if name != FILE:
            assert (one / name).read_bytes() == (two / name).read_bytes(), name
    results = [read_results(place / FILE) for place in (one, two)]
    texts = [encode_results(without_clock(found)) for found in results]
    assert texts[0] == texts[1]
    return one, {row.id: row for row in results[0].rows}


def without_clock(results: Results) -> Results:
    """Results without the rows that are times by the clock, and without the seal, which is over them too."""
    rows = tuple(row for row in results.rows if not row.declared.by_clock)
    return msgspec.structs.replace(results, rows=rows, sealed="")
