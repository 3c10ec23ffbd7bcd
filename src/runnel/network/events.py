"""What a publisher of a topology publishes: the same events in the same order wherever it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import cycle, islice
from pathlib import Path

from runnel.errors import InputError
from runnel.network.topology import PublishPlan
from runnel.workload.files import Event, read_events
from runnel.workload.stocks import synthetic_quotes

QUOTE_SYMBOLS = 40
QUOTE_DAYS = 50


def events_of(plan: PublishPlan, folder: Path) -> Iterator[Event]:
    """The events of a publisher, in order; without end if its plan has none.

    >>> from runnel.language import parse
    >>> from runnel.network.topology import WrittenFilter
    >>> plan = PublishPlan(WrittenFilter("a > 0", parse("a > 0")), ({"a": 1}, {"a": 2}), count=3)
    >>> list(events_of(plan, Path()))
    [{'a': 1}, {'a': 2}, {'a': 1}]
    """
    found = _read_matching(plan, folder)
    if plan.events == "stocks":
        return islice(cycle(found), plan.count)
    return islice(cycle(found), len(found) if plan.count is None else plan.count)


def _read_matching(plan: PublishPlan, folder: Path) -> Sequence[Event]:
    advertised = plan.advertise
    if isinstance(plan.events, tuple):
        return [dict(event) for event in plan.events]
    if plan.events == "stocks":
        quotes = [quote for quote in _quotes(plan.seed) if advertised.selection.matches(quote)]
        if not quotes:
            raise InputError(f"no stock quote is what is advertised: {advertised.text}")
        return quotes
    path = folder / plan.events
    found = []
    for number, event in read_events(path):
        if not advertised.selection.matches(event):
            raise InputError(
                f"{path}, line {number}: it is not what is advertised: {advertised.text}"
            )
        found.append(event)
    if not found:
        raise InputError(f"{path}: there is no event in this file")
    return found


@cache
def _quotes(seed: int) -> tuple[Event, ...]:
    return tuple(synthetic_quotes(symbol_count=QUOTE_SYMBOLS, days=QUOTE_DAYS, seed=seed))
