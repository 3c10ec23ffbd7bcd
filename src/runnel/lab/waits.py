"""How long publications wait for the output of the broker that hands them to clients.

A trace follows a publication up to the client's queue. Where bandwidth is limited, what is in that queue leaves one
after the other: with 4 ms for each, the last of 200 clients has it 800 ms later. This adds that up.

Whoever is not held by the bandwidth but by a link whose window is full is not counted: that is where brokers are
overloaded, and a delay has no end.
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.broker.broker import Broker
from runnel.sim.world import Host, World
from runnel.wire.header import LENGTH_BYTES, PUBLICATION_TAG


class Waits:
    """From `begin` to `end`: how many publications went to clients, and how long all of them waited."""

    def __init__(self, world: World) -> None:
        self.count = self.total_ns = 0
        self._world = world
        self._neighbours: frozenset[int] = frozenset()  # connections between brokers

    def begin(self) -> None:
        """Everybody is there; look on from now."""
        self._neighbours = frozenset(
            link.conn
            for broker in self._world.brokers
            for link in broker.links.values()
            if not link.is_client
        )
        self._world.on_write = self._wrote

    def end(self) -> None:
        """Look away."""
        self._world.on_write = None

    @property
    def mean_ns(self) -> float:
        """On average; 0 where nothing limits the output."""
        return self.total_ns / self.count if self.count else 0.0

    def _wrote(
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
