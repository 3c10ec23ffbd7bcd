"""The benchmark of the pipeline measures what it says, on very little."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(BENCH))
    # Tests have a harness of their own, which another test may have brought here.
    others = {name: sys.modules.pop(name, None) for name in ("pipeline", "parts", "harness")}
    import pipeline

    monkeypatch.setattr(pipeline, "QUICK_SIZE", pipeline.Size(2_000, 50, 5))
    monkeypatch.setattr(pipeline, "NEAREST_QUICK", 50)
    monkeypatch.setattr(pipeline, "QUOTES_QUICK", (400, 50))
    monkeypatch.setattr(pipeline, "QUOTED_DAYS", 3)
    monkeypatch.setattr(sys.modules["parts"], "QUICK_SIZES", (50, 100))
    yield pipeline
    for name, other in others.items():
        del sys.modules[name]
        if other is not None:
            sys.modules[name] = other


@pytest.mark.parametrize(
    ("job", "rows", "bits"),
    [("vectors", 2_000, 1_280), ("closeness", 50, 1_280), ("backtest", 400, None)],
)
def test_a_row_has_its_figures(
    bench: Any, spark: SparkSession, tmp_path: Path, job: str, rows: int, bits: int | None
) -> None:
    (row,) = bench.measure(job, spark, True, 1, tmp_path)
    assert (row["job"], row["rows"], row["groups"], row["bits"]) == (job, rows, 50, bits)
    assert row["seconds"] > 0 and row["rows_per_s"] > 0
    assert row["peak_memory_bytes"] > 100 << 20, "Spark alone takes more"


def test_plans_have_a_row_for_every_size_and_one_for_their_growth(
    bench: Any, spark: SparkSession, tmp_path: Path
) -> None:
    *plans, growth = bench.measure("plan", spark, True, 1, tmp_path)
    assert [(row["rows"], row["groups"], row["of"]) for row in plans] == [
        (50, 5, 20),
        (100, 10, 20),
    ]
    assert all(row["seconds"] > 0 and row["at least"] <= row["brokers"] <= 20 for row in plans)
    assert growth["exponent"] < 5
