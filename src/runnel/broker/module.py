"""Modules: how everything beyond plain routing plugs into a broker.

A module is a small state machine with its own messages, parameters and file. It sees the broker through a
`Context` (read the tables, send, set timers, claim entities) and nothing else; no module imports another. A broker
with no modules is a plain, correct broker, and pays nothing for those it does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from runnel.broker.arbiter import Arbiter
from runnel.broker.links import Link
from runnel.broker.meter import Meter
from runnel.broker.story import Story
from runnel.broker.tables import Advertisement, Subscription, Tables
from runnel.routing.strategy import Strategy
from runnel.wire import Message, Publication


class Context(Protocol):
    """What a module may see and do."""

    name: str
    generation: int
    tables: Tables
    strategy: Strategy
    meter: Meter
    arbiter: Arbiter
    story: Story | None

    @property
    def links(self) -> Mapping[str, Link]:
        """The links by the peer's name."""
        ...

    def send(self, link: Link, message: Message) -> None:
        """Send a message to a peer, in the lane its kind belongs to."""
        ...

    def set_timer(self, timer: str, at: int) -> None:
        """Ask for `Module.timer` at a time."""
        ...

    def trace(self, kind: str, data: dict[str, Any]) -> None:
        """Record something."""
        ...


class Module:
    """The base of modules: every hook does nothing."""

    name: str
    messages: tuple[type[Message], ...] = ()  # the messages it takes
    marks_publications: bool = False  # whether `entering` is to be called
    watches_publications: bool = False  # whether `routed` is to be called
    watches_marked: bool = False  # the same, but only for runs in which a publication is marked
    watches_tables: bool = False  # whether `subscribed`, `advertised` and their opposites are

    def start(self, context: Context, now: int) -> None:
        """The broker starts."""

    def message(self, context: Context, link: Link, message: Any, now: int) -> None:
        """One of its messages came."""

    def timer(self, context: Context, timer: str, now: int) -> None:
        """One of its timers went off."""

    def entering(self, context: Context, link: Link, run: list[Publication], now: int) -> None:
        """Publications came from a client and are to be routed: the time to `mark` them."""

    def routed(
        self,
        context: Context,
        link: Link,
        run: list[Publication],
        hops: list[list[int]],
        now: int,
    ) -> None:
        """Publications that came over a link one after the other were routed, each to its hops."""

    def routed_one(
        self, context: Context, link: Link, publication: Publication, hops: list[int], now: int
    ) -> None:
        """The same for one alone."""
        self.routed(context, link, [publication], [hops], now)

    def subscribed(self, context: Context, link: Link, row: Subscription, now: int) -> None:
        """A subscription came into the PRT."""

    def unsubscribed(self, context: Context, link: Link, row: Subscription, now: int) -> None:
        """A subscription left the PRT."""

    def advertised(self, context: Context, link: Link, row: Advertisement, now: int) -> None:
        """An advertisement came into the SRT."""

    def unadvertised(self, context: Context, link: Link, row: Advertisement, now: int) -> None:
        """An advertisement left the SRT."""

    def turned(self, context: Context, link: Link, row: Advertisement, now: int) -> None:
        """A publisher has migrated: `link` leads to it now, `tables.leaving` says where it was."""

    def link_up(self, context: Context, link: Link, now: int) -> None:
        """A link starts fresh."""

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """A link, and what came over it, is gone."""
