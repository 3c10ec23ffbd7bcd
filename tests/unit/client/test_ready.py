"""What a program is told of readiness when a part of the network cannot be reached."""

import asyncio
from typing import Any

import pytest

from runnel.errors import InputError, NetworkError, RoutesIncomplete
from runnel.testing.network import InMemoryNetwork
from support.aio import PATIENCE_S, network, run, take

QUICK = {"heartbeat_s": 0.1}


def test_ready_is_not_told_while_a_broker_is_away() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect("B1") as reader, net.connect("B3") as writer:
            await asyncio.to_thread(net.kill, "B2")
            with pytest.raises(RoutesIncomplete, match="B1–B2 is missing") as raised:
                await reader.subscribe("a >= 0", timeout=0.5)
            assert raised.value.missing == ("B1–B2",)
            assert isinstance(raised.value, NetworkError) and isinstance(raised.value, TimeoutError)
            with pytest.raises(RoutesIncomplete, match="B2–B3 is missing"):
                await writer.advertise("a >= 0", timeout=0.5)
            assert not reader._live.subscriptions and not writer._live.publishers
            subscribing = asyncio.create_task(reader.subscribe("a >= 0", timeout=PATIENCE_S))
            publisher = await writer.advertise("a >= 0", wait="reachable")
            assert publisher.missing == ("B2–B3",)
            assert not subscribing.done()
            await asyncio.to_thread(net.restart, "B2")
            subscription = await subscribing
            await publisher.ready()
            assert subscription.missing == publisher.missing == ()
            await publisher.publish_all({"a": a} for a in range(50))
            assert await take(subscription, 50) == list(range(50))

    with network(3, link=QUICK) as net:
        run(main(net))


def test_a_link_is_missed_from_afar() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect("B1") as reader:
            await asyncio.to_thread(net.kill, "B5")
            missing: tuple[str, ...] = ()
            while not missing:  # it is down for two heartbeats before it counts as lost
                subscription = await reader.subscribe("a >= 0", wait="reachable")
                missing = subscription.missing
            assert missing == ("B4–B5",)
            waiting = asyncio.create_task(subscription.ready(timeout=PATIENCE_S))
            await asyncio.to_thread(net.restart, "B5")
            await waiting
            async with net.connect("B5") as writer:
                await (await writer.advertise("a >= 0")).publish({"a": 1})
                assert await take(subscription, 1) == [1]

    with network(5, link=QUICK) as net:
        run(main(net))


def test_a_publisher_behind_a_link_that_is_down_is_not_waited_for_long() -> None:
    """Its advertisement is still known, so the barrier goes there; the link may come back for 10 s more."""

    async def main(net: InMemoryNetwork) -> None:
        async with net.connect("B1") as reader, net.connect("B4") as writer:
            await writer.advertise("a >= 0")
            await asyncio.to_thread(net.kill, "B3")
            async with asyncio.timeout(5):
                subscription = await reader.subscribe("a >= 0", wait="reachable")
            assert subscription.missing == ("B2–B3",)

    with network(4, link=QUICK) as net:
        run(main(net))


def test_without_a_connection_it_says_so() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect("B1") as reader:
            await asyncio.to_thread(net.kill, "B1")
            with pytest.raises(
                RoutesIncomplete, match=r"has not confirmed the routes within 0\.2 s"
            ):
                await reader.subscribe("a >= 0", timeout=0.2)

    with network() as net:
        run(main(net))


def test_what_to_wait_for_is_one_of_three() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect("B1") as client:
            wrong: Any = "completely"
            for call in (client.subscribe, client.advertise):
                with pytest.raises(InputError, match="'complete', 'reachable', 'nothing'"):
                    await call("a >= 0", wait=wrong)
            assert not client._live.subscriptions and not client._live.publishers

    with network() as net:
        run(main(net))
