"""Moves and farewells that go wrong half-way: nothing lost, nothing out of order, nobody left waiting."""

from __future__ import annotations

import pytest

from runnel.broker.links import LinkConfig
from runnel.client.effects import MissedSome, Moved, MoveGivenUp, Ready, Unconfirmed
from runnel.client.move import Move
from runnel.errors import BugError
from runnel.language import parse
from runnel.quantities import SECOND
from runnel.wire import Fence
from support.harness import StepNetwork


def chain(*names: str) -> StepNetwork:
    network = StepNetwork()
    for name, dialled in reversed(list(zip(names, [*names[1:], ""], strict=True))):
        network.broker(name, *([dialled] if dialled else []))
    network.settle()
    return network


def test_a_move_given_up_in_the_middle_of_a_chunk_loses_nothing() -> None:
    network = chain("B1", "B2", "B3")
    publisher, id = network.publisher("p", "B1", "a > 0")
    session = network.session("s", "B3", held_bytes_max=1_000)
    session.subscribe(parse("a > 0"))
    network.settle()
    network.hold("B2", "B3")
    session.move_to("B1", network.now)
    network.settle()
    for value in range(1, 21):
        publisher.publish(id, {"a": value}, b"x" * 100)
    network.settle()
    network.release("B2", "B3")
    network.advance(SECOND)
    assert network.effects("s", MoveGivenUp) == [MoveGivenUp("B1")]
    assert network.delivered("s") == list(range(1, 21))


def test_who_waits_to_be_ready_still_does_when_a_move_is_given_up() -> None:
    network = chain("B1", "B2", "B3")
    publisher, published = network.publisher("p", "B1", "a > 0")
    session = network.session("s", "B3", held_bytes_max=1_000)
    id = session.subscribe(parse("a > 0"))
    network.settle()
    network.hold("B3", "s")
    session.move_to("B1", network.now)
    network.settle()
    assert session.move is Move.DRYING
    network.hold("B1", "s")
    for value in range(1, 21):
        publisher.publish(published, {"a": value}, b"x" * 100)
    network.settle()
    session.ready(id)  # asked for where the session is going, which it then does not
    network.settle()
    network.release("B1", "s")
    network.settle()
    assert network.effects("s", MoveGivenUp) == [MoveGivenUp("B1")]
    network.release("B3", "s")
    network.settle()
    assert network.effects("s", Ready) == [Ready(id)]


def test_a_subscription_covers_only_as_far_as_it_reaches() -> None:
    network = chain("B1", "B2", "B3")
    publisher, id = network.publisher("p", "B1", "a > 0")
    near = network.session("near", "B3", ttl=1)
    near.subscribe(parse("a > 0"))
    network.settle()
    network.subscriber("far", "B3", "a > 5")
    publisher.publish(id, {"a": 9})
    network.settle()
    assert network.delivered("far") == [9]


def test_a_publisher_moves_in_order_though_its_old_link_is_slow() -> None:
    network = chain("B1", "B2", "B3")
    publisher, id = network.publisher("p", "B1", "a > 0")
    network.subscriber("s", "B2", "a > 0")
    network.hold("p", "B1")
    publisher.publish(id, {"a": 1})
    network.settle()
    publisher.move_to("B3", network.now)
    network.settle()
    sent = 1
    if publisher.credit:
        sent += 1
        publisher.publish(id, {"a": sent})
    network.settle()
    network.release("p", "B1")
    network.settle()
    assert network.delivered("s") == list(range(1, sent + 1))


def test_an_old_home_that_dies_for_good_does_not_hold_up_the_new_one() -> None:
    network = chain("B1", "B2", "B3")
    publisher, id = network.publisher("p", "B1", "a > 0")
    session, _ = network.subscriber("s", "B3", "a > 0")
    network.hold("B3", "s")
    session.move_to("B1", network.now)
    network.settle()
    assert session.move is Move.DRYING
    network.crash("B3")
    network.settle()
    for value in range(1, 4):
        publisher.publish(id, {"a": value})
    network.advance(60 * SECOND)
    assert network.effects("s", Moved) == [Moved("B1")]
    assert network.delivered("s") == [1, 2, 3]


def test_a_farewell_passes_a_full_window() -> None:
    network = chain("B")
    session = network.session("p", "B", link=LinkConfig(window_bytes=200))
    id = session.advertise("p", parse("a > 0"))
    network.settle()
    for value in range(1, 9):
        session.publish(id, {"a": value}, b"x" * 100)
    session.close()
    network.settle()
    assert "p" not in network.nodes["B"].links


def test_who_waits_to_be_ready_still_does_at_another_broker() -> None:
    network = chain("B1", "B2")
    session, id = network.subscriber("s", "B1", "a > 0")
    network.hold("s", "B1")
    session.ready(id)
    network.settle()
    session.connect("B2", network.now)
    network.settle()
    network.advance(SECOND)
    assert network.effects("s", Ready) == [Ready(id)]


def test_a_move_leaves_no_publication_in_doubt() -> None:
    network = StepNetwork()
    network.broker("A")
    network.broker("B")
    network.settle()
    publisher, id = network.publisher("p", "A", "a > 0")
    network.hold("p", "A")
    publisher.publish(id, {"a": 1})
    publisher.move_to("B", network.now)
    network.settle()
    network.release("p", "A")
    network.settle()
    assert network.effects("p", Unconfirmed) == []


def test_the_fence_of_a_move_that_was_given_up_does_not_end_the_next_one() -> None:
    network = chain("B1", "B2", "B3")
    publisher, id = network.publisher("p", "B2", "a > 0")
    session = network.session("s", "B3", held_bytes_max=1_000)
    session.subscribe(parse("a > 0"))
    network.settle()
    network.hold("B3", "s")  # the old path is slow: what it brings, fence and all, comes late
    session.move_to("B1", network.now)
    network.settle()
    assert session.move is Move.DRYING
    for value in range(1, 21):
        publisher.publish(id, {"a": value}, b"x" * 100)
    network.settle()
    assert network.effects("s", MoveGivenUp) == [MoveGivenUp("B1")]
    session.move_to("B1", network.now)
    network.settle()
    assert session.move is Move.DRYING
    publisher.publish(id, {"a": 21})
    network.settle()
    while not any(isinstance(frame, Fence) for frame in network.release_one("B3", "s")):
        pass
    assert session.move is Move.DRYING, "that was the other move's fence"
    network.release("B3", "s")
    network.advance(SECOND)
    assert session.move is Move.STEADY
    assert network.delivered("s") == list(range(1, 22))


def test_an_old_home_that_takes_connections_but_never_greets_does_not_hold_up_the_new_one() -> None:
    network = chain("B1", "B2", "B3")
    session, _ = network.subscriber("s", "B3", "a > 0")
    network.hold("B3", "s")  # every connection is taken and stays silent; none is a new loss
    session.move_to("B1", network.now)
    network.settle()
    assert session.move is Move.DRYING
    network.advance(60 * SECOND)
    assert network.effects("s", Moved) == [Moved("B1")]


def test_a_move_that_joins_anew_does_not_take_its_earlier_fence_for_the_new_one() -> None:
    network = chain("B1", "B2", "B3")
    publisher, id = network.publisher("p", "B2", "a > 0")
    session, _ = network.subscriber("s", "B3", "a > 0")
    network.hold("B3", "s")
    session.move_to("B1", network.now)
    network.settle()
    assert session.move is Move.DRYING
    network.crash("B1")
    network.settle()
    publisher.publish(id, {"a": 1})  # by the old path alone, behind the fence
    network.settle()
    network.broker("B1", "B2")
    network.advance(SECOND)
    assert session.move is Move.DRYING, "again"
    network.release("B3", "s")
    network.settle()
    assert network.effects("s", Moved) == [Moved("B1")]
    assert network.delivered("s") == [1]


def test_what_the_old_home_dropped_is_told_before_it_is_left() -> None:
    network = StepNetwork()
    network.broker("B1")
    small = LinkConfig(window_bytes=200, queue_bytes_max=1_000, ack_every=1)
    network.broker("B2", "B1", client_link=small)
    network.settle()
    publisher, id = network.publisher("p", "B1", "a > 0")
    session, _ = network.subscriber("s", "B2", "a > 0")
    network.hold("s", "B2")
    for value in range(1, 41):
        publisher.publish(id, {"a": value}, b"x" * 100)
        network.settle()
    network.hold("B2", "s")
    session.move_to("B1", network.now)
    network.settle()
    assert session.move is Move.DRYING
    network.release("s", "B2")
    network.release("B2", "s")
    network.advance(10 * SECOND)
    missed = sum(effect.count for effect in network.effects("s", MissedSome))
    assert network.effects("s", Moved) == [Moved("B1")]
    assert missed > 0 and len(network.delivered("s")) + missed == 40


def test_who_publishes_waits_until_the_new_home_knows_all_routes() -> None:
    network = chain("B1", "B2", "B3")
    publisher, id = network.publisher("p", "B1", "a > 0")
    network.subscriber("s", "B2", "a > 0")
    # The subscription is on its way to the new home, and the fence behind it.
    network.hold("B2", "B3")
    publisher.move_to("B3", network.now)
    network.settle()
    assert publisher.move is Move.DRYING and not publisher.credit
    network.release("B2", "B3")
    network.settle()
    assert network.effects("p", Moved) == [Moved("B3")]
    publisher.publish(id, {"a": 1})
    network.settle()
    assert network.delivered("s") == [1]


def test_who_does_not_publish_waits_only_for_the_old_home() -> None:
    network = chain("B1", "B2", "B3")
    publisher, id = network.publisher("p", "B1", "a > 0")
    session, _ = network.subscriber("s", "B1", "a > 0")
    network.hold("B2", "B3")
    session.move_to("B3", network.now)
    network.settle()
    assert network.effects("s", Moved) == [Moved("B3")]
    publisher.publish(id, {"a": 1})
    network.release("B2", "B3")
    network.settle()
    assert network.delivered("s") == [1]


def test_an_old_home_that_is_cut_off_from_the_new_one_still_brings_what_was_under_way() -> None:
    network = chain("A1", "A2")
    network.broker("B")
    network.settle()
    publisher, id = network.publisher("p", "A2", "a > 0")
    session, _ = network.subscriber("s", "A1", "a > 0")
    network.hold("A2", "A1")
    publisher.publish(id, {"a": 1})
    session.move_to("B", network.now)
    network.settle()
    assert session.move is Move.DRYING
    network.release("A2", "A1")
    network.settle()
    assert network.effects("s", Moved) == [Moved("B")]
    assert network.delivered("s") == [1]


def test_a_new_home_that_is_lost_half_way_is_given_up_and_publishing_goes_on() -> None:
    network = chain("B1", "B2", "B3")
    publisher, id = network.publisher("p", "B3", "a > 0")
    network.subscriber("s", "B3", "a > 0")
    network.hold("B2", "B1")
    publisher.move_to("B1", network.now)
    network.settle()
    assert publisher.move is Move.DRYING
    network.crash("B1")
    network.advance(60 * SECOND)
    assert network.effects("p", MoveGivenUp) == [MoveGivenUp("B1")]
    publisher.publish(id, {"a": 1})
    network.settle()
    assert network.delivered("s") == [1]


def test_an_old_home_without_memory_is_not_waited_for_but_all_routes_of_the_new_one_are() -> None:
    network = chain("B1", "B2", "B3")
    session, _ = network.subscriber("s", "B3", "a > 0")
    network.hold("B2", "B1")
    network.hold("B3", "s")
    session.move_to("B1", network.now)
    network.settle()
    network.crash("B3")
    network.broker("B3")
    network.release("B3", "s")
    network.advance(2 * SECOND)
    assert session.move is Move.DRYING
    network.release("B2", "B1")
    network.settle()
    assert network.effects("s", Moved) == [Moved("B1")]


def test_what_cannot_happen_to_a_move_raises_with_its_story() -> None:
    network = chain("B1", "B2")
    session = network.session("s", "B2")
    session.move_to("B1", network.now)
    network.settle()
    with pytest.raises(BugError) as caught:
        session.mover.old_home_lost()
    assert str(caught.value).splitlines() == [
        "the move of s is 'steady', where this cannot happen: the old home is lost, or has lost its memory",
        "  steady ─ move_to (B1) ─▶ dialling",
        "  dialling ─ all advertisements and subscriptions are queued for the new home ─▶ drying",
        "  drying ─ the old path is dry ─▶ drying",
        "  drying ─ all fences that it waits for have come ─▶ steady",
    ]
    assert session.home is not None and session.home.broker == "B1"
