"""Barriers, handovers and fences: passed on, waited for, answered once and in data order, never owed by a lost link."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from runnel.broker.barriers import Barriers
from runnel.broker.links import Link, LinkConfig
from runnel.client.effects import Ready
from runnel.errors import PeerError
from runnel.language import EVERYTHING, parse
from runnel.quantities import SECOND
from runnel.wire import Barrier, Decoder, Fence, Handover, Subscribe, raw_selection
from support.harness import StepNetwork

ALL = raw_selection(EVERYTHING)


class BarrierLinks:
    """A broker's barriers among links that are only looked at."""

    def __init__(self, *names: str) -> None:
        self.links = {n: Link(n, "broker", i, 1, LinkConfig(), 0, {}) for i, n in enumerate(names)}
        self.missing: tuple[str, ...] = ()
        self.lost: list[Link] = []
        self.barriers = Barriers(
            "here",
            self.links,
            self.onward,
            missing=lambda: self.missing,
            tell_missing=lambda: None,
            is_lost=lambda link: link in self.lost,
        )
        for link in self.links.values():
            link.up(1, 0)

    def onward(self, link: Link, barrier: Barrier | Handover) -> Iterable[Link]:
        return [other for other in self.links.values() if other is not link]

    def add_client(self, name: str) -> Link:
        link = self.links[name] = Link(name, "client", len(self.links), 1, LinkConfig(), 0, {})
        link.up(1, 0)
        return link

    def written(self, name: str) -> list[object]:
        return list(Decoder().feed(b"".join(self.links[name].take(0))))


def test_a_barrier_whose_way_ends_here_is_answered_at_once() -> None:
    world = BarrierLinks("asker")
    world.barriers.barrier(world.links["asker"], Barrier(5, ALL, "subscription"))
    assert world.written("asker") == [Fence(5)]
    assert world.barriers.pending == {}


def test_the_answer_waits_for_every_fence() -> None:
    world = BarrierLinks("asker", "x", "y")
    barrier = Barrier(5, ALL, "advertisement")
    world.barriers.barrier(world.links["asker"], barrier)
    assert world.written("x") == world.written("y") == [barrier]
    world.barriers.fence(world.links["x"], Fence(5))
    # Once more from the same one counts for nothing.
    world.barriers.fence(world.links["x"], Fence(5))
    assert world.written("asker") == []
    world.barriers.fence(world.links["y"], Fence(5))
    assert world.written("asker") == [Fence(5)]
    assert world.barriers.pending == {}


def test_barriers_do_not_wait_for_each_other() -> None:
    world = BarrierLinks("asker", "x")
    for token in (5, 6):
        world.barriers.barrier(world.links["asker"], Barrier(token, ALL, "advertisement"))
    world.barriers.fence(world.links["x"], Fence(6))
    assert world.written("asker") == [Fence(6)]
    assert list(world.barriers.pending) == [5]


def test_a_barrier_of_who_asks_for_routes_does_not_wait_for_a_link_that_is_lost() -> None:
    world = BarrierLinks("asker", "x", "y")
    asker, x, y = world.links.values()
    barrier = Barrier(5, ALL, "advertisement", waits=False)
    patient = Barrier(6, ALL, "advertisement")
    world.barriers.barrier(asker, barrier)
    world.barriers.barrier(asker, patient)
    world.barriers.fence(y, Fence(5))
    world.barriers.fence(y, Fence(6))
    world.barriers.tick()
    assert world.written("asker") == [], "a blip is waited for"
    world.lost.append(x)
    world.barriers.tick()
    assert world.written("asker") == [Fence(5)]
    world.barriers.fence(x, Fence(5))  # it has come back: too late
    assert world.written("asker") == []
    world.barriers.fence(x, Fence(6))
    assert world.written("asker") == [Fence(6)]


def test_a_link_that_is_lost_already_is_not_asked_whether_routes_are_complete() -> None:
    world = BarrierLinks("asker", "x")
    world.lost.append(world.links["x"])
    world.barriers.barrier(world.links["asker"], Barrier(5, ALL, "advertisement", waits=False))
    assert (world.written("x"), world.written("asker")) == ([], [Fence(5)])


def test_a_client_is_told_what_is_missing_and_a_broker_is_not() -> None:
    world = BarrierLinks("asker", "x")
    client = world.add_client("c")
    world.missing = ("B1–B2",)
    for link in (client, world.links["asker"]):
        world.barriers.barrier(link, Barrier(5, ALL, "link"))
    assert world.written("c") == [Fence(5, missing=("B1–B2",))]
    assert world.written("asker") == [Fence(5)]


def test_a_token_used_twice_is_the_peers_mistake() -> None:
    world = BarrierLinks("asker", "x")
    barrier = Barrier(5, ALL, "advertisement")
    world.barriers.barrier(world.links["asker"], barrier)
    with pytest.raises(PeerError, match="asker used the barrier token 5 twice"):
        world.barriers.barrier(world.links["asker"], barrier)


def test_a_fence_that_nobody_waits_for_is_ignored() -> None:
    world = BarrierLinks("asker", "x")
    world.barriers.fence(world.links["x"], Fence(9))
    assert world.written("asker") == []


def test_a_lost_link_owes_no_fence() -> None:
    world = BarrierLinks("asker", "x", "y")
    world.barriers.barrier(world.links["asker"], Barrier(5, ALL, "advertisement"))
    world.barriers.fence(world.links["x"], Fence(5))
    world.barriers.link_lost(world.links["y"])
    assert world.written("asker") == [Fence(5)]


def test_nothing_is_answered_to_a_link_that_is_lost() -> None:
    world = BarrierLinks("asker", "x")
    world.barriers.barrier(world.links["asker"], Barrier(5, ALL, "advertisement"))
    world.barriers.link_lost(world.links["asker"])
    assert world.barriers.pending == {}
    world.barriers.fence(world.links["x"], Fence(5))
    assert world.written("asker") == []


# -- in a network --------------------------------------------------------------------------------------


def chain(*names: str) -> StepNetwork:
    net = StepNetwork()
    for name, dials in reversed(list(zip(names, [*names[1:], ""], strict=True))):
        net.broker(name, *([dials] if dials else []))
    net.settle()
    return net


def test_ready_comes_after_the_subscription_is_everywhere() -> None:
    net = chain("B1", "B2", "B3")
    net.publisher("pub", "B1", "a > 0")
    session, id = net.subscriber("sub", "B3", "a > 5")
    net.forget_sent()
    other = session.subscribe(parse("a < 3"))
    session.ready(other)
    net.hold("B1", "B2")
    net.settle()
    # The barrier followed the subscription, and its answer is what was held up.
    kinds = [type(frame) for frame in net.between("B2", "B1")]
    assert kinds == [Subscribe, Barrier]
    assert net.effects("sub", Ready) == []
    net.release("B1", "B2")
    net.settle()
    assert net.effects("sub", Ready) == [Ready(other)]
    assert id in session.subscriptions


def test_a_subscription_barrier_goes_only_where_publishers_are() -> None:
    net = chain("B1", "B2", "B3")
    net.publisher("pub", "B2", "a > 0")
    session, id = net.subscriber("sub", "B3", "a > 5")
    session.ready(id)
    net.settle()
    assert net.effects("sub", Ready) == [Ready(id)]
    assert net.of_kind("B3", "B2", Barrier)
    assert not net.of_kind("B2", "B1", Barrier)


def test_an_advertisement_barrier_goes_everywhere() -> None:
    net = chain("B1", "B2", "B3")
    session, id = net.publisher("pub", "B2", "a > 0")
    session.ready(id)
    net.settle()
    assert net.effects("pub", Ready) == [Ready(id)]
    assert net.of_kind("B2", "B1", Barrier)
    assert net.of_kind("B2", "B3", Barrier)


def test_a_fence_comes_behind_the_publications_that_passed_before() -> None:
    net = chain("B1", "B2")
    publisher, advertised = net.publisher("pub", "B1", "a > 0")
    session, id = net.subscriber("sub", "B2", "a > 5")
    net.hold("B1", "B2")
    for value in (6, 7):
        publisher.publish(advertised, {"a": value})
    session.ready(id)
    net.settle()
    net.release("B1", "B2")
    net.settle()
    told = [type(effect).__name__ for effect in net.told["sub"]]
    assert told[-3:] == ["Deliver", "Deliver", "Ready"]


def test_a_broker_that_dies_keeps_nobody_waiting() -> None:
    net = chain("B1", "B2", "B3")
    session, id = net.publisher("pub", "B3", "a > 0")
    net.hold("B1", "B2")
    session.ready(id)
    net.settle()
    assert net.effects("pub", Ready) == []
    net.crash("B1")
    net.advance(15 * SECOND)
    assert net.effects("pub", Ready) == [Ready(id, ("B1–B2",))]


# -- handovers ------------------------------------------------------------------------------------------


def handover(token: int = 5, home: str = "there", run: int = 1, sent: int = 0) -> Handover:
    return Handover(token, home, "client", run, sent)


def test_a_handover_is_answered_when_one_neighbour_has_reached_the_old_home() -> None:
    world = BarrierLinks("asker", "x", "y")
    world.barriers.handover(world.links["asker"], handover())
    assert world.written("x") == world.written("y") == [handover()]
    world.barriers.fence(world.links["x"], Fence(5, reached=False))
    assert world.written("asker") == []
    world.barriers.fence(world.links["y"], Fence(5))
    assert world.written("asker") == [Fence(5)]
    assert world.barriers.pending == {}


def test_a_handover_does_not_wait_for_who_is_slow_to_say_that_it_is_not_there() -> None:
    world = BarrierLinks("asker", "x", "slow")
    world.barriers.handover(world.links["asker"], handover())
    world.barriers.fence(world.links["x"], Fence(5))
    assert world.written("asker") == [Fence(5)]
    world.barriers.fence(world.links["slow"], Fence(5, reached=False))
    assert world.written("asker") == []


def test_the_next_handover_goes_where_the_old_home_was_found() -> None:
    world = BarrierLinks("asker", "x", "y")
    world.barriers.handover(world.links["asker"], handover(5))
    world.barriers.fence(world.links["y"], Fence(5))
    world.barriers.handover(world.links["asker"], handover(6))
    assert world.written("x") == [handover(5)]
    assert world.written("y") == [handover(5), handover(6)]
    world.barriers.fence(world.links["y"], Fence(6))
    assert world.written("asker") == [Fence(5), Fence(6)]


def test_a_known_way_that_leads_nowhere_any_more_is_not_the_last_word() -> None:
    world = BarrierLinks("asker", "x", "y", "z")
    world.barriers.handover(world.links["asker"], handover(5))
    world.barriers.fence(world.links["y"], Fence(5))
    world.barriers.handover(world.links["asker"], handover(6))
    world.barriers.link_lost(world.links["z"])
    world.barriers.fence(world.links["y"], Fence(6, reached=False))
    assert world.written("x") == [handover(5), handover(6)]
    assert world.written("z") == [handover(5)]
    world.barriers.fence(world.links["x"], Fence(6))
    assert world.written("asker") == [Fence(5), Fence(6)]
    world.barriers.handover(world.links["asker"], handover(7))
    assert world.written("x") == [handover(7)] and world.written("y") == [handover(5), handover(6)]


def test_the_way_over_a_link_that_is_lost_is_not_known_any_more() -> None:
    world = BarrierLinks("asker", "x", "y")
    world.barriers.handover(world.links["asker"], handover(5))
    world.barriers.fence(world.links["y"], Fence(5))
    world.barriers.link_lost(world.links["y"])
    world.barriers.handover(world.links["asker"], handover(6))
    assert world.written("x") == world.written("y") == [handover(5), handover(6)]


def test_an_old_home_that_nobody_has_is_told_when_all_have_said_so() -> None:
    world = BarrierLinks("asker", "x", "y")
    world.barriers.handover(world.links["asker"], handover())
    world.barriers.fence(world.links["x"], Fence(5, reached=False))
    world.barriers.link_lost(world.links["y"])
    assert world.written("asker") == [Fence(5, reached=False)]


def test_a_broker_without_neighbours_knows_no_other() -> None:
    world = BarrierLinks("asker")
    world.barriers.handover(world.links["asker"], handover())
    assert world.written("asker") == [Fence(5, reached=False)]


def test_the_old_home_answers_both_when_it_has_all_that_the_client_sent() -> None:
    world = BarrierLinks("asker", "client")
    client = world.links["client"]
    client.data.received = 2
    world.barriers.handover(world.links["asker"], handover(home="here", sent=3))
    assert world.written("asker") == world.written("client") == []
    client.data.received = 3
    world.barriers.fence(client, Fence(5))
    assert world.written("asker") == world.written("client") == [Fence(5)]
    world.barriers.handover(world.links["asker"], handover(6, home="here", sent=3))
    assert world.written("asker") == world.written("client") == [Fence(6)]
    assert world.barriers.pending == {}


def test_the_old_home_has_nothing_of_another_run_of_the_clients_link() -> None:
    world = BarrierLinks("asker", "client")
    world.barriers.handover(world.links["asker"], handover(home="here", run=2, sent=9))
    assert world.written("asker") == [Fence(5)]
    assert world.written("client") == []
    nobody = Handover(6, "here", "somebody else", 1, 0)
    world.barriers.handover(world.links["asker"], nobody)
    assert world.written("asker") == [Fence(6)]


def test_the_old_home_does_not_wait_for_a_client_that_is_lost() -> None:
    world = BarrierLinks("asker", "client")
    world.barriers.handover(world.links["asker"], handover(home="here", sent=3))
    world.barriers.link_lost(world.links["client"])
    assert world.written("asker") == [Fence(5)]
    assert world.written("client") == []
    assert world.barriers.pending == {}


def test_a_client_is_not_handed_over_to_who_is_lost() -> None:
    world = BarrierLinks("asker", "client")
    world.barriers.handover(world.links["asker"], handover(home="here", sent=3))
    world.barriers.link_lost(world.links["asker"])
    world.barriers.fence(world.links["client"], Fence(5))
    assert world.written("client") == []
    assert world.barriers.pending == {}


def test_a_fence_that_is_not_owed_answers_nothing() -> None:
    world = BarrierLinks("asker", "client", "x")
    world.barriers.handover(world.links["asker"], handover(home="here", sent=3))
    world.barriers.fence(world.links["x"], Fence(5))
    assert world.written("asker") == []


def test_a_handover_reaches_only_who_is_asked_and_waits_for_nobody_else() -> None:
    net = chain("B1", "B2", "B3")
    net.subscriber("s", "B1", "a > 0")
    net.broker("B4", "B2")
    net.settle()
    net.hold("B4", "B2")  # it does not answer
    session = net.nodes["s"]
    session.move_to("B3", net.now)
    net.settle()
    assert session.home.broker == "B3"
    assert net.of_kind("B2", "B1", Handover) == net.of_kind("B3", "B2", Handover)
    net.release("B4", "B2")
    net.settle()
    assert not any(net.nodes[name].barriers.pending for name in ("B1", "B2", "B3", "B4"))
