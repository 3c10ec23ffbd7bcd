"""What can happen to a broker or a session: the only things that `handle` takes. Past tense."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection is open. `peer` names the broker that this side dialled; None if it was dialled."""

    conn: int
    peer: str | None = None


@dataclass(frozen=True, slots=True)
class Disconnected:
    """A connection is gone, or could not be opened (then `conn` is 0)."""

    conn: int
    peer: str | None = None


@dataclass(frozen=True, slots=True)
class FramesArrived:
    """Bytes came in: any piece of the stream, usually many frames."""

    conn: int
    chunk: bytes


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer that was set has gone off."""

    timer: str


Event = Connected | Disconnected | FramesArrived | TimerFired
