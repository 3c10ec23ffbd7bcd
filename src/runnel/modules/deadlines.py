"""Deadlines of the things that a module waits for, with one timer for all of them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from runnel.broker.module import Context


class Deadlines:
    """A deadline for each key, with one timer for all of them."""

    def __init__(self, timer: str) -> None:
        self._timer = timer
        self._until: dict[Hashable, int] = {}
        self._armed: int | None = None

    def set(self, context: Context, key: Hashable, at: int) -> None:
        """Wait for a key until this time."""
        self._until[key] = at
        if self._armed is None or at < self._armed:
            self._armed = at
            context.set_timer(self._timer, at)

    def drop(self, key: Hashable) -> None:
        """Stop waiting for a key."""
        self._until.pop(key, None)

    def due(self, context: Context, now: int) -> list[Any]:
        """The timer fired: remove and return the keys whose deadline has passed."""
        due = [key for key, at in self._until.items() if at <= now]
        for key in due:
            del self._until[key]
        self._armed = min(self._until.values(), default=None)
        if self._armed is not None:
            context.set_timer(self._timer, self._armed)
        return due
