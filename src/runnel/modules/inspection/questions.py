"""What every broker can be asked about itself (`module.py` answers).

    status         who it is, its links (of clients the first thousand), the sizes of its tables, its counters,
                   where its neighbours listen, and what its modules have to say
    tables         rows of its SRT and PRT, from the start of each, or those of one peer
    route          where an event would go, and who wants it
    subscriptions  what a client has subscribed to here, and why an event would or would not do
    story          what happened to one id, if the broker keeps stories

Other modules bring questions of their own: modules/placement/questions.py, modules/generations/questions.py.
"""

from __future__ import annotations

from typing import ClassVar

from runnel.broker.questions import ROWS_MAX, Question, Rows
from runnel.language import Value


class Status(Question, frozen=True):
    """No argument."""

    asked_as: ClassVar[str] = "status"


class TableRows(Question, frozen=True):
    """Which rows: of one peer, or of all; at most so many of each table."""

    asked_as: ClassVar[str] = "tables"

    peer: str = ""
    rows_max: Rows = ROWS_MAX


class Route(Question, frozen=True):
    """An event, and the peer that it would come from; "" stands for an unknown client."""

    asked_as: ClassVar[str] = "route"

    event: dict[str, Value]
    peer: str = ""
    rows_max: Rows = 100


class Subscriptions(Question, frozen=True):
    """A client, and an event to try its filters with."""

    asked_as: ClassVar[str] = "subscriptions"

    client: str
    event: dict[str, Value] | None = None
    rows_max: Rows = 100


class StoryOf(Question, frozen=True):
    """An id of a subscription or advertisement; with a counter, that of a publication."""

    asked_as: ClassVar[str] = "story"

    id: int
    counter: int = 0
