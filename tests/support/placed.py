"""A small simulated world for tests of placement: brokers with POP and GRAPE, publishers, subscribers, fixed latencies.

The brokers, modules and sessions are the real ones. Decisions to move a publisher are kept in `moves`; publishers
migrate only with `migrates`. Publications and subscriptions use one attribute, `a`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runnel.broker.broker import Broker
from runnel.broker.config import BrokerConfig
from runnel.broker.effects import WriteTrace
from runnel.broker.ids import IdSource
from runnel.broker.invariants import check_broker
from runnel.broker.module import Context, Module
from runnel.client.config import SessionConfig
from runnel.client.effects import Deliver, RelocateAsked
from runnel.client.migration import MigrationStep, PublisherMigration
from runnel.client.session import Session
from runnel.compose import BrokerSpec, make_broker
from runnel.language import parse
from runnel.modules.placement.config import PlacementConfig
from runnel.modules.placement.grape_module import Grape
from runnel.modules.placement.migration import relocate
from runnel.modules.placement.pop_module import Pop
from runnel.quantities import MILLISECOND, SECOND
from runnel.routing.tree import TreeConfig
from runnel.sim.migrations import SimulatedMigrations
from runnel.sim.resources import Resources
from runnel.sim.world import Host, World


class PlacementWorld:
    """Brokers on the given links, each with both modules; the first of a link dials the second."""

    observes_brokers = True

    def __init__(
        self,
        links: Iterable[tuple[str, str]],
        config: PlacementConfig,
        *,
        latencies_ms: Mapping[tuple[str, str], float] | None = None,
        resources: Resources | None = None,
        tree: TreeConfig | None = None,
        migrates: bool = False,
        seed: int = 1,
    ) -> None:
        self.links = tuple(links)
        self.config = config
        self.tree = tree or TreeConfig()
        self.moves: list[tuple[str, int, str, str]] = []
        self.traces: list[tuple[str, WriteTrace]] = []
        self.pops: dict[str, Pop] = {}
        self.grapes: dict[str, Grape] = {}
        self.world = World(seed, self)
        self._resources = resources
        self._made = 0
        self._publishing: dict[str, int] = {}
        self._hosts: dict[str, Host] = {}  # where a publisher's session runs
        self._migrates = migrates
        self._migrations = SimulatedMigrations(
            self.world,
            look_ns=MILLISECOND,
            timeout_ns=20 * SECOND,
            relocate=self._relocate,
            look=self._advance,
        )
        self.delivered = 0
        self._latencies = {frozenset(k): v for k, v in (latencies_ms or {}).items()}
        self.world.network.latency_of = self._latency
        for name in dict.fromkeys(name for link in self.links for name in link):
            self.start(name)
        self.run(2)

    def _latency(self, one: str, other: str) -> int:
        return round(self._latencies.get(frozenset((one, other)), 1.0) * MILLISECOND)

    def start(self, name: str) -> None:
        """Start a broker, or start it again."""
        host = self.world.host(name, self._resources)
        dials = tuple(b for a, b in self.links if a == name)
        self._made += 1
        spec = BrokerSpec(BrokerConfig(name, dials), routing=self.tree, modules=("migration",))
        broker = make_broker(
            spec,
            self._made,
            matcher=self.world.matcher,
            gauges=host.gauges,
            added=self.make_modules(name),
        )
        self.world.start(host, broker)

    def make_modules(self, name: str) -> tuple[Module, ...]:
        """The modules of a broker, beside the one for migrations."""
        address = f"sim://{name}"

        def migrate(context: Context, id: int, to: str, address: str, now: int) -> bool:
            self.moves.append((context.name, id, to, address))
            return not self._migrates or relocate(context, id, to, address, now)

        pop = self.pops[name] = Pop(self.config, migrate, address)
        grape = self.grapes[name] = Grape(self.config, migrate, address)
        return pop, grape

    # -- clients --------------------------------------------------------------------------------------

    def session(self, name: str, home: str) -> Session:
        """A client."""
        self._made += 1
        session = Session(
            SessionConfig(name), self._made, IdSource(self._made), lambda: self.world.now
        )
        self.world.start(self.world.host(name), session)
        session.connect(home, self.world.now)
        self.world.flush(self.world.hosts[name])
        return session

    def publisher(self, name: str, home: str) -> int:
        """A client that advertises everything; the id of the advertisement, as brokers know it."""
        self._publishing[name] = self.session(name, home).advertise(name, parse("a >= 0"))
        self.run(1)
        rows = self.broker(home).tables.srt.values()
        return next(row.id for row in rows if row.publisher == name)

    def subscribers(self, home: str, count: int, selection: str = "a >= 0") -> list[str]:
        """So many clients of a broker with the same subscription; their names."""
        names = [f"s{self._made + n + 1}" for n in range(count)]
        for name in names:
            self.session(name, home).subscribe(parse(selection))
        self.run(1)
        return names

    def publish(
        self, name: str, values: Iterable[int], every_s: float = 0.1, then_s: float = 1.0
    ) -> None:
        """Publish the values of `a` one after the other, and let time pass for what follows."""
        for value in values:
            host = self._hosts.get(name, self.world.hosts[name])
            assert isinstance(host.machine, Session)
            host.machine.publish(self._publishing[name], {"a": value})
            self.world.flush(host)
            self.run(every_s)
        self.run(then_s)

    # -- time and observations ------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.world.run(self.world.now + round(seconds * SECOND))

    def cut(self, one: str, other: str) -> None:
        """Cut a link for good."""
        self.world.network.wire(one, other).cut += 1
        self.world.network.break_connections(one, other)

    def broker(self, name: str) -> Broker:
        """A broker that runs."""
        machine = self.world.hosts[name].machine
        assert isinstance(machine, Broker)
        return machine

    def messages_in(self, kind: str) -> dict[str, int]:
        """How many messages of a kind each broker took in."""
        counts = {broker.name: broker.meter.messages_in[kind] for broker in self.world.brokers}
        return {name: count for name, count in counts.items() if count}

    def decisions(self, algorithm: str) -> list[dict[str, Any]]:
        """What was traced of decisions, in order."""
        found = [trace.data for _, trace in self.traces if trace.kind == "placement"]
        return [data for data in found if data["algorithm"] == algorithm]

    def handle_effect(self, host: Host, effect: Any) -> None:
        """Keep what brokers trace."""
        if isinstance(effect, WriteTrace):
            assert effect.kind != "peer-error", effect
            self.traces.append((host.name, effect))
        elif isinstance(effect, Deliver):
            self.delivered += 1
        self._migrations.handle_effect(host, effect)

    def _relocate(self, host: Host, asked: RelocateAsked) -> None:
        """What a client does when its broker asks it to."""
        assert isinstance(host.machine, Session)
        name = next(name for name, id in self._publishing.items() if id == asked.id)
        guest = f"{name}/{len(self.moves)}"
        source = host.machine
        self._migrations.begin(
            asked.id, source, asked.broker, lambda: self.session(guest, asked.broker)
        )

    def _advance(self, migration: PublisherMigration) -> None:
        if self._migrations.advance(migration) and migration.step is MigrationStep.DONE:
            name = next(name for name, id in self._publishing.items() if id == migration.id)
            self._hosts[name] = self.world.hosts[migration.target.config.name]

    def after_event(self, host: Host, broker: Broker) -> None:
        """Check a broker after everything it does."""
        check_broker(broker)
