"""Publisher migration as placement §III-C describes it, operations #1 to #3 on the network of its Fig. 1.

            B2          B7
            │           │
    B4 ──── B1 ──────── B5 ──── B6        P goes from B1 to B6: the migration path is B1, B5, B6
            P                    │
                                 B8

What is left of B5, and at it, has 10 subscribers, what is right of it 15; here one of each kind stands for them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from runnel.client.effects import Migrated
from runnel.client.migration import MigrationStep, PublisherMigration
from runnel.client.session import Session
from runnel.language import parse
from runnel.modules.placement.migration import Migration
from runnel.quantities import SECOND
from runnel.routing.tree import TreeConfig
from runnel.wire import Mcm, Mum, Subscribe, Unsubscribe
from support.harness import StepNetwork

LINKS = (("B2", "B1"), ("B4", "B1"), ("B5", "B1"), ("B7", "B5"), ("B6", "B5"), ("B8", "B6"))
BROKERS = ("B1", "B2", "B4", "B5", "B6", "B7", "B8")
PATH = ("B1", "B5", "B6")
SUBSCRIBERS = {"s2": "B2", "s4": "B4", "s5": "B5", "s6": "B6", "s7": "B7", "s8": "B8"}


@dataclass(slots=True)
class MigrationFigure:
    """The network of the figure, the publisher in its first session, and the one it goes to."""

    net: StepNetwork
    source: Session
    id: int
    target: Session | None = None
    migration: PublisherMigration | None = None

    def set_out(self, broker: str = "B6") -> PublisherMigration:
        """The publisher's second session connects; the migration is about to begin."""
        self.target = self.net.session("p/2", broker)
        self.migration = PublisherMigration(
            self.id, self.source, self.target, self.net.now, 5 * SECOND
        )
        return self.migration

    def go(self) -> MigrationStep:
        """Let the migration go as far as it can."""
        assert self.migration is not None and self.target is not None
        while True:
            for effect in self.net.effects("p/2", Migrated):
                self.migration.handle_effect(self.target, effect)
            step = self.migration.step
            self.migration.advance(self.net.now)
            self.net.settle()
            if self.migration.step is step and not self.net.queue:
                return step

    def last_hop(self, broker: str) -> str:
        """Where a broker has the publisher."""
        (row,) = self.net.nodes[broker].tables.srt.values()
        return str(row.link.name)

    def subscribers_at(self, broker: str) -> dict[str, str]:
        """The subscriptions that a broker knows, by subscriber, and where each came from."""
        names = {
            known_as: name
            for name in SUBSCRIBERS
            for known_as in self.net.nodes[name].home.subscriptions.values()
        }
        rows = self.net.nodes[broker].tables.prt.values()
        return {names[row.id]: row.link.name for row in rows}


def figure(covering: bool = False) -> MigrationFigure:
    net = StepNetwork(tree=TreeConfig(covering=covering))
    for name in BROKERS:
        dials = [dialled for dialler, dialled in LINKS if dialler == name]
        net.broker(name, *dials, modules=(Migration(),))
    net.settle()
    net.advance(2 * SECOND)
    source, id = net.publisher("p", "B1", "a > 0")
    for name, broker in SUBSCRIBERS.items():
        net.subscriber(name, broker, "a > 0")
    return MigrationFigure(net, source, id)


def test_operation_1_turns_the_brokers_on_the_path_and_no_others() -> None:
    fig = figure()
    assert [fig.last_hop(b) for b in PATH] == ["p", "B1", "B5"]
    fig.set_out()
    assert fig.go() is MigrationStep.DONE
    assert [fig.last_hop(b) for b in PATH] == ["B5", "B6", "p/2"]
    assert [fig.last_hop(b) for b in ("B2", "B4", "B7", "B8")] == ["B1", "B1", "B5", "B6"]
    heard = [(a, b) for a, b, frame in fig.net.sent if isinstance(frame, (Mum, Mcm))]
    assert heard == [
        *[("p/2", "B6"), ("B6", "B5"), ("B5", "B1")],
        *[("B1", "B5"), ("B5", "B6"), ("B6", "p/2")],
    ]


def test_operations_2_and_3_move_the_subscriptions() -> None:
    fig = figure()
    # Before, everything leads to B1.
    assert set(fig.subscribers_at("B1")) == set(SUBSCRIBERS)
    assert fig.subscribers_at("B6") == {"s6": "s6", "s8": "B8"}
    fig.set_out()
    fig.go()
    # #2: those of the right side are gone from B1, and so is s6's side from B5's left.
    assert fig.subscribers_at("B1") == {"s2": "B2", "s4": "B4"}
    assert fig.subscribers_at("B5") == {"s2": "B1", "s4": "B1", "s5": "s5", "s7": "B7"}
    # #3: those of the left side are at B6.
    assert fig.subscribers_at("B6") == {
        **{"s2": "B5", "s4": "B5", "s5": "B5", "s7": "B5"},
        **{"s6": "s6", "s8": "B8"},
    }
    # Brokers beside the path were not told anything.
    beside = [f for a, b, f in fig.net.sent if {a, b} & {"B2", "B4", "B7", "B8"}]
    assert not any(isinstance(frame, Unsubscribe) for frame in beside)


def test_stale_subscriptions_go_behind_the_mcm_not_with_the_mum() -> None:
    """Or what was published before, and is still on its way, would find no route."""
    fig = figure()
    fig.net.hold("B1", "B5")  # what B1 sends is slow
    for value in (1, 2, 3):
        fig.source.publish(fig.id, {"a": value})
    fig.net.settle()
    fig.set_out()
    assert fig.go() is MigrationStep.CROSSING
    assert [fig.last_hop(b) for b in PATH] == ["B5", "B6", "p/2"]
    assert set(fig.subscribers_at("B1")) == set(SUBSCRIBERS)
    fig.net.release("B1", "B5")
    fig.net.settle()
    assert fig.go() is MigrationStep.DONE
    for name in SUBSCRIBERS:
        assert fig.net.delivered(name) == [1, 2, 3]


def test_what_is_published_comes_once_and_in_order_through_it_all() -> None:
    fig = figure(covering=True)
    fig.source.publish(fig.id, {"a": 1})
    fig.set_out()
    assert fig.go() is MigrationStep.DONE
    assert fig.target is not None and fig.id not in fig.source.publishers
    fig.target.publish(fig.id, {"a": 2})
    fig.net.settle()
    for name in SUBSCRIBERS:
        assert fig.net.delivered(name) == [1, 2]
    # It is the same publisher to everybody: same id, and the count goes on.
    frames = {p.identity for _, _, p in fig.net.sent if type(p).__name__ == "Publication"}  # type: ignore[union-attr]
    assert len({advertisement for advertisement, _ in frames}) == 1
    assert {counter for _, counter in frames} == {1, 2}


def test_subscriptions_that_another_publisher_needs_stay() -> None:
    fig = figure()
    fig.net.publisher("q", "B2", "a > 5")
    fig.set_out()
    fig.go()
    assert set(fig.subscribers_at("B1")) == set(SUBSCRIBERS)


def test_one_that_comes_in_the_middle_is_served_from_the_new_place() -> None:
    fig = figure()
    fig.net.hold("B5", "B6")  # the MCM is slow
    fig.set_out()
    assert fig.go() is MigrationStep.CROSSING
    late = fig.net.session("late", "B4")
    late.subscribe(parse("a > 0"))
    fig.net.settle()
    fig.net.release("B5", "B6")
    fig.net.settle()
    assert fig.go() is MigrationStep.DONE
    assert fig.target is not None
    fig.target.publish(fig.id, {"a": 7})
    fig.net.settle()
    assert fig.net.delivered("late") == [7]


@pytest.mark.parametrize("victim", ["B1", "B5", "B6"])
@pytest.mark.parametrize(
    "held", [("p/2", "B6"), ("B6", "B5"), ("B5", "B1"), ("B1", "B5"), ("B5", "B6")]
)
def test_a_broker_on_the_path_crashes_at_every_step(victim: str, held: tuple[str, str]) -> None:
    """It is finished or undone; either way the publisher goes on and what can be reached gets everything."""
    fig = figure()
    migration = fig.set_out()
    fig.net.hold(*held)
    fig.go()
    fig.net.crash(victim)
    fig.net.release(*held)
    fig.net.settle()
    for _ in range(100):
        fig.net.advance(SECOND)
        fig.go()
    if victim == "B1" and migration.step is MigrationStep.RETURNING:
        fig.source.connect("B2", fig.net.now)  # its home does not come back
        fig.net.settle()
        fig.go()
    assert migration.is_over
    owner = fig.target if migration.step is MigrationStep.DONE else fig.source
    assert owner is not None and owner.may_publish(fig.id)
    home = owner.home
    assert home is not None
    before = {name: len(fig.net.delivered(name)) for name in SUBSCRIBERS}
    owner.publish(fig.id, {"a": 9})
    fig.net.settle()
    reached = [name for name in SUBSCRIBERS if len(fig.net.delivered(name)) > before[name]]
    assert reached == [n for n, b in SUBSCRIBERS.items() if is_reachable(home.broker, b, victim)]
    assert not any(broker.tables.leaving for n, broker in fig.net.nodes.items() if n in BROKERS), (
        "somebody still waits"
    )


def is_reachable(start: str, end: str, dead: str) -> bool:
    known, todo = {start}, [start]
    while todo:
        here = todo.pop()
        for one, other in LINKS:
            for a, b in ((one, other), (other, one)):
                if a == here and b not in known and dead not in (a, b):
                    known.add(b)
                    todo.append(b)
    return end in known and end != dead


def test_nothing_is_sent_twice_over_the_path() -> None:
    fig = figure()
    fig.set_out()
    before = len(fig.net.sent)
    fig.go()
    during = fig.net.sent[before:]
    subscribed = [(a, b) for a, b, frame in during if isinstance(frame, Subscribe)]
    assert sorted(subscribed) == [("B1", "B5")] * 2 + [("B5", "B6")] * 4
