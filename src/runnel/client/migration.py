"""Migration: a publisher goes from its session to another one, at another broker, with nothing lost.

This is for one publisher. A whole client goes to another broker by a move (move.py), and all clients to the next
generation of the network by crossings (crossing.py).

It does no I/O and has no clock: the driver of the two sessions calls `advance` after each event of either, and from
time to time. Publishing is paused as late as possible, for one round trip along the path between the two
brokers (modules/placement/migration.py describes the brokers' side).

A migration that cannot be finished is undone. Before the brokers know of it that costs nothing. Later the publisher is
set up anew in its old session, under another id, and is resumed when its routes are complete.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from runnel.client.effects import Migrated
from runnel.client.move import Move
from runnel.client.session import Session
from runnel.errors import InputError
from runnel.states import StateMachine, Transitions


class MigrationStep(Enum):
    """Where a migration stands."""

    JOINING = "joining"  # the target's broker is being dialled; publishing goes on
    PAUSING = "pausing"  # publishing is paused; the source's broker takes in what was sent
    CROSSING = "crossing"  # the brokers on the path turn to the target
    RETURNING = "returning"  # given up after the brokers knew of it: set up anew at the source
    DONE = "done"
    UNDONE = "undone"


class MigrationEvent(Enum):
    """The events of a migration."""

    BOTH_UP = "both are up"
    HOPELESS = "lost, late or withdrawn"
    SOURCE_HAS_ALL = "the source has all that was published"
    COMPLETE = "MCM"
    WITHDRAWN = "withdrawn"
    BROKEN = "MCM: broken; the target is lost; late"
    BACK = "its routes are complete, or it was withdrawn"


TRANSITIONS: Transitions[MigrationStep, MigrationEvent] = Transitions(
    MigrationStep.JOINING,
    {
        (MigrationStep.JOINING, MigrationEvent.BOTH_UP): MigrationStep.PAUSING,
        (MigrationStep.JOINING, MigrationEvent.HOPELESS): MigrationStep.UNDONE,
        (MigrationStep.PAUSING, MigrationEvent.SOURCE_HAS_ALL): MigrationStep.CROSSING,
        (MigrationStep.PAUSING, MigrationEvent.HOPELESS): MigrationStep.UNDONE,
        (MigrationStep.CROSSING, MigrationEvent.COMPLETE): MigrationStep.DONE,
        (MigrationStep.CROSSING, MigrationEvent.WITHDRAWN): MigrationStep.UNDONE,
        (MigrationStep.CROSSING, MigrationEvent.BROKEN): MigrationStep.RETURNING,
        (MigrationStep.RETURNING, MigrationEvent.BACK): MigrationStep.UNDONE,
    },
)
"""Every step there is; the diagram in docs/placement.md is made from it."""


class PublisherMigration:
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
        self.advertised = source.publishers[id]
        self.paused_at = self.resumed_at = 0
        self._deadline = now + timeout_ns
        self._sent = 0
        self._wire_id: int | None = None
        self._arrival: Migrated | None = None
        about = f"the migration of {self.advertised.name} ({id:x})"
        self._machine = StateMachine(TRANSITIONS, about)

    @property
    def step(self) -> MigrationStep:
        """Where it stands."""
        return self._machine.state

    @property
    def is_over(self) -> bool:
        """Whether it is done or undone."""
        return self.step in (MigrationStep.DONE, MigrationStep.UNDONE)

    def handle_effect(self, session: Session, effect: Any) -> None:
        """Take in an effect of one of the sessions: `Migrated` says that the brokers on the path have finished."""
        if isinstance(effect, Migrated) and effect.id == self.id and session is self.target:
            self._arrival = effect

    def advance(self, now: int) -> bool:
        """Go as far as possible now; returns whether it is over. Afterwards both sessions have to be flushed."""
        while (event := self._event(now)) is not None:
            before, step = self.step, self._machine.take(event)
            self._act(before, step, now)
        return self.is_over

    # -- inside ---------------------------------------------------------------------------------------

    def _event(self, now: int) -> MigrationEvent | None:
        """The event that has happened, if any."""
        match self.step:
            case MigrationStep.JOINING if self._is_hopeless(now):
                return MigrationEvent.HOPELESS
            case MigrationStep.JOINING if self._both_are_up:
                return MigrationEvent.BOTH_UP
            case MigrationStep.PAUSING if self._is_hopeless(now):
                return MigrationEvent.HOPELESS
            case MigrationStep.PAUSING if self.source.advertiser.has_taken(self._sent):
                return MigrationEvent.SOURCE_HAS_ALL
            case MigrationStep.CROSSING if self._is_withdrawn:
                return MigrationEvent.WITHDRAWN
            case MigrationStep.CROSSING if self._arrival is not None and not self._arrival.broken:
                return MigrationEvent.COMPLETE
            case MigrationStep.CROSSING if (
                self._arrival or now > self._deadline or not self._target_knows
            ):
                return MigrationEvent.BROKEN
            case MigrationStep.RETURNING if self._is_withdrawn or not self.advertised.paused:
                return MigrationEvent.BACK
        return None

    def _act(self, before: MigrationStep, step: MigrationStep, now: int) -> None:
        """Do what belongs to a step that has begun."""
        if step is MigrationStep.PAUSING:
            self._wire_id = self.source.advertiser.wire_id(self.id)
            self._sent = self.source.advertiser.pause(self.id)
            self.paused_at = now
        elif step is MigrationStep.CROSSING:
            self.target.advertiser.adopt(self.id, self.source.advertiser)
        elif step is MigrationStep.DONE:
            self.source.advertiser.release(self.id)
            self.target.advertiser.resume(self.id)
            self.resumed_at = now
        else:
            self.target.close()
            if step is MigrationStep.RETURNING:
                self.source.advertiser.take_back(self.id)
            elif before is not MigrationStep.RETURNING and not self._is_withdrawn:
                self.source.advertiser.resume(self.id)

    @property
    def _is_withdrawn(self) -> bool:
        return self.id not in self.source.publishers

    @property
    def _both_are_up(self) -> bool:
        homes = (self.source.home, self.target.home)
        return all(home is not None and home.registered for home in homes)

    @property
    def _generations_differ(self) -> bool:
        """Whether the two are in different generations of the network."""
        source, target = self.source.home, self.target.home
        if source is None or target is None or not target.registered:
            return False
        return source.generation != target.generation

    @property
    def _target_knows(self) -> bool:
        return self.target.advertiser.wire_id(self.id) == self._wire_id

    def _is_hopeless(self, now: int) -> bool:
        """Whether it has to be undone while brokers know nothing of it yet."""
        is_late = now > self._deadline or self.target.home is None
        has_moved = self.source.move is not Move.STEADY or not self.target.is_settled
        if self.step is MigrationStep.JOINING:
            has_moved = not (self.source.is_settled and self.target.is_settled)
        else:  # another id means that it was set up anew, and what was sent is in doubt
            has_moved = has_moved or self.source.advertiser.wire_id(self.id) != self._wire_id
        return is_late or has_moved or self._is_withdrawn or self._generations_differ
