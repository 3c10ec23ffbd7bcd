"""What inspection says on the wire: a question, pieces of its answer, and where a broker is to be found.

Rules:
- All three are monitoring: they overtake data, so a broker that is full can still be asked why.
- An answer is MessagePack of plain data. One that is long comes in pieces of `PIECE_BYTES`, so that it
  never comes near the limit of a frame; all but the last say that more follow.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from runnel.wire import FRAME_BYTES_MAX, Lane, Message, register
from runnel.wire.messages import Address, Id, Name

PIECE_BYTES = 1 << 17


class Ask(Message, frozen=True):
    """A question to a broker; the answer carries the same token."""

    token: Id
    question: Name
    argument: msgspec.Raw


class Answer(Message, frozen=True):
    """A piece of an answer."""

    token: Id
    body: Annotated[bytes, msgspec.Meta(max_length=FRAME_BYTES_MAX)]
    more: bool


class Whereabouts(Message, frozen=True):
    """Tells a neighbour broker under which address this one listens."""

    address: Address


register(32, Ask, Lane.MONITOR)
register(33, Answer, Lane.MONITOR)
register(34, Whereabouts, Lane.MONITOR)


def pieces(token: int, answer: object) -> list[Answer]:
    """Cut an answer into messages.

    >>> [piece.more for piece in pieces(1, {"name": "B1"})]
    [False]
    >>> [piece.more for piece in pieces(1, "x" * PIECE_BYTES)]
    [True, False]
    """
    body = msgspec.msgpack.encode(answer)
    starts = range(0, len(body), PIECE_BYTES)
    return [
        Answer(token, body[start : start + PIECE_BYTES], start + PIECE_BYTES < len(body))
        for start in starts
    ]
