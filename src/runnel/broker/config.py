"""What a broker is told when it is made: its name, its neighbours, its limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from runnel.broker.links import LinkConfig
from runnel.quantities import SECOND


def client_link_config() -> LinkConfig:
    """A client's queue is shorter, and its publications are confirmed at once."""
    return LinkConfig(queue_bytes_max=8 << 20, ack_every=1)


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """One broker. It dials the neighbours named here; those that it accepts may dial it, or any."""

    name: str
    dials: tuple[str, ...] = ()
    accepts: tuple[str, ...] = ()  # neighbours that are to dial it: without them it is not whole
    accepts_any: bool = True  # whether brokers that are not named may dial it too
    is_guarded: bool = False  # whether clients and operators need a permit (permits.py)
    link: LinkConfig = field(default_factory=LinkConfig)
    client_link: LinkConfig = field(default_factory=client_link_config)
    credit_max: int = 1024  # publications a client may have unacknowledged
    credit_min: int = 16
    congested_bytes: int = 8 << 20  # a broker link with this much waiting slows publishers down
    lease_ns: int = 60 * SECOND  # how long one module may have an entity to itself
    rest_ns: int = 30 * SECOND  # how long an entity that was moved is left alone
    tell_stories: bool = False
    generation: int = 1  # of the network that it belongs to
    address: str = ""  # where it listens, if others are to know
