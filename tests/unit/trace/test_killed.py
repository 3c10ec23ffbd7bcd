"""A writer is killed in the middle of its work: what can be seen is whole, and what is missing is bounded and told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from runnel.quantities import SECOND
from runnel.trace.reader import open_trace
from runnel.trace.summary import summarise

INTERVAL_S = 0.2

# Records as a broker does and says after each run, on its standard output, how far it has come.
CHILD = f"""
import sys
from pathlib import Path
from threading import Event
from time import time_ns
from runnel.trace.recorder import Recorder
from runnel.trace.writer import Writer, WriterConfig, WriterThread
from runnel.wire import make_publication

recorder = Recorder()
config = WriterConfig(Path(sys.argv[1]), sys.argv[2], "wall", {round(INTERVAL_S * SECOND)})
WriterThread(Writer(config, recorder, time_ns, print)).start()
broker = recorder.tape.audiences.join("B1")
pace, counter = Event(), 0
while True:
    at = time_ns()
    run = []
    for _ in range(200):
        counter += 1
        run.append(make_publication(7, counter, {{"a": counter}}, publisher="quotes"))
    recorder.tape.add(broker.number, run, [[]] * len(run), at, True)
    recorder.seal()
    print(counter, at, flush=True)
    pace.wait(0.002)
"""


def kill_after(directory: Path, name: str, lines: int) -> list[tuple[int, int]]:
    """Run a writer until it has said so many lines, then kill it; what it said: counter and time."""
    command = [sys.executable, "-c", CHILD, str(directory), name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(lines)]
        child.kill()
        told += child.stdout.readlines()
    assert child.returncode == -9
    if not told[-1].endswith("\n"):
        told.pop()  # cut off by the kill
    return [(int(counter), int(at)) for counter, at in map(str.split, told)]


@pytest.mark.parametrize("lines", [1, 150, 333, 400])
def test_whatever_is_visible_is_whole_and_the_loss_is_bounded(tmp_path: Path, lines: int) -> None:
    told = kill_after(tmp_path, "B1-1", lines)
    trace = open_trace(tmp_path)
    for part in trace.folder.parts():
        assert pq.read_table(part.path).num_rows > 0
    seen = trace.read("publications")
    counters = seen["counter"].to_pylist()
    assert counters == list(range(1, len(counters) + 1)), "without a hole, and nothing twice"
    (statement,) = trace.folder.statements()
    written = [counter for counter, at in told if at < statement.flushed_ns]
    assert len(counters) >= max(written, default=0), "what the statement promises is there"
    (writer,) = summarise(trace).writers
    assert writer.state == "killed"
    # A second for a machine that had other things to do between the clock and the line.
    missing_ns = told[-1][1] - statement.flushed_ns
    assert missing_ns <= (writer.missing_s + 1) * SECOND
    assert writer.missing_s >= INTERVAL_S
    (complaint,) = summarise(trace).complaints
    assert complaint.startswith(
        f"writer B1-1 ended without a farewell: at most {writer.missing_s:.1f} s are missing"
    )


def test_the_next_writer_goes_on_beside_the_dead_one(
    tmp_path: Path, make_lab: Callable[..., Any]
) -> None:
    kill_after(tmp_path, "B1-1", 250)
    first = open_trace(tmp_path).read("publications").num_rows
    half = tmp_path / "publications" / "hour=1" / ".part-B1-1-999999.parquet.tmp"
    half.parent.mkdir(parents=True, exist_ok=True)
    half.write_bytes(b"PAR1")
    assert open_trace(tmp_path).read("publications").num_rows == first
    kill_after(tmp_path, "B1-2", 250)
    assert not list(tmp_path.rglob(".part-B1-1-*")), "the second has removed what the first left"
    summary = summarise(open_trace(tmp_path))
    assert summary.tables["publications"].rows > first
    assert [writer.state for writer in summary.writers] == ["killed", "killed"]


def test_a_living_writer_is_told_from_a_dead_one(make_lab: Callable[..., Any]) -> None:
    lab = make_lab()
    trace = open_trace(lab.directory)
    assert summarise(trace).writers[0].state == "running"
    lab.die()
    assert summarise(trace).writers[0].state == "killed"
