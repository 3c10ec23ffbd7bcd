"""The workloads that matching is measured on: events, and filters without end to draw from.

stock       the subscription mix of balance §6.2 on stock quotes, thresholds drawn from the quotes
intervals   20 numeric attributes; a filter has K intervals, each true with probability p
strings     prefix, suffix and contains on three attributes of words
events      filters drawn over an event stream: real where a folder of data is given, else synthetic

Rule: one seed gives one workload, so that two runs and two engines see the same.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import NamedTuple

from runnel.language import Filter, Op, Predicate
from runnel.workload.files import Event, read_events
from runnel.workload.stocks import balance_filters, read_quotes, synthetic_quotes

EVENTS = 5_000
INTERVAL_CASES = ((5, 0.1), (3, 0.3), (10, 0.5), (10, 0.9))
INTERVAL_ATTRIBUTES = 20
_REAL_STOCKS = "stocks_padres/quotes.parquet"
_REAL_EVENTS = "events_wikipedia_edits/edits.parquet"
_ROWS_READ = 40_000


class MatchingWorkload(NamedTuple):
    """What an engine is measured with."""

    source: str
    events: list[Event]
    filters: Callable[[int], Iterator[Filter]]


def make_workload(name: str, data: Path | None) -> MatchingWorkload:
    """Make a workload by name: stock, intervals-K-p, strings or events."""
    if name.startswith("intervals-"):
        _, k, p = name.split("-")
        return _intervals(int(k), float(p))
    return {"stock": _stock, "strings": _strings, "events": _events}[name](data)


def find_data() -> Path | None:
    """The folder of real data: $RUNNEL_DATA, or shared/data beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    for folder in (os.environ.get("RUNNEL_DATA"), beside):
        if folder and Path(folder).is_dir():
            return Path(folder)
    return None


def _stock(data: Path | None) -> MatchingWorkload:
    path = data / _REAL_STOCKS if data else None
    if path and path.exists():
        # A stretch of days with most symbols in it: quotes are sorted by date.
        quotes = list(islice(read_quotes(path), 100_000, 100_000 + _ROWS_READ))
        source = _REAL_STOCKS
    else:
        quotes = list(synthetic_quotes(symbol_count=80, days=500))
        source = "synthetic quotes"
    events = Random(2).sample(quotes, EVENTS)
    return MatchingWorkload(source, events, lambda count: balance_filters(quotes, count))


def _intervals(k: int, p: float) -> MatchingWorkload:
    names = [f"a{number:02}" for number in range(INTERVAL_ATTRIBUTES)]
    random = Random(3)
    events: list[Event] = [{name: random.random() for name in names} for _ in range(EVENTS)]

    def filters(count: int) -> Iterator[Filter]:
        draw = Random(4)
        for _ in range(count):
            predicates = []
            for name in draw.sample(names, k):
                low = draw.uniform(0, 1 - p)
                predicates.append(Predicate(name, Op.GE, low))
                predicates.append(Predicate(name, Op.LE, low + p))
            yield Filter(predicates)

    return MatchingWorkload("uniform", events, filters)


def _strings(data: Path | None) -> MatchingWorkload:
    random = Random(5)
    words = [_word(random) for _ in range(5_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    names = ("title", "author", "tags")

    def text(draw: Random) -> str:
        return " ".join(draw.choices(words, weights, k=draw.randint(2, 5)))

    events: list[Event] = [{name: text(random) for name in names} for _ in range(EVENTS)]
    kinds = ([Op.PREFIX] * 40) + ([Op.SUFFIX] * 30) + ([Op.CONTAINS] * 30)

    def filters(count: int) -> Iterator[Filter]:
        draw = Random(6)
        for _ in range(count):
            predicates = [
                Predicate(name, op, _pattern(draw, op, draw.choice(words)))
                for name, op in zip(
                    draw.sample(names, draw.choice((1, 1, 2))),
                    draw.choices(kinds, k=2),
                    strict=False,
                )
            ]
            yield Filter(predicates)

    return MatchingWorkload("synthetic words", events, filters)


def _word(random: Random) -> str:
    return "".join(
        random.choice("bcdfghklmnprstvwz") + random.choice("aeiou")
        for _ in range(random.randint(2, 5))
    )


def _pattern(draw: Random, op: Op, word: str) -> str:
    length = draw.randint(3, 6)
    if op is Op.PREFIX:
        return word[:length]
    if op is Op.SUFFIX:
        return word[-length:]
    start = draw.randint(0, max(0, len(word) - length))
    return word[start : start + length]


def _events(data: Path | None) -> MatchingWorkload:
    path = data / _REAL_EVENTS if data else None
    if path and path.exists():
        rows = [event for _, event in islice(read_events(path), _ROWS_READ)]
        source = _REAL_EVENTS
    else:
        rows = list(_synthetic_edits(_ROWS_READ))
        source = "synthetic stream (no data folder given)"
    events = Random(7).sample(rows, min(EVENTS, len(rows)))
    return MatchingWorkload(source, events, lambda count: _drawn_filters(rows, count))


def _drawn_filters(rows: list[Event], count: int) -> Iterator[Filter]:
    """Filters that want something like an event that was seen: a text of it, and up to two things more."""
    draw = Random(8)
    telling = _informative_attributes(rows)
    rows = [row for row in rows if not telling.isdisjoint(row)]
    for row in islice(cycle(draw.sample(rows, len(rows))), count):
        subject = draw.choice([name for name in row if name in telling])
        others = [name for name in row if name not in (subject, "time")]
        chosen = [subject, *draw.sample(others, draw.randint(0, 2))]
        predicates = [wanted for name in chosen for wanted in _like(draw, name, row[name])]
        yield Filter(predicates)


def _informative_attributes(rows: list[Event]) -> set[str]:
    """The attributes that a subscription is about: texts none of whose values is nearly everywhere."""
    values: dict[str, Counter[str]] = {}
    for row in rows:
        for name, value in row.items():
            if isinstance(value, str):
                values.setdefault(name, Counter())[value] += 1
    commonest = {name: max(seen.values()) / seen.total() for name, seen in values.items()}
    return {name for name, share in commonest.items() if share < 0.4 and name != "time"}


def _like(draw: Random, name: str, value: object) -> list[Predicate]:
    """One or two predicates that this value satisfies."""
    if isinstance(value, str):
        if draw.random() < 0.3 and len(value) > 4:
            return [Predicate(name, Op.PREFIX, value[: draw.randint(3, len(value) - 1)])]
        return [Predicate(name, Op.EQ, value)]
    if isinstance(value, bool):
        return [Predicate(name, Op.EQ, value)]
    assert isinstance(value, (int, float))
    kind = draw.random()
    if kind < 0.4:
        return [Predicate(name, Op.GE, value)]
    if kind < 0.8:
        return [Predicate(name, Op.LE, value)]
    width = max(1.0, abs(value) / 2)
    return [Predicate(name, Op.GE, value - width), Predicate(name, Op.LE, value + width)]


def _synthetic_edits(count: int) -> Iterator[Event]:
    """Edits of a wiki that never was: text, yes/no and heavy-tailed numbers, some of them missing."""
    random = Random(9)
    channels = [f"#{_word(random)[:2]}.wiki" for _ in range(50)]
    weights = [1 / rank for rank in range(1, 51)]
    for _ in range(count):
        delta = int(random.paretovariate(0.8)) * random.choice((1, 1, -1))
        event: Event = {
            "channel": random.choices(channels, weights)[0],
            "namespace": random.choice(("Main", "Main", "Main", "Talk", "User")),
            "user_no": int(random.paretovariate(0.5)) % 8_000,
            "anonymous": random.random() < 0.1,
            "minor": random.random() < 0.2,
            "robot": random.random() < 0.4,
            "delta": delta,
            "added": max(0, delta),
            "deleted": max(0, -delta),
        }
        if event["namespace"] == "Main":
            event["page"] = f"{_word(random)} {_word(random)}".capitalize()
        yield event
