"""Dialling and leaving: answers that come late, several who close at once, and who is cancelled meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from runnel.client import aio
from runnel.client.aio import Client, State, connect
from runnel.client.effects import Gap
from runnel.client.move import Move
from runnel.errors import ClientClosed, InputError, MoveFailed, PublicationInDoubt
from runnel.net.dialling import AnyDialler
from runnel.net.driver import Driver
from runnel.testing.network import InMemoryNetwork
from support.aio import network, run, take, until


class SlowDialler(AnyDialler):
    """Dials some addresses only when it is told to."""

    slow: set[str]
    asked: list[tuple[AnyDialler, Driver, str]]

    def dial(self, driver: Driver, peer: str, address: str = "") -> None:
        if peer in self.slow:
            self.asked.append((self, driver, peer))
        else:
            super().dial(driver, peer, address)

    @classmethod
    def go_on(cls, *peers: Any) -> None:
        """Dial these, or all, after all."""
        cls.slow = cls.slow - set(peers) if peers else set()
        asked, cls.asked = cls.asked, []
        for dialler, driver, peer in asked:
            dialler.dial(driver, peer)

    @classmethod
    def fail(cls) -> None:
        asked, cls.asked = cls.asked, []
        for _, driver, peer in asked:
            driver.failed(peer, "nobody is there")

    @classmethod
    def is_asked(cls, peer: Any) -> bool:
        return any(peer == asked for *_, asked in cls.asked)


@pytest.fixture
def dialler(monkeypatch: pytest.MonkeyPatch) -> type[SlowDialler]:
    SlowDialler.slow, SlowDialler.asked = set(), []
    monkeypatch.setattr(aio, "AnyDialler", SlowDialler)
    return SlowDialler


async def round_trips(client: Any, count: int = 3) -> None:
    """Whatever was dialled before has been answered, and the answer has been heard."""
    for _ in range(count):
        (await client.subscribe("z > 0")).unsubscribe()


@pytest.mark.parametrize("end", [SlowDialler.go_on, SlowDialler.fail])
def test_a_target_that_answers_after_the_move_was_given_up_changes_nothing(
    dialler: Any, end: Any
) -> None:
    async def main(net: InMemoryNetwork) -> None:
        urls = [net.url("B1"), net.url("B2")]
        async with connect(urls) as client:
            dialler.slow.add(net.url("B3"))
            with pytest.raises(MoveFailed):
                await client.move_to(net.url("B3"), timeout=0.1)
            end()
            await round_trips(client)
            assert (client.broker, client.state, client.gaps) == ("B1", State.CONNECTED, 0)

    with network(3) as net:
        run(main(net))


async def break_and_fail_once(net: InMemoryNetwork, dialler: Any, broker: str) -> None:
    """The connections of a broker break, and the first dial after that comes to nothing."""
    dialler.slow = {net.url(broker)}
    await asyncio.to_thread(net.break_connections, broker)
    await until(lambda: dialler.is_asked(net.url(broker)))
    dialler.slow = set()
    dialler.fail()


@pytest.mark.parametrize("moves", [False, True])
def test_a_home_that_one_dial_did_not_reach_is_dialled_again_and_nothing_is_lost(
    dialler: Any, moves: bool
) -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with (
            connect([net.url("B1"), net.url("B2")]) as client,
            net.connect("B1", name="ahead") as writer,
        ):
            subscription = await client.subscribe("a >= 0")
            publisher = await writer.advertise("a >= 0")
            if moves:
                await client.move_to(net.url("B3"))
            home = client.broker
            await break_and_fail_once(net, dialler, home)
            await publisher.publish_all({"a": a} for a in range(50))
            assert await take(subscription, 50) == list(range(50))
            assert (client.broker, client.gaps) == (home, 0)

    with network(3) as net:
        run(main(net))


def test_patience_ends_and_the_gap_at_another_broker_is_told(dialler: Any) -> None:
    async def main(net: InMemoryNetwork) -> None:
        urls: list[str] = [net.url("B1"), net.url("B2")]
        gaps: list[Gap] = []
        async with connect(urls, failover_patience_s=0.2, on_gap=gaps.append) as client:
            begin = asyncio.get_running_loop().time()
            await asyncio.to_thread(net.kill, "B1")
            await until(lambda: client.broker == "B2" and bool(gaps))
            assert asyncio.get_running_loop().time() - begin >= 0.2
            assert gaps[0].is_open and gaps[0].link.endswith("–B1")
            # As long as B1 is missing, whoever was there cannot be heard.
            await until(lambda: [gap.link for gap in gaps if gap.is_open][1:] == ["B1–B2"])
            await asyncio.to_thread(net.restart, "B1")
            await until(lambda: [gap.link for gap in gaps if not gap.is_open][1:] == ["B1–B2"])
            assert client.gaps == 2

    with network(3) as net:
        run(main(net))


@asynccontextmanager
async def drying(
    net: InMemoryNetwork, dialler: Any
) -> AsyncIterator[tuple[Client, asyncio.Task[None]]]:
    """A client on its way from B1 to B3: B1 is gone for the moment, so the fence does not come."""
    old, new = net.url("B1"), net.url("B3")
    async with connect([old, net.url("B2")]) as client:
        dialler.slow = {old, new}
        moving = asyncio.create_task(client.move_to(new))
        await until(lambda: dialler.is_asked(new))
        await asyncio.to_thread(net.break_connections, "B1")
        await until(lambda: dialler.is_asked(old))
        dialler.go_on(new)
        await until(lambda: client._live.session.move is Move.DRYING)
        yield client, moving


def test_an_old_home_that_answers_after_the_move_is_not_gone_back_to(dialler: Any) -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with drying(net, dialler) as (client, moving):
            client._live.session.mover.old_home_lost()  # as when it is out of reach for too long
            client._live.flush_soon()
            await moving
            dialler.go_on()
            await round_trips(client)
            assert (client.broker, client.state, client.gaps) == ("B3", State.CONNECTED, 1)

    with network(3) as net:
        run(main(net))


def test_a_new_home_that_is_just_dialled_again_when_it_becomes_one_is_reached(dialler: Any) -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with drying(net, dialler) as (client, moving):
            dialler.slow.add(net.url("B3"))
            await asyncio.to_thread(net.break_connections, "B3")
            await until(lambda: dialler.is_asked(net.url("B3")))
            client._live.session.mover.old_home_lost()
            client._live.flush_soon()
            await moving
            assert client.state is State.RECONNECTING
            dialler.go_on()
            await round_trips(client)
            assert (client.broker, client.state) == ("B3", State.CONNECTED)

    with network(3) as net:
        run(main(net))


def test_several_may_close_a_client_at_once_and_one_may_be_cancelled() -> None:
    async def main(net: InMemoryNetwork) -> None:
        client = await net.connect()
        closing = [asyncio.create_task(client.close()) for _ in range(3)]
        await asyncio.sleep(0)
        closing[0].cancel()
        results = await asyncio.gather(*closing, return_exceptions=True)
        assert [type(result) for result in results] == [
            asyncio.CancelledError,
            type(None),
            type(None),
        ]
        with pytest.raises(ClientClosed):
            await client.subscribe("a > 0")
        await asyncio.sleep(0)  # the task that the cancelled one left ends by itself

    with network() as net:
        run(main(net))


def test_a_doubt_that_meets_a_cancellation_is_told_by_flush() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect() as client:
            publisher = await client.advertise("a > 0")
            publishing = asyncio.create_task(publisher.publish({"a": 1}))
            await asyncio.sleep(0)
            publisher.settle(1, certain=False)
            publishing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await publishing
            with pytest.raises(PublicationInDoubt):
                await publisher.flush()
            client._live._runs.clear()  # what the broker confirms now was settled above

    with network() as net:
        run(main(net))


def test_a_move_that_nobody_waits_for_is_not_held_up_by_what_nobody_reads(dialler: Any) -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with (
            net.connect("B1", backlog_bytes_max=2_000) as client,
            net.connect("B2") as writer,
        ):
            subscription = await client.subscribe("a >= 0")
            publisher = await writer.advertise("a >= 0")
            echo = await client.advertise("b >= 0")
            dialler.slow.add(net.url("B2"))
            moving = asyncio.create_task(client.move_to(net.url("B2")))
            await until(lambda: dialler.is_asked(net.url("B2")))
            moving.cancel()
            for n in range(30):
                await publisher.publish({"a": n}, bytes(500))
            dialler.go_on()
            await until(lambda: client._live.session.move is not Move.DIALLING)
            await echo.publish({"b": 1})  # by who should read, and has not
            await until(lambda: client.broker == "B2")
            assert await take(subscription, 30) == list(range(30))

    with network(2, client_link={"window_bytes": 8_000, "queue_bytes_max": 60_000}) as net:
        run(main(net))


def test_a_name_that_nobody_can_look_up_is_no_address() -> None:
    with pytest.raises(InputError, match="no host name"):
        connect("runnel://broker..example:7001")
