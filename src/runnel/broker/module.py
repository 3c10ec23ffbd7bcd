"""Modules: how everything beyond plain routing plugs into a broker.

A module is a small state machine with its own messages, parameters and file. It sees the broker through a
`Context` (read the tables, send, set timers, claim entities) and nothing else. No module imports another; what several
use stands below them (modules/__init__.py names it). A broker with no modules is a plain, correct broker, and pays
nothing for those it does not have.

What a module brings it declares in one place, its class: the messages it takes, its timers, the questions it
answers, what it adds to `status`, what must hold for it (`check`). A `ModuleKind` makes it known by name, with its
settings: one that is part of Runnel is imported by `compose.py` and named in its `MODULES`; one of your own calls
`register_module`. No other code lists modules, but documents and node/example.toml want a line too. The template is
tests/support/tallying.py; docs/extending.md has all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec import Struct

from runnel.broker.absences import Absences
from runnel.broker.arbiter import Arbiter
from runnel.broker.gauges import ReadGauges
from runnel.broker.links import Link
from runnel.broker.losses import Losses
from runnel.broker.meter import Meter
from runnel.broker.questions import Answers, Reply
from runnel.broker.refusals import Refusals
from runnel.broker.story import Story
from runnel.broker.tables import AdvertisementRow, SubscriptionRow, Tables
from runnel.errors import BugError
from runnel.routing.strategy import Strategy
from runnel.wire import Message, Publication


class Context(Protocol):
    """What a module may see and do."""

    name: str
    generation: int
    tables: Tables
    strategy: Strategy
    meter: Meter
    gauges: ReadGauges
    arbiter: Arbiter
    absences: Absences
    refusals: Refusals
    story: Story | None
    losses: Losses

    @property
    def links(self) -> Mapping[str, Link]:
        """The links by the peer's name."""
        ...

    @property
    def modules(self) -> Mapping[str, Module]:
        """All modules of this broker, for the one that lets them answer questions; no other looks at them."""
        ...

    def send(self, link: Link, message: Message) -> None:
        """Send a message to a peer, in the lane its kind belongs to."""
        ...

    def set_timer(self, timer: str, at: int) -> None:
        """Ask for `Module.timer` at a time."""
        ...

    def dial(self, name: str, address: str = "") -> None:
        """Have a link to a broker: it is dialled until it answers, and again when it is gone."""
        ...

    def hang_up(self, name: str, reason: str, *, drained: bool = False) -> None:
        """End the link to a broker for good; with `drained`, when it has acknowledged what there is for it."""
        ...

    def trace(self, kind: str, data: dict[str, Any]) -> None:
        """Record something."""
        ...

    def watch(
        self,
        module: Module,
        *,
        publications: bool | None = None,
        marked: bool | None = None,
        marks: bool | None = None,
    ) -> None:
        """Switch `watches_publications`, `watches_marked` and `marks_publications` of a module of this broker.

        What is not named stays. It holds from the next run of publications on, also if a module switches itself while
        it is told of one.
        """
        ...


class Module:
    """The base of modules: every hook does nothing."""

    name: str
    uses: tuple[Module, ...] = ()  # modules that it is built on; the broker has them too
    messages: tuple[type[Message], ...] = ()  # the messages it takes
    timers: tuple[str, ...] = ()  # all that it sets, each "name:what"
    # The next three may change while the broker runs, but only by `Context.watch`.
    marks_publications: bool = False  # whether `mark_publications` is to be called
    watches_publications: bool = False  # whether `routed` is to be called
    watches_marked: bool = False  # the same, but only for runs in which a publication is marked
    watches_tables: bool = False  # whether `subscribed`, `advertised` and their opposites are

    # -- what it brings -------------------------------------------------------------------------------

    def answers(self) -> Answers:
        """The questions that it answers, and how."""
        return {}

    def status(self, context: Context, now: int) -> Reply:
        """What an operator sees of it in `runnel status`; empty for nothing."""
        return {}

    def check(self, context: Context) -> None:
        """Raise BugError unless what must hold between any two calls does; for tests and the simulator."""

    # -- what the broker calls ------------------------------------------------------------------------

    def start(self, context: Context, now: int) -> None:
        """The broker starts."""

    def message(self, context: Context, link: Link, message: Any, now: int) -> None:
        """One of its messages came."""

    def timer(self, context: Context, timer: str, now: int) -> None:
        """One of its timers went off."""

    def mark_publications(
        self, context: Context, link: Link, run: list[Publication], now: int
    ) -> None:
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

    def subscribed(self, context: Context, link: Link, row: SubscriptionRow, now: int) -> None:
        """A subscription came into the PRT."""

    def unsubscribed(self, context: Context, link: Link, row: SubscriptionRow, now: int) -> None:
        """A subscription left the PRT."""

    def advertised(self, context: Context, link: Link, row: AdvertisementRow, now: int) -> None:
        """An advertisement came into the SRT."""

    def unadvertised(self, context: Context, link: Link, row: AdvertisementRow, now: int) -> None:
        """An advertisement left the SRT."""

    def turned(self, context: Context, link: Link, row: AdvertisementRow, now: int) -> None:
        """A publisher has migrated: `link` leads to it now, `tables.leaving` says where it was."""

    def link_up(self, context: Context, link: Link, now: int) -> None:
        """A link starts fresh."""

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """A link, and what came over it, is gone."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a driver hands to the modules of one broker: what they cannot know by themselves."""

    name: str = ""  # the broker's
    generation: int = 1
    address: str = ""  # where it listens
    output_bytes_per_s: int = 0  # what its driver lets it send; 0: all it can
    chance: Callable[[], float] | None = None  # draws from 0 to 1
    # By name; only some drivers have them.
    services: Mapping[str, Any] = field(default_factory=dict)
    admin: str = ""  # where it serves operators, if that is elsewhere


@dataclass(frozen=True, slots=True)
class ModuleKind:
    """A module by name: its settings, and how it is made. `make` returns its state machines, one or several.

    `settings` is a msgspec Struct: its types are the checks, its defaults the defaults, and its fields the keys of the
    table of this name in a node's configuration. `needs` are the services without which it cannot be.
    """

    name: str
    purpose: str  # in a sentence, for the documents
    make: Callable[[Surroundings, Any], Iterable[Module]]
    settings: type[Struct] | None = None
    needs: tuple[str, ...] = ()


def modules_by_name(modules: Iterable[Module]) -> dict[str, Module]:
    """Modules and those that they use, each once and before whoever uses it: in this order they are told of things."""
    found: dict[str, Module] = {}
    for module in modules:
        for one in (*module.uses, module):
            if found.setdefault(one.name, one) is not one:
                raise BugError(
                    f"there are two modules {one.name!r}: let those who use it share one"
                )
    return found
