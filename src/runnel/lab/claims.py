"""Claims: what a paper says, what came out here, and whether that agrees.

A row is made by one of four functions, so that `holds` always follows from the numbers beside it:

    near       about as much as the paper says: ours within a tolerance of it, in percent or absolute
    at_most    no more than a bound
    at_least   no less than a bound
    exactly    the very same

Rules:
- A claim is written before its number is known, and its tolerance with it. What does not hold is shown as such.
- `calibrated` marks a row that a constant was chosen by: it shows that the choice was made well, and is no evidence.
- `paper` is what is printed, and `source` says where; None where the papers print nothing and the claim is our own.
- Rows hold nothing that differs between two runs of one seed; what a clock on the wall said goes elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypedDict, Unpack

from runnel.errors import InputError

_DIGITS = 9  # of what is written; more would only show how floats are added up


@dataclass(frozen=True, slots=True)
class Claim:
    """One row of `results.json`; `unit` is that of both values."""

    claim: str
    paper: float | str | None
    ours: float
    unit: str
    tolerance: str
    holds: bool
    calibrated: bool = False
    source: str = ""  # where the paper prints it
    note: str = ""

    def as_row(self) -> dict[str, Any]:
        """For programs; numbers are rounded, so that the last digits of floats tell nothing."""
        row = asdict(self)
        for name in ("paper", "ours"):
            row[name] = rounded(row[name]) if isinstance(row[name], float) else row[name]
        return row

    def with_note(self, note: str, *, calibrated: bool = False) -> Claim:
        """The same with a remark."""
        return replace(self, note=note, calibrated=calibrated)


def near(
    claim: str,
    ours: float,
    paper: float,
    *,
    percent: float | None = None,
    absolute: float | None = None,
    unit: str = "",
    source: str = "",
) -> Claim:
    """Ours is within so many percent of the paper's value, or within so much of it.

    >>> near("rate at a sink", 46.9, 46.7, percent=1, unit="msg/s").holds
    True
    >>> near("share", 0.12, 0.08, absolute=0.01).tolerance
    '± 0.01'
    """
    if (percent is None) == (absolute is None):
        raise InputError(f"{claim}: give a tolerance either in percent or absolute")
    if percent is not None:
        allowed, tolerance = abs(paper) * percent / 100, f"± {percent:g}%"
    else:
        allowed, tolerance = absolute or 0.0, f"± {absolute:g}"
    holds = _is_number(ours) and rounded(abs(ours - paper)) <= rounded(allowed)
    return Claim(claim, paper, ours, unit, tolerance, holds, source=source)


class About(TypedDict, total=False):
    """What a claim may say of itself: the paper's value, the unit, where it stands."""

    paper: float | str | None
    unit: str
    source: str


def _claim(claim: str, ours: float, tolerance: str, holds: bool, about: About) -> Claim:
    paper, unit = about.get("paper"), about.get("unit", "")
    return Claim(claim, paper, ours, unit, tolerance, holds, source=about.get("source", ""))


def exactly(claim: str, ours: float, expected: float, **about: Unpack[About]) -> Claim:
    """Ours is the expected value itself; floats that differ in their last digits are the same.

    >>> exactly("lost", 0, 0).holds, exactly("lost", 1, 0).holds
    (True, False)
    """
    holds = _is_number(ours) and rounded(ours) == rounded(expected)
    return _claim(claim, ours, f"= {rounded(expected):g}", holds, about)


def at_most(claim: str, ours: float, bound: float, **about: Unpack[About]) -> Claim:
    """Ours does not exceed a bound. Without a `paper`, the bound is our own.

    >>> at_most("overhead", 0.15, 0.2, unit="%").tolerance
    '≤ 0.2'
    """
    holds = _is_number(ours) and ours <= bound
    return _claim(claim, ours, f"≤ {bound:g}", holds, about)


def at_least(claim: str, ours: float, bound: float, **about: Unpack[About]) -> Claim:
    """Ours reaches a bound.

    >>> at_least("reduction", 91.0, 80.0, paper=91.0, unit="%").holds
    True
    """
    holds = _is_number(ours) and ours >= bound
    return _claim(claim, ours, f"≥ {bound:g}", holds, about)


def rounded(value: float) -> float:
    """A number as it is written: nine digits that count, and whole numbers whole.

    >>> rounded(46.666666666666664), rounded(3.0), rounded(1234567890123.0)
    (46.6666667, 3, 1234567890123)
    """
    if isinstance(value, int) or not math.isfinite(value):
        return value
    if value == int(value):
        return int(value)
    return float(f"{value:.{_DIGITS}g}")


def all_hold(claims: Sequence[Claim]) -> bool:
    """Whether there is nothing that does not hold."""
    return all(claim.holds for claim in claims)


def _is_number(value: float) -> bool:
    """NaN compares with nothing: what could not be measured does not hold."""
    return math.isfinite(value)
