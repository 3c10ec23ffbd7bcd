"""The brokers of a scenario in a simulated world, each with its trace; and what a scenario does to them later.

One matcher serves the whole world, and one recorder and writer the whole trace. The brokers are those that ship.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from runnel.broker.broker import Broker
from runnel.broker.config import BrokerConfig, client_link_config
from runnel.broker.links import LinkConfig
from runnel.broker.module import Context, Module
from runnel.lab.memory import attributes_of, kept_bytes
from runnel.lab.scenario import Change, Scenario
from runnel.lab.shapes import Shape
from runnel.placement.grape_module import Grape
from runnel.placement.migration import Migration
from runnel.placement.pop_module import Pop
from runnel.routing.tree import TreeConfig, TreeRouting
from runnel.sim.resources import Resources, memory_used
from runnel.sim.world import Host, Watcher, World
from runnel.trace.module import Gauges, Tracing
from runnel.trace.setup import Settings, WorldTrace

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
ACK_EVERY = 256
"""Frames: nobody waits for these acknowledgements, so they are rarer here than on a node."""


class LabWorld:
    """A world with the brokers of a scenario; clients are somebody else's business."""

    def __init__(self, scenario: Scenario, seed: int, directory: Path, watcher: Watcher) -> None:
        self.scenario = scenario
        self.shape: Shape = scenario.shape(seed)
        self.world = World(seed, watcher, logs=False)
        self.tracing: dict[str, Tracing] = {}
        self._modules: dict[str, tuple[Module, ...]] = {}  # besides tracing
        self._seed = seed
        self._resources = scenario.resources(self.shape)
        self._starts = 0
        self._neighbours: dict[str, list[str]] = {name: [] for name in self.shape.brokers}
        self._dials: dict[str, list[str]] = {name: [] for name in self.shape.brokers}
        for one, other in self.shape.links:
            self._dials[one].append(other)
            self._neighbours[one].append(other)
            self._neighbours[other].append(one)
        network = self.world.network
        network.splits = (
            False  # the real network's tricks are for tests of brokers, not for measuring
        )
        network.latency_of = self._latency
        network.bytes_per_second = scenario.network.bytes_per_s
        trace = scenario.trace
        settings = Settings(
            directory,
            sample=trace.sample,
            interval_ns=round(trace.interval_s * SECOND),
            publications=trace.publications,
            deliveries=trace.deliveries,
        )
        self.trace = WorldTrace(settings, lambda: self.world.now)

    def link_config(self, config: LinkConfig) -> LinkConfig:
        """The limits of a link, with the heartbeat of this network."""
        heartbeat_ns = round(self.scenario.network.heartbeat_s * SECOND)
        return LinkConfig(
            heartbeat_ns,
            10 * heartbeat_ns,
            config.window_bytes,
            config.queue_bytes_max,
            config.ack_every,
        )

    def _latency(self, one: str, other: str) -> int:
        network = self.scenario.network
        if one not in self._dials or other not in self._dials:
            return round(network.client_latency_ms * MILLISECOND)
        # Drawn by name: a link has the same latency whatever else there is.
        factor = Random(f"{self._seed}/latency/{one}/{other}").uniform(-1.0, 1.0)
        return round(network.latency_ms * (1 + network.latency_spread * factor) * MILLISECOND)

    # -- brokers --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all brokers; their links come up as time passes."""
        for name in self.shape.brokers:
            self._start(name)

    def _start(self, name: str) -> None:
        host = self.world.host(name, self._resources[name])
        self._starts += 1
        tree = TreeConfig(self.scenario.routing.covering, self.scenario.routing.advertisements)
        tracing = self.tracing[name] = self.trace.module(
            lambda: _gauges(host), _about(host.resources)
        )
        config = BrokerConfig(
            name,
            tuple(self._dials[name]),
            link=self.link_config(LinkConfig(ack_every=ACK_EVERY)),
            client_link=self.link_config(client_link_config()),
        )
        modules = self._modules[name] = self._placement(host)
        broker = Broker(
            *(config, self._starts, self.world.matcher),
            lambda tables: TreeRouting(tree, tables),
            modules=(tracing, *modules),
        )
        self.world.start(host, broker)

    def _placement(self, host: Host) -> tuple[Module, ...]:
        """What moves publishers, where the scenario asks for it."""
        config = self.scenario.placement
        if config is None:
            return ()
        migration = Migration()

        def migrate(context: Context, id: int, to: str, address: str, now: int) -> bool:
            return migration.relocate(context, id, to, address)

        chance = Random(f"{self._seed}/pop/{host.name}/{self._starts}").random
        pop = Pop(config, migrate, chance=chance)
        return migration, pop, Grape(config, migrate, gauges=lambda: _gauges(host))

    @property
    def links_up(self) -> bool:
        """Whether every broker that runs is joined to all its neighbours."""
        return all(
            neighbour in broker.links and broker.links[neighbour].established
            for broker in self.world.brokers
            for neighbour in self._neighbours[broker.name]
        )

    @property
    def handlings(self) -> int:
        """How many messages all brokers have taken in."""
        meters = [broker.meter for broker in self.world.brokers]
        taken = sum(meter.publications_in + meter.control_in for meter in meters)
        return taken + self.world.handlings

    def kept_bytes(self) -> dict[str, int]:
        """What all brokers keep in memory: by themselves, and for placement. What the world shares is not counted."""
        kept = {"broker": 0, "placement": 0}
        for broker in self.world.brokers:
            modules = self._modules[broker.name]
            shared = (self.world, self.world.matcher, self.scenario.placement)
            seen = {id(one): one for one in (broker, *shared, *modules)}
            kept["broker"] += kept_bytes((broker.tables, broker.strategy, broker.links), seen)
            kept["placement"] += kept_bytes(map(attributes_of, modules), seen)
        return kept

    def change(self, change: Change) -> None:
        """Let a broker or a link come or go."""
        world = self.world
        host = world.hosts[change.broker]
        match change.kind:
            case "stop" if host.machine is not None:
                self._stopped(host)
                world.crash(host)
            case "start" if host.machine is None:
                self._start(change.broker)
            case "cut":
                world.network.wire(change.broker, change.other).cut += 1
                world.network.break_connections(change.broker, change.other)
            case "mend":
                wire = world.network.wire(change.broker, change.other)
                wire.cut = max(0, wire.cut - 1)

    def note(self, broker: str, kind: str, data: Mapping[str, Any]) -> None:
        """A broker found something worth telling."""
        self.tracing[broker].told(kind, data, self.world.now)

    def close(self) -> None:
        """All brokers end, and the trace with them."""
        for host in list(self.world.hosts.values()):
            if isinstance(host.machine, Broker):
                self._stopped(host)
        self.trace.close()

    def _stopped(self, host: Host) -> None:
        assert isinstance(host.machine, Broker)
        self.tracing[host.name].stopped(host.machine, self.world.now)


def _gauges(host: Host) -> Gauges:
    """What the world knows of a broker."""
    machine = host.machine
    return Gauges(
        memory_bytes=memory_used(machine) if isinstance(machine, Broker) else 0,
        output_busy_ns=host.sending_ns if host.resources.output_bytes_per_second else None,
        matching_ns=host.matching_ns,
    )


def _about(resources: Resources) -> dict[str, Any]:
    return asdict(resources)
