"""CROC as a client without sockets: it sends one BIR and keeps what comes. A world, or a loop, drives it.

`operate/croc.py` is the one that ships, over a connection of its own. What both take in is the same: `Answers`.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.effects import SendMany
from runnel.broker.events import Connected, Event, FramesArrived
from runnel.errors import BugError
from runnel.modules.profiles.messages import Bia, BiaEnd, Bir
from runnel.operate.picture import Answers
from runnel.quantities import SECOND
from runnel.wire import PROTOCOL, Ack, Decoder, Hello, Message, encode


class CrocDone:
    """The effect of the last message."""


class CrocClient:
    """The machine: dial a broker for it. `over_at` is when everything was said."""

    def __init__(self, timeout_s: float = 5.0, token: int = 77) -> None:
        self.answers = Answers()
        self.bias: list[Bia] = []
        self.over_at: int | None = None
        self._bir = Bir(token, round(timeout_s * SECOND))
        self._decoder = Decoder()
        self._received = 0

    def handle(self, event: Event, now: int) -> list[Any]:
        match event:
            case Connected(conn=conn):
                name = f"inspector-{self._bir.token}"
                hello = Hello(PROTOCOL, "operator", name, self._bir.token, 0, 0, 0, 0)
                return [SendMany(conn, [encode(hello)])]
            case FramesArrived(conn=conn, chunk=chunk):
                return self._frames(conn, chunk, now)
        return []

    def _frames(self, conn: int, chunk: bytes, now: int) -> list[Any]:
        out: list[Message] = []
        effects: list[Any] = []
        for frame in self._decoder.feed(chunk):
            if isinstance(frame, Hello):
                out.append(self._bir)
            elif isinstance(frame, Ack):
                out.append(self._ack())
            elif isinstance(frame, (Bia, BiaEnd)) and frame.token == self._bir.token:
                self._received += 1
                if isinstance(frame, Bia):
                    self.bias.append(frame)
                if self.answers.take(frame):
                    if self.over_at is not None:
                        raise BugError("there are two ends of the answers")
                    self.over_at = now
                    effects.append(CrocDone())
                out.append(self._ack())
        if out:
            effects.insert(0, SendMany(conn, [encode(message) for message in out]))
        return effects

    def _ack(self) -> Ack:
        return Ack(0, self._received, 0, False)
