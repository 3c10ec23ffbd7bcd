"""Migration: a publisher goes from the session it has to another, at another broker, with nothing lost.

It has no I/O and keeps no time: whoever drives the two sessions calls `advance` after whatever happened to either, and
now and then. Publishing is paused as late as can be, and for one round trip along the path between the two
brokers (placement/migration.py says what happens there).

What cannot be finished is undone. Before the brokers know of it that costs nothing. After, the publisher is set up
anew where it was, under another id, and goes on when its routes are there.
"""

from __future__ import annotations

from enum import Enum

from runnel.client.effects import Migrated
from runnel.client.move import Move
from runnel.client.session import Session
from runnel.errors import InputError


class Step(Enum):
    """Where a migration stands."""

    JOINING = "joining"  # the target's broker is being dialled; publishing goes on
    PAUSING = "pausing"  # nothing more is published; the source's broker takes in what was
    CROSSING = "crossing"  # the brokers on the path turn to the target
    RETURNING = "returning"  # given up after the brokers knew of it: set up anew at the source
    DONE = "done"
    UNDONE = "undone"


TRANSITIONS: dict[tuple[Step, str], Step] = {
    (Step.JOINING, "both are up"): Step.PAUSING,
    (Step.JOINING, "lost, late or withdrawn"): Step.UNDONE,
    (Step.PAUSING, "the source has all that was published"): Step.CROSSING,
    (Step.PAUSING, "lost, late or withdrawn"): Step.UNDONE,
    (Step.CROSSING, "MCM"): Step.DONE,
    (Step.CROSSING, "withdrawn"): Step.UNDONE,
    (Step.CROSSING, "MCM: broken; the target is lost; late"): Step.RETURNING,
    (Step.RETURNING, "its routes are there, or it was withdrawn"): Step.UNDONE,
}
"""Every step there is; the diagram in docs/placement.md is made from it."""


def diagram() -> str:
    """The steps as a state diagram in Mermaid, whose labels may have neither colons nor semicolons.

    >>> print(diagram().splitlines()[2])
        joining --> pausing: both are up
    """
    lines = ["stateDiagram-v2", f"    [*] --> {Step.JOINING.value}"]
    for (step, event), then in TRANSITIONS.items():
        label = event.replace(":", "").replace(";", ",")
        lines.append(f"    {step.value} --> {then.value}: {label}")
    ends = [step for step in Step if not any(step is before for before, _ in TRANSITIONS)]
    lines += [f"    {step.value} --> [*]" for step in ends]
    return "\n".join(lines)


class Migration:
    """One migration of the advertisement `id`. `target` is a session that has no publishers or subscriptions."""

    def __init__(
        self, id: int, source: Session, target: Session, now: int, timeout_ns: int
    ) -> None:
        if id not in source.publishers or source.publishers[id].paused:
            raise InputError("there is no such publisher, or it is migrating already")
        if not source.is_settled:
            raise InputError("the client is moving to another broker: wait for that first")
        self.id = id
        self.source = source
        self.target = target
        self.step = Step.JOINING
        self.advertised = source.publishers[id]
        self.paused_at = self.resumed_at = 0
        self._deadline = now + timeout_ns
        self._sent = 0
        self._known_as: int | None = None
        self._arrival: Migrated | None = None

    @property
    def is_over(self) -> bool:
        """Whether it is done or undone."""
        return self.step in (Step.DONE, Step.UNDONE)

    def arrived(self, arrival: Migrated) -> None:
        """The target told that the brokers on the path are through."""
        self._arrival = arrival

    def advance(self, now: int) -> bool:
        """Go as far as can be gone now; whether it is over. Afterwards both sessions may have something to flush."""
        while (event := self._event(now)) is not None:
            step = TRANSITIONS[self.step, event]
            self._take(step, now)
            self.step = step
        return self.is_over

    # -- inside ---------------------------------------------------------------------------------------

    def _event(self, now: int) -> str | None:
        """What has happened that takes it a step further."""
        match self.step:
            case Step.JOINING if self._is_hopeless(now):
                return "lost, late or withdrawn"
            case Step.JOINING if self._both_are_up:
                return "both are up"
            case Step.PAUSING if self._is_hopeless(now):
                return "lost, late or withdrawn"
            case Step.PAUSING if self.source.has_taken(self._sent):
                return "the source has all that was published"
            case Step.CROSSING if self._is_withdrawn:
                return "withdrawn"
            case Step.CROSSING if self._arrival is not None and not self._arrival.broken:
                return "MCM"
            case Step.CROSSING if self._arrival or now > self._deadline or not self._target_knows:
                return "MCM: broken; the target is lost; late"
            case Step.RETURNING if self._is_withdrawn or not self.advertised.paused:
                return "its routes are there, or it was withdrawn"
        return None

    def _take(self, step: Step, now: int) -> None:
        """Do what a step asks for."""
        if step is Step.PAUSING:
            self._known_as = self.source.known_as(self.id)
            self._sent = self.source.pause(self.id)
            self.paused_at = now
        elif step is Step.CROSSING:
            self.target.adopt(self.id, self.source)
        elif step is Step.DONE:
            self.source.release(self.id)
            self.target.go_on(self.id)
            self.resumed_at = now
        else:
            self.target.close()
            if step is Step.RETURNING:
                self.source.take_back(self.id)
            elif self.step is not Step.RETURNING and not self._is_withdrawn:
                self.source.go_on(self.id)

    @property
    def _is_withdrawn(self) -> bool:
        return self.id not in self.source.publishers

    @property
    def _both_are_up(self) -> bool:
        homes = (self.source.home, self.target.home)
        return all(home is not None and home.registered for home in homes)

    @property
    def _are_apart(self) -> bool:
        """Whether the two are in different generations of the network."""
        source, target = self.source.home, self.target.home
        if source is None or target is None or not target.registered:
            return False
        return source.generation != target.generation

    @property
    def _target_knows(self) -> bool:
        return self.target.known_as(self.id) == self._known_as

    def _is_hopeless(self, now: int) -> bool:
        """Whether it is to be undone while brokers know nothing of it yet."""
        is_late = now > self._deadline or self.target.home is None
        has_moved = self.source.move is not Move.STEADY or not self.target.is_settled
        if self.step is Step.JOINING:
            has_moved = not (self.source.is_settled and self.target.is_settled)
        else:  # set up anew: under another id, and what was sent is in doubt
            has_moved = has_moved or self.source.known_as(self.id) != self._known_as
        return is_late or has_moved or self._is_withdrawn or self._are_apart
