"""A node's place in the network: what is remembered of it, and a node with two generations."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from runnel.errors import InputError
from runnel.modules.generations.questions import OpenGeneration
from runnel.net.addresses import Address
from runnel.node.config import read_config
from runnel.node.logs import make_log
from runnel.node.node import DRAINED, Node
from runnel.node.saved_generation import load_generation, save_generation
from runnel.wire import PROTOCOL, Decoder, Hello, encode

PLACE = OpenGeneration(7, {"A": "127.0.0.1:9"}, "", {"C": "127.0.0.1:8"})


# -- the file -------------------------------------------------------------------------------------------


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    file = str(tmp_path / "B.state")
    assert load_generation(file, "B") is None
    for place in (PLACE, OpenGeneration(8, standby="127.0.0.1:9")):
        save_generation(file, "B", place)
        assert load_generation(file, "B") == place
    assert [path.name for path in tmp_path.iterdir()] == ["B.state"]


def test_without_a_file_nothing_is_remembered(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    save_generation("", "B", PLACE)
    assert load_generation("", "B") is None
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_dies_while_it_saves_has_its_old_place(tmp_path: Path) -> None:
    file = tmp_path / "B.state"
    save_generation(str(file), "B", PLACE)
    Path(f"{file}.new").write_bytes(b'{"broker": "B", "pla')  # it got so far
    assert load_generation(str(file), "B") == PLACE
    save_generation(str(file), "B", OpenGeneration(8))
    assert load_generation(str(file), "B") == OpenGeneration(8)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        b'{"broker": "B"}',
        b'{"broker": "B", "place": {"generation": -1}}',
        b"\xff",
    ],
)
def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "B.state"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"B\.state cannot be read.*remove it"):
        load_generation(str(file), "B")


def test_the_file_of_another_broker_is_refused(tmp_path: Path) -> None:
    file = str(tmp_path / "state")
    save_generation(file, "A", PLACE)
    with pytest.raises(InputError, match="is of broker A, not B"):
        load_generation(file, "B")


@pytest.mark.parametrize("state", ["missing/B.state", "."])
def test_a_file_that_cannot_be_written_is_named_at_the_start(tmp_path: Path, state: str) -> None:
    config = read_config({"name": "B", "listen": "127.0.0.1:0", "state": str(tmp_path / state)})

    async def main() -> None:
        with pytest.raises(InputError, match=r"^state: "):
            await Node(config).start()

    asyncio.run(main())


# -- a node with two generations ------------------------------------------------------------------------


def _serve(
    during: Callable[[Node, Address], Coroutine[Any, Any, None]], **tables: Any
) -> list[dict[str, Any]]:
    """Serve until told to stop; the log."""
    stream = io.StringIO()
    config = read_config({"name": "B", "listen": "127.0.0.1:0", **tables})
    node = Node(config, make_log("B", "debug", "json", stream))

    async def main() -> None:
        address = await node.start()
        task = asyncio.create_task(during(node, address))
        task.add_done_callback(lambda _: node.stop())
        async with asyncio.timeout(20):
            assert await node.serve() == DRAINED
        await task

    asyncio.run(main())
    return [json.loads(line) for line in stream.getvalue().splitlines()]


class Caller:
    """A client that says Hello and stays."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def greet(
        cls, address: Address, generation: int, name: str = "alice"
    ) -> tuple[int, Caller]:
        """The generation of the broker that answers, and the connection."""
        reader, writer = await asyncio.open_connection(*address[:2])
        writer.write(encode(Hello(PROTOCOL, "client", name, 5, 0, 0, 0, 0, generation)))
        decoder = Decoder()
        frames: list[Any] = []
        while not frames:
            frames = decoder.feed(await reader.read(1 << 16))
        assert isinstance(frames[0], Hello)
        return frames[0].generation, cls(reader, writer)

    async def ended(self) -> None:
        """Until the other side has closed."""
        while await self.reader.read(1 << 16):
            pass
        self.writer.close()

    def leave(self) -> None:
        self.writer.close()


async def _found(address: Address, *generations: int) -> list[int]:
    """What answers to whoever asks for these."""
    found = []
    for number, generation in enumerate(generations):
        one, caller = await Caller.greet(address, generation, f"c{number}")
        found.append(one)
        caller.leave()
    return found


def test_each_is_led_to_the_generation_that_it_asks_for() -> None:
    async def during(node: Node, address: Address) -> None:
        assert await _found(address, 0, 1, 2) == [1, 1, 1], "there is just the one"
        node.open(OpenGeneration(2))
        node.open(OpenGeneration(2))  # it is there
        assert await _found(address, 0, 1, 2, 9) == [1, 1, 2, 1]
        node.receive_in(2)
        assert await _found(address, 0, 1, 2, 9) == [2, 1, 2, 2]
        node.receive_in(9)
        assert await _found(address, 0) == [2], "that one is not here"

    log = _serve(during)
    opened = [entry["generation"] for entry in log if entry["event"] == "generation-opened"]
    assert opened == [2], "once"


@pytest.mark.parametrize("closed", [1, 2])
def test_one_of_two_ends_and_the_other_goes_on(closed: int, tmp_path: Path) -> None:
    stays = 3 - closed

    async def during(node: Node, address: Address) -> None:
        node.open(OpenGeneration(2, reserve={"C": "127.0.0.1:8"}))
        _, leaving = await Caller.greet(address, closed)
        _, staying = await Caller.greet(address, stays)
        node.close(closed)
        node.close(closed)  # once is enough
        assert node.settled == stays
        await leaving.ended()
        assert await _found(address, 0, 1, 2) == [stays] * 3
        with pytest.raises(InputError, match="the only one"):
            node.close(stays)
        node.close(9)
        staying.leave()

    log = _serve(during, state=str(tmp_path / "state"))
    told = [entry for entry in log if entry["event"] == "generation-closed"]
    assert [entry["generation"] for entry in told] == [closed]
    place = load_generation(str(tmp_path / "state"), "B")
    assert place is not None and place.generation == stays


def test_three_are_too_many() -> None:
    async def during(node: Node, address: Address) -> None:
        node.open(OpenGeneration(2))
        with pytest.raises(InputError, match="two generations here: 1, 2"):
            node.open(OpenGeneration(3))
        assert await _found(address, 3) == [1]

    _serve(during)


def test_a_node_that_starts_anew_has_the_generation_that_it_settled_for(tmp_path: Path) -> None:
    state = str(tmp_path / "state")

    async def switch(node: Node, address: Address) -> None:
        node.open(OpenGeneration(2))
        _, caller = await Caller.greet(address, 1)
        node.close(1)
        await caller.ended()

    async def again(node: Node, address: Address) -> None:
        assert node.settled == 2
        assert await _found(address, 0, 1) == [2, 2]

    _serve(switch, state=state)
    log = _serve(again, state=state, neighbours={"X": "127.0.0.1:9"})
    assert next(entry for entry in log if entry["event"] == "listening")["generation"] == 2
    assert not [e for e in log if e["event"] == "dial-failed"], (
        "X was a neighbour before the switch"
    )


def test_a_node_that_has_not_settled_starts_anew_with_the_old_one(tmp_path: Path) -> None:
    state = str(tmp_path / "state")

    async def half_way(node: Node, address: Address) -> None:
        node.open(OpenGeneration(2))
        node.receive_in(2)

    async def again(node: Node, address: Address) -> None:
        assert await _found(address, 0, 2) == [1, 1]

    _serve(half_way, state=state)
    _serve(again, state=state)


def test_without_a_file_for_it_the_log_says_so() -> None:
    async def during(node: Node, address: Address) -> None:
        node.open(OpenGeneration(2))
        node.close(1)

    log = _serve(during)
    assert [e["level"] for e in log if e["event"] == "place-not-saved"] == ["warning"]


def test_stopping_drains_both() -> None:
    async def during(node: Node, address: Address) -> None:
        node.open(OpenGeneration(2))
        callers = [(await Caller.greet(address, generation))[1] for generation in (1, 2)]
        node.stop()
        node.open(OpenGeneration(3))  # not any more
        for caller in callers:
            await caller.ended()

    log = _serve(during)
    assert log[-1]["event"] == "stopped" and log[-1]["exit_code"] == DRAINED
