"""`runnel down`: ends what `runnel up` started here, even if `runnel up` itself was killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import click

from runnel.errors import InputError
from runnel.network.state import RUN_FOLDER, NetworkState, is_ours, read_state, remove_state

LOOK_AGAIN_S = 0.05


@click.command(short_help="End what runnel up started here.")
@click.option(
    "--run-folder",
    "folder",
    default=RUN_FOLDER,
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where runnel up keeps its state.",
)
@click.option("--timeout", default=30.0, show_default=True, help="Seconds before it is killed.")
def down(folder: Path, timeout: float) -> None:
    """End the network that runnel up started in this directory: clients first, then brokers, in good order.

    If runnel up was killed, its brokers are ended all the same. Logs stay in the run folder.

    \b
    Examples:
      runnel down
      runnel down --run-folder DIR --timeout 60

    \b
    Exit codes:
      0    nothing of it runs any more
      2    a process cannot be ended, since it is somebody else's; the message says which
    """
    state = read_state(folder)
    if state is None:
        click.echo(f"nothing runs here: there is no {folder / 'state.json'}", err=True)
        return
    if is_ours(state.pid, "\0up\0"):
        _signal(state.pid, signal.SIGTERM)
        if not _wait(lambda: is_ours(state.pid, "\0up\0"), timeout):
            _signal(state.pid, signal.SIGKILL)
    left = end_brokers(state, timeout)
    if left:
        raise InputError(f"could not end {', '.join(left)}: do you own these processes?")
    remove_state(folder)
    click.echo(f"{state.topology} is down; its logs are in {folder}", err=True)


def end_brokers(state: NetworkState, timeout: float) -> list[str]:
    """End the brokers that still run; the names of those that could not be ended."""

    def running() -> list[str]:
        return [name for name, b in state.brokers.items() if is_ours(b.pid, b.config)]

    for number in (signal.SIGTERM, signal.SIGKILL):
        for name in running():
            _signal(state.brokers[name].pid, number)
        if _wait(lambda: bool(running()), timeout):
            break
    return running()


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it was quicker
    except PermissionError:
        raise InputError(f"process {pid} belongs to somebody else") from None


def _wait(while_true: Callable[[], bool], timeout: float) -> bool:
    """Wait for something to become false; whether it did."""
    deadline = time.monotonic() + timeout
    while while_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_AGAIN_S)
    return True
