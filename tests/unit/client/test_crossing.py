"""A session crosses from one generation to the next and back: every stage and step, what it waits for and holds."""

from __future__ import annotations

import pytest

from runnel.client.effects import Confirmed, Gap, Moved, Ready, Unconfirmed
from runnel.client.gaps import UNREACHED
from runnel.client.migration import PublisherMigration
from runnel.client.move import Move
from runnel.client.session import Session
from runnel.errors import InputError
from runnel.quantities import SECOND
from runnel.wire import Advertise, Publication, Reached, Stage
from support.crossed import TwoGenerations, publish

OLD, BOTH, AHEAD, NEW = Stage


def published_at(network: TwoGenerations, broker: str) -> list[int]:
    return [p.attributes["a"] for p in network.of_kind("p", broker, Publication)]  # type: ignore[misc]


# -- forward, stage by stage ----------------------------------------------------------------------------


def test_it_goes_where_it_is_told_and_loses_nothing_on_the_way() -> None:
    network = TwoGenerations()
    p, id, s, _ = network.pair()
    for stage in (OLD, BOTH, AHEAD, NEW):
        network.goal(stage)
        assert p.stage == s.stage == (stage if stage < NEW else OLD)  # NEW is the next OLD
        publish(p, id, 2 * stage + 1, 2 * stage + 2)
        network.settle()
    assert network.delivered("s") == list(range(1, 9))
    assert published_at(network, "A#1") == [1, 2, 3, 4]
    assert published_at(network, "B#2") == [5, 6, 7, 8]
    assert network.effects("p", Moved) == [Moved("at://B#2")]
    assert network.effects("s", Moved) == [Moved("at://A#2")]
    assert not network.nodes["A#1"].tables.srt and not network.nodes["B#1"].tables.prt
    assert p.is_settled and s.is_settled


def test_each_stage_is_told_to_both_brokers() -> None:
    network = TwoGenerations()
    network.pair()
    for stage in (BOTH, AHEAD, NEW):
        network.goal(stage)
    versions = {BOTH: 3, AHEAD: 5, NEW: 7}
    told_new = network.of_kind("p", "B#2", Reached)
    assert told_new[-3:] == [Reached(2, stage, versions[stage]) for stage in (BOTH, AHEAD, NEW)]
    told_old = network.of_kind("p", "A#1", Reached)
    assert told_old[-2:] == [Reached(2, stage, versions[stage]) for stage in (BOTH, AHEAD)]


def test_one_that_goes_far_at_once_takes_every_step() -> None:
    network = TwoGenerations()
    p, id, _, _ = network.pair()
    network.goal(BOTH)
    network.goal(BOTH, p=NEW)
    stages = [reached.stage for reached in network.of_kind("p", "B#2", Reached)]
    assert list(dict.fromkeys(stages)) == [OLD, BOTH, AHEAD, NEW]
    assert p.home is not None and p.home.generation == 2
    publish(p, id, 1)
    network.settle()
    assert network.delivered("s") == [1]


def test_joining_waits_for_all_routes_ahead() -> None:
    network = TwoGenerations()
    _, _, s, _ = network.pair()
    network.hold("B#2", "A#2")  # from where the fence comes
    network.goal(BOTH)
    assert s.ahead is not None and s.ahead.registered
    assert s.stage == OLD and network.report_of("B#1", "s").stage == OLD
    network.release("B#2", "A#2")
    network.settle()
    assert s.stage == BOTH and network.report_of("B#1", "s").stage == BOTH


def test_whoever_comes_is_told_and_catches_up() -> None:
    network = TwoGenerations()
    network.goal(AHEAD)
    p, id, s, _ = network.pair()
    assert p.stage == s.stage == AHEAD
    publish(p, id, 1)
    network.settle()
    assert published_at(network, "B#2") == [1] and network.delivered("s") == [1]


def test_who_comes_when_others_have_left_publishes_nothing_where_nobody_is() -> None:
    network = TwoGenerations()
    network.goal(NEW)
    network.hold("B#2", "p")
    p, id = network.publisher("p", "at://A", "a > 0")
    assert p.stage == OLD and p.crossing.pausing and p.credit == 0
    network.release("B#2", "p")
    network.settle()
    assert p.home is not None and p.home.generation == 2 and p.credit > 0
    publish(p, id, 1)
    assert published_at(network, "A#1") == []


# -- publishing pauses, but only while the old network dries --------------------------------------------


def test_publishing_goes_on_while_routes_ahead_are_waited_for() -> None:
    network = TwoGenerations()
    p, id, _, _ = network.pair()
    network.goal(BOTH)
    network.hold("B#2", "p")
    network.goal(AHEAD)
    assert p.credit > 0
    publish(p, id, 1)
    network.settle()
    assert published_at(network, "A#1") == [1] and network.delivered("s") == [1]
    network.release("B#2", "p")
    network.settle()
    assert p.stage == AHEAD


def test_publishing_pauses_until_the_old_network_is_dry() -> None:
    network = TwoGenerations()
    p, id, _, _ = network.pair()
    network.goal(BOTH)
    publish(p, id, 1)
    network.hold("B#1", "A#1")  # from where the fence of the old network comes
    network.goal(AHEAD)
    assert p.stage == BOTH and p.crossing.pausing and p.credit == 0
    with pytest.raises(InputError, match="no credit"):
        publish(p, id, 2)
    network.release("B#1", "A#1")
    network.settle()
    assert p.stage == AHEAD and not p.crossing.pausing and p.credit > 0


def test_a_session_without_publishers_does_not_wait_for_anything_to_dry() -> None:
    network = TwoGenerations()
    _, _, s, _ = network.pair()
    network.goal(BOTH)
    network.hold("B#1", "s")
    network.goal(AHEAD)
    assert s.stage == AHEAD
    network.release("B#1", "s")
    network.settle()


def test_what_was_published_before_is_confirmed_and_none_is_in_doubt() -> None:
    network = TwoGenerations()
    p, id, _, _ = network.pair()
    network.goal(BOTH)
    network.hold("p", "A#1")
    publish(p, id, 1, 2, 3)
    network.goal(AHEAD)
    assert p.stage == BOTH
    network.release("p", "A#1")
    network.settle()
    publish(p, id, 4, 5)
    network.goal(NEW)
    network.advance(SECOND)
    assert sum(confirmed.count for confirmed in network.effects("p", Confirmed)) == 5
    assert network.effects("p", Unconfirmed) == []
    assert network.delivered("s") == [1, 2, 3, 4, 5]


def test_what_a_lost_broker_had_not_confirmed_is_told_to_be_in_doubt() -> None:
    network = TwoGenerations()
    p, id, _, _ = network.pair()
    network.goal(BOTH)
    network.hold("p", "A#1")
    publish(p, id, 1, 2)
    network.goal(AHEAD)
    network.crash("A#1")
    network.unreachable["A#1"] = network.unreachable["A#2"] = None
    network.advance(60 * SECOND)
    assert p.stage == AHEAD and p.credit > 0, "nobody waits for ever for one who is gone"
    assert network.effects("p", Unconfirmed) == [Unconfirmed(2)]


# -- leaving --------------------------------------------------------------------------------------------


def test_the_old_home_is_left_when_it_has_brought_what_there_was() -> None:
    network = TwoGenerations()
    p, id, s, _ = network.pair()
    network.goal(BOTH)
    network.hold("B#1", "s")
    publish(p, id, 1, 2)
    network.settle()
    network.goal(AHEAD)
    network.goal(NEW)
    assert s.stage == AHEAD and network.delivered("s") == []
    network.release("B#1", "s")
    network.settle()
    assert s.home is not None and s.home.generation == 2
    assert network.delivered("s") == [1, 2]
    assert network.effects("s", Moved) == [Moved("at://A#2")]


def test_an_old_home_that_is_lost_is_not_waited_for() -> None:
    network = TwoGenerations()
    _, _, s, _ = network.pair()
    network.goal(AHEAD)
    network.hold("B#1", "s")
    network.goal(NEW)
    assert s.stage == AHEAD
    network.advance(60 * SECOND)
    assert network.effects("s", Moved) == [Moved("at://A#2")]


def test_to_close_is_to_leave_both() -> None:
    network = TwoGenerations()
    p, _, _, _ = network.pair()
    network.goal(AHEAD)
    p.close()
    network.settle()
    assert all("p" not in network.nodes[broker].links for broker in ("A#1", "B#2"))
    assert p.is_settled and not p.crossing.pausing


# -- backward -------------------------------------------------------------------------------------------


def test_it_goes_back_step_by_step_and_loses_nothing() -> None:
    network = TwoGenerations()
    p, id, s, _ = network.pair()
    network.goal(AHEAD)
    publish(p, id, 1)
    network.settle()
    for stage in (BOTH, OLD):
        network.goal(stage)
        assert p.stage == s.stage == stage
        publish(p, id, 3 - stage)
        network.settle()
    assert network.delivered("s") == [1, 2, 3]
    assert published_at(network, "A#1") == [2, 3]
    assert p.is_settled and s.is_settled
    assert all(not network.nodes[b].tables.srt for b in ("A#2", "B#2"))
    assert network.effects("s", Moved) == network.effects("p", Moved) == []


def test_publishers_that_return_have_other_ids() -> None:
    network = TwoGenerations()
    network.pair()
    network.goal(AHEAD)
    network.goal(BOTH)
    first, second = network.of_kind("p", "A#1", Advertise)
    assert first.id != second.id
    assert list(network.nodes["A#1"].tables.srt) == [second.id]


def test_returning_pauses_only_while_the_new_network_dries() -> None:
    network = TwoGenerations()
    p, id, _, _ = network.pair()
    network.goal(AHEAD)
    publish(p, id, 1)
    network.settle()
    network.hold("B#1", "A#1")  # routes where it returns to
    network.goal(BOTH)
    assert p.stage == AHEAD and p.credit > 0
    network.hold("A#2", "B#2")  # and the fence of the one that it leaves
    network.release("B#1", "A#1")
    network.settle()
    assert p.stage == AHEAD and p.credit == 0
    network.release("A#2", "B#2")
    network.settle()
    assert p.stage == BOTH and p.credit > 0


def test_the_new_home_is_left_when_it_has_brought_what_there_was() -> None:
    network = TwoGenerations()
    p, id, s, _ = network.pair()
    network.goal(AHEAD)
    network.hold("A#2", "s")
    publish(p, id, 1)
    network.settle()
    network.goal(BOTH)
    network.goal(OLD)
    assert s.ahead is not None and network.delivered("s") == []
    network.release("A#2", "s")
    network.settle()
    assert s.ahead is None and network.delivered("s") == [1]


def test_joining_is_given_up_at_once() -> None:
    network = TwoGenerations()
    p, _, _, _ = network.pair()
    network.hold("B#2", "p")
    network.goal(BOTH)
    assert p.ahead is not None
    network.goal(OLD)
    assert p.ahead is None and p.is_settled


def test_called_back_before_it_was_ready_it_never_pauses() -> None:
    network = TwoGenerations()
    p, _, _, _ = network.pair()
    network.goal(BOTH)
    network.hold("B#2", "p")
    network.goal(AHEAD)
    network.goal(BOTH)
    network.release("B#2", "p")
    network.settle()
    assert p.stage == BOTH and p.credit > 0 and not p.crossing.pausing
    assert network.report_of("A#1", "p").is_settled


def test_called_back_while_the_old_network_dries_it_crosses_and_returns() -> None:
    network = TwoGenerations()
    p, id, _, _ = network.pair()
    network.goal(BOTH)
    publish(p, id, 1)
    network.hold("B#1", "A#1")
    network.goal(AHEAD)
    network.goal(BOTH)
    assert p.crossing.pausing
    network.release("B#1", "A#1")
    network.settle()
    assert p.stage == BOTH and not p.crossing.pausing
    publish(p, id, 2)
    network.settle()
    assert network.delivered("s") == [1, 2]


def test_forward_again_after_it_was_called_back() -> None:
    network = TwoGenerations()
    p, id, _, _ = network.pair()
    for value, stage in enumerate((AHEAD, BOTH, OLD, BOTH, AHEAD, BOTH, AHEAD, NEW), 1):
        network.goal(stage)
        publish(p, id, value)
        network.settle()
    assert network.delivered("s") == list(range(1, 9))
    assert p.home is not None and p.home.generation == 2


# -- goals ----------------------------------------------------------------------------------------------


def test_an_older_goal_is_not_heard() -> None:
    network = TwoGenerations()
    p, _, _, _ = network.pair()
    network.goal(BOTH)
    network.version = 5
    network.goal(AHEAD, "A#1")
    network.version = 3
    network.goal(OLD, "B#2")  # late
    assert p.stage == AHEAD


def test_a_goal_for_the_generation_that_it_is_in_is_reached() -> None:
    network = TwoGenerations([2])
    network.goal(AHEAD)
    p, _ = network.publisher("p", "at://A#2", "a > 0")
    assert network.of_kind("p", "A#2", Reached) == [Reached(2, NEW, 3)]
    assert p.is_settled


def test_nobody_moves_or_migrates_meanwhile() -> None:
    network = TwoGenerations()
    p, id, _, _ = network.pair()
    network.goal(BOTH)
    with pytest.raises(InputError, match="switched to another plan"):
        p.move_to("at://B", network.now)
    target = network.session("p/1", "at://B")
    with pytest.raises(InputError, match="wait"):
        PublisherMigration(id, p, target, network.now, SECOND)


def test_a_goal_that_comes_during_a_move_waits_for_its_end() -> None:
    network = TwoGenerations()
    p, id, s, _ = network.pair()
    network.hold("B#1", "s")
    s.move_to("at://A", network.now)
    network.settle()
    assert s.move is Move.DRYING
    network.goal(BOTH)
    assert s.ahead is None and p.stage == BOTH
    network.release("B#1", "s")
    network.settle()
    assert network.effects("s", Moved) == [Moved("at://A")]
    network.advance(SECOND)
    assert s.stage == BOTH
    publish(p, id, 1)
    network.settle()
    assert network.delivered("s") == [1]


def test_a_goal_that_comes_during_a_migration_waits_for_its_end() -> None:
    network = TwoGenerations()
    p, id, _, _ = network.pair()
    p.advertiser.pause(id)
    network.goal(BOTH)
    assert p.ahead is None
    p.advertiser.resume(id)
    network.advance(SECOND)
    assert p.stage == BOTH


def test_one_goal_does_not_wait_for_a_publisher_that_migrates_after_it() -> None:
    network = TwoGenerations()
    p, id, _, _ = network.pair()
    target = network.session("p/1", "at://B")
    migration = PublisherMigration(id, p, target, network.now, 10 * SECOND)
    network.goal(BOTH)
    assert migration.advance(network.now), "it is undone: brokers know nothing of it yet"
    assert id in p.publishers and not p.publishers[id].paused


# -- ready in both --------------------------------------------------------------------------------------


def test_ready_in_both_names_what_is_missing_in_either() -> None:
    network = TwoGenerations()
    network.pair()
    network.goal(BOTH)
    session, id = network.subscriber("later", "at://B", "a > 1")
    assert session.ahead is not None
    network.crash("A#1")
    network.advance(4 * SECOND)
    session.ready(id)
    network.settle()
    (*_, last) = network.effects("later", Ready)
    assert last.missing == ("A#1–B#1",)


# -- links that are missing ahead -----------------------------------------------------------------------

AHEAD_LINK = "A#2–B#2"


def part(network: TwoGenerations) -> None:
    """The link of the new network says nothing any more."""
    network.hold("A#2", "B#2")
    network.hold("B#2", "A#2")


def join_again(network: TwoGenerations) -> None:
    network.release("A#2", "B#2")
    network.release("B#2", "A#2")
    network.advance(35 * SECOND)


def told(network: TwoGenerations, client: str) -> list[tuple[str, bool]]:
    return [(gap.link, gap.is_open) for gap in network.effects(client, Gap)]


def cross_in_parts(network: TwoGenerations, p: Session, id: int, value: int) -> Gap:
    """All cross while the link is missing, and something is lost; returns what the subscriber was told first."""
    network.goal(AHEAD)
    network.advance(2 * SECOND)
    assert p.stage == AHEAD
    published_at = network.now
    p.publish(id, {"a": value}, time_ns=published_at)
    network.goal(NEW)
    network.advance(2 * SECOND)
    join_again(network)
    publish(p, id, value + 1)
    network.settle()
    assert network.delivered("s") == [value + 1], "one is lost"
    first, *_, last = network.effects("s", Gap)
    assert first.link == last.link == AHEAD_LINK
    assert first.since_ns <= published_at < last.until_ns
    assert first.is_open and not last.is_open
    return first


def test_one_that_joins_where_a_link_is_missing_is_told_from_when_it_came() -> None:
    network = TwoGenerations()
    p, id, s, _ = network.pair()
    network.advance(5 * SECOND)
    part(network)
    network.goal(BOTH)
    came_at = network.now
    network.advance(SECOND)
    assert (s.stage, told(network, "s")) == (OLD, []), "the link may come back"
    network.advance(15 * SECOND)
    assert (p.stage, s.stage) == (BOTH, BOTH)
    assert told(network, "s") == told(network, "p") == [(AHEAD_LINK, True)]
    first = cross_in_parts(network, p, id, 1)
    assert (first.since_ns, first.reason) == (came_at, UNREACHED)
    assert s.gaps.open == p.gaps.open == {}


def test_one_that_has_joined_before_the_link_was_missing_is_told_too() -> None:
    network = TwoGenerations()
    s, _ = network.subscriber("s", "at://B", "a > 0")
    network.advance(5 * SECOND)
    network.goal(BOTH)
    assert s.stage == BOTH
    part(network)
    p, id = network.publisher("p", "at://A", "a > 0")  # nobody knows of it where s is
    network.advance(15 * SECOND)
    assert (p.stage, s.stage) == (BOTH, BOTH)
    assert (told(network, "s"), told(network, "p")) == ([], [(AHEAD_LINK, True)])
    assert cross_in_parts(network, p, id, 1).reason == UNREACHED
    assert s.gaps.open == p.gaps.open == {}


def test_a_crossing_in_a_network_that_is_whole_is_no_gap() -> None:
    network = TwoGenerations()
    network.pair()
    for stage in (BOTH, AHEAD, NEW):
        network.goal(stage)
        network.advance(5 * SECOND)
    assert told(network, "s") == told(network, "p") == []


def test_what_was_lost_before_it_joined_is_over_when_it_is_in_both() -> None:
    network = TwoGenerations()
    p, id, s, _ = network.pair()
    network.advance(5 * SECOND)
    network.unreachable["B#1"] = None
    network.cut("s", "B#1")
    network.advance(15 * SECOND)  # and B#1 has forgotten it
    network.goal(AHEAD)
    assert p.stage == AHEAD
    network.unreachable["A#2"] = None
    del network.unreachable["B#1"]
    network.advance(2 * SECOND)
    assert s.ahead is not None and not s.ahead.registered
    publish(p, id, 1)
    network.settle()
    assert told(network, "s") == [("s–B#1", True)], "it cannot get what is published ahead"
    network.unreachable.clear()
    network.advance(2 * SECOND)
    publish(p, id, 2)
    network.settle()
    assert network.delivered("s") == [2]
    assert told(network, "s") == [("s–B#1", True), ("s–B#1", False)]
