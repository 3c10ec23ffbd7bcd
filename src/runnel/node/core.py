"""A core: the broker of one generation of the network, with its driver and its trace.

A node has one core, and two while the network is switched from one generation to another. They share the port, the
log and the output limiter, and are otherwise independent.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from logging import WARNING
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

import msgspec

from runnel.broker.effects import Exit, WriteTrace
from runnel.broker.events import Event, StopAsked
from runnel.broker.permits import Permit
from runnel.errors import InputError
from runnel.modules.generations.questions import OpenGeneration
from runnel.net.addresses import Address, parse_address
from runnel.net.driver import ByteStream, Driver, Machine
from runnel.net.tcp import TcpDialler, dial_without_tls
from runnel.node.gauges import NodeGauges
from runnel.node.limiter import LimitedConnection, Limiter
from runnel.node.metrics import MetricsSource
from runnel.node.slow import SlowBroker
from runnel.node.spec import make_node_broker, make_trace, new_incarnation
from runnel.node.wording import Wording
from runnel.quantities import MILLISECOND, SECOND

if TYPE_CHECKING:
    from runnel.node.node import Node

IN_LINKS = frozenset({"link-up", "link-lost"})  # in a trace, these are rows of the table of links


class CoreDriver(Driver):
    """A driver that knows when its last connection is closed, and may limit its output."""

    def __init__(
        self, core: Core, machine: Machine, dialler: TcpDialler, limiter: Limiter | None
    ) -> None:
        super().__init__(machine, dialler, core.handle_effect)
        self._core = core
        self._limiter = limiter
        self._limited: dict[int, LimitedConnection] = {}
        self._dialled: dict[int, str] = {}  # for whom
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def opened(
        self, connection: ByteStream, peer: str | None = None, permit: Permit | None = None
    ) -> int:
        """A connection is open."""
        self._open += 1
        self._idle.clear()
        limited = None if self._limiter is None else LimitedConnection(connection, self._limiter)
        conn = super().opened(limited or connection, peer, permit)
        if limited is not None:
            self._limited[conn] = limited
        if peer is not None:
            self._dialled[conn] = peer
        return conn

    def closed(self, conn: int, reason: str = "") -> None:
        """A connection is gone, whoever ended it; a neighbour that ends it with a reason has refused this broker."""
        self._open -= 1
        dialled = self._dialled.pop(conn, None)
        if dialled is not None and reason:
            self._core.log_dial_failure(dialled, reason)
        if limited := self._limited.pop(conn, None):
            limited.drop()
        super().closed(conn)
        if not self._open:
            self._idle.set()

    def failed(self, peer: str, reason: str = "") -> None:
        """A neighbour could not be dialled; the broker will try again."""
        self._core.log_dial_failure(peer, reason)
        super().failed(peer, reason)

    async def wait_until_idle(self) -> None:
        """Wait until no connection is open."""
        await self._idle.wait()


class Core:
    """See the top of the file. `order` says which generation it is, and which neighbours it dials."""

    def __init__(self, node: Node, order: OpenGeneration, limiter: Limiter | None) -> None:
        self.generation = order.generation
        self.order = order
        self._node = node
        self._unreachable: set[str] = set()
        self._wording = Wording()
        self._events: Counter[str] = Counter()  # what the broker has traced, by kind
        incarnation = new_incarnation()
        # Who is to dial it in a later generation the orders do not say.
        config = msgspec.structs.replace(node.config, neighbours=dict(order.dials))
        self._started_s = incarnation * MILLISECOND / SECOND
        address = str(node.address)
        self.trace = make_trace(config, incarnation, node.log_trace_failure, address)
        if self.trace is not None:
            self.trace.start()
        gauges = NodeGauges(limiter)
        admin = "" if node.admin_address is None else str(node.admin_address)
        self.broker = make_node_broker(
            config, incarnation, address, self.trace, node, order, gauges=gauges, admin=admin
        )
        machine: Machine = self.broker
        if config.limits.slows_matching:
            factor, delay_ns = config.limits.matching_delay_factor, config.limits.matching_delay_ns
            gauges.slow = machine = SlowBroker(self.broker, factor, delay_ns)
        is_secure = node.tls is not None
        self._peers = {
            name: parse_address(at)._replace(is_secure=is_secure)
            for name, at in order.dials.items()
        }
        secure = dial_without_tls if node.tls is None else node.tls.dial
        self.driver = CoreDriver(self, machine, TcpDialler(self._address_of, secure), limiter)

    def start(self) -> None:
        """Dial the neighbours."""
        self.driver.perform(self.broker.start(monotonic_ns()))

    def drain(self) -> None:
        """Hand on everything that waits, then end."""
        self.driver.handle(StopAsked())

    def die(self) -> None:
        """Stop handling events, because the broker's state may be broken."""
        self.driver.machine = _Dead()

    def end_trace(self) -> None:
        """Write what is left of the trace."""
        if self.trace is not None and not self.trace.stop(self.broker):
            self._node.note("trace-not-written", WARNING, dir=self._node.config.trace.dir)

    def metrics_source(self) -> MetricsSource:
        """What metrics are read from."""
        return MetricsSource(self.broker, self._events, self._started_s, self._node.tls)

    # -- what is told ---------------------------------------------------------------------------------

    def handle_effect(self, effect: Any) -> None:
        """Carry out an effect that is not I/O: log and trace it, or end."""
        if isinstance(effect, WriteTrace):
            self._events[effect.kind] += 1
            if self.trace is not None and effect.kind not in IN_LINKS:
                self.trace.record_note(effect.kind, effect.data)
            if effect.kind == "dropped":
                self._node.count_drops(effect.data["peer"], effect.data["count"])
                return
            if effect.kind == "link-up":
                self._unreachable.discard(effect.data["peer"])
            event, level, data = self._wording.log_entry(effect, self.broker.links)
            self._node.note(event, level, **data)
        elif isinstance(effect, Exit):
            self._node.has_drained(self)

    def _address_of(self, peer: str) -> Address:
        """The address of a neighbour by the configuration."""
        address = self._peers.get(peer)
        if address is None:
            raise InputError(f"nobody has said where {peer} listens")
        return address

    def log_dial_failure(self, peer: str, reason: str) -> None:
        """Log that a neighbour cannot be dialled: once, not at every attempt, until its link is up."""
        if peer not in self._unreachable:
            self._unreachable.add(peer)
            address = self.broker.dials.get(peer) or str(self._peers.get(peer, ""))
            self._node.note("dial-failed", WARNING, peer=peer, address=address, reason=reason)


class _Dead:
    """Takes the place of a broker in which an unforeseen error happened."""

    def handle(self, event: Event, now: int) -> tuple[()]:
        """Ignore the event."""
        return ()
