"""The brokers of a scenario in a simulated world, each recorded into the trace. They can be stopped and started.

All brokers share one matcher, and one recorder and writer of traces. The broker code is the one that ships.
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
from runnel.broker.module import Surroundings
from runnel.compose import BrokerSpec, make_broker
from runnel.lab.memory import attributes_of, memory_bytes
from runnel.lab.scenario import Scenario, ScenarioChange
from runnel.lab.shapes import Shape
from runnel.quantities import MILLISECOND, SECOND
from runnel.sim.resources import Resources
from runnel.sim.world import Host, Watcher, World
from runnel.trace.module import Tracing
from runnel.trace.setup import TraceOptions, WorldTrace

ACK_EVERY = 256
"""Frames between acknowledgements. Nothing waits for them here, so they are rarer than on a node."""


class LabWorld:
    """A world with the brokers of a scenario. Its clients are in clients.py."""

    def __init__(self, scenario: Scenario, seed: int, directory: Path, watcher: Watcher) -> None:
        self.scenario = scenario
        self.shape: Shape = scenario.shape(seed)
        self.world = World(seed, watcher, logs=False)
        self.tracing: dict[str, Tracing] = {}
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
        network.splits = False  # splitting chunks is for testing brokers, not for measuring
        network.latency_of = self._latency
        network.bytes_per_second = scenario.network.bytes_per_s
        trace = scenario.trace
        settings = TraceOptions(
            directory,
            sample=trace.sample,
            interval_ns=round(trace.interval_s * SECOND),
            publications=trace.publications,
            deliveries=trace.deliveries,
        )
        self.trace = WorldTrace(settings, lambda: self.world.now)

    def link_config(self, config: LinkConfig) -> LinkConfig:
        """The same limits of a link, with the heartbeat of this scenario."""
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
        # Drawn by the names of the two ends, so that it does not depend on which other links there are.
        one, other = sorted((one, other))
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
        tracing = self.tracing[name] = self.trace.module(_about(host.resources))
        config = BrokerConfig(
            name,
            tuple(self._dials[name]),
            link=self.link_config(LinkConfig(ack_every=ACK_EVERY)),
            client_link=self.link_config(client_link_config()),
        )
        scenario, modules = self.scenario, self.scenario.modules
        names = tuple(modules) if "placement" not in modules else ("migration", *modules)
        spec = BrokerSpec(config, scenario.strategy, scenario.routing, names, modules)
        around = Surroundings(
            name,
            address="" if scenario.clients.pings == "none" else name,  # for publishers to measure
            chance=Random(f"{self._seed}/pop/{name}/{self._starts}").random,
            services={"recording": tracing.recording},  # profiles are made from the same
        )
        broker = make_broker(
            *(spec, self._starts, around),
            matcher=self.world.matcher,
            gauges=host.gauges,
            added=(tracing,),
        )
        self.world.start(host, broker)

    @property
    def links_up(self) -> bool:
        """Whether every running broker is connected to all of its neighbours."""
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

    def memory_bytes(self) -> dict[str, int]:
        """Bytes that all brokers keep in memory, for themselves and for placement. What they share is not counted."""
        kept = {"broker": 0, "placement": 0}
        for broker in self.world.brokers:
            traces = self.tracing[broker.name]
            others = (traces, *traces.uses)
            modules = [module for module in broker.modules.values() if module not in others]
            shared = (self.world, self.world.matcher, self.scenario.placement)
            seen = {id(one): one for one in (broker, *shared, *modules)}
            kept["broker"] += memory_bytes((broker.tables, broker.strategy, broker.links), seen)
            kept["placement"] += memory_bytes(map(attributes_of, modules), seen)
        return kept

    def apply_change(self, change: ScenarioChange) -> None:
        """Stop or start a broker, or cut or mend a link."""
        world = self.world
        host = world.hosts[change.broker]
        match change.kind:
            case "stop" if host.machine is not None:
                self._record_end(host)
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
        """Record a note about a broker in the trace."""
        self.tracing[broker].record_note(kind, data, self.world.now)

    def close(self) -> None:
        """Stop recording all brokers, and close the trace."""
        for host in list(self.world.hosts.values()):
            if isinstance(host.machine, Broker):
                self._record_end(host)
        self.trace.close()

    def _record_end(self, host: Host) -> None:
        assert isinstance(host.machine, Broker)
        self.tracing[host.name].record_stop(host.machine, self.world.now)


def _about(resources: Resources) -> dict[str, Any]:
    return asdict(resources)
