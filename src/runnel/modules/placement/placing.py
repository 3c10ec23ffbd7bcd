"""What POP and GRAPE have in common: whose publisher it is, where publications go, and carrying out a decision.

A decision is traced, kept for operators, and, unless it is only to be shown, carried out: placement claims the
publisher at the arbiter and calls `migrate`. A publisher that has just migrated rests at its new broker for a while,
so that it does not move back and forth.

All state is bounded: the state of an advertisement is dropped with it (`forget`), whatever is waited for has a
deadline, and tables have a maximum size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runnel.broker.arbiter import ClaimRefused
from runnel.broker.links import Link
from runnel.broker.module import Context, Module
from runnel.broker.tables import AdvertisementRow, SubscriptionRow
from runnel.modules.deadlines import Deadlines
from runnel.modules.placement.config import PlacementConfig
from runnel.modules.placement.grape import Candidate
from runnel.quantities import SECOND
from runnel.wire import Message, Publication

Migrate = Callable[[Context, int, str, str, int], bool]
"""Starts the move of a publisher: advertisement, target broker, its address, now. Returns whether it was started."""

KEPT_MAX = 4_096
"""The maximum size of tables of advertisements and of traced publications; the oldest entries are dropped."""

LESS_PER_HOP = 0.8
"""A broker waits this fraction of the time that the broker before it waits."""

OWNER = "placement"


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a publisher is, where it should be, why, and the outcome."""

    made_at: int
    algorithm: str
    advertisement: int
    publisher: str
    at: str
    to: str
    address: str  # of the broker to go to
    numbers: dict[str, Any]
    candidates: tuple[Candidate, ...] = ()
    outcome: str = "stays"  # or: moves, dry run, rests, …


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of the data for a decision has been collected."""

    what: str  # is counted
    have: int
    wanted: int
    is_deciding: bool  # other brokers are being asked


@dataclass(slots=True)
class Spread:
    """Where a publication went: the number of local subscriptions, and the neighbours it was sent to."""

    local: int = 0
    downstream: list[Link] = field(default_factory=list)


class Placing(Module, ABC):
    """The base of the modules "pop" and "grape". `address` is where this broker listens."""

    watches_marked = True
    watches_tables = True

    def __init__(
        self,
        config: PlacementConfig | None = None,
        migrate: Migrate | None = None,
        address: str = "",
    ) -> None:
        self.config = config or PlacementConfig()
        self.address = address
        self.migrate = migrate
        self.marks_publications = self.config.uses_algorithm(self.name)
        self._neighbours: dict[int, Link] = {}  # brokers, by the number of their link
        self._subscriptions: Counter[int] = Counter()  # of clients, by the number of their link
        self._decisions: dict[int, Decision] = {}
        self._only_shown: dict[int, None] = {}  # advertisements whose next decision is only shown
        self._deadlines = Deadlines(*self.timers)

    @property
    def decisions(self) -> list[Decision]:
        """The last decision about each publisher of this broker."""
        return list(self._decisions.values())

    def decision(self, advertisement: int) -> Decision | None:
        """The last decision about a publisher of this broker."""
        return self._decisions.get(advertisement)

    @abstractmethod
    def progress(self, advertisement: int) -> Progress:
        """How much of the data for the next decision about a publisher of this broker has been collected."""

    @abstractmethod
    def decide_now(self, context: Context, advertisement: int, now: int) -> bool:
        """Decide with the data so far, and move nothing; False if there are no data."""

    @abstractmethod
    def _is_followed(self, flags: int) -> bool:
        """Whether a publication with these flags is one of those that the module follows."""

    @abstractmethod
    def _follow(
        self, context: Context, link: Link, publication: Publication, numbers: list[int], now: int
    ) -> None:
        """Note where a marked publication went; `numbers` are those of the links."""

    def forget(self, advertisement: int) -> None:
        """Drop all state of an advertisement."""
        self._decisions.pop(advertisement, None)
        self._only_shown.pop(advertisement, None)

    # -- what the broker calls ------------------------------------------------------------------------

    def link_up(self, context: Context, link: Link, now: int) -> None:
        """A link starts fresh."""
        if link.is_neighbour:
            self._neighbours[link.number] = link

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """A link is gone."""
        self._neighbours.pop(link.number, None)

    def routed(
        self,
        context: Context,
        link: Link,
        run: list[Publication],
        hops: list[list[int]],
        now: int,
    ) -> None:
        """Follow the publications that are marked for this module."""
        for place, publication in enumerate(run):
            if self._is_followed(publication.flags):
                self._follow(context, link, publication, hops[place], now)

    def subscribed(self, context: Context, link: Link, row: SubscriptionRow, now: int) -> None:
        """A subscription came into the PRT."""
        if link.is_client:
            self._subscriptions[link.number] += 1

    def unsubscribed(self, context: Context, link: Link, row: SubscriptionRow, now: int) -> None:
        """A subscription left the PRT."""
        if link.is_client:
            self._subscriptions[link.number] -= 1

    def unadvertised(self, context: Context, link: Link, row: AdvertisementRow, now: int) -> None:
        """An advertisement left the SRT."""
        self.forget(row.id)

    def turned(self, context: Context, link: Link, row: AdvertisementRow, now: int) -> None:
        """A publisher has migrated: the data were about its old place. It rests at its new one."""
        self.forget(row.id)
        entity = entity_of(row)
        owner = context.arbiter.owner(entity, now) or OWNER
        if link.is_client:
            context.arbiter.claim(entity, owner, now)
        context.arbiter.release(entity, owner, now)

    # -- for both -------------------------------------------------------------------------------------

    def _is_mine(self, context: Context, link: Link, advertisement: int) -> bool:
        """Whether this is a publisher of this broker that this algorithm places."""
        row = context.tables.srt.get(advertisement)
        return (
            row is not None
            and row.link is link
            and self.config.algorithm_of(row.publisher) == self.name
        )

    def _spread(self, context: Context, publication: Publication, numbers: list[int]) -> Spread:
        neighbours, subscriptions = self._neighbours, self._subscriptions
        downstream = [neighbours[number] for number in numbers if number in neighbours]
        local = len(numbers) - len(downstream)
        if any(subscriptions.get(number, 0) > 1 for number in numbers):
            # The hops do not tell how many subscriptions of one client want it.
            local = len(context.tables.local_subscriptions(publication))
        return Spread(local, downstream if publication.ttl else [])

    def _send(self, context: Context, link: Link, message: Message) -> None:
        """Send, unless the link is gone meanwhile."""
        if context.links.get(link.name) is link:
            context.send(link, message)

    def _patience_ns(self, depth: int) -> int:
        """How long a broker at this distance from the publisher waits for answers."""
        return round(self.config.answer_timeout_s * SECOND * LESS_PER_HOP**depth)

    def _decide(
        self,
        context: Context,
        advertisement: int,
        to: str,
        address: str,
        numbers: dict[str, Any],
        now: int,
        candidates: tuple[Candidate, ...] = (),
        why_not: str = "",
    ) -> None:
        """Keep, trace and carry out a decision; with `why_not`, the publisher stays for that reason."""
        row = context.tables.srt.get(advertisement)
        if row is None:
            return
        outcome = why_not or self._try_to_move(context, row, to, address, now)
        self._only_shown.pop(advertisement, None)
        self._decisions.pop(advertisement, None)
        self._decisions[advertisement] = Decision(
            made_at=now,
            algorithm=self.name,
            advertisement=advertisement,
            publisher=row.publisher,
            at=context.name,
            to=to,
            address=address,
            numbers=numbers,
            candidates=candidates,
            outcome=outcome,
        )
        trim(self._decisions)
        context.trace(
            "placement",
            {
                "algorithm": self.name,
                "advertisement": advertisement,
                "publisher": row.publisher,
                "at": context.name,
                "to": to,
                "outcome": outcome,
                **numbers,
            },
        )

    def _try_to_move(
        self, context: Context, row: AdvertisementRow, to: str, address: str, now: int
    ) -> str:
        if to == context.name:
            return "stays"
        if self.config.dry_run or self.migrate is None or row.id in self._only_shown:
            return "dry run"
        entity = entity_of(row)
        if context.arbiter.owner(entity, now) is not None:
            return "is being moved"
        if isinstance(context.arbiter.claim(entity, OWNER, now), ClaimRefused):
            return "rests"
        if self.migrate(context, row.id, to, address, now):
            return "moves"
        context.arbiter.release(entity, OWNER, now, moved=False)
        return "cannot move"


def trim(table: dict[Any, Any]) -> None:
    """Drop the oldest entries of a table that is too large."""
    while len(table) > KEPT_MAX:
        del table[next(iter(table))]


def entity_of(row: AdvertisementRow) -> str:
    """The name of a publisher at the arbiter."""
    return f"publisher:{row.publisher}"
