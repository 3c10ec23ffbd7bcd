"""Commands that run until they are ended: Ctrl-C, SIGTERM or a closed terminal end them, and are no failure.

A signal is only noted; the program ends at the next place where it can do so properly. So neither the first signal nor
a second one interrupts the cleaning up.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

from runnel.net.loops import run

_T = TypeVar("_T")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(Exception):  # noqa: N818 - not an error: the user asked for it
    """The user, or the system, wants the program to end."""


class StopSignals:
    """A context in which signals are noted. After one, `check` raises Stopped, and what `run` runs is cancelled."""

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

    def __exit__(self, *error: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        already, self.asked = self.asked, True
        if self._task is not None and not already:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    def check(self) -> None:
        """Raise Stopped if a signal has come."""
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
