"""Publishers that migrate between real brokers under load: nothing lost, nothing doubled, every one in order."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from itertools import count, cycle

import runnel
from process.processes import SOON, RunningProgram, RunningPrograms
from runnel.client.publisher import Publisher
from runnel.client.subscription import Subscription

GAP_S = 0.005  # between two publications: 200 a second


def tree(processes: RunningPrograms, size: int) -> dict[str, RunningProgram]:
    """A balanced tree: the children of Bn are B2n and B2n+1."""
    brokers: dict[str, RunningProgram] = {}
    for n in range(1, size + 1):
        parent = f"B{n // 2}"
        dialled = {parent: brokers[parent].said.removeprefix("runnel://")} if n > 1 else {}
        brokers[f"B{n}"] = processes.broker(f"B{n}", dialled)
    return brokers


async def publish(publisher: Publisher, enough: asyncio.Event) -> None:
    """At a steady rate; what could not be published in time is published late, not left out."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    for n in count():
        if enough.is_set():
            return
        await publisher.publish({"n": n})
        due += GAP_S
        await asyncio.sleep(max(0.0, due - loop.time()))


async def migrate(publisher: Publisher, places: list[str], times: int) -> None:
    for place in [place for _, place in zip(range(times), cycle(places), strict=False)]:
        await publisher.migrate_to(place)


async def check(subscription: Subscription, publishers: list[Publisher]) -> None:
    """Every event of every publisher comes once and in order."""
    seen: Counter[str] = Counter()
    while any(seen[one.name] < one.published for one in publishers):
        event = await subscription.get(30)
        assert event["n"] == seen[event.publisher], f"{event.publisher}: {event['n']}"
        seen[event.publisher] += 1
    assert subscription.unread == 0


def test_four_publishers_migrate_among_fifteen_brokers_under_load(
    processes: RunningPrograms,
) -> None:
    brokers = tree(processes, 15)
    leaves = [brokers[f"B{n}"].said for n in range(8, 16)]

    async def main() -> None:
        async with AsyncExitStack() as stack:
            reader = await stack.enter_async_context(runnel.connect(brokers["B5"].said))
            subscription = await reader.subscribe("n >= 0")
            publishers = []
            for n in range(4):
                client = await stack.enter_async_context(runnel.connect(leaves[n]))
                publishers.append(await client.advertise("n >= 0", name=f"p{n}"))
            enough = asyncio.Event()
            publishing = [asyncio.create_task(publish(one, enough)) for one in publishers]
            # All across the root, crossing each other.
            ways = [[leaves[7 - n], leaves[n]] for n in range(4)]
            await asyncio.gather(*(migrate(p, w, 5) for p, w in zip(publishers, ways, strict=True)))
            enough.set()
            await asyncio.gather(*publishing)
            assert [one.migrations for one in publishers] == [5] * 4
            await check(subscription, publishers)
            assert (reader.missed, reader.gaps) == (0, 0)

    asyncio.run(main())
    for broker in brokers.values():
        assert broker.stop() == 0


def test_a_target_that_is_killed_half_way_leaves_the_publisher_where_it_was(
    processes: RunningPrograms,
) -> None:
    """At every moment that can be hit: it ends up at the one or the other, and goes on."""
    source = processes.broker("B1", link=SOON)
    address = source.said.removeprefix("runnel://")

    async def once(target: RunningProgram, after_s: float) -> None:
        async with runnel.connect(source.said) as reader, runnel.connect(source.said) as writer:
            # The targets of earlier turns are missing.
            subscription = await reader.subscribe("n >= 0", wait="reachable")
            publisher = await writer.advertise("n >= 0", wait="reachable")
            enough = asyncio.Event()
            publishing = asyncio.create_task(publish(publisher, enough))
            migrating = asyncio.create_task(publisher.migrate_to(target.said, timeout=2))
            await asyncio.sleep(after_s)
            await asyncio.to_thread(target.kill)
            await asyncio.wait([migrating])
            before = publisher.published
            while publisher.published < before + 10 and not publishing.done():
                await asyncio.sleep(GAP_S)
            enough.set()
            outcome = (await asyncio.gather(publishing, return_exceptions=True))[0]
            # Only if it had arrived may some of what the target had be in doubt, and that is said.
            assert outcome is None or (
                isinstance(outcome, runnel.PublicationInDoubt) and migrating.exception() is None
            )
            if migrating.exception() is not None:
                assert isinstance(migrating.exception(), runnel.MoveFailed)
                await check(subscription, [publisher])

    for number, after_s in enumerate((0.0, 0.002, 0.005, 0.01, 0.02)):
        target = processes.broker(f"T{number}", {"B1": address}, link=SOON)
        asyncio.run(once(target, after_s))
