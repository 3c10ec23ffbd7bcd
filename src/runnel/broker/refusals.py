"""Refusals: links between brokers that could not be, because one side refused the other.

Kept for `status`, for as long as they may still be true: a broker that was refused dials again, so its refusal is
forgotten when it has not come back for `KEPT_BEATS` heartbeats.
"""

from __future__ import annotations

from typing import NamedTuple

KEPT_BEATS = 10
NAMED_MAX = 32


class Refusal(NamedTuple):
    """A broker that was refused, or that refuses this one."""

    name: str
    address: str  # where it listens, if it has said so
    reason: str


class Refusals:
    """The refusals that one broker has given, and those that it got."""

    def __init__(self, heartbeat_ns: int) -> None:
        self._kept_ns = KEPT_BEATS * heartbeat_ns
        self._given: dict[Refusal, int] = {}  # and when
        self._got: dict[str, tuple[Refusal, int]] = {}  # by the name of the broker that refuses

    def give(self, refusal: Refusal, now: int) -> None:
        """A broker was refused."""
        self._given.pop(refusal, None)
        self._given[refusal] = now
        while len(self._given) > NAMED_MAX:
            del self._given[next(iter(self._given))]

    def get(self, refusal: Refusal, now: int) -> bool:
        """A broker refuses this one; whether that is news."""
        known = self._got.get(refusal.name)
        self._got[refusal.name] = refusal, now
        return known is None or known[0] != refusal

    def forget(self, name: str, address: str) -> None:
        """A broker of this name is linked, which listens there."""
        self._got.pop(name, None)
        for one in [
            one for one in self._given if one.name == name and one.address in ("", address)
        ]:
            del self._given[one]

    def list_given(self, now: int) -> list[Refusal]:
        """Who is refused here."""
        return [one for one, since in self._given.items() if now - since < self._kept_ns]

    def list_got(self, now: int) -> list[Refusal]:
        """Who refuses this broker."""
        return [one for one, since in self._got.values() if now - since < self._kept_ns]
