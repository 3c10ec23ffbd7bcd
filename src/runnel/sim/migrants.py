"""Publishers that migrate in a run: a session of its own for each that has, and the migrations under way.

A client's publishers begin in its own session. One that migrates gets a session for itself at its new broker, on a host
of its own, so everything that can happen to a client happens to it too. It goes when its publisher goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runnel.client.effects import Migrated, RelocateAsked
from runnel.client.migration import Migration, Step
from runnel.client.session import Session
from runnel.sim.campaign import RESUME_TIMEOUT_NS
from runnel.sim.checkers import Checker
from runnel.sim.world import Host, World

TIMEOUT_NS = 2 * RESUME_TIMEOUT_NS
LOOK_NS = RESUME_TIMEOUT_NS // 10


class Migrants:
    """All sessions of clients and of publishers that migrated, and who belongs to whom."""

    def __init__(
        self, world: World, checker: Checker, new_session: Callable[[str], Session]
    ) -> None:
        self.sessions: dict[str, Session] = {}
        self._world = world
        self._checker = checker
        self._new_session = new_session
        self._client_of: dict[str, str] = {}  # session of a publisher → client
        self._under_way: dict[int, Migration] = {}
        self._made = 0
        checker.on_told = self._told

    def family(self, client: str) -> list[str]:
        """A client's session, and those of its publishers."""
        return [n for n in self.sessions if self._client_of.get(n, n) == client]

    def publishers(self, client: str) -> list[tuple[str, int]]:
        """What a client may publish with: the session that has the publisher, and its id."""
        targets = [(migration.target, id) for id, migration in self._under_way.items()]
        return [
            (name, id)
            for name in self.family(client)
            for id in self.sessions[name].publishers
            if (self.sessions[name], id) not in targets
        ]

    def is_migrating(self, session: Session) -> bool:
        """Whether a publisher is on its way to or from a session."""
        return any(session in (m.source, m.target) for m in self._under_way.values())

    @property
    def unrest(self) -> str:
        """Why there is no rest yet."""
        return f"{next(iter(self._under_way))} migrates" if self._under_way else ""

    def migrate(self, client: str, name: str, id: int, broker: str) -> None:
        """Let a publisher go to another broker, if nothing speaks against it."""
        source = self.sessions[name]
        if (
            id in self._under_way
            or source.publishers[id].paused
            or not source.is_settled
            or source.home is None
            or source.home.broker == broker
        ):
            return
        self._made += 1
        guest = f"{client}/{self._made}"
        target = self.sessions[guest] = self._new_session(guest)
        self._client_of[guest] = client
        target.connect(broker, self._world.now)
        self._checker.lives_at(guest, target)
        self._world.flush(self._world.hosts[guest])
        self._under_way[id] = Migration(id, source, target, self._world.now, TIMEOUT_NS)
        self._world.at(self._world.now + LOOK_NS, self._look, id, self._under_way[id])

    def drop(self, name: str) -> None:
        """A session is gone, with every migration that it has a part in."""
        session = self.sessions.pop(name)
        for id, migration in list(self._under_way.items()):
            if session in (migration.source, migration.target):
                del self._under_way[id]
        self._client_of.pop(name, None)

    # -- inside ---------------------------------------------------------------------------------------

    def _told(self, host: Host, effect: Any) -> None:
        """A session told something: that may be what a migration waits for."""
        if isinstance(effect, RelocateAsked):
            client = self._client_of.get(host.name, host.name)
            self._world.at(self._world.now, self._relocate, client, host.name, effect)
        for id, migration in self._under_way.items():
            is_about_it = isinstance(effect, Migrated) and effect.id == id
            if is_about_it and host.machine is migration.target:
                migration.arrived(effect)
            if host.machine in (migration.source, migration.target):
                self._world.at(self._world.now, self._advance, id, migration)

    def _relocate(self, client: str, name: str, asked: RelocateAsked) -> None:
        if name in self.sessions and asked.id in self.sessions[name].publishers:
            self.migrate(client, name, asked.id, asked.broker)

    def _look(self, id: int, migration: Migration) -> None:
        if self._under_way.get(id) is migration:
            self._advance(id, migration)
            self._world.at(self._world.now + LOOK_NS, self._look, id, migration)

    def _advance(self, id: int, migration: Migration) -> None:
        if self._under_way.get(id) is not migration:
            return
        if (home := migration.source.home) is not None and migration.target.home is not None:
            self._checker.migrates(id, home.broker, migration.target.home.broker)
        is_over = migration.advance(self._world.now)
        names = [n for n, s in self.sessions.items() if s in (migration.source, migration.target)]
        for name in names:
            self._world.flush(self._world.hosts[name])
            self._checker.lives_at(name, self.sessions[name])
        if not is_over:
            return
        del self._under_way[id]
        self._checker.seen["migrated" if migration.step is Step.DONE else "undone"] += 1
        for name in names:
            session = self.sessions[name]
            if name in self._client_of and not session.publishers:
                self.close(name)
            elif session is migration.target:
                self._checker.has_migrated(id, name)

    def close(self, name: str) -> None:
        """Let a session leave."""
        session, host = self.sessions[name], self._world.hosts[name]
        session.close()
        self._world.flush(host)
        host.stop()
        self.drop(name)
