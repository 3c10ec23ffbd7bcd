"""What placement says on the wire: marks on publications, and the paper's messages under the paper's names.

    POP      Trm   trace result        up, for each traced publication
             Rrm   relocation request  down, from broker to broker, to the closest
             Ram   relocation answer   back the way the request came
    GRAPE    Tir   trace information request   down, to whoever got a publication of the session
             Tia   trace information answer    up, with the answers of all further down
             Ping, Pong                        between neighbours: how long the link takes

Rules:
- All of it is monitoring: it overtakes data. What must not be counted too early says what it has to wait for.
- Nothing here changes routes, and none of it is needed for anything but a decision: whatever is lost costs one.
- Times are nanoseconds; a bit vector is little-endian, its first publication the lowest bit.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from runnel.wire import Lane, Message, register
from runnel.wire.messages import Address, Count, Id, Name, Ttl

TRACED = 1
"""The flag of a publication that POP traces."""

SPAN = 0x7FFF
"""How many publications a trace session may span, and how many sessions there are to tell apart."""

Path = Annotated[tuple[Name, ...], msgspec.Meta(max_length=256)]
Session = Annotated[int, msgspec.Meta(ge=1, le=SPAN)]


def session_of(first: int) -> int:
    """The trace session that begins with this publication: the paper's trace id, as far as the flags have room.

    >>> session_of(212), session_of(212 + SPAN)
    (213, 213)
    """
    return first % SPAN + 1


def place_in(session: int, counter: int) -> int:
    """The place of a publication in its session's bit vectors; so nobody need be told which was the first.

    >>> place_in(session_of(212), 213), place_in(session_of(SPAN - 1), SPAN + 1)
    (1, 2)
    """
    return (counter + 1 - session) % SPAN


class Trm(Message, frozen=True):
    """Trace result message: so many subscribers got a traced publication here and further on."""

    advertisement: Id
    counter: Id
    subscribers: Count


class Rrm(Message, frozen=True):
    """Relocation request message: is somebody closer?"""

    advertisement: Id
    subscribers: float
    """How many lie behind the link it came over."""

    brokers: Path
    """Those it has passed, the last first."""


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


class Reported(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What one broker says of a trace session."""

    broker: Name
    address: Address
    bits: Annotated[bytes, msgspec.Meta(max_length=SPAN // 8 + 1)]
    deliveries: Count
    input_ns: Count
    matching_ns: Count
    client_ns: Count
    """The output queue towards clients."""

    hops: tuple[Hop, ...]


class Tia(Message, frozen=True):
    """Trace information answer: what this broker and all further on have to say."""

    advertisement: Id
    session: Session
    reports: tuple[Reported, ...]
    complete: bool
    """Whether all have answered who were asked."""


class Ping(Message, frozen=True):
    """Answer at once; `at` is by the asker's clock."""

    at: Id


class Pong(Message, frozen=True):
    """The answer, with the same time."""

    at: Id


register(48, Trm, Lane.MONITOR)
register(49, Rrm, Lane.MONITOR)
register(50, Ram, Lane.MONITOR)
register(51, Tir, Lane.MONITOR)
register(52, Tia, Lane.MONITOR)
register(53, Ping, Lane.MONITOR)
register(54, Pong, Lane.MONITOR)
