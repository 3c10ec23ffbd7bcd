"""Kinds of peers: what a broker does for whoever says Hello, as data.

A Hello names its kind. What a broker asks of a peer it finds here, and compares no names: to add a kind is to add a
row. A kind that is not in the table is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from runnel.errors import PeerError
from runnel.wire import Way


@dataclass(frozen=True, slots=True)
class PeerKind:
    """One kind of peer."""

    name: str
    # The field of `BrokerConfig` with the limits of its links.
    limits: Literal["link", "client_link"]
    says: Way  # the messages it may send are those that may go this way (`broker/permissions.py`)
    hears: Way  # and those that a broker may send to it
    is_neighbour: bool = False  # a broker: routes lie behind it, and it belongs to a generation
    is_client: bool = False  # the edge: has credit, is told what it missed, moves, is counted
    gives_commands: bool = False  # it may change something, and not only ask
    resumes: bool = True  # its link is kept for a while when the connection breaks

    @property
    def is_routed(self) -> bool:
        """Whether it has a part in routing; all others only talk with modules."""
        return self.is_neighbour or self.is_client


KINDS = {
    kind.name: kind
    for kind in (
        PeerKind("broker", "link", Way.BETWEEN_BROKERS, Way.BETWEEN_BROKERS, is_neighbour=True),
        PeerKind("client", "client_link", Way.FROM_CLIENT, Way.TO_CLIENT, is_client=True),
        PeerKind(  # asks questions, and goes
            "operator",
            "client_link",
            Way.FROM_OPERATOR,
            Way.TO_OPERATOR,
            gives_commands=True,
            resumes=False,
        ),
    )
}


def kind_of(name: str) -> PeerKind:
    """The kind of this name."""
    kind = KINDS.get(name)
    if kind is None:
        raise PeerError(f"there is no kind of peer {name!r}: it may be of a later version")
    return kind
