"""A trace watched while it grows: profiles are kept up, drift is noticed, another plan is proposed when it is worth it.

Spark streams the names of new files of publications and deliveries, in numbered batches. A batch is a day that is not
over: what it published and delivered is made as streams.py makes it of a day, and added to what is kept.

    watch/checkpoint/      Spark's: which files are in which batch
    watch/streams/N        what is kept after batch N: per day and advertisement
    watch/partials/N       … and per subscription and advertisement, the last publications as words
    watch/watch.json       which N that is, what is remembered of drift, and the plan that N proposes: then it is done
    proposals/1.json …     plans, as watch.json had them

Everything counts exactly once, however often the process is killed: Spark gives a batch that was not finished again,
with the same files under the same number. If watch.json has not got the number, nothing was decided, and all that it
left behind is written again under the same names. If it has, everything was: at most the proposal is still to be
written, as it was decided then, whatever the trace has become. No proposal is ever replaced.

Tables other than those two are small, and read whole.

What is kept does not grow with time: bits of the last publications only, and days before the recent ones as one. A
publication that is there twice counts once within a batch; a delivery, always. Files that appear a week after newer
ones are not seen, which is Spark's rule.
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

from runnel.allocation.bits import WORD, words_for
from runnel.allocation.network import Network
from runnel.allocation.plan import Plan, to_json
from runnel.errors import InputError
from runnel.pipeline.drift import Limits, Memory, decide, fit_of, is_behind, saving_of
from runnel.pipeline.inventory import Inventory
from runnel.pipeline.jobs import NETWORK_TABLES, Job
from runnel.pipeline.network import to_network
from runnel.pipeline.planning import plan_network, traced
from runnel.pipeline.profiles import RECENT_DAYS
from runnel.pipeline.streams import PARTIALS, STREAMS, partials, streams
from runnel.pipeline.tables import DAY_NS, Reading, Tables, plain
from runnel.trace.folder import write_whole

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

FILES = 1_000
"""So many files of a table are read in one batch, at most."""

_SUMS = ("publications", "bytes", "doubles", "deliveries", "early")
_LEAST = ("first_ns", "first", "delivered_first")
_MOST = ("publisher", "last_ns", "last", "delivered_last")
_FILE = "path string, modificationTime timestamp, length bigint, content binary"
TABLES = ("publications", "deliveries")


class Kept(msgspec.Struct, frozen=True):
    """What watch.json says: the last batch that is done, whose it is, what is remembered, and what it proposes."""

    length: int
    query: str = ""
    batch: int = -1
    proposals: int = 0  # the number of the last one
    memory: Memory = Memory()
    proposal: Plan | None = None


# -- transforms -------------------------------------------------------------------------------------------


def merged_streams(both: DataFrame, recent_from: int) -> DataFrame:
    """Streams of several batches as one; the days before a day count as one day."""
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
    """(advertisement, last): the last publication of each that is known."""
    found = streams.groupBy("advertisement").agg(F.max("last").alias("last"))
    return found.select("advertisement", "last")


def merged_partials(both: DataFrame, ends: DataFrame, length: int) -> DataFrame:
    """Bits of several batches as one: moved by whole words to where the last publications begin, and OR-ed."""
    first = F.greatest(F.col("last") - (length - 1), F.lit(0))
    bases = ends.select("advertisement", F.shiftright(first, WORD.bit_length() - 1).alias("start"))
    by = (F.col("start") - F.col("base")).cast("int")
    names = [f"word{number}" for number in range(words_for(length) + 1)]
    none = F.lit(0).cast("long")
    moved = both.join(F.broadcast(bases), "advertisement").select(
        *("day", "subscription", "advertisement", "start"),
        *(F.coalesce(F.get("words", by + n), none).alias(name) for n, name in enumerate(names)),
        (F.col("rows") - _ones(F.col("words"))).alias("again"),
    )
    still = _ones(F.array(*names))
    found = moved.groupBy("subscription", "advertisement").agg(
        F.max("day").alias("day"),
        F.first("start").alias("base"),
        # What came twice stays known, also where its bits have gone.
        F.sum(F.col("again") + still).alias("rows"),
        *(F.bit_or(name).alias(name) for name in names),
    )
    words = F.array(*names).alias("words")
    columns = [words if name == "words" else F.col(name) for name in PARTIALS.fieldNames()]
    return found.where(still > 0).select(*columns)


def _ones(words: Column) -> Column:
    return F.aggregate(words, F.lit(0), lambda total, word: total + F.bit_count(word))


# -- one batch --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Watch:
    """Watches a trace for a plan, which is read anew for every batch."""

    job: Job
    plan: Callable[[], Plan]
    inventory: Inventory = field(default_factory=Inventory)
    limits: Limits = field(default_factory=Limits)
    error: Exception | None = None

    @property
    def home(self) -> Path:
        """Where everything is kept."""
        return self.job.out / "watch"

    @property
    def kept(self) -> Kept:
        """What the last batch left behind."""
        path = self.home / "watch.json"
        if not path.exists():
            return Kept(self.job.length)
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Kept)
        except msgspec.DecodeError as error:
            raise InputError(f"{path}: cannot be read: {error}; {self._anew}") from None
        if found.length != self.job.length:
            raise InputError(
                f"{path}: profiles of {found.length} bits are kept: take --bits {found.length}, or {self._anew}"
            )
        return found

    @property
    def _anew(self) -> str:
        return f"remove {self.home} to begin anew"

    def batch(self, files: DataFrame, number: int) -> None:
        """Take in a batch; an error is kept for whoever waits, since Spark only passes on its text."""
        try:
            self._batch(files, number)
        except Exception as error:
            self.error = error
            raise

    def _batch(self, files: DataFrame, number: int) -> None:
        kept, query = self.kept, self._query()
        if kept.query not in ("", query):
            raise InputError(f"{self.home}: what is kept is of another checkpoint: {self._anew}")
        if number <= kept.batch:
            self.job.tell(f"batch {number}: was done before")
            self._propose(kept)
            return
        if number != kept.batch + 1:
            raise InputError(
                f"{self.home}: batches up to {kept.batch} are kept, but {number} is next: {self._anew}"
            )
        names = {_place(row["path"]) for row in files.collect()}
        tables = self._tables()
        new = replace(
            tables,
            parts={
                table: [part for part in tables.parts[table] if _place(str(part.path)) in names]
                for table in TABLES
            },
        )
        self.job.tell(f"batch {number}: {len(names):,} new files")
        self._take_in(new, number, kept.batch, tables)
        memory, proposal = self._judge(number, kept.memory, _is_behind(tables, names))
        proposals = self._next(kept) if proposal else kept.proposals
        done = Kept(self.job.length, query, number, proposals, memory, proposal)
        self._keep(done)
        self._propose(done)

    def _query(self) -> str:
        """Spark's name of the stream, which stays the same as long as its checkpoint is there."""
        about = msgspec.json.decode((self.home / "checkpoint" / "metadata").read_bytes())
        return str(about["id"])

    def _tables(self) -> Tables:
        """The trace as it is now."""
        job = self.job
        tables = job.open()
        for line in tables.reading.lines:
            if line not in job.reading.lines:
                job.tell(line)
        job.reading = tables.reading
        return tables

    def _take_in(self, new: Tables, number: int, before: int, tables: Tables) -> None:
        """Add a batch to what is kept, and make profiles of it."""
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
        both = self._with_kept("streams", STREAMS, before, of_days)
        job.write(merged_streams(both, recent_from), f"watch/streams/{number}")
        all_streams = self._read("streams", STREAMS, number)
        ends = ends_of(all_streams).persist()
        bits = partials(recent_from, new.frame(spark, "deliveries"), ends, job.length)
        both = self._with_kept("partials", PARTIALS, before, [bits])
        job.write(merged_partials(both, ends, job.length), f"watch/partials/{number}")
        ends.unpersist()
        job.bring_together(tables, all_streams, self._read("partials", PARTIALS, number))

    def _with_kept(
        self, name: str, schema: StructType, before: int, new: list[DataFrame]
    ) -> DataFrame:
        nothing = self.job.spark.createDataFrame([], schema)
        kept = self._read(name, schema, before) if before >= 0 else nothing
        return reduce(DataFrame.unionByName, new, kept)

    def _read(self, name: str, schema: StructType, number: int) -> DataFrame:
        return self.job.spark.read.schema(schema).parquet(plain(self.home / name / str(number)))

    def _judge(self, number: int, memory: Memory, is_behind: bool) -> tuple[Memory, Plan | None]:
        """Hold the plan against the profiles; what to remember, and what to propose."""
        job, plan = self.job, self.plan()
        memory = memory.for_plan(plan)
        if is_behind:
            job.tell(f"batch {number}: more is to be read before anything is judged")
            return memory, None
        fit = fit_of(plan, self._network())
        job.tell(
            f"batch {number}: {fit.messages_per_s:,.1f} messages/s, planned {fit.planned_per_s:,.1f}; "
            f"{len(fit.overloaded)} of {fit.brokers} brokers overloaded, {fit.newcomers:,} newcomers"
        )
        other = self._another(number) if fit.drifted(self.limits) else None
        memory, due = decide(memory, fit, other, self.limits)
        if other:
            saved = saving_of(fit, other)
            job.tell(
                f"batch {number}: drifted; another plan has {saved.brokers} brokers and "
                f"{saved.messages_per_s:,.1f} messages/s, saves {saved.percent:.0f}%"
            )
        return memory, other if due else None

    def _another(self, number: int) -> Plan | None:
        """Another plan for what is there now; there may be none, such as when not everything fits."""
        try:
            return plan_network(self.job, self.inventory)
        except InputError as error:
            self.job.tell(f"batch {number}: drifted, but there is no other plan: {error}")
            return None

    def _network(self) -> Network:
        """The network as it is now, with the brokers that may be planned with."""
        fleet = self.inventory.fleet(traced(self.job.frame("brokers")))
        tables = {name: self.job.frame(name) for name in NETWORK_TABLES}
        # What is decided here is told by the plan, if there is one.
        return to_network(tables, self.job.length, Reading(), fleet.capacities)

    def _next(self, kept: Kept) -> int:
        """The number of the next proposal; others may be there from before everything began anew."""
        names = (path.stem for path in self._proposals.glob("*.json"))
        return 1 + max(kept.proposals, *(int(name) for name in names if name.isdecimal()), 0)

    def _propose(self, kept: Kept) -> None:
        """Write the proposal of the batch that is done, unless that was done too."""
        path = self._proposals / f"{kept.proposals}.json"
        if kept.proposal is not None and not path.exists():
            path.parent.mkdir(exist_ok=True)
            write_whole(path.with_suffix(".tmp"), path, to_json(kept.proposal), sync=True)
            self.job.tell(f"batch {kept.batch}: proposes {path}")

    @property
    def _proposals(self) -> Path:
        return self.job.out / "proposals"

    def _keep(self, kept: Kept) -> None:
        """The batch is done; what the one before it left is of no use any more."""
        path = self.home / "watch.json"
        write_whole(path.with_suffix(".tmp"), path, msgspec.json.encode(kept), sync=True)
        for name in ("streams", "partials"):
            for folder in (self.home / name).iterdir():
                if folder.name != str(kept.batch):
                    shutil.rmtree(folder)


# -- the stream -------------------------------------------------------------------------------------------


def arrivals(job: Job, most: int) -> DataFrame:
    """(path): new files of publications and deliveries, as a stream; what is in them is read in the batch."""
    found = [
        job.spark.readStream.format("binaryFile")
        .schema(_FILE)
        .option("maxFilesPerTrigger", most)
        .option("recursiveFileLookup", True)  # hours are directories, and no column
        .load(plain(job.traces / table))
        .select("path")
        for table in TABLES
    ]
    return reduce(DataFrame.union, found)


def _is_behind(tables: Tables, names: set[str]) -> bool:
    """Whether much of either table is still to be read after a batch of these files: rates would come out too low."""
    times = {_place(str(path)): seen.times for path, seen in tables.seen.items()}
    for table in TABLES:
        came = [times.get(name) for name in names if name.startswith(f"{table}/")]
        there = [tables.seen[part.path].times for part in tables.parts[table]]
        if is_behind(came, there, RECENT_DAYS * DAY_NS):
            return True
    return False


def _place(path: str) -> str:
    """A file by its table, hour and name, however Spark writes where it is.

    >>> _place("file:/traces/deliveries/hour=3/part-B1-000001.parquet")
    'deliveries/hour=3/part-B1-000001.parquet'
    """
    return "/".join(path.rsplit("/", 3)[-3:])


def start(
    watch: Watch, *, once: bool = False, every_s: float = 10.0, files: int = FILES
) -> StreamingQuery:
    """Begin to watch: until all that is there was read, or until it is stopped."""
    job = watch.job
    tables = job.open()
    for table in TABLES:
        tables.require(table, f"trace for longer, with {table} = true")
    watch.kept  # noqa: B018 - what cannot be used is told now
    watch.plan()
    watch.home.mkdir(parents=True, exist_ok=True)
    writer = (
        arrivals(job, files)
        .writeStream.foreachBatch(watch.batch)
        .option("checkpointLocation", str(watch.home / "checkpoint"))
        .queryName("runnel watch")
    )
    when = {"availableNow": True} if once else {"processingTime": f"{every_s} seconds"}
    return writer.trigger(**when).start()


def wait(watch: Watch, query: StreamingQuery) -> None:
    """Wait for its end; what went wrong in a batch is raised as it was."""
    try:
        query.awaitTermination()
    except StreamingQueryException:
        if watch.error is not None:
            raise watch.error from None
        raise
    finally:
        query.stop()
    if watch.job.streams is not None:
        watch.job.judge()
