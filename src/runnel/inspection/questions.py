"""What a broker can be asked, and the argument that each question takes.

    status         who it is, its links (of clients the first thousand), the sizes of its tables, its counters,
                   where its neighbours listen
    tables         rows of its SRT and PRT, from the start of each, or those of one peer
    route          where an event would go, and who wants it
    subscriptions  what a client has subscribed to here, and why an event would or would not do
    story          what happened to one id, if the broker keeps stories
    publishers     the publishers that are connected here, and what placement thinks of them
    generation     to which generation of the network it belongs, and how far its clients are with the switch to another

Commands, by which operators change something:

    decide           let placement decide about a publisher now, and move nobody
    move-publisher   ask a publisher to go to another broker
    open-generation  begin another generation of the network here, beside the one there is
    set-goal         how far clients are to go from one generation to the other
    close-generation end one of two generations here

An argument is a map on the wire and one of these here; what is missing has its default, what is unknown is refused.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from runnel.language import Value
from runnel.wire.messages import Address, Id, Name, Stage

ROWS_MAX = 1_000
"""How many rows an answer holds at most: a broker with millions of them must not choke on a question."""

Rows = Annotated[int, msgspec.Meta(ge=0, le=ROWS_MAX)]


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What every argument is made from."""


class Status(Question, frozen=True):
    """No argument."""


class TableRows(Question, frozen=True):
    """Which rows: of one peer, or of all; at most so many of each table."""

    peer: str = ""
    rows_max: Rows = ROWS_MAX


class Route(Question, frozen=True):
    """An event, and the peer it would come from; "" is a client of whom nothing is known."""

    event: dict[str, Value]
    peer: str = ""
    rows_max: Rows = 100


class Subscriptions(Question, frozen=True):
    """A client, and an event to try its filters with."""

    client: str
    event: dict[str, Value] | None = None
    rows_max: Rows = 100


class Publishers(Question, frozen=True):
    """Of one name, or all; with the candidates behind decisions, or without."""

    publisher: str = ""
    candidates: bool = False
    rows_max: Rows = ROWS_MAX


class Command(Question, frozen=True):
    """Changes something; all other questions do not."""


class Decide(Command, frozen=True):
    """The advertisement of a publisher."""

    advertisement: Id


class MovePublisher(Command, frozen=True):
    """The advertisement of a publisher, the broker that it is to go to, and where that one listens."""

    advertisement: Id
    broker: Name
    address: Address


class Generation(Question, frozen=True):
    """No argument."""


class OpenGeneration(Command, frozen=True):
    """A generation, the neighbours to dial in it and where they are; where clients go instead if it is on standby."""

    generation: Id
    dials: dict[Name, Address] = {}
    standby: Address = ""
    reserve: dict[Name, Address] = {}
    """The brokers on standby, and where they are: the next plan may need them."""


class SetGoal(Command, frozen=True):
    """How far clients are to go, and where: those named as named, all others as the rest."""

    generation: Id
    version: Id
    stage: Stage
    address: Address
    stages: dict[Name, Stage] = {}
    addresses: dict[Name, Address] = {}


class CloseGeneration(Command, frozen=True):
    """The generation to end."""

    generation: Id


class StoryOf(Question, frozen=True):
    """An id of a subscription or advertisement; with a counter, that of a publication."""

    id: int
    counter: int = 0


QUESTIONS: dict[str, type[Question]] = {
    "status": Status,
    "tables": TableRows,
    "route": Route,
    "subscriptions": Subscriptions,
    "story": StoryOf,
    "publishers": Publishers,
    "decide": Decide,
    "move-publisher": MovePublisher,
    "generation": Generation,
    "open-generation": OpenGeneration,
    "set-goal": SetGoal,
    "close-generation": CloseGeneration,
}
NAME_OF = {kind: name for name, kind in QUESTIONS.items()}
