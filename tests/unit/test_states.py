"""State machines: where events lead, and what an event says that cannot happen."""

from enum import Enum
from typing import Any

import pytest

from runnel.client import crossing, migration, move
from runnel.client.crossing import STAGES, CrossingEvent, Position
from runnel.client.migration import MigrationEvent, MigrationStep
from runnel.client.move import Move, MoveEvent
from runnel.errors import BugError
from runnel.states import STORY_LINES_MAX, StateMachine, Transitions


class Lamp(Enum):
    OFF = "off"
    ON = "on"
    BROKEN = "broken"


class Touch(Enum):
    PRESSED = "pressed"
    DROPPED = "dropped"


LAMP = Transitions(
    Lamp.OFF,
    {
        (Lamp.OFF, Touch.PRESSED): Lamp.ON,
        (Lamp.ON, Touch.PRESSED): Lamp.OFF,
        (Lamp.ON, Touch.DROPPED): Lamp.BROKEN,
    },
)
TABLES: dict[str, tuple[Transitions[Any, Any], type[Enum], type[Enum]]] = {
    "move": (move.TRANSITIONS, Move, MoveEvent),
    "crossing": (crossing.TRANSITIONS, Position, CrossingEvent),
    "migration": (migration.TRANSITIONS, MigrationStep, MigrationEvent),
}


def test_events_lead_from_state_to_state() -> None:
    lamp = StateMachine(LAMP, "the lamp")
    assert lamp.state is Lamp.OFF
    assert lamp.can(Touch.PRESSED) and not lamp.can(Touch.DROPPED)
    assert lamp.take(Touch.PRESSED) is lamp.state is Lamp.ON
    assert lamp.take(Touch.DROPPED) is Lamp.BROKEN
    assert not any(lamp.can(touch) for touch in Touch)


def test_an_event_that_cannot_happen_raises_with_the_story_and_changes_nothing() -> None:
    lamp = StateMachine(LAMP, "the lamp in the hall")
    lamp.take(Touch.PRESSED, "by Alice")
    lamp.take(Touch.PRESSED)
    with pytest.raises(BugError) as caught:
        lamp.take(Touch.DROPPED, "by Bob")
    assert str(caught.value).splitlines() == [
        "the lamp in the hall is 'off', where this cannot happen: dropped (by Bob)",
        "  off ─ pressed (by Alice) ─▶ on",
        "  on ─ pressed ─▶ off",
    ]
    assert lamp.state is Lamp.OFF


def test_a_machine_to_which_nothing_has_happened_says_so() -> None:
    with pytest.raises(BugError, match="nothing has happened to it yet"):
        StateMachine(LAMP, "the lamp").take(Touch.DROPPED)


def test_a_story_has_the_latest_only() -> None:
    lamp = StateMachine(LAMP, "the lamp")
    for count in range(3 * STORY_LINES_MAX):
        lamp.take(Touch.PRESSED, str(count))
    lines = lamp.story.splitlines()
    assert len(lines) == STORY_LINES_MAX
    assert f"({3 * STORY_LINES_MAX - 1})" in lines[-1]


@pytest.mark.parametrize("name", TABLES)
def test_every_state_can_be_reached_and_every_event_can_happen(name: str) -> None:
    transitions, states, events = TABLES[name]
    reached = {transitions.start}
    for _ in states:
        reached |= {then for (state, _), then in transitions.rows.items() if state in reached}
    assert reached == set(states)
    assert {event for _, event in transitions.rows} == set(events)
    assert all(str(state.value) in transitions.diagram() for state in states)


def test_a_crossing_changes_its_stage_by_one_or_ends() -> None:
    for (state, event), then in crossing.TRANSITIONS.rows.items():
        if then is Position.ONE:
            assert event is CrossingEvent.LEFT
        else:
            assert abs(STAGES[then] - STAGES[state]) <= 1
