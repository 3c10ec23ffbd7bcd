"""Moves while one broker of the network gets twice as much as it can match, in a deterministic world.

A ── B ── C        H matches 20 publications a second and gets 40 and more: its inbox only grows.
     │             The checkers see that nothing is lost, doubled or out of order; virtual time is what a move took.
     H ── D
"""

from __future__ import annotations

from random import Random

import pytest

from runnel.broker.broker import Broker
from runnel.broker.config import BrokerConfig
from runnel.broker.ids import IdSource
from runnel.broker.links import LinkConfig
from runnel.broker.meter import Load
from runnel.client.config import SessionConfig
from runnel.client.effects import MoveGivenUp
from runnel.client.move import Move
from runnel.client.session import Session
from runnel.compose import BrokerSpec, make_broker
from runnel.quantities import MILLISECOND, SECOND
from runnel.routing.tree import TreeConfig
from runnel.sim.checkers import Checker
from runnel.sim.clients import selection_of
from runnel.sim.model import Tree, Want
from runnel.sim.resources import Resources
from runnel.sim.world import Host, World

MATCHING_NS = 50 * MILLISECOND  # of H, for each publication
EDGES = [("A", "B"), ("B", "C"), ("B", "H"), ("H", "D")]
BROKERS = ["A", "B", "C", "D", "H"]
RESUME_NS = 10 * SECOND
FLOOD = Want(((("x", "<", 9),),))
SOME = Want(((("x", "<", 5),),))
ELSEWHERE = Want(((("y", "<", 9),),))


class Overload:
    """The network above, with a flood at H, somebody who publishes at each other broker, and who wants it all."""

    def __init__(self, *, covering: bool = True, seed: int = 1) -> None:
        self.checker = Checker(Tree(EDGES, BROKERS), RESUME_NS)
        self.world = self.checker.world = World(seed, self.checker)
        self.random = Random(seed)
        self.sessions: dict[str, Session] = {}
        self.advertised: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        self.given_up = 0
        self.checker.on_effect = self._told
        self.link = LinkConfig(resume_timeout_ns=RESUME_NS, window_bytes=1 << 24)
        for name in BROKERS:
            resources = Resources(match_ns_base=MATCHING_NS) if name == "H" else Resources()
            self._broker(name, resources, TreeConfig(covering=covering))
        self.run(2 * SECOND)
        for name in BROKERS:
            self.publisher(f"p{name}", name, FLOOD)
            self.subscriber(f"w{name}", name, FLOOD)
        self.publisher("pE", "A", ELSEWHERE)
        self.run(SECOND)

    def _broker(self, name: str, resources: Resources, tree: TreeConfig) -> None:
        dials = tuple(other for one, other in EDGES if one == name)
        config = BrokerConfig(
            name, dials, link=self.link, client_link=self.link, credit_max=1 << 20
        )
        spec = BrokerSpec(config, routing=tree)
        broker = make_broker(spec, len(self.world.hosts) + 1, matcher=self.world.matcher)
        self.world.start(self.world.host(name, resources), broker)

    def _told(self, host: Host, effect: object) -> None:
        self.given_up += isinstance(effect, MoveGivenUp)

    # -- clients ----------------------------------------------------------------------------------------

    def session(self, name: str, home: str) -> Session:
        number = len(self.world.hosts) + 1
        session = Session(
            SessionConfig(name, self.link), number, IdSource(number), lambda: self.world.now
        )
        self.checker.note_opened(name)
        self.world.start(self.world.host(name), session)
        session.connect(home, self.world.now)
        self.sessions[name] = session
        self.flush(name)
        self.run(SECOND // 2)
        return session

    def subscriber(self, name: str, home: str, want: Want) -> Session:
        session = self.session(name, home)
        self._subscribe(name, session, want)
        return session

    def _subscribe(self, name: str, session: Session, want: Want) -> None:
        id = session.subscribe(selection_of(want))
        self.checker.note_subscription(name, id, want)
        self._ask(name, session, id)

    def publisher(self, name: str, home: str, want: Want) -> Session:
        session = self.session(name, home)
        self._advertise(name, session, want)
        return session

    def _advertise(self, name: str, session: Session, want: Want) -> None:
        id = self.advertised[name] = session.advertise(name, selection_of(want))
        self.checker.note_advertisement(name, id, want)
        self._ask(name, session, id)

    def both(self, name: str, home: str, want: Want) -> Session:
        session = self.session(name, home)
        self._subscribe(name, session, want)
        self._advertise(name, session, want)
        return session

    def _ask(self, name: str, session: Session, id: int) -> None:
        self.checker.note_ask(id)
        session.ready(id)
        self.flush(name)
        self.run(SECOND // 2)

    def flush(self, name: str) -> None:
        self.checker.note_homes(name, self.sessions[name])
        self.world.flush(self.world.hosts[name])

    # -- what happens -----------------------------------------------------------------------------------

    def publish_every(self, name: str, every_ns: int, until: int) -> None:
        """Publish now, and again and again."""
        session = self.sessions[name]
        if self.world.now >= until:
            return
        if session.may_publish(self.advertised[name]):
            want = self.checker.advertisements[self.advertised[name]].want
            values = want.draw(self.random)
            assert values is not None and session.outlet is not None
            made = session.publish(self.advertised[name], values)
            self.checker.note_publication(
                name, session.outlet.broker, self.advertised[name], made, values
            )
            self.sent[name] = self.sent.get(name, 0) + 1
            self.flush(name)
        self.world.at(self.world.now + every_ns, self.publish_every, name, every_ns, until)

    def floods(self, seconds: int) -> None:
        """H gets twice what it can match, and from elsewhere two a second of each publisher."""
        until = self.world.now + seconds * SECOND
        self.publish_every("pH", MATCHING_NS // 2, until)
        for name in self.advertised:
            if name != "pH":
                self.publish_every(name, SECOND // 2, until)

    def backlog_ns(self) -> int:
        """How long H has to do if nothing more comes: it is sent everything but what is published elsewhere."""
        broker = self.world.hosts["H"].machine
        assert isinstance(broker, Broker)
        wants = self.checker.advertisements
        sent = sum(
            count
            for name, count in self.sent.items()
            if wants[self.advertised[name]].want is not ELSEWHERE
        )
        return (sent - broker.meter.publications_in) * MATCHING_NS

    def overload(self, seconds: int) -> None:
        """Let it go on, so that moves meet a backlog, and see in H's meter that it gets twice what it can do."""
        host = self.world.hosts["H"]
        broker = host.machine
        assert isinstance(broker, Broker)
        before, waiting = broker.meter.copy(), host.gauges().waiting_publications
        self.run(seconds * SECOND)
        more = host.gauges().waiting_publications
        assert waiting is not None and more is not None
        load = Load.between(before, broker.meter, seconds * SECOND, more - waiting)
        assert load.input_ratio >= 2
        assert self.backlog_ns() > seconds * SECOND

    def move(self, name: str, target: str, patience_s: int = 600) -> int:
        """Let a client move; how long it took."""
        session, began = self.sessions[name], self.world.now
        self.checker.note_wandering(name)
        session.move_to(target, began)
        self.flush(name)
        while session.move is not Move.STEADY and self.world.now < began + patience_s * SECOND:
            self.run(MILLISECOND)
        assert session.home is not None and session.home.broker == target, "it was given up"
        return self.world.now - began

    def run(self, ns: int) -> None:
        self.world.run(self.world.now + ns)

    def rest(self) -> None:
        """All that was published has come to whom it is owed."""
        deadline = self.world.now + 1_000 * SECOND
        while self.backlog_ns() and self.world.now < deadline:
            self.run(SECOND)
        self.run(5 * SECOND)
        self.checker.at_rest(self.sessions)
        for host in self.world.hosts.values():
            if isinstance(host.machine, Broker):
                assert not host.machine.barriers.pending


@pytest.mark.parametrize("covering", [True, False])
@pytest.mark.parametrize(
    ("want", "publishes"),
    [(FLOOD, False), (SOME, True), (ELSEWHERE, True)],
    ids=["all", "some, and publishes", "none, and publishes"],
)
def test_a_move_between_idle_brokers_does_not_wait_for_the_overloaded_one(
    want: Want, covering: bool, publishes: bool
) -> None:
    net = Overload(covering=covering)
    (net.both if publishes else net.subscriber)("s", "A", want)
    net.floods(20)
    net.overload(12)
    took = net.move("s", "C")
    assert took < SECOND
    net.rest()


@pytest.mark.parametrize(("target", "publishes"), [("A", False), ("C", True), ("D", True)])
def test_leaving_the_overloaded_broker_takes_its_backlog_once(target: str, publishes: bool) -> None:
    net = Overload()
    (net.both if publishes else net.subscriber)("s", "H", SOME)
    net.floods(40)
    net.overload(12)
    backlog = net.backlog_ns()
    took = net.move("s", target)
    assert took <= 1.3 * backlog
    assert net.checker.missed["s"] == 0
    net.rest()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_many_move_at_once(seed: int) -> None:
    """Two of them away from H, where all others' publications go too; no move is given up."""
    net = Overload(covering=seed % 2 == 0, seed=seed)
    movers = {f"m{n}": net.both(f"m{n}", BROKERS[n % 5], SOME) for n in range(8)}
    net.floods(20)
    left = dict.fromkeys(movers, 3)
    deadline = net.world.now + 400 * SECOND
    while any(left.values()) and net.world.now < deadline:
        for name, session in movers.items():
            if left[name] and session.move is Move.STEADY:
                assert session.home is not None
                here = session.home.broker
                net.checker.note_wandering(name)
                elsewhere = [to for to in BROKERS if to not in (here, "H")]
                session.move_to(net.random.choice(elsewhere), net.world.now)
                net.flush(name)
                left[name] -= 1
        net.run(SECOND // 4)
    net.rest()
    assert not any(left.values())
    assert all(session.move is Move.STEADY for session in movers.values())
    assert net.given_up == 0
