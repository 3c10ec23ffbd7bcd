"""A client over real TCP connections on one loop: brokers that answer, and peers that do not."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic_ns
from typing import Any

import pytest

from runnel.broker.events import Disconnected
from runnel.client.aio import State, connect
from runnel.client.effects import PingsAsked
from runnel.errors import ConnectionFailed, InputError, PeerError
from runnel.net.addresses import Address, parse_address
from runnel.net.dialling import measure_round_trip
from runnel.net.driver import Driver
from runnel.net.tcp import TcpDialler, listen
from runnel.node.config import read_config
from runnel.node.spec import make_node_broker, new_incarnation
from runnel.wire import PROTOCOL, Hello, Pinged, Reached, Stage, encode
from support.aio import PATIENCE_S, run, take, until


@asynccontextmanager
async def broker(name: str = "B1") -> AsyncIterator[str]:
    """A broker on this loop that listens on a free port; its address."""
    machine = make_node_broker(read_config({"name": name}), new_incarnation())
    driver = Driver(machine, TcpDialler(parse_address), lambda effect: None)
    server = await listen(driver, parse_address("127.0.0.1:0"))
    driver.perform(machine.start(monotonic_ns()))
    try:
        yield f"runnel://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        driver.stop()
        await asyncio.sleep(0)


@asynccontextmanager
async def peer(answer: Any) -> AsyncIterator[str]:
    """Something that listens but is no broker; its address."""
    writers = []

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await answer(reader, writer)

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    try:
        yield f"runnel://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0)


def test_a_round_trip_is_measured_without_a_word() -> None:
    async def main() -> None:
        async with broker() as url:
            assert 0 < await measure_round_trip(url, 3) < PATIENCE_S * 1e9
            async with connect(url) as client:
                assert client.broker == "B1", "the broker is as it was"
        assert await measure_round_trip(f"runnel://127.0.0.1:{free_port()}", 3) == 0

    run(main())


def test_a_client_measures_for_its_broker() -> None:
    async def main() -> None:
        async with broker() as near, broker("B2") as far, connect(near) as client:
            publisher = await client.advertise("a > 0")
            live = publisher.live
            home = live.session.home
            assert home is not None
            sent: list[tuple[int, ...]] = []
            # This broker has asked nothing, and would take an answer for nonsense.
            live.session.answer_pings = lambda asked, times_ns: sent.append(times_ns)  # type: ignore[method-assign]
            nowhere = f"runnel://127.0.0.1:{free_port()}"
            places = tuple(Pinged(f"B{n}", url) for n, url in enumerate((near, far, nowhere), 1))
            live.roaming.handle_effect(live, PingsAsked(home.broker, 7, 1, places, 2))
            await until(lambda: bool(sent))
            ((one, two, three),) = sent
            assert one > 0 and two > 0 and three == 0
            await publisher.publish({"a": 1})

    run(main())


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def talk_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)


def test_events_arrive_over_tcp() -> None:
    async def main() -> None:
        async with broker() as url, connect(url) as client:
            subscription = await client.subscribe("a >= 0")
            publisher = await client.advertise("a >= 0")
            for n in range(2000):
                await publisher.wait_credit()
                publisher.publish_nowait({"a": n}, bytes(300))
            assert await take(subscription, 2000) == list(range(2000))
            assert client.broker == "B1"

    run(main())


def test_a_large_payload_passes() -> None:
    async def main() -> None:
        async with broker() as url, connect(url) as client:
            subscription = await client.subscribe("a >= 0")
            publisher = await client.advertise("a >= 0")
            payload = bytes(range(256)) * 4_000
            await publisher.publish({"a": 1}, payload)
            assert (await subscription.get(PATIENCE_S)).payload == payload

    run(main())


@pytest.mark.parametrize("answer", [hang_up, talk_nonsense, say_nothing])
def test_a_peer_that_is_no_broker_is_passed_over(answer: Any) -> None:
    async def main() -> None:
        async with peer(answer) as wrong, broker() as right:
            refused = f"127.0.0.1:{free_port()}"
            async with connect([refused, wrong, right], timeout=PATIENCE_S) as client:
                assert client.address == right

    run(main())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (hang_up, "without a word"),
        (talk_nonsense, "Runnel|frame|bytes"),
        (say_nothing, "says nothing: is it a Runnel broker"),
    ],
)
def test_what_is_wrong_with_an_address_is_told(answer: Any, reason: str) -> None:
    async def main() -> None:
        async with peer(answer) as wrong:
            refused = f"runnel://127.0.0.1:{free_port()}"
            with pytest.raises(ConnectionFailed, match=f"{wrong}: .*({reason})") as failed:
                await connect([refused, wrong], timeout=0.3)
            assert f"{refused}: Connection refused" in str(failed.value)

    run(main())


def test_a_client_that_is_cancelled_while_it_connects_leaves_nothing() -> None:
    async def main() -> None:
        async with peer(say_nothing) as silent:
            client = connect(silent)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client
            assert client.state is State.CLOSED

    run(main())


def test_the_same_broker_under_another_name_is_no_place_to_move_to() -> None:
    async def main() -> None:
        async with broker() as url, connect(url) as client:
            subscription = await client.subscribe("a >= 0")
            publisher = await client.advertise("a >= 0")
            with pytest.raises(InputError, match="already"):
                await client.move_to(url.replace("127.0.0.1", "localhost"), timeout=1)
            await publisher.publish({"a": 1})
            assert await take(subscription, 1) == [1]

    run(main())


def test_a_client_moves_over_tcp() -> None:
    async def main() -> None:
        async with broker("B1") as one, broker("B2") as two, connect(one) as client:
            subscription = await client.subscribe("a >= 0")
            publisher = await client.advertise("a >= 0")
            await client.move_to(two)
            assert (client.broker, client.address) == ("B2", two)
            await publisher.publish({"a": 1})
            assert await take(subscription, 1) == [1]

    run(main())


def test_a_peer_is_dialled_at_the_address_that_comes_with_it() -> None:
    async def main() -> None:
        failed: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()

        def unknown(name: str) -> Address:
            raise InputError(f"nobody has said where {name} listens")

        class Dialling(Driver):
            def failed(self, peer: str, reason: str = "") -> None:
                failed.set_result((peer, reason))

        machine = make_node_broker(read_config({"name": "B0"}), new_incarnation())
        driver = Dialling(machine, TcpDialler(unknown), lambda effect: None)
        async with broker("B1") as address:
            machine.dial("B1", address)
            driver.perform(machine.start(monotonic_ns()))
            async with asyncio.timeout(PATIENCE_S):
                while "B1" not in machine.links or not machine.links["B1"].established:
                    await asyncio.sleep(0)
                machine.dial("B2")
                driver.perform(machine.handle(Disconnected(0), monotonic_ns()))
                assert await failed == ("B2", "nobody has said where B2 listens")
        driver.stop()

    run(main())


@pytest.mark.parametrize(
    "nonsense", [b"\x00\x00\x00\x02\xee\x01", encode(Reached(1, Stage.NEW, 1)), b"\xff" * 9]
)
def test_a_broker_that_talks_nonsense_ends_the_client_once_and_for_all(nonsense: bytes) -> None:
    greeted = 0

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal greeted
        greeted += 1
        await reader.read(100)
        writer.write(encode(Hello(PROTOCOL, "broker", "B1", 5, 0, 0, 0, 9)) + nonsense)

    async def main() -> None:
        async with peer(greet) as url:
            with pytest.raises(PeerError, match="sent what a client cannot take"):
                async with connect(url, timeout=PATIENCE_S) as client:
                    await client.subscribe("a >= 0")
            assert greeted == 1

    run(main())
