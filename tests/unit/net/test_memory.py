"""Connections in memory: in order, across loops, broken and closed as TCP does it."""

import asyncio
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from runnel.broker.effects import Close, Connect, SendMany
from runnel.broker.events import Connected, Disconnected, FramesArrived
from runnel.net.driver import Driver
from runnel.net.memory import MemoryDialler, MemoryListener

PATIENCE_S = 10


class EventLog:
    """A machine that does nothing but remember, and tells when it has seen something."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.changed = asyncio.Event()

    def handle(self, event: Any, now: int) -> list[Any]:
        self.seen.append(event)
        self.changed.set()
        return []

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self.changed.clear()
                await self.changed.wait()

    def bytes(self) -> bytes:
        return b"".join(e.chunk for e in self.seen if isinstance(e, FramesArrived))


def make() -> tuple[EventLog, Driver]:
    """A recorder and its driver."""
    recorder = EventLog()
    return recorder, Driver(recorder, MemoryDialler(), lambda effect: None)


def listening_at(url: str) -> tuple[EventLog, Driver, MemoryListener]:
    """The same, and what listens for it."""
    recorder, driver = make()
    return recorder, driver, MemoryListener(url, driver)


def test_both_sides_hear_of_a_connection_and_of_its_end() -> None:
    async def main() -> None:
        server, server_driver, listener = listening_at("memory://test/one")
        client, client_driver = make()
        client_driver.perform([Connect("memory://test/one")])
        assert client.seen == [], "never at once"
        await client.until(lambda: client.seen)
        assert client.seen == [Connected(1, "memory://test/one")]
        assert server.seen == [Connected(1)]
        client_driver.perform([SendMany(1, [b"a", b"b"]), SendMany(1, [b"c"]), Close(1, "done")])
        client_driver.perform([SendMany(1, [b"too late"])])
        await server.until(lambda: Disconnected(1) in server.seen)
        assert server.bytes() == b"abc"
        assert Disconnected(1) not in client.seen, "who closes is not told"
        listener.close()
        client_driver.perform([Connect("memory://test/one")])
        await client.until(lambda: client.seen[1:])
        assert client.seen[1:] == [Disconnected(0, "memory://test/one")]
        server_driver.stop()

    asyncio.run(main())


def test_what_breaks_is_seen_on_both_sides() -> None:
    async def main() -> None:
        server, _, listener = listening_at("memory://test/two")
        client, client_driver = make()
        client_driver.perform([Connect("memory://test/two")])
        await client.until(lambda: client.seen)
        listener.break_connections()
        client_driver.perform([SendMany(1, [b"lost"])])
        await client.until(lambda: Disconnected(1) in client.seen)
        await server.until(lambda: Disconnected(1) in server.seen)
        assert server.bytes() == b""
        listener.close()

    asyncio.run(main())


def test_loops_of_two_threads_are_joined_in_order() -> None:
    url, count = "memory://test/three", 2000
    loop = asyncio.new_event_loop()

    async def listening() -> tuple[EventLog, Driver, MemoryListener]:
        return listening_at(url)

    thread = Thread(target=loop.run_forever)
    thread.start()
    server, _, listener = asyncio.run_coroutine_threadsafe(listening(), loop).result(PATIENCE_S)

    async def main() -> None:
        client, driver = make()
        driver.perform([Connect(url)])
        await client.until(lambda: client.seen)
        for n in range(count):
            driver.perform([SendMany(1, [n.to_bytes(2)])])
        wait = server.until(lambda: len(server.bytes()) == 2 * count)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(wait, loop))
        driver.stop()

    asyncio.run(main())
    listener.close()
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE_S)
    loop.close()
    assert server.bytes() == b"".join(n.to_bytes(2) for n in range(count))


def test_a_loop_that_is_gone_is_as_if_nobody_listened() -> None:
    url = "memory://test/four"

    async def listening() -> tuple[EventLog, Driver, MemoryListener]:
        return listening_at(url)

    _, _, listener = asyncio.run(listening())

    async def main() -> None:
        client, driver = make()
        driver.perform([Connect(url)])
        await client.until(lambda: client.seen)
        assert client.seen == [Disconnected(0, url)]

    asyncio.run(main())
    listener.close()


def test_a_dialler_that_was_stopped_says_nothing_more() -> None:
    async def main() -> None:
        client, driver = make()
        driver.perform([Connect("memory://nowhere/x")])
        driver.stop()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await client.changed.wait()
        assert client.seen == []

    asyncio.run(main())
