"""Head-room that is learned: a plan is made for what is to come, and profiles have seen only what was.

A bit vector has the publications in their order, so it shows how much the share of them that a subscription gets has
changed before. It is cut into parts of equal length. The next window is `horizon` parts long; the forecast for it is
the share of bits in the part just before it. Wherever in the vector a whole window follows a part, this forecast can be
judged:

    … part │ window of `horizon` parts │ …         error = share of the window − share of the part before it

`Foresight.bits` is the share of the latest part, and `deviations` times the root mean square of these errors; but never
less than the share of the latest window, which may come back at once. So a subscription that always gets everything
needs no head-room, and one whose quotes cross its threshold every year needs much. A broker needs the sum over those
that it serves.

Not in the papers, which plan for the mean. Uniform head-room (`Constraints.headroom_percent`) is the same for all
brokers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

PART_MIN = 4
"""A part has at least so many publications."""


@dataclass(frozen=True, slots=True)
class Foresight:
    """How the need of the next window is estimated; `parts` is how many parts a vector has if it is long enough."""

    deviations: float = 0.75
    parts: int = 25
    horizon: int = 5

    def bits(self, vector: int, span: int) -> float:
        """How many of as many publications to come are to be reckoned with, given the bits of the last `span`.

        >>> Foresight().bits((1 << 100) - 1, 100)       # everything, always
        100.0
        >>> Foresight().bits(0b1111 << 96, 100)         # nothing but the last four, and never before
        100.0
        >>> round(Foresight().bits(0b11 << 50, 100), 3)   # two, a while ago
        9.186
        >>> Foresight().bits(0b11, 10)                  # too few to learn from
        2.0
        """
        shares = self._shares(vector, span)
        if len(shares) <= self.horizon:
            return float(vector.bit_count())
        errors = self._errors(shares)
        spread = math.sqrt(sum(error * error for error in errors) / len(errors))
        lately = sum(shares[-self.horizon :]) / self.horizon
        return span * max(lately, min(1.0, shares[-1] + self.deviations * spread))

    def _shares(self, vector: int, span: int) -> list[float]:
        """The share of bits in each part, the latest last; the first bits, which fill no part, are left out."""
        length = max(PART_MIN, span // self.parts)
        count, mask = span // length, (1 << length) - 1
        first = span - count * length
        return [
            (vector >> first + number * length & mask).bit_count() / length
            for number in range(count)
        ]

    def _errors(self, shares: Sequence[float]) -> list[float]:
        """The errors of all forecasts that the vector can judge."""
        window = sum(shares[1 : self.horizon])
        found = []
        for before in range(len(shares) - self.horizon):
            # The window of the forecast that part number `before` makes: the `horizon` parts behind it.
            window += shares[before + self.horizon] - (shares[before] if before else 0.0)
            found.append(window / self.horizon - shares[before])
        return found
