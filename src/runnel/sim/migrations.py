"""Publishers that migrate in a simulated world: the migrations under way, and when each is advanced.

This is the simulator's counterpart of `client/roaming.py`, which does the same on an event loop; the steps of a
migration are in `client/migration.py`, which both drive. Sessions, hosts and what follows from a migration belong to
its users: `migrants.py` for runs of the campaign, `lab/roaming.py` for scenarios.

A migration is looked at after one of its sessions had an effect, as soon as that effect is dealt with, and at regular
intervals, because it may run out of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from runnel.client.effects import PingsAsked, RelocateAsked
from runnel.client.migration import PublisherMigration
from runnel.client.session import Session
from runnel.sim.world import Host, World


class SimulatedMigrations:
    """All migrations under way.

    `relocate` is called when a broker asks the session on a host to let a publisher go elsewhere; it may call `begin`.
    `look` is called with a migration whenever it may go on; it calls `advance`.
    """

    def __init__(
        self,
        world: World,
        *,
        look_ns: int,
        timeout_ns: int,
        relocate: Callable[[Host, RelocateAsked], None],
        look: Callable[[PublisherMigration], None],
        pings_in_series: bool = False,
    ) -> None:
        self._world = world
        self._look_ns = look_ns
        self._timeout_ns = timeout_ns
        self._relocate = relocate
        self._look = look
        self._pings_in_series = pings_in_series
        self._under_way: dict[int, PublisherMigration] = {}  # by the publisher's id

    def __iter__(self) -> Iterator[PublisherMigration]:
        return iter(list(self._under_way.values()))

    def __len__(self) -> int:
        return len(self._under_way)

    def of(self, session: Session) -> list[PublisherMigration]:
        """The migrations whose source or target is this session."""
        return [one for one in self if session in (one.source, one.target)]

    def begin(
        self, id: int, source: Session, broker: str, open: Callable[[], Session]
    ) -> PublisherMigration | None:
        """Start to migrate a publisher to a broker; None if it cannot migrate there now.

        `open` makes the session that the publisher is to have there, and lets it connect.
        """
        if not self._may_begin(id, source, broker):
            return None
        world, target = self._world, open()
        world.flush(self._host(target))
        migration = PublisherMigration(id, source, target, world.now, self._timeout_ns)
        self._under_way[id] = migration
        world.at(world.now + self._look_ns, self._look_again, migration)
        return migration

    def handle_effect(self, host: Host, effect: Any) -> None:
        """A session had an effect: a migration may be asked for, or one under way may go on."""
        if isinstance(effect, RelocateAsked):
            self._world.at(self._world.now, self._relocate, host, effect)
        elif isinstance(effect, PingsAsked):
            self._measure(host, effect)
        for one in self:
            if host.machine in (one.source, one.target):
                one.handle_effect(host.machine, effect)
                self._world.at(self._world.now, self._look_at, one)

    def _measure(self, host: Host, asked: PingsAsked) -> None:
        """Answer with the round trips to the brokers asked for, when so many could have been made.

        All brokers are measured at the same time, as clients do it, or one after the other.
        """
        world = self._world
        wires = [world.network.wire(host.name, one.broker) for one in asked.brokers]
        times = [
            0
            if wire.cut or one.broker not in world.hosts
            else wire.latency_from(host.name) + wire.latency_from(one.broker) + 2 * wire.extra_ns
            for one, wire in zip(asked.brokers, wires, strict=True)
        ]
        longest = sum(times) if self._pings_in_series else max(times, default=0)
        at = world.now + asked.samples * longest
        world.at(at, self._answer_pings, host, host.incarnation, asked, tuple(times))

    def _answer_pings(
        self, host: Host, incarnation: int, asked: PingsAsked, times_ns: tuple[int, ...]
    ) -> None:
        if host.incarnation == incarnation and isinstance(host.machine, Session):
            host.machine.answer_pings(asked, times_ns)
            self._world.flush(host)

    def advance(self, migration: PublisherMigration) -> bool:
        """Let it go as far as it can now; whether it is over."""
        is_over = migration.advance(self._world.now)
        for session in (migration.source, migration.target):
            self._world.flush(self._host(session))
        if is_over:
            del self._under_way[migration.id]
        return is_over

    def drop(self, session: Session) -> None:
        """A session is gone: forget every migration that it takes part in."""
        for one in self.of(session):
            del self._under_way[one.id]

    def close(self, session: Session) -> None:
        """Close a session that is not needed any more, and stop its host."""
        host = self._host(session)
        session.close()
        self._world.flush(host)
        host.stop()

    # -- inside ---------------------------------------------------------------------------------------

    def _may_begin(self, id: int, source: Session, broker: str) -> bool:
        home = source.home
        if id in self._under_way or source.publishers[id].paused or not source.is_settled:
            return False
        return home is not None and home.broker != broker

    def _host(self, session: Session) -> Host:
        return self._world.hosts[session.config.name]

    def _look_at(self, migration: PublisherMigration) -> None:
        if self._under_way.get(migration.id) is migration:
            self._look(migration)

    def _look_again(self, migration: PublisherMigration) -> None:
        if self._under_way.get(migration.id) is migration:
            self._look(migration)
            self._world.at(self._world.now + self._look_ns, self._look_again, migration)
