"""The state of a network that was started: one file in the run directory, for other commands.

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


class NetworkState(Struct, frozen=True):
    """One network. `pid` is that of `runnel up`, which supervises it; `certificates` a folder, with TLS."""

    pid: int
    topology: str
    phase: Phase
    brokers: dict[str, BrokerState] = {}
    certificates: str = ""


def write_state(folder: Path, state: NetworkState) -> None:
    """Write the state file."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(msgspec.to_builtins(state), indent=2) + "\n"
    unfinished = folder / f"state.json.{os.getpid()}"
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(folder / "state.json")


def read_state(folder: Path) -> NetworkState | None:
    """Read the state file of a run directory; None if there is none."""
    try:
        return msgspec.json.decode((folder / "state.json").read_bytes(), type=NetworkState)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(
            f"{folder / 'state.json'} cannot be read ({error}): if nothing runs, remove {folder}"
        ) from None


def remove_state(folder: Path) -> None:
    """Remove the state file; logs and configurations stay."""
    (folder / "state.json").unlink(missing_ok=True)


def is_ours(pid: int, word: str) -> bool:
    """Whether a process lives and has this word in its command line: a pid alone may belong to another process now."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return _lives_elsewhere(pid)
    is_zombie = stat.rpartition(")")[2].split()[0] == "Z"
    return word.encode() in command and not is_zombie


def _lives_elsewhere(pid: int) -> bool:
    """Without /proc, check only that the pid exists."""
    if Path("/proc/self").exists():
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
