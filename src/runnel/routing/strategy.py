"""The interface of routing: given a message and the link it came over, name the links it goes to.

A broker has one strategy. It keeps the tables and decides; the broker does the rest. No other code depends on the kind
of overlay: a strategy checks its own invariants between two calls (`check`), and its kind says what must hold when the
network is at rest (`StrategyKind.at_rest`), recomputed from scratch by an independent observer.

A `StrategyKind` makes a strategy known by name: one that is part of Runnel is imported by `compose.py` and named in its
`STRATEGIES`; one of your own calls `register_strategy`. `routing.strategy` in a node's configuration chooses it.
The template is tests/support/flooding.py; docs/extending.md has all steps. Documents and node/example.toml want a line
too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import Struct

from runnel.broker.links import Link
from runnel.broker.tables import Leaving, Tables
from runnel.wire import Advertise, Barrier, Handover, Publication, Subscribe


class Strategy(Protocol):
    """How a broker routes.

    A method may raise `IdConflict` (broker/ids.py) if a peer uses an id that is another's: a client loses its link, a
    neighbour's message is ignored. Any other PeerError costs either its link.
    """

    tables: Tables

    def link_up(self, link: Link) -> None:
        """A link with any kind of peer starts fresh; if it is a neighbour, tell it what it must know."""
        ...

    def link_lost(self, link: Link) -> None:
        """A link with any kind of peer is lost: withdraw everywhere else what came over it."""
        ...

    def advertise(self, link: Link, message: Advertise) -> None:
        """A publisher is in the direction of this link: add it to the SRT, and tell the neighbours.

        The id may be known already: with another epoch, or from the same link, the message is ignored; from another
        link with the same epoch it is an `IdConflict`.
        """
        ...

    def unadvertise(self, link: Link, id: int) -> None:
        """A publisher withdrew: remove it from the SRT, and tell the neighbours.

        If it is not known over this link, it has migrated: ignore the message. If it is in `tables.leaving`, neighbours
        are told by `settle`, because what is under way from the place that it has left still needs the routes.
        """
        ...

    def turn(self, link: Link, id: int, epoch: int, ttl: int) -> None:
        """A publisher has migrated: from now on it is in the direction of this link.

        Called for an id in the SRT, from another link and with a lower epoch: the number of its migrations. Settle an
        earlier migration of the same id that is not settled yet (`tables.leaving`), and call
        `tables.turn_advertisement`, which from then on has both directions. `ttl` is how much farther the message about
        this migration may go. Neighbours need not be told: the module that calls this sends its own messages along the
        path. Only the neighbour behind `link` gets an Unadvertise, in case it knows the old place from this broker.
        """
        ...

    def settle(self, leaving: Leaving) -> None:
        """Nothing is under way any more from where a publisher was before it migrated: forget that direction.

        Call `tables.settle`; withdraw the advertisement from the neighbours if it was withdrawn meanwhile
        (`tables.is_withdrawn`).
        """
        ...

    def subscribe(self, link: Link, message: Subscribe) -> None:
        """A subscriber is in the direction of this link: add it to the PRT, and tell neighbours that must know."""
        ...

    def unsubscribe(self, link: Link, id: int) -> None:
        """A subscriber withdrew: remove it from the PRT, and tell the neighbours that were told of it."""
        ...

    def next_hops(self, link: Link, publication: Publication) -> list[int]:
        """The numbers of the links that a publication goes to, each once; not the neighbour that it came from."""
        ...

    @property
    def frame_for(self) -> Callable[[Link, Publication], bytes] | None:
        """How a publication goes to one neighbour, where each gets another frame; for that, define it as a method.

        None (`frame_for = None` in the class) is the usual case: all neighbours share `Publication.forwarded()`, which
        is made once. A method starts from that too, since it is to lower the ttl, and is asked once for each neighbour
        among the next hops. Clients always get the frame as it came.
        """
        ...

    def publishers_over(self, link: Link) -> Iterable[int]:
        """The ids of advertisements whose publications may go to this neighbour: whom to tell when the link is lost."""
        ...

    def barrier_links(self, link: Link, barrier: Barrier | Handover) -> Iterable[Link]:
        """The links behind which a barrier's routes lie, or a handover's old home may be."""
        ...

    def check(self, links: Iterable[Link]) -> None:
        """Raise BugError unless what must hold between any two calls does; for tests and the simulator."""
        ...

    def remains(self) -> Mapping[str, Sequence[int]]:
        """What it keeps besides the tables: ids by what they are kept for. Empty when all peers have left."""
        ...


# -- a network at rest, as seen by an observer that shares nothing with brokers -----------------------------


class Overlay(Protocol):
    """Which brokers are neighbours, and the path from one to another."""

    brokers: list[str]
    neighbours: dict[str, list[str]]

    def toward(self, target: str) -> dict[str, str]:
        """The next hop to the target, for every broker but the target itself."""
        ...

    def path(self, start: str, end: str) -> list[str]:
        """The brokers from one to another, both included."""
        ...

    def part(self, broker: str) -> list[str]:
        """The brokers that can be reached from one: all, unless a broker between them is gone for good."""
        ...


class Wish(Protocol):
    """What a client wants or offers, decided without the filter language of brokers."""

    def matches(self, attributes: dict[str, Any]) -> bool:
        """Whether a publication is wanted."""
        ...

    def intersects(self, other: Any) -> bool:
        """Whether some publication is wanted by both."""
        ...


class EntryAtRest(Protocol):
    """A subscription or advertisement that is there at rest: its id on the wire, its client, the client's broker."""

    @property
    def id(self) -> int: ...
    @property
    def want(self) -> Wish: ...
    @property
    def client(self) -> str: ...
    @property
    def home(self) -> str: ...


HopsById = dict[int, str]
"""A routing table, as the observer sees it: the peer that each id came from."""


class AtRest(Protocol):
    """What the tables and decisions of every broker must be at rest."""

    def tables(
        self,
        overlay: Overlay,
        advertisements: Sequence[EntryAtRest],
        subscriptions: Sequence[EntryAtRest],
    ) -> tuple[dict[str, HopsById], dict[str, HopsById] | None]:
        """The SRT and the PRT of every broker; None for a PRT that several contents would be right for."""
        ...

    def hops(
        self,
        overlay: Overlay,
        broker: str,
        publisher: EntryAtRest,
        attributes: dict[str, Any],
        wanted_by: Sequence[EntryAtRest],
    ) -> list[str]:
        """Where a broker must send a publication, in order of names; `wanted_by` are the subscriptions that match."""
        ...


@dataclass(frozen=True, slots=True)
class StrategyKind:
    """A strategy by name. `settings` are the keys of a node's [routing] besides `strategy`."""

    name: str
    purpose: str  # in a sentence, for the documents
    settings: type[Struct]
    make: Callable[[Any, Tables], Strategy]
    at_rest: Callable[[Any], AtRest]
