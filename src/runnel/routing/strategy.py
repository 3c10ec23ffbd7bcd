"""The interface of routing: given a message and the link it came over, name the links it goes to.

A broker has one strategy. It keeps the tables and decides; the broker does the rest. Nothing else in the
broker asks what kind of overlay it is in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from runnel.broker.links import Link
from runnel.broker.tables import Leaving, Tables
from runnel.wire import Advertise, Barrier, Publication, Subscribe


class Strategy(Protocol):
    """How a broker routes."""

    tables: Tables

    def link_up(self, link: Link) -> None:
        """A link starts fresh: tell the neighbour what it must know."""
        ...

    def link_lost(self, link: Link) -> None:
        """Whatever came over a link holds no more: withdraw it everywhere else."""
        ...

    def advertise(self, link: Link, message: Advertise) -> None:
        """A publisher announced itself."""
        ...

    def unadvertise(self, link: Link, id: int) -> None:
        """A publisher withdrew."""
        ...

    def turn(self, link: Link, id: int, epoch: int, ttl: int) -> None:
        """A publisher has migrated: it is in this direction from now on."""
        ...

    def settle(self, leaving: Leaving) -> None:
        """Nothing is under way any more where a publisher was before it migrated."""
        ...

    def subscribe(self, link: Link, message: Subscribe) -> None:
        """A subscriber announced itself."""
        ...

    def unsubscribe(self, link: Link, id: int) -> None:
        """A subscriber withdrew."""
        ...

    def next_hops(self, link: Link, publication: Publication) -> list[int]:
        """The numbers of the links that a publication goes to."""
        ...

    def barrier_links(self, link: Link, barrier: Barrier) -> Iterable[Link]:
        """The links behind which a barrier's routes lie."""
        ...
