"""A node within this process: what ends it, and how it says so. Real sockets; signals are tried on processes."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runnel.broker.effects import WriteTrace
from runnel.broker.events import Disconnected, Event
from runnel.errors import BugError, InputError
from runnel.net.addresses import Address
from runnel.net.loops import new_event_loop
from runnel.node.config import read_config
from runnel.node.logs import make_log
from runnel.node.node import BUG, DRAINED, Node
from runnel.node.spec import new_incarnation

LOOPS = [asyncio.new_event_loop, new_event_loop]


def _serve(
    during: Callable[[Node, Address], Coroutine[Any, Any, None]],
    make_loop: Callable[[], asyncio.AbstractEventLoop] = new_event_loop,
    **tables: Any,
) -> tuple[int, list[dict[str, Any]]]:
    """The exit code of a node and its log."""
    stream = io.StringIO()
    config = read_config({"name": "B1", "listen": "127.0.0.1:0", **tables})
    node = Node(config, make_log("B1", "debug", "json", stream))

    async def main() -> int:
        address = await node.start()
        task = asyncio.create_task(during(node, address))
        async with asyncio.timeout(20):
            code = await node.serve()
        await task
        return code

    with asyncio.Runner(loop_factory=make_loop) as runner:
        code = runner.run(main())
    return code, [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("make_loop", LOOPS)
def test_stopping_ends_with_0_and_closes_connections(make_loop: Any) -> None:
    async def during(node: Node, address: Address) -> None:
        reader, writer = await asyncio.open_connection(*address[:2])
        node.stop()
        node.stop()  # once is enough
        assert await reader.read() == b""
        writer.close()

    code, log = _serve(during, make_loop)
    assert code == DRAINED
    assert [entry["event"] for entry in log] == ["listening", "draining", "stopped"]


@pytest.mark.parametrize("make_loop", LOOPS)
def test_a_bug_in_the_core_ends_the_node_with_70_and_a_log_entry(make_loop: Any) -> None:
    class Broken:
        """A machine with a bug."""

        def handle(self, event: Event, now: int) -> list[Any]:
            raise BugError("routes to a link that is gone")

    async def during(node: Node, address: Address) -> None:
        node._cores[1].driver.machine = Broken()
        _, writer = await asyncio.open_connection(*address[:2])
        writer.close()

    code, log = _serve(during, make_loop)
    assert code == BUG
    told = next(entry for entry in log if entry["event"] == "bug")
    assert told["level"] == "critical"
    assert told["error"] == "routes to a link that is gone"
    assert "in handle" in told["traceback"]


def test_a_bug_in_any_callback_ends_the_node() -> None:
    async def during(node: Node, address: Address) -> None:
        asyncio.get_running_loop().call_soon(lambda: {"": 0}["missing"])

    assert _serve(during)[0] == BUG


def test_after_a_bug_nothing_more_is_handled() -> None:
    handled: list[Event] = []

    class BrokenOnce:
        def handle(self, event: Event, now: int) -> list[Any]:
            handled.append(event)
            raise ZeroDivisionError

    async def during(node: Node, address: Address) -> None:
        node._cores[1].driver.machine = BrokenOnce()
        loop = asyncio.get_running_loop()
        for _ in range(3):
            loop.call_soon(node._cores[1].driver.failed, "B2")

    code, _ = _serve(during, neighbours={"B2": "127.0.0.1:9"})
    assert (code, len(handled)) == (BUG, 1)


def test_a_stranger_who_talks_nonsense_is_thrown_out_and_logged() -> None:
    async def during(node: Node, address: Address) -> None:
        reader, writer = await asyncio.open_connection(*address[:2])
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
        node.stop()

    code, log = _serve(during)
    assert code == DRAINED
    assert [entry["level"] for entry in log if entry["event"] == "peer-error"] == ["warning"]


def test_a_port_that_is_taken_is_the_users_mistake() -> None:
    async def during(node: Node, address: Address) -> None:
        config = read_config({"name": "B2", "listen": f"127.0.0.1:{address.port}"})
        with pytest.raises(InputError, match="is taken"):
            await Node(config).start()
        node.stop()

    assert _serve(during)[0] == DRAINED


def test_a_host_that_is_not_this_machine_is_the_users_mistake() -> None:
    config = read_config({"name": "B1", "listen": "192.0.2.1:0", "allow_remote": True})

    async def main() -> None:
        with pytest.raises(InputError, match=r"cannot listen on runnel://192\.0\.2\.1:0"):
            await Node(config).start()

    asyncio.run(main())


def test_an_incarnation_has_room_in_a_token_for_two_hundred_years() -> None:
    two_hundred_years_ms = 200 * 366 * 86_400 * 1_000
    assert 0 < new_incarnation() < 2**43 - two_hundred_years_ms


def test_whatever_a_module_traces_can_be_logged() -> None:
    async def during(node: Node, address: Address) -> None:
        node._cores[1].handle_effect(
            WriteTrace("odd", {"event": "x", "level": 3, "self": None, "made_of": {1: b"bytes"}})
        )
        node.stop()

    code, log = _serve(during)
    assert code == DRAINED
    assert next(entry for entry in log if entry["event"] == "odd")["event_"] == "x"


def test_drops_are_summed_up_and_told_at_the_end_at_the_latest() -> None:
    async def during(node: Node, address: Address) -> None:
        for _ in range(3):
            node._cores[1].handle_effect(WriteTrace("dropped", {"peer": "slow", "count": 5}))
        node.stop()

    _, log = _serve(during)
    dropped = [entry for entry in log if entry["event"] == "dropped"]
    assert [(entry["peer"], entry["count"]) for entry in dropped] == [("slow", 15)]


def test_it_says_whom_it_cannot_dial_also_of_those_that_no_configuration_names() -> None:
    async def during(node: Node, address: Address) -> None:
        core = node._cores[1]
        core.broker.dial("B2", f"runnel://127.0.0.1:{_free_port()}")
        core.broker.dial("B3")
        core.broker.dial("B4", "nonsense://")
        core.driver.handle(Disconnected(0))
        while len(core._unreachable) < 3:
            await asyncio.sleep(0)
        node.stop()

    code, log = _serve(during)
    told = {entry["peer"]: entry for entry in log if entry["event"] == "dial-failed"}
    assert code == DRAINED
    assert told["B2"]["address"].startswith("runnel://127.0.0.1:")
    assert told["B2"]["reason"] == "Connection refused"
    assert told["B3"]["address"] == "" and "where B3 listens" in told["B3"]["reason"]
    assert told["B4"]["address"] == "nonsense://"


def _free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
