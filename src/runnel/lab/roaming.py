"""Publishers of a scenario that go where their broker thinks they are better off.

A broker asks (`RelocateAsked`), and the publisher gets a session of its own there; its old one goes when it has none
any more to serve. Meanwhile nothing is published, and what fell due is published late: nothing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from runnel.client.effects import Migrated, RelocateAsked
from runnel.client.migration import Migration, Step
from runnel.client.move import Move
from runnel.client.roaming import RELOCATION_TIMEOUT_S
from runnel.client.session import Session
from runnel.sim.world import Host, World
from runnel.workload.files import Event
from runnel.workload.shape import SECOND

LOOK_NS = SECOND // 10  # at a migration under way, should nothing else happen to it

Note = Callable[[str, str, dict[str, Any]], None]
"""Told of something at a broker: what kind of thing, and the rest."""

Open = Callable[[str, str], tuple[Host, Session]]
"""A session of this name that connects to this broker, and its host."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Journey:
    """A migration under way."""

    one: PublishingClient
    target: Host
    migration: Migration
    source_broker: str
    target_broker: str


class Roaming:
    """All migrations under way. `open` makes sessions, `go_on` lets a publisher publish what is due."""

    def __init__(
        self,
        world: World,
        open: Open,
        go_on: Callable[[PublishingClient], None],
        note: Note,
    ) -> None:
        self._world = world
        self._open = open
        self._go_on = go_on
        self._note = note
        self._publishers: dict[str, PublishingClient] = {}  # by the name of the host they are on
        self._under_way: dict[str, Journey] = {}  # by the names of both hosts

    @property
    def is_under_way(self) -> bool:
        """Whether anybody migrates."""
        return bool(self._under_way)

    def add(self, one: PublishingClient) -> None:
        """A publisher begins."""
        self._publishers[one.host.name] = one

    def told(self, host: Host, effect: Any) -> None:
        """A publisher's session told something: to go elsewhere, or what a migration waits for."""
        world = self._world
        if isinstance(effect, RelocateAsked) and host.name in self._publishers:
            world.at(world.now, self._begin, self._publishers[host.name], effect.broker)
        journey = self._under_way.get(host.name)
        if journey is not None:
            if isinstance(effect, Migrated) and host is journey.target:
                journey.migration.arrived(effect)
            world.at(world.now, self._advance, journey)

    def _begin(self, one: PublishingClient, broker: str) -> None:
        home = one.session.home
        if one.host.name in self._under_way or home is None or home.broker == broker:
            return
        if one.session.move is not Move.STEADY or one.is_paused:
            return
        one.moves += 1
        target, session = self._open(f"{one.name}/{one.moves}", broker)
        now = self._world.now
        timeout_ns = round(RELOCATION_TIMEOUT_S * SECOND)
        migration = Migration(one.id, one.session, session, now, timeout_ns)
        journey = Journey(one, target, migration, home.broker, broker)
        self._under_way[one.host.name] = self._under_way[target.name] = journey
        self._world.flush(target)
        self._look(journey)

    def _look(self, journey: Journey) -> None:
        self._advance(journey)
        if self._is_under_way(journey):
            self._world.at(self._world.now + LOOK_NS, self._look, journey)

    def _is_under_way(self, journey: Journey) -> bool:
        return self._under_way.get(journey.target.name) is journey

    def _advance(self, journey: Journey) -> None:
        if not self._is_under_way(journey):
            return
        is_over = journey.migration.advance(self._world.now)
        for host in (journey.one.host, journey.target):
            self._world.flush(host)
        if is_over:
            self._finish(journey)

    def _finish(self, journey: Journey) -> None:
        """The publisher goes on at the one broker or the other; the session that it does not need is over."""
        one, target, migration = journey.one, journey.target, journey.migration
        source = one.host
        del self._under_way[source.name], self._under_way[target.name]
        is_done = migration.step is Step.DONE
        if is_done:
            del self._publishers[source.name]
            one.host, one.session = target, migration.target
            self._publishers[target.name] = one
        told = {
            "publisher": one.name,
            "from": journey.source_broker,
            "to": journey.target_broker,
            "is_done": is_done,
            "pause_ns": migration.resumed_at - migration.paused_at if is_done else None,
        }
        self._note(journey.source_broker, "publisher-migrated", told)
        left, session = (source, migration.source) if is_done else (target, migration.target)
        session.close()
        self._world.flush(left)
        left.stop()
        if one.is_late:
            one.is_late = False
            self._go_on(one)
