"""State machines as tables: every transition in one place, and the diagrams in docs/ made from the same table.

A class with states defines its states and events as two enumerations and all transitions as one `Transitions`, and
keeps a `StateMachine` that walks through it. The machine only knows the current state: what is *done* at a transition
is up to the class. It does no I/O and keeps no time. An event without a transition from the current state is a bug: it
raises BugError with the story of the machine, which is its latest transitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

from runnel.errors import BugError

STORY_LINES_MAX = 20

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


class Transitions(Generic[S, E]):
    """A table from state and event to the next state. The values of both enumerations are texts for people.

    >>> from enum import Enum
    >>> Door = Enum("Door", {"OPEN": "open", "SHUT": "shut", "GONE": "gone"})
    >>> Push = Enum("Push", {"SOFT": "a soft push", "HARD": "a hard push; it breaks"})
    >>> doors = Transitions(Door.OPEN, {(Door.OPEN, Push.SOFT): Door.SHUT, (Door.SHUT, Push.HARD): Door.GONE})
    >>> print(doors.diagram())
    stateDiagram-v2
        [*] --> open
        open --> shut: a soft push
        shut --> gone: a hard push, it breaks
        gone --> [*]
    """

    def __init__(self, start: S, rows: Mapping[tuple[S, E], S]) -> None:
        self.start = start
        self.rows = dict(rows)

    def diagram(self) -> str:
        """The table as a state diagram in Mermaid, whose labels may have neither colons nor semicolons."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.start.value}"]
        for (state, event), then in self.rows.items():
            label = str(event.value).replace(":", "").replace(";", ",")
            lines.append(f"    {state.value} --> {then.value}: {label}")
        ends = [one for one in type(self.start) if not any(one is state for state, _ in self.rows)]
        lines += [f"    {state.value} --> [*]" for state in ends]
        return "\n".join(lines)


class StateMachine(Generic[S, E]):
    """One walk through a table. `about` names the object, for error messages."""

    __slots__ = ("_about", "_story", "_transitions", "state")

    def __init__(self, transitions: Transitions[S, E], about: str) -> None:
        self.state = transitions.start
        self._transitions = transitions
        self._about = about
        # Not a deque: an empty one takes much memory, and there are very many machines.
        self._story: list[str] = []

    def can(self, event: E) -> bool:
        """Whether the event may happen now."""
        return (self.state, event) in self._transitions.rows

    def take(self, event: E, detail: str = "") -> S:
        """Follow the transition of an event. `detail` goes into the story, such as the target of a move."""
        then = self._transitions.rows.get((self.state, event))
        what = f"{event.value} ({detail})" if detail else str(event.value)
        if then is None:
            raise BugError(
                f"{self._about} is {self.state.value!r}, where this cannot happen: {what}\n{self.story}"
            )
        self._story.append(f"{self.state.value} ─ {what} ─▶ {then.value}")
        if len(self._story) > STORY_LINES_MAX:
            del self._story[0]
        self.state = then
        return then

    @property
    def story(self) -> str:
        """The latest transitions, one on a line.

        >>> from enum import Enum
        >>> Door, Push = Enum("Door", {"OPEN": "open", "SHUT": "shut"}), Enum("Push", {"SOFT": "a push"})
        >>> door = StateMachine(Transitions(Door.OPEN, {(Door.OPEN, Push.SOFT): Door.SHUT}), "the door")
        >>> door.take(Push.SOFT, "by the wind")
        <Door.SHUT: 'shut'>
        >>> print(door.story)
          open ─ a push (by the wind) ─▶ shut
        """
        return "\n".join(f"  {line}" for line in self._story) or "  nothing has happened to it yet"
