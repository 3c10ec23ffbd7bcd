"""Publishers of a scenario that migrate to the broker at which their own broker wants to place them.

When a broker asks for it (`RelocateAsked`), the publisher gets a session of its own at the other broker, and the old
session is closed once the publisher has left it. What falls due while it is paused is published late; nothing is left
out. The migrations themselves are driven by `sim/migrations.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from runnel.client.effects import RelocateAsked
from runnel.client.migration import MigrationStep, PublisherMigration
from runnel.client.roaming import RELOCATION_TIMEOUT_S
from runnel.client.session import Session
from runnel.quantities import SECOND
from runnel.sim.migrations import SimulatedMigrations
from runnel.sim.world import Host, World
from runnel.workload.files import Event

LOOK_NS = SECOND // 10
TIMEOUT_NS = round(RELOCATION_TIMEOUT_S * SECOND)

Note = Callable[[str, str, dict[str, Any]], None]
"""Writes something about a broker into the trace: the broker, the kind of note, the details."""

Open = Callable[[str, str], tuple[Host, Session]]
"""Makes a session of this name that connects to this broker; the session and its host."""


class PublishingClient:
    """A publisher at work."""

    __slots__ = ("due", "events", "host", "id", "is_late", "moves", "name", "next", "session")

    def __init__(self, name: str, host: Host, session: Session, id: int) -> None:
        self.name = name
        self.host = host
        self.session = session
        self.id = id
        self.events: Iterator[Event] = iter(())
        self.due: Iterator[int] = iter(())
        self.next: Event | None = None
        self.is_late = False  # it was to publish while it migrated
        self.moves = 0

    @property
    def is_paused(self) -> bool:
        """Whether it migrates, and may not publish."""
        return self.session.publishers[self.id].paused


@dataclass(frozen=True, slots=True)
class Relocation:
    """A publisher that migrates, and between which brokers."""

    publisher: PublishingClient
    source_broker: str
    target_broker: str


class RoamingPublishers:
    """The publishers of a scenario. `open` makes sessions, `resume` lets a publisher publish what is due."""

    def __init__(
        self,
        world: World,
        open: Open,
        go_on: Callable[[PublishingClient], None],
        note: Note,
        *,
        pings_in_series: bool = False,
    ) -> None:
        self._world = world
        self._open = open
        self._go_on = go_on
        self._note = note
        self._publishers: dict[str, PublishingClient] = {}  # by the name of the host they are on
        self._migrations = SimulatedMigrations(
            world,
            look_ns=LOOK_NS,
            timeout_ns=TIMEOUT_NS,
            relocate=self._relocate,
            look=self._advance,
            pings_in_series=pings_in_series,
        )
        self._relocations: dict[PublisherMigration, Relocation] = {}

    @property
    def is_under_way(self) -> bool:
        """Whether a publisher migrates."""
        return bool(self._migrations)

    def add(self, one: PublishingClient) -> None:
        """A publisher has a session now."""
        self._publishers[one.host.name] = one

    def handle_effect(self, host: Host, effect: Any) -> None:
        """A session had an effect: a broker may ask for a migration, or one under way may go on."""
        self._migrations.handle_effect(host, effect)

    def _relocate(self, host: Host, asked: RelocateAsked) -> None:
        one = self._publishers.get(host.name)
        if one is None or one.session.home is None:
            return
        source_broker = one.session.home.broker

        def open() -> Session:
            one.moves += 1
            _, session = self._open(f"{one.name}/{one.moves}", asked.broker)
            return session

        migration = self._migrations.begin(one.id, one.session, asked.broker, open)
        if migration is not None:
            self._relocations[migration] = Relocation(one, source_broker, asked.broker)

    def _advance(self, migration: PublisherMigration) -> None:
        if self._migrations.advance(migration):
            self._finish(migration, self._relocations.pop(migration))

    def _finish(self, migration: PublisherMigration, relocation: Relocation) -> None:
        """Let the publisher go on at one of the two brokers, and close the session that it does not need."""
        one = relocation.publisher
        is_done = migration.step is MigrationStep.DONE
        if is_done:
            del self._publishers[one.host.name]
            one.session = migration.target
            one.host = self._world.hosts[one.session.config.name]
            self._publishers[one.host.name] = one
        details = {
            "publisher": one.name,
            "from": relocation.source_broker,
            "to": relocation.target_broker,
            "is_done": is_done,
            "pause_ns": migration.resumed_at - migration.paused_at if is_done else None,
        }
        self._note(relocation.source_broker, "publisher-migrated", details)
        self._migrations.close(migration.source if is_done else migration.target)
        if one.is_late:
            one.is_late = False
            self._go_on(one)
