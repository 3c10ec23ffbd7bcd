"""A core: the broker of one generation of the network, with its driver and its trace.

A node has one, and two while the network is being switched from one generation to another. They share the port, the
log and the limit on what may be sent, and know nothing of each other.
"""

from __future__ import annotations

import asyncio
from logging import WARNING
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

import msgspec

from runnel.broker.effects import Exit, Trace
from runnel.broker.events import Event, StopAsked
from runnel.inspection.questions import OpenGeneration
from runnel.net.addresses import parse_address
from runnel.net.driver import Connection, Driver
from runnel.net.tcp import TcpDialler
from runnel.node.compose import make_broker, make_trace, new_incarnation
from runnel.node.limiter import LimitedConnection, Limiter
from runnel.node.wording import Wording

if TYPE_CHECKING:
    from runnel.node.node import Node

IN_LINKS = frozenset({"link-up", "link-lost"})  # what a trace has in its table of links


class CoreDriver(Driver):
    """A driver that knows when its last connection is gone, and may limit what is sent."""

    def __init__(self, core: Core, dialler: TcpDialler, limiter: Limiter | None) -> None:
        super().__init__(core.broker, dialler, core.told)
        self._core = core
        self._limiter = limiter
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
        self._core.dial_failed(peer, reason)
        super().failed(peer, reason)

    async def idle(self) -> None:
        """Until no connection is open."""
        await self._idle.wait()


class Core:
    """One generation; see the top of the file. `order` says which, and which neighbours it dials."""

    def __init__(self, node: Node, order: OpenGeneration, limiter: Limiter | None) -> None:
        self.generation = order.generation
        self.order = order
        self._node = node
        self._unreachable: set[str] = set()
        self._wording = Wording()
        incarnation = new_incarnation()
        config = msgspec.structs.replace(node.config, neighbours=dict(order.dials))
        address = str(node.address)
        self.trace = make_trace(config, incarnation, node.trace_complains, address)
        if self.trace is not None:
            self.trace.start()
        self.broker = make_broker(config, incarnation, address, self.trace, node, order)
        self._peers = {name: parse_address(at) for name, at in order.dials.items()}
        self.driver = CoreDriver(self, TcpDialler(self._peers.__getitem__), limiter)

    def start(self) -> None:
        """Dial the neighbours."""
        self.driver.perform(self.broker.start(monotonic_ns()))

    def drain(self) -> None:
        """Hand on what there is, and end."""
        self.driver.handle(StopAsked())

    def die(self) -> None:
        """Not one event more for a state that may be broken."""
        self.driver.machine = _Dead()

    def end_trace(self) -> None:
        """Write what is left of the trace."""
        if self.trace is not None and not self.trace.stop(self.broker):
            self._node.note("trace-not-written", WARNING, dir=self._node.config.trace.dir)

    # -- what is told ---------------------------------------------------------------------------------

    def told(self, effect: Any) -> None:
        """An effect that is no I/O."""
        if isinstance(effect, Trace):
            if self.trace is not None and effect.kind not in IN_LINKS:
                self.trace.told(effect.kind, effect.data)
            if effect.kind == "dropped":
                self._node.count_drops(effect.data["peer"], effect.data["count"])
                return
            if effect.kind == "link-up":
                self._unreachable.discard(effect.data["peer"])
            event, level, data = self._wording.entry(effect, self.broker.links)
            self._node.note(event, level, **data)
        elif isinstance(effect, Exit):
            self._node.has_drained(self)

    def dial_failed(self, peer: str, reason: str) -> None:
        """Told once, not at every attempt; `link-up` tells the end of it."""
        if peer not in self._unreachable:
            self._unreachable.add(peer)
            address = str(self._peers[peer])
            self._node.note("dial-failed", WARNING, peer=peer, address=address, reason=reason)


class _Dead:
    """What takes the place of a broker in which something unforeseen happened."""

    def handle(self, event: Event, now: int) -> tuple[()]:
        """Nothing happens any more."""
        return ()
