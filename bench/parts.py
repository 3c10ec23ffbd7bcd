"""The rows `plan` of bench/pipeline.py: from profiles to a plan document, for 10,000 to 1,000,000 subscriptions.

The networks are green's workload at any size, as the job `profiles` would keep it.

Every publisher has a year of quotes that repeats, and as many subscriptions as there are to it: 40% to all of it, 60%
with an inequality more, whose value is drawn from the quotes (as workload/green.py has it). Vectors are worked out by
comparing columns; so a million of them takes a minute, where matching would take hours.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from harness import Row, Target, judged
from runnel.allocation.constraints import Constraints
from runnel.allocation.load import Capacity
from runnel.allocation.plan import Plan, to_json
from runnel.allocation.planner import PlanOptions
from runnel.allocation.profiles import BITS
from runnel.pipeline.jobs import Job
from runnel.pipeline.scale import known, plan_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RATE = 70 / 60
MESSAGE_BYTES = 244
OUTPUT = 252 * MESSAGE_BYTES  # as lab/inventory.py has it for green
DAYS = 250
WHOLE = 0.4
ROWS = 50_000  # to a file


SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 4_000)
PER_BROKER = 100
MEMORY_BYTES = 12 << 30
SECONDS = 600


class Network(NamedTuple):
    """How large it is."""

    subscriptions: int
    publishers: int
    brokers: int


def brokers_of(size: Network) -> tuple[Capacity, ...]:
    """All equal."""
    return tuple(Capacity(f"B{number}", float(OUTPUT)) for number in range(size.brokers))


def keep(size: Network, out: Path, seed: int = 1) -> None:
    """Write publishers, subscriptions, vectors and links, everybody at a broker by lot."""
    chance = np.random.default_rng(seed)
    brokers = np.array([f"B{number}" for number in range(size.brokers)])
    _publishers(size, brokers[chance.integers(0, size.brokers, size.publishers)], out)
    links = {
        "one": [f"B{number}" for number in range(1, size.brokers)],
        "other": [f"B{(number - 1) // 2}" for number in range(1, size.brokers)],
    }
    _write(pa.table(links), out / "links", "rows")
    each = size.subscriptions // size.publishers
    at_once = max(1, ROWS // each)
    for first in range(0, size.publishers, at_once):
        last = min(first + at_once, size.publishers)
        bits = np.concatenate([draw(each, chance) for _ in range(first, last)])
        ids = np.arange(first * each, last * each)
        words = np.packbits(bits, axis=1, bitorder="little").view(np.int64)
        ends = np.arange(0, words.size + 1, words.shape[1], dtype=np.int32)
        vectors = {
            "subscription": ids,
            "publisher": pa.array((ids // each).astype(np.int32)),
            "ones": bits.sum(axis=1),
            "words": pa.ListArray.from_arrays(pa.array(ends), words.reshape(-1)),
        }
        told = {
            "subscription": ids,
            "client": [f"sub-{number}" for number in ids],
            "broker": brokers[chance.integers(0, size.brokers, len(ids))],
            "present": np.ones(len(ids), dtype=bool),
            "vectors": np.ones(len(ids), dtype=np.int64),
        }
        _write(pa.table(vectors), out / "vectors", f"{first}")
        _write(pa.table(told), out / "subscriptions", f"{first}")


def draw(count: int, chance: np.random.Generator) -> npt.NDArray[np.bool_]:
    """The bits of so many subscriptions to one publisher."""
    steps = chance.normal(0.0, 0.02, DAYS)
    close = np.round(50.0 * np.exp(np.cumsum(steps)), 2)
    high = np.round(close * (1.0 + abs(chance.normal(0.0, 0.01, DAYS))), 2)
    low = np.round(close * (1.0 - abs(chance.normal(0.0, 0.01, DAYS))), 2)
    volume = np.round(chance.lognormal(14.0, 0.5, DAYS), -2)
    columns = np.resize(np.stack([high, -low, volume]), (3, DAYS))
    values = np.tile(columns, -(-BITS // DAYS))[:, :BITS]
    chosen = values[chance.integers(0, 3, count)]
    thresholds = chosen[np.arange(count), chance.integers(0, DAYS, count)]
    got = chosen > thresholds[:, None]
    got[chance.random(count) < WHOLE] = True
    got[~got.any(axis=1), 0] = True  # a threshold that nothing exceeds
    return got


def _publishers(size: Network, homes: npt.NDArray[np.str_], out: Path) -> None:
    names = [f"P{number:05}" for number in range(size.publishers)]
    count = size.publishers
    columns = {
        "number": pa.array(range(count), pa.int32()),
        "name": names,
        "client": names,
        "publisher": names,
        "advertisement": list(range(count)),
        "broker": homes,
        "present": [True] * count,
        "rate": [RATE] * count,
        "bandwidth": [RATE * MESSAGE_BYTES] * count,
        "last": [BITS - 1] * count,
        "span": [BITS] * count,
    }
    _write(pa.table(columns), out / "publishers", "rows")


def _write(table: pa.Table, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / f"{name}.parquet")


def plan_once(spark: SparkSession, size: Network, out: Path) -> Plan:
    """From profiles to the document."""
    job = Job(spark, out, out)
    plan = plan_parts(job, known(job, brokers_of(size)), PlanOptions(), Constraints())
    (out / "plan.json").write_bytes(to_json(plan))
    return plan


def measure_plans(
    spark: SparkSession, quick: bool, out: Path, peak: Callable[[], int]
) -> list[Row]:
    """A row for every size, each run once in a session that has run the smallest before; and the growth."""
    rows: list[Row] = []
    for number, count in enumerate(QUICK_SIZES if quick else SIZES):
        size = Network(count, min(1_000, count // 10), max(20, count // PER_BROKER))
        keep(size, out / str(count))
        if not number:
            plan_once(spark, size, out / str(count))
        start = time.perf_counter()
        plan = plan_once(spark, size, out / str(count))
        seconds = time.perf_counter() - start
        row: Row = {
            "job": "plan",
            "rows": count,
            "groups": size.publishers,
            "bits": BITS,
            "of": size.brokers,
            "brokers": plan.brokers,
            "at least": plan.brokers_at_least,
            "msg/s": round(sum(load.messages_per_s for load in plan.after.values()), 1),
            "seconds": round(seconds, 2),
            "spread": None,
            "runs": 1,
            "rows_per_s": round(count / seconds),
            "peak_memory_bytes": peak(),
        }
        within = Target("peak_memory_bytes", MEMORY_BYTES, at_most=True)
        asked = [Target("seconds", SECONDS, at_most=True), within] if count == SIZES[-1] else []
        rows.append(judged(row, asked))
    points = [(math.log(row["rows"]), math.log(row["seconds"])) for row in rows]
    slope, _ = statistics.linear_regression([x for x, _ in points], [y for _, y in points])
    return [*rows, {"job": "plan", "figure": "growth", "exponent": round(slope, 2)}]
