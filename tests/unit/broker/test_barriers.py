"""Barriers and fences: passed on, waited for, answered once and in data order, never owed by a lost link."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from harness import SECOND, Network
from runnel.broker.barriers import Barriers
from runnel.broker.links import Link, LinkConfig
from runnel.client.effects import Ready
from runnel.errors import PeerError
from runnel.language import EVERYTHING, parse
from runnel.wire import Barrier, Decoder, Fence, Subscribe, raw_selection

ALL = raw_selection(EVERYTHING)


class World:
    """A broker's barriers among links that are only looked at."""

    def __init__(self, *names: str) -> None:
        self.links = {n: Link(n, "broker", i, 1, LinkConfig(), 0, {}) for i, n in enumerate(names)}
        self.barriers = Barriers(self.onward)
        for link in self.links.values():
            link.up(1, 0)

    def onward(self, link: Link, barrier: Barrier) -> Iterable[Link]:
        return [other for other in self.links.values() if other is not link]

    def written(self, name: str) -> list[object]:
        return list(Decoder().feed(b"".join(self.links[name].take(0))))


def test_a_barrier_whose_way_ends_here_is_answered_at_once() -> None:
    world = World("asker")
    world.barriers.barrier(world.links["asker"], Barrier(5, ALL, "subscription"))
    assert world.written("asker") == [Fence(5)]
    assert world.barriers.pending == {}


def test_the_answer_waits_for_every_fence() -> None:
    world = World("asker", "x", "y")
    barrier = Barrier(5, ALL, "advertisement")
    world.barriers.barrier(world.links["asker"], barrier)
    assert world.written("x") == world.written("y") == [barrier]
    world.barriers.fence(world.links["x"], Fence(5))
    world.barriers.fence(
        world.links["x"], Fence(5)
    )  # once more from the same one counts for nothing
    assert world.written("asker") == []
    world.barriers.fence(world.links["y"], Fence(5))
    assert world.written("asker") == [Fence(5)]
    assert world.barriers.pending == {}


def test_barriers_do_not_wait_for_each_other() -> None:
    world = World("asker", "x")
    for token in (5, 6):
        world.barriers.barrier(world.links["asker"], Barrier(token, ALL, "advertisement"))
    world.barriers.fence(world.links["x"], Fence(6))
    assert world.written("asker") == [Fence(6)]
    assert list(world.barriers.pending) == [5]


def test_a_token_used_twice_is_the_peers_mistake() -> None:
    world = World("asker", "x")
    barrier = Barrier(5, ALL, "advertisement")
    world.barriers.barrier(world.links["asker"], barrier)
    with pytest.raises(PeerError, match="asker used the barrier token 5 twice"):
        world.barriers.barrier(world.links["asker"], barrier)


def test_a_fence_that_nobody_waits_for_is_ignored() -> None:
    world = World("asker", "x")
    world.barriers.fence(world.links["x"], Fence(9))
    assert world.written("asker") == []


def test_a_lost_link_owes_no_fence() -> None:
    world = World("asker", "x", "y")
    world.barriers.barrier(world.links["asker"], Barrier(5, ALL, "advertisement"))
    world.barriers.fence(world.links["x"], Fence(5))
    world.barriers.link_lost(world.links["y"])
    assert world.written("asker") == [Fence(5)]


def test_nothing_is_answered_to_a_link_that_is_lost() -> None:
    world = World("asker", "x")
    world.barriers.barrier(world.links["asker"], Barrier(5, ALL, "advertisement"))
    world.barriers.link_lost(world.links["asker"])
    assert world.barriers.pending == {}
    world.barriers.fence(world.links["x"], Fence(5))
    assert world.written("asker") == []


# -- in a network --------------------------------------------------------------------------------------


def chain(*names: str) -> Network:
    net = Network()
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
    assert net.effects("pub", Ready) == [Ready(id)]
