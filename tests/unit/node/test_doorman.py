"""The doorman leads a connection to the generation that its Hello names, however the bytes come, or do not come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runnel.broker.events import Connected, Disconnected, Event, FramesArrived
from runnel.broker.permits import Permit
from runnel.net.driver import Driver
from runnel.net.tcp import TcpConnection
from runnel.node import doorman
from runnel.node.doorman import Doorman
from runnel.wire import PROTOCOL, Ack, Credentials, Denied, Hello, Message, encode, make_publication


def hello(generation: int) -> bytes:
    return encode(Hello(PROTOCOL, "client", "alice", 5, 0, 0, 0, 0, generation))


MORE = encode(Ack(0, 0, 0, False)) + make_publication(7, 1, {"a": 1}).frame()


class Heard:
    """A machine that only listens."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.something = asyncio.Event()

    def handle(self, event: Event, now: int) -> tuple[()]:
        self.events.append(event)
        self.something.set()
        return ()

    @property
    def kinds(self) -> list[type[Event]]:
        return [type(event) for event in self.events]

    @property
    def read(self) -> bytes:
        return b"".join(e.chunk for e in self.events if isinstance(e, FramesArrived))


class NoDialler:
    """Nobody is dialled here."""

    def dial(self, driver: Driver, peer: str, address: str = "") -> None:
        raise AssertionError(peer)

    def stop(self) -> None:
        """Nothing is under way."""


class Transport(asyncio.Transport):
    """A connection of which only one end is there."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))


class Hall:
    """Two generations, 3 and 4, and a connection at the door; newcomers belong to 3."""

    def __init__(self) -> None:
        self.heard = {3: Heard(), 4: Heard()}
        self.drivers = {
            generation: Driver(machine, NoDialler(), lambda effect: None)
            for generation, machine in self.heard.items()
        }
        self.receives_in = 3
        self.transport = Transport()
        self.doorman = Doorman(self.lead_to)
        self.doorman.connection_made(self.transport)

    def lead_to(self, generation: int) -> Driver:
        return self.drivers.get(generation) or self.drivers[self.receives_in]


def in_hall(test: Callable[[Hall], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(10):
            await test(Hall())

    asyncio.run(main())


@pytest.mark.parametrize(
    ("asked", "found"), [(3, 3), (4, 4), (0, 3), (9, 3)], ids="old new whichever unknown".split()
)
def test_a_connection_is_led_to_the_generation_that_it_asks_for(asked: int, found: int) -> None:
    async def test(hall: Hall) -> None:
        hall.doorman.data_received(hello(asked))
        there, elsewhere = hall.heard.pop(found), next(iter(hall.heard.values()))
        assert there.events == [Connected(1), FramesArrived(1, hello(asked))]
        assert elsewhere.events == []

    in_hall(test)


def test_however_the_bytes_come_all_are_handed_on() -> None:
    said = hello(4) + MORE

    async def test(_: Hall) -> None:
        for first in range(1, len(said)):
            for second in (first + 1, (first + len(said)) // 2, len(said)):
                hall = Hall()
                for piece in (said[:first], said[first:second], said[second:]):
                    if piece:
                        hall.doorman.data_received(piece)
                assert hall.heard[4].read == said
                assert hall.heard[3].events == []
        hall = Hall()
        for byte in said:
            hall.doorman.data_received(bytes([byte]))
        assert hall.heard[4].read == said

    in_hall(test)


def test_nobody_hears_of_a_connection_before_it_is_clear_whose_it_is() -> None:
    async def test(hall: Hall) -> None:
        hall.doorman.data_received(hello(4)[:-1])
        assert hall.heard[3].events == hall.heard[4].events == []
        hall.receives_in = 4  # who belongs nowhere is led where it belongs then
        hall.doorman.data_received(b"?" * 100)
        assert hall.heard[3].events == []

    in_hall(test)


@pytest.mark.parametrize("nonsense", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, MORE])
def test_nonsense_is_for_the_broker_to_answer(nonsense: bytes) -> None:
    async def test(hall: Hall) -> None:
        hall.doorman.data_received(nonsense)
        assert hall.heard[3].events == [Connected(1), FramesArrived(1, nonsense)]

    in_hall(test)


def test_who_says_nothing_is_handed_on_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorman, "PATIENCE_S", 0.01)

    async def test(hall: Hall) -> None:
        hall.doorman.data_received(hello(4)[:3])
        await hall.heard[3].something.wait()
        assert hall.heard[3].events == [Connected(1), FramesArrived(1, hello(4)[:3])]
        hall.doorman.data_received(hello(4)[3:])
        assert hall.heard[3].read == hello(4), "it is there now, and stays"
        assert hall.heard[4].events == []

    in_hall(test)


def test_of_one_who_leaves_without_a_word_nobody_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorman, "PATIENCE_S", 0.001)

    async def test(hall: Hall) -> None:
        hall.doorman.connection_lost(None)
        passed = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, passed.set)  # later than the patience ends
        await passed.wait()
        assert hall.heard[3].events == hall.heard[4].events == []

    in_hall(test)


def test_once_led_it_is_a_connection_like_any_other() -> None:
    async def test(hall: Hall) -> None:
        hall.doorman.data_received(hello(4))
        hall.doorman.data_received(MORE)
        hall.doorman.write([b"an", b"swer"])
        hall.doorman.connection_lost(None)
        assert hall.heard[4].kinds == [Connected, FramesArrived, FramesArrived, Disconnected]
        assert hall.transport.written == [b"answer"]

    in_hall(test)


# -- who proves who he is ---------------------------------------------------------------------------------

ALICE = Permit("alice", names=("alice",))


class Porter:
    """Lets in whoever has the right password, when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Credentials] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.busy = False

    async def __call__(
        self, connection: TcpConnection, credentials: Credentials
    ) -> Permit | Message | None:
        self.asked.append(credentials)
        await self.may_answer.wait()
        if self.busy:
            return None
        return ALICE if credentials.password == "geheim" else Denied("wrong")


class GuardedHall(Hall):
    """The same with a porter; `closed` has why the connection was."""

    def __init__(self) -> None:
        super().__init__()
        self.porter = Porter()
        self.doorman = Doorman(self.lead_to, None, self.porter)
        self.closed = asyncio.Event()
        self.transport.close = self.closed.set  # type: ignore[method-assign]
        self.doorman.connection_made(self.transport)


def in_guarded_hall(test: Callable[[GuardedHall], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(10):
            await test(GuardedHall())

    asyncio.run(main())


RIGHT = encode(Credentials("alice", "geheim"))


@pytest.mark.parametrize("size", [1, 7, 30, 1_000])
def test_who_proves_it_is_led_in_with_a_permit_and_all_that_it_said(size: int) -> None:
    said = hello(4) + RIGHT + MORE

    async def test(hall: GuardedHall) -> None:
        for at in range(0, len(said), size):
            hall.doorman.data_received(said[at : at + size])
        await hall.heard[4].something.wait()
        assert hall.heard[4].events[0] == Connected(1, None, ALICE)
        assert hall.heard[4].read == said and not hall.heard[3].events
        assert hall.porter.asked == [Credentials("alice", "geheim")]

    in_guarded_hall(test)


@pytest.mark.parametrize(
    "credentials",
    [encode(Credentials("alice", "x")), encode(Credentials()), encode(Ack(0, 0, 0, False))],
)
def test_who_does_not_is_told_and_no_broker_hears_of_it(credentials: bytes) -> None:
    async def test(hall: GuardedHall) -> None:
        hall.doorman.data_received(hello(3) + credentials + MORE)
        await hall.closed.wait()
        hall.doorman.data_received(RIGHT)  # too late
        assert hall.transport.written == [encode(Denied("wrong"))]
        assert not hall.heard[3].events and len(hall.porter.asked) == 1

    in_guarded_hall(test)


def test_who_is_to_come_back_later_is_told_nothing() -> None:
    async def test(hall: GuardedHall) -> None:
        hall.porter.busy = True
        hall.doorman.data_received(hello(3) + RIGHT)
        await hall.closed.wait()
        assert hall.transport.written == [] and not hall.heard[3].events

    in_guarded_hall(test)


def test_a_broker_is_led_in_by_its_name_alone_and_nonsense_without_a_permit() -> None:
    """The core then says that it is no neighbour, or what is wrong."""
    broker = encode(Hello(PROTOCOL, "broker", "B2", 5, 0, 0, 0, 0))
    for said in (broker, MORE, b"GET / HTTP/1.1\r\n\r\n"):

        async def test(hall: GuardedHall, said: bytes = said) -> None:
            hall.doorman.data_received(said)
            assert hall.heard[3].events[0] == Connected(1, None, None)
            assert not hall.porter.asked

        in_guarded_hall(test)


def test_who_talks_on_while_it_is_checked_cannot_fill_the_memory() -> None:
    async def test(hall: GuardedHall) -> None:
        hall.porter.may_answer.clear()
        hall.doorman.data_received(hello(3) + RIGHT)
        for _ in range(20):
            hall.doorman.data_received(bytes(100_000))
        assert hall.closed.is_set()
        hall.porter.may_answer.set()
        await asyncio.sleep(0)
        assert not hall.heard[3].events

    in_guarded_hall(test)


def test_who_is_gone_before_it_was_checked_is_not_led_in() -> None:
    async def test(hall: GuardedHall) -> None:
        hall.porter.may_answer.clear()
        hall.doorman.data_received(hello(3) + RIGHT)
        await asyncio.sleep(0)
        hall.doorman.connection_lost(None)
        hall.porter.may_answer.set()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not hall.heard[3].events

    in_guarded_hall(test)
