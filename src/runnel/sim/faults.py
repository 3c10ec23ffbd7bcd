"""Faults: what can go wrong in a world, each counted when it really did.

cut         a connection breaks and comes back soon: the link resumes, nothing is lost
reset       a cut that lasts longer than a link is kept: routes are purged and exchanged again
half-open   bytes vanish and nobody is told: heartbeats must find out
crash       a broker loses everything and starts anew, empty
slow        a client stops reading: its queue fills up to the cap, the oldest go, counted
delay       messages take much longer for a while
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from runnel.broker.broker import Broker
from runnel.client.session import Session
from runnel.sim.campaign import Fault
from runnel.sim.checkers import Checker
from runnel.sim.model import process_of
from runnel.sim.world import Host, World


class Faults:
    """Brings faults about and ends them."""

    def __init__(self, world: World, checker: Checker, restart: Callable[[str], None]) -> None:
        self._world = world
        self._checker = checker
        self._restart = restart
        self.fired: Counter[str] = Counter()

    def strike(self, fault: Fault) -> None:
        """Let a fault happen now, if there is anything for it to happen to."""
        random = Random(fault.pick)
        match fault.kind:
            case "crash":
                self._crash(random, fault.length_ns)
            case "slow":
                self._slow(random, fault.length_ns)
            case kind:
                self._on_a_wire(kind, random, fault.length_ns)

    def _crash(self, random: Random, length_ns: int) -> None:
        hosts = [h.name for h in self._world.hosts.values() if isinstance(h.machine, Broker)]
        if hosts:
            self.crash(random.choice(hosts), length_ns)

    def crash(self, name: str, length_ns: int) -> None:
        """Let the process of a broker crash, if it runs."""
        process = process_of(name)
        hosts = [h for h in self._world.hosts.values() if process_of(h.name) == process]
        hosts = [host for host in hosts if isinstance(host.machine, Broker)]
        for host in hosts:
            self._checker.excuse(host.name)
            self._checker.disturb(host.name)
            self._world.crash(host)
        if hosts:
            self._world.at(self._world.now + length_ns, self._restart, process)
            self.fired["crash"] += 1

    def _slow(self, random: Random, length_ns: int) -> None:
        hosts = [h for h in self._world.hosts.values() if isinstance(h.machine, Session)]
        hosts = [host for host in hosts if host.reads]
        if hosts:
            host = random.choice(hosts)
            host.reads = False
            self._world.at(self._world.now + length_ns, self._read_again, host, host.incarnation)
            self.fired["slow"] += 1

    def _read_again(self, host: Host, incarnation: int) -> None:
        if host.incarnation == incarnation:
            self._world.read_again(host)

    def _on_a_wire(self, kind: str, random: Random, length_ns: int) -> None:
        ends = self._draw_link(random)
        if ends is None:
            return
        world, (one, other) = self._world, ends
        wire = world.network.wire(one, other)
        if kind == "delay":
            wire.extra_ns += length_ns
            world.at(world.now + length_ns, self._undelay, one, other, length_ns)
            self.fired["delay"] += 1
            return
        self._checker.excuse(one, other)
        wire.cut += 1
        again = random.choice((0, 0, 1, 2, 2, 3, 4))
        world.at(world.now + length_ns, self._mend, one, other, again)
        act = world.network.silence if kind == "half-open" else world.network.break_connections
        if act(one, other):
            self.fired[kind] += 1

    def _draw_link(self, random: Random) -> tuple[str, str] | None:
        links = [
            (broker.name, link.name)
            for broker in self._world.brokers
            for link in broker.links.values()
            if link.kind == "client" or broker.name < link.name
        ]
        return random.choice(links) if links else None

    def _undelay(self, one: str, other: str, length_ns: int) -> None:
        self._world.network.wire(one, other).extra_ns -= length_ns

    def _mend(self, one: str, other: str, breaks_after: int) -> None:
        wire = self._world.network.wire(one, other)
        wire.cut -= 1
        wire.breaks_after = breaks_after
