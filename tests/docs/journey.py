"""The journey of a publication as it really happens: which functions of Runnel it passes, from call to callback.

A program runs two brokers as `runnel broker` does, and two clients, on one loop and joined by TCP connections:
P – B1 – B2 – S. P publishes once; from then until S has the event and P its confirmation, the interpreter's profiler
notes each call of a function of Runnel. Calls form chains: each begins in the application or in the event loop.

Rules:
- A call is *on the way* if it is handed the publication or hands it back: as attributes, as bytes, as a `Publication`,
  or inside a list, an event or an effect. So are the calls that confirm it, and every call that led to one of these.
- A chain without such a call has nothing to do with the publication and is left out: acknowledgements between brokers,
  timers. A chain belongs to the place whose broker or session it runs. So neither the clock nor the order in which the
  loop serves its sockets shows.
- What happens in `matching` is left out: an install has one engine or the other.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache, reduce
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from msgspec import Struct

import runnel
from runnel import matching
from runnel.broker.broker import Broker
from runnel.client.publisher import Publisher
from runnel.client.publishing import Advertiser
from runnel.client.session import Session
from runnel.client.subscription import Subscription
from runnel.language import Attributes
from runnel.net.tcp import TcpConnection
from runnel.node.config import read_config
from runnel.node.node import Node
from runnel.wire.header import LENGTH_BYTES

SOURCES = f"{Path(runnel.__file__).parent}/"
ENGINES = f"{Path(matching.__file__).parent}/"
MARK = "the word by which the publication is known"
ATTRIBUTES: Attributes = {"price": 20, "note": MARK}
PATIENCE_S = 20
ATTEMPTS = 10

CONFIRMS = (Advertiser.confirm_acknowledged.__code__, Publisher.settle.__code__)
RECEIVES = TcpConnection.data_received.__code__


@dataclass(slots=True, eq=False)
class Call:
    """A call of a function of Runnel, and the calls that it made."""

    code: CodeType
    carries: bool
    made: list[Call] = field(default_factory=list)

    @property
    def file(self) -> str:
        """Where the function is defined, below `src/runnel`."""
        return self.code.co_filename.removeprefix(SOURCES)

    @property
    def place(self) -> str:
        """Where the function is to be found, as documents write it."""
        return f"{self.file}::{self.code.co_qualname}"

    @property
    def says(self) -> str:
        """The first line of its docstring, if it has one."""
        module = sys.modules[f"runnel.{self.file.removesuffix('.py').replace('/', '.')}"]
        function = reduce(inspect.getattr_static, self.code.co_qualname.split("."), module)
        return (function.__doc__ or "").strip().partition("\n")[0]

    @property
    def is_on_the_way(self) -> bool:
        """Whether it, or a call that it led to, carries the publication."""
        return self.carries or any(call.is_on_the_way for call in self.made)

    def all(self) -> Iterator[Call]:
        """The call and whatever it led to, in the order in which they began."""
        yield self
        for call in self.made:
            yield from call.all()


@dataclass(slots=True, eq=False)
class CallChain:
    """A call from outside of Runnel; `at` is the broker or the client that it runs."""

    first: Call
    at: str


class CallRecorder:
    """The chains of calls while it is switched on."""

    def __init__(self) -> None:
        self.chains: list[CallChain] = []
        self.is_mixed = False  # bytes that hold the publication held something else too
        self._running: dict[FrameType, tuple[Call, CallChain]] = {}

    @contextmanager
    def on(self) -> Iterator[None]:
        """Record meanwhile, in place of whoever profiles otherwise."""
        before = sys.getprofile()
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _note(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            self._called(frame)
        elif event == "return" and frame in self._running:
            call, _ = self._running.pop(frame)
            call.carries |= holds(arg)

    def _called(self, frame: FrameType) -> None:
        code = frame.f_code
        is_ours = code.co_filename.startswith(SOURCES) and not code.co_filename.startswith(ENGINES)
        if not is_ours or "<" in code.co_qualname:  # inner functions have no place of their own
            return
        given = arguments(frame)
        me = given.pop("self", None)
        call = Call(code, code in CONFIRMS or holds(given))
        caller = frame.f_back
        while caller is not None and caller not in self._running:
            caller = caller.f_back
        if caller is None:
            task = asyncio.current_task()
            chain = CallChain(call, task.get_name() if task else "")
            self.chains.append(chain)
        else:
            above, chain = self._running[caller]
            above.made.append(call)
        if isinstance(me, Broker):
            chain.at = me.name
        elif isinstance(me, Session):
            chain.at = me.config.name
        if code is RECEIVES and call.carries:
            chunk = given["data"]
            self.is_mixed |= int.from_bytes(chunk[:LENGTH_BYTES]) + LENGTH_BYTES != len(chunk)
        self._running[frame] = call, chain


def arguments(frame: FrameType) -> dict[str, Any]:
    """What a function was called with, by name."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: frame.f_locals[name] for name in names if name in frame.f_locals}


def holds(value: object) -> bool:
    """Whether the publication is in it: as attributes, as bytes, or in something that is made of those."""
    match value:
        case bytes():
            return MARK.encode() in value
        case str():
            return value == MARK
        case dict():
            return any(map(holds, value.values()))
        case list() | tuple():
            return any(map(holds, value))
        case Struct():
            return any(holds(getattr(value, name)) for name in value.__struct_fields__)
    return False


@asynccontextmanager
async def node(name: str, neighbours: dict[str, str]) -> AsyncIterator[str]:
    """A broker as `runnel broker` runs it; its address. No timer has anything to say before all is over."""
    config = {
        "name": name,
        "listen": "127.0.0.1:0",
        "neighbours": neighbours,
        "link": {"heartbeat_s": 60, "ack_every": 1},
        "log": {"level": "error"},
    }
    running = Node(read_config(config))
    address = await running.start()
    try:
        yield str(address)
    finally:
        running.stop()
        await running.serve()


async def _publish_once(publisher: Publisher, subscription: Subscription) -> CallRecorder:
    recorder = CallRecorder()
    reading = asyncio.create_task(subscription.get(), name="S")
    publishing = asyncio.create_task(publisher.publish(ATTRIBUTES, MARK.encode()), name="P")
    with recorder.on():
        await asyncio.gather(reading, publishing)
    return recorder


async def _record() -> CallRecorder:
    async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as running:
        one = await running.enter_async_context(node("B1", {}))
        two = await running.enter_async_context(node("B2", {"B1": one}))
        writer = await running.enter_async_context(runnel.connect(one, name="P"))
        reader = await running.enter_async_context(runnel.connect(two, name="S"))
        publisher = await writer.advertise("price > 0")
        subscription = await reader.subscribe("price > 10")
        for _ in range(ATTEMPTS):
            recorder = await _publish_once(publisher, subscription)
            if not recorder.is_mixed:  # a client's heartbeat may have gone with it
                return recorder
    raise AssertionError("something else came with each publication")


@cache
def record() -> list[CallChain]:
    """The chains of calls that carry the publication, in the order in which they began."""
    return [chain for chain in asyncio.run(_record()).chains if chain.first.is_on_the_way]


# -- what documents say of it ---------------------------------------------------------------------------


def all_places() -> set[str]:
    """Every function that was called by a chain that carries the publication, on the way or beside it."""
    return {call.place for chain in record() for call in chain.first.all()}


def calls_at(at: str, chains: slice = slice(None)) -> str:
    """The calls on the way at a broker or client, each once, below those that made them."""
    steps = _steps(at, chains)
    return "\n".join(
        f"{'  ' * depth}- `{call.place}`{f' — {call.says}' if call.says else ''}"
        for depth, call in steps.values()
    )


def files_at(at: str) -> str:
    """The files on the way at a broker, in the order of their first calls, with what is called in each."""
    files: dict[str, list[str]] = {}
    for _, call in _steps(at).values():
        files.setdefault(call.file, []).append(call.code.co_qualname)
    rows = (
        f"| `{file}` | {', '.join(f'`{name}`' for name in names)} |"
        for file, names in files.items()
    )
    return "\n".join(["| file | what is called in it |", "|---|---|", *rows])


def difference(at: str, other: str) -> str:
    """What is called on the way at one of two brokers and not at the other."""
    here, there = _steps(at), _steps(other)
    return "\n".join(
        f"- called {where}: {', '.join(f'`{place}`' for place in places) or 'nothing'}"
        for where, places in (
            (f"at {other} and not at {at}", [place for place in there if place not in here]),
            (f"at {at} and not at {other}", [place for place in here if place not in there]),
        )
    )


def _steps(at: str, chains: slice = slice(None)) -> dict[str, tuple[int, Call]]:
    """By place: how deep the call is, and the call itself; in the order of the first calls."""
    steps: dict[str, tuple[int, Call]] = {}

    def note(call: Call, depth: int) -> None:
        if call.is_on_the_way:
            steps.setdefault(call.place, (depth, call))
            for made in call.made:
                note(made, depth + 1)

    for chain in [chain for chain in record() if chain.at == at][chains]:
        note(chain.first, 0)
    return steps
