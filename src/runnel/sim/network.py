"""The simulated network: connections with latency and bandwidth, and all that can go wrong with them.

Between two hosts there is a `Wire` (latency each way, bandwidth, whether it is cut); connections run over it. Each
direction of a connection is first in, first out. When a wire is cut, its connections break: what was under way is
lost, both ends are told after different delays, and dialling fails until the cut ends. A half-open connection drops
everything without an error: only heartbeats can detect it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from runnel.broker.events import Connected, Disconnected, Event, FramesArrived
from runnel.quantities import MILLISECOND, SECOND

if TYPE_CHECKING:
    from runnel.sim.world import Host

SEGMENT_BYTES = 1_400  # a longer write arrives in parts, so that the peer is not silent meanwhile
_SPLIT_BITS = 5  # one chunk in 2**5 arrives in two pieces


class Wire:
    """What lies between two hosts."""

    __slots__ = ("breaks_after", "bytes_per_second", "cut", "ends", "extra_ns", "latencies")

    def __init__(
        self, ends: tuple[str, str], latencies: tuple[int, int], bytes_per_second: int
    ) -> None:
        self.ends = ends
        self.latencies = latencies  # from the first end, and from the second
        self.bytes_per_second = bytes_per_second
        self.cut = 0  # how many faults cut it at the moment
        self.extra_ns = 0  # a delay spike
        # Breaks once more, after so many chunks: in the middle of a handshake.
        self.breaks_after = 0

    @property
    def latency_ns(self) -> int:
        """The longer of the two."""
        return max(self.latencies)

    def latency_from(self, host: str) -> int:
        """The latency from one of the hosts to the other."""
        return self.latencies[host != self.ends[0]]


class SimulatedConnection:
    """Two ends over one wire."""

    __slots__ = ("broken", "ends", "wire")

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.broken = False  # drops everything
        self.ends: list[End] = []


class End:
    """One end: its host, and the direction that leads away from it."""

    __slots__ = (
        "connection",
        "free_at",
        "host",
        "id",
        "incarnation",
        "last_at",
        "latency_ns",
        "open",
        "peer",
    )

    def __init__(self, id: int, host: Host, connection: SimulatedConnection) -> None:
        self.id = id
        self.host = host
        self.incarnation = host.incarnation
        self.connection = connection
        self.latency_ns = connection.wire.latency_from(host.name)
        self.open = True
        self.free_at = 0  # when the bytes written so far have left
        self.last_at = 0  # when they arrive
        self.peer: End


class SimulatedNetwork:
    """All wires and connections. `at` schedules, `arrive` hands an event to a host."""

    def __init__(
        self,
        random: Random,
        now: Callable[[], int],
        at: Callable[..., None],
        arrive: Callable[[Host, int, Event], None],
    ) -> None:
        self._random = random
        self._draw_bits = random.getrandbits
        self._now = now
        self._at = at
        self._arrive = arrive
        self._wires: dict[tuple[str, str], Wire] = {}
        self._ends: dict[int, End] = {}
        self._unread: dict[int, list[bytes]] = {}  # by sending end, for a peer that reads rarely
        self._last_id = 0
        self.latency_ns_max = 20 * MILLISECOND
        self.bytes_per_second = 0
        self._drawn: dict[tuple[str, str], int] = {}
        self.latency_of: Callable[[str, str], int] = self._draw_latency  # from one to the other
        self.splits = True  # some chunks arrive in two pieces

    def wire(self, one: str, other: str) -> Wire:
        """What lies between two hosts, made when first asked for."""
        key = (one, other) if one < other else (other, one)
        wire = self._wires.get(key)
        if wire is None:
            latencies = self.latency_of(*key), self.latency_of(*reversed(key))
            wire = self._wires[key] = Wire(key, latencies, self.bytes_per_second)
        return wire

    def _draw_latency(self, one: str, other: str) -> int:
        """The same both ways."""
        key = (one, other) if one < other else (other, one)
        if key not in self._drawn:
            self._drawn[key] = self._random.randrange(MILLISECOND // 10, self.latency_ns_max)
        return self._drawn[key]

    def connections(self, one: str, other: str) -> list[SimulatedConnection]:
        """The open connections between two hosts."""
        return [
            end.connection
            for end in list(self._ends.values())
            if end.host.name == one and end.peer.host.name == other
        ]

    # -- connections and writes -----------------------------------------------------------------------

    def dial(self, host: Host, peer: Host | None, where: str, name: str) -> None:
        """Open a connection to the host of the name `where`, or fail after a while; `name` is whom the dial is for."""
        wire = self.wire(host.name, where)
        delay = wire.latency_from(host.name) + wire.extra_ns
        self._at(self._now() + delay, self._finish_dial, host, host.incarnation, peer, where, name)

    def _finish_dial(
        self, host: Host, incarnation: int, peer: Host | None, where: str, name: str
    ) -> None:
        wire = self.wire(host.name, where)
        delay = wire.latency_from(where) + wire.extra_ns
        if wire.cut or peer is None or peer.machine is None or host.incarnation != incarnation:
            failed = Disconnected(0, name)
            self._at(self._now() + delay, self._arrive, host, incarnation, failed)
            return
        connection = SimulatedConnection(wire)
        near, far = (self._new_end(side, connection) for side in (host, peer))
        connection.ends = [near, far]
        near.peer, far.peer = far, near
        far.last_at = self._now() + delay
        self._arrive(peer, peer.incarnation, Connected(far.id))
        self._at(far.last_at, self._open, near, name)

    def _new_end(self, host: Host, connection: SimulatedConnection) -> End:
        self._last_id += 1
        end = self._ends[self._last_id] = End(self._last_id, host, connection)
        return end

    def _open(self, near: End, name: str) -> None:
        if near.connection.broken or not near.open:
            near.open = False
            self._ends.pop(near.id, None)
            self._arrive(near.host, near.incarnation, Disconnected(0, name))
        else:
            self._arrive(near.host, near.incarnation, Connected(near.id, name))

    def send(self, conns: Sequence[int], chunk: bytes, not_before: int) -> None:
        """Write the same to connections, of which some may be gone."""
        unread = self._unread
        for conn in conns:
            if conn in unread:  # the peer will look soon, and read this with the rest
                unread[conn].append(chunk)
            else:
                self._send(conn, chunk, not_before)

    def _send(self, conn: int, chunk: bytes, not_before: int) -> None:
        end = self._ends.get(conn)
        if end is None or not end.open or end.connection.broken:
            return
        peer, wire = end.peer, end.connection.wire
        if len(chunk) > SEGMENT_BYTES or wire.breaks_after or peer.host.reads_every_ns:
            self._send_slowly(end, wire, chunk, not_before)
            return
        if self.splits or wire.bytes_per_second:
            self._send_segment(end, chunk, not_before)
            return
        # `_send_segment`, written out: this is for every message
        begin = not_before if not_before > end.free_at else end.free_at
        end.free_at = begin
        at = begin + end.latency_ns + wire.extra_ns
        if at < end.last_at:
            at = end.last_at
        else:
            end.last_at = at
        self._at(at, self._bytes_arrive, peer, chunk)

    def _send_slowly(self, end: End, wire: Wire, chunk: bytes, not_before: int) -> None:
        """Send what is long, or meets a fault, or goes to a peer that reads rarely."""
        peer = end.peer
        if peer.host.reads_every_ns:
            # Everything that is sent until the peer reads is read at once.
            at = self._arrival(end, len(chunk), not_before)
            self._at(at + peer.host.reads_every_ns, self._read, peer)
            self._unread[end.id] = [chunk]
            return
        if len(chunk) <= SEGMENT_BYTES:
            self._send_segment(end, chunk, not_before)
        else:
            for start in range(0, len(chunk), SEGMENT_BYTES):
                self._send_segment(end, chunk[start : start + SEGMENT_BYTES], not_before)
        if wire.breaks_after:
            wire.breaks_after -= 1
            if not wire.breaks_after:
                self._at(self._now(), self.break_connections, *wire.ends)

    def read_all(self, host: Host | None = None) -> None:
        """Let a host that reads rarely, or all of them, read now."""
        for end in list(self._ends.values()):
            if host is None or end.host is host:
                self._read(end)

    def _read(self, end: End) -> None:
        unread = self._unread.pop(end.peer.id, None)
        if unread is not None:
            self._bytes_arrive(end, unread[0] if len(unread) == 1 else b"".join(unread))

    def _send_segment(self, end: End, chunk: bytes, not_before: int) -> None:
        at = self._arrival(end, len(chunk), not_before)
        if self.splits and not self._draw_bits(_SPLIT_BITS) and len(chunk) > 1:
            cut = self._random.randrange(1, len(chunk))
            self._at(at, self._bytes_arrive, end.peer, chunk[:cut])
            end.last_at = at = at + 1
            chunk = chunk[cut:]
        self._at(at, self._bytes_arrive, end.peer, chunk)

    def _arrival(self, end: End, size: int, not_before: int) -> int:
        wire = end.connection.wire
        begin = not_before if not_before > end.free_at else end.free_at
        if wire.bytes_per_second:
            begin += size * SECOND // wire.bytes_per_second
        end.free_at = begin
        at = begin + end.latency_ns + wire.extra_ns
        if at < end.last_at:
            return end.last_at
        end.last_at = at
        return at

    def _bytes_arrive(self, end: End, chunk: bytes) -> None:
        if end.open and not end.connection.broken:
            self._arrive(end.host, end.incarnation, FramesArrived(end.id, chunk))

    def close(self, conn: int, not_before: int) -> None:
        """Close one end; the other is told after everything that was written before has arrived."""
        end = self._ends.pop(conn, None)
        if end is None or not end.open:
            return
        end.open = False
        if not end.connection.broken:
            self._at(self._arrival(end, 0, not_before), self._hang_up, end.peer)

    def _hang_up(self, end: End) -> None:
        if end.open:
            self._read(end)
            end.open = False
            self._ends.pop(end.id, None)
            self._arrive(end.host, end.incarnation, Disconnected(end.id))

    # -- faults ---------------------------------------------------------------------------------------

    def break_connections(self, one: str, other: str) -> int:
        """Break the connections between two hosts: what is under way is lost, and each end is told later."""
        connections = self.connections(one, other)
        for connection in connections:
            connection.broken = True
            for end in connection.ends:
                delay = self._random.randrange(2 * connection.wire.latency_ns)
                self._at(self._now() + delay, self._hang_up, end)
        return len(connections)

    def silence(self, one: str, other: str) -> int:
        """Make the connections between two hosts half-open."""
        connections = self.connections(one, other)
        for connection in connections:
            connection.broken = True
        return len(connections)

    def break_host(self, host: Host) -> None:
        """The connections of a host that crashed break; the operating system tells the peers."""
        for end in list(self._ends.values()):
            if end.host is host:
                end.connection.broken = True
                end.open = False
                del self._ends[end.id]
                delay = self._random.randrange(2 * end.connection.wire.latency_ns)
                self._at(self._now() + delay, self._hang_up, end.peer)
