"""A session with two homes, in two generations: order, readiness, brokers that come and go, brokers on standby."""

from __future__ import annotations

import pytest

from runnel.client.effects import Moved, MoveGivenUp, Ready
from runnel.client.move import Move
from runnel.language import parse
from runnel.quantities import SECOND
from runnel.wire import Fence, Goal, Publication, Stage
from support.crossed import TwoGenerations, publish

OLD, BOTH, AHEAD, NEW = Stage


# -- order ----------------------------------------------------------------------------------------------


def overtaken() -> TwoGenerations:
    """The old home of s is slow: 1 and 2 are there, and p has crossed and published 3 and 4."""
    network = TwoGenerations()
    p, id, _, _ = network.pair()
    network.goal(BOTH)
    network.hold("B#1", "s")
    publish(p, id, 1, 2)
    network.settle()
    network.goal(BOTH, p=AHEAD)
    assert p.stage == AHEAD
    publish(p, id, 3, 4)
    network.settle()
    return network


def test_what_comes_from_an_unknown_advertisement_is_held_until_the_other_home_is_heard() -> None:
    network = overtaken()
    assert network.delivered("s") == []
    network.release("B#1", "s")
    network.settle()
    assert network.delivered("s") == [1, 2, 3, 4]


def test_a_home_is_not_left_while_something_that_it_brought_is_held_back() -> None:
    network = overtaken()
    s = network.nodes["s"]
    network.goal(BOTH)
    network.goal(OLD, "A#2", "B#2")  # the old home is slow, and its word comes later
    assert s.ahead is not None and network.delivered("s") == []
    network.release("B#1", "s")
    network.settle()
    assert s.ahead is None and network.delivered("s") == [1, 2, 3, 4]


def test_a_home_is_left_when_the_one_that_is_waited_for_is_lost() -> None:
    network = overtaken()
    s = network.nodes["s"]
    network.goal(BOTH)
    network.goal(OLD, "A#2", "B#2")
    network.crash("B#1")
    network.unreachable["B#1"] = network.unreachable["B#2"] = None
    network.settle()
    assert s.ahead is not None and network.delivered("s") == [], "it may come back"
    network.advance(60 * SECOND)
    assert s.ahead is None and network.delivered("s") == [3, 4]


def test_what_comes_back_is_held_too_and_what_crosses_again() -> None:
    network = TwoGenerations()
    p, id, s, _ = network.pair()
    network.goal(BOTH, p=AHEAD)
    publish(p, id, 1)
    network.settle()
    network.hold("A#2", "s")
    publish(p, id, 2)
    network.settle()
    network.goal(BOTH)
    publish(p, id, 3)
    network.settle()
    assert s.stage == BOTH and network.delivered("s") == [1]
    network.release("A#2", "s")
    network.settle()
    assert network.delivered("s") == [1, 2, 3]
    network.hold("B#1", "s")
    publish(p, id, 4)
    network.settle()
    network.goal(BOTH, p=AHEAD)
    publish(p, id, 5)
    network.settle()
    assert network.delivered("s") == [1, 2, 3], "it has crossed before, and yet 4 comes first"
    network.release("B#1", "s")
    network.settle()
    assert network.delivered("s") == [1, 2, 3, 4, 5]


def test_one_advertisement_is_held_and_not_another() -> None:
    network = overtaken()
    q, id = network.publisher("q", "at://A#2", "b > 0")
    s = network.nodes["s"]
    network.release("B#1", "s")
    network.settle()
    s.subscribe(parse("b > 0"))
    network.settle()
    network.hold("B#1", "s")
    q.publish(id, {"b": 1})
    network.settle()
    publish(network.nodes["p"], next(iter(network.nodes["p"].publishers)), 5)
    network.settle()
    assert network.delivered("s") == [1, 2, 3, 4, 5], "of p all has come that can"
    assert network.delivered("s", "b") == [None] * 5
    network.release("B#1", "s")
    network.settle()
    assert network.delivered("s", "b")[-1] == 1


def test_the_fence_for_one_advertisement_does_not_let_out_another() -> None:
    network = overtaken()
    s = network.nodes["s"]
    s.subscribe(parse("b > 0"))
    q, id = network.publisher("q", "at://A", "b > 0")
    assert q.stage == BOTH
    q.publish(id, {"b": 1})  # behind the fence that 3 waits for
    network.settle()
    network.goal(BOTH, p=AHEAD, q=AHEAD)
    q.publish(id, {"b": 2})
    network.settle()
    while not any(isinstance(frame, Fence) for frame in network.release_one("B#1", "s")):
        pass
    network.settle()
    assert network.delivered("s") == [1, 2, 3, 4]
    network.release("B#1", "s")
    network.settle()
    assert network.delivered("s", "b") == [None] * 4 + [1, 2]


def test_what_another_publisher_of_that_client_sent_lets_out_nothing() -> None:
    network = TwoGenerations()
    p, id, s, _ = network.pair()
    s.subscribe(parse("b > 0"))
    network.goal(BOTH)
    later = p.advertise("later", parse("b > 0"))
    network.settle()
    network.hold("B#1", "s")
    p.publish(later, {"b": 1})
    network.settle()
    publish(p, id, 1, 2)
    network.settle()
    network.goal(BOTH, p=AHEAD)
    publish(p, id, 3)
    network.settle()
    while not any(isinstance(frame, Publication) for frame in network.release_one("B#1", "s")):
        pass
    network.settle()
    assert 3 not in network.delivered("s"), "1 and 2 are still on their way"
    network.release("B#1", "s")
    network.settle()
    assert [value for value in network.delivered("s") if value] == [1, 2, 3]
    assert [value for value in network.delivered("s", "b") if value] == [1]


def test_what_is_held_comes_out_when_the_other_home_is_lost() -> None:
    network = overtaken()
    network.crash("B#1")
    network.unreachable["B#1"] = network.unreachable["B#2"] = None
    network.settle()
    assert network.delivered("s") == [], "it may come back"
    network.advance(60 * SECOND)
    assert network.delivered("s") == [3, 4]


def test_what_is_held_comes_out_when_the_other_home_has_lost_its_memory() -> None:
    network = overtaken()
    network.crash("B#1")
    network.start("B", 1)
    network.settle()
    network.release("B#1", "s")
    network.advance(5 * SECOND)
    assert network.delivered("s") == [3, 4]


def test_what_is_held_comes_out_when_the_other_home_is_given_up() -> None:
    network = overtaken()
    network.nodes["s"].connect("at://A", network.now)
    network.settle()
    assert network.delivered("s") == [3, 4]
    assert network.nodes["s"].stage == BOTH


def test_held_publications_fill_no_memory_while_the_other_home_is_away() -> None:
    network = TwoGenerations()
    p, id = network.publisher("p", "at://A", "a > 0")
    s = network.session("s", "at://B", held_bytes_max=1_000)
    s.subscribe(parse("a > 0"))
    network.settle()
    network.goal(BOTH)
    network.hold("s", "B#1")
    network.goal(BOTH, p=AHEAD)
    for value in range(1, 11):
        p.publish(id, {"a": value}, b"x" * 200)
    network.settle()
    assert s.ahead is not None and not s.ahead.link.holding, "its fence is under way"
    network.cut("s", "B#1")
    network.settle()
    p.publish(id, {"a": 11})
    network.settle()
    assert s.ahead.link.holding
    network.release("s", "B#1")
    network.advance(SECOND)
    assert network.delivered("s") == list(range(1, 12))
    assert not s.ahead.link.holding and s.ahead.held.bytes == 0


# -- readiness ------------------------------------------------------------------------------------------


def test_it_is_ready_when_it_is_ready_in_both() -> None:
    network = TwoGenerations()
    _, _, s, _ = network.pair()
    network.goal(BOTH)
    network.hold("A#2", "s")
    id = s.subscribe(parse("b > 0"))
    s.ready(id)
    network.settle()
    assert network.effects("s", Ready) == []
    network.release("A#2", "s")
    network.settle()
    assert network.effects("s", Ready) == [Ready(id)]


def test_who_waits_to_be_ready_still_does_when_the_old_home_is_left() -> None:
    network = TwoGenerations()
    _, _, s, id = network.pair()
    network.goal(AHEAD)
    network.hold("s", "B#1")
    s.ready(id)
    network.settle()
    network.crash("B#1")
    network.unreachable["B#1"] = network.unreachable["B#2"] = None
    network.goal(NEW, "A#2")
    network.advance(60 * SECOND)
    assert s.home is not None and s.home.generation == 2
    assert network.effects("s", Ready) == [Ready(id)]


def test_what_is_subscribed_and_advertised_meanwhile_is_so_in_both() -> None:
    network = TwoGenerations()
    p, _, s, _ = network.pair()
    network.goal(BOTH)
    s.subscribe(parse("b > 0"))
    id = p.advertise("more", parse("b > 0"))
    network.settle()
    for value, stage in enumerate((BOTH, AHEAD, NEW), 1):
        network.goal(stage)
        p.publish(id, {"b": value})
        network.settle()
    assert network.delivered("s", "b") == [1, 2, 3]


# -- brokers that come and go ---------------------------------------------------------------------------


@pytest.mark.parametrize("stage", [BOTH, AHEAD])
@pytest.mark.parametrize("process", ["A#1", "B#2"])
def test_a_home_that_lost_its_memory_is_set_up_and_told(stage: Stage, process: str) -> None:
    network = TwoGenerations()
    p, id, s, _ = network.pair()
    network.goal(stage)
    name, generation = process.split("#")
    network.crash(process)
    network.start(name, int(generation))
    network.goal(stage)
    network.advance(5 * SECOND)
    assert p.stage == s.stage == stage
    assert network.report_of(process, "p").stage == stage
    assert network.report_of(process, "p").is_settled
    network.goal(NEW)
    network.advance(5 * SECOND)
    publish(p, id, 7)
    network.settle()
    assert network.delivered("s") == [7]


def test_a_home_that_lost_its_memory_owes_no_fence_any_more() -> None:
    network = TwoGenerations()
    p, id, _, _ = network.pair()
    network.goal(BOTH)
    network.hold("B#1", "A#1")
    network.goal(AHEAD)
    assert p.stage == BOTH and p.crossing.pausing, "the old network is to be dry first"
    network.crash("A#1")
    network.start("A", 1)
    network.settle()
    network.release("B#1", "A#1")
    network.goal(AHEAD)
    network.advance(10 * SECOND)
    assert p.stage == AHEAD and p.credit > 0
    publish(p, id, 1)
    network.settle()
    assert network.delivered("s") == [1]


@pytest.mark.parametrize("stage", [BOTH, AHEAD])
def test_one_whose_new_home_has_only_the_old_generation_gets_there_all_the_same(
    stage: Stage,
) -> None:
    network = TwoGenerations()
    p, id, s, _ = network.pair()
    network.goal(stage)
    for name in ("B#1", "B#2"):  # B starts anew, and has not been told to open the new one yet
        network.crash(name)
    network.start("B", 1)
    network.advance(5 * SECOND)
    network.start("B", 2)
    network.version -= 1
    network.goal(stage)  # the same again: those that lost their memory are told
    network.advance(5 * SECOND)
    assert p.stage == s.stage == stage
    network.goal(NEW)
    network.advance(5 * SECOND)
    publish(p, id, 7)
    network.settle()
    assert network.delivered("s") == [7]
    assert {home.generation for home in (p.home, s.home) if home is not None} == {2}


def test_one_that_was_away_when_the_old_generation_ended_is_taken_in_by_the_new() -> None:
    network = TwoGenerations()
    p, id, s, _ = network.pair()
    network.goal(AHEAD)
    network.unreachable |= dict.fromkeys(("B#1", "B#2"))
    network.cut("s", "B#1")
    network.settle()
    for name in ("A#1", "B#1"):
        network.crash(name)
    for module in network.modules.values():
        module._hosting.settled = 2
    network.unreachable.clear()
    network.advance(10 * SECOND)
    assert s.ahead is None and s.home is not None and s.home.generation == 2
    publish(p, id, 1)
    network.settle()
    assert network.delivered("s") == [1]


# -- standby --------------------------------------------------------------------------------------------


def test_a_broker_on_standby_sends_its_clients_on() -> None:
    network = TwoGenerations([2])
    network.crash("B#2")
    network.start("B", 2, standby="at://A")
    p, id = network.publisher("p", "at://B", "a > 0")
    network.subscriber("s", "at://A", "a > 0")
    assert p.home is not None and p.home.name == "A#2"
    assert network.effects("p", Moved) == [Moved("at://A#2")]
    publish(p, id, 1)
    network.settle()
    assert network.delivered("s") == [1]


def test_nobody_moves_to_a_broker_on_standby() -> None:
    network = TwoGenerations([2])
    network.crash("B#2")
    network.start("B", 2, standby="at://A")
    s, _ = network.subscriber("s", "at://A", "a > 0")
    s.move_to("at://B", network.now)
    network.settle()
    assert network.effects("s", MoveGivenUp) == [MoveGivenUp("at://B")]
    assert s.home is not None and s.home.name == "A#2" and s.move is Move.STEADY


def test_one_on_standby_crosses_from_where_it_is_sent_to() -> None:
    network = TwoGenerations()
    network.crash("B#1")
    network.start("B", 1, standby="at://A")
    network.goal(BOTH)
    session = network.newcomer("n", "at://B")
    assert session.home is not None and session.home.name == "A#1"
    assert session.stage == BOTH
    assert all(goal.generation == 2 for goal in network.of_kind("A#1", "n", Goal))
