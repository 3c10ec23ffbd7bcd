"""A network of real brokers within the process, for tests of programs that use Runnel.

The brokers are those that `runnel broker` runs, on an event loop in a thread of its own; only the connections are in
memory. So tests need no ports and no processes, and brokers behave as they do in production.

    with InMemoryNetwork(3) as network:                  # B1 – B2 – B3
        with network.connect_blocking("B1") as client:
            ...

    async with network.connect("B3") as client:          # in a coroutine, on the caller's loop
        ...

Programs that take a URL get `network.url("B1")`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import count, pairwise
from threading import Event, Thread
from time import monotonic_ns
from typing import Any, TypeVar

from runnel.broker.broker import Broker
from runnel.client import blocking
from runnel.client.aio import Client, connect
from runnel.errors import InputError
from runnel.net.driver import Driver
from runnel.net.loops import new_event_loop
from runnel.net.memory import SCHEME, MemoryDialler, MemoryListener
from runnel.node.config import NodeConfig, read_config
from runnel.node.spec import make_node_broker, new_incarnation

_T = TypeVar("_T")
_numbers = count(1)
START_TIMEOUT_S = 30.0

Edges = Sequence[tuple[str, str]]


class InMemoryNetwork:
    """Brokers joined by links: a chain of so many (B1, B2, …), or the tree that `edges` describe.

    `settings` are those of a broker's configuration file, the same for all brokers:
    `{"limits": {"credit_max": 10}}`.
    """

    def __init__(
        self,
        brokers: int | Iterable[str] = 1,
        edges: Edges | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        names = [f"B{n + 1}" for n in range(brokers)] if isinstance(brokers, int) else [*brokers]
        if edges is not None:
            names = list(dict.fromkeys(name for edge in edges for name in edge)) or names
        self.brokers: tuple[str, ...] = tuple(names)
        """The names of the brokers."""

        self.edges: tuple[tuple[str, str], ...] = tuple(pairwise(names) if edges is None else edges)
        """The links between them."""

        _check_tree(self.brokers, self.edges)
        self._settings = settings or {}
        self._number = next(_numbers)
        self._running: dict[str, _RunningBroker] = {}
        self._incarnations = 0
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._loop = new_event_loop()
        self._thread = Thread(target=self._run, name=f"runnel-network-{self._number}", daemon=True)
        self._started = Event()

    # -- start and stop -------------------------------------------------------------------------------

    def start(self) -> InMemoryNetwork:
        """Start the brokers; return when every link is up."""
        self._thread.start()
        self._started.wait()
        try:
            self._call(self._start_all())
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop everything; clients that are still there lose their broker."""
        if self._loop.is_closed():
            return
        self._call(self._stop_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> InMemoryNetwork:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    # -- clients --------------------------------------------------------------------------------------

    def url(self, broker: str = "B1") -> str:
        """The address of a broker, for `runnel.connect` within this process."""
        if broker not in self.brokers:
            raise InputError(
                f"there is no broker {broker!r} here: use one of {', '.join(self.brokers)}"
            )
        return f"{SCHEME}://network-{self._number}/{broker}"

    def connect(self, broker: str = "B1", **options: Any) -> Client:
        """A client of one of the brokers, as from `runnel.connect`, with the same options."""
        return connect(self.url(broker), **options)

    def connect_blocking(self, broker: str = "B1", **options: Any) -> blocking.BlockingClient:
        """A client for code without a loop, as from `runnel.blocking.connect`, with the same options."""
        return blocking.connect(self.url(broker), **options)

    # -- waiting --------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Return when all links are up and brokers have passed on everything that they have received.

        Then every subscription, advertisement and publication that a broker had received before has reached all brokers
        that it is for, and publications have been written to the clients.
        """
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._settle(), self._loop))

    def settle_blocking(self) -> None:
        """The same, for code without a loop."""
        self._call(self._settle())

    # -- faults ---------------------------------------------------------------------------------------

    def break_connections(self, broker: str | None = None) -> None:
        """Break all connections that a broker, or every broker, has accepted; nothing is lost, all dial again."""
        names = self.brokers if broker is None else (broker,)
        self._call(self._break(names))

    def kill(self, broker: str) -> None:
        """Let a broker crash; everything that it knows is lost."""
        self._call(self._kill(broker))

    def restart(self, broker: str) -> None:
        """Start a broker again, after `kill`; it knows nothing, and its neighbours connect to it by themselves."""
        self._call(self._restart(broker))

    # -- inside, on the network's loop ----------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._started.set)
        self._loop.run_forever()

    def _call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the network's loop, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(START_TIMEOUT_S)

    async def _start_all(self) -> None:
        for name in self.brokers:
            self._running[name] = self._make(name)
        for running in self._running.values():
            running.start()
        await self._wait_until(self._at_rest)

    def _make(self, name: str) -> _RunningBroker:
        neighbours = {two: "in-memory:1" for one, two in self.edges if one == name}
        accept = [one for one, two in self.edges if two == name]
        links = {"ack_every": 1} | self._settings.get("link", {})
        config = read_config(
            {
                **self._settings,
                "name": name,
                "neighbours": neighbours,
                "accept": accept,
                "link": links,
            }
        )
        self._incarnations += 1
        return _RunningBroker(
            config, new_incarnation() + self._incarnations, self.url, self._check_waiters
        )

    async def _stop_all(self) -> None:
        for running in self._running.values():
            running.stop()
        self._running.clear()
        for _ in range(3):  # let callbacks that are scheduled run
            await asyncio.sleep(0)

    async def _break(self, names: Iterable[str]) -> None:
        for name in names:
            self._running[name].listener.break_connections()

    async def _kill(self, name: str) -> None:
        running = self._running.pop(name)
        running.listener.break_connections()
        running.stop()

    async def _restart(self, name: str) -> None:
        if name in self._running:
            raise InputError(f"{name} is running: kill it first")
        self._running[name] = self._make(name)
        self._running[name].start()

    async def _settle(self) -> None:
        await self._wait_until(self._at_rest)

    async def _wait_until(self, holds: Callable[[], bool]) -> None:
        if not holds():
            future: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append((holds, future))
            await future

    def _check_waiters(self) -> None:
        """Wake those whose condition holds now, after something has happened in a broker."""
        for entry in list(self._waiting):
            holds, future = entry
            if future.done() or holds():
                self._waiting.remove(entry)
                if not future.done():
                    future.set_result(None)

    def _at_rest(self) -> bool:
        edges = {frozenset(edge) for edge in self.edges}
        for name, running in self._running.items():
            links = running.broker.links
            for other in self._running:
                linked = other in links and links[other].established
                if frozenset((name, other)) in edges and not linked:
                    return False
            for link in links.values():
                if link.waiting_bytes or (link.is_neighbour and link.flying_bytes):
                    return False
        return True


class _RunningBroker:
    """A broker, the driver that runs it, and where it listens."""

    def __init__(
        self,
        config: NodeConfig,
        incarnation: int,
        url: Callable[[str], str],
        look: Callable[[], None],
    ) -> None:
        self.broker: Broker = make_node_broker(config, incarnation, url(config.name))
        self.driver = _WatchedDriver(self.broker, MemoryDialler(url), look)
        self.listener = MemoryListener(url(config.name), self.driver)

    def start(self) -> None:
        """Dial the neighbours."""
        self.driver.start()

    def stop(self) -> None:
        """Stop without farewells."""
        self.listener.close()
        self.driver.stop()


class _WatchedDriver(Driver):
    """A driver that calls `look` after each event, and ignores events once it was stopped."""

    machine: Broker

    def __init__(self, broker: Broker, dialler: MemoryDialler, look: Callable[[], None]) -> None:
        super().__init__(broker, dialler, lambda effect: None)
        self._check_waiters = look
        self._stopped = False

    def start(self) -> None:
        """Start the broker."""
        self.perform(self.machine.start(monotonic_ns()))

    def perform(self, effects: Iterable[Any]) -> None:
        """Carry out effects, unless it was stopped."""
        if not self._stopped:
            super().perform(effects)
            self._check_waiters()

    def stop(self) -> None:
        """No more events."""
        super().stop()
        self._stopped = True


def _check_tree(brokers: Sequence[str], edges: Edges) -> None:
    """Raise InputError unless the edges form no loop: brokers must be joined in a tree."""
    group = {name: name for name in brokers}

    def root(name: str) -> str:
        while group[name] != name:
            name = group[name]
        return name

    for one, two in edges:
        if root(one) == root(two):
            raise InputError(f"the link {one} – {two} closes a loop: brokers are joined in a tree")
        group[root(one)] = root(two)
