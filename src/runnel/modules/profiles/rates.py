"""Measurements for the planner: how much a publisher sends, and how long matching takes.

Both cover the recent past. A publisher's rate covers the last whole period and the present one.
The matching delay is a line through what was measured with different numbers of subscriptions (balance §3.2: at most
ten buckets, by tens); while there is only one number, it is a constant.
"""

from __future__ import annotations

from dataclasses import dataclass

from runnel.broker.meter import Meter
from runnel.quantities import SECOND

PERIOD_NS = 30 * SECOND
MEASURED_MIN = 100
"""The fewest publications in a period that give a measurement of matching."""

_BUCKETS_MAX = 10
_TENS = 10
_NEWEST = 0.25  # the weight of a new measurement in the average of its bucket


@dataclass(slots=True)
class PublisherRate:
    """How much a publisher sent since `began`.

    >>> one = PublisherRate(began=0, rolled=0)
    >>> one.add(10, 500, last=10); one.roll(PERIOD_NS); one.add(5, 250, last=15)
    >>> one.publications, one.bytes, one.last, one.began
    (15, 750, 15, 0)
    >>> one.roll(2 * PERIOD_NS); one.publications, one.began == PERIOD_NS
    (5, True)
    """

    began: int
    rolled: int
    publications: int = 0
    bytes: int = 0
    last: int = 0
    left_at: int | None = None  # when it migrated from here
    _earlier: tuple[int, int] = (0, 0)

    def add(self, publications: int, bytes: int, last: int) -> None:
        """Count what it has sent."""
        self.publications += publications
        self.bytes += bytes
        self.last = max(self.last, last)

    def roll(self, now: int) -> None:
        """A period is over: forget what was sent before it."""
        publications, size = self._earlier
        self.publications -= publications
        self.bytes -= size
        self._earlier = self.publications, self.bytes
        self.began, self.rolled = self.rolled, now


class MatchingDelay:
    """The matching-delay function, as measured.

    >>> matching = MatchingDelay()
    >>> matching.read(Meter(publications_in=100, matching_ns=2_000_000), subscriptions=50); matching.function()
    (20000, 0)
    >>> matching.read(Meter(publications_in=200, matching_ns=7_000_000), subscriptions=150); matching.function()
    (5000, 300)
    """

    def __init__(self) -> None:
        self._before = (0, 0)
        self._delays: dict[int, float] = {}  # tens of subscriptions → nanoseconds

    def read(self, meter: Meter, subscriptions: int) -> None:
        """Take a measurement from the broker's counters."""
        publications = meter.publications_in - self._before[0]
        spent_ns = meter.matching_ns - self._before[1]
        if publications < MEASURED_MIN:
            return
        self._before = meter.publications_in, meter.matching_ns
        tens = subscriptions // _TENS
        known = self._delays.pop(tens, spent_ns / publications)
        self._delays[tens] = known + _NEWEST * (spent_ns / publications - known)
        while len(self._delays) > _BUCKETS_MAX:
            del self._delays[next(iter(self._delays))]

    def function(self) -> tuple[int, int]:
        """Base and slope in nanoseconds; 0 and 0 if nothing was measured."""
        if not self._delays:
            return 0, 0
        points = [(_TENS * tens, delay) for tens, delay in self._delays.items()]
        middle = sum(count for count, _ in points) / len(points)
        average = sum(delay for _, delay in points) / len(points)
        spread = sum((count - middle) ** 2 for count, _ in points)
        rise = sum((count - middle) * (delay - average) for count, delay in points)
        each = max(0.0, rise / spread) if spread else 0.0
        return round(max(0.0, average - each * middle)), round(each)
