"""A node: one broker as a process, from listening to the exit code.

    start    take the port, start the broker, dial the neighbours, accept
    serve    until told to stop; the result is the exit code
    stop     drain: publishers get no more credit, what waits goes out, everybody is told farewell. It listens until
             then, or a peer whose connection breaks could not come back for what is its own

Exit codes: 0 drained; 1 stopped, but something could not be handed over within `drain_s`; 70 a bug, after a log entry
with everything known; 130 a second signal. A broker in which something went wrong that nobody foresaw does not go on:
neighbours and clients recover from a dead broker, not from one that half works.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections import Counter
from logging import INFO, WARNING, Logger
from typing import Any

from runnel.errors import InputError
from runnel.inspection.questions import OpenGeneration
from runnel.matching import engine_note
from runnel.net.addresses import Address
from runnel.net.loops import LOOP_NAME
from runnel.net.tcp import TcpConnection
from runnel.node.config import NodeConfig
from runnel.node.core import Core, CoreDriver
from runnel.node.doorman import Doorman
from runnel.node.limiter import Limiter
from runnel.node.logs import fields, make_log
from runnel.node.place import load_place, save_place
from runnel.version import __version__

DRAINED, NOT_DRAINED, BUG, AT_ONCE = 0, 1, 70, 130
DROPS_TOLD_EVERY_S = 1.0
CLOSED_WITHIN_S = 1.0  # how long peers may take to read their farewell
BACKLOG = 1_024
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Node:
    """One broker process; see the top of the file."""

    def __init__(self, config: NodeConfig, log: Logger | None = None) -> None:
        self.config = config
        self.log = log or make_log(config.name, config.log.level, config.log.format)
        self.address: Address
        self._cores: dict[int, Core] = {}  # by generation
        self.settled = 0  # the generation that it would have if it started anew
        self._receives_in = 0  # the generation of those who do not say where they belong
        self._exit_code: asyncio.Future[int]
        self._limiter: Limiter | None = None
        self._server: asyncio.Server
        self._stopping = False
        self._drops: Counter[str] = Counter()
        self._ending: set[asyncio.Future[None]] = set()

    # -- life -----------------------------------------------------------------------------------------

    async def start(self) -> Address:
        """Take the port, dial the neighbours, accept. Where it listens: the port may have been any."""
        loop = asyncio.get_running_loop()
        self._exit_code = loop.create_future()
        place = load_place(self.config.state, self.config.name)
        place = place or OpenGeneration(1, dict(self.config.neighbours))
        bound = _bind(self.config.address)
        self.address = Address(self.config.address.host, bound.getsockname()[1])
        rate = self.config.limits.output_bytes_per_s
        self._limiter = Limiter.on_loop(rate) if rate else None
        loop.set_exception_handler(self._unforeseen)
        for number in SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        self.settled = self._receives_in = place.generation
        self.open(place)
        # Whoever connected since the port was bound has waited: the broker sees nobody before it has started.
        self._server = await loop.create_server(self._accept, sock=bound)
        self.note(
            "listening",
            address=str(self.address),
            generation=place.generation,
            version=__version__,
            loop=LOOP_NAME,
            engine=engine_note(),
        )
        return self.address

    def _accept(self) -> TcpConnection:
        if len(self._cores) > 1:
            return Doorman(self._driver_of)
        return TcpConnection(self._driver_of(0))

    def _driver_of(self, generation: int) -> CoreDriver:
        return (self._cores.get(generation) or self._cores[self._receives_in]).driver

    async def serve(self) -> int:
        """Until it is told to stop, or must; the exit code."""
        loop = asyncio.get_running_loop()
        try:
            code = await self._exit_code
            self._server.close()
            for core in self._cores.values():
                core.driver.stop()
            if code in (DRAINED, NOT_DRAINED):
                await self._farewells_read()
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)
        self._tell_drops()
        await asyncio.gather(*self._ending)
        for core in self._cores.values():
            core.end_trace()
        self.note("stopped", exit_code=code)
        return code

    def stop(self) -> None:
        """Drain, then end; once."""
        if self._stopping:
            return
        self._stopping = True
        self.note("draining", within_s=self.config.drain_s)
        loop = asyncio.get_running_loop()
        loop.call_later(self.config.drain_s, self._drain_took_too_long)
        for core in list(self._cores.values()):
            core.drain()

    # -- generations ----------------------------------------------------------------------------------

    def open(self, order: OpenGeneration) -> None:
        """Begin a generation, beside the one there is; nothing happens if it is there."""
        if order.generation in self._cores or self._stopping:
            return
        if len(self._cores) > 1:
            raise InputError(f"there are two generations here: {', '.join(map(str, self._cores))}")
        core = self._cores[order.generation] = Core(self, order, self._limiter)
        core.start()
        if len(self._cores) > 1:
            self.note("generation-opened", generation=order.generation, dials=list(order.dials))

    def close(self, generation: int) -> None:
        """End one of two generations; the other is this node's from now on, also if it starts anew."""
        core = self._cores.get(generation)
        if core is None:
            return
        others = [one for one in self._cores.values() if one is not core]
        if not others:
            raise InputError(f"generation {generation} is the only one here: stop the broker")
        self.settled = self._receives_in = others[0].generation
        if not self.config.state:
            self.note("place-not-saved", WARNING, hint="set `state` to a file")
        save_place(self.config.state, self.config.name, others[0].order)
        # Not now: this may be said through the very broker that is to end.
        asyncio.get_running_loop().call_soon(core.drain)

    def receive_in(self, generation: int) -> None:
        """Clients that do not say where they belong belong there."""
        if generation in self._cores:
            self._receives_in = generation

    def has_drained(self, core: Core) -> None:
        """A core has handed on what it had."""
        if len(self._cores) == 1:
            self._end(DRAINED)
            return
        del self._cores[core.generation]
        core.driver.stop()
        self.note("generation-closed", generation=core.generation)
        # Files are written meanwhile in another thread: nobody waits for an old trace.
        loop = asyncio.get_running_loop()
        ending = loop.run_in_executor(None, core.end_trace)
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    # -- what ends it ---------------------------------------------------------------------------------

    def _end(self, code: int) -> None:
        if not self._exit_code.done():
            self._exit_code.set_result(code)

    def _signalled(self, number: int) -> None:
        name = signal.Signals(number).name
        self.note("signal", signal=name)
        if self._stopping:
            self._end(AT_ONCE)
        else:
            self.stop()

    def _drain_took_too_long(self) -> None:
        if not self._exit_code.done():
            links = [link for one in self._cores.values() for link in one.broker.links.values()]
            waiting = {link.name: link.waiting_bytes + link.flying_bytes for link in links}
            lagging = sorted(name for name, size in waiting.items() if size)
            self.note("drain-given-up", WARNING, peers=lagging, bytes=sum(waiting.values()))
            self._end(NOT_DRAINED)

    async def _farewells_read(self) -> None:
        """Connections end after what was written to them; a peer that does not read is not waited for."""
        try:
            async with asyncio.timeout(CLOSED_WITHIN_S):
                for core in self._cores.values():
                    await core.driver.idle()
        except TimeoutError:
            self.note("not-closed", WARNING, within_s=CLOSED_WITHIN_S)

    def _unforeseen(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something raised in a callback. What the network does is not ours; everything else ends the node."""
        error = context.get("exception")
        message = context.get("message", "")
        if isinstance(error, OSError):
            self.note("network-error", WARNING, error=str(error), where=message)
            return
        for core in self._cores.values():
            core.die()
        self.log.critical("bug", exc_info=error, extra=fields(error=str(error), where=message))
        self._end(BUG)

    # -- what is told ---------------------------------------------------------------------------------

    def count_drops(self, peer: str, count: int) -> None:
        """A peer that cannot keep up loses something at every turn: told once a second."""
        if not self._drops:
            asyncio.get_running_loop().call_later(DROPS_TOLD_EVERY_S, self._tell_drops)
        self._drops[peer] += count

    def _tell_drops(self) -> None:
        for peer, count in self._drops.items():
            self.note("dropped", WARNING, peer=peer, count=count)
        self._drops.clear()

    def trace_complains(self, message: str) -> None:
        """Files cannot be written; the broker goes on without them. Called in the writer's thread."""
        self.log.warning("trace-fails", extra=fields(error=message))

    def note(self, event: str, level: int = INFO, /, **named: Any) -> None:
        """Write something into the log."""
        self.log.log(level, event, extra=fields(**named))


def _bind(address: Address) -> socket.socket:
    """Take the port, or say why not and what to do."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"listen: {address} is taken: another broker may be running there; "
                "choose another port, or 0 for any that is free"
            ) from None
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise InputError(f"listen: cannot listen on {address}: {reason}") from None
