"""What a program is told at once of its own mistakes, and on the way by callbacks and the log."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest

from runnel.client.aio import connect
from runnel.client.effects import Gap, MissedSome
from runnel.errors import ConnectionFailed, InputError
from runnel.language import parse
from runnel.testing.network import InMemoryNetwork
from support.aio import network, run, until


def test_wrong_types_are_told_where_they_are_passed() -> None:
    async def main(net: InMemoryNetwork) -> None:
        async with net.connect() as client:
            publisher = await client.advertise("a >= 0")
            wrong: Any
            for wrong in (None, 5, b"a > 0", ["a > 0"]):
                for call in (client.subscribe, client.advertise):
                    with pytest.raises(InputError, match="a filter is text, or what"):
                        await call(wrong)
            for wrong in ("text", None, 5):
                with pytest.raises(InputError, match=r"a payload is bytes, not (str|NoneType|int)"):
                    await publisher.publish({"a": 1}, wrong)
            for wrong in ("a", None, [("a", 1)]):
                with pytest.raises(InputError, match="an event is a mapping"):
                    await publisher.publish(wrong)
            wrong = 7
            with pytest.raises(InputError, match="name is text, not 7"):
                await client.advertise("a >= 0", name=wrong)
            assert publisher.published == 0
            assert list(client._live.publishers.values()) == [publisher]
            assert not client._live.subscriptions
            with pytest.raises(InputError, match="a broker's address is text"):
                await client.move_to(wrong)
            with pytest.raises(InputError, match="events are what one can iterate over"):
                await publisher.publish_all(wrong)
            wrong = "5"
            with pytest.raises(InputError, match="a timeout is a number of seconds"):
                await client.subscribe("a = 1", timeout=wrong)
            event = await publisher.publish({"a": 1}, bytearray(b"x"))  # type: ignore[arg-type]
            assert event.payload == b"x"

    with network() as net:
        run(main(net))


def test_wrong_arguments_of_connect_are_told_at_once() -> None:
    wrong: Any
    for wrong in (None, 7, [7], b"runnel://localhost"):
        with pytest.raises(InputError, match="a broker's address is text"):
            connect(wrong)
    wrong = 7
    with pytest.raises(InputError, match="a name is text, not 7"):
        connect("localhost", name=wrong)
    for wrong in (-1, float("nan")):
        with pytest.raises(InputError, match="failover_patience_s"):
            connect("localhost", failover_patience_s=wrong)
    for wrong in ("5", -1, float("nan")):
        with pytest.raises(InputError, match="a timeout is a number of seconds"):
            connect("localhost", timeout=wrong)
    wrong = "print"
    with pytest.raises(InputError, match="on_gap is a function, not 'print'"):
        connect("localhost", on_gap=wrong)


def test_connections_that_come_and_go_are_told() -> None:
    told: list[str] = []

    async def gone(reason: str) -> None:
        await asyncio.sleep(0)
        told.append("gone")
        assert reason

    async def main(net: InMemoryNetwork) -> None:
        async with net.connect(on_connected=told.append, on_disconnected=gone) as client:
            await until(lambda: told == ["B1"])
            await asyncio.to_thread(net.break_connections, "B1")
            await until(lambda: told == ["B1", "gone", "B1"])
            await client.move_to(net.url("B2"))
            await until(lambda: told == ["B1", "gone", "B1", "B2"])
        assert len(told) == 4, "whoever closes knows it"

    with network(2) as net:
        run(main(net))


def test_the_log_has_what_happens_to_a_client(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="runnel.client")

    async def main(net: InMemoryNetwork) -> None:
        async with net.connect(name="alice") as client:
            await client.subscribe(parse("a > 5 AND a < 3"))
            await client.subscribe(" ")
            await asyncio.to_thread(net.kill, "B1")
            await until(lambda: "lost the connection" in caplog.text)
            await asyncio.to_thread(net.restart, "B1")
            await until(lambda: client.gaps)

    with network() as net:
        run(main(net))
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert any(level == "INFO" and "alice: connected to B1" in text for level, text in said)
    warnings = [text for level, text in said if level == "WARNING"]
    assert "no event can ever match" in warnings[0]
    assert "the filter is empty" in warnings[1]
    assert "alice: events may be missing" in warnings[2]


@contextmanager
def stranger(greeting: bytes) -> Iterator[int]:
    """A server of another protocol: what it says to whoever comes; its port."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.recv(1)
                connection.sendall(greeting)

    thread = Thread(target=serve)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


@pytest.mark.parametrize(
    "greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"\0" * 64]
)
def test_a_server_that_is_no_broker_is_named_as_such(greeting: bytes) -> None:
    async def main(port: int) -> None:
        expected = f"127.0.0.1:{port}: it answered, but does not speak Runnel"
        with pytest.raises(ConnectionFailed, match=expected):
            async with connect(f"127.0.0.1:{port}", timeout=0.5):
                pass

    with stranger(greeting) as port:
        run(main(port))


def test_a_server_that_says_nothing_is_named_as_such() -> None:
    async def main(port: int) -> None:
        expected = f"127.0.0.1:{port}: it took the connection, but says nothing: is it a Runnel"
        with pytest.raises(ConnectionFailed, match=expected):
            async with connect(f"127.0.0.1:{port}", timeout=0.5):
                pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        run(main(server.getsockname()[1]))


def test_what_is_to_be_awaited_is_awaited_as_soon_as_it_happens() -> None:
    """Nobody reads, and nobody asks how much was missed."""
    told: list[object] = []

    async def missed(count: int) -> None:
        await asyncio.sleep(0)
        told.append(count)

    async def gap(found: Gap) -> None:
        await asyncio.sleep(0)
        told.append("begun" if found.is_open else "over")

    async def main(net: InMemoryNetwork) -> None:
        async with net.connect(on_missed=missed, on_gap=gap) as client:
            client._live.handle_effect(MissedSome(3))
            await until(lambda: told == [3])
            await asyncio.to_thread(net.kill, "B1")
            await asyncio.to_thread(net.restart, "B1")
            await until(lambda: told == [3, "begun", "over"])

    with network() as net:
        run(main(net))
