"""Placement on the wire: marks on publications, and the paper's messages under the paper's names.

    POP      Trm   trace result        up, for each traced publication
             Rrm   relocation request  down, from broker to broker, to the closest
             Ram   relocation answer   back the way the request came
    GRAPE    Tir   trace information request   down, to all brokers that got a publication of the session
             Tia   trace information answer    up, with the reports of all brokers further down
             Ping, Pong                        between neighbours: measure the time of the link

Rules:
- All messages are monitoring: they overtake data. A message that must not be handled before some data says which.
- No message changes routes; a lost message costs one decision at most.
- Times are nanoseconds; a bit vector is little-endian, its first publication the lowest bit.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from runnel.wire import ID_MAX, Lane, Message, Way, register
from runnel.wire.messages import Address, Count, Id, Name, Ttl

TRACED = 1
"""The flag of a publication that POP traces."""

SPAN = 0x7FFF
"""How many counters a trace session may span; also how many session ids there are."""

SUBSCRIBERS_MAX = float(ID_MAX)
HOPS_MAX = 1_024
"""How many neighbours a broker names in its report."""

REPORTS_MAX = 1 << 15
"""How many reports an answer holds at most; the size of a frame is the closer limit (`reports.py`)."""

Path = Annotated[tuple[Name, ...], msgspec.Meta(max_length=256)]
Session = Annotated[int, msgspec.Meta(ge=1, le=SPAN)]


def session_of(first: int) -> int:
    """The id of the trace session that begins with this publication: the paper's trace id, cut to fit the flags.

    >>> session_of(212), session_of(212 + SPAN)
    (213, 213)
    """
    return first % SPAN + 1


def place_in(session: int, counter: int) -> int:
    """The place of a publication in its session's bit vectors, computed without knowing the session's first counter.

    >>> place_in(session_of(212), 213), place_in(session_of(SPAN - 1), SPAN + 1)
    (1, 2)
    """
    return (counter + 1 - session) % SPAN


class Trm(Message, frozen=True):
    """Trace result message: how many subscribers got a traced publication at this broker and beyond."""

    advertisement: Id
    counter: Id
    subscribers: Count


class Rrm(Message, frozen=True):
    """Relocation request message: looks for the closest broker."""

    advertisement: Id
    subscribers: Annotated[float, msgspec.Meta(ge=0, le=SUBSCRIBERS_MAX)]
    """How many lie behind the link that the request came over."""

    brokers: Path
    """The brokers it has passed, the last one first."""


class Ram(Message, frozen=True):
    """Relocation answer message: the first of the brokers is the closest, the last one asked."""

    advertisement: Id
    brokers: Path
    address: Address


class Tir(Message, frozen=True):
    """Trace information request: answer with a Tia."""

    advertisement: Id
    session: Session
    sent: Count
    """How many publications of the session were sent over this link; the answer waits for all of them."""

    depth: Ttl
    """How many brokers lie between here and the publisher."""


class Hop(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A neighbour that takes part in a session; 0: not measured."""

    broker: Name
    output_ns: Count
    link_ns: Count


class BrokerTrace(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """One broker's report on a trace session."""

    broker: Name
    address: Address
    bits: Annotated[bytes, msgspec.Meta(max_length=SPAN // 8 + 1)]
    deliveries: Count
    input_ns: Count
    matching_ns: Count
    client_ns: Count
    """The output queue towards clients."""

    hops: Annotated[tuple[Hop, ...], msgspec.Meta(max_length=HOPS_MAX)]


class Tia(Message, frozen=True):
    """Trace information answer: the reports of this broker and of all brokers beyond it."""

    advertisement: Id
    session: Session
    reports: Annotated[tuple[BrokerTrace, ...], msgspec.Meta(max_length=REPORTS_MAX)]
    complete: bool
    """Whether all brokers that were asked have answered."""


class Ping(Message, frozen=True):
    """Answer at once; `at` is by the asker's clock."""

    at: Id


class Pong(Message, frozen=True):
    """The answer, with the same time."""

    at: Id


register(48, Trm, Lane.MONITOR, Way.BETWEEN_BROKERS)
register(49, Rrm, Lane.MONITOR, Way.BETWEEN_BROKERS)
register(50, Ram, Lane.MONITOR, Way.BETWEEN_BROKERS)
register(51, Tir, Lane.MONITOR, Way.BETWEEN_BROKERS)
register(52, Tia, Lane.MONITOR, Way.BETWEEN_BROKERS)
register(53, Ping, Lane.MONITOR, Way.BETWEEN_BROKERS)
register(54, Pong, Lane.MONITOR, Way.BETWEEN_BROKERS)
