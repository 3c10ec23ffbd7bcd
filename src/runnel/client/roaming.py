"""Roaming: the publishers of a client that live at other brokers than the client itself.

A publisher that migrates gets a session of its own, and a connection, at the broker that it goes to; the application
does not notice but for a short pause. What waits for the client, its publishers and its subscriptions is shared
between the sessions, so that it does not matter which of them brings it about. A session that has no publisher any
more is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from runnel.client.effects import Migrated, RelocateAsked
from runnel.client.migration import Migration, Step
from runnel.errors import InputError, MoveFailed
from runnel.net.dialling import is_same_place
from runnel.net.driver import SECOND

if TYPE_CHECKING:
    from runnel.client.live import Live
    from runnel.client.publisher import Publisher

RELOCATION_TIMEOUT_S = 10.0
NAME_CHARACTERS_MAX = 255


class UnderWay:
    """A migration, the publisher it is about, and whoever waits for its end."""

    def __init__(self, migration: Migration, publisher: Publisher, target: Live) -> None:
        self.migration = migration
        self.publisher = publisher
        self.target = target
        self.over: asyncio.Future[bool] = asyncio.get_running_loop().create_future()


class Roaming:
    """The sessions of publishers that have migrated, and the migrations under way."""

    def __init__(self, main: Live, new_live: Callable[[str, str], Live], follows: bool) -> None:
        self._main = main
        self._new_live = new_live  # by the name of the session and the address of a broker
        self._follows = follows  # brokers are obeyed when they ask a publisher to relocate
        self._guests: dict[str, Live] = {}  # by the session's name
        self._under_way: dict[int, UnderWay] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch(main)

    def _watch(self, live: Live) -> None:
        live.roaming = self
        live.on_effect, live.on_after = self._told, self._advance

    def is_of(self, live: Live) -> bool:
        """Whether it is the client's own."""
        return live is self._main

    async def migrate(self, publisher: Publisher, address: str, timeout_s: float) -> None:
        """Until a publisher lives at another broker."""
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
            migration = Migration(
                id, source.session, target.session, now, round(timeout_s * SECOND)
            )
        except InputError:
            target.driver.stop()
            raise
        self._guests[name] = target
        self._watch(target)
        under_way = self._under_way[id] = UnderWay(migration, publisher, target)
        generation = home.generation if home is not None else 0
        target.session.connect(address, now, generation)
        target.flush_soon()
        if not await self._main.outcome(under_way.over):
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

    def retire(self, live: Live) -> None:
        """Close the session of a publisher, if it has none any more."""
        name = live.session.config.name
        if self._guests.get(name) is live and not live.session.publishers:
            del self._guests[name]
            live.retire()

    async def settled(self) -> None:
        """Until nothing migrates."""
        while self._under_way:
            await asyncio.wait([under_way.over for under_way in self._under_way.values()])

    async def close(self) -> None:
        """Nobody roams any more."""
        for task in list(self._tasks):
            task.cancel()
        self._under_way.clear()
        for live in list(self._guests.values()):
            await live.close()
        self._guests.clear()

    # -- what sessions tell ---------------------------------------------------------------------------

    def _told(self, live: Live, effect: Any) -> None:
        if isinstance(effect, Migrated):
            under_way = self._under_way.get(effect.id)
            if under_way is not None and under_way.target is live:
                under_way.migration.arrived(effect)
        elif isinstance(effect, RelocateAsked) and self._follows:
            publisher = self._main.publishers.get(effect.id)
            if publisher is not None and publisher.live is live:
                task = self._main.loop.create_task(self._relocate(publisher, effect.address))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _relocate(self, publisher: Publisher, address: str) -> None:
        try:
            await self.migrate(publisher, address, RELOCATION_TIMEOUT_S)
        except (InputError, MoveFailed):
            return  # it stays where it is; the broker may ask again

    def _advance(self) -> None:
        """Something has happened to one of the sessions."""
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
                self._finish(under_way, source, is_done=migration.step is Step.DONE)
            source.flush_soon()
            under_way.target.flush_soon()

    def _finish(self, under_way: UnderWay, source: Live, *, is_done: bool) -> None:
        publisher, target = under_way.publisher, under_way.target
        if is_done:
            migration = under_way.migration
            publisher.migrations += 1
            publisher.pause_s = (migration.resumed_at - migration.paused_at) / SECOND
            publisher.live = target
            target.driver.rounds.also(self._main.driver.rounds)
            source.wake_all()
        publisher.go_on()
        for live in (source, target):
            self.retire(live)
        if not under_way.over.done():
            under_way.over.set_result(is_done)
