"""Rows: what was declared (`criteria.py`), beside what was measured, and whether the two agree.

An experiment only measures: it gives a `RowValue` for each row's id. `judge_rows` joins it with the declarations. A row
holds, differs, or was not measured; a row that nobody measures is shown as such, and never counts as one that holds.

With several seeds a row is judged by their median; the least and the greatest value are shown beside it. Of seeds that
could not measure it the report says how many there are.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Struct

from runnel.errors import BugError
from runnel.lab.criteria import KINDS, Criteria, Criterion, Kind

_DIGITS = 9  # significant ones; more would only show rounding errors
Outcome = Literal["holds", "differs", "not measured"]
OUTCOMES: tuple[Outcome, ...] = ("holds", "differs", "not measured")
Curve = Mapping[Any, float]
"""A row's value by the value of a constant."""


@dataclass(frozen=True, slots=True)
class RowValue:
    """A row's value; NaN if it cannot be measured here. `curves`: the value over constants, by their names."""

    value: float
    note: str = ""
    curves: Mapping[str, Curve] = field(default_factory=dict)


class Row(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of `results.json`: the declaration, and what came out. `values`: those of the seeds, in order."""

    experiment: str
    declared: Criterion
    bounds: str
    ours: float | None
    outcome: Outcome
    values: tuple[float | None, ...] = ()
    note: str = ""
    curves: Mapping[str, tuple[tuple[float | str, float | None], ...]] = {}

    @property
    def id(self) -> str:
        """The row's name."""
        return self.declared.id

    @property
    def kind(self) -> Kind:
        """Whose claim it is."""
        return self.declared.kind


def judge_rows(
    experiment: str, criteria: Criteria, by_seed: Sequence[Mapping[str, RowValue]]
) -> list[Row]:
    """One row for everything that is declared; the notes and curves are those of the first seed."""
    declared = {one.id for one in criteria.row}
    if strangers := {id for found in by_seed for id in found} - declared:
        raise BugError(
            f"{experiment} measures what nobody declared: {', '.join(sorted(strangers))}"
        )
    return [
        judge(experiment, one, [found[one.id] for found in by_seed if one.id in found])
        for one in criteria.row
    ]


def judge(experiment: str, criterion: Criterion, found: Sequence[RowValue]) -> Row:
    """One row: the median of all seeds against the bounds."""
    values = [_finite(one.value) for one in found]
    ours = median(values)
    return Row(
        experiment,
        criterion,
        str(criterion.bounds),
        ours,
        outcome_of(criterion, ours),
        tuple(values),
        found[0].note if found else "",
        {
            name: tuple((x, _finite(y)) for x, y in curve.items())
            for name, curve in (found[0].curves.items() if found else ())
        },
    )


def median(values: Sequence[float | None]) -> float | None:
    """The median of those that were measured; None if none was.

    >>> median([1, 5, 2]), median([1, None]), median([None]), median([])
    (2, 1, None, None)
    """
    known = [value for value in values if value is not None]
    return round_digits(statistics.median(known)) if known else None


def outcome_of(criterion: Criterion, ours: float | None) -> Outcome:
    """Whether a value does what was declared."""
    if ours is None:
        return "not measured"
    return "holds" if criterion.bounds.contain(ours) else "differs"


def count_outcomes(rows: Iterable[Row]) -> dict[Kind, dict[Outcome, int]]:
    """How many rows of each kind hold, differ, and were not measured. Kinds are never added up."""
    counts = Counter((row.kind, row.outcome) for row in rows)
    return {kind: {one: counts[kind, one] for one in OUTCOMES} for kind in KINDS}


def describe_counts(counts: Mapping[Kind, Mapping[Outcome, int]]) -> list[str]:
    """The counts in words, one line for each kind that there is.

    >>> describe_counts({"claim": {"holds": 2, "differs": 1, "not measured": 3}, "ours": dict.fromkeys(OUTCOMES, 0)})
    ['claims: 2 of 6 hold, 1 differs, 3 not measured']
    """
    names = {"claim": "claims", "calibrated": "calibrated, so no evidence", "ours": "our own"}
    return [
        f"{names[kind]}: {of['holds']} of {sum(of.values())} hold, {of['differs']} differ"
        f"{'s' if of['differs'] == 1 else ''}, {of['not measured']} not measured"
        for kind, of in counts.items()
        if sum(of.values())
    ]


def round_digits(value: float) -> float:
    """A number as it is written into files: nine significant digits, and whole numbers as integers.

    >>> round_digits(46.666666666666664), round_digits(3.0), round_digits(1234567890123.0)
    (46.6666667, 3, 1234567890123)
    """
    if isinstance(value, int) or not math.isfinite(value):
        return value
    if value == int(value):
        return int(value)
    return float(f"{value:.{_DIGITS}g}")


def _finite(value: float) -> float | None:
    """NaN and infinity stand for what could not be measured."""
    return round_digits(float(value)) if math.isfinite(value) else None
