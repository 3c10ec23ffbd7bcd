"""One broker with the module, behind its door: what it tells its clients and neighbours, and what it reports."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.broker.arbiter import ClaimRefused, Granted
from runnel.broker.events import Disconnected
from runnel.modules.generations.messages import Switching
from runnel.modules.generations.module import ClientReport, Generations
from runnel.modules.generations.questions import (
    CloseGeneration,
    Generation,
    OpenGeneration,
    SetGoal,
)
from runnel.wire import ID_MAX, Advertise, Barrier, Fence, Goal, Reached, Stage
from support.door import ALL, Door
from support.hosting import FakeProcess

OLD, BOTH, AHEAD, NEW = Stage
ALICE, BOB, LEFT, RIGHT = 1, 2, 3, 4


class SwitchDoor(Door):
    """A broker B of a generation, with the module."""

    def __init__(self, generation: int = 1, standby: str = "") -> None:
        self.process = FakeProcess()
        self.module = Generations(generation, self.process, "at B", standby)
        super().__init__(modules=(self.module,), generation=generation)

    def order(self, command: Any) -> Any:
        """A command or question of the coordinator."""
        answer = self.module.answers()[type(command)](self.broker, command, self.now)
        self.event(Disconnected(0))  # what it has to send goes out
        return answer

    def goal(self, version: int, stage: Stage, about: int = 2, **more: Any) -> None:
        self.order(SetGoal(about, version, stage, "at A", **more))

    def reach(self, conn: int, stage: Stage, version: int, about: int = 2) -> None:
        self.arrive(conn, Reached(about, stage, version))

    def client(self, name: str) -> ClientReport:
        return self.module.report(self.broker).clients[name]


def with_alice(**settings: Any) -> SwitchDoor:
    door = SwitchDoor(**settings)
    door.connect(ALICE, "alice")
    door.received(ALICE)
    return door


# -- goals ----------------------------------------------------------------------------------------------


def test_nobody_is_told_anything_without_orders() -> None:
    door = with_alice()
    door.connect(LEFT, "left", "broker")
    assert door.received(ALICE) == door.received(LEFT) == []


def test_a_client_that_comes_is_told_before_any_fence() -> None:
    door = SwitchDoor()
    door.goal(3, BOTH)
    door.connect(ALICE, "alice")
    door.arrive(ALICE, Barrier(9, ALL, "advertisement"))
    assert door.received(ALICE) == [Goal(2, 7, BOTH, "at A"), Fence(9)]


def test_one_whose_link_comes_back_knows_and_one_that_lost_its_memory_is_told_again() -> None:
    door = with_alice()
    door.goal(3, BOTH)
    assert door.received(ALICE) == [Goal(2, 7, BOTH, "at A")]
    door.event(Disconnected(ALICE))
    door.connect(BOB, "alice")  # with another token: it knows nothing
    assert door.received(BOB) == [Goal(2, 7, BOTH, "at A")]


def test_each_goes_where_it_belongs_and_as_far_as_it_was_named() -> None:
    door = with_alice()
    door.connect(BOB, "bob")
    door.goal(3, BOTH, stages={"bob": AHEAD}, addresses={"bob": "at C"})
    assert door.received(ALICE) == [Goal(2, 7, BOTH, "at A")]
    assert door.received(BOB) == [Goal(2, 7, AHEAD, "at C")]


def test_who_has_done_what_it_was_told_is_told_only_what_changes() -> None:
    door = with_alice()
    door.goal(3, BOTH)
    door.received(ALICE)
    door.reach(ALICE, BOTH, 7)
    door.goal(4, BOTH, stages={"bob": AHEAD})
    assert door.received(ALICE) == []
    door.goal(5, AHEAD)
    assert door.received(ALICE) == [Goal(2, 11, AHEAD, "at A")]


def test_who_has_not_is_told_the_new_version_of_the_same() -> None:
    door = with_alice()
    door.goal(3, BOTH)
    door.reach(ALICE, OLD, 0)
    door.received(ALICE)
    door.goal(4, BOTH)
    assert door.received(ALICE) == [Goal(2, 9, BOTH, "at A")]


def test_where_it_is_going_nobody_is_told_another_address() -> None:
    door = with_alice(generation=2)
    door.goal(3, BOTH, addresses={"alice": "at C"})
    assert door.received(ALICE) == [Goal(2, 7, BOTH, "")]


def test_operators_are_left_alone() -> None:
    door = SwitchDoor()
    door.connect(ALICE, "inspector-1", "operator")
    door.goal(3, BOTH)
    assert door.received(ALICE) == []
    assert door.module.report(door.broker).clients == {}


def test_an_older_order_changes_nothing_and_the_same_again_is_harmless() -> None:
    door = with_alice()
    door.goal(4, AHEAD)
    door.received(ALICE)
    door.goal(3, BOTH)
    assert door.received(ALICE) == []
    assert door.module.report(door.broker).version == 4
    door.goal(1, BOTH, about=3)
    assert door.received(ALICE) == [Goal(3, 3, BOTH, "at A")], "of a later generation"


# -- hearsay --------------------------------------------------------------------------------------------


def test_neighbours_tell_each_other_but_not_who_told_them_more() -> None:
    door = with_alice()
    door.connect(LEFT, "left", "broker")
    door.connect(RIGHT, "right", "broker")
    door.arrive(LEFT, Switching(2, 3, BOTH, "at C"))
    assert door.received(RIGHT) == [Switching(2, 3, BOTH, "at C")]
    assert door.received(ALICE) == [Goal(2, 6, BOTH, "at C")]
    door.received(LEFT)
    for version in (2, 3):
        door.arrive(RIGHT, Switching(2, version, AHEAD, "at C"))
    assert door.received(LEFT) == door.received(ALICE) == [], "that is old, or known"


def test_a_neighbour_that_comes_is_told() -> None:
    door = SwitchDoor()
    door.goal(3, BOTH)
    door.connect(LEFT, "left", "broker")
    assert door.received(LEFT) == [Switching(2, 3, BOTH, "at A")]


def test_orders_outdo_hearsay_of_the_same_version() -> None:
    door = with_alice()
    door.connect(LEFT, "left", "broker")
    door.arrive(LEFT, Switching(2, 3, BOTH, "at C"))
    assert door.module.report(door.broker).version == 0, "the coordinator is to tell it"
    door.received(ALICE)
    door.goal(3, BOTH, stages={"alice": AHEAD})
    assert door.received(ALICE) == [Goal(2, 7, AHEAD, "at A")]
    assert door.module.report(door.broker).version == 3
    door.arrive(LEFT, Switching(2, 3, BOTH, "at C"))
    assert door.received(ALICE) == []
    assert door.module.report(door.broker).version == 3


def test_what_is_known_of_single_clients_outlives_hearsay_of_the_same_switch() -> None:
    door = with_alice()
    door.connect(LEFT, "left", "broker")
    door.goal(3, BOTH, stages={"alice": AHEAD}, addresses={"alice": "at C"})
    door.received(ALICE)
    door.arrive(LEFT, Switching(2, 4, BOTH, "at A"))
    assert door.received(ALICE) == [Goal(2, 8, AHEAD, "at C")]
    door.arrive(LEFT, Switching(3, 1, BOTH, "at A"))
    assert door.received(ALICE) == [Goal(3, 2, BOTH, "at A")], "another switch, another place"


# -- standby --------------------------------------------------------------------------------------------


def test_a_broker_on_standby_sends_everybody_away() -> None:
    door = SwitchDoor(generation=2, standby="at A")
    door.connect(ALICE, "alice")
    assert door.received(ALICE) == [Goal(2, 3, NEW, "at A")]
    door.goal(3, BOTH, addresses={"alice": "at C"})
    assert door.received(ALICE) == [Goal(2, 3, NEW, "at A")], "whatever all others are told"


# -- the report -----------------------------------------------------------------------------------------


def test_the_report_says_who_it_is_and_what_it_was_told() -> None:
    door = SwitchDoor(generation=2)
    door.connect(LEFT, "left", "broker")
    door.goal(3, AHEAD)
    answer = door.order(Generation())
    assert (answer["broker"], answer["address"], answer["generation"]) == ("B", "at B", 2)
    assert (answer["about"], answer["version"], answer["stage"]) == (2, 3, AHEAD)
    assert (answer["links"], answer["clients"], answer["reserve"]) == (["left"], {}, {})


def test_a_link_that_is_down_does_not_count() -> None:
    door = with_alice()
    door.connect(LEFT, "left", "broker")
    door.event(Disconnected(LEFT))
    door.event(Disconnected(ALICE))
    assert door.module.report(door.broker).links == []
    assert not door.client("alice").is_up


def test_the_report_says_how_far_each_is_and_if_that_is_far_enough() -> None:
    door = with_alice()
    door.goal(3, BOTH)
    assert door.client("alice") == ClientReport(True, False, OLD, False)
    door.arrive(ALICE, Advertise(5, ALL, "p", 9))
    door.reach(ALICE, BOTH, 7)
    assert door.client("alice") == ClientReport(True, True, BOTH, True)
    door.goal(4, AHEAD)
    assert door.client("alice") == ClientReport(True, True, BOTH, False)
    door.reach(ALICE, AHEAD, 7)  # of an earlier goal: it may be about to go on elsewhere
    assert door.client("alice") == ClientReport(True, True, AHEAD, False)
    door.reach(ALICE, AHEAD, 9)
    assert door.client("alice") == ClientReport(True, True, AHEAD, True)


def test_what_was_reached_of_another_switch_counts_for_nothing() -> None:
    door = with_alice()
    door.goal(3, BOTH)
    door.reach(ALICE, AHEAD, 7, about=1)
    assert door.client("alice") == ClientReport(True, False, OLD, False)


def test_who_comes_anew_has_reached_nothing() -> None:
    door = with_alice()
    door.goal(3, BOTH)
    door.reach(ALICE, BOTH, 7)
    door.event(Disconnected(ALICE))
    assert door.client("alice").stage == BOTH, "it may come back"
    door.connect(BOB, "alice")
    assert door.client("alice") == ClientReport(True, False, OLD, False)


def test_one_that_was_away_when_it_all_ended_is_told_by_the_new_generation() -> None:
    door = with_alice(generation=2)
    door.reach(ALICE, AHEAD, 0)
    assert door.received(ALICE) == [], "the old one is there yet"
    door.process.settled = 2
    door.reach(ALICE, AHEAD, 0)
    assert door.received(ALICE) == [Goal(2, ID_MAX, NEW, "")]
    door.reach(ALICE, NEW, 0)
    assert door.received(ALICE) == []


# -- the process and the arbiter ------------------------------------------------------------------------


def test_the_process_is_told_to_open_and_to_close() -> None:
    door = SwitchDoor()
    order = OpenGeneration(2, {"A": "at A"}, reserve={"C": "at C"})
    assert door.order(order) == door.order(CloseGeneration(1)) == {}
    assert (door.process.opened, door.process.closed) == ([order], [1])


def test_a_generation_that_is_there_only_learns_of_the_reserve() -> None:
    door = SwitchDoor(generation=2)
    door.order(OpenGeneration(2, reserve={"C": "at C"}))
    assert door.process.opened == []
    assert door.module.report(door.broker).reserve == {"C": "at C"}


@pytest.mark.parametrize("stage", [OLD, BOTH, AHEAD, NEW])
def test_newcomers_belong_to_the_new_generation_when_all_leave_the_old(stage: Stage) -> None:
    door = SwitchDoor()
    door.goal(3, stage)
    assert door.process.receives_in == (2 if stage == NEW else 1)


@pytest.mark.parametrize("stage", [OLD, BOTH, AHEAD, NEW])
def test_nobody_is_placed_while_the_network_is_switched(stage: Stage) -> None:
    door = SwitchDoor()
    door.goal(3, BOTH)
    door.goal(4, stage)
    granted = door.broker.arbiter.claim("p", "placement", 0)
    assert isinstance(granted, ClaimRefused if BOTH <= stage < NEW else Granted)
