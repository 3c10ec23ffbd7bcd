"""Stock quotes look like quotes, and the subscriptions are the mix of balance §6.2."""

import csv
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from runnel.errors import InputError
from runnel.language import Filter, Op
from runnel.workload.files import Event, write_events
from runnel.workload.stocks import (
    BALANCE_MIX,
    balance_filters,
    derive,
    read_quotes,
    symbols,
    synthetic_quotes,
)

PAPER_ATTRIBUTES = (
    "class symbol open high low close volume date "
    "openClose%Diff highLow%Diff closeEqualsLow closeEqualsHigh"
).split()


@pytest.fixture(scope="module")
def quotes() -> list[Event]:
    return list(synthetic_quotes(symbol_count=10, days=250, seed=3))


def test_a_quote_has_the_attributes_that_the_papers_print(quotes: list[Event]) -> None:
    assert all(sorted(quote) == sorted(PAPER_ATTRIBUTES) for quote in quotes)
    assert len(quotes) == 2_500


def test_prices_are_possible(quotes: list[dict[str, Any]]) -> None:
    for quote in quotes:
        assert 0 < quote["low"] <= min(quote["open"], quote["close"])
        assert max(quote["open"], quote["close"]) <= quote["high"]
        assert quote["volume"] >= 100


def test_a_price_walks_instead_of_jumping(quotes: list[dict[str, Any]]) -> None:
    closes = [quote["close"] for quote in quotes if quote["symbol"] == "YHOO"]
    moves = [abs(after - before) / before for before, after in pairwise(closes)]
    assert 0.003 < sum(moves) / len(moves) < 0.06
    assert max(moves) < 0.3


def test_dates_are_working_days_in_order(quotes: list[Event]) -> None:
    days = [quote["date"] for quote in quotes]
    assert days == sorted(days)
    assert len(set(days)) == 250
    assert "2024-01-06" not in days  # a Saturday


def test_one_seed_gives_one_workload_however_many_symbols() -> None:
    few = list(synthetic_quotes(symbol_count=2, days=20, seed=7))
    many = [
        quote
        for quote in synthetic_quotes(symbol_count=50, days=20, seed=7)
        if quote["symbol"] in ("YHOO", "MSFT")
    ]
    assert few == many
    assert few != list(synthetic_quotes(symbol_count=2, days=20, seed=8))


def test_symbols_are_distinct() -> None:
    assert len(set(symbols(3_000))) == 3_000
    assert symbols(0) == []


def test_the_quote_of_the_placement_paper() -> None:
    yhoo: Event = {"symbol": "YHOO", "open": 18.37, "high": 18.62, "low": 18.37, "close": 18.37}
    assert derive(yhoo) == yhoo | {
        "class": "STOCK",
        "openClose%Diff": 0.0,
        "highLow%Diff": 0.014,
        "closeEqualsLow": "true",
        "closeEqualsHigh": "false",
    }


def shape(wanted: Filter) -> tuple[tuple[str, Op], ...]:
    return tuple(sorted((predicate.attribute, predicate.op) for predicate in wanted.predicates))


def test_the_mix_has_the_papers_shares(quotes: list[Event]) -> None:
    expected: Counter[tuple[tuple[str, Op], ...]] = Counter()
    for template in BALANCE_MIX:
        parts = [("class", Op.EQ)]
        parts += [("symbol", Op.EQ)] if template.names_symbol else []
        parts += [template.threshold] if template.threshold else []
        expected[tuple(sorted(parts))] = template.percent
    assert sum(expected.values()) == 100

    count = 20_000
    found = Counter(map(shape, balance_filters(quotes, count, seed=5)))
    assert found.keys() == expected.keys()
    for form, percent in expected.items():
        assert found[form] / count * 100 == pytest.approx(percent, abs=1.2)


def test_thresholds_are_values_of_the_stock_itself(quotes: list[Event]) -> None:
    seen = {(quote["symbol"], name, quote[name]) for quote in quotes for name in quote}
    checked = 0
    for wanted in balance_filters(quotes, 500):
        by_attribute = {predicate.attribute: predicate for predicate in wanted.predicates}
        if "symbol" in by_attribute:
            symbol = by_attribute["symbol"].value
            for name in ("high", "low", "volume"):
                if name in by_attribute:
                    assert (symbol, name, by_attribute[name].value) in seen
                    checked += 1
    assert checked > 200


def test_filters_are_the_same_for_the_same_seed(quotes: list[Event]) -> None:
    first = list(balance_filters(quotes, 50, seed=1))
    assert first == list(balance_filters(quotes, 50, seed=1))
    assert first != list(balance_filters(quotes, 50, seed=2))


def test_filters_need_quotes() -> None:
    with pytest.raises(InputError, match="no quotes"):
        list(balance_filters([], 1))


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_real_quotes_come_from_a_file(tmp_path: Path, quotes: list[Event], suffix: str) -> None:
    columns = ("symbol", "open", "high", "low", "close", "volume", "date")
    rows = [{name: quote[name] for name in columns} for quote in quotes[:30]]
    path = tmp_path / f"quotes{suffix}"
    if suffix == ".csv":
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
    else:
        write_events(path, rows)
    assert list(read_quotes(path)) == quotes[:30]


def test_a_file_without_quotes_says_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    write_events(path, [{"symbol": "YHOO", "open": 1.0}])
    with pytest.raises(InputError, match="columns"):
        list(read_quotes(path))
