"""Faults: what can go wrong in a world; a fault is counted if it had an effect.

cut         a connection breaks and comes back soon: the link resumes, nothing is lost
reset       a cut that lasts longer than a link is kept: routes are purged and exchanged again
half-open   bytes vanish without an error: only heartbeats can detect it
crash       a broker loses everything and starts anew, empty
gone        a broker crashes and never starts again: the network continues in the parts that are left
slow        a client stops reading: its queue fills up to the cap, and the oldest publications are dropped
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
    """Begins and ends faults."""

    def __init__(self, world: World, checker: Checker, restart: Callable[[str], None]) -> None:
        self._world = world
        self._checker = checker
        self._restart = restart
        self.on_gone: Callable[[], None] = lambda: None
        self.fired: Counter[str] = Counter()

    def begin(self, fault: Fault) -> None:
        """Begin a fault, if there is anything that it can happen to."""
        random = Random(fault.pick)
        match fault.kind:
            case "crash":
                self._crash(random, fault.length_ns)
            case "gone":
                self._leave_for_ever(random)
            case "slow":
                self._slow(random, fault.length_ns)
            case kind:
                self._begin_on_wire(kind, random, fault.length_ns)

    def _crash(self, random: Random, length_ns: int) -> None:
        if hosts := self._running_brokers():
            self.crash(random.choice(hosts), length_ns)

    def _leave_for_ever(self, random: Random) -> None:
        hosts = [name for name in self._running_brokers() if name in self._checker.tree.neighbours]
        if len(hosts) > 1:  # or there would be no network left
            process = process_of(random.choice(hosts))
            self._kill(process)
            self._checker.note_gone(process)
            self.fired["gone"] += 1
            self.on_gone()

    def _running_brokers(self) -> list[str]:
        return [h.name for h in self._world.hosts.values() if isinstance(h.machine, Broker)]

    def crash(self, name: str, length_ns: int) -> None:
        """Let the process of a broker crash, if it runs."""
        process = process_of(name)
        if self._kill(process):
            self._world.at(self._world.now + length_ns, self._restart, process)
            self.fired["crash"] += 1

    def _kill(self, process: str) -> bool:
        """Crash everything that runs in a process; returns whether anything ran."""
        hosts = [h for h in self._world.hosts.values() if process_of(h.name) == process]
        hosts = [host for host in hosts if isinstance(host.machine, Broker)]
        for host in hosts:
            self._checker.excuse(host.name)
            self._checker.disturb(host.name)
            self._world.crash(host)
        return bool(hosts)

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

    def _begin_on_wire(self, kind: str, random: Random, length_ns: int) -> None:
        ends = self._draw_link(random)
        if ends is None:
            return
        world, (one, other) = self._world, ends
        wire = world.network.wire(one, other)
        if kind == "delay":
            wire.extra_ns += length_ns
            world.at(world.now + length_ns, self._end_delay, one, other, length_ns)
            self.fired["delay"] += 1
            return
        self._checker.excuse(one, other)
        wire.cut += 1
        again = random.choice((0, 0, 1, 2, 2, 3, 4))
        world.at(world.now + length_ns, self._repair_wire, one, other, again)
        act = world.network.silence if kind == "half-open" else world.network.break_connections
        if act(one, other):
            self.fired[kind] += 1

    def _draw_link(self, random: Random) -> tuple[str, str] | None:
        links = [
            (broker.name, link.name)
            for broker in self._world.brokers
            for link in broker.links.values()
            if link.is_client or broker.name < link.name
        ]
        return random.choice(links) if links else None

    def _end_delay(self, one: str, other: str, length_ns: int) -> None:
        self._world.network.wire(one, other).extra_ns -= length_ns

    def _repair_wire(self, one: str, other: str, breaks_after: int) -> None:
        wire = self._world.network.wire(one, other)
        wire.cut -= 1
        wire.breaks_after = breaks_after
