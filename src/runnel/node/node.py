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
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from runnel.broker.broker import Broker
from runnel.broker.effects import Exit, Trace
from runnel.broker.events import Event, StopAsked
from runnel.errors import InputError
from runnel.matching import engine_note
from runnel.net.addresses import Address, parse_address
from runnel.net.driver import Connection, Driver
from runnel.net.loops import LOOP_NAME
from runnel.net.tcp import TcpConnection, TcpDialler
from runnel.node.compose import make_broker, make_trace, new_incarnation
from runnel.node.config import NodeConfig
from runnel.node.limiter import LimitedConnection, Limiter
from runnel.node.logs import fields, make_log
from runnel.node.wording import Wording
from runnel.version import __version__

if TYPE_CHECKING:
    from runnel.trace.setup import NodeTrace

DRAINED, NOT_DRAINED, BUG, AT_ONCE = 0, 1, 70, 130
DROPS_TOLD_EVERY_S = 1.0
CLOSED_WITHIN_S = 1.0  # how long peers may take to read their farewell
BACKLOG = 1_024
IN_LINKS = frozenset({"link-up", "link-lost"})  # what a trace has in its table of links
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class NodeDriver(Driver):
    """A driver that knows when its last connection is gone, and may limit what is sent."""

    def __init__(self, node: Node, dialler: TcpDialler) -> None:
        super().__init__(node.broker, dialler, node.told)
        self._node = node
        rate = node.config.limits.output_bytes_per_s
        self._limiter = Limiter.on_loop(rate) if rate else None
        self._limited: dict[int, LimitedConnection] = {}
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def opened(self, connection: Connection, peer: str | None = None) -> int:
        """A connection is open."""
        self._open += 1
        self._idle.clear()
        if self._limiter is None:
            return super().opened(connection, peer)
        limited = LimitedConnection(connection, self._limiter)
        conn = super().opened(limited, peer)
        self._limited[conn] = limited
        return conn

    def closed(self, conn: int) -> None:
        """A connection is gone, whoever ended it."""
        self._open -= 1
        if limited := self._limited.pop(conn, None):
            limited.drop()
        super().closed(conn)
        if not self._open:
            self._idle.set()

    def failed(self, peer: str, reason: str = "") -> None:
        """A neighbour could not be dialled; the broker will try again."""
        self._node.dial_failed(peer, reason)
        super().failed(peer, reason)

    async def idle(self) -> None:
        """Until no connection is open."""
        await self._idle.wait()


class Node:
    """One broker process; see the top of the file."""

    def __init__(self, config: NodeConfig, log: Logger | None = None) -> None:
        self.config = config
        self.log = log or make_log(config.name, config.log.level, config.log.format)
        self.broker: Broker
        self._exit_code: asyncio.Future[int]
        self._driver: NodeDriver
        self._server: asyncio.Server
        self._stopping = False
        self._unreachable: set[str] = set()
        self._drops: Counter[str] = Counter()
        self._wording = Wording()
        self._trace: NodeTrace | None = None

    # -- life -----------------------------------------------------------------------------------------

    async def start(self) -> Address:
        """Take the port, dial the neighbours, accept. Where it listens: the port may have been any."""
        loop = asyncio.get_running_loop()
        self._exit_code = loop.create_future()
        bound = _bind(self.config.address)
        address = Address(self.config.address.host, bound.getsockname()[1])
        incarnation = new_incarnation()
        self._trace = make_trace(self.config, incarnation, self._trace_complains)
        if self._trace is not None:
            self._trace.start()
        self.broker = make_broker(self.config, incarnation, str(address), self._trace)
        peers = {name: parse_address(at) for name, at in self.config.neighbours.items()}
        self._driver = NodeDriver(self, TcpDialler(peers.__getitem__))
        loop.set_exception_handler(self._unforeseen)
        for number in SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        self._driver.perform(self.broker.start(monotonic_ns()))
        # Whoever connected since the port was bound has waited: the broker sees nobody before it has started.
        self._server = await loop.create_server(lambda: TcpConnection(self._driver), sock=bound)
        self._note(
            "listening",
            address=str(address),
            version=__version__,
            loop=LOOP_NAME,
            engine=engine_note(),
        )
        return address

    async def serve(self) -> int:
        """Until it is told to stop, or must; the exit code."""
        loop = asyncio.get_running_loop()
        try:
            code = await self._exit_code
            self._server.close()
            self._driver.stop()
            if code in (DRAINED, NOT_DRAINED):
                await self._farewells_read()
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)
        self._tell_drops()
        if self._trace is not None and not self._trace.stop(self.broker):
            self._note("trace-not-written", WARNING, dir=self.config.trace.dir)
        self._note("stopped", exit_code=code)
        return code

    def stop(self) -> None:
        """Drain, then end; once."""
        if self._stopping:
            return
        self._stopping = True
        self._note("draining", within_s=self.config.drain_s)
        loop = asyncio.get_running_loop()
        loop.call_later(self.config.drain_s, self._drain_took_too_long)
        self._driver.handle(StopAsked())

    # -- what ends it ---------------------------------------------------------------------------------

    def _end(self, code: int) -> None:
        if not self._exit_code.done():
            self._exit_code.set_result(code)

    def _signalled(self, number: int) -> None:
        name = signal.Signals(number).name
        self._note("signal", signal=name)
        if self._stopping:
            self._end(AT_ONCE)
        else:
            self.stop()

    def _drain_took_too_long(self) -> None:
        if not self._exit_code.done():
            links = self.broker.links.values()
            waiting = {link.name: link.waiting_bytes + link.flying_bytes for link in links}
            lagging = sorted(name for name, size in waiting.items() if size)
            self._note("drain-given-up", WARNING, peers=lagging, bytes=sum(waiting.values()))
            self._end(NOT_DRAINED)

    async def _farewells_read(self) -> None:
        """Connections end after what was written to them; a peer that does not read is not waited for."""
        try:
            async with asyncio.timeout(CLOSED_WITHIN_S):
                await self._driver.idle()
        except TimeoutError:
            self._note("not-closed", WARNING, within_s=CLOSED_WITHIN_S)

    def _unforeseen(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something raised in a callback. What the network does is not ours; everything else ends the node."""
        error = context.get("exception")
        message = context.get("message", "")
        if isinstance(error, OSError):
            self._note("network-error", WARNING, error=str(error), where=message)
            return
        self._driver.machine = _Dead()  # not one event more for a state that may be broken
        self.log.critical("bug", exc_info=error, extra=fields(error=str(error), where=message))
        self._end(BUG)

    # -- what is told ---------------------------------------------------------------------------------

    def told(self, effect: Any) -> None:
        """An effect that is no I/O."""
        if isinstance(effect, Trace):
            if self._trace is not None and effect.kind not in IN_LINKS:
                self._trace.told(effect.kind, effect.data)
            if effect.kind == "dropped":
                self._count_drops(effect.data["peer"], effect.data["count"])
                return
            if effect.kind == "link-up":
                self._unreachable.discard(effect.data["peer"])
            event, level, data = self._wording.entry(effect, self.broker.links)
            self._note(event, level, **data)
        elif isinstance(effect, Exit):
            self._end(DRAINED)

    def dial_failed(self, peer: str, reason: str) -> None:
        """Told once, not at every attempt; `link-up` tells the end of it."""
        if peer not in self._unreachable:
            self._unreachable.add(peer)
            address = parse_address(self.config.neighbours[peer])
            self._note("dial-failed", WARNING, peer=peer, address=str(address), reason=reason)

    def _count_drops(self, peer: str, count: int) -> None:
        """A peer that cannot keep up loses something at every turn: told once a second."""
        if not self._drops:
            asyncio.get_running_loop().call_later(DROPS_TOLD_EVERY_S, self._tell_drops)
        self._drops[peer] += count

    def _tell_drops(self) -> None:
        for peer, count in self._drops.items():
            self._note("dropped", WARNING, peer=peer, count=count)
        self._drops.clear()

    def _trace_complains(self, message: str) -> None:
        """Files cannot be written; the broker goes on without them. Called in the writer's thread."""
        self.log.warning("trace-fails", extra=fields(error=message))

    def _note(self, event: str, level: int = INFO, /, **named: Any) -> None:
        self.log.log(level, event, extra=fields(**named))


class _Dead:
    """What takes the place of a broker in which something unforeseen happened."""

    def handle(self, event: Event, now: int) -> tuple[()]:
        """Nothing happens any more."""
        return ()


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
