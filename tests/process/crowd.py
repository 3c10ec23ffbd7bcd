"""A crowd of clients under steady load, which notices whatever is lost, doubled or out of order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from time import monotonic

import runnel
from runnel.client.aio import Client
from runnel.client.publisher import Publisher
from runnel.client.subscription import Subscription

WITHIN_S = 60.0


class Crowd:
    """Publishers, each of a topic of its own, and subscribers, each of one topic; all over the brokers.

    With `async with` all are ready; `published` counts, `finish` waits until all has come and says what went wrong.
    """

    def __init__(
        self, urls: Sequence[str], publishers: int, subscribers: int, gap_s: float = 0.01
    ) -> None:
        self._urls = urls
        self._count = publishers
        self._subscribers = subscribers
        self._gap_s = gap_s
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self.clients: list[Client] = []
        self.publishers: list[Publisher] = []
        self.got: list[list[int]] = []
        self.gaps_s: list[float] = []  # the longest between two events, of each subscriber

    async def __aenter__(self) -> Crowd:
        for n in range(self._subscribers):
            client = await self._client(f"s{n}", n)
            subscription = await client.subscribe(f"topic = {n % self._count}")
            self.got.append([])
            self.gaps_s.append(0.0)
            self._tasks.append(asyncio.create_task(self._read(n, subscription)))
        for n in range(self._count):
            client = await self._client(f"p{n}", n)
            self.publishers.append(await client.advertise(f"topic = {n}", name=f"topic{n}"))
        for n, publisher in enumerate(self.publishers):
            self._tasks.append(asyncio.create_task(self._publish(n, publisher)))
        return self

    async def _client(self, name: str, n: int) -> Client:
        url = self._urls[n % len(self._urls)]
        client = await self._stack.enter_async_context(runnel.connect(url, name=name))
        self.clients.append(client)
        return client

    async def _publish(self, topic: int, publisher: Publisher) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await publisher.publish({"topic": topic, "n": publisher.published})
            due += self._gap_s
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def _read(self, n: int, subscription: Subscription) -> None:
        last = 0.0
        async for event in subscription:
            value = event["n"]
            assert isinstance(value, int)
            self.got[n].append(value)
            now = monotonic()
            if last:
                self.gaps_s[n] = max(self.gaps_s[n], now - last)
            last = now

    async def until_published(self, count: int) -> None:
        """Each has published so many more."""
        wanted = [publisher.published + count for publisher in self.publishers]
        async with asyncio.timeout(WITHIN_S):
            while any(p.published < w for p, w in zip(self.publishers, wanted, strict=True)):
                await asyncio.sleep(self._gap_s)

    async def finish(self) -> dict[str, int]:
        """Publish no more, wait for what is under way, and say what went wrong."""
        for task in self._tasks[self._subscribers :]:
            task.cancel()
        await asyncio.gather(*self._tasks[self._subscribers :], return_exceptions=True)
        for client in self.clients:
            await client.flush()
        wanted = [self.publishers[n % self._count].published for n in range(self._subscribers)]
        deadline = monotonic() + 10.0
        while any(len(set(g)) < w for g, w in zip(self.got, wanted, strict=True)):
            if monotonic() > deadline:
                break
            await asyncio.sleep(0.01)
        lost = sum(w - len(set(got)) for got, w in zip(self.got, wanted, strict=True))
        doubled = sum(len(got) - len(set(got)) for got in self.got)
        disordered = sum(a > b for got in self.got for a, b in pairwise(got))
        return {"lost": lost, "doubled": doubled, "disordered": disordered}

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()


FINE = {"lost": 0, "doubled": 0, "disordered": 0}
