"""The messages of CROC and brokers: green §III-A, under the paper's names.

    Bir      broker information request   from CROC to one broker, and from broker to broker over the tree
    Bia      broker information answer    a piece of one broker's answer, handed on unchanged towards CROC
    BiaEnd   the end of the answers of this broker and all behind it, with the names of those who did not answer

Decision: in the paper one answer grows on its way. Here an answer comes in pieces that fit a frame, each from one
broker and complete in itself. So brokers on the way need not read or keep them, and no answer is too large.

Rules:
- All are monitoring messages: they overtake data.
- Each broker on the way waits a shorter time than the one before it (`patience_ns`), so CROC gets an answer in time
  even if brokers further away do not answer.
- A bit vector is little-endian, its first publication the lowest bit. Times are nanoseconds.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from runnel.wire import FRAME_BYTES_MAX, Lane, Message, Way, register
from runnel.wire.messages import Address, Count, Id, Name, Ttl

DEPTH_MAX = 64
"""How many brokers deep a request goes."""

MISSING_MAX = 500
"""How many brokers that did not answer are named at most."""

Body = Annotated[bytes, msgspec.Meta(max_length=FRAME_BYTES_MAX)]


class Bir(Message, frozen=True):
    """Broker information request: answer with `Bia`s and a `BiaEnd`, all with the same token."""

    token: Id
    timeout_ns: Count
    """How long CROC waits."""

    depth: Ttl = 0
    """How many brokers lie between here and CROC."""

    def patience_ns(self) -> int:
        """How long a broker waits for those behind it.

        >>> Bir(1, 6_400, depth=0).patience_ns(), Bir(1, 6_400, depth=1).patience_ns()
        (6400, 6300)
        """
        return self.timeout_ns * max(0, DEPTH_MAX - self.depth) // DEPTH_MAX


class Bia(Message, frozen=True):
    """Broker information answer: one encoded `Piece` of a broker's answer."""

    token: Id
    broker: Name
    body: Body


class BiaEnd(Message, frozen=True):
    """This broker and all behind it have answered, except the missing ones and those behind them."""

    token: Id
    missing: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MISSING_MAX)]


class _AnswerPart(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A part of an answer."""


class BrokerInfo(_AnswerPart, frozen=True):
    """A broker: where it listens, its neighbours, and its capacity."""

    address: Address
    neighbours: tuple[Name, ...]
    profiles: bool
    """Whether it keeps profiles."""

    bits: Count
    output_bytes_per_s: Count
    """0: no limit."""

    matching_base_ns: Count
    matching_each_ns: Count
    """The matching-delay function: base + each · subscriptions; both 0: it takes no time."""

    left_out: Count = 0
    """How many bit vectors there was no room for."""


class PublisherInfo(_AnswerPart, frozen=True):
    """A publisher's profile. After a migration both brokers send one: the counts at the old broker still matter."""

    id: Id
    publisher: Name
    client: Name
    """The client that publishes it; "" if that is not connected here any more."""

    epoch: Count
    publications: Count
    bytes: Count
    window_ns: Count
    """The time in which they were published."""

    last: Id


class VectorInfo(_AnswerPart, frozen=True):
    """The publications of one publisher that a subscription got: bit i is `first` + i."""

    advertisement: Id
    first: Id
    bits: bytes


class SubscriptionInfo(_AnswerPart, frozen=True):
    """A subscription's profile, or a part of it: one with very many vectors comes in several pieces."""

    id: Id
    client: Name
    vectors: tuple[VectorInfo, ...]


class Piece(_AnswerPart, frozen=True):
    """The content of a `Bia`. The first piece of a broker's answer describes the broker."""

    broker: BrokerInfo | None = None
    clients: tuple[Name, ...] = ()
    """All connected clients."""

    publishers: tuple[PublisherInfo, ...] = ()
    subscriptions: tuple[SubscriptionInfo, ...] = ()


register(64, Bir, Lane.MONITOR, Way.BETWEEN_BROKERS | Way.FROM_OPERATOR)
register(65, Bia, Lane.MONITOR, Way.BETWEEN_BROKERS | Way.TO_OPERATOR)
register(66, BiaEnd, Lane.MONITOR, Way.BETWEEN_BROKERS | Way.TO_OPERATOR)
