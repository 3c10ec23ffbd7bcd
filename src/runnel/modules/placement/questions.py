"""Operators' questions and commands about placement (`answers.py` answers them).

publishers      the publishers that are connected here, with placement's data and decisions
decide          a command: decide about a publisher now, without moving it
move-publisher  a command: ask a publisher to go to another broker
"""

from __future__ import annotations

from typing import ClassVar

from runnel.broker.questions import ROWS_MAX, Command, Question, Rows
from runnel.wire.messages import Address, Id, Name


class Publishers(Question, frozen=True):
    """Publishers of one name, or all; optionally with the candidates of each decision."""

    asked_as: ClassVar[str] = "publishers"

    publisher: str = ""
    candidates: bool = False
    rows_max: Rows = ROWS_MAX


class Decide(Command, frozen=True):
    """The advertisement of a publisher."""

    asked_as: ClassVar[str] = "decide"

    advertisement: Id


class MovePublisher(Command, frozen=True):
    """The advertisement of a publisher, the broker that it is to go to, and where that one listens."""

    asked_as: ClassVar[str] = "move-publisher"

    advertisement: Id
    broker: Name
    address: Address
