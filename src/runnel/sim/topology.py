"""A topology in the simulator: the brokers that ship and the sessions that ship, in virtual time.

It follows the same script as the runner for real processes (`network/clients.py`): brokers and links first, then
the clients of each start time; nobody publishes before those that start no later are ready; in the end
everybody asks once more for readiness, and when that is there everything has arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from runnel.broker.broker import Broker
from runnel.broker.ids import IdSource
from runnel.client.config import SessionConfig
from runnel.client.effects import Deliver, HomeUp, MissedSome, Ready
from runnel.client.session import Session
from runnel.errors import InputError
from runnel.network.events import events_of
from runnel.network.outcome import TopologyOutcome, as_text
from runnel.network.topology import ClientPlan, Topology, verify_ends
from runnel.node.config import read_config
from runnel.node.spec import make_node_broker
from runnel.quantities import MILLISECOND, SECOND
from runnel.sim.resources import Resources
from runnel.sim.world import Host, World
from runnel.workload.files import Event

STEP_NS = 20 * MILLISECOND
RETRY_NS = MILLISECOND  # without credit
PATIENCE_NS = 600 * SECOND


def simulate_topology(
    topology: Topology, seed: int = 1, seconds: float | None = None
) -> TopologyOutcome:
    """Run a topology to its end; publishers without an end stop after so many seconds."""
    verify_ends(topology, seconds)
    return _TopologyRun(topology, seed, seconds).go()


@dataclass(slots=True, eq=False)
class _SimulatedClient:
    """A client and its session; `awaited` are the ids whose readiness it waits for."""

    plan: ClientPlan
    session: Session
    host: Host
    subscriptions: list[int] = field(default_factory=list)
    publisher: int = 0
    awaited: set[int] = field(default_factory=set)
    events: Iterator[Event] | None = None
    home_up: bool = False


class _TopologyRun:
    """One run; it is the watcher of its world."""

    observes_brokers = False

    def __init__(self, topology: Topology, seed: int, seconds: float | None) -> None:
        self._topology = topology
        self._world = World(seed, self)
        self._seconds = seconds
        self._outcome = TopologyOutcome()
        self._clients: dict[str, _SimulatedClient] = {}
        self._publishing = 0

    def go(self) -> TopologyOutcome:
        """Carry out the script."""
        for number, name in enumerate(self._topology.brokers):
            self._start_broker(name, number + 1)
        self._wait_for(self._all_links_up, "the links")
        begin = self._world.now
        for start_s, plans in self._topology.groups():
            self._world.run(max(self._world.now, begin + round(start_s * SECOND)))
            group = [self._start_client(plan) for plan in plans]
            self._wait_for(lambda group=group: all(c.home_up for c in group), "the clients")  # type: ignore[misc]
            self._ask_ready(group)
            self._wait_for(self._all_ready, "the routes")
            for client in group:
                self._start_publishing(client)
        self._wait_for(lambda: not self._publishing, "the publishers")
        self._wait_for(self._all_confirmed, "confirmation")
        self._ask_ready(list(self._clients.values()))
        self._wait_for(self._all_ready, "the last deliveries")
        self._count_links()
        return self._outcome

    def _wait_for(self, done: Callable[[], bool], what: str) -> None:
        deadline = self._world.now + PATIENCE_NS
        while not done():
            if self._world.now > deadline:
                raise InputError(f"in the simulator {what} did not come about: check the topology")
            self._world.run(self._world.now + STEP_NS)

    # -- brokers --------------------------------------------------------------------------------------

    def _start_broker(self, name: str, number: int) -> None:
        addresses = dict.fromkeys(self._topology.links, "127.0.0.1:1")
        tables = self._topology.node_tables(name, "127.0.0.1:0", addresses)
        config = read_config(tables)
        limits = config.limits
        resources = Resources(
            match_ns_base=limits.matching_delay_ns,
            output_bytes_per_second=limits.output_bytes_per_s,
        )
        host = self._world.host(name, resources)
        self._world.start(host, make_node_broker(config, number, gauges=host.gauges))

    def _all_links_up(self) -> bool:
        return all(
            neighbour in broker.links and broker.links[neighbour].established
            for broker in self._world.brokers
            for neighbour in self._topology.neighbours(broker.name)
        )

    def _count_links(self) -> None:
        for broker in self._world.brokers:
            for link in broker.links.values():
                self._outcome.links[broker.name, link.name] = link.publications_out
                self._outcome.links[link.name, broker.name] = link.publications_in

    # -- clients --------------------------------------------------------------------------------------

    def _start_client(self, plan: ClientPlan) -> _SimulatedClient:
        number = (1 << 20) + len(self._clients)
        session = Session(
            SessionConfig(plan.name), number, IdSource(number), lambda: self._world.now
        )
        client = _SimulatedClient(plan, session, self._world.host(plan.name))
        self._clients[plan.name] = client
        self._outcome.deliveries[plan.name] = []
        self._world.start(client.host, session)
        session.connect(plan.broker, self._world.now)
        client.subscriptions = [session.subscribe(w.selection) for w in plan.subscribe]
        if plan.publish is not None:
            client.publisher = session.advertise(plan.name, plan.publish.advertise.selection)
        self._world.flush(client.host)
        return client

    def _ask_ready(self, clients: list[_SimulatedClient]) -> None:
        for client in clients:
            ids = [*client.subscriptions, *([client.publisher] if client.publisher else [])]
            for id in ids:
                client.awaited.add(id)
                client.session.ready(id)
            self._world.flush(client.host)

    def _all_ready(self) -> bool:
        return not any(client.awaited for client in self._clients.values())

    def _all_confirmed(self) -> bool:
        homes = [client.session.home for client in self._clients.values()]
        return not any(home is not None and home.outstanding for home in homes)

    def _start_publishing(self, client: _SimulatedClient) -> None:
        publish = client.plan.publish
        if publish is None:
            return
        events = events_of(publish, self._topology.folder)
        self._publishing += 1
        gap = round(SECOND / publish.rate_per_s)
        end = None
        if self._seconds is not None:
            end = self._world.now + round(self._seconds * SECOND)
        self._publish(client, next(events, None), events, gap, self._world.now, end)

    def _publish(
        self,
        client: _SimulatedClient,
        event: Event | None,
        events: Iterator[Event],
        gap: int,
        due: int,
        end: int | None,
    ) -> None:
        """Publish one event when it is due, and schedule the next."""
        plan = client.plan.publish
        if event is None or plan is None or (end is not None and due >= end):
            self._publishing -= 1
            return
        again = partial(self._publish, client)
        if not client.session.credit:
            self._world.at(self._world.now + RETRY_NS, again, event, events, gap, due, end)
            return
        payload = bytes(plan.payload_bytes)
        client.session.publish(client.publisher, event, payload, time_ns=self._world.now)
        self._outcome.published[client.plan.name] += 1
        self._world.flush(client.host)
        at = max(self._world.now, due + gap)
        self._world.at(at, again, next(events, None), events, gap, due + gap, end)

    # -- effects --------------------------------------------------------------------------------------

    def handle_effect(self, host: Host, effect: Any) -> None:
        """Count deliveries, readiness and drops."""
        client = self._clients.get(host.name)
        if client is None:
            return
        match effect:
            case Deliver(publication=publication, subscriptions=subscriptions):
                for id in subscriptions:
                    place = client.subscriptions.index(id)
                    text = as_text(publication.attributes)
                    delivery = (place, publication.publisher, text)
                    self._outcome.deliveries[host.name].append(delivery)
                    self._outcome.delivered[host.name] += 1
            case Ready(id=id):
                client.awaited.discard(id)
            case HomeUp():
                client.home_up = True
            case MissedSome(count=count):
                self._outcome.missed[host.name] += count

    def after_event(self, host: Host, broker: Broker) -> None:
        """A broker took in an event."""
