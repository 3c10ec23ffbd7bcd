"""Benchmark of the pipeline: rows of traces and vectors per second, on a warm session of Spark on this machine.

    bits        a day's deliveries → the words of every (subscription, publisher), nothing written: the inner loop
    vectors     the whole way: streams, words and vectors of a day, from Parquet to Parquet
    backtest    stock quotes of 80 symbols against the subscriptions of balance: the whole job, from the texts of
                filters and the files of a trace to Parquet with a row for every filter
    plan        10,000 to 1,000,000 subscriptions to 1,000 publishers (parts.py), from profiles to the document; and
                how the time grows with the number of subscriptions

Figures are of the wall clock: the median of the repeats after a first run that is not counted. `peak_memory_bytes` is
the largest memory of this process and its descendants (Spark's JVM and Python workers) together, by samples taken
while the job ran. It is the sum of their resident sets, so a page that several share is counted for each of them.

    make bench-pipeline                            everything (several minutes, some gigabytes of temporary files)
    make bench-pipeline ARGS='--only backtest'     one job
    make bench-pipeline ARGS='--quick'             small, held to nothing
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from common import Row, Target, finish, judge, machine, print_table, with_verdicts
from parts import measure_plans
from runnel.language import to_sql
from runnel.pipeline.backtest import backtest
from runnel.pipeline.daily_bits import PARTIALS, STREAMS, partials, streams, subscribers
from runnel.pipeline.jobs import Job
from runnel.pipeline.profiles import incarnations, publishers, vectors
from runnel.pipeline.proposals import Proposals
from runnel.pipeline.session import make_session
from runnel.planning.profiles import BITS
from runnel.quantities import HOUR
from runnel.trace.folder import make_folder
from runnel.trace.schemas import VERSION, schema_of
from runnel.workload.stocks import balance_filters, symbols, synthetic_quotes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("job", "rows", "groups", "bits", "seconds", "spread", "runs", "rows_per_s")
SHOWN = (*COLUMNS, "peak_memory_bytes", "asked", "")
LOOK_S = 0.2
OWNED = (
    "advertisement bigint, client string, publisher string, broker string, present boolean, "
    "since_ns bigint"
)


class Size(NamedTuple):
    """The size of a trace."""

    rows: int
    groups: int
    publishers: int


BITS_SIZE, VECTORS_SIZE = Size(10_000_000, 20_000, 200), Size(100_000_000, 100_000, 1_000)
QUICK_SIZE = Size(200_000, 1_000, 10)
QUOTES, QUOTES_QUICK = (10_000_000, 100_000), (50_000, 1_000)
SYMBOLS, QUOTED_DAYS, FILE_ROWS = 80, 1_250, 1_000_000


# -- traces ---------------------------------------------------------------------------------------------


def write_trace(spark: SparkSession, size: Size, out: Path) -> tuple[DataFrame, DataFrame]:
    """Publications and deliveries of a day: every subscription receives some of the last 1,280 of one publisher."""
    number = F.col("id")
    subscription = number % size.groups
    advertisement = subscription % size.publishers + 1
    # The upper bits of a hash: a pseudo-random place.
    mixed = F.shiftright(F.xxhash64("id"), 11).bitwiseAND((1 << 52) - 1)
    spark.range(size.rows, numPartitions=16).select(
        (number % HOUR).alias("time_ns"),
        F.concat(F.lit("B"), subscription % 50).alias("broker"),
        F.concat(F.lit("client-"), subscription).alias("client"),
        subscription.alias("subscription"),
        advertisement.alias("advertisement"),
        (mixed % BITS + 1).alias("counter"),
        (number % HOUR).alias("published_ns"),
        F.lit(2).cast("long").alias("hops"),
    ).write.parquet(str(out / "deliveries"))
    spark.range(size.publishers * BITS).select(
        number.alias("time_ns"),
        F.lit("B0").alias("broker"),
        (number % size.publishers + 1).alias("advertisement"),
        (F.floor(number / size.publishers) + 1).alias("counter"),
        F.concat(F.lit("P"), number % size.publishers).alias("publisher"),
        number.alias("published_ns"),
        F.lit(244).cast("long").alias("size_bytes"),
    ).write.parquet(str(out / "publications"))
    found = (spark.read.parquet(str(out / name)) for name in ("publications", "deliveries"))
    return next(found), next(found)


def bits_once(size: Size, published: DataFrame, delivered: DataFrame) -> Callable[[], int]:
    """The inner loop."""
    of_day = streams(0, published, delivered).localCheckpoint()

    def once() -> int:
        partials(0, delivered, of_day, BITS).write.format("noop").mode("overwrite").save()
        return size.rows

    return once


def vectors_once(
    spark: SparkSession, size: Size, published: DataFrame, delivered: DataFrame, out: Path
) -> Callable[[], int]:
    """All that the job `profiles` does with a day."""

    def once() -> int:
        def write(frame: DataFrame, name: str) -> str:
            frame.write.mode("overwrite").parquet(str(out / name))
            return str(out / name)

        of_day = spark.read.schema(STREAMS).parquet(
            write(streams(0, published, delivered), "streams")
        )
        words = spark.read.schema(PARTIALS).parquet(
            write(partials(0, delivered, of_day, BITS), "partials")
        )
        write(subscribers(delivered), "subscribers")
        nobody = spark.createDataFrame([], OWNED)
        known = spark.read.parquet(write(incarnations(of_day, nobody, 0), "incarnations"))
        numbered = spark.read.parquet(write(publishers(known, BITS, 0, HOUR), "publishers"))
        made = spark.read.parquet(write(vectors(words, known, numbered, BITS), "vectors"))
        if made.count() != size.groups:
            raise SystemExit(f"{made.count():,} vectors came out, not {size.groups:,}")
        return size.rows

    return once


# -- backtest -------------------------------------------------------------------------------------------


def write_quotes(count: int, filters: int, out: Path) -> tuple[Path, Proposals]:
    """A trace in which stock quotes are published, one publisher a symbol; and proposals."""
    quotes = list(synthetic_quotes(symbol_count=SYMBOLS, days=QUOTED_DAYS))
    numbers = {name: number for number, name in enumerate(symbols(SYMBOLS), 1)}
    chosen = np.resize(np.arange(len(quotes)), count)
    raw = pa.array([msgspec.msgpack.encode(quote) for quote in quotes])
    whose = np.array([numbers[str(quote["symbol"])] for quote in quotes])
    folder = make_folder(out / "trace", "virtual")
    schema = schema_of("publications").with_metadata({"runnel.version": str(VERSION)})
    for part, start in enumerate(range(0, count, FILE_ROWS)):
        place = np.arange(start, min(count, start + FILE_ROWS))
        attributes = raw.take(pa.array(chosen[place]))
        known = {
            "time_ns": place * (HOUR // count),
            "advertisement": whose[chosen[place]],
            "counter": place // SYMBOLS + 1,  # quotes come symbol by symbol
            "published_ns": place,
            "size_bytes": pc.add(pc.binary_length(attributes), 64),
            "attributes": attributes,
        }
        fixed = {
            name: pa.array(["B0"]).take(pa.array(place * 0)) for name in ("broker", "publisher")
        }
        path = folder.part("publications", 0, "bench", part).path
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = [pa.array((known | fixed)[one.name]).cast(one.type) for one in schema]
        pq.write_table(pa.table(columns, schema=schema), path)
    texts = [to_sql(one) for one in balance_filters(quotes, filters)]
    return folder.path, Proposals([str(n) for n in range(filters)], texts)


def backtest_once(job: Job, proposals: Proposals) -> Callable[[], int]:
    """Everything that the job `backtest` does."""

    def once() -> int:
        return backtest(job, proposals)["publications"]

    return once


# -- measuring ------------------------------------------------------------------------------------------


def timed(once: Callable[[], int], repeats: int) -> Row:
    """Seconds and rows per second, warm."""
    seconds, rows = [], 0
    with Peak() as peak:
        once()
        for _ in range(repeats):
            start = time.perf_counter()
            rows = once()
            seconds.append(time.perf_counter() - start)
    middle = statistics.median(seconds)
    return {
        "rows": rows,
        "seconds": round(middle, 2),
        "spread": round((max(seconds) - min(seconds)) / middle, 3),
        "runs": repeats,
        "rows_per_s": round(rows / middle),
        "peak_memory_bytes": peak.bytes,
    }


class Peak:
    """The largest memory over samples in a `with` block; it includes processes that end before the block does."""

    def __init__(self) -> None:
        self.bytes = 0
        self._over = Event()
        self._watcher = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peak:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()

    def _watch(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._over.wait(LOOK_S)  # sample once more at the end
            self.bytes = max(self.bytes, resident_bytes())


def resident_bytes() -> int:
    """The memory of this process and all its descendants now."""
    parents, taken = {}, {}
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            status = dict(
                line.split(":", 1) for line in path.read_text().splitlines() if ":" in line
            )
        except OSError:  # it has just ended
            continue
        parents[int(status["Pid"])] = int(status["PPid"])
        taken[int(status["Pid"])] = int(status.get("VmRSS", "0 kB").split()[0]) * 1024
    mine = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in mine} - mine
        if not more:
            return sum(taken[pid] for pid in mine if pid in taken)
        mine |= more


def measure(job: str, spark: SparkSession, quick: bool, repeats: int, out: Path) -> list[Row]:
    """Measure one job; `plan` has several rows."""
    if job == "plan":
        return measure_plans(spark, quick, out, Peak)
    size = QUICK_SIZE if quick else BITS_SIZE if job == "bits" else VECTORS_SIZE
    target = Target("seconds", LIMITS_S.get(job, 0), at_most=True)
    groups, bits = size.groups, BITS if job != "backtest" else None
    if job == "backtest":
        count, groups = QUOTES_QUICK if quick else QUOTES
        trace, proposals = write_quotes(count, groups, out)
        once = backtest_once(Job(spark, trace, out / "out"), proposals)
    else:
        published, delivered = write_trace(spark, size, out)
        if job == "bits":
            once, target = bits_once(size, published, delivered), Target("rows_per_s", 5_000_000)
        else:
            once = vectors_once(spark, size, published, delivered, out)
    row = {"job": job, "groups": groups, "bits": bits, **timed(once, repeats)}
    return [judge(row, [] if quick else [target])]


LIMITS_S = {"vectors": 60, "backtest": 40}
JOBS = ("bits", "vectors", "backtest", "plan")


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmark of the pipeline on Spark.")
    parser.add_argument("--only", choices=JOBS, help="this job alone")
    parser.add_argument("--quick", action="store_true", help="small, held to nothing")
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--memory", default="4g")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    about = machine()
    spark = make_session(arguments.master, memory=arguments.memory, name="bench", ui=False)
    rows = []
    for job in [arguments.only] if arguments.only else JOBS:
        with TemporaryDirectory(prefix="runnel-bench-") as out:
            rows += measure(job, spark, arguments.quick, arguments.repeats, Path(out))
    spark.stop()
    growth = [row for row in rows if row.get("figure") == "growth"]
    print_table("pipeline", SHOWN, with_verdicts([row for row in rows if row not in growth]))
    if growth:
        power = "time grows with subscriptions to the power of"
        print_table("growth", (power,), [{power: row["exponent"]} for row in growth])
    finish("pipeline", rows, about)


if __name__ == "__main__":
    main()
