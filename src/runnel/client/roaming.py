"""Roaming: publishers of a client that publish at other brokers than the client's own.

A publisher that migrates gets a session and a connection of its own at the broker that it goes to; the application
notices only a short pause. The futures that the application waits for are shared between these sessions and the
client's own, so any of them can complete one. A session without publishers is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from runnel.client.effects import Migrated, PingsAsked, RelocateAsked
from runnel.client.migration import MigrationStep, PublisherMigration
from runnel.errors import InputError, MoveFailed
from runnel.net.dialling import is_same_place, measure_round_trip
from runnel.quantities import SECOND

if TYPE_CHECKING:
    from runnel.client.live import Live
    from runnel.client.publisher import Publisher

RELOCATION_TIMEOUT_S = 10.0
NAME_CHARACTERS_MAX = 255


class UnderWay:
    """A migration, its publisher, and a future for its end."""

    def __init__(self, migration: PublisherMigration, publisher: Publisher, target: Live) -> None:
        self.migration = migration
        self.publisher = publisher
        self.target = target
        self.over: asyncio.Future[bool] = asyncio.get_running_loop().create_future()


class Roaming:
    """The sessions of publishers that have migrated, and the migrations under way."""

    def __init__(self, main: Live, new_live: Callable[[str, str], Live], follows: bool) -> None:
        self._main = main
        self._new_live = new_live  # by the name of the session and the address of a broker
        self._follows = follows  # publishers migrate when their broker asks them to
        self._guests: dict[str, Live] = {}  # by the session's name
        self._under_way: dict[int, UnderWay] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def is_main(self, live: Live) -> bool:
        """Whether this is the client's own session."""
        return live is self._main

    async def migrate(self, publisher: Publisher, address: str, timeout_s: float) -> None:
        """Let a publisher migrate, and wait until it publishes at the other broker."""
        id = publisher.id
        if id in self._under_way:
            raise InputError(f"{publisher.name} is migrating already: wait for that first")
        source = publisher.live
        home = source.session.home
        if home is not None and await is_same_place(home.broker, address):
            raise InputError(f"{publisher.name} is at {address} already")
        self._main.check()
        if id in self._under_way or publisher.live is not source:
            raise InputError(f"{publisher.name} is migrating already: wait for that first")
        name = self._free_name(publisher)
        target = self._new_live(name, address)
        now = monotonic_ns()
        try:
            migration = PublisherMigration(
                id, source.session, target.session, now, round(timeout_s * SECOND)
            )
        except InputError:
            target.driver.stop()
            raise
        self._guests[name] = target
        target.attach(self)
        under_way = self._under_way[id] = UnderWay(migration, publisher, target)
        generation = home.generation if home is not None else 0
        target.session.connect(address, now, generation)
        target.flush_soon()
        if not await self._main.wait_for(under_way.over):
            why = target.driver.rounds.reasons.get(address)
            raise MoveFailed(
                f"{publisher.name} could not migrate to {address} within {timeout_s:g} s"
                f"{f': {why}' if why else ''}. It goes on where it is, and nothing is lost"
            )

    def _free_name(self, publisher: Publisher) -> str:
        wanted = f"{self._main.session.config.name}/{publisher.name}"[: NAME_CHARACTERS_MAX - 8]
        name, count = wanted, 1
        while name in self._guests:
            count += 1
            name = f"{wanted}#{count}"
        return name

    def is_target(self, live: Live) -> bool:
        """Whether a publisher is on its way to this session."""
        return any(under_way.target is live for under_way in self._under_way.values())

    def retire(self, live: Live) -> None:
        """Close a session that was opened for a publisher, if it has none any more."""
        name = live.session.config.name
        if self._guests.get(name) is live and not live.session.publishers:
            del self._guests[name]
            live.retire()

    async def wait_until_idle(self) -> None:
        """Wait until no migration is under way."""
        while self._under_way:
            await asyncio.wait([under_way.over for under_way in self._under_way.values()])

    async def close(self) -> None:
        """Close all sessions of publishers."""
        for task in list(self._tasks):
            task.cancel()
        self._under_way.clear()
        for live in list(self._guests.values()):
            await live.close()
        self._guests.clear()

    # -- effects of sessions --------------------------------------------------------------------------

    def handle_effect(self, live: Live, effect: Any) -> None:
        """Handle an effect about a publisher that is migrating, or is asked to."""
        if isinstance(effect, Migrated) and effect.id in self._under_way:
            self._under_way[effect.id].migration.handle_effect(live.session, effect)
        elif isinstance(effect, RelocateAsked) and self._follows:
            publisher = self._main.publishers.get(effect.id)
            if publisher is not None and publisher.live is live:
                self._start(self._relocate(publisher, effect.address))
        elif isinstance(effect, PingsAsked):
            self._start(self._measure(live, effect))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._main.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _measure(self, live: Live, asked: PingsAsked) -> None:
        """Measure how far brokers are, all at the same time, and say so."""
        times = await asyncio.gather(
            *(measure_round_trip(one.address, asked.samples) for one in asked.brokers)
        )
        if live.over is None:
            live.session.answer_pings(asked, tuple(times))
            live.flush_soon()

    async def _relocate(self, publisher: Publisher, address: str) -> None:
        try:
            await self.migrate(publisher, address, RELOCATION_TIMEOUT_S)
        except (InputError, MoveFailed):
            return  # it stays where it is; the broker may ask again

    def advance(self) -> None:
        """Advance all migrations, after something has happened to one of the sessions."""
        for id, under_way in list(self._under_way.items()):
            migration, publisher = under_way.migration, under_way.publisher
            source = publisher.live
            before = migration.step
            is_over = migration.advance(monotonic_ns())
            if migration.step is before:
                continue
            if migration.advertised.paused:
                publisher.pause()
            if is_over:
                del self._under_way[id]
                self._finish(under_way, source, is_done=migration.step is MigrationStep.DONE)
            source.flush_soon()
            under_way.target.flush_soon()

    def _finish(self, under_way: UnderWay, source: Live, *, is_done: bool) -> None:
        publisher, target = under_way.publisher, under_way.target
        if is_done:
            migration = under_way.migration
            target.driver.rounds.add_addresses(self._main.driver.rounds)
            source.wake_all()
            publisher.resume(target, (migration.resumed_at - migration.paused_at) / SECOND)
        else:
            publisher.resume()
        for live in (source, target):
            self.retire(live)
        if not under_way.over.done():
            under_way.over.set_result(is_done)
