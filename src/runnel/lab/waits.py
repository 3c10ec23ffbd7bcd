"""How long publications wait for the output of the broker that hands them to clients.

A trace follows a publication up to the client's queue. Where bandwidth is limited, what is in that queue leaves one
after the other: with 4 ms for each, the last of 200 clients has it 800 ms later. This adds that up.

Waiting for the window of a link to open is not counted: this happens when brokers are overloaded, and then delays grow
without bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.broker.broker import Broker
from runnel.sim.world import Host, World
from runnel.wire.header import LENGTH_BYTES, PUBLICATION_TAG


class OutputWaits:
    """Counts publications that went to clients between `begin` and `end`, and how long they waited in all."""

    def __init__(self, world: World) -> None:
        self.count = self.total_ns = 0
        self._world = world
        self._neighbours: frozenset[int] = frozenset()  # connections between brokers

    def begin(self) -> None:
        """Start to count; all brokers are connected."""
        self._neighbours = frozenset(
            link.conn
            for broker in self._world.brokers
            for link in broker.links.values()
            if link.is_neighbour
        )
        self._world.on_write = self._count_wait

    def end(self) -> None:
        """Stop counting."""
        self._world.on_write = None

    @property
    def mean_ns(self) -> float:
        """The average wait; 0 if nothing limits the output."""
        return self.total_ns / self.count if self.count else 0.0

    def _count_wait(
        self, host: Host, conns: Sequence[int], frames: Sequence[bytes], began: int, each_ns: int
    ) -> None:
        """A host writes the same to connections, one after the other, from `began` on."""
        if type(host.machine) is not Broker or frames[0][LENGTH_BYTES] != PUBLICATION_TAG:
            return
        waited, count = began - self._world.now, len(conns)
        if self._neighbours.isdisjoint(conns):
            places = count * (count + 1) // 2
        else:
            clients = [n for n, conn in enumerate(conns, 1) if conn not in self._neighbours]
            places, count = sum(clients), len(clients)
        self.count += count * len(frames)
        self.total_ns += (count * waited + places * each_ns) * len(frames)
