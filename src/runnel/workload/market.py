"""The publishers of every stock workload: one per symbol, each with the daily quotes of its stock.

All three papers say so: "each publisher publishes a unique stockquote", over and over at a fixed rate. The quotes
come from a file if one is given, else they are synthetic. Where a file has more symbols than publishers are asked for,
those with the most days publish, so that a short history does not limit what thresholds are drawn from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Literal

from runnel.errors import InputError
from runnel.language import Filter, Op, Predicate
from runnel.workload.files import Event
from runnel.workload.parameters import Count, Parameters, Rate
from runnel.workload.shape import Loop, WorkloadPublisher
from runnel.workload.stocks import read_quotes, synthetic_quotes

Quotes = Mapping[str, Sequence[Event]]
"""Symbol → the quotes of its days, in the order in which they are published."""


class StockParameters(Parameters, frozen=True):
    """What all stock workloads share. `order`: as the days were, or shuffled.

    Prices drift, so a window that is shorter than the file is not like the whole file. `shuffled` makes every
    window alike; the papers do not say, and `date` is the plain reading.
    """

    publishers: Count = 40
    rate_per_min: Rate = 30.0
    quotes: str = ""
    days: Count = 250
    order: Literal["date", "shuffled"] = "date"


def open_market(parameters: StockParameters, seed: int, folder: Path) -> Quotes:
    """The quotes of as many symbols as there are publishers."""
    count = parameters.publishers
    if parameters.quotes:
        every = _by_symbol(read_quotes(folder / parameters.quotes))
        if len(every) < count:
            raise InputError(
                f"publishers: {parameters.quotes} has {len(every)} symbols, so there can be at most "
                f"{len(every)} publishers, got {count}"
            )
        names = sorted(every, key=lambda name: (-len(every[name]), name))[:count]
        market = {name: every[name] for name in sorted(names)}
    else:
        days = parameters.days
        market = _by_symbol(synthetic_quotes(symbol_count=count, days=days, seed=seed))
    if parameters.order == "shuffled":
        for name, quotes in market.items():
            Random(f"{seed}/order/{name}").shuffle(quotes)
    return market


def publishers_of(
    market: Quotes, rate_per_min: float, brokers: Sequence[int | None]
) -> list[WorkloadPublisher]:
    """One publisher per symbol; `brokers` says where each is."""
    return [
        WorkloadPublisher(
            f"pub-{symbol}", whole_symbol(symbol), rate_per_min / 60, Loop(quotes), broker
        )
        for (symbol, quotes), broker in zip(market.items(), brokers, strict=True)
    ]


def whole_symbol(symbol: str, *more: Predicate) -> Filter:
    """`[class,=,'STOCK'],[symbol,=,…]` and whatever else is asked for."""
    return Filter([Predicate("class", Op.EQ, "STOCK"), Predicate("symbol", Op.EQ, symbol), *more])


def _by_symbol(quotes: Iterable[Event]) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for quote in quotes:
        found.setdefault(str(quote["symbol"]), []).append(quote)
    return found
