"""Publishers that migrate under an application's hands: nothing lost or doubled, in order, nobody left waiting."""

import asyncio
from functools import partial

import pytest

from runnel.client.publisher import Publisher
from runnel.errors import ClientClosed, InputError, MoveFailed, NoCredit
from support.aio import network, pair, run, take, until


def has_gone_on(publisher: Publisher, before: int) -> bool:
    return publisher.confirmed > before + 20


def test_a_publisher_migrates_while_it_publishes() -> None:
    async def main() -> None:
        async with pair(net, "B1", "B2") as (publisher, subscription):

            async def publish() -> None:
                for value in range(600):
                    await publisher.publish({"a": value})

            publishing = asyncio.create_task(publish())
            for broker in ("B4", "B2", "B1", "B3"):
                await until(partial(has_gone_on, publisher, publisher.confirmed))
                await publisher.migrate_to(net.url(broker))
                assert publisher.broker == broker
            await publishing
            assert await take(subscription, 600) == list(range(600))
            assert publisher.in_doubt == 0

    with network(4) as net:
        run(main())


def test_the_client_and_its_other_publishers_stay() -> None:
    async def main() -> None:
        async with net.connect("B1") as client:
            one, other = (
                await client.advertise("a > 0"),
                await client.advertise("b > 0", name="two"),
            )
            await one.migrate_to(net.url("B3"))
            assert (client.broker, one.broker, other.broker) == ("B1", "B3", "B1")
            await other.publish({"b": 1})
            await one.publish({"a": 1})
            await other.migrate_to(net.url("B3"))
            await other.publish({"b": 1})
            await one.withdraw()
            await client.move_to(net.url("B3"))
            await other.publish({"b": 2})

    with network(3) as net:
        run(main())


def test_publishing_without_waiting_has_no_credit_meanwhile() -> None:
    async def main() -> None:
        async with pair(net, "B1", "B1") as (publisher, subscription):
            migrating = asyncio.create_task(publisher.migrate_to(net.url("B3")))
            refused = published = 0
            while not migrating.done():
                try:
                    publisher.publish_nowait({"a": published})
                    published += 1
                except NoCredit:
                    refused += 1
                await asyncio.sleep(0)
            assert refused and published
            await publisher.wait_credit()
            await publisher.publish_all({"a": value} for value in range(published, 500))
            assert await take(subscription, 500) == list(range(500))

    with network(3) as net:
        run(main())


def test_who_cannot_migrate_goes_on_where_it_is() -> None:
    async def main() -> None:
        async with pair(net, "B1", "B2") as (publisher, subscription):
            with pytest.raises(MoveFailed, match="goes on where it is"):
                await publisher.migrate_to("memory://nowhere/B9", timeout=0.3)
            assert publisher.broker == "B1"
            with pytest.raises(InputError, match="already"):
                await publisher.migrate_to(net.url("B1"))
            await publisher.publish({"a": 1})
            assert await take(subscription, 1) == [1]

    with network(2) as net:
        run(main())


def test_one_migration_at_a_time() -> None:
    async def main() -> None:
        async with pair(net, "B1", "B1") as (publisher, _):
            both = [publisher.migrate_to(net.url(b)) for b in ("B2", "B3")]
            outcomes = await asyncio.gather(*both, return_exceptions=True)
            assert sorted(map(type, outcomes), key=str) == [type(None), InputError]

    with network(3) as net:
        run(main())


def test_one_that_withdraws_on_the_way_is_gone() -> None:
    async def main() -> None:
        async with net.connect("B1") as client:
            publisher = await client.advertise("a > 0")
            migrating = asyncio.create_task(publisher.migrate_to(net.url("B3")))
            await asyncio.sleep(0)
            await publisher.withdraw()
            with pytest.raises(MoveFailed):
                await migrating

    with network(3) as net:
        run(main())


def test_closing_the_client_ends_it_all() -> None:
    async def main() -> None:
        client = await net.connect("B1")
        publisher = await client.advertise("a > 0")
        await publisher.migrate_to(net.url("B2"))
        migrating = asyncio.create_task(publisher.migrate_to(net.url("B3")))
        waiting = asyncio.create_task(publisher.publish({"a": 1}))
        await asyncio.sleep(0)
        await client.close()
        await asyncio.wait([migrating, waiting])
        assert isinstance(migrating.exception(), ClientClosed)
        with pytest.raises(ClientClosed):
            await publisher.publish({"a": 1})

    with network(3) as net:
        run(main())


def test_readiness_is_told_though_the_publisher_migrates_meanwhile() -> None:
    async def main() -> None:
        async with pair(net, "B1", "B2") as (publisher, subscription):
            for broker in ("B3", "B1", "B4"):
                migrating = asyncio.create_task(publisher.migrate_to(net.url(broker)))
                asked = [asyncio.create_task(publisher.ready()) for _ in range(3)]
                await asyncio.gather(migrating, *asked)
            await publisher.publish({"a": 3})
            assert await take(subscription, 1) == [3]

    with network(4) as net:
        run(main())


def test_several_wait_to_publish_and_some_are_cancelled() -> None:
    async def main() -> None:
        async with pair(net, "B1", "B1") as (publisher, subscription):
            for round, broker in enumerate(("B3", "B2", "B1")):
                migrating = asyncio.create_task(publisher.migrate_to(net.url(broker)))
                tasks = [asyncio.create_task(publisher.publish({"a": round})) for _ in range(20)]
                await asyncio.sleep(0)
                for task in tasks[::2]:
                    task.cancel()
                await asyncio.wait(tasks)
                await migrating
                assert not any(task.exception() for task in tasks[1::2])
            await publisher.publish({"a": 9})
            found = await take(subscription, publisher.published)
            assert found == sorted(found) and found[-1] == 9

    with network(3, limits={"credit_min": 1, "credit_max": 2}) as net:
        run(main())
