"""The driver: runs a broker or a session, which do no I/O themselves, on asyncio.

It brings events to the machine's door and carries out the effects that come back, in order. What is no I/O (a
trace, a delivery) is told to whoever owns the driver. The simulator's world is the other driver; machines cannot
tell the two apart.

Rules:
- The driver has no opinion: no retry, no limit, no state but connections and timers.
- It lives on one event loop and is called on that loop alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import monotonic_ns
from typing import Any, Protocol

from runnel.broker.effects import Close, Connect, SendMany, SendSame, SetTimer
from runnel.broker.events import Connected, Disconnected, Event, FramesArrived, TimerFired

SECOND = 1_000_000_000


class Machine(Protocol):
    """A broker or a session."""

    def handle(self, event: Event, now: int) -> Iterable[Any]:
        """Take in one thing that happened; what is to be done about it."""
        ...


class Connection(Protocol):
    """A stream of bytes to a peer, whatever carries it."""

    def write(self, frames: list[bytes]) -> None:
        """Send these, after what was sent before."""
        ...

    def close(self, reason: str) -> None:
        """End it after what was written; `Driver.closed` is not called for it any more."""
        ...


class Dialler(Protocol):
    """Opens connections: each call ends in `Driver.opened(…, peer)` or `Driver.failed(peer)`, never at once."""

    def dial(self, driver: Driver, peer: str) -> None:
        """Begin to open a connection to a peer."""
        ...

    def stop(self) -> None:
        """Give up what is under way."""
        ...


class Driver:
    """Runs one machine. `tell` gets every effect that is no I/O."""

    def __init__(self, machine: Machine, dialler: Dialler, tell: Callable[[Any], None]) -> None:
        self.machine = machine
        self._dialler = dialler
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._connections: dict[int, Connection] = {}
        self._last_conn = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}

    # -- what happens ---------------------------------------------------------------------------------

    def opened(self, connection: Connection, peer: str | None = None) -> int:
        """A connection is open: dialled for `peer`, or accepted. The number that names it from now on."""
        self._last_conn += 1
        conn = self._last_conn
        self._connections[conn] = connection
        self.handle(Connected(conn, peer))
        return conn

    def failed(self, peer: str, reason: str = "") -> None:
        """A peer could not be dialled; the reason is for whoever wants to tell somebody."""
        self.handle(Disconnected(0, peer))

    def received(self, conn: int, chunk: bytes) -> None:
        """Bytes came in."""
        self.perform(self.machine.handle(FramesArrived(conn, chunk), monotonic_ns()))

    def closed(self, conn: int) -> None:
        """A connection is gone."""
        if self._connections.pop(conn, None) is not None:
            self.handle(Disconnected(conn))

    def handle(self, event: Event) -> None:
        """Bring an event to the machine and do what it wants done."""
        self.perform(self.machine.handle(event, monotonic_ns()))

    # -- what is to be done ---------------------------------------------------------------------------

    def perform(self, effects: Iterable[Any]) -> None:
        """Carry out effects; also for those that a machine returned from a call other than `handle`."""
        for effect in effects:
            kind = type(effect)
            if kind is SendMany:
                connection = self._connections.get(effect.conn)
                if connection is not None:
                    connection.write(effect.frames)
            elif kind is SendSame:
                for conn in effect.conns:
                    if conn in self._connections:
                        self._connections[conn].write(effect.frames)
            elif kind is SetTimer:
                self._set_timer(effect.timer, effect.at)
            elif kind is Close:
                connection = self._connections.pop(effect.conn, None)
                if connection is not None:
                    connection.close(effect.reason)
            elif kind is Connect:
                self._dialler.dial(self, effect.peer)
            else:
                self._tell(effect)

    def _set_timer(self, timer: str, at: int) -> None:
        earlier = self._timers.get(timer)
        if earlier is not None:
            earlier.cancel()
        delay_s = max(0, at - monotonic_ns()) / SECOND
        self._timers[timer] = self._loop.call_later(delay_s, self._timer_fired, timer)

    def _timer_fired(self, timer: str) -> None:
        del self._timers[timer]
        self.handle(TimerFired(timer))

    def stop(self) -> None:
        """No more events: timers and dialling end, connections close after what was written."""
        self._dialler.stop()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for connection in self._connections.values():
            connection.close("the process ends")
        self._connections.clear()
