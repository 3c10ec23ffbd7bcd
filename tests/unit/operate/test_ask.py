"""CrocClient over a real connection: answers, and what is said when there is none."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from runnel.broker.config import BrokerConfig
from runnel.broker.module import Surroundings
from runnel.compose import BrokerSpec, make_broker
from runnel.modules.inspection.questions import Route, Status, Subscriptions
from runnel.net.addresses import Address
from runnel.net.driver import Driver
from runnel.net.tcp import TcpDialler, listen
from runnel.operate.ask import Asker, AskError, ask


class Served:
    """A broker that listens, on a loop of its own."""

    def __init__(self) -> None:
        self.address: Address
        self.broker = make_broker(
            BrokerSpec(BrokerConfig("B1"), modules=("inspection",)),
            1,
            Surroundings("B1", address="runnel://127.0.0.1:7"),
        )
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> Served:
        self._thread.start()
        assert self._up.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        driver = Driver(
            self.broker, TcpDialler(lambda peer: Address("127.0.0.1", 1)), lambda _: None
        )
        server = await listen(driver, Address("127.0.0.1", 0))
        self.address = Address(*server.sockets[0].getsockname())
        driver.perform(self.broker.start(0))
        self._up.set()
        await self._stop.wait()
        driver.stop()
        server.close()
        await asyncio.sleep(0)


@pytest.fixture
def served() -> Iterator[Served]:
    with Served() as one:
        yield one


@pytest.fixture
def silent_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_broker_answers(served: Served) -> None:
    status = ask(served.address, Status())
    assert (status["name"], status["links"]) == ("B1", [])


def test_many_questions_over_one_connection(served: Served) -> None:
    with Asker(served.address) as asker:
        assert asker.broker == "B1"
        assert [asker.ask(Status())["name"] for _ in range(50)] == ["B1"] * 50
        assert asker.ask(Route({"a": 1}))["hops"] == []


def test_what_the_broker_refuses_is_an_error_and_the_connection_goes_on(served: Served) -> None:
    with Asker(served.address) as asker:
        with pytest.raises(AskError, match="has no client 'nobody'"):
            asker.ask(Subscriptions("nobody"))
        assert asker.ask(Status())["name"] == "B1"


def test_the_broker_forgets_who_asked(served: Served) -> None:
    for _ in range(3):
        ask(served.address, Status())
    with Asker(served.address) as asker:
        asker.ask(Status())
        assert len(served.broker.links) == 1


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(AskError, match=r"no broker answers at runnel://127.0.0.1:.*start one with"):
        ask(Address("127.0.0.1", port), Status())


def test_somebody_listens_but_says_nothing(silent_port: int) -> None:
    with pytest.raises(AskError, match=r"did not answer within 0\.2 s"):
        ask(Address("127.0.0.1", silent_port), Status(), timeout_s=0.2)


def test_somebody_else_listens() -> None:
    def greet(server: socket.socket) -> None:
        with server.accept()[0] as peer:
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=greet, args=(server,))
        thread.start()
        with pytest.raises(AskError, match="does not speak Runnel"):
            ask(Address(*server.getsockname()), Status())
        thread.join()
