"""Publishers that migrate in a run: a session of its own for each that has, and the migrations under way.

A client's publishers begin in its own session. One that migrates gets a session for itself at its new broker, on a host
of its own, so everything that can happen to a client happens to it too. It goes when its publisher goes on.
"""

from __future__ import annotations

from collections.abc import Callable

from runnel.client.effects import RelocateAsked
from runnel.client.migration import MigrationStep, PublisherMigration
from runnel.client.session import Session
from runnel.sim.campaign import RESUME_TIMEOUT_NS
from runnel.sim.checkers import Checker
from runnel.sim.migrations import SimulatedMigrations
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
        self._migrations = SimulatedMigrations(
            world,
            look_ns=LOOK_NS,
            timeout_ns=TIMEOUT_NS,
            relocate=self._relocate,
            look=self._advance,
        )
        self._made = 0
        checker.on_effect = self._migrations.handle_effect

    def family(self, client: str) -> list[str]:
        """A client's session, and those of its publishers."""
        return [n for n in self.sessions if self._client_of.get(n, n) == client]

    def publishers(self, client: str) -> list[tuple[str, int]]:
        """What a client may publish with: the session that has the publisher, and its id."""
        targets = [(migration.target, migration.id) for migration in self._migrations]
        return [
            (name, id)
            for name in self.family(client)
            for id in self.sessions[name].publishers
            if (self.sessions[name], id) not in targets
        ]

    def is_migrating(self, session: Session) -> bool:
        """Whether a publisher is on its way to or from a session."""
        return bool(self._migrations.of(session))

    @property
    def why_unsettled(self) -> str:
        """Why there is no rest yet."""
        return f"{next(iter(self._migrations)).id} migrates" if self._migrations else ""

    def migrate(self, client: str, name: str, id: int, broker: str) -> None:
        """Let a publisher go to another broker, if nothing speaks against it."""

        def open() -> Session:
            self._made += 1
            guest = f"{client}/{self._made}"
            target = self.sessions[guest] = self._new_session(guest)
            self._client_of[guest] = client
            target.connect(broker, self._world.now)
            self._checker.note_homes(guest, target)
            return target

        self._migrations.begin(id, self.sessions[name], broker, open)

    def drop(self, name: str) -> None:
        """A session is gone, with every migration that it has a part in."""
        self._migrations.drop(self.sessions.pop(name))
        self._client_of.pop(name, None)

    # -- inside ---------------------------------------------------------------------------------------

    def _relocate(self, host: Host, asked: RelocateAsked) -> None:
        """A broker asked the session on a host to let a publisher go elsewhere."""
        name = host.name
        self._checker.seen["relocations"] += 1
        if name in self.sessions and asked.id in self.sessions[name].publishers:
            self.migrate(self._client_of.get(name, name), name, asked.id, asked.broker)

    def _advance(self, migration: PublisherMigration) -> None:
        source, target = migration.source, migration.target
        if source.home is not None and target.home is not None:
            self._checker.note_migration(migration.id, source.home.broker, target.home.broker)
        is_over = self._migrations.advance(migration)
        for session in (source, target):
            self._checker.note_homes(session.config.name, session)
        if not is_over:
            return
        self._checker.seen["migrated" if migration.step is MigrationStep.DONE else "undone"] += 1
        for session in (source, target):
            name = session.config.name
            if name in self._client_of and not session.publishers:
                self.close(name)
            elif session is target:
                self._checker.note_migrated(migration.id, name)

    def close(self, name: str) -> None:
        """Let a session leave."""
        self._migrations.close(self.sessions[name])
        self.drop(name)
