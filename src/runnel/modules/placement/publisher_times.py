"""How far brokers are from the publishers of this broker: GRAPE asks the publishers (placement §IV-B).

A publisher measures all brokers that it is asked for at the same time, each with a few round trips in a row. What it
says holds for a while, so it is asked only for brokers that it has not measured lately. Its answer is halved, since
GRAPE adds it to the times of links, which are one-way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runnel.quantities import SECOND
from runnel.wire import PingAnswer, Pinged, PingRequest
from runnel.wire.messages import PINGED_MAX, PINGS_MAX


@dataclass(frozen=True, slots=True)
class Measured:
    """A time in nanoseconds, one way (0: out of reach), and when it was measured."""

    one_way_ns: int
    at: int


class PublisherTimes:
    """What the publishers of this broker have measured, and what they have been asked for."""

    def __init__(self, samples: int, every_ns: int) -> None:
        self._samples = min(samples, PINGS_MAX)
        self._every_ns = every_ns
        self._known: dict[int, dict[str, Measured]] = {}  # advertisement → broker → its time
        self._asked: dict[int, PingRequest] = {}
        self._number = 0

    def request(
        self, advertisement: int, brokers: Iterable[Pinged], now: int
    ) -> PingRequest | None:
        """What to ask a publisher, so that the times to all of these brokers are known; None: they are."""
        known = self._known.get(advertisement, {})
        missing = [
            one
            for one in brokers
            if one.broker not in known or now - known[one.broker].at >= self._every_ns
        ]
        if not missing:
            return None
        self._number += 1
        asked = PingRequest(advertisement, self._number, tuple(missing[:PINGED_MAX]), self._samples)
        self._asked[advertisement] = asked
        return asked

    def take(self, answer: PingAnswer, now: int) -> bool:
        """Note an answer; whether it is one to the last request."""
        asked = self._asked.get(answer.id)
        if (
            asked is None
            or answer.number != asked.number
            or len(answer.times_ns) != len(asked.brokers)
        ):
            return False
        del self._asked[answer.id]
        known = self._known.setdefault(answer.id, {})
        for one, time_ns in zip(asked.brokers, answer.times_ns, strict=True):
            known[one.broker] = Measured((time_ns + 1) // 2, now)
        return True

    def times_s(self, advertisement: int, brokers: Iterable[str]) -> dict[str, float]:
        """The times in seconds from a publisher to those of these brokers that it can reach."""
        known = self._known.get(advertisement, {})
        return {
            broker: known[broker].one_way_ns / SECOND
            for broker in brokers
            if broker in known and known[broker].one_way_ns
        }

    def forget(self, advertisement: int) -> None:
        """Drop all about a publisher."""
        self._known.pop(advertisement, None)
        self._asked.pop(advertisement, None)
