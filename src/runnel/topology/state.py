"""What is known of a network that was started: one file in the run directory, for those who come later.

`runnel up` writes it, `runnel down` and `runnel status` read it. It is replaced in one step, so a reader sees
all of it or none.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from runnel.errors import InputError

RUN_FOLDER = Path(".runnel")
Phase = Literal["starting", "running", "done", "stopping"]


class BrokerState(Struct, frozen=True):
    """One broker process."""

    pid: int
    address: str
    log: str
    config: str


class State(Struct, frozen=True):
    """One network. `pid` is that of `runnel up`, which looks after it."""

    pid: int
    topology: str
    phase: Phase
    brokers: dict[str, BrokerState] = {}


def write_state(folder: Path, state: State) -> None:
    """Put the state where others find it."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(msgspec.to_builtins(state), indent=2) + "\n"
    unfinished = folder / f"state.json.{os.getpid()}"
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(folder / "state.json")


def read_state(folder: Path) -> State | None:
    """The state that stands in a run directory, if any."""
    try:
        return msgspec.json.decode((folder / "state.json").read_bytes(), type=State)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(
            f"{folder / 'state.json'} cannot be read ({error}): if nothing runs, remove {folder}"
        ) from None


def remove_state(folder: Path) -> None:
    """Nothing runs any more; logs and configurations stay to be read."""
    (folder / "state.json").unlink(missing_ok=True)


def is_ours(pid: int, word: str) -> bool:
    """Whether a process lives and its command line has this word: a pid alone may be anybody's by now."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return _lives_elsewhere(pid)
    is_zombie = stat.rpartition(")")[2].split()[0] == "Z"
    return word.encode() in command and not is_zombie


def _lives_elsewhere(pid: int) -> bool:
    """Where there is no /proc, a living pid must do."""
    if Path("/proc/self").exists():
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
