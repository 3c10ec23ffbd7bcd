"""The simulated world itself: what waits for a busy broker and what does not, ways of unequal length, who is gone."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from runnel.broker.broker import Broker
from runnel.broker.config import BrokerConfig
from runnel.broker.events import Connected, Event
from runnel.broker.ids import IdSource
from runnel.client.config import SessionConfig
from runnel.client.effects import Deliver
from runnel.client.session import Session
from runnel.compose import BrokerSpec, make_broker
from runnel.language import EVERYTHING, Value
from runnel.quantities import MILLISECOND, SECOND
from runnel.sim.campaign import draw_plan
from runnel.sim.checkers import Checker
from runnel.sim.model import Tree
from runnel.sim.probes import Probes
from runnel.sim.resources import Resources
from runnel.sim.run import simulate
from runnel.sim.world import Host, World


class ChainWorld:
    """B1 – B2, with a publisher at B1 and a subscriber at B2; B2 takes its time to match."""

    observes_brokers = False

    def __init__(self, match_ns: int) -> None:
        self.world = World(1, self)
        self.probes: dict[str, Probes] = {}
        self.delivered: list[tuple[int, Value]] = []  # when, and which
        self.traces: list[Any] = []
        for number, (name, dials, cost) in enumerate((("B1", (), 0), ("B2", ("B1",), match_ns)), 1):
            self.probes[name] = Probes(100 * MILLISECOND)
            host = self.world.host(name, Resources(match_ns_base=cost))
            broker = make_broker(
                BrokerSpec(BrokerConfig(name, dials)),
                number,
                matcher=self.world.matcher,
                gauges=host.gauges,
                added=[self.probes[name]],
            )
            self.world.start(host, broker)
        self.world.run(SECOND)
        self.publisher = self._session("pub", "B1")
        self._session("sub", "B2").subscribe(EVERYTHING)
        self.world.flush(self.world.hosts["sub"])
        self.advertisement = self.publisher.advertise("pub", EVERYTHING)
        self.world.flush(self.world.hosts["pub"])
        self.world.run(2 * SECOND)

    def _session(self, name: str, broker: str) -> Session:
        session = Session(
            SessionConfig(name),
            9,
            IdSource(len(name) + len(self.world.hosts)),
            lambda: self.world.now,
        )
        self.world.start(self.world.host(name), session)
        session.connect(broker, self.world.now)
        self.world.flush(self.world.hosts[name])
        return session

    def publish(self, count: int) -> None:
        for n in range(count):
            self.publisher.publish(self.advertisement, {"n": n})
        self.world.flush(self.world.hosts["pub"])

    def handle_effect(self, host: Host, effect: Any) -> None:
        if isinstance(effect, Deliver):
            self.delivered.append((self.world.now, effect.publication.attributes["n"]))
        elif host.name.startswith("B"):
            self.traces.append(effect)

    def after_event(self, host: Host, broker: Broker) -> None:
        raise AssertionError("nobody asked for this")


def test_monitoring_does_not_wait_for_what_waits_to_be_matched() -> None:
    chain = ChainWorld(100 * MILLISECOND)
    began, before = chain.world.now, chain.probes["B2"].received
    for _ in range(10):  # so that they come in chunks of their own
        chain.publish(10)
        chain.world.run(chain.world.now + 10 * MILLISECOND)
    chain.world.run(began + 5 * SECOND)
    waiting = chain.world.hosts["B2"].gauges().waiting_publications
    assert waiting is not None and 30 <= waiting <= 60, "half of the backlog is done"
    assert 45 <= chain.probes["B2"].received - before <= 51, "ten each second"
    chain.world.run(began + 12 * SECOND)
    assert [n for _, n in chain.delivered] == [*range(10)] * 10
    assert chain.delivered[-1][0] - began == pytest.approx(10 * SECOND, rel=0.03)
    gauges = chain.world.hosts["B2"].gauges()
    assert gauges.cpu_ns == 10 * SECOND
    assert gauges.waiting_publications == 0
    assert not [trace for trace in chain.traces if trace.kind in ("link-lost", "late-probe")]


def test_the_way_back_may_take_another_time() -> None:
    world = World(1)
    world.network.splits = False
    ways = {("A", "B"): 30 * MILLISECOND, ("B", "A"): 10 * MILLISECOND}
    world.network.latency_of = lambda one, other: ways[one, other]
    seen: list[tuple[int, str, Event]] = []
    world.on_step = lambda now, host, event: seen.append((now, host, event))
    for number, (name, dials) in enumerate((("B", ()), ("A", ("B",))), 1):
        broker = make_broker(BrokerSpec(BrokerConfig(name, dials)), number, matcher=world.matcher)
        world.start(world.host(name), broker)
    world.run(SECOND // 4)
    ends = [(now, host) for now, host, event in seen if isinstance(event, Connected)]
    assert ends == [(30 * MILLISECOND, "B"), (40 * MILLISECOND, "A")]
    hellos = [(now, host) for now, host, event in seen if not isinstance(event, Connected)][:2]
    assert hellos == [(70 * MILLISECOND, "B"), (80 * MILLISECOND, "A")]


def test_a_latency_that_is_drawn_is_the_same_both_ways() -> None:
    wire = World(1).network.wire("A", "B")
    assert wire.latency_from("A") == wire.latency_from("B") == wire.latency_ns > 0


def test_a_tree_without_a_broker_is_in_parts() -> None:
    tree = Tree([("B1", "B2"), ("B2", "B3"), ("B3", "B4")], ["B1", "B2", "B3", "B4"])
    left = tree.without("B2")
    assert left.brokers == ["B1", "B3", "B4"]
    assert (left.part("B1"), left.part("B4")) == (["B1"], ["B4", "B3"])
    assert (left.path("B3", "B4"), left.path("B1", "B4")) == (["B3", "B4"], [])


def test_who_is_gone_joins_nobody_but_is_known_to_have_been_on_the_way() -> None:
    tree = Tree([("B1", "B2"), ("B2", "B3")], ["B1", "B2", "B3"])
    checker = Checker(tree, SECOND)
    checker.note_gone("B2")
    assert checker.tree.brokers == ["B1", "B3"]
    assert checker.path("B1", "B3") == ["B1", "B2", "B3"]
    assert (checker.is_gone("B2"), checker.is_gone("B2#7"), checker.is_gone("B1")) == (
        *(True, True),
        False,
    )


def test_what_is_missing_behind_a_link_that_was_named_a_publisher_cannot_be_told() -> None:
    names = [f"B{n}" for n in range(1, 6)]
    checker = Checker(Tree(list(pairwise(names)), names), SECOND)
    before, named, after, far = ((one, other) for one, other in pairwise(names))
    checker._apart = dict.fromkeys((before, named, after, far), 0)
    assert checker._missing_behind("B1", frozenset({named})) == {after, far}
    assert checker._missing_behind("B5", frozenset({named})) == {before}
    checker._apart = {named: 0}  # what breaks later is a loss of its own
    assert not checker._missing_behind("B1", frozenset({named}))
    assert not checker._missing_behind("B1", frozenset())


def test_a_loss_behind_a_link_that_was_named_to_its_publisher_was_told_with_readiness() -> None:
    """Seed 604106: a broker is gone, one before it comes back; who was told of that one cannot hear of the other."""
    outcome = simulate(draw_plan(604106))
    assert outcome.violation == ""
    assert (outcome.fired["gone"], outcome.fired["crash"]) == (1, 2)


def test_a_broker_stays_away_for_ever_in_many_seeds_and_ways_differ_in_many() -> None:
    plans = [draw_plan(seed) for seed in range(300)]
    gone = [f.kind for plan in plans for round in plan.rounds for f in round.faults].count("gone")
    assert gone >= 60
    assert sum(plan.settings.lopsided for plan in plans) >= 40


def test_the_plan_is_the_same_but_for_who_is_gone() -> None:
    seed = next(
        seed
        for seed in range(100)
        if any(fault.kind == "gone" for fault in draw_plan(seed).rounds[-1].faults)
    )
    plan = draw_plan(seed)
    *before, last = plan.rounds
    healed = replace(plan, rounds=(*before, replace(last, faults=last.faults[:-1])))
    with_it, without = simulate(plan), simulate(healed)
    assert (with_it.violation, without.violation) == ("", "")
    assert (with_it.fired["gone"], without.fired["gone"]) == (1, 0)
