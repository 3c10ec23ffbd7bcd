"""The core's messages: what brokers and clients tell each other, besides publications.

    on a link           Hello  Ack                          (not numbered)
    routes              Advertise  Unadvertise  Subscribe  Unsubscribe
    in order with them  Barrier  Fence
    a publisher moves   Mum  Mcm  Relocate
    to a client         Missed
    a new generation    Goal  Reached                       (broker to client, and back)
    farewell            Bye

Rules:
- The types are the checks: ids fit 63 bits, names and reasons are short, kinds are the two there are.
- A selection stays as the bytes it came in (`msgspec.Raw`): it is handed on as it is, and read by
  `decode_selection` where somebody needs to know what it says.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from runnel.wire.header import ID_MAX, PROTOCOL, TTL_MAX
from runnel.wire.registry import Lane, Message, register

NAME_CHARACTERS_MAX = 255
REASON_CHARACTERS_MAX = 1_000
ADDRESS_CHARACTERS_MAX = 300

Id = Annotated[int, msgspec.Meta(ge=0, le=ID_MAX)]
Count = Annotated[int, msgspec.Meta(ge=0, le=ID_MAX)]
Ttl = Annotated[int, msgspec.Meta(ge=0, le=TTL_MAX)]
Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS_MAX)]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_CHARACTERS_MAX)]
Address = Annotated[str, msgspec.Meta(max_length=ADDRESS_CHARACTERS_MAX)]
PeerKind = Literal["broker", "client"]
About = Literal["subscription", "advertisement", "link"]
Stage = Annotated[int, msgspec.Meta(ge=0, le=3)]


class Hello(Message, frozen=True):
    """The first frame of a connection, from both sides: who I am, and where we left off.

    >>> Hello(PROTOCOL, "client", "alice", 5, 0, 0, 0, 0).name
    'alice'
    """

    protocol: int
    """Always PROTOCOL: a peer that speaks something else is noticed here."""

    kind: PeerKind
    name: Name
    token: Id
    """Names my side of the link session."""

    peer_token: Id
    """The peer's token as I know it; 0: I know none."""

    received_data: Count
    received_monitor: Count
    credit: Count
    """How many bytes a publisher may send before the next acknowledgement."""

    generation: Count = 0
    """Of the network, to which I belong; 0: whichever there is now."""

    def __post_init__(self) -> None:
        if self.protocol >> 8 != PROTOCOL >> 8:
            raise ValueError("this is not a Runnel peer: check the address")
        if self.protocol != PROTOCOL:
            raise ValueError(
                f"the peer speaks version {self.protocol & 255}, this side {PROTOCOL & 255}: "
                "upgrade the older one"
            )


class Ack(Message, frozen=True):
    """How much has been taken in; also says that this side is alive."""

    data: Count
    monitor: Count
    credit: Count
    congested: bool


class Advertise(Message, frozen=True):
    """The publisher is going to publish what the selection says."""

    id: Id
    selection: msgspec.Raw
    publisher: Name
    """The stable name of the publisher, whose advertisement ids change as it comes and goes."""

    ttl: Ttl
    epoch: Count = 0
    """How often the publisher has migrated under this id: of two places, the later one counts."""


class Unadvertise(Message, frozen=True):
    """Nothing more comes under this advertisement."""

    id: Id


class Subscribe(Message, frozen=True):
    """Somebody there wants what the selection says."""

    id: Id
    selection: msgspec.Raw
    ttl: Ttl


class Unsubscribe(Message, frozen=True):
    """Nobody there wants it for this subscription any more."""

    id: Id


class Barrier(Message, frozen=True):
    """Answer with a Fence when everything sent before has arrived everywhere it is going.

    About a "link": answer at once; what this broker had for the link before comes before the Fence.
    """

    token: Id
    selection: msgspec.Raw
    about: About


class Fence(Message, frozen=True):
    """The answer to a Barrier: what was to come before it has come."""

    token: Id


class Mum(Message, frozen=True):
    """Migration update message: the publisher is here now; tell where it was. From a publisher, or on its way."""

    id: Id
    selection: msgspec.Raw
    publisher: Name
    ttl: Ttl
    epoch: Count


class Mcm(Message, frozen=True):
    """Migration complete message: nothing of the publisher is under way any more from where it was."""

    id: Id
    epoch: Count
    broken: bool = False
    """The way to where it was is cut, or that is not known: it had better go back."""


class Relocate(Message, frozen=True):
    """To a publisher: it would be better off at that broker."""

    id: Id
    broker: Name
    address: Address


class Missed(Message, frozen=True):
    """So many publications were dropped for this client, because its queue was full."""

    count: Count


class Goal(Message, frozen=True):
    """To a client: how far it is to go from this generation of the network to another (client/crossing.py)."""

    generation: Count
    """The generation that it is about."""

    version: Count
    """Of two goals for one generation the later one counts."""

    stage: Stage
    address: Address
    """Where the client is to live then; one that lives there already stays where it is."""


class Reached(Message, frozen=True):
    """From a client: how far it has come."""

    generation: Count
    stage: Stage
    version: Count
    """Of the goal that it has reached by that; 0 while it is on its way."""


class Bye(Message, frozen=True):
    """This side leaves for good: forget it at once."""

    reason: Reason
    is_final: bool = False
    """The other side is not wanted here again: it must not dial."""


# The tags are for good: a peer of another age must not take one message for another.
register(2, Hello, Lane.CONTROL)
register(3, Ack, Lane.CONTROL)
register(4, Advertise, Lane.DATA)
register(5, Unadvertise, Lane.DATA)
register(6, Subscribe, Lane.DATA)
register(7, Unsubscribe, Lane.DATA)
register(8, Barrier, Lane.DATA)
register(9, Fence, Lane.DATA)
register(10, Missed, Lane.DATA)
register(11, Bye, Lane.DATA)
register(12, Mum, Lane.DATA)
register(13, Mcm, Lane.DATA)
register(14, Relocate, Lane.MONITOR)
register(15, Goal, Lane.DATA)
register(16, Reached, Lane.DATA)
