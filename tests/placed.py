"""A small simulated world for tests of placement: brokers with POP and GRAPE, publishers, subscribers, fixed latencies.

The brokers, modules and sessions are those that ship. What is to be moved is in `moves`; publishers migrate only if
they are to (`migrates`). Publications and subscriptions speak of one attribute, `a`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runnel.broker.broker import Broker
from runnel.broker.config import BrokerConfig
from runnel.broker.effects import Trace
from runnel.broker.ids import IdSource
from runnel.broker.invariants import check_broker
from runnel.broker.module import Context
from runnel.client.config import SessionConfig
from runnel.client.effects import Deliver, Migrated, RelocateAsked
from runnel.client.migration import Migration, Step
from runnel.client.session import Session
from runnel.language import parse
from runnel.placement.config import PlacementConfig
from runnel.placement.grape_module import Grape
from runnel.placement.migration import Migration as MigrationModule
from runnel.placement.pop_module import Pop
from runnel.routing.tree import TreeConfig, TreeRouting
from runnel.sim.resources import Resources
from runnel.sim.world import Host, World

SECOND = 1_000_000_000
MILLISECOND = 1_000_000


class Clocks:
    """What the world knows of a broker's work."""

    def __init__(self, host: Host) -> None:
        self.matching_ns = host.matching_ns
        self.output_busy_ns = host.sending_ns


class Placed:
    """Brokers on the given links, each with both modules; the first of a link dials the second."""

    watches_brokers = True

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
        self.traces: list[tuple[str, Trace]] = []
        self.pops: dict[str, Pop] = {}
        self.grapes: dict[str, Grape] = {}
        self.world = World(seed, self)
        self._resources = resources
        self._made = 0
        self._publishing: dict[str, int] = {}
        self._hosts: dict[str, Host] = {}  # where a publisher's session runs
        self._migrates = migrates
        self._under_way: dict[int, Migration] = {}
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
        address = f"sim://{name}"
        migration = MigrationModule()

        def migrate(context: Context, id: int, to: str, address: str, now: int) -> bool:
            self.moves.append((context.name, id, to, address))
            return not self._migrates or migration.relocate(context, id, to, address)

        pop = self.pops[name] = Pop(self.config, migrate, address)
        grape = self.grapes[name] = Grape(self.config, migrate, address, lambda: Clocks(host))
        self._made += 1
        broker = Broker(
            BrokerConfig(name, dials),
            self._made,
            self.world.matcher,
            lambda tables: TreeRouting(self.tree, tables),
            (pop, grape, migration),
        )
        self.world.start(host, broker)

    # -- clients --------------------------------------------------------------------------------------

    def session(self, name: str, home: str) -> Session:
        """A client."""
        self._made += 1
        session = Session(SessionConfig(name), self._made, IdSource(self._made))
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
        """Publish the values of `a` one after the other, and let come of it what may."""
        for value in values:
            host = self._hosts.get(name, self.world.hosts[name])
            assert isinstance(host.machine, Session)
            host.machine.publish(self._publishing[name], {"a": value})
            self.world.flush(host)
            self.run(every_s)
        self.run(then_s)

    # -- what happens, and what there is to see ----------------------------------------------------------

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

    def taken(self, kind: str) -> dict[str, int]:
        """How many messages of a kind each broker took in."""
        counts = {broker.name: broker.meter.messages_in[kind] for broker in self.world.brokers}
        return {name: count for name, count in counts.items() if count}

    def decided(self, algorithm: str) -> list[dict[str, Any]]:
        """What was traced of decisions, in order."""
        found = [trace.data for _, trace in self.traces if trace.kind == "placement"]
        return [data for data in found if data["algorithm"] == algorithm]

    def told(self, host: Host, effect: Any) -> None:
        """Keep what brokers trace."""
        if isinstance(effect, Trace):
            assert effect.kind != "peer-error", effect
            self.traces.append((host.name, effect))
        elif isinstance(effect, Deliver):
            self.delivered += 1
        elif isinstance(effect, RelocateAsked):
            self.world.at(self.world.now, self._relocate, host, effect)
        elif isinstance(effect, Migrated) and effect.id in self._under_way:
            self._under_way[effect.id].arrived(effect)

    def _relocate(self, host: Host, asked: RelocateAsked) -> None:
        """What a client does when its broker asks it to."""
        assert isinstance(host.machine, Session)
        name = next(name for name, id in self._publishing.items() if id == asked.id)
        guest = f"{name}/{len(self.moves)}"
        target = self.session(guest, asked.broker)
        self._under_way[asked.id] = Migration(
            asked.id, host.machine, target, self.world.now, 20 * SECOND
        )
        self._advance(name, host, self.world.hosts[guest])

    def _advance(self, name: str, source: Host, target: Host) -> None:
        id = self._publishing[name]
        is_over = self._under_way[id].advance(self.world.now)
        self.world.flush(source)
        self.world.flush(target)
        if not is_over:
            self.world.at(self.world.now + MILLISECOND, self._advance, name, source, target)
        elif self._under_way.pop(id).step is Step.DONE:
            self._hosts[name] = target

    def handled(self, host: Host, broker: Broker) -> None:
        """Check a broker after everything it does."""
        check_broker(broker)
