"""What a broker or a session wants done: the only things that `handle` returns. Imperative.

The driver carries them out in order. It never asks back: what comes of it arrives as events.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class SendMany(Struct, frozen=True, gc=False):
    """Write these frames to a connection, in this order."""

    conn: int
    frames: list[bytes]


class SendSame(Struct, frozen=True, gc=False):
    """Write the same frames to several connections, one after the other."""

    conns: list[int]
    frames: list[bytes]


class Connect(Struct, frozen=True, gc=False):
    """Dial a broker; `Connected` or `Disconnected(conn=0)` with its name will tell."""

    peer: str


class Close(Struct, frozen=True, gc=False):
    """Close a connection after what was written to it."""

    conn: int
    reason: str


class SetTimer(Struct, frozen=True, gc=False):
    """Fire `timer` at this time; replaces an earlier setting of the same name."""

    timer: str
    at: int


class Exit(Struct, frozen=True, gc=False):
    """End the process: everything was handed on."""


class Trace(Struct, frozen=True):
    """Something worth recording happened."""

    kind: str
    data: dict[str, Any]


Effect = SendMany | SendSame | Connect | Close | SetTimer | Exit | Trace
