"""The rows `plan` of bench/pipeline.py: from profiles to a plan document, for 10,000 to 1,000,000 subscriptions.

The networks are green's workload at any size, as the job `profiles` would keep it.

Every publisher has a year of quotes that repeats, and as many subscriptions as there are to it: 40% to all of it, 60%
with an inequality more, whose value is drawn from the quotes (as workload/green.py has it). Vectors are worked out by
comparing columns; so a million of them takes a minute, where matching would take hours.

6% of the subscriptions are of other publishers besides, of so many in all that they are in the part of the broad ones.
Of each they get what exceeds a value of the upper fiftieth: all that broad ones get must pass between brokers, of which
none could carry much of what a thousand publishers send. (As many name no symbol in balance, but these get something
of everybody, which a million of them could not be kept for.)

What is timed is all that `runnel pipeline plan` does after profiles: the plan, its evidence, who goes along. For that
there is a trace too, of which only brokers, subscriptions and advertisements are written.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from harness import Row, Target, judged
from runnel.allocation.plan import Plan, to_json
from runnel.allocation.profiles import BITS
from runnel.language import parse
from runnel.pipeline.brokers import measured
from runnel.pipeline.inventory import Inventory
from runnel.pipeline.jobs import Job
from runnel.pipeline.planning import plan_network
from runnel.pipeline.shards import BROAD
from runnel.trace.folder import make_folder
from runnel.trace.schemas import VERSION, schema_of
from runnel.wire.selections import encode_selection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline import Peak

Bits = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
RATE = 70 / 60
MESSAGE_BYTES = 244
OUTPUT = 252 * MESSAGE_BYTES  # as lab/inventory.py has it for green
DAYS = 250
WHOLE = 0.4
BROAD_SHARE = 0.06
ROWS = 50_000  # to a file
SECOND = 1_000_000_000
FILTER = "class = 'STOCK' AND symbol = 'YHOO' AND volume > 100000"  # for its length alone

SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (3_000, 6_000)  # more than one process plans
PER_BROKER = 100
MEMORY_BYTES = 12 << 30
SECONDS = 600


class Network(NamedTuple):
    """How large it is."""

    subscriptions: int
    publishers: int
    brokers: int


def keep(size: Network, out: Path, seed: int = 1) -> None:
    """Write publishers, subscriptions, vectors and links, everybody at a broker by lot; and a trace of who is there."""
    chance = np.random.default_rng(seed)
    brokers = np.array([f"B{number}" for number in range(size.brokers)])
    homes = brokers[chance.integers(0, size.brokers, size.publishers)]
    _publishers(size, homes, out)
    links = {
        "one": [f"B{number}" for number in range(1, size.brokers)],
        "other": [f"B{(number - 1) // 2}" for number in range(1, size.brokers)],
    }
    _write(pa.table(links), out / "links", "rows")
    can = f'{{"output_bytes_per_second": {OUTPUT}}}'
    _record("brokers", {"broker": brokers}, {"event": "started", "detail": can}, out, 0)
    names = [f"P{number:05}" for number in range(size.publishers)]
    told = {"broker": homes, "client": names, "publisher": names}
    _record("advertisements", told | {"advertisement": np.arange(size.publishers)}, MADE, out, 0)
    quotes = np.stack([draw_quotes(chance) for _ in names])
    each = size.subscriptions // size.publishers
    at_once = max(1, ROWS // each)
    for first in range(0, size.publishers, at_once):
        ids = np.arange(first * each, min(first + at_once, size.publishers) * each)
        is_broad = chance.random(len(ids)) < BROAD_SHARE
        _vectors(ids, ids // each, is_broad, quotes, chance, out)
        told = {
            "subscription": ids,
            "client": [f"sub-{number}" for number in ids],
            "broker": brokers[chance.integers(0, size.brokers, len(ids))],
        }
        more = {
            "present": np.ones(len(ids), dtype=bool),
            "vectors": np.where(is_broad, _width(quotes), 1),
        }
        _write(pa.table(told | more), out / "subscriptions", f"{first}")
        _record("subscriptions", told, MADE, out, first)


def _width(quotes: Floats) -> int:
    """Of how many publishers a broad subscription is."""
    return min(BROAD + 1, len(quotes))


def _vectors(
    ids: Ints, own: Ints, is_broad: Bits, quotes: Floats, chance: np.random.Generator, out: Path
) -> None:
    """Keep the vectors of some subscriptions, each of its own publisher and, if it is broad, of the next ones."""
    for step in range(_width(quotes)):
        wanted = np.flatnonzero(is_broad) if step else np.arange(len(ids))
        whose = (own[wanted] + step) % len(quotes)
        bits = draw(quotes, whose, is_broad[wanted], chance)
        words = np.packbits(bits, axis=1, bitorder="little").view(np.int64)
        ends = np.arange(0, words.size + 1, words.shape[1], dtype=np.int32)
        vectors = {
            "subscription": ids[wanted],
            "publisher": pa.array(whose.astype(np.int32)),
            "ones": bits.sum(axis=1),
            "words": pa.ListArray.from_arrays(pa.array(ends), words.reshape(-1)),
        }
        _write(pa.table(vectors), out / "vectors", f"{ids[0]}-{step}")


def draw_quotes(chance: np.random.Generator) -> Floats:
    """A year of a publisher: what subscriptions are compared with, so that more is wanted."""
    steps = chance.normal(0.0, 0.02, DAYS)
    close = np.round(50.0 * np.exp(np.cumsum(steps)), 2)
    high = np.round(close * (1.0 + abs(chance.normal(0.0, 0.01, DAYS))), 2)
    low = np.round(close * (1.0 - abs(chance.normal(0.0, 0.01, DAYS))), 2)
    volume = np.round(chance.lognormal(14.0, 0.5, DAYS), -2)
    return np.stack([high, -low, volume])


def draw(quotes: Floats, whose: Ints, is_broad: Bits, chance: np.random.Generator) -> Bits:
    """What subscriptions got of one publisher each; broad ones compare with a value of the upper fiftieth."""
    count = len(whose)
    chosen = quotes[whose, chance.integers(0, 3, count)]
    ranks = chance.integers(np.where(is_broad, DAYS * 49 // 50, 0), DAYS)
    thresholds = np.sort(chosen, axis=1)[np.arange(count), ranks]
    got = chosen > thresholds[:, None]
    got[~is_broad & (chance.random(count) < WHOLE)] = True
    got[~got.any(axis=1), 0] = True  # a threshold that nothing exceeds
    return np.tile(got, -(-BITS // DAYS))[:, :BITS]


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


MADE = {"event": "made", "filter": FILTER, "selection": encode_selection(parse(FILTER))}


def _record(
    table: str, told: Mapping[str, Any], same: Mapping[str, Any], out: Path, number: int
) -> None:
    """Rows of a trace; `same` is the same in each."""
    schema = schema_of(table).with_metadata({"runnel.version": str(VERSION)})
    count = len(told["broker"])
    same = {"time_ns": 0, **same}
    columns = [
        pa.array(told[one.name] if one.name in told else [same[one.name]] * count, one.type)
        for one in schema
    ]
    path = make_folder(out / "trace", "virtual").part(table, 0, "bench", number).path
    _write(pa.table(columns, schema=schema), path.parent, path.stem)


def ready(spark: SparkSession, out: Path) -> Job:
    """As a job is that has made profiles."""
    job = Job(spark, out / "trace", out)
    tables = job.open()
    job.write(
        measured(*(tables.frame(spark, name) for name in ("brokers", "intervals"))), "brokers"
    )
    span = (0, round(BITS / RATE * SECOND))
    job.streams = spark.createDataFrame([span], "first_ns long, last_ns long")
    return job


def plan_once(job: Job) -> Plan:
    """From profiles to the document."""
    plan = plan_network(job, Inventory())
    (job.out / "plan.json").write_bytes(to_json(plan))
    return plan


def measure_plans(
    spark: SparkSession, quick: bool, out: Path, watch: Callable[[], Peak]
) -> list[Row]:
    """A row for every size, each run once in a session that has run the smallest before; and the growth."""
    rows: list[Row] = []
    for number, count in enumerate(QUICK_SIZES if quick else SIZES):
        size = Network(count, min(1_000, count // 10), max(20, count // PER_BROKER))
        keep(size, out / str(count))
        if not number:
            plan_once(ready(spark, out / str(count)))
        job = ready(spark, out / str(count))
        with watch() as peak:
            start = time.perf_counter()
            plan = plan_once(job)
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
            "peak_memory_bytes": peak.bytes,
        }
        within = Target("peak_memory_bytes", MEMORY_BYTES, at_most=True)
        asked = [Target("seconds", SECONDS, at_most=True), within] if count == SIZES[-1] else []
        rows.append(judged(row, asked))
    points = [(math.log(row["rows"]), math.log(row["seconds"])) for row in rows]
    slope, _ = statistics.linear_regression([x for x, _ in points], [y for _, y in points])
    return [*rows, {"job": "plan", "figure": "growth", "exponent": round(slope, 2)}]
