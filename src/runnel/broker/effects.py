"""What a broker or a session wants done: the only things that `handle` returns. Imperative.

The driver carries them out in order. It never asks back: what comes of it arrives as events.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class SendMany(Struct, frozen=True, gc=False):
    """Many frames to one connection: write them, in this order.

    The flush makes one for each link that has something queued.
    """

    conn: int
    frames: list[bytes]


class SendSame(Struct, frozen=True, gc=False):
    """The same frames to many connections: write them to each, one after the other.

    The router makes it for a publication that comes alone and goes past the queues (`broker/router.py::Router.route`):
    one effect for all receivers of a frame.
    """

    conns: list[int]
    frames: list[bytes]


class Connect(Struct, frozen=True, gc=False):
    """Dial a broker; `Connected` or `Disconnected(conn=0)` with its name will tell.

    `address` is where it is, if whoever asks knows; otherwise the dialler must.
    """

    peer: str
    address: str = ""


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


class WriteTrace(Struct, frozen=True):
    """Something worth recording happened."""

    kind: str
    data: dict[str, Any]


Effect = SendMany | SendSame | Connect | Close | SetTimer | Exit | WriteTrace
