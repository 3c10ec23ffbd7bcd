"""Commands whose output cannot be written end without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from process.processes import RunningPrograms

PROGRAM = [sys.executable, "-m", "runnel"]
WITHIN_S = 60.0
COMMANDS = {
    "at once": ("--version",),
    "much": ("up", "--example", "tree7"),
    "an answer": ("status",),
    "for long": ("sub", "TRUE", "--json"),
}


@pytest.mark.parametrize("what", COMMANDS)
@pytest.mark.parametrize("fate", ["closed", "full"])
def test_an_output_that_cannot_be_written_is_no_traceback(
    processes: RunningPrograms, tmp_path: Path, what: str, fate: str
) -> None:
    arguments = [*PROGRAM, *COMMANDS[what]]
    if what in ("an answer", "for long"):
        broker = processes.broker("B1")
        arguments += ["-b", broker.said]
    if fate == "full":
        output = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, output = os.pipe()
        os.close(reader)
    command = subprocess.Popen(arguments, stdout=output, stderr=subprocess.PIPE, text=True)
    os.close(output)
    if what == "for long":
        assert command.stderr is not None
        while "ready at" not in command.stderr.readline():
            pass
        subprocess.run([*PROGRAM, "pub", "a=1", "-b", broker.said], check=True, timeout=WITHIN_S)
    _, said = command.communicate(timeout=WITHIN_S)
    assert command.returncode == 1
    assert said == (
        "Error: the output cannot be written: No space left on device\n" if fate == "full" else ""
    )
