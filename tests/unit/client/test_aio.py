"""The asyncio client: subscribing, publishing, reading, ending; on a network in memory."""

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runnel.client.aio import State, connect
from runnel.errors import (
    AdvertisementRefused,
    ClientClosed,
    ConnectionFailed,
    FilterSyntaxError,
    InputError,
    NoCredit,
    PublicationInDoubt,
    SubscriptionRefused,
)
from runnel.language import Filter, Op, Predicate, parse
from runnel.testing.network import InMemoryNetwork
from support.aio import PATIENCE_S, network, pair, run, take, until


def test_an_event_arrives_as_it_was_published() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect("B1", name="nasdaq") as a, net.connect("B3") as b:
            quotes = await b.subscribe("[symbol,=,'YHOO']")
            publisher = await a.advertise("symbol = 'YHOO'")
            sent = await publisher.publish({"symbol": "YHOO", "close": 18.37, "no": None}, b"chart")
            event = await quotes.get(PATIENCE_S)
        assert event == sent and hash(event) == hash(sent) and event != "YHOO"
        assert event.attributes == {"symbol": "YHOO", "close": 18.37}
        assert (event["close"], event.get("no", 1), "no" in event) == (18.37, 1, False)
        assert (event.payload, event.publisher, event.hops) == (b"chart", "nasdaq", 2)
        assert re.fullmatch(r"[0-9a-f]+-1", event.id)
        assert abs(datetime.now(UTC) - event.time) < timedelta(seconds=PATIENCE_S)
        assert event.time_ns // 1000 == (event.time - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(
            microseconds=1
        )
        assert re.fullmatch(r"<Event \w+-1 from nasdaq: \{.*'YHOO'.*\}, 5 bytes>", repr(event))
        with pytest.raises(TypeError):
            event.attributes["close"] = 0  # type: ignore[index]

    with network(3) as net:
        run(main(net))


def test_a_publisher_may_have_a_name_of_its_own() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect(name="desk") as client:
            subscription = await client.subscribe(parse("a > 0"))
            publisher = await client.advertise(parse("a > 0"), name="nasdaq")
            await publisher.publish({"a": 1})
            assert (await subscription.get(PATIENCE_S)).publisher == publisher.name == "nasdaq"

    with network() as net:
        run(main(net))


def test_what_is_published_once_routes_are_ready_arrives_and_in_order() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect("B1") as a, net.connect("B3") as b:
            publisher = await a.advertise("a >= 0", wait="nothing")
            subscription = await b.subscribe("a >= 0", wait="nothing")
            await publisher.ready()
            await subscription.ready()
            await asyncio.gather(*(publisher.publish({"a": n}) for n in range(3000)))
            assert await take(subscription, 3000) == list(range(3000))
            assert (publisher.published, publisher.confirmed, publisher.in_doubt) == (3000, 3000, 0)

    with network(3) as net:
        run(main(net))


def test_mistakes_are_told_at_once_and_leave_nothing_behind() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect() as client:
            with pytest.raises(FilterSyntaxError):
                await client.subscribe("a = = 1")
            publisher = await client.advertise("a > 0")
            for wrong in ({"a": 0}, {"b": 1}):
                with pytest.raises(InputError, match="not what was advertised"):
                    await publisher.publish(wrong)
            with pytest.raises(InputError):
                publisher.publish_nowait({"a": 1, "b": object()})  # type: ignore[dict-item]
            assert publisher.published == 0
            with pytest.raises(InputError, match="opened once"):
                await client

    with network() as net:
        run(main(net))
        with pytest.raises(InputError, match="no address"):
            connect([])
        with pytest.raises(InputError, match="runnel://host:port"):
            connect("http://localhost")
        with pytest.raises(InputError, match="1 to 255 characters"):
            connect("localhost", name="")
        with pytest.raises(InputError, match="not open"):
            connect("localhost").missed  # noqa: B018 - asking is the test


def test_without_waiting_there_is_credit_or_an_error() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with pair(net) as (publisher, subscription):
            assert publisher.credit == 4
            for n in range(4):
                publisher.publish_nowait({"a": n})
            with pytest.raises(NoCredit, match="wait_credit"):
                publisher.publish_nowait({"a": 9})
            await publisher.wait_credit()
            publisher.publish_nowait({"a": 4})
            await publisher.flush()
            assert (publisher.confirmed, publisher.credit) == (5, 4)
            assert await take(subscription, 5) == list(range(5))

    with network(limits={"credit_max": 4, "credit_min": 1}) as net:
        run(main(net))


def test_many_are_published_in_order_up_to_the_first_mistake() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with pair(net) as (publisher, subscription):
            events: list[Any] = [{"a": 0}, ({"a": 1}, b"one"), *({"a": n} for n in range(2, 100))]
            assert await publisher.publish_all(events) == publisher.confirmed == 100
            with pytest.raises(InputError, match="not what was advertised"):
                await publisher.publish_all([{"a": 100}, {"a": -1}, {"a": 101}])
            await publisher.flush()
            assert await take(subscription, 1) == [0]
            assert (await subscription.get(PATIENCE_S)).payload == b"one"
            assert await take(subscription, 99) == list(range(2, 101))

    with network(limits={"credit_max": 4, "credit_min": 1}) as net:
        run(main(net))


def test_publishers_share_credit_and_each_is_confirmed_its_own() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect() as client:
            one, two = await client.advertise("a = 1"), await client.advertise("a = 2")
            await asyncio.gather(
                *(p.publish({"a": n}) for _ in range(20) for n, p in ((1, one), (2, two)))
            )
            assert [one.confirmed, two.confirmed] == [20, 20]
            one.publish_nowait({"a": 1})
            await two.flush()  # it has nothing to wait for
            assert one.confirmed == 20
            await client.flush()
            assert one.confirmed == 21

    with network(limits={"credit_max": 4, "credit_min": 1}) as net:
        run(main(net))


def test_a_flush_is_for_what_came_before_it() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect() as client:
            publishers = [await client.advertise("a >= 0") for _ in range(3)]
            publishing = True

            async def publish_on_and_on(publisher: Any) -> None:
                while publishing:
                    await publisher.publish_all([{"a": 1}] * 3)

            tasks = [asyncio.create_task(publish_on_and_on(p)) for p in publishers]
            for _ in range(20):
                before = [p.published for p in publishers]
                await client.flush()
                assert all(p.confirmed >= n for p, n in zip(publishers, before, strict=True))
            publishing = False
            await asyncio.gather(*tasks)

    with network(limits={"credit_max": 4, "credit_min": 1}) as net:
        run(main(net))


def test_who_waits_for_credit_and_gives_up_takes_nobody_elses() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect() as client:
            publisher = await client.advertise("a >= 0")
            for n in range(4):
                publisher.publish_nowait({"a": n})
            tasks = [asyncio.create_task(publisher.publish({"a": n})) for n in range(4, 40)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert sum(isinstance(d, asyncio.CancelledError) for d in done) == 18
            assert publisher.published == 4 + 18
            await publisher.flush()

    with network(limits={"credit_max": 4, "credit_min": 1}) as net:
        run(main(net))


def test_reading_waits_times_out_and_loses_nothing() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with pair(net) as (publisher, subscription):
            for timeout in (0, 0.01):
                with pytest.raises(TimeoutError):
                    await subscription.get(timeout)
            reading = asyncio.create_task(subscription.get())
            await asyncio.sleep(0)
            reading.cancel()
            await publisher.publish({"a": 1})
            await publisher.publish({"a": 2})
            assert await take(subscription, 2) == [1, 2]
            assert (subscription.unread, subscription.missed) == (0, 0)

    with network() as net:
        run(main(net))


def test_several_tasks_may_read_and_each_event_goes_to_one() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with pair(net) as (publisher, subscription):
            seen = []

            async def read() -> None:
                async for event in subscription:
                    seen.append(event["a"])
                    await asyncio.sleep(0)

            readers = [asyncio.create_task(read()) for _ in range(3)]
            impatient = asyncio.create_task(subscription.get())
            await asyncio.sleep(0)
            for n in range(500):
                await publisher.publish({"a": n})
                if n == 250:
                    impatient.cancel()
            await until(lambda: len(seen) + (impatient.done() and not impatient.cancelled()) == 500)
            subscription.unsubscribe()
            await asyncio.gather(*readers)
            got = seen if impatient.cancelled() else [*seen, impatient.result()["a"]]
            assert sorted(got) == list(range(500))

    with network() as net:
        run(main(net))


def test_a_reader_with_much_to_read_lets_others_have_their_turn() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with pair(net) as (publisher, subscription):
            for n in range(1000):
                await publisher.publish({"a": n})
            await until(lambda: subscription.unread == 1000)
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            task = asyncio.create_task(other())
            for n in range(1000):
                assert (await anext(subscription))["a"] == n
            task.cancel()
            assert turns >= 10

    with network() as net:
        run(main(net))


def test_unsubscribing_ends_the_iteration_and_drops_what_is_unread() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with pair(net) as (publisher, subscription):
            await publisher.publish({"a": 1})
            await publisher.publish({"a": 2})
            seen = []
            async for event in subscription:
                seen.append(event["a"])
                subscription.unsubscribe()
                subscription.unsubscribe()
            assert (seen, subscription.unread, subscription.is_over) == ([1], 0, True)
            with pytest.raises(InputError, match="subscribe again"):
                await subscription.get()
            with pytest.raises(InputError, match="subscribe again"):
                await subscription.ready()
            await publisher.publish({"a": 3})

    with network() as net:
        run(main(net))


def test_a_subscription_and_a_publisher_end_with_their_block() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect() as client:
            async with await client.subscribe("a > 0") as subscription:
                async with await client.advertise("a > 0") as publisher:
                    publisher.publish_nowait({"a": 1})
                assert publisher.confirmed == 1, "withdrawing flushes"
                assert (await subscription.get(PATIENCE_S))["a"] == 1
            with pytest.raises(InputError, match="advertise again"):
                publisher.publish_nowait({"a": 1})
            with pytest.raises(InputError, match="advertise again"):
                await publisher.publish({"a": 1})
            assert [e async for e in subscription] == []

    with network() as net:
        run(main(net))


def test_a_subscription_that_is_not_waited_for_is_not_left_behind() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect() as client:
            for ask in (client.subscribe, client.advertise):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0):
                        await ask("a > 0")
            live = client._live
            assert not live.session.subscriptions and not live.session.publishers

    with network() as net:
        run(main(net))


def test_closing_confirms_what_was_published_and_ends_every_wait() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect("B2") as reader:
            subscription = await reader.subscribe("a >= 0")
            async with net.connect("B1") as writer:
                publisher = await writer.advertise("a >= 0")
                for n in range(500):
                    publisher.publish_nowait({"a": n})
                never = asyncio.create_task((await writer.subscribe("b = 1")).get())
                await asyncio.sleep(0)
            assert (publisher.confirmed, writer.state) == (500, State.CLOSED)
            with pytest.raises(ClientClosed):
                await never
            with pytest.raises(ClientClosed):
                publisher.publish_nowait({"a": 1})
            with pytest.raises(ClientClosed):
                await writer.subscribe("a > 1")
            await writer.close()
            assert await take(subscription, 500) == list(range(500))

    with network(2) as net:
        run(main(net))


def test_what_has_arrived_may_be_read_after_closing() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect() as client:
            subscription = await client.subscribe("a >= 0")
            publisher = await client.advertise("a >= 0")
            await publisher.publish({"a": 1})
            await until(lambda: subscription.unread)
        assert [event["a"] async for event in subscription] == [1]

    with network() as net:
        run(main(net))


def test_an_error_in_the_block_is_the_one_that_is_raised() -> None:
    async def fails(net: InMemoryNetwork) -> None:
        async with net.connect() as client:
            publisher = await client.advertise("a > 0")
            publisher.publish_nowait({"a": 1})
            net.kill("B1")
            raise ZeroDivisionError

    async def main(net: InMemoryNetwork) -> None:
        with pytest.raises(ZeroDivisionError):
            await fails(net)

    with network() as net:
        run(main(net))


def test_closing_without_a_broker_says_what_is_in_doubt() -> None:
    async def main(net: InMemoryNetwork) -> None:
        client = await net.connect(close_timeout=0.05)
        publisher = await client.advertise("a > 0")
        net.kill("B1")
        for _ in range(3):
            publisher.publish_nowait({"a": 1})
        with pytest.raises(PublicationInDoubt, match="3 publications"):
            await client.close()
        assert client.state is State.CLOSED

    with network() as net:
        run(main(net))


def test_a_broker_that_is_not_there_is_named_with_the_reason() -> None:
    async def main() -> None:
        gone, away = "memory://nowhere/B1", "memory://nowhere/B2"
        started = time.monotonic()
        with pytest.raises(ConnectionFailed) as failed:
            await connect([gone, away], timeout=0.3)
        assert 0.25 < time.monotonic() - started < PATIENCE_S / 2
        for url in (gone, away):
            assert f"{url}: nobody listens there" in str(failed.value)

    run(main())


def test_what_a_client_says_of_itself() -> None:
    async def main(net: InMemoryNetwork) -> None:
        client = net.connect("B2", name="alice")
        assert (client.state, repr(client)) == (State.NEW, "<Client alice, new>")
        async with client:
            assert (client.broker, client.address) == ("B2", net.url("B2"))
            assert repr(client) == "<Client alice, connected at B2>"
            subscription = await client.subscribe("a > 0")
            assert re.fullmatch(r"<Subscription .*a,>,0.*, 0 unread>", repr(subscription))
            publisher = await client.advertise("a > 0")
            assert re.fullmatch(r"<Publisher alice: .*, 0 published, 0 confirmed>", repr(publisher))
        assert repr(client) == "<Client alice, closed>"

    with network(2) as net:
        run(main(net))


TOO_LARGE = Filter([Predicate(f"a{n}", Op.GT, n) for n in range(2_000)])


def test_what_a_broker_refuses_hurts_only_itself() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with pair(net) as (publisher, subscription), net.connect() as client:
            good = await client.subscribe("a >= 0")
            with pytest.raises(SubscriptionRefused, match="1,000 predicates"):
                await client.subscribe(TOO_LARGE)
            with pytest.raises(AdvertisementRefused, match="1,000 predicates"):
                await client.advertise(TOO_LARGE)
            later = await client.subscribe(TOO_LARGE, wait="nothing")
            with pytest.raises(SubscriptionRefused):
                await later.get(timeout=PATIENCE_S)
            with pytest.raises(SubscriptionRefused):
                async for _ in later:
                    pass
            with pytest.raises(SubscriptionRefused):
                await later.ready()
            refused = await client.advertise(TOO_LARGE, wait="nothing")
            await good.ready()
            with pytest.raises(AdvertisementRefused):
                await refused.publish({"a": 1})
            await publisher.publish({"a": 7})
            assert await take(good, 1) == await take(subscription, 1) == [7]
            assert (client.state, client.gaps) == (State.CONNECTED, 0)

    with network() as net:
        run(main(net))
