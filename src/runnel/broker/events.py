"""What can happen to a broker or a session: the only things that `handle` takes. Past tense."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from runnel.broker.permits import Permit


class Connected(Struct, frozen=True, gc=False):
    """A connection is open. `peer` names the broker that this side dialled; None if it was dialled.

    `permit` is what the peer may do, if it has proved who it is.
    """

    conn: int
    peer: str | None = None
    permit: Permit | None = None


class Disconnected(Struct, frozen=True, gc=False):
    """A connection is gone, or could not be opened (then `conn` is 0)."""

    conn: int
    peer: str | None = None


class FramesArrived(Struct, frozen=True, gc=False):
    """Bytes came in: any piece of the stream, usually many frames."""

    conn: int
    chunk: bytes


class TimerFired(Struct, frozen=True, gc=False):
    """A timer that was set has gone off."""

    timer: str


class StopAsked(Struct, frozen=True, gc=False):
    """The operator wants the broker to end: it hands on what it has, says farewell, and asks for `Exit`."""


class AccessChanged(Struct, frozen=True, gc=False):
    """The rules have changed. `renew` has the permit that takes the place of another; None: its user has to go."""

    renew: Callable[[Permit], Permit | None]


Event = Connected | Disconnected | FramesArrived | TimerFired | StopAsked | AccessChanged
