"""The benchmark of the pipeline measures what it says, on very little."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Semaphore
from typing import TYPE_CHECKING, Any

import pytest

from runnel.pipeline import planning, shards
from runnel.planning.documents.plan import from_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(BENCH))
    # `pipeline` is also the name of this folder of tests, which may have been imported.
    others = {name: sys.modules.pop(name, None) for name in ("pipeline", "parts")}
    pipeline = import_module("pipeline")

    monkeypatch.setattr(pipeline, "QUICK_SIZE", pipeline.Size(2_000, 50, 5))
    monkeypatch.setattr(pipeline, "QUOTES_QUICK", (400, 50))
    monkeypatch.setattr(pipeline, "QUOTED_DAYS", 3)
    monkeypatch.setattr(sys.modules["parts"], "QUICK_SIZES", (50, 100))
    monkeypatch.setattr(planning, "ONE_PROCESS", 0)
    yield pipeline
    for name, other in others.items():
        del sys.modules[name]
        if other is not None:
            sys.modules[name] = other


@pytest.mark.parametrize(
    ("job", "rows", "bits"),
    [("vectors", 2_000, 1_280), ("backtest", 400, None)],
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
    size = "100"
    rows = spark.read.parquet(str(tmp_path / size / "vectors"))
    publishers = [row["count"] for row in rows.groupBy("subscription").count().collect()]
    assert len(publishers) == int(size) and set(publishers) == {1, shards.BROAD + 1}
    parts = {row["part"] for row in spark.read.parquet(str(tmp_path / size / "pieces")).collect()}
    assert -1 in parts and len(parts) > 2
    plan = from_json((tmp_path / size / "plan.json").read_bytes())
    assert plan.evidence is not None and plan.evidence.subscriptions == int(size)
    assert len(plan.before) == 20 and len(plan.owners) == 10


def test_memory_of_processes_that_have_ended_counts(bench: Any) -> None:
    told = "import sys; big = b'1' * (300 << 20); print(len(big), flush=True); sys.stdin.read()"
    looked = Semaphore(0)

    def look() -> int:
        found: int = resident()
        looked.release()
        return found

    resident = bench.resident_bytes
    with Popen([sys.executable, "-c", told], stdin=PIPE, stdout=PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"314572800\n"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bench, "resident_bytes", look)
            with bench.Peak() as peak:
                assert looked.acquire(timeout=60)
                child.communicate()
    assert peak.bytes > resident() + (250 << 20)
