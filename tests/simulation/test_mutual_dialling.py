"""Two brokers that dial each other end with one link, whatever the timing, and lose nothing on the way there.

Each timing is drawn from its seed: when the brokers start, how far apart they are, what goes wrong between them while
they find each other, and which of them has lost its memory. From the last start, or the end of the last trouble, they
have five seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from runnel.broker.broker import Broker
from runnel.broker.config import BrokerConfig
from runnel.broker.effects import WriteTrace
from runnel.broker.events import Connected, Event
from runnel.broker.ids import IdSource
from runnel.broker.invariants import check_broker
from runnel.client.config import SessionConfig
from runnel.client.effects import Deliver
from runnel.client.session import Session
from runnel.compose import BrokerSpec, make_broker
from runnel.language import parse
from runnel.quantities import MILLISECOND, SECOND
from runnel.sim.world import Host, World

WITHIN_NS = 5 * SECOND
BROKERS = ("A", "B")
TROUBLES = (
    *("none", "crash", "crash both", "cut", "half-open", "spike"),
    *("one end", "A unheard", "B unheard"),
)
FORGETFUL = ("crash", "crash both")  # else both live on, and so does what they owe each other


class MutualWorld:
    """A and B, who dial each other; a publisher at A, and a subscriber at B."""

    observes_brokers = True

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(seed, self)
        self.world.network.latency_ns_max = self.random.choice((1, 20, 200)) * MILLISECOND
        self.trouble = TROUBLES[seed % len(TROUBLES)]
        self.ups: Counter[str] = Counter()
        self.fresh: Counter[str] = Counter()
        self.got: list[Any] = []
        self.published = 0
        self._incarnations = 0
        self._well_at = 0  # when the last start was, or the last trouble ended or will end
        self.unheard = self.trouble[0] if self.trouble.endswith("unheard") else ""
        self.world.on_step = self._swallow
        for name in BROKERS:
            self.soon(self.start, name)

    def soon(self, do: Callable[..., None], *arguments: Any) -> None:
        """Do something a while from now; often almost at once, so that dials cross. Until then not all is well."""
        longest = self.random.choice((1, 50, 3_000)) * MILLISECOND
        at = self.world.now + self.random.randrange(longest)
        self._well_at = max(self._well_at, at)
        self.world.at(at, do, *arguments)

    # -- who is there ---------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        other = BROKERS[1 - BROKERS.index(name)]
        self._incarnations += 1
        spec = BrokerSpec(BrokerConfig(name, (other,)))
        broker = make_broker(spec, self._incarnations, matcher=self.world.matcher)
        self.world.start(self.world.host(name), broker)

    def broker(self, name: str) -> Broker:
        machine = self.world.hosts[name].machine
        assert isinstance(machine, Broker)
        return machine

    def session(self, name: str, home: str) -> Session:
        number = (1 << 20) + len(self.world.hosts)
        session = Session(SessionConfig(name), number, IdSource(number), lambda: self.world.now)
        self.world.start(self.world.host(name), session)
        session.connect(home, self.world.now)
        return session

    # -- what goes wrong ------------------------------------------------------------------------------

    def disturb(self) -> None:
        """What this timing has in store."""
        network, wire = self.world.network, self.world.network.wire(*BROKERS)
        match self.trouble:
            case "crash":
                self._crash(self.random.choice(BROKERS))
            case "crash both":
                for name in BROKERS:
                    self._crash(name)
            case "cut":
                wire.cut += 1
                network.break_connections(*BROKERS)
                self.soon(self._mend)
            case "half-open":
                network.silence(*BROKERS)
            case "spike":
                wire.extra_ns = self.random.randrange(2 * SECOND)
                self.soon(self._mend)
            case "one end":  # one hears that the connection is gone, the other does not
                for connection in network.connections(*BROKERS):
                    connection.broken = True
                    end = self.random.choice(connection.ends)
                    self.soon(network._hang_up, end)
            case "A unheard" | "B unheard":
                network.break_connections(*BROKERS)

    def _swallow(self, now: int, name: str, event: Event) -> None:
        """Whoever is unheard dials with success, and nothing comes of it."""
        if isinstance(event, Connected) and event.peer is not None and name == self.unheard:
            self.world.network._ends[event.conn].connection.broken = True

    def _crash(self, name: str) -> None:
        if self.world.host(name).machine is not None:
            self.world.crash(self.world.hosts[name])
            self.soon(self.start, name)

    def _mend(self) -> None:
        wire = self.world.network.wire(*BROKERS)
        wire.cut, wire.extra_ns = 0, 0

    # -- what happens ---------------------------------------------------------------------------------

    def handle_effect(self, host: Host, effect: Any) -> None:
        if isinstance(effect, Deliver):
            self.got.append(effect.publication.attributes["n"])
        elif isinstance(effect, WriteTrace) and effect.kind == "link-up":
            self.ups[host.name] += effect.data["peer"] in BROKERS
            self.fresh[host.name] += effect.data["peer"] in BROKERS and effect.data["fresh"]

    def after_event(self, host: Host, broker: Broker) -> None:
        check_broker(broker)

    def check_one_link(self) -> None:
        """Both have the same connection, and there is no other."""
        connections = [one for one in self.world.network.connections(*BROKERS) if not one.broken]
        ends = {end.host.name: end.id for one in connections for end in one.ends}
        assert len(connections) == 1, f"{len(connections)} connections"
        for name, other in (BROKERS, BROKERS[::-1]):
            link = self.broker(name).links[other]
            assert link.established and link.conn == ends[name], f"{name} has no link to {other}"

    def rest(self) -> None:
        """There is one link in time, and it stays."""
        while self.world.now < self._well_at:  # which trouble that begins may put off
            self.world.run(self._well_at)
        self.world.run(self._well_at + WITHIN_NS)
        self.check_one_link()
        ups = self.ups.copy()
        self.world.run(self.world.now + 10 * SECOND)
        self.check_one_link()
        assert self.ups == ups, "the link flaps"

    def publish(self, session: Session, id: int, count: int, every_ns: int) -> None:
        """Publish the next numbers, one after the other, as the broker gives credit."""
        if session.credit:
            self.published += 1
            session.publish(id, {"n": self.published})
            self.world.flush(self.world.hosts["publisher"])
            count -= 1
        if count:
            at = self.world.now + every_ns
            self.world.at(at, self.publish, session, id, count, every_ns)


@pytest.mark.parametrize("seed", range(200))
def test_one_link_whatever_the_timing(seed: int) -> None:
    pair = MutualWorld(seed)
    pair.rest()
    subscriber, publisher = pair.session("subscriber", "B"), pair.session("publisher", "A")
    subscriber.subscribe(parse("n > 0"))
    id = publisher.advertise("publisher", parse("n > 0"))
    for name in ("subscriber", "publisher"):
        pair.world.flush(pair.world.hosts[name])
    pair.world.run(pair.world.now + 2 * SECOND)
    fresh = pair.fresh.copy()
    pair.publish(publisher, id, 200, 20 * MILLISECOND)
    pair.soon(pair.disturb)
    pair.rest()
    assert pair.got == sorted(set(pair.got)), "something came twice, or in another order"
    if pair.trouble not in FORGETFUL:
        assert pair.fresh == fresh, "a link between two that live was not resumed"
        assert pair.got == list(range(1, 201)), "something was lost"
