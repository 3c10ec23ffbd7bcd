"""The admin listener on real sockets: who is served at which port, and what monitoring gets."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runnel.errors import InputError
from runnel.modules.inspection.messages import Referral
from runnel.modules.inspection.questions import Status
from runnel.net.addresses import Address
from runnel.net.loops import new_event_loop
from runnel.node import http
from runnel.node.config import read_config
from runnel.node.logs import make_log
from runnel.node.node import DRAINED, Node
from runnel.operate.ask import Asker, AskError, ask
from runnel.operate.walk import walk
from runnel.wire import PROTOCOL, Bye, Decoder, Frame, Hello, encode
from support.scraping import read_metrics, value_of

ADMIN = {"admin": {"listen": "127.0.0.1:0"}}
LOOPS = [asyncio.new_event_loop, new_event_loop]
During = Callable[[Node, Address], Coroutine[Any, Any, None]]


def serve(
    during: During,
    make_loop: Callable[[], asyncio.AbstractEventLoop] = new_event_loop,
    **tables: Any,
) -> list[dict[str, Any]]:
    """Run a node with an admin listener while a test talks to it; its log."""
    stream = io.StringIO()
    config = read_config({"name": "B1", "listen": "127.0.0.1:0", **ADMIN, **tables})
    node = Node(config, make_log("B1", "debug", "json", stream))

    async def main() -> int:
        await node.start()
        assert node.admin_address is not None
        talking = asyncio.create_task(talk(node.admin_address))
        async with asyncio.timeout(20):
            code = await node.serve()
        await talking
        return code

    async def talk(admin: Address) -> None:
        try:
            await during(node, admin)
        finally:
            node.stop()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(main()) == DRAINED
    return [json.loads(line) for line in stream.getvalue().splitlines()]


async def exchange(address: Address, *pieces: bytes) -> bytes:
    """All that comes back on one connection."""
    reader, writer = await asyncio.open_connection(*address[:2])
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer


async def get(address: Address, path: str) -> tuple[int, str]:
    """The status and the body of a page."""
    answer = await exchange(address, f"GET {path} HTTP/1.1\r\nHost: b\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head.split(b"\r\n")
    return int(head.split()[1]), body.decode()


def hello(kind: str) -> bytes:
    return encode(Hello(PROTOCOL, kind, "x1", 5, 0, 0, 0, 0))


async def answers(address: Address, kind: str) -> list[Frame]:
    return Decoder().feed(await exchange(address, hello(kind)))


@pytest.mark.parametrize("make_loop", LOOPS)
def test_monitoring_reads_metrics_and_health(make_loop: Any) -> None:
    async def during(node: Node, admin: Address) -> None:
        status, text = await get(admin, "/metrics")
        found = read_metrics(text)
        assert (status, value_of(found, "runnel_info", broker="B1")) == (200, 1)
        assert value_of(found, "process_cpu_seconds_total") > 0
        assert await get(admin, "/healthz") == (200, "ok\n")
        assert await get(admin, "/readyz?verbose") == (200, "ok\n")

    log = serve(during, make_loop)
    assert log[0]["admin"].startswith("runnel://127.0.0.1:")
    assert not [entry for entry in log if entry["level"] in ("warning", "error", "critical")]


@pytest.mark.parametrize("make_loop", LOOPS)
def test_operators_are_served_at_the_admin_port_and_referred_to_it_by_the_other(
    make_loop: Any,
) -> None:
    async def during(node: Node, admin: Address) -> None:
        assert await answers(node.address, "operator") == [Referral(str(admin))]
        for address in (admin, node.address):  # the second is followed to the first
            status = await asyncio.to_thread(ask, address, Status())
            assert (status["name"], status["admin"]) == ("B1", str(admin))
            assert status["address"] == str(node.address)
            found = await asyncio.to_thread(walk, address)
            assert found.addresses["B1"] == node.address, "where publishers may be moved to"

    serve(during, make_loop)


def test_nobody_else_is_served_at_the_admin_port() -> None:
    async def during(node: Node, admin: Address) -> None:
        for kind in ("client", "broker"):
            (answer,) = await answers(admin, kind)
            assert isinstance(answer, Bye) and answer.is_final
            assert str(node.address) in answer.reason
        assert not node._cores[1].broker.links

    serve(during)


def test_who_says_nothing_is_not_let_past_the_doorman(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runnel.node.doorman.HELLO_WITHIN_S", 0.05)

    async def during(node: Node, admin: Address) -> None:
        assert await exchange(node.address, hello("operator")[:7]) == b""
        assert await exchange(admin, hello("client")[:7]) == b""

    serve(during)


def test_clients_are_served_at_the_other_port_as_before() -> None:
    async def during(node: Node, admin: Address) -> None:
        reader, writer = await asyncio.open_connection(*node.address[:2])
        writer.write(hello("client"))
        (answer,) = Decoder().feed(await reader.read(1_000))
        assert isinstance(answer, Hello) and answer.name == "B1"
        _, text = await get(admin, "/metrics")
        assert value_of(read_metrics(text), "runnel_links", peer="client", state="up") == 1
        writer.close()

    serve(during)


def test_not_ready_says_why() -> None:
    async def during(node: Node, admin: Address) -> None:
        assert await get(admin, "/readyz") == (503, "there is no link to B2\n")
        assert (await get(admin, "/healthz"))[0] == 200
        node._stopping = True
        assert (await get(admin, "/readyz"))[1].startswith("the broker is stopping\n")
        node._stopping = False

    serve(during, neighbours={"B2": "127.0.0.1:9"})


BAD_REQUESTS = [
    (b"GET /nowhere HTTP/1.1\r\n\r\n", b"404 Not Found"),
    (b"POST /metrics HTTP/1.1\r\nContent-Length: 2\r\n\r\nab", b"405 Method Not Allowed"),
    (b"GET /metrics\r\n\r\n", b"400 Bad Request"),
    (b"Get on with it\n\n", b"400 Bad Request"),
    (b"GET /" + b"x" * 9_000, b"431 Request Header Fields Too Large"),
]


@pytest.mark.parametrize(("request_", "said"), BAD_REQUESTS)
def test_a_bad_request_gets_an_error_and_ends(request_: bytes, said: bytes) -> None:
    async def during(node: Node, admin: Address) -> None:
        answer = await exchange(admin, request_)
        assert answer.split(b"\r\n")[0] == b"HTTP/1.1 " + said

    serve(during)


def test_a_request_may_come_in_pieces_and_must_come_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def during(node: Node, admin: Address) -> None:
        pieces = [b"G", b"ET /healthz HT", b"TP/1.1\r\nA: b\r\n", b"\r", b"\n"]
        assert (await exchange(admin, *pieces)).endswith(b"\r\n\r\nok\n")
        monkeypatch.setattr(http, "PATIENCE_S", 0.05)
        assert await exchange(admin, b"GET /healthz") == b""

    serve(during)


def test_a_referral_is_not_followed_from_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an Asker makes of it: no dial leads to this machine that was meant for another."""
    asker = Asker.__new__(Asker)
    asker.address = "runnel://192.0.2.1:7001"
    for admin, hint in (
        ("runnel://127.0.0.1:7101", "ask on that machine"),
        ("runnel://192.0.2.2:7101", "ask there"),
    ):
        with pytest.raises(AskError, match=f"its admin address is {admin}.*{hint}"):
            asker._follow_referral(Address("192.0.2.1", 7001), Referral(admin))
    secure = Address("192.0.2.1", 7001, is_secure=True)
    with pytest.raises(AskError, match="without TLS"):
        asker._follow_referral(secure, Referral("runnel://192.0.2.1:7101"))
    same = asker._follow_referral(Address("192.0.2.1", 7001), Referral("runnel://192.0.2.1:7101"))
    assert same == Address("192.0.2.1", 7101)


def test_a_taken_admin_port_is_named() -> None:
    async def during(node: Node, admin: Address) -> None:
        taken = {"name": "B2", "listen": "127.0.0.1:0", "admin": {"listen": admin.short}}
        with pytest.raises(InputError, match=r"^admin\.listen: .* is taken"):
            await Node(read_config(taken)).start()

    serve(during)
