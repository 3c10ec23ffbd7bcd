"""Any stream of events in a file, with subscriptions drawn from its own values.

A filter has up to two parts: an equality on a column with few values, with a value that the stream has (drawn
as often as it occurs there), and a range of a numeric column between two of its quantiles. The range is laid
over the rows that the equality lets through, and is as wide as it takes to come to the wanted selectivity: the
share of events that one filter matches. Where many rows share one value a range cannot have every width; then
the nearest of some tries is taken, so the mean over all filters is near the wanted one and single filters may
be off. `facts` tells the mean.

Columns that are neither (free text, timestamps) are published, and not filtered on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Annotated, TypeGuard

from msgspec import Meta

from runnel.errors import InputError
from runnel.language import EVERYTHING, Filter, Op, Predicate, Selection, Value
from runnel.workload.files import Event, read_events
from runnel.workload.parameters import Count, Parameters, Rate
from runnel.workload.shape import Loop, Subscriber, Workload, WorkloadPublisher

Selectivity = Annotated[float, Meta(ge=1e-6, le=1)]

_TRIES = 8
_NEAR = 0.1  # a filter this close to the wanted selectivity, relative to it, needs no further try
_NUMBERS_MIN = 20  # a numeric column with fewer distinct values is for equalities only

Key = tuple[str, Value, bool]
"""A column, a value of it, and whether that is a truth value: to Python true and 1 are one key, here they are not."""

_ALL: Key = ("", "", False)
"""The key of the rows that no equality chooses."""


class EventsParameters(Parameters, frozen=True):
    """`by` names a column: one publisher for each of its values; events without it are left out.

    Without `by` one publisher publishes everything.
    """

    path: str
    selectivity: Selectivity = 0.05
    subscriptions: Count = 1_000
    rate_per_s: Rate = 100.0
    by: str = ""
    rows_max: Count = 50_000
    values_max: Count = 64


def make_events(parameters: EventsParameters, seed: int, folder: Path) -> Workload:
    """Make a workload of the events of a file."""
    path = folder / parameters.path
    taken = islice(read_events(path), parameters.rows_max)
    # What is not a number never matches, so it is as good as absent, and is left out.
    events = [{k: v for k, v in event.items() if v == v} for _, event in taken]
    if not events:
        raise InputError(f"path: there is no event in {path}")
    stream = _Stream(events, parameters.values_max, path)
    random = Random(f"{seed}/events")
    subscribers = []
    matches = 0
    for number in range(1, parameters.subscriptions + 1):
        rows, wanted = stream.draw(parameters.selectivity, random)
        matches += rows
        subscribers.append(Subscriber(f"sub-{number}", wanted))
    publishers = _publishers(events, parameters)
    facts = {"selectivity": matches / parameters.subscriptions / len(events)}
    return Workload("events", publishers, tuple(subscribers), facts)


def _publishers(events: list[Event], parameters: EventsParameters) -> tuple[WorkloadPublisher, ...]:
    """The publishers; each has the part of the rate that it has of the rows."""
    by = parameters.by
    if not by:
        return (WorkloadPublisher("pub-all", EVERYTHING, parameters.rate_per_s, Loop(events)),)
    parts: dict[Key, list[Event]] = {}
    for event in events:
        if by in event:
            parts.setdefault(_key(by, event[by]), []).append(event)
    if not parts or len(parts) > parameters.values_max:
        raise InputError(
            f"by: must be a column with 1 to {parameters.values_max} values (values_max), "
            f"{by!r} has {len(parts)}"
        )
    total = sum(map(len, parts.values()))
    found = []
    for number, key in enumerate(sorted(parts, key=str), start=1):
        mine = parts[key]
        advertised: Selection = Filter([Predicate(by, Op.EQ, key[1])])
        rate_per_s = parameters.rate_per_s * len(mine) / total
        found.append(WorkloadPublisher(f"pub-{number}", advertised, rate_per_s, Loop(mine)))
    return tuple(found)


class _Stream:
    """Statistics of the columns: values with their rows, and sorted numbers."""

    def __init__(self, events: Sequence[Event], values_max: int, path: Path) -> None:
        self.events = events
        self._sorted: dict[tuple[Key, str], list[float]] = {}
        columns: dict[str, dict[Key, None]] = {}
        for event in events:
            for name, value in event.items():
                columns.setdefault(name, {})[_key(name, value)] = None
        self._rows: dict[Key, list[Event]] = {_ALL: list(events)}
        self.equality = [name for name, values in columns.items() if 2 <= len(values) <= values_max]
        for event in events:
            for name in self.equality:
                if name in event:
                    self._rows.setdefault(_key(name, event[name]), []).append(event)
        self.numeric = [name for name, values in columns.items() if _is_numeric(values)]
        if not self.equality and not self.numeric:
            raise InputError(
                f"path: {path} has no column to filter on: one with 2 to {values_max} values (values_max), "
                "or one with numbers"
            )

    def draw(self, selectivity: float, random: Random) -> tuple[int, Filter]:
        """Draw a filter; return how many rows it matches, and itself."""
        wanted = selectivity * len(self.events)
        best: tuple[float, int, Filter] | None = None
        for _ in range(_TRIES):
            rows, found = self._try(wanted, random)
            off = abs(rows - wanted)
            if rows and (best is None or off < best[0]):
                best = (off, rows, found)
            if best is not None and best[0] <= wanted * _NEAR:
                break
        if best is None:  # nothing matched: the plainest filter that does
            return len(self.events), EVERYTHING
        return best[1:]

    def _try(self, wanted: float, random: Random) -> tuple[int, Filter]:
        """One try: an equality if it lets enough through, and a range of what is left, if that is too much."""
        key: Key = _ALL
        if self.equality:
            name = random.choice(self.equality)
            value = random.choice(self.events).get(name)
            # A part too rare for the wanted share is left out, unless nothing else can filter.
            if value is not None and (
                len(self._rows[_key(name, value)]) >= wanted * (1 - _NEAR) or not self.numeric
            ):
                key = _key(name, value)
        rows = len(self._rows[key])
        predicates = [] if key == _ALL else [Predicate(key[0], Op.EQ, key[1])]
        others = [name for name in self.numeric if name != key[0]]
        if rows > wanted * (1 + _NEAR) and others:
            rows, bounds = self._range(key, random.choice(others), wanted, random)
            predicates += bounds
        return rows, Filter(predicates)

    def _range(
        self, key: Key, name: str, wanted: float, random: Random
    ) -> tuple[int, list[Predicate]]:
        """A range of a numeric column that about so many of the rows under the key fall into."""
        values = self._numbers(key, name)
        if not values:
            return 0, []
        width = min(max(1, round(wanted)), len(values))
        start = random.randrange(len(values) - width + 1)
        low, high = values[start], values[start + width - 1]
        rows = bisect_right(values, high) - bisect_left(values, low)
        return rows, [Predicate(name, Op.GE, low), Predicate(name, Op.LE, high)]

    def _numbers(self, key: Key, name: str) -> list[float]:
        """The numbers of a column among the rows under a key, in order."""
        known = self._sorted.get((key, name))
        if known is None:
            rows = self._rows[key]
            known = sorted(value for row in rows if _is_number(value := row.get(name)))
            self._sorted[key, name] = known
        return known


def _key(name: str, value: Value) -> Key:
    return name, value, isinstance(value, bool)


def _is_numeric(values: dict[Key, None]) -> bool:
    return len(values) >= _NUMBERS_MIN and all(_is_number(value) for _, value, _ in values)


def _is_number(value: Value | None) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
