"""What CROC and the brokers say on the wire: green §III-A, under the paper's names.

    Bir      broker information request   from CROC to one broker, and from broker to broker over the tree
    Bia      broker information answer    a piece of what one broker has to say, handed on towards CROC as it is
    BiaEnd   everything has been said by this broker and all behind it; or who has not answered

Decision, where the paper has one answer that grows on its way: an answer comes in pieces that fit a frame, each of one
broker and complete in itself. So nobody on the way needs to understand or to keep them, and no answer is too large.

Rules:
- All of it is monitoring: it overtakes data.
- A broker waits for those behind it less long than the one before it waits for this one (`patience_ns`), so whatever
  happens further on, CROC hears of it in time.
- A bit vector is little-endian, its first publication the lowest bit. Times are nanoseconds.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from runnel.wire import FRAME_BYTES_MAX, Lane, Message, register
from runnel.wire.messages import Address, Count, Id, Name, Ttl

DEPTH_MAX = 64
"""How many brokers deep a request goes."""

MISSING_MAX = 500
"""How many of those who did not answer are named."""

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
    """Broker information answer: a `Piece` of what a broker has to say."""

    token: Id
    broker: Name
    body: Body


class BiaEnd(Message, frozen=True):
    """This broker and all behind it have said everything, but for those who are missing and what is behind them."""

    token: Id
    missing: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MISSING_MAX)]


class _Told(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A part of an answer."""


class BrokerTold(_Told, frozen=True):
    """A broker: where it listens, whom it is linked with, and what it can take."""

    address: Address
    neighbours: tuple[Name, ...]
    profiles: bool
    """Whether it keeps any."""

    bits: Count
    output_bytes_per_s: Count
    """0: no limit."""

    matching_base_ns: Count
    matching_each_ns: Count
    """The matching-delay function: base + each · subscriptions; both 0: it takes no time."""

    left_out: Count = 0
    """How many bit vectors there was no room for."""


class PublisherTold(_Told, frozen=True):
    """A publisher's profile. One that has migrated is told of by both brokers; what the old one knows still counts."""

    id: Id
    publisher: Name
    client: Name
    """The connection that it publishes on; "" if that is not here any more."""

    epoch: Count
    publications: Count
    bytes: Count
    window_ns: Count
    """In which they were published."""

    last: Id


class VectorTold(_Told, frozen=True):
    """The publications of one publisher that a subscription got: bit i is `first` + i."""

    advertisement: Id
    first: Id
    bits: bytes


class SubscriptionTold(_Told, frozen=True):
    """A subscription's profile, or a part of it: one with very many vectors comes in several pieces."""

    id: Id
    client: Name
    vectors: tuple[VectorTold, ...]


class Piece(_Told, frozen=True):
    """What a `Bia` holds. The first piece of a broker tells of itself."""

    broker: BrokerTold | None = None
    clients: tuple[Name, ...] = ()
    """All that are connected, whatever they do."""

    publishers: tuple[PublisherTold, ...] = ()
    subscriptions: tuple[SubscriptionTold, ...] = ()


register(64, Bir, Lane.MONITOR)
register(65, Bia, Lane.MONITOR)
register(66, BiaEnd, Lane.MONITOR)
