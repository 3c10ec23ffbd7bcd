"""The benchmark of the pipeline measures what it says, on very little."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.delitem(sys.modules, "pipeline", raising=False)
    import pipeline

    monkeypatch.setattr(pipeline, "QUICK_SIZE", pipeline.Size(2_000, 50, 5))
    monkeypatch.setattr(pipeline, "NEAREST_QUICK", 50)
    return pipeline


@pytest.mark.parametrize(("job", "rows"), [("vectors", 2_000), ("closeness", 50)])
def test_a_row_has_its_figures(
    bench: Any, spark: SparkSession, tmp_path: Path, job: str, rows: int
) -> None:
    row = bench.measure(job, spark, True, 1, tmp_path)
    assert (row["job"], row["rows"], row["groups"], row["bits"]) == (job, rows, 50, 1_280)
    assert row["seconds"] > 0 and row["rows_per_s"] > 0
    assert row["peak_memory_bytes"] > 100 << 20, "Spark alone takes more"
