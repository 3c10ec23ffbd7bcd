"""Publishers of quotes from a file: the symbols with the most days, and thresholds that fit any stock."""

from pathlib import Path

import pytest

from runnel.errors import InputError
from runnel.workload.files import Event, write_events
from runnel.workload.market import open_market
from runnel.workload.measure import measure
from runnel.workload.placement import PlacementParameters
from runnel.workload.registry import make_workload
from runnel.workload.stocks import symbols, synthetic_quotes


@pytest.fixture
def quotes(tmp_path: Path) -> str:
    """Four symbols; the first has only half of the days."""
    rows = list(synthetic_quotes(symbol_count=4, days=40))
    kept = [row for number, row in enumerate(rows) if row["symbol"] != "YHOO" or number < 80]
    write_events(tmp_path / "quotes.parquet", kept)
    return "quotes.parquet"


def test_symbols_with_the_most_days_publish(tmp_path: Path, quotes: str) -> None:
    table = {"publishers": 3, "quotes": quotes, "subscriptions": 10}
    names = [one.name for one in make_workload("stocks", table, folder=tmp_path).publishers]
    assert names == sorted(f"pub-{symbol}" for symbol in symbols(4)[1:])


def test_too_few_symbols_are_named(tmp_path: Path, quotes: str) -> None:
    with pytest.raises(InputError, match=r"publishers: quotes\.parquet has 4 symbols"):
        make_workload("stocks", {"publishers": 5, "quotes": quotes}, folder=tmp_path)


def test_shuffling_changes_the_order_and_nothing_else() -> None:
    plain = PlacementParameters(publishers=2, days=30)
    mixed = PlacementParameters(publishers=2, days=30, order="shuffled")
    by_date, shuffled = (open_market(p, 1, Path()) for p in (plain, mixed))
    for symbol, days in by_date.items():
        assert days != shuffled[symbol]
        assert sorted(map(str, days)) == sorted(map(str, shuffled[symbol]))


def test_a_spread_gives_each_subscriber_a_threshold_of_its_own() -> None:
    table = {"templates": "placement", "publishers": 1, "per_publisher": 40, "spread": 0.05}
    workload = make_workload("stocks", table)
    low = [one for one in workload.subscribers if one.group == "low"]
    assert len({one.selection for one in low}) > 5
    found = measure(workload, publications=250, groups=True)
    assert found.by_group["low"] / len(low) / 250 == pytest.approx(0.1, abs=0.02)


def test_thresholds_fit_a_stock_that_hardly_moves(tmp_path: Path) -> None:
    """A stock whose open is its close on most days cannot ask for a move; the volume does it alone."""
    rows: list[Event] = [
        {
            "symbol": "FLAT",
            "open": 10.0,
            "high": 10.0 + (day % 10) / 10,
            "low": 10.0,
            "close": 10.0,
            "volume": day,
            "date": f"2024-{day:04}",
        }
        for day in range(100)
    ]
    write_events(tmp_path / "flat.jsonl", rows)
    table = {"templates": "placement", "publishers": 1, "quotes": "flat.jsonl"}
    workload = make_workload("stocks", table, folder=tmp_path)
    found = measure(workload, publications=100, groups=True)
    count = {name: sum(s.group == name for s in workload.subscribers) for name in found.by_group}
    sunk = {name: found.by_group[name] / count[name] / 100 for name in count}
    assert sunk == pytest.approx({"low": 0.10, "medium": 0.50, "high": 1.0})
