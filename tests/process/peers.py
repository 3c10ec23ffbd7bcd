"""A client for process tests: a session on a driver, and what it was told. No more than that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from time import monotonic_ns, time_ns
from typing import Any
from uuid import uuid4

from runnel.broker.ids import IdSource
from runnel.broker.links import LinkConfig
from runnel.client.config import SessionConfig
from runnel.client.effects import (
    Confirmed,
    Deliver,
    HomeDown,
    HomeUp,
    MissedSome,
    Ready,
    Unconfirmed,
)
from runnel.client.session import Session
from runnel.language import parse
from runnel.net.addresses import parse_address
from runnel.net.driver import Driver
from runnel.net.tcp import TcpDialler
from runnel.wire import Credentials

WITHIN_S = 40.0


class Peer(Driver):
    """One client. `got` has the publisher and the attribute `n` of each delivery, in order."""

    def __init__(
        self,
        name: str,
        heartbeat_s: float = 1.0,
        credentials: Callable[[], Credentials] | None = None,
    ) -> None:
        link = LinkConfig(heartbeat_ns=round(heartbeat_s * 1e9), resume_timeout_ns=10**11)
        self.session = Session(
            SessionConfig(name, link, credentials=credentials),
            time_ns() // 10**6,
            IdSource(uuid4().int >> 86 or 1),
            time_ns,
        )
        super().__init__(self.session, TcpDialler(parse_address), self._hear)
        self.got: list[tuple[str, Any]] = []
        self.missed = 0
        self.confirmed = 0
        self.unconfirmed = 0
        self.published = 0
        self.homes_up: list[bool] = []  # fresh or not, each time
        self.homes_down = 0
        self._ready: set[int] = set()
        self._waiters: dict[asyncio.Future[None], Callable[[], bool]] = {}

    # -- what it is told ------------------------------------------------------------------------------

    def _hear(self, effect: Any) -> None:
        match effect:
            case Deliver(publication=publication):
                self.got.append((publication.publisher, publication.attributes["n"]))
            case MissedSome(count=count):
                self.missed += count
            case Confirmed(count=count):
                self.confirmed += count
            case Unconfirmed(count=count):
                self.unconfirmed += count
            case Ready(id=id):
                self._ready.add(id)
            case HomeUp(fresh=fresh):
                self.homes_up.append(fresh)
            case HomeDown():
                self.homes_down += 1

    def perform(self, effects: Iterable[Any]) -> None:
        super().perform(effects)
        for waiter, condition in list(self._waiters.items()):
            if condition():
                del self._waiters[waiter]
                if not waiter.done():
                    waiter.set_result(None)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Looked at whenever something happened to this client."""
        if condition():
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = condition
        async with asyncio.timeout(WITHIN_S):
            await waiter

    # -- what it does ---------------------------------------------------------------------------------

    def flush(self) -> None:
        self.perform(self.session.flush(monotonic_ns()))

    async def connect(self, url: str) -> None:
        ups = len(self.homes_up)
        self.session.connect(url, monotonic_ns())
        self.flush()
        await self.until(lambda: len(self.homes_up) > ups)

    async def subscribe(self, text: str) -> int:
        """Returns when routes are ready."""
        return await self.ready(self.session.subscribe(parse(text)))

    async def advertise(self, text: str, name: str | None = None) -> int:
        """Returns when routes are ready."""
        return await self.ready(
            self.session.advertise(name or self.session.config.name, parse(text))
        )

    async def ready(self, id: int) -> int:
        self._ready.discard(id)
        self.session.ready(id)
        self.flush()
        await self.until(lambda: id in self._ready)
        return id

    async def publish(self, id: int, payload: bytes = b"", **attributes: Any) -> None:
        """As soon as there is credit; gives others a turn now and then."""
        if not self.session.credit:
            self.flush()
            await self.until(lambda: self.session.credit > 0)
        self.session.publish(id, attributes, payload, time_ns())
        self.published += 1
        if self.published % 64 == 0:
            self.flush()
            await asyncio.sleep(0)  # the loop's turn, not a wait

    async def settle(self) -> None:
        """Until the broker has everything, or will not say."""
        self.flush()
        await self.until(lambda: self.confirmed + self.unconfirmed == self.published)

    def leave(self) -> None:
        self.session.close()
        self.flush()
        self.stop()


@asynccontextmanager
async def peer(
    name: str,
    url: str,
    heartbeat_s: float = 1.0,
    credentials: Callable[[], Credentials] | None = None,
) -> AsyncIterator[Peer]:
    """A connected client."""
    one = Peer(name, heartbeat_s, credentials)
    try:
        await one.connect(url)
        yield one
    finally:
        one.leave()
        await asyncio.sleep(0)  # transports end at the loop's next turn
