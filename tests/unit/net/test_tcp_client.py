"""A client over real TCP connections on one loop: brokers that answer, and peers that do not."""

import asyncio
import socket
from contextlib import asynccontextmanager
from time import monotonic_ns

import pytest

from aio import PATIENCE_S, run, take
from runnel.client.aio import State, connect
from runnel.errors import ConnectionFailed, InputError
from runnel.net.addresses import parse_address
from runnel.net.driver import Driver
from runnel.net.tcp import TcpDialler, listen
from runnel.node.compose import make_broker, new_incarnation
from runnel.node.config import read_config


@asynccontextmanager
async def broker(name="B1"):
    """A broker on this loop that listens on a free port; its address."""
    machine = make_broker(read_config({"name": name}), new_incarnation())
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
async def peer(answer):
    """Something that listens but is no broker; its address."""
    writers = []

    async def accepted(reader, writer):
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


def free_port():
    """A port at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


async def hang_up(reader, writer):
    writer.close()


async def talk_nonsense(reader, writer):
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def say_nothing(reader, writer):
    await reader.read(100)


def test_events_arrive_over_tcp():
    async def main():
        async with broker() as url, connect(url) as client:
            subscription = await client.subscribe("a >= 0")
            publisher = await client.advertise("a >= 0")
            for n in range(2000):
                await publisher.wait_credit()
                publisher.publish_nowait({"a": n}, bytes(300))
            assert await take(subscription, 2000) == list(range(2000))
            assert client.broker == "B1"

    run(main())


def test_a_large_payload_passes():
    async def main():
        async with broker() as url, connect(url) as client:
            subscription = await client.subscribe("a >= 0")
            publisher = await client.advertise("a >= 0")
            payload = bytes(range(256)) * 4_000
            await publisher.publish({"a": 1}, payload)
            assert (await subscription.get(PATIENCE_S)).payload == payload

    run(main())


@pytest.mark.parametrize("answer", [hang_up, talk_nonsense, say_nothing])
def test_a_peer_that_is_no_broker_is_passed_over(answer):
    async def main():
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
        (say_nothing, "no answer yet"),
    ],
)
def test_what_is_wrong_with_an_address_is_told(answer, reason):
    async def main():
        async with peer(answer) as wrong:
            refused = f"runnel://127.0.0.1:{free_port()}"
            with pytest.raises(ConnectionFailed, match=f"{wrong}: .*({reason})") as failed:
                await connect([refused, wrong], timeout=0.3)
            assert f"{refused}: Connection refused" in str(failed.value)

    run(main())


def test_a_client_that_is_cancelled_while_it_connects_leaves_nothing():
    async def main():
        async with peer(say_nothing) as silent:
            client = connect(silent)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client
            assert client.state is State.CLOSED

    run(main())


def test_the_same_broker_under_another_name_is_no_place_to_move_to():
    async def main():
        async with broker() as url, connect(url) as client:
            subscription = await client.subscribe("a >= 0")
            publisher = await client.advertise("a >= 0")
            with pytest.raises(InputError, match="already"):
                await client.move_to(url.replace("127.0.0.1", "localhost"), timeout=1)
            await publisher.publish({"a": 1})
            assert await take(subscription, 1) == [1]

    run(main())


def test_a_client_moves_over_tcp():
    async def main():
        async with broker("B1") as one, broker("B2") as two, connect(one) as client:
            subscription = await client.subscribe("a >= 0")
            publisher = await client.advertise("a >= 0")
            await client.move_to(two)
            assert (client.broker, client.address) == ("B2", two)
            await publisher.publish({"a": 1})
            assert await take(subscription, 1) == [1]

    run(main())
