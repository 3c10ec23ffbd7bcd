"""Rates from counters: how much they changed between two readings, per second."""

from __future__ import annotations

import time
from collections.abc import Callable


class Rates:
    """Remembers the last reading of each counter.

    >>> seconds = iter([0.0, 2.0])
    >>> rates = Rates(lambda: next(seconds))
    >>> rates.look({"B1": 10}), rates.look({"B1": 30, "B2": 5})
    ({'B1': 0.0}, {'B1': 10.0, 'B2': 0.0})
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at = 0.0
        self._last: dict[str, int] = {}

    def look(self, counts: dict[str, int]) -> dict[str, float]:
        """The rate of each counter since the last reading; 0 for a new counter."""
        now = self._clock()
        passed = now - self._at
        rates = {
            name: (count - self._last[name]) / passed if name in self._last and passed else 0.0
            for name, count in counts.items()
        }
        self._at, self._last = now, dict(counts)
        return rates
