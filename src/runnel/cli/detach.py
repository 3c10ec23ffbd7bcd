"""`runnel up --detach`: starts another `runnel up` in the background, and waits until its network is up."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from runnel.errors import InputError
from runnel.network.processes import LINKS_TIMEOUT_S, START_TIMEOUT_S
from runnel.network.state import NetworkState, read_state

LOOK_AGAIN_S = 0.05


def detach(
    topology: Path,
    folder: Path,
    seconds: float | None,
    *,
    clients: bool,
    restart: bool,
    tls: bool,
) -> NetworkState:
    """Start it and return once brokers and links are up; the state it has then."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "up.log"
    command = [sys.executable, "-m", "runnel", "up", str(topology), "--run-folder", str(folder)]
    command += [] if seconds is None else ["--seconds", str(seconds)]
    command += [] if clients else ["--no-clients"]
    command += ["--restart"] if restart else []
    command += ["--tls"] if tls else []
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    deadline = time.monotonic() + START_TIMEOUT_S + LINKS_TIMEOUT_S
    while time.monotonic() < deadline:
        code = process.poll()
        if code is not None:
            said = log.read_text(encoding="utf-8", errors="replace").strip()
            raise InputError(f"it ended with exit code {code}; {log} says\n{said}")
        state = read_state(folder)
        if state is not None and state.pid == process.pid and state.phase in ("running", "done"):
            return state
        time.sleep(LOOK_AGAIN_S)
    process.terminate()
    raise InputError(f"the network did not come up in time: {log} may tell why")
