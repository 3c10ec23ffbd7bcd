"""Programs that run until somebody ends them: Ctrl-C, SIGTERM or a closed terminal are the way to leave, not a failure.

Signals only note that the end was asked for; the program leaves at the next place where it can do so in good order. So
no signal, and no second one, interrupts the cleaning up.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from types import FrameType, TracebackType
from typing import Any, TypeVar

from runnel.net.loops import run

_T = TypeVar("_T")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(Exception):  # noqa: N818 - not an error: somebody asked for it
    """The user, or the system, wants the program to end."""


class StopSignals:
    """While it stands, signals are noted: `check` raises Stopped, and what `run` runs is cancelled."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}
        self._task: asyncio.Task[Any] | None = None

    def __enter__(self) -> StopSignals:
        for number in SIGNALS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # nohup, for one, means it
                self._before[number] = before
                signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        already, self.asked = self.asked, True
        if self._task is not None and not already:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    def check(self) -> None:
        """Leave if that was asked for."""
        if self.asked:
            raise Stopped

    def run(self, main: Coroutine[Any, Any, _T]) -> _T:
        """Run a program to its end, or until a signal cancels it; then raise Stopped."""
        return run(self._run(main))

    async def _run(self, main: Coroutine[Any, Any, _T]) -> _T:
        task: asyncio.Task[_T] = asyncio.get_running_loop().create_task(main)
        self._task = task
        if self.asked:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            self.check()
            raise
        finally:
            self._task = None


def run_until_signal(main: Coroutine[Any, Any, _T], otherwise: _T) -> _T:
    """Run a program; one that a signal ends counts as `otherwise`."""
    with StopSignals() as stop:
        try:
            return stop.run(main)
        except Stopped:
            return otherwise
