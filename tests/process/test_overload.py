"""Moves between real brokers of which one gets twice as much as it can match: who waits for it, and for how long.

A ── B ── C
     │
     H          matches 50 publications a second and gets more than 100
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from itertools import count
from typing import Any

import runnel
from process.processes import RunningProgram, RunningPrograms
from runnel.client.publisher import Publisher
from runnel.client.subscription import Subscription
from runnel.modules.inspection.questions import Status
from runnel.net.addresses import parse_address
from runnel.operate.ask import ask

MATCHING_MS = 20.0
RATE = 1_000 / MATCHING_MS
FLOOD_S, CALM_S = 0.009, 0.1  # between two publications
BUILD_UP = 400  # publications that are to wait before anybody moves: 8 s


async def publish(publisher: Publisher, gap_s: float, enough: asyncio.Event) -> None:
    """At a steady rate; what could not be published in time is published late, not left out."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    for n in count():
        if enough.is_set():
            return
        await publisher.publish_batch([{"n": n}])
        due += gap_s
        await asyncio.sleep(max(0.0, due - loop.time()))


async def check(subscription: Subscription, publishers: list[Publisher]) -> None:
    """Every event of every publisher comes once and in order."""
    seen: Counter[str] = Counter()
    while any(seen[one.name] < one.published for one in publishers):
        event = await subscription.get(60)
        assert event["n"] == seen[event.publisher], f"{event.publisher}: {event['n']}"
        seen[event.publisher] += 1
    assert subscription.unread == 0


def network(processes: RunningPrograms) -> dict[str, RunningProgram]:
    brokers = {"B": processes.broker("B")}
    dialled = {"B": brokers["B"].said.removeprefix("runnel://")}
    for name in ("A", "C"):
        brokers[name] = processes.broker(name, dialled)
    brokers["H"] = processes.broker("H", dialled, limits={"matching_delay_ms": MATCHING_MS})
    return brokers


def test_moves_beside_an_overloaded_broker_and_away_from_it(processes: RunningPrograms) -> None:
    brokers = network(processes)
    address = parse_address(brokers["H"].said)
    moved: dict[str, tuple[float, float]] = {}  # how long the backlog was then, how long it took

    async def load() -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, ask, address, Status())

    async def move(client: Any, name: str, to: str) -> None:
        waiting = (await load())["gauges"]["waiting_publications"]
        began = asyncio.get_running_loop().time()
        await client.move_to(brokers[to].said)
        moved[name] = waiting / RATE, asyncio.get_running_loop().time() - began

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            clients, publishers, subscriptions = {}, {}, []
            homes = {"flood": "H", "calm": "A", "still": "H", "beside": "A", "both": "A"}
            for name, home in (homes | {"leaves": "H", "leaves too": "H"}).items():
                client = await stack.enter_async_context(runnel.connect(brokers[home].said))
                clients[name] = client
                if name not in ("flood", "calm"):
                    subscriptions.append(await client.subscribe("n >= 0"))
                if name in ("flood", "calm", "both", "leaves too"):
                    publishers[name] = await client.advertise("n >= 0", name=name)
            enough = asyncio.Event()
            before, began = await load(), loop.time()
            publishing = [
                asyncio.create_task(publish(one, FLOOD_S if name == "flood" else CALM_S, enough))
                for name, one in publishers.items()
            ]
            while (now := await load())["gauges"]["waiting_publications"] < BUILD_UP:
                assert loop.time() - began < 60, "there is no overload"
            arrived = now["gauges"]["waiting_publications"]
            arrived += now["meter"]["publications_in"] - before["meter"]["publications_in"]
            assert arrived / (loop.time() - began) >= 2 * RATE, "Ir is less than 2"
            leaving = [
                asyncio.create_task(move(clients[name], name, to))
                for name, to in (("leaves", "B"), ("leaves too", "C"))
            ]
            for to in ("C", "A", "B"):
                for name in ("beside", "both"):
                    await move(clients[name], f"{name}, to {to}", to)
            await asyncio.gather(*leaving)
            enough.set()
            await asyncio.gather(*publishing)
            for subscription in subscriptions:
                await check(subscription, list(publishers.values()))
            assert [(one.missed, one.gaps) for one in clients.values()] == [(0, 0)] * len(clients)

    asyncio.run(main())
    for name, (backlog_s, took_s) in moved.items():
        if name.startswith("leaves"):
            assert took_s <= 1.3 * backlog_s, moved
        else:
            assert backlog_s > 1 and took_s < 1, moved
    for name in ("A", "B", "C", "H"):
        assert brokers[name].stop() == 0
