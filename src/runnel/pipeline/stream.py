"""Watches a trace while it grows: updates profiles, detects drift, and proposes another plan when it is worth it.

Spark streams the names of new files of publications and deliveries, in numbered batches. A batch is treated as a part
of a day: the transforms of daily_bits.py summarise it, and the result is merged with that of the batches before.

    watch/checkpoint/      Spark's record of the files in each batch
    watch/streams/N        the merged result after batch N: per day and advertisement
    watch/partials/N       … and per subscription and advertisement, the last publications as words
    watch/watch.json       the number N, the memory of drift decisions, and the plan that N proposes; written last
    proposals/1.json …     plans, copied from watch.json

Everything counts exactly once, however often the process is killed. Spark repeats an unfinished batch with the same
files under the same number. If watch.json does not have this number yet, nothing was decided, and the tables of the
batch are written again under the same names. If it does, only the proposal may be missing; it is written as it was
decided then, even if the trace has grown since. A proposal is never replaced.

Tables other than publications and deliveries are small, and are read as a whole.

The tables do not grow with time: they have the bits of the last publications only, and the days before the recent ones
as one day. A duplicate publication counts once within a batch; a duplicate delivery always counts once. Spark ignores
files that appear a week after newer ones.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.bits import WORD, words_for
from runnel.errors import InputError
from runnel.pipeline.daily_bits import PARTIALS, STREAMS, partials, streams
from runnel.pipeline.drift import DriftLimits, Memory, decide, fit_of, is_behind, saving_of
from runnel.pipeline.inventory import Inventory
from runnel.pipeline.jobs import NETWORK_TABLES, Job
from runnel.pipeline.network import network_from_tables
from runnel.pipeline.planning import brokers_from_rows, plan_network
from runnel.pipeline.profiles import RECENT_DAYS
from runnel.pipeline.tables import DAY_NS, Decisions, TraceTables, escape_path
from runnel.planning.documents.plan import Plan, to_json
from runnel.planning.network import Network
from runnel.trace.folder import write_whole

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

FILES = 1_000
"""The most files of a table in one batch."""

_SUMS = ("publications", "bytes", "doubles", "deliveries", "early")
_LEAST = ("first_ns", "first", "delivered_first")
_MOST = ("publisher", "last_ns", "last", "delivered_last")
_FILE = "path string, modificationTime timestamp, length bigint, content binary"
TABLES = ("publications", "deliveries")


class WatchState(msgspec.Struct, frozen=True):
    """The contents of watch.json: the last finished batch, the stream's id, the memory of decisions, the proposal."""

    length: int
    query: str = ""
    batch: int = -1
    proposals: int = 0  # the number of the last one
    memory: Memory = Memory()
    proposal: Plan | None = None


# -- transforms -------------------------------------------------------------------------------------------


def merge_streams(both: DataFrame, recent_from: int) -> DataFrame:
    """Merge the streams of several batches; the days before `recent_from` count as one day."""
    day = F.greatest(F.col("day"), F.lit(recent_from - 1).cast("long")).alias("day")
    newest = F.max(F.struct("last_ns", "broker")).getField("broker").alias("broker")
    found = both.groupBy(day, "advertisement").agg(
        newest,
        *(F.sum(name).alias(name) for name in _SUMS),
        *(F.min(name).alias(name) for name in _LEAST),
        *(F.max(name).alias(name) for name in _MOST),
    )
    return found.select(*STREAMS.fieldNames())


def ends_of(streams: DataFrame) -> DataFrame:
    """(advertisement, last): the last known publication of each advertisement."""
    found = streams.groupBy("advertisement").agg(F.max("last").alias("last"))
    return found.select("advertisement", "last")


def merge_partials(both: DataFrame, ends: DataFrame, length: int) -> DataFrame:
    """Merge the bits of several batches: shift them by whole words to begin with the last publications, and OR them."""
    first = F.greatest(F.col("last") - (length - 1), F.lit(0))
    bases = ends.select("advertisement", F.shiftright(first, WORD.bit_length() - 1).alias("start"))
    by = (F.col("start") - F.col("base")).cast("int")
    names = [f"word{number}" for number in range(words_for(length) + 1)]
    none = F.lit(0).cast("long")
    moved = both.join(F.broadcast(bases), "advertisement").select(
        *("day", "subscription", "advertisement", "start"),
        *(F.coalesce(F.get("words", by + n), none).alias(name) for n, name in enumerate(names)),
        (F.col("rows") - _count_ones(F.col("words"))).alias("again"),
    )
    still = _count_ones(F.array(*names))
    found = moved.groupBy("subscription", "advertisement").agg(
        F.max("day").alias("day"),
        F.first("start").alias("base"),
        # Duplicates stay counted, also if their bits have been shifted out.
        F.sum(F.col("again") + still).alias("rows"),
        *(F.bit_or(name).alias(name) for name in names),
    )
    words = F.array(*names).alias("words")
    columns = [words if name == "words" else F.col(name) for name in PARTIALS.fieldNames()]
    return found.where(still > 0).select(*columns)


def _count_ones(words: Column) -> Column:
    return F.aggregate(words, F.lit(0), lambda total, word: total + F.bit_count(word))


# -- one batch --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Watch:
    """Watches a trace on behalf of a plan, which is read again for every batch."""

    job: Job
    plan: Callable[[], Plan]
    inventory: Inventory = field(default_factory=Inventory)
    limits: DriftLimits = field(default_factory=DriftLimits)
    error: Exception | None = None

    @property
    def home(self) -> Path:
        """The directory of the watch."""
        return self.job.out / "watch"

    @property
    def state(self) -> WatchState:
        """The state after the last finished batch."""
        path = self.home / "watch.json"
        if not path.exists():
            return WatchState(self.job.length)
        try:
            found = msgspec.json.decode(path.read_bytes(), type=WatchState)
        except msgspec.DecodeError as error:
            raise InputError(f"{path}: cannot be read: {error}; {self._advice}") from None
        if found.length != self.job.length:
            raise InputError(
                f"{path}: profiles of {found.length} bits are kept: take --bits {found.length}, or {self._advice}"
            )
        return found

    @property
    def _advice(self) -> str:
        return f"remove {self.home} to start from the beginning"

    def process_batch(self, files: DataFrame, number: int) -> None:
        """Process a batch. An error is stored for `wait_for_watch`, since Spark passes on its text only."""
        try:
            self._process(files, number)
        except Exception as error:
            self.error = error
            raise

    def _process(self, files: DataFrame, number: int) -> None:
        kept, query = self.state, self._query_id()
        if kept.query not in ("", query):
            raise InputError(f"{self.home}: what is kept is of another checkpoint: {self._advice}")
        if number <= kept.batch:
            self.job.tell(f"batch {number}: was done before")
            self._write_proposal(kept)
            return
        if number != kept.batch + 1:
            raise InputError(
                f"{self.home}: batches up to {kept.batch} are kept, but {number} is next: {self._advice}"
            )
        names = {_relative_path(row["path"]) for row in files.collect()}
        tables = self._open_tables()
        new = replace(
            tables,
            parts={
                table: [
                    part for part in tables.parts[table] if _relative_path(str(part.path)) in names
                ]
                for table in TABLES
            },
        )
        self.job.tell(f"batch {number}: {len(names):,} new files")
        self._add_batch(new, number, kept.batch, tables)
        memory, proposal = self._judge(number, kept.memory, _is_behind(tables, names))
        proposals = self._next_number(kept) if proposal else kept.proposals
        done = WatchState(self.job.length, query, number, proposals, memory, proposal)
        self._save(done)
        self._write_proposal(done)

    def _query_id(self) -> str:
        """Spark's id of the stream, which stays the same as long as the checkpoint exists."""
        about = msgspec.json.decode((self.home / "checkpoint" / "metadata").read_bytes())
        return str(about["id"])

    def _open_tables(self) -> TraceTables:
        """Open the trace as it is now."""
        job = self.job
        tables = job.open()
        for line in tables.decisions.lines:
            if line not in job.decisions.lines:
                job.tell(line)
        job.decisions = tables.decisions
        return tables

    def _add_batch(self, new: TraceTables, number: int, before: int, tables: TraceTables) -> None:
        """Merge a batch with the result of those before, and make profiles of all."""
        job, spark = self.job, self.job.spark
        of_days = [
            streams(
                day,
                new.frame(spark, "publications", [day]),
                new.frame(spark, "deliveries", [day]),
            )
            for day in new.days
        ]
        recent_from = tables.days[-1] - RECENT_DAYS + 1
        both = self._with_previous("streams", STREAMS, before, of_days)
        job.write(merge_streams(both, recent_from), f"watch/streams/{number}")
        all_streams = self._read("streams", STREAMS, number)
        ends = ends_of(all_streams).persist()
        bits = partials(recent_from, new.frame(spark, "deliveries"), ends, job.length)
        both = self._with_previous("partials", PARTIALS, before, [bits])
        job.write(merge_partials(both, ends, job.length), f"watch/partials/{number}")
        ends.unpersist()
        job.merge_days(tables, all_streams, self._read("partials", PARTIALS, number))

    def _with_previous(
        self, name: str, schema: StructType, before: int, new: list[DataFrame]
    ) -> DataFrame:
        nothing = self.job.spark.createDataFrame([], schema)
        kept = self._read(name, schema, before) if before >= 0 else nothing
        return reduce(DataFrame.unionByName, new, kept)

    def _read(self, name: str, schema: StructType, number: int) -> DataFrame:
        return self.job.spark.read.schema(schema).parquet(
            escape_path(self.home / name / str(number))
        )

    def _judge(self, number: int, memory: Memory, is_behind: bool) -> tuple[Memory, Plan | None]:
        """Compare the plan with the profiles; what to remember, and what to propose."""
        job, plan = self.job, self.plan()
        memory = memory.for_plan(plan)
        if is_behind:
            job.tell(f"batch {number}: more is to be read before anything is judged")
            return memory, None
        fit = fit_of(plan, self._make_network())
        job.tell(
            f"batch {number}: {fit.messages_per_s:,.1f} messages/s, planned {fit.planned_per_s:,.1f}; "
            f"{len(fit.overloaded)} of {fit.brokers} brokers overloaded, {fit.newcomers:,} newcomers"
        )
        other = self._plan_again(number) if fit.has_drifted(self.limits) else None
        memory, due = decide(memory, fit, other, self.limits)
        if other:
            saved = saving_of(fit, other)
            job.tell(
                f"batch {number}: drifted; another plan has {saved.brokers} brokers and "
                f"{saved.messages_per_s:,.1f} messages/s, saves {saved.percent:.0f}%"
            )
        return memory, other if due else None

    def _plan_again(self, number: int) -> Plan | None:
        """Another plan for the present network; None if there is none, for example if not everything fits."""
        try:
            return plan_network(self.job, self.inventory)
        except InputError as error:
            self.job.tell(f"batch {number}: drifted, but there is no other plan: {error}")
            return None

    def _make_network(self) -> Network:
        """The planner's input for the present network, with the brokers that a plan may use."""
        fleet = self.inventory.make_fleet(brokers_from_rows(self.job.frame("brokers")))
        tables = {name: self.job.frame(name) for name in NETWORK_TABLES}
        # Decisions are not counted here: if a plan is made, they are counted then.
        return network_from_tables(tables, self.job.length, Decisions(), fleet.capacities)

    def _next_number(self, kept: WatchState) -> int:
        """The number of the next proposal; files of an earlier watch may have taken some numbers."""
        names = (path.stem for path in self._proposals.glob("*.json"))
        return 1 + max(kept.proposals, *(int(name) for name in names if name.isdecimal()), 0)

    def _write_proposal(self, kept: WatchState) -> None:
        """Write the proposal of a finished batch, unless its file exists already."""
        path = self._proposals / f"{kept.proposals}.json"
        if kept.proposal is not None and not path.exists():
            path.parent.mkdir(exist_ok=True)
            write_whole(path.with_suffix(".tmp"), path, to_json(kept.proposal), sync=True)
            self.job.tell(f"batch {kept.batch}: proposes {path}")

    @property
    def _proposals(self) -> Path:
        return self.job.out / "proposals"

    def _save(self, kept: WatchState) -> None:
        """Mark the batch as finished, and remove the tables of the one before."""
        path = self.home / "watch.json"
        write_whole(path.with_suffix(".tmp"), path, msgspec.json.encode(kept), sync=True)
        for name in ("streams", "partials"):
            for folder in (self.home / name).iterdir():
                if folder.name != str(kept.batch):
                    shutil.rmtree(folder)


# -- the stream -------------------------------------------------------------------------------------------


def new_files(job: Job, most: int) -> DataFrame:
    """(path): new files of publications and deliveries, as a stream. `process_batch` reads their rows."""
    found = [
        job.spark.readStream.format("binaryFile")
        .schema(_FILE)
        .option("maxFilesPerTrigger", most)
        .option("recursiveFileLookup", True)  # hours are directories, and no column
        .load(escape_path(job.traces / table))
        .select("path")
        for table in TABLES
    ]
    return reduce(DataFrame.union, found)


def _is_behind(tables: TraceTables, names: set[str]) -> bool:
    """Whether much of either table is still to be read after a batch of these files; rates would be too low."""
    times = {_relative_path(str(path)): seen.times for path, seen in tables.footers.items()}
    for table in TABLES:
        came = [times.get(name) for name in names if name.startswith(f"{table}/")]
        there = [tables.footers[part.path].times for part in tables.parts[table]]
        if is_behind(came, there, RECENT_DAYS * DAY_NS):
            return True
    return False


def _relative_path(path: str) -> str:
    """The last three parts of a path (table, hour, name), which do not depend on how Spark writes paths.

    >>> _relative_path("file:/traces/deliveries/hour=3/part-B1-000001.parquet")
    'deliveries/hour=3/part-B1-000001.parquet'
    """
    return "/".join(path.rsplit("/", 3)[-3:])


def start_watch(
    watch: Watch, *, once: bool = False, every_s: float = 10.0, files: int = FILES
) -> StreamingQuery:
    """Start to watch: `once` until all present files have been read, otherwise until it is stopped."""
    job = watch.job
    tables = job.open()
    for table in TABLES:
        tables.require(table, f"trace for longer, with {table} = true")
    watch.state  # noqa: B018 - an unusable state is an error now
    watch.plan()
    watch.home.mkdir(parents=True, exist_ok=True)
    writer = (
        new_files(job, files)
        .writeStream.foreachBatch(watch.process_batch)
        .option("checkpointLocation", str(watch.home / "checkpoint"))
        .queryName("runnel watch")
    )
    when = {"availableNow": True} if once else {"processingTime": f"{every_s} seconds"}
    return writer.trigger(**when).start()


def wait_for_watch(watch: Watch, query: StreamingQuery) -> None:
    """Wait for the end of a watch; an error of a batch is raised as it was."""
    try:
        query.awaitTermination()
    except StreamingQueryException:
        if watch.error is not None:
            raise watch.error from None
        raise
    finally:
        query.stop()
    if watch.job.streams is not None:
        watch.job.count_anomalies()
