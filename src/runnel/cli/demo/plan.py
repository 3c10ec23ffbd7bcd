"""The second half of `runnel demo`: fewer brokers for the same work, planned by Spark from traces, applied under load.

It runs the commands that a user would run, and shows their output: `runnel plan --from-traces`, `runnel apply`, and
`runnel pipeline report` on the traces before and after.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from runnel.cli.plan_files import read_plan
from runnel.cli.show.plans import summary
from runnel.errors import NetworkError
from runnel.pipeline.inventory import ObservedBroker, inventory_text
from runnel.trace.window import utc

ENDS_WITHIN_S = 15.0
MEMORY = "1g"
_QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""There is so little data that Java's optimising compiler would cost more time than it saves."""

_PROGRESS = re.compile(r"\d+\.\d s  |Done in ")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Files:
    """What the commands read and write, in the folder of the demonstration."""

    folder: Path

    @property
    def traces(self) -> Path:
        """What brokers record."""
        return self.folder / "traces"

    @property
    def brokers(self) -> Path:
        """What brokers there are."""
        return self.folder / "brokers.toml"

    @property
    def plan(self) -> Path:
        """The plan."""
        return self.folder / "plan.json"

    @property
    def report(self) -> Path:
        """Before and after, as a page."""
        return self.folder / "report" / "report.md"


async def make_plan(files: Files, addresses: Mapping[str, str], say: Say) -> None:
    """Write the inventory of brokers and make a plan; the capacities come from the traces."""
    known = [ObservedBroker(name, address) for name, address in addresses.items()]
    files.brokers.write_text(inventory_text(files.brokers.name, known), encoding="utf-8")
    command = ["plan", "--from-traces", "traces", "--brokers", "brokers.toml", "--out", "plan.json"]
    await _run_command([*command, "--memory", MEMORY], files.folder, say)
    for line in summary(read_plan(files.plan)):
        say(f"    {line}")


async def apply_plan(files: Files, say: Say) -> None:
    """Carry the plan out."""
    await _run_command(["apply", "plan.json", "--yes"], files.folder, say)


async def _run_command(command: list[str], folder: Path, say: Say) -> None:
    """Run a command and show its progress; if it fails, raise an error with its last line.

    All files that it writes are in the folder.
    """
    shown = f"runnel {' '.join(command)}"
    say(f"$ {shown}")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "runnel", *command),
        cwd=folder,
        env={**os.environ, **_QUICK_JAVA, "TMPDIR": str(folder), "SPARK_LOCAL_DIRS": str(folder)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        # A session of its own: Ctrl-C in the terminal is for us, and we end it in good order.
        start_new_session=True,
    )
    last = ""
    try:
        assert process.stdout is not None
        async for line in process.stdout:
            last = line.decode(errors="replace").strip() or last
            if _PROGRESS.match(last):
                say(f"    {last}")
        code = await process.wait()
    finally:
        await asyncio.shield(_end_process(process))
    if code:
        raise NetworkError(f"`{shown}` ended with exit code {code}: {last}")


async def _end_process(process: asyncio.subprocess.Process) -> None:
    """End the program and the Java that it may have started; at first it is asked to end by itself."""
    if process.returncode is None:
        process.send_signal(signal.SIGINT)
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDS_WITHIN_S):
                await process.wait()
                while _signal(process.pid, 0):
                    await asyncio.sleep(0.05)
                return
        _signal(process.pid, number)


def _signal(group: int, number: int) -> bool:
    """Signal a group of processes; whether it has any process."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


class TrafficFigures(NamedTuple):
    """A network's figures in a window of its traces: brokers in use, messages into all of them, links per delivery."""

    brokers: int
    messages_per_s: float
    mean_hops: float


class Calm(NamedTuple):
    """Two undisturbed windows: before anything was done to the network, and after the plan was applied."""

    began_ns: int
    ended_ns: int
    again_ns: int
    stopped_ns: int


async def make_report(files: Files, calm: Calm, say: Say) -> tuple[TrafficFigures, TrafficFigures]:
    """What the traces say of the network before and after."""
    began, ended, again, stopped = (utc(ns) for ns in calm)
    window = ["--from", began, "--at", f"{ended}/{again}", "--to", stopped]
    command = ["pipeline", "report", "--traces", "traces", *window, "--out", "."]
    await _run_command([*command, "--memory", MEMORY], files.folder, say)
    told = json.loads(files.report.with_suffix(".json").read_bytes())
    names = ("brokers_in_use", "messages_per_s", "hops_mean")
    before, after = (
        TrafficFigures(*(told[when]["summary"][name] for name in names))
        for when in ("before", "after")
    )
    return before, after
