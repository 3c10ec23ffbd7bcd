"""The rows `plan` of bench/pipeline.py: from profiles to a plan document, for 10,000 to 1,000,000 subscriptions.

The networks have green's workload at any size, in the tables that the job `profiles` writes.

Every publisher has a year of quotes that repeats, and the same number of subscriptions: 40% to all quotes, 60% with a
further inequality, whose value is drawn from the quotes (as in workload/green.py). Vectors are computed by comparing
columns; so a million of them takes a minute, while matching would take hours.

6% of the subscriptions are to further publishers as well, to so many that they are broad (pipeline/shards.py). From
each of these they receive what exceeds a value of the upper fiftieth: everything that broad subscriptions receive must
pass between brokers, and no broker could carry much of what a thousand publishers send. (In balance, as many
subscriptions name no symbol; but these receive something from every publisher, which is too much for a million.)

The time is that of everything that `runnel plan --from-traces` does after profiles: the plan, its evidence, clients
without subscriptions. For that there is a trace too, but only with brokers, subscriptions and advertisements.
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

from common import Row, Target, judge
from runnel.language import parse
from runnel.pipeline.brokers import measure_brokers
from runnel.pipeline.inventory import Inventory
from runnel.pipeline.jobs import Job
from runnel.pipeline.planning import plan_network
from runnel.pipeline.shards import BROAD
from runnel.planning.documents.plan import Plan, to_json
from runnel.planning.profiles import BITS
from runnel.quantities import SECOND
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
FILTER = "class = 'STOCK' AND symbol = 'YHOO' AND volume > 100000"  # for its length alone

SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (3_000, 6_000)  # more than one process plans
PER_BROKER = 100
MEMORY_BYTES = 12 << 30
SECONDS = 600


class NetworkSize(NamedTuple):
    """The size of a network."""

    subscriptions: int
    publishers: int
    brokers: int


def write_profiles(size: NetworkSize, out: Path, seed: int = 1) -> None:
    """Write publishers, subscriptions, vectors and links, with all clients at random brokers; and a trace of them."""
    chance = np.random.default_rng(seed)
    brokers = np.array([f"B{number}" for number in range(size.brokers)])
    homes = brokers[chance.integers(0, size.brokers, size.publishers)]
    _write_publishers(size, homes, out)
    links = {
        "one": [f"B{number}" for number in range(1, size.brokers)],
        "other": [f"B{(number - 1) // 2}" for number in range(1, size.brokers)],
    }
    _write_table(pa.table(links), out / "links", "rows")
    can = f'{{"output_bytes_per_second": {OUTPUT}}}'
    _write_trace("brokers", {"broker": brokers}, {"event": "started", "detail": can}, out, 0)
    names = [f"P{number:05}" for number in range(size.publishers)]
    columns = {"broker": homes, "client": names, "publisher": names}
    _write_trace(
        "advertisements", columns | {"advertisement": np.arange(size.publishers)}, MADE, out, 0
    )
    quotes = np.stack([draw_quotes(chance) for _ in names])
    each = size.subscriptions // size.publishers
    at_once = max(1, ROWS // each)
    for first in range(0, size.publishers, at_once):
        ids = np.arange(first * each, min(first + at_once, size.publishers) * each)
        is_broad = chance.random(len(ids)) < BROAD_SHARE
        _write_vectors(ids, ids // each, is_broad, quotes, chance, out)
        columns = {
            "subscription": ids,
            "client": [f"sub-{number}" for number in ids],
            "broker": brokers[chance.integers(0, size.brokers, len(ids))],
        }
        more = {
            "present": np.ones(len(ids), dtype=bool),
            "vectors": np.where(is_broad, _publishers_of_broad(quotes), 1),
        }
        _write_table(pa.table(columns | more), out / "subscriptions", f"{first}")
        _write_trace("subscriptions", columns, MADE, out, first)


def _publishers_of_broad(quotes: Floats) -> int:
    """The number of publishers from which a broad subscription receives."""
    return min(BROAD + 1, len(quotes))


def _write_vectors(
    ids: Ints, own: Ints, is_broad: Bits, quotes: Floats, chance: np.random.Generator, out: Path
) -> None:
    """Write the vectors of some subscriptions, each for its own publisher and, if it is broad, for the next ones."""
    for step in range(_publishers_of_broad(quotes)):
        wanted = np.flatnonzero(is_broad) if step else np.arange(len(ids))
        whose = (own[wanted] + step) % len(quotes)
        bits = draw_bits(quotes, whose, is_broad[wanted], chance)
        words = np.packbits(bits, axis=1, bitorder="little").view(np.int64)
        ends = np.arange(0, words.size + 1, words.shape[1], dtype=np.int32)
        vectors = {
            "subscription": ids[wanted],
            "publisher": pa.array(whose.astype(np.int32)),
            "ones": bits.sum(axis=1),
            "words": pa.ListArray.from_arrays(pa.array(ends), words.reshape(-1)),
        }
        _write_table(pa.table(vectors), out / "vectors", f"{ids[0]}-{step}")


def draw_quotes(chance: np.random.Generator) -> Floats:
    """A year of a publisher's quotes; subscriptions match what is larger than a value."""
    steps = chance.normal(0.0, 0.02, DAYS)
    close = np.round(50.0 * np.exp(np.cumsum(steps)), 2)
    high = np.round(close * (1.0 + abs(chance.normal(0.0, 0.01, DAYS))), 2)
    low = np.round(close * (1.0 - abs(chance.normal(0.0, 0.01, DAYS))), 2)
    volume = np.round(chance.lognormal(14.0, 0.5, DAYS), -2)
    return np.stack([high, -low, volume])


def draw_bits(quotes: Floats, whose: Ints, is_broad: Bits, chance: np.random.Generator) -> Bits:
    """The bits of subscriptions for one publisher each; broad ones compare with a value of the upper fiftieth."""
    count = len(whose)
    chosen = quotes[whose, chance.integers(0, 3, count)]
    ranks = chance.integers(np.where(is_broad, DAYS * 49 // 50, 0), DAYS)
    thresholds = np.sort(chosen, axis=1)[np.arange(count), ranks]
    got = chosen > thresholds[:, None]
    got[~is_broad & (chance.random(count) < WHOLE)] = True
    got[~got.any(axis=1), 0] = True  # a threshold that nothing exceeds
    return np.tile(got, -(-BITS // DAYS))[:, :BITS]


def _write_publishers(size: NetworkSize, homes: npt.NDArray[np.str_], out: Path) -> None:
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
    _write_table(pa.table(columns), out / "publishers", "rows")


def _write_table(table: pa.Table, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / f"{name}.parquet")


MADE = {"event": "made", "filter": FILTER, "selection": encode_selection(parse(FILTER))}


def _write_trace(
    table: str, varying: Mapping[str, Any], same: Mapping[str, Any], out: Path, number: int
) -> None:
    """Write rows of a trace: `varying` has columns, `same` has values that are equal in every row."""
    schema = schema_of(table).with_metadata({"runnel.version": str(VERSION)})
    count = len(varying["broker"])
    same = {"time_ns": 0, **same}
    columns = [
        pa.array(varying[one.name] if one.name in varying else [same[one.name]] * count, one.type)
        for one in schema
    ]
    path = make_folder(out / "trace", "virtual").part(table, 0, "bench", number).path
    _write_table(pa.table(columns, schema=schema), path.parent, path.stem)


def make_job(spark: SparkSession, out: Path) -> Job:
    """A job in the state after it has made profiles."""
    job = Job(spark, out / "trace", out)
    tables = job.open()
    job.write(
        measure_brokers(*(tables.frame(spark, name) for name in ("brokers", "intervals"))),
        "brokers",
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
        size = NetworkSize(count, min(1_000, count // 10), max(20, count // PER_BROKER))
        write_profiles(size, out / str(count))
        if not number:
            plan_once(make_job(spark, out / str(count)))
        job = make_job(spark, out / str(count))
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
        rows.append(judge(row, asked))
    points = [(math.log(row["rows"]), math.log(row["seconds"])) for row in rows]
    slope, _ = statistics.linear_regression([x for x, _ in points], [y for _, y in points])
    return [*rows, {"job": "plan", "figure": "growth", "exponent": round(slope, 2)}]
