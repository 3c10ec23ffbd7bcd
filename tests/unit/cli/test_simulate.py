"""`runnel simulate` as a user runs it: a summary when it is done, and also when one has seen enough."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from time import monotonic

import pytest

PROGRAM = [sys.executable, "-m", "runnel", "simulate"]


def test_a_clean_run_says_so_and_exits_0() -> None:
    done = subprocess.run([*PROGRAM, "--seeds", "3", "--json"], capture_output=True, text=True)
    told = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert (told["seeds"], told["failed"], told["interrupted"]) == (3, [], False)
    assert told["messages_checked"] > 0


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_ends_it_with_what_was_found_so_far(jobs: str) -> None:
    command = [*PROGRAM, "--seeds", "100000", "--jobs", jobs]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None and run.stdout is not None
        assert run.stderr.readline().startswith("1 of 100,000 seeds")
        run.send_signal(signal.SIGINT)
        began = monotonic()
        out, errors = run.communicate(timeout=60)
    assert monotonic() - began < 30, "what had not begun must not be run"
    assert run.returncode == 130 and "Traceback" not in errors
    assert out.startswith("interrupted") and "seeds clean" in out
