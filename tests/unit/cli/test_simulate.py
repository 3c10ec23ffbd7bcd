"""`runnel simulate` as a user runs it: a summary when it is done, and also when one has seen enough."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from time import monotonic

import pytest

from runnel.sim.checkers import SILENT
from runnel.sim.run import SimulationOutcome
from runnel.sim.summary import CampaignSummary

PROGRAM = [sys.executable, "-m", "runnel", "simulate"]


def test_a_clean_run_says_so_and_exits_0() -> None:
    done = subprocess.run([*PROGRAM, "--seeds", "3", "--json"], capture_output=True, text=True)
    told = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert (told["seeds"], told["failed"], told["interrupted"]) == (3, [], False)
    assert told["messages_checked"] > 0
    assert told["silent_losses"] == 0


def test_a_summary_says_how_many_losses_were_announced_and_how_many_were_not() -> None:
    summary = CampaignSummary()
    summary.add(SimulationOutcome(1, seen=Counter({"gaps": 1_200, "losses": 34})))
    assert "gaps told 1,200, losses announced 34, silent losses 0; " in summary.line(1)
    summary.add(SimulationOutcome(2, violation=f"c1 lost (1, 2), {SILENT}: []"))
    summary.add(SimulationOutcome(3, violation="c1 got (1, 2) twice"))
    assert summary.line(1).startswith("3 seeds 2 FAILED")
    assert "silent losses 1; " in summary.line(1)
    assert summary.as_dict(1)["silent_losses"] == 1


@pytest.mark.slow
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
