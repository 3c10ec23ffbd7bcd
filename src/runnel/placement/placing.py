"""What POP and GRAPE have in common: whose publisher it is, who is downstream, and what becomes of a decision.

A decision is traced, kept for whoever asks, and, unless it is only to be shown, carried out by somebody else
(`migrate`): placement claims the publisher at the arbiter and hands it over. A publisher that has just migrated
rests, at the broker it came to: that is what keeps it from going to and fro.

Nothing is kept for ever: what is known of an advertisement goes with it (`forget`), what is waited for has a
deadline, and tables have a size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from runnel.broker.arbiter import Refused
from runnel.broker.links import SECOND, Link
from runnel.broker.module import Context, Module
from runnel.broker.tables import Advertisement, Subscription
from runnel.placement.config import PlacementConfig
from runnel.placement.grape import Candidate
from runnel.wire import Message, Publication

Migrate = Callable[[Context, int, str, str, int], bool]
"""Moves a publisher: the advertisement, the broker to go to, its address, now; whether it begins to."""

KEPT_MAX = 4_096
"""Advertisements of which something is known, and publications whose trace is waited for: the oldest go."""

LESS_PER_HOP = 0.8
"""How much less than the one before it a broker waits for answers."""

OWNER = "placement"


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a publisher is, where it should be, why, and what came of it."""

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
    """How much of what a decision takes is there."""

    what: str  # it is that is counted
    have: int
    wanted: int
    is_deciding: bool  # others are being asked


class Deadlines:
    """What is waited for, each until a time, with one timer for all."""

    def __init__(self, timer: str) -> None:
        self._timer = timer
        self._until: dict[Hashable, int] = {}
        self._armed: int | None = None

    def set(self, context: Context, key: Hashable, at: int) -> None:
        """Wait for something."""
        self._until[key] = at
        if self._armed is None or at < self._armed:
            self._armed = at
            context.set_timer(self._timer, at)

    def drop(self, key: Hashable) -> None:
        """It has come."""
        self._until.pop(key, None)

    def due(self, context: Context, now: int) -> list[Any]:
        """The timer went off: what was waited for in vain."""
        due = [key for key, at in self._until.items() if at <= now]
        for key in due:
            del self._until[key]
        self._armed = min(self._until.values(), default=None)
        if self._armed is not None:
            context.set_timer(self._timer, self._armed)
        return due


@dataclass(slots=True)
class Spread:
    """Where a publication went: so many local subscriptions, and the neighbours that it was sent to."""

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
        self.marks_publications = self.config.can_be(self.name)
        self._neighbours: dict[int, Link] = {}  # brokers, by the number of their link
        self._subscriptions: Counter[int] = Counter()  # of clients, by the number of their link
        self._decisions: dict[int, Decision] = {}
        self._only_shown: dict[int, None] = {}  # of these, the next decision moves nobody
        self._deadlines = Deadlines(f"{self.name}:deadline")

    @property
    def decisions(self) -> list[Decision]:
        """The last decision about each publisher of this broker."""
        return list(self._decisions.values())

    def decision(self, advertisement: int) -> Decision | None:
        """The last decision about a publisher of this broker."""
        return self._decisions.get(advertisement)

    @abstractmethod
    def progress(self, advertisement: int) -> Progress:
        """How far the next decision about a publisher of this broker is."""

    @abstractmethod
    def decide_now(self, context: Context, advertisement: int, now: int) -> bool:
        """Decide from what is there, and move nobody; False if nothing is there."""

    def forget(self, advertisement: int) -> None:
        """Whatever is known of an advertisement holds no more."""
        self._decisions.pop(advertisement, None)
        self._only_shown.pop(advertisement, None)

    # -- what the broker calls ------------------------------------------------------------------------

    def link_up(self, context: Context, link: Link, now: int) -> None:
        """A link starts fresh."""
        if not link.is_client:
            self._neighbours[link.number] = link

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """A link is gone."""
        self._neighbours.pop(link.number, None)

    def subscribed(self, context: Context, link: Link, row: Subscription, now: int) -> None:
        """A subscription came into the PRT."""
        if link.is_client:
            self._subscriptions[link.number] += 1

    def unsubscribed(self, context: Context, link: Link, row: Subscription, now: int) -> None:
        """A subscription left the PRT."""
        if link.is_client:
            self._subscriptions[link.number] -= 1

    def unadvertised(self, context: Context, link: Link, row: Advertisement, now: int) -> None:
        """An advertisement left the SRT."""
        self.forget(row.id)

    def turned(self, context: Context, link: Link, row: Advertisement, now: int) -> None:
        """A publisher has migrated: what was learnt held for its old place. It rests where it is now."""
        self.forget(row.id)
        entity = entity_of(row)
        owner = context.arbiter.owner(entity, now) or OWNER
        if link.is_client:
            context.arbiter.claim(entity, owner, now)
        context.arbiter.release(entity, owner, now)

    # -- for both -------------------------------------------------------------------------------------

    def _is_mine(self, context: Context, link: Link, advertisement: int) -> bool:
        """Whether this is a publisher of this broker, and this algorithm's to place."""
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
            # A client with several: which of them want it is not to be seen from the hops.
            local = len(context.tables.local_subscriptions(publication))
        return Spread(local, downstream if publication.ttl else [])

    def _send(self, context: Context, link: Link, message: Message) -> None:
        """Send, unless the link is gone meanwhile."""
        if context.links.get(link.name) is link:
            context.send(link, message)

    def _patience_ns(self, depth: int) -> int:
        """How long a broker waits for answers that has so many before it."""
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
        """Do with a decision what is to be done; `why_not` keeps the publisher where it is."""
        row = context.tables.srt.get(advertisement)
        if row is None:
            return
        outcome = why_not or self._outcome(context, row, to, address, now)
        self._only_shown.pop(advertisement, None)
        self._decisions.pop(advertisement, None)
        self._decisions[advertisement] = Decision(
            *(now, self.name, advertisement, row.publisher, context.name, to, address),
            *(numbers, candidates, outcome),
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

    def _outcome(
        self, context: Context, row: Advertisement, to: str, address: str, now: int
    ) -> str:
        if to == context.name:
            return "stays"
        if self.config.dry_run or self.migrate is None or row.id in self._only_shown:
            return "dry run"
        entity = entity_of(row)
        if context.arbiter.owner(entity, now) is not None:
            return "is being moved"
        if isinstance(context.arbiter.claim(entity, OWNER, now), Refused):
            return "rests"
        if self.migrate(context, row.id, to, address, now):
            return "moves"
        context.arbiter.release(entity, OWNER, now, moved=False)
        return "cannot move"


def trim(table: dict[Any, Any]) -> None:
    """Let the oldest go, beyond the size of a table."""
    while len(table) > KEPT_MAX:
        del table[next(iter(table))]


def entity_of(row: Advertisement) -> str:
    """What a publisher is called at the arbiter."""
    return f"publisher:{row.publisher}"
