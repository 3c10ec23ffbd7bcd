"""The driver: runs a broker or a session, which do no I/O themselves, on asyncio.

It passes events to the machine and carries out the effects that come back, in order. Effects that are not I/O (a
trace, a delivery) go to the callback `tell`. The simulator's world is the other driver; machines cannot tell the two
apart.

Rules:
- The driver decides nothing: no retries, no limits, no state but connections and timers.
- It belongs to one event loop and is called on that loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import monotonic_ns
from typing import Any, Protocol

from runnel.broker.effects import Close, Connect, SendMany, SendSame, SetTimer
from runnel.broker.events import Connected, Disconnected, Event, FramesArrived, TimerFired
from runnel.broker.permits import Permit
from runnel.quantities import SECOND


class Machine(Protocol):
    """A broker or a session."""

    def handle(self, event: Event, now: int) -> Iterable[Any]:
        """Handle an event; returns the effects to carry out."""
        ...


class ByteStream(Protocol):
    """A connection to a peer, over TCP or in memory."""

    def write(self, frames: list[bytes]) -> None:
        """Write these frames after what was written before."""
        ...

    def close(self, reason: str) -> None:
        """Close it after what was written; `Driver.closed` is not called for it any more."""
        ...


class Dialler(Protocol):
    """Opens connections: each `dial` leads to a later call of `Driver.opened(…, peer)` or `Driver.failed(peer)`."""

    def dial(self, driver: Driver, peer: str, address: str = "") -> None:
        """Start to open a connection to a peer, at the address or, without one, at the address the dialler knows."""
        ...

    def stop(self) -> None:
        """Give up pending dials."""
        ...


class Driver:
    """Runs one machine. `tell` gets every effect that is not I/O."""

    def __init__(self, machine: Machine, dialler: Dialler, tell: Callable[[Any], None]) -> None:
        self.machine = machine
        self._dialler = dialler
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._connections: dict[int, ByteStream] = {}
        self._last_conn = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}

    # -- what happens ---------------------------------------------------------------------------------

    def opened(
        self, connection: ByteStream, peer: str | None = None, permit: Permit | None = None
    ) -> int:
        """A connection is open: dialled for `peer`, or accepted from whoever has the permit.

        Returns the number that names it from now on.
        """
        self._last_conn += 1
        conn = self._last_conn
        self._connections[conn] = connection
        self.handle(Connected(conn, peer, permit))
        return conn

    def failed(self, peer: str, reason: str = "") -> None:
        """A peer could not be dialled; subclasses may report the reason."""
        self.handle(Disconnected(0, peer))

    def received(self, conn: int, chunk: bytes) -> None:
        """Bytes have arrived."""
        self.perform(self.machine.handle(FramesArrived(conn, chunk), monotonic_ns()))

    def closed(self, conn: int, reason: str = "") -> None:
        """A connection was closed; subclasses may report the reason, where one is known."""
        if self._connections.pop(conn, None) is not None:
            self.handle(Disconnected(conn))

    def handle(self, event: Event) -> None:
        """Pass an event to the machine and carry out its effects."""
        self.perform(self.machine.handle(event, monotonic_ns()))

    # -- what is to be done ---------------------------------------------------------------------------

    def perform(self, effects: Iterable[Any]) -> None:
        """Carry out effects; also called with those of methods other than `handle`."""
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
                self._dialler.dial(self, effect.peer, effect.address)
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
        """Stop all timers and dials, and close connections after what was written."""
        self._dialler.stop()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for connection in self._connections.values():
            connection.close("the process ends")
        self._connections.clear()
