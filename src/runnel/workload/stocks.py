"""Stock quotes and the subscriptions of the papers: the workload of balance, placement and green.

A quote is a publication with the attributes that the papers print:

    class symbol open high low close volume date
    openClose%Diff highLow%Diff closeEqualsLow closeEqualsHigh

The papers do not define the derived four; the quote they print (YHOO, 5 September 1996: open, low and close
18.37, high 18.62, highLow%Diff 0.014) and the traffic they state fix them as

    openClose%Diff = |close − open| / open     highLow%Diff = (high − low) / low     (3 decimals)

and closeEqualsLow, closeEqualsHigh are the strings 'true' and 'false', as printed. Dates are ISO 8601 text
instead of the papers' `5-Sep-96`, so that they sort by time.

Rule: one seed gives one workload, whatever the hash seed, and a symbol's quotes do not depend on how
many other symbols there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import accumulate, islice, product
from pathlib import Path
from random import Random
from string import ascii_uppercase
from typing import NamedTuple, cast

from runnel.errors import InputError
from runnel.language import Filter, Op, Predicate, Value
from runnel.workload.files import Event, read_events

FIRST_DAY = date(2024, 1, 1)
_COLUMNS = ("symbol", "open", "high", "low", "close", "volume", "date")
_KNOWN_SYMBOLS = (
    "YHOO MSFT INTC CSCO ORCL AMZN EBAY QCOM AMAT SNDK NTAP JDSU CIEN CMGI RHAT SIRI VRTS PSFT NXTL CHTR "
    "ABIX ACEL ADCT AULT BITS BPUR CITY CLWT DEVC EVST GMTC ICCC INMD MAGS MRGO NSSC OLAB PARS RGEN STEM"
).split()


class Template(NamedTuple):
    """One line of balance §6.2: how often it is drawn, and what it asks for besides the class."""

    percent: int
    names_symbol: bool
    threshold: tuple[str, Op] | None


BALANCE_MIX = (
    Template(20, True, ("high", Op.GT)),
    Template(20, True, ("low", Op.LT)),
    Template(20, True, ("volume", Op.GT)),
    Template(34, True, None),
    Template(5, False, ("volume", Op.GT)),
    Template(1, False, None),
)
"""The subscription templates of balance §6.2, in the paper's order."""


def symbols(count: int) -> list[str]:
    """Name that many stocks: those of the papers first, then AAAA, AAAB and so on.

    >>> symbols(3), symbols(41)[-1]
    (['YHOO', 'MSFT', 'INTC'], 'AAAA')
    """
    made = ("".join(letters) for letters in product(ascii_uppercase, repeat=4))
    known = set(_KNOWN_SYMBOLS)
    more = (name for name in made if name not in known)
    return _KNOWN_SYMBOLS[:count] + list(islice(more, max(0, count - len(known))))


def synthetic_quotes(*, symbol_count: int = 80, days: int = 250, seed: int = 1) -> Iterator[Event]:
    """Yield seeded daily quotes, sorted by date, then in the order of `symbols`.

    Prices walk at random, with a volatility of their own for each stock; volume rises with the day's move.

    >>> quote = next(synthetic_quotes(symbol_count=1, days=1))
    >>> quote["class"], quote["symbol"], quote["date"]
    ('STOCK', 'YHOO', '2024-01-01')
    >>> quote["low"] <= quote["close"] <= quote["high"]
    True
    """
    walks = [_walk(symbol, Random(f"{seed}/{symbol}")) for symbol in symbols(symbol_count)]
    day = FIRST_DAY
    for _ in range(days):
        for walk in walks:
            yield derive(next(walk) | {"date": day.isoformat()})
        day += timedelta(days=3 if day.weekday() == 4 else 1)


def read_quotes(path: Path) -> Iterator[Event]:
    """Yield real quotes from a Parquet, CSV or JSON Lines file; a row that lacks a value is left out.

    The file has the columns symbol, open, high, low, close, volume and date.
    """
    found = False
    for _, row in read_events(path):
        if all(name in row for name in _COLUMNS):
            found = True
            yield derive({name: row[name] for name in _COLUMNS})
    if not found:
        raise InputError(
            f"{path}: no row has all of {', '.join(_COLUMNS)}: a file of quotes has these columns"
        )


def derive(quote: Event) -> Event:
    """Complete a quote with the class and the four derived attributes.

    >>> yhoo = {"symbol": "YHOO", "open": 18.37, "high": 18.62, "low": 18.37, "close": 18.37}
    >>> derive(yhoo)["highLow%Diff"], derive(yhoo)["closeEqualsLow"]
    (0.014, 'true')
    """
    opening, high, low, close = (
        float(cast(float, quote[name])) for name in ("open", "high", "low", "close")
    )
    return {
        "class": "STOCK",
        **quote,
        "openClose%Diff": round(abs(close - opening) / opening, 3) if opening else 0.0,
        "highLow%Diff": round((high - low) / low, 3) if low else 0.0,
        "closeEqualsLow": "true" if close == low else "false",
        "closeEqualsHigh": "true" if close == high else "false",
    }


def balance_filters(quotes: Iterable[Event], count: int, *, seed: int = 1) -> Iterator[Filter]:
    """Yield that many subscriptions of balance §6.2, with thresholds drawn from the quotes.

    >>> quotes = list(synthetic_quotes(symbol_count=2, days=5))
    >>> len(list(balance_filters(quotes, 10)))
    10
    """
    history = _by_symbol(quotes)
    names = list(history)
    random = Random(f"{seed}/balance")
    cumulative = list(accumulate(template.percent for template in BALANCE_MIX))
    for _ in range(count):
        template = random.choices(BALANCE_MIX, cum_weights=cumulative)[0]
        symbol = random.choice(names)
        predicates = [Predicate("class", Op.EQ, "STOCK")]
        if template.names_symbol:
            predicates.append(Predicate("symbol", Op.EQ, symbol))
        if template.threshold:
            attribute, op = template.threshold
            drawn = random.choice(history[symbol][attribute])
            predicates.append(Predicate(attribute, op, drawn))
        yield Filter(predicates)


def _by_symbol(quotes: Iterable[Event]) -> dict[str, dict[str, Sequence[Value]]]:
    """The values that thresholds are drawn from: symbol → attribute → every value it had."""
    wanted = [template.threshold[0] for template in BALANCE_MIX if template.threshold]
    history: dict[str, dict[str, list[Value]]] = {}
    for quote in quotes:
        mine = history.setdefault(str(quote["symbol"]), {name: [] for name in wanted})
        for name, values in mine.items():
            values.append(quote[name])
    if not history:
        raise InputError("there are no quotes to draw thresholds from: generate or read some first")
    return cast(dict[str, dict[str, Sequence[Value]]], history)


def _walk(symbol: str, random: Random) -> Iterator[Event]:
    """Yield one stock's days without end."""
    close = math.exp(random.uniform(math.log(5), math.log(150)))
    volatility = random.uniform(0.012, 0.04)
    usual_volume = math.exp(random.uniform(math.log(2e4), math.log(2e7)))
    while True:
        opening = close * math.exp(random.gauss(0, volatility / 3))
        move = random.gauss(0.0003, volatility)
        close = min(max(opening * math.exp(move), 0.5), 5000.0)
        high = max(opening, close) * math.exp(_overshoot(random, volatility))
        low = min(opening, close) * math.exp(-_overshoot(random, volatility))
        activity = random.gauss(0.35 * abs(move) / volatility, 0.4)
        yield {
            "symbol": symbol,
            "open": round(opening, 2),
            "high": round(high, 2),
            "low": round(low, 2),
            "close": round(close, 2),
            "volume": 100 * max(1, round(usual_volume * math.exp(activity) / 100)),
        }


def _overshoot(random: Random, volatility: float) -> float:
    """How far the day went beyond its open and close; on some days not at all."""
    return 0.0 if random.random() < 0.08 else abs(random.gauss(0, volatility / 2))
