"""The second half of `runnel demo`: fewer brokers for the same work, planned by Spark from traces, applied under load.

It gives the commands that a user would give, and shows what they say: `runnel plan --from-traces`, `runnel apply`, and
`runnel pipeline report` over the traces of before and after.
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

from runnel.cli.planfile import read_plan
from runnel.cli.plantext import summary
from runnel.errors import NetworkError
from runnel.pipeline.inventory import Traced, inventory_text
from runnel.trace.window import utc

ENDS_WITHIN_S = 15.0
MEMORY = "1g"
_QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""So little data is through before Java has made the best of its programs: it need not try."""

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
    """Write down what brokers there are, and plan with them; what each may be given, traces tell."""
    known = [Traced(name, address) for name, address in addresses.items()]
    files.brokers.write_text(inventory_text(files.brokers.name, known), encoding="utf-8")
    command = ["plan", "--from-traces", "traces", "--brokers", "brokers.toml", "--out", "plan.json"]
    await _give([*command, "--memory", MEMORY], files.folder, say)
    for line in summary(read_plan(files.plan)):
        say(f"    {line}")


async def apply_plan(files: Files, say: Say) -> None:
    """Carry the plan out."""
    await _give(["apply", "plan.json", "--yes"], files.folder, say)


async def _give(command: list[str], folder: Path, say: Say) -> None:
    """Give a command, and tell what it does; one that fails is an error with what it said last.

    Whatever it leaves behind is in the folder.
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
        await asyncio.shield(_ended(process))
    if code:
        raise NetworkError(f"`{shown}` ended with exit code {code}: {last}")


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Nothing of it is left: neither the program, which is asked first, nor the Java that it may have started."""
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
    """Signal a group of processes; whether there is anybody."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


class Measured(NamedTuple):
    """What traces say of a stretch of time: brokers at work, messages into all of them, links that a delivery took."""

    brokers: int
    messages_per_s: float
    mean_hops: float


class Calm(NamedTuple):
    """Times at which the network was left alone: before anything was done to it, and after the plan was applied."""

    began_ns: int
    ended_ns: int
    again_ns: int
    stopped_ns: int


async def make_report(files: Files, calm: Calm, say: Say) -> tuple[Measured, Measured]:
    """What the traces say of the network before and after."""
    began, ended, again, stopped = (utc(ns) for ns in calm)
    window = ["--from", began, "--at", f"{ended}/{again}", "--to", stopped]
    command = ["pipeline", "report", "--traces", "traces", *window, "--out", "."]
    await _give([*command, "--memory", MEMORY], files.folder, say)
    told = json.loads(files.report.with_suffix(".json").read_bytes())
    names = ("brokers_in_use", "messages_per_s", "hops_mean")
    before, after = (
        Measured(*(told[when]["summary"][name] for name in names)) for when in ("before", "after")
    )
    return before, after
