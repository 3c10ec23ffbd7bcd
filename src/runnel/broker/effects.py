"""What a broker or a session wants done: the only things that `handle` returns. Imperative.

The driver carries them out in order. It never asks back: what comes of it arrives as events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SendMany:
    """Write these frames to a connection, in this order."""

    conn: int
    frames: list[bytes]


@dataclass(frozen=True, slots=True)
class Connect:
    """Dial a broker; `Connected` or `Disconnected(conn=0)` with its name will tell."""

    peer: str


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection after what was written to it."""

    conn: int
    reason: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Fire `timer` at this time; replaces an earlier setting of the same name."""

    timer: str
    at: int


@dataclass(frozen=True, slots=True)
class Trace:
    """Something worth recording happened."""

    kind: str
    data: dict[str, Any]


Effect = SendMany | Connect | Close | SetTimer | Trace
