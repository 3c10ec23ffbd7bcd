"""The core's messages: what brokers and clients tell each other, besides publications.

    on a link           Hello  Listens  Credentials  Denied  Ack   (not numbered)
    routes              Advertise  Unadvertise  Subscribe  Unsubscribe
    in order with them  Barrier  Handover  Fence  MissingLinks
    a publisher moves   PingRequest  PingAnswer  Relocate  Mum  Mcm
    what was lost       Missed  Loss
    to a client         Refused  RefusedPublications
    a client's name     ClientHere
    a new generation    Goal  Reached                       (broker to client, and back)
    farewell            Bye

Rules:
- The types are the checks: ids fit 63 bits, names and reasons are short.
- Each is registered (below) with its tag, its lane, and who may send it to whom.
- A selection stays as the bytes it came in (`msgspec.Raw`): it is handed on as it is, and read by
  `decode_selection` where somebody needs to know what it says.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, Literal

import msgspec

from runnel.wire.header import ID_MAX, PROTOCOL, TTL_MAX
from runnel.wire.registry import Lane, Message, Way, register

NAME_CHARACTERS_MAX = 255
REASON_CHARACTERS_MAX = 1_000
ADDRESS_CHARACTERS_MAX = 300
SECRET_CHARACTERS_MAX = 8_192
COUNTERS_MAX = 1_024  # publications that one message is about
MISSING_LINKS_MAX = 32  # that are named; if there are more, so many of them
LOSS_IDS_MAX = 1_024  # in one message; there may be several
LOSS_NAMES_MAX = 32
PINGED_MAX = 256  # brokers that a publisher is asked to measure at a time
PINGS_MAX = 100  # round trips to each

Id = Annotated[int, msgspec.Meta(ge=0, le=ID_MAX)]
Count = Annotated[int, msgspec.Meta(ge=0, le=ID_MAX)]
Generation = Annotated[int, msgspec.Meta(ge=0, le=2**32)]
"""Of the network."""

Version = Annotated[int, msgspec.Meta(ge=0, le=2**32)]
"""Of orders about a generation: of two, the later one counts. So one that nobody could outdo must not be."""

Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=ID_MAX)]
"""A time: nanoseconds since 1970."""

Ttl = Annotated[int, msgspec.Meta(ge=0, le=TTL_MAX)]
Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS_MAX)]
LinkName = Annotated[str, msgspec.Meta(max_length=2 * NAME_CHARACTERS_MAX + 1)]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_CHARACTERS_MAX)]
Address = Annotated[str, msgspec.Meta(max_length=ADDRESS_CHARACTERS_MAX)]
Secret = Annotated[str, msgspec.Meta(max_length=SECRET_CHARACTERS_MAX)]
LinkNames = Annotated[tuple[LinkName, ...], msgspec.Meta(max_length=MISSING_LINKS_MAX)]
LossIds = Annotated[tuple[Id, ...], msgspec.Meta(max_length=LOSS_IDS_MAX)]
LossNames = Annotated[tuple[Name, ...], msgspec.Meta(max_length=LOSS_NAMES_MAX)]
About = Literal["subscription", "advertisement", "link"]


class Stage(IntEnum):
    """How far a client has come, or is to go, from one generation of the network to the next (client/crossing.py)."""

    OLD = 0  # it lives and publishes in the old one
    BOTH = 1  # it lives in both, and publishes in the old one
    AHEAD = 2  # it lives in both, and publishes in the new one
    NEW = 3  # it lives and publishes in the new one


class Hello(Message, frozen=True):
    """The first frame of a connection, from both sides: who I am, and where we left off.

    >>> Hello(PROTOCOL, "client", "alice", 5, 0, 0, 0, 0).name
    'alice'
    """

    protocol: Annotated[int, msgspec.Meta(ge=-(2**63), le=ID_MAX)]
    """Always PROTOCOL: a peer that speaks something else is noticed here."""

    kind: Name
    """What I am: a broker, a client … (broker/kinds.py)."""

    name: Name
    token: Id
    """Names my side of the link session."""

    peer_token: Id
    """The peer's token as I know it; 0: I know none."""

    received_data: Count
    received_monitor: Count
    credit: Count
    """How many bytes a publisher may send before the next acknowledgement."""

    generation: Generation = 0
    """Of the network, to which I belong; 0: whichever there is now."""

    def __post_init__(self) -> None:
        if self.protocol >> 8 != PROTOCOL >> 8:
            raise ValueError("this is not a Runnel peer: check the address")
        if self.protocol != PROTOCOL:
            raise ValueError(
                f"the peer speaks version {self.protocol & 255}, this side {PROTOCOL & 255}: "
                "upgrade the older one"
            )


class Listens(Message, frozen=True):
    """Behind a broker's Hello: where it listens, so that errors can name two of one name (broker/refusals.py)."""

    address: Address


class Credentials(Message, frozen=True):
    """Behind the Hello of a client or an operator: who says it, and what proves that; empty if there is nothing to say.

    A node with access rules reads it before anybody else does (node/doorman.py); to all others it means nothing.

    >>> Credentials("alice", password="geheim")
    Credentials(user='alice')
    """

    user: Name = ""
    """May be left out with a token, which names the user."""

    password: Secret = ""
    token: Secret = ""

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("user", self.user)]


class Denied(Message, frozen=True):
    """To a client or an operator, in place of a Hello or later: it may not be here, and need not come back as it is."""

    reason: Reason


class Ack(Message, frozen=True):
    """How much has been taken in; also says that this side is alive."""

    data: Count
    monitor: Count
    credit: Count
    congested: bool
    watermark_ns: Nanoseconds = 0
    """All that was published before this time, and goes over this link, is among the first `sent` data frames of this
    run of the link (broker/watermarks.py). 0: nothing is said about that."""

    sent: Count = 0
    handed_ns: Nanoseconds = 0
    """All that was published before this time, and came over this link, is with whoever it is for, here and further on;
    or its loss is told among the first `sent` data frames. 0: nothing is said about that."""


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
    waits: bool = True
    """Whether a link that was lost may still owe its Fence; if not, it is missing in the answer."""


class Handover(Message, frozen=True):
    """From a client that moves, at its new home behind all that it has set up there: on its way to the old home.

    The old home answers with two Fences: one to the client, behind what it has for it, and one back the way that this
    message came (broker/barriers.py says what they mean).
    """

    token: Id
    home: Name
    """The old home's name."""

    client: Name
    run: Id
    """The old home's token for its link to the client: another run of that link has nothing to hand over."""

    sent: Count
    """How many data frames the client has sent in that run: they come first."""


class Fence(Message, frozen=True):
    """The answer to a Barrier or a Handover: what was to come before it has come.

    From a client to its old home: it has sent there what it is going to send.
    """

    token: Id
    reached: bool = True
    """A Handover: whether it has come to the old home. False: no broker in that direction is the old home."""

    missing: LinkNames = ()
    """To a client: the links of the network that are not there, behind which nothing is complete."""


class MissingLinks(Message, frozen=True):
    """From broker to broker: the links that are missing on this side, all of them (broker/absences.py).

    The first one on a link that starts fresh comes behind all advertisements.
    """

    links: LinkNames


class ClientHere(Message, frozen=True):
    """From broker to broker, throughout the network: a client has connected (broker/namesakes.py)."""

    name: Name
    token: Id
    """Of the client's side of its link; of two clients, the one that started later has the larger one."""

    broker: Name
    """Where it is."""

    ttl: Ttl


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


class Pinged(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A broker, and where it listens."""

    broker: Name
    address: Address


class PingRequest(Message, frozen=True):
    """To a publisher: measure how far these brokers are, and say so in a PingAnswer with the same number."""

    id: Id
    number: Count
    brokers: Annotated[tuple[Pinged, ...], msgspec.Meta(max_length=PINGED_MAX)]
    samples: Annotated[int, msgspec.Meta(ge=1, le=PINGS_MAX)]


class PingAnswer(Message, frozen=True):
    """From a publisher: its mean round trip to each of the brokers, in the same order; 0: out of reach."""

    id: Id
    number: Count
    times_ns: Annotated[tuple[Count, ...], msgspec.Meta(max_length=PINGED_MAX)]


class Missed(Message, frozen=True):
    """So many publications were dropped for this client, because its queue was full."""

    count: Count


class Loss(Message, frozen=True):
    """What was published in this interval, and would have gone over this link, may be lost (broker/losses.py)."""

    link: LinkName
    since_ns: Nanoseconds
    until_ns: Nanoseconds
    """0: it is not over."""

    reason: Reason
    count: Count = 0
    """How many publications, where that is known."""

    to: Literal["brokers", "subscriber", "publisher"] = "brokers"
    """Whom it is told: a client that may have missed something, or one whose publications others may have missed."""

    advertisements: LossIds = ()
    """Between brokers: the publishers whose subscribers are to be told."""

    published: LossIds = ()
    """Between brokers: the publishers who are to be told."""

    publishers: LossNames = ()
    """To a client: the names of the publishers, its own if it is told as one; none: there are too many."""

    ttl: Ttl = TTL_MAX


class Refused(Message, frozen=True):
    """To a client: the broker does not take this subscription or advertisement; all else of the client stands."""

    id: Id
    reason: Reason


class RefusedPublications(Message, frozen=True):
    """To a client: the broker has not handed on these of its publications, since the client may not publish them."""

    advertisement: Id
    counters: Annotated[tuple[Id, ...], msgspec.Meta(max_length=COUNTERS_MAX)]
    reason: Reason


class Goal(Message, frozen=True):
    """To a client: how far it is to go from this generation of the network to another (client/crossing.py)."""

    generation: Generation
    """The generation that it is about."""

    version: Count
    """Of two goals for one generation the later one counts."""

    stage: Stage
    address: Address
    """Where the client is to live then; one that lives there already stays where it is."""


class Reached(Message, frozen=True):
    """From a client: how far it has come."""

    generation: Generation
    stage: Stage
    version: Count
    """Of the goal that it has reached by that; 0 while it is on its way."""


class Bye(Message, frozen=True):
    """This side leaves for good: forget it at once."""

    reason: Reason
    is_final: bool = False
    """The other side is not wanted here again: it must not dial."""


# The tags are for good: a peer of another age must not take one message for another.
register(2, Hello, Lane.CONTROL, Way.ALL)
register(3, Ack, Lane.CONTROL, Way.ALL)
register(4, Advertise, Lane.DATA, Way.FROM_CLIENT | Way.BETWEEN_BROKERS)
register(5, Unadvertise, Lane.DATA, Way.FROM_CLIENT | Way.BETWEEN_BROKERS)
register(6, Subscribe, Lane.DATA, Way.FROM_CLIENT | Way.BETWEEN_BROKERS)
register(7, Unsubscribe, Lane.DATA, Way.FROM_CLIENT | Way.BETWEEN_BROKERS)
register(8, Barrier, Lane.DATA, Way.FROM_CLIENT | Way.BETWEEN_BROKERS)
register(9, Fence, Lane.DATA, Way.FROM_CLIENT | Way.BETWEEN_BROKERS | Way.TO_CLIENT)
register(10, Missed, Lane.DATA, Way.TO_CLIENT)
register(11, Bye, Lane.DATA, Way.ALL)
register(12, Mum, Lane.DATA, Way.FROM_CLIENT | Way.BETWEEN_BROKERS)
register(13, Mcm, Lane.DATA, Way.BETWEEN_BROKERS | Way.TO_CLIENT)
register(14, Relocate, Lane.MONITOR, Way.TO_CLIENT)
register(15, Goal, Lane.DATA, Way.TO_CLIENT)
register(16, Reached, Lane.DATA, Way.FROM_CLIENT)
register(17, Handover, Lane.DATA, Way.FROM_CLIENT | Way.BETWEEN_BROKERS)
register(18, PingRequest, Lane.MONITOR, Way.TO_CLIENT)
register(19, PingAnswer, Lane.MONITOR, Way.FROM_CLIENT)
register(24, Refused, Lane.DATA, Way.TO_CLIENT)
register(25, MissingLinks, Lane.DATA, Way.BETWEEN_BROKERS)
register(26, Loss, Lane.DATA, Way.BETWEEN_BROKERS | Way.TO_CLIENT)
register(27, Credentials, Lane.CONTROL, Way.FROM_CLIENT | Way.FROM_OPERATOR)
register(28, Denied, Lane.CONTROL, Way.TO_CLIENT | Way.TO_OPERATOR)
# Monitoring, so that it comes before the acknowledgement of what it is about.
register(29, RefusedPublications, Lane.MONITOR, Way.TO_CLIENT)
register(30, Listens, Lane.CONTROL, Way.BETWEEN_BROKERS)
register(31, ClientHere, Lane.MONITOR, Way.BETWEEN_BROKERS)
