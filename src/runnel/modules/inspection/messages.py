"""Inspection's messages: a question, the pieces of its answer, and where else to ask.

Rules:
- All are monitoring: they overtake data, so a broker that is full can still be asked why.
- An answer is MessagePack of plain data. One that is long comes in pieces of `PIECE_BYTES`, so that it
  never comes near the limit of a frame; all but the last say that more follow.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from runnel.wire import FRAME_BYTES_MAX, Lane, Message, Way, register
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


class Referral(Message, frozen=True):
    """To an operator, in place of a Hello: none are served here, but at this address of the same broker."""

    address: Address


register(32, Ask, Lane.MONITOR, Way.FROM_OPERATOR)
register(33, Answer, Lane.MONITOR, Way.TO_OPERATOR)
# 34 was Whereabouts until version 3 of the wire
register(35, Referral, Lane.MONITOR, Way.TO_OPERATOR)


def split_answer(token: int, answer: object) -> list[Answer]:
    """Cut an answer into messages.

    >>> [piece.more for piece in split_answer(1, {"name": "B1"})]
    [False]
    >>> [piece.more for piece in split_answer(1, "x" * PIECE_BYTES)]
    [True, False]
    """
    body = msgspec.msgpack.encode(answer)
    starts = range(0, len(body), PIECE_BYTES)
    return [
        Answer(token, body[start : start + PIECE_BYTES], start + PIECE_BYTES < len(body))
        for start in starts
    ]
