"""The asyncio client when things go wrong: broken connections, lost brokers, moves, readers that are too slow."""

import asyncio
from typing import Any

import pytest

from runnel.client.aio import State, connect
from runnel.client.effects import Gap
from runnel.errors import (
    BugError,
    ConnectionFailed,
    InputError,
    MoveFailed,
    PublicationInDoubt,
)
from runnel.testing.network import InMemoryNetwork
from support.aio import PATIENCE_S, network, pair, run, take, until

# -- connections that break ---------------------------------------------------------------------------


def test_a_broken_connection_loses_and_doubles_nothing() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with pair(net, "B1", "B3") as (publisher, subscription):
            reading = asyncio.create_task(take(subscription, 4000))
            for n in range(4000):
                if not publisher.credit:
                    await publisher.wait_credit()
                publisher.publish_nowait({"a": n})
                if n in (1000, 2500):
                    await asyncio.to_thread(net.break_connections)
            await publisher.flush()
            assert await reading == list(range(4000))
            assert (publisher.confirmed, publisher.in_doubt, subscription.missed) == (4000, 0, 0)

    with network(3) as net:
        run(main(net))


def test_a_broken_connection_is_seen_and_mended() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect() as client:
            publisher = await client.advertise("a > 0")
            net.break_connections()
            await until(lambda: client.state is State.RECONNECTING)
            await publisher.publish({"a": 1})
            assert (client.state, client.gaps) == (State.CONNECTED, 0)

    with network() as net:
        run(main(net))


def test_a_broker_that_lost_its_memory_leaves_doubt_and_knows_everything_again() -> None:
    async def main(net: InMemoryNetwork) -> None:
        gaps: list[Gap] = []
        async with pair(net, on_gap=gaps.append) as (publisher, subscription):
            await publisher.publish({"a": 1})
            assert await take(subscription, 1) == [1]
            assert subscription._live.gaps == 0
            await asyncio.to_thread(net.kill, "B1")
            waiting = asyncio.create_task(publisher.publish({"a": 2}))
            publisher.publish_nowait({"a": 3})
            await asyncio.sleep(0)
            publisher.publish_nowait({"a": 4})
            await asyncio.to_thread(net.restart, "B1")
            with pytest.raises(PublicationInDoubt) as doubt:
                await waiting
            assert doubt.value.count == 1
            with pytest.raises(PublicationInDoubt, match="2 publications may or may not"):
                await publisher.flush()
            await publisher.flush()  # told once
            assert publisher.in_doubt == 3
            await subscription.ready()
            await publisher.ready()
            await publisher.publish({"a": 5})
            assert await take(subscription, 1) == [5]
            await until(lambda: len(gaps) == 2)
            assert subscription._live.gaps == 1
            begun, over = gaps
            assert begun.is_open and begun.until is None and begun.link.endswith("–B1")
            assert (over.link, over.since) == (begun.link, begun.since)
            assert over.until is not None and over.since < over.until

    with network() as net:
        run(main(net))


def test_asking_for_readiness_without_a_broker_waits_for_one() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect() as client:
            await asyncio.to_thread(net.kill, "B1")
            await until(lambda: client.state is State.RECONNECTING)
            asking = asyncio.create_task(client.subscribe("a > 0"))
            withdrawn = await client.subscribe("b > 0", wait="nothing")
            refused = asyncio.create_task(withdrawn.ready())
            await asyncio.sleep(0)
            withdrawn.unsubscribe()
            await asyncio.to_thread(net.restart, "B1")
            subscription = await asking
            with pytest.raises(InputError):
                await refused
            await (await client.advertise("a > 0")).publish({"a": 1})
            assert await take(subscription, 1) == [1]

    with network() as net:
        run(main(net))


def test_the_next_of_the_list_takes_over_when_a_broker_is_lost() -> None:
    async def main(net: InMemoryNetwork) -> None:
        urls = ["memory://nowhere/B0", net.url("B1"), net.url("B3")]
        async with (
            connect(urls, failover_patience_s=0) as client,
            net.connect("B3") as writer,
        ):
            assert client.broker == "B1"
            subscription = await client.subscribe("a >= 0")
            publisher = await writer.advertise("a >= 0")
            await asyncio.to_thread(net.kill, "B1")
            await until(lambda: client.broker == "B3")
            await subscription.ready(wait="reachable")
            await publisher.publish({"a": 1})
            assert await take(subscription, 1) == [1]
            await asyncio.to_thread(net.restart, "B1")
            await subscription.ready()
            await asyncio.to_thread(net.kill, "B3")
            await until(lambda: client.broker == "B1" and client.state is State.CONNECTED)

    with network(3) as net:
        run(main(net))


def test_of_two_clients_of_one_name_the_first_is_told_that_it_is_not_wanted() -> None:
    async def main(net: InMemoryNetwork) -> None:
        first = await net.connect(name="twin")
        subscription = await first.subscribe("a > 0")
        async with net.connect(name="twin") as second:
            with pytest.raises(ConnectionFailed, match="another client called twin"):
                await subscription.get(timeout=30)
            with pytest.raises(ConnectionFailed, match="another client called twin"):
                await first.subscribe("b > 0")
            await second.subscribe("a > 0")
            assert first.state is State.CLOSED and second.state is State.CONNECTED
        await first.close()

    with network() as net:
        run(main(net))


def test_an_error_inside_is_told_to_everybody_who_waits() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect() as client:
            subscription = await client.subscribe("a > 0")
            reading = asyncio.create_task(subscription.get())
            iterating = asyncio.create_task(anext(subscription))
            await asyncio.sleep(0)
            client._live.session.homes = None  # type: ignore[assignment]  # what no caller can do
            client._live.driver._tick()
            with pytest.raises(BugError, match="error of its own"):
                await reading
            with pytest.raises(BugError, match="error of its own"):
                await iterating
            with pytest.raises(BugError):
                await client.subscribe("b > 0")
            assert client.state is State.CLOSED

    with network() as net:
        run(main(net))


# -- moves --------------------------------------------------------------------------------------------


def test_a_move_loses_and_doubles_nothing() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect("B1") as reader, net.connect("B2") as writer:
            publisher = await writer.advertise("a >= 0")
            subscription = await reader.subscribe("a >= 0")

            async def publish() -> None:
                for n in range(3000):
                    await publisher.wait_credit()
                    publisher.publish_nowait({"a": n})
                    if n % 100 == 0:
                        await asyncio.sleep(0)

            publishing = asyncio.create_task(publish())
            for broker in ("B3", "B1", "B2"):
                await reader.move_to(net.url(broker))
                assert (reader.broker, reader.state) == (broker, State.CONNECTED)
                assert reader.gaps == 0
            await writer.move_to(net.url("B1"))
            await publishing
            assert await take(subscription, 3000) == list(range(3000))

    with network(3) as net:
        run(main(net))


def test_a_move_to_nowhere_fails_and_changes_nothing() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with pair(net, "B1", "B2") as (publisher, subscription):
            async with net.connect() as client:
                with pytest.raises(MoveFailed, match="nobody listens there"):
                    await client.move_to("memory://nowhere/B9", timeout=0.1)
                assert (client.broker, client.state) == ("B1", State.CONNECTED)
                with pytest.raises(InputError, match="already"):
                    await client.move_to(net.url("B1"))
                await client.move_to(net.url("B2"))
            await publisher.publish({"a": 1})
            assert await take(subscription, 1) == [1]

    with network(2) as net:
        run(main(net))


# -- readers that are too slow ------------------------------------------------------------------------

SMALL = {"window_bytes": 8_000, "queue_bytes_max": 16_000}


def test_a_slow_reader_is_told_exactly_how_many_it_missed() -> None:
    async def main(net: InMemoryNetwork) -> None:
        told: list[Any] = []
        options = {"backlog_bytes_max": 20_000, "on_missed": told.append}
        async with pair(net, **options) as (publisher, subscription):
            for n in range(1000):
                await publisher.publish({"a": n}, bytes(500))
            held = subscription.unread
            assert held * 1000 < 100_000, "what waits here is bounded"
            seen: list[Any] = []
            while len(seen) + subscription.missed < 1000:
                seen += await take(subscription, 1)
            assert seen == sorted(set(seen))
            await until(lambda: sum(told) == subscription.missed)
            assert subscription.missed == 1000 - len(seen) > 500
            late = subscription.missed
            await publisher.publish({"a": 1000})
            assert await take(subscription, 1) == [1000]
            assert subscription.missed == late

    with network(client_link=SMALL) as net:
        run(main(net))


def test_publishing_while_reading_does_not_wait_for_itself() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect(backlog_bytes_max=5_000) as client:
            echo = await client.advertise("b >= 0")
            replies = await client.subscribe("b >= 0")
            async with pair(net, backlog_bytes_max=1) as (publisher, _unread):
                questions = await client.subscribe("a >= 0")
                for n in range(200):
                    await publisher.publish({"a": n}, bytes(500))
                answered = 0
                async for event in questions:
                    await echo.publish({"b": event["a"]}, bytes(500))
                    answered += 1
                    if answered + client.missed >= 200 and not questions.unread:
                        break
                assert answered > 10
            assert echo.confirmed == answered
            assert replies.unread

    with network(client_link=SMALL) as net:
        run(main(net))


def test_asking_for_more_while_reading_does_not_wait_for_itself() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with pair(net, backlog_bytes_max=20_000) as (publisher, subscription):
            for n in range(60):
                await publisher.publish({"a": n}, bytes(500))
            live = subscription._live
            await until(lambda: live.session.homes.holding)
            await subscription.ready()  # its fence comes behind what nobody has read
            await live.move_to(net.url("B2"), PATIENCE_S)
            assert live.session.homes.holding, "once it is there, the rest may wait again"
            seen: list[Any] = []
            while len(seen) + subscription.missed < 60:
                seen += await take(subscription, 1)
            assert seen == sorted(seen)

    with network(2, client_link=SMALL | {"queue_bytes_max": 60_000}) as net:
        run(main(net))


def test_what_is_read_makes_room_again() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with pair(net, backlog_bytes_max=20_000) as (publisher, subscription):
            live = subscription._live
            for n in range(50):
                await publisher.publish({"a": n}, bytes(500))
            await until(lambda: live.session.homes.holding)
            assert await take(subscription, 50) == list(range(50))
            assert not live.session.homes.holding
            assert (live.backlog.bytes, subscription.missed) == (0, 0)
            publisher.publish_nowait({"a": 50}, bytes(500))
            assert await take(subscription, 1) == [50]
            subscription.unsubscribe()
            assert live.backlog.bytes == 0

    with network() as net:
        run(main(net))
