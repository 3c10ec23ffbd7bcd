"""The jobs: the order of transforms, and where their results are stored.

    make_profiles     days.json, days/…                          the results of each day, which is read once
                      publishers, subscriptions, vectors, brokers, links, incarnations

Vectors are made in two steps: the bits of each day (`daily_bits.py::partials`, called by `Job._write_day`), then those
of all days (`profiles.py::vectors`, called by `Job.merge_days`).

All tables are Parquet; their columns are those that their transform selects last. A job first updates what it needs:
days that have not changed since the last run are not read again. A day counts as read when it is in days.json, which is
written last; so an interrupted run can simply be repeated. The same holds for the tables that are made from the days.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.errors import InputError
from runnel.pipeline.brokers import measure_brokers
from runnel.pipeline.clients import (
    links_at_end,
    resolve_owners,
    state_at_end,
    withdraw_before_restart,
)
from runnel.pipeline.daily_bits import PARTIALS, STREAMS, partials, streams, subscribers
from runnel.pipeline.network import network_from_tables
from runnel.pipeline.profiles import (
    RECENT_DAYS,
    day_start_ns,
    incarnations,
    publishers,
    vectors,
)
from runnel.pipeline.tables import (
    Decisions,
    TraceTables,
    escape_path,
    file_fingerprints,
    open_tables,
)
from runnel.planning.network import Network
from runnel.planning.profiles import BITS
from runnel.trace.folder import write_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NETWORK_TABLES = ("publishers", "subscriptions", "vectors", "brokers", "links")
PROFILES = (*NETWORK_TABLES, "incarnations")
_IDS = "subscription bigint"
Tell = Callable[[str], None]


class Days(msgspec.Struct):
    """The contents of days.json: the trace and the length of vectors; the files of each day; the files that the tables
    were made from, and the decisions about their irregularities."""

    length: int
    traces: str
    files: dict[int, list[str]] = {}
    tables: list[str] = []
    decisions: dict[str, int] = {}


def date_of(day: int) -> str:
    """A day, counted from 1970, as an ISO date.

    >>> date_of(20_773)
    '2026-11-16'
    """
    return (date(1970, 1, 1) + timedelta(days=day)).isoformat()


@dataclass(slots=True)
class Job:
    """One run of the pipeline over a trace; `tell` is called with a text for every step."""

    spark: SparkSession
    traces: Path
    out: Path
    length: int = BITS
    skip_unreadable: bool = False
    tell: Tell = lambda what: None
    decisions: Decisions = field(default_factory=Decisions)
    until_ns: int | None = None  # as if the trace ended then
    tables: TraceTables | None = None  # the trace, once it was opened
    streams: DataFrame | None = None  # what the profiles were made from, once there are any
    partials: DataFrame | None = None

    def __post_init__(self) -> None:
        self.traces, self.out = Path(self.traces), Path(self.out)

    def open(self) -> TraceTables:
        """Open the trace as it is now."""
        self.tables = open_tables(
            self.traces,
            skip_unreadable=self.skip_unreadable,
            before=self.tables,
            until_ns=self.until_ns,
        )
        return self.tables

    # -- profiles -------------------------------------------------------------------------------------

    def make_profiles(self) -> dict[str, int]:
        """Update the profiles, and return the number of publishers, subscriptions and vectors.

        New days are read (`_write_day`), then all days are merged (`merge_days`).
        """
        self.tell("looking at the files")
        tables = self.open()
        self.decisions = tables.decisions
        tables.require("deliveries", "trace for longer, with deliveries = true")
        known = self._load_days()
        self._update_days(tables, known)
        files = [
            f"until {self.until_ns}",
            *file_fingerprints([p for all in tables.parts.values() for p in all]),
        ]
        all_streams = self._read_day_tables(tables, "streams", STREAMS)
        all_partials = self._read_day_tables(tables, "partials", PARTIALS)
        if known.tables == files and all(self._is_written(name) for name in PROFILES):
            self.tell("nothing is new")
            self.streams, self.partials = all_streams, all_partials
            for decision, times in known.decisions.items():
                self.decisions.count(decision, times)
        else:
            seen = dict(self.decisions.counts)
            known.tables = []
            self._save_days(known)
            self.tell(f"bringing days together: {len(tables.days):,}")
            got = self.spark.read.schema(_IDS).parquet(*self._paths(tables, "subscribers"))
            self.merge_days(tables, all_streams, all_partials, got, self.tell)
            self.count_anomalies()
            known.tables = files
            known.decisions = {
                name: times - seen.get(name, 0) for name, times in self.decisions.counts.items()
            }
            self._save_days(known)
        return {name: self.frame(name).count() for name in NETWORK_TABLES[:3]}

    def _update_days(self, tables: TraceTables, known: Days) -> None:
        for number, day in enumerate(tables.days, 1):
            both = (tables.parts_of_days(name, [day]) for name in ("publications", "deliveries"))
            files = file_fingerprints([part for found in both for part in found])
            if self.until_ns is not None and self.until_ns < day_start_ns(day + 1):
                files.append(f"until {self.until_ns}")
            if known.files.get(day) != files:
                date = date_of(day) if tables.folder.about.clock == "wall" else f"day {day:,}"
                self.tell(f"reading {date} ({number:,} of {len(tables.days):,})")
                # The day's earlier results are not valid until it has been read.
                known.files.pop(day, None)
                self._save_days(known)
                self._write_day(tables, day)
                known.files[day] = files
                self._save_days(known)

    def _write_day(self, tables: TraceTables, day: int) -> None:
        published = tables.frame(self.spark, "publications", [day])
        delivered = tables.frame(self.spark, "deliveries", [day])
        self.write(streams(day, published, delivered), f"days/streams/{day}")
        of_day = self.spark.read.schema(STREAMS).parquet(
            escape_path(self.out / f"days/streams/{day}")
        )
        self.write(partials(day, delivered, of_day, self.length), f"days/partials/{day}")
        # Subscriptions that received something only before the windows are listed, too.
        self.write(subscribers(delivered), f"days/subscribers/{day}")

    def _load_days(self) -> Days:
        path, trace = self.out / "days.json", str(self.traces.resolve())
        self.out.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            return Days(self.length, trace)
        try:
            known = msgspec.json.decode(path.read_bytes(), type=Days)
        except msgspec.DecodeError as error:
            raise InputError(f"{path}: cannot be read: {error}; remove it") from None
        is_ours = (known.length, known.traces) == (self.length, trace)
        return known if is_ours else Days(self.length, trace)

    def _save_days(self, known: Days) -> None:
        path = self.out / "days.json"
        write_whole(path.with_suffix(".tmp"), path, msgspec.json.encode(known), sync=True)

    def _is_written(self, name: str) -> bool:
        return (self.out / name / "_SUCCESS").exists()

    def _read_day_tables(self, tables: TraceTables, name: str, schema: StructType) -> DataFrame:
        return self.spark.read.schema(schema).parquet(*self._paths(tables, name))

    def _paths(self, tables: TraceTables, name: str) -> list[str]:
        return [escape_path(self.out / f"days/{name}/{day}") for day in tables.days]

    def merge_days(
        self,
        tables: TraceTables,
        all_streams: DataFrame,
        all_partials: DataFrame,
        subscribers: DataFrame | None = None,
        tell: Tell = lambda what: None,
    ) -> None:
        """Make profiles from days. `subscribers` are all subscriptions that ever received anything, if known."""
        self.tables, self.streams, self.partials = tables, all_streams, all_partials
        spark = self.spark
        about = tables.frame(spark, "brokers")
        events = {
            name: withdraw_before_restart(tables.frame(spark, name), about)
            for name in ("subscriptions", "advertisements", "links")
        }
        clients = (
            events["subscriptions"]
            .select("client")
            .union(events["advertisements"].select("client"))
        )
        stand = resolve_owners(
            state_at_end(events["advertisements"], "advertisement", "publisher"), clients
        )
        recent_from = tables.days[-1] - RECENT_DAYS + 1
        start_ns, end_ns = day_start_ns(recent_from), self._end_ns(tables, all_streams)
        tell("publishers and their windows")
        self.write(incarnations(all_streams, stand, recent_from), "incarnations")
        known = self.frame("incarnations")
        self.write(publishers(known, self.length, start_ns, end_ns), "publishers")
        tell("subscriptions and their vectors")
        self.write(vectors(all_partials, known, self.frame("publishers"), self.length), "vectors")
        self.write(
            self._list_subscriptions(tables, events["subscriptions"], subscribers), "subscriptions"
        )
        tell("brokers and links")
        self.write(measure_brokers(about, tables.frame(spark, "intervals")), "brokers")
        self.write(links_at_end(events["links"]), "links")

    def _end_ns(self, tables: TraceTables, all_streams: DataFrame) -> int:
        """The end of the interval with the last publication. The idle time after it does not count for rates."""
        (last,) = all_streams.select(F.max("last_ns")).first() or (None,)
        ends = tables.frame(self.spark, "intervals").where(F.col("time_ns") >= (last or 0))
        (end,) = ends.select(F.min("time_ns")).first() or (None,)
        return int(end or last or 0)

    def _list_subscriptions(
        self, tables: TraceTables, events: DataFrame, subscribers: DataFrame | None
    ) -> DataFrame:
        """Every subscription with its client, its broker and the number of its vectors.

        The clients of subscriptions that were made before the trace began are taken from deliveries.
        """
        stand = state_at_end(events, "subscription").drop("since_ns")
        got = self.frame("vectors").groupBy("subscription").agg(F.count("*").alias("vectors"))
        known = got.select("subscription")
        every = known if subscribers is None else known.union(subscribers).distinct()
        strangers = every.join(stand, "subscription", "left_anti").select("subscription")
        unknown = strangers.count()
        self.decisions.count(
            "subscriptions were made before the trace began: their clients are as deliveries tell",
            unknown,
        )
        if unknown:
            rows = tables.frame(self.spark, "deliveries").join(
                strangers, "subscription", "left_semi"
            )
            last = F.max(F.struct("time_ns", "client", "broker")).alias("last")
            there = F.lit(True).alias("present")
            seen = rows.groupBy("subscription").agg(last)
            stand = stand.unionByName(
                seen.select("subscription", "last.client", "last.broker", there)
            )
        return stand.join(got, "subscription", "left").select(
            "subscription",
            "client",
            "broker",
            "present",
            F.coalesce("vectors", F.lit(0)).alias("vectors"),
        )

    def count_anomalies(self) -> None:
        """Count the irregularities in the profiles."""
        assert self.streams is not None and self.partials is not None
        sums = self.streams.select(
            F.sum("doubles"), F.sum("early"), F.count_if(F.col("publications") == 0)
        )
        doubles, early, unpublished = sums.first() or (0, 0, 0)
        ones = F.aggregate("words", F.lit(0), lambda total, word: total + F.bit_count(word))
        more = self.partials.select(F.sum(F.col("rows") - ones))
        (twice,) = more.first() or (0,)
        silent = self.frame("subscriptions").where("vectors = 0").count()
        strangers = self.frame("incarnations").where("not advertised").count()
        count = self.decisions.count
        count("publications are there twice, and count once", int(doubles or 0))
        count("deliveries within the windows are there twice, and count once", int(twice or 0))
        count(
            "deliveries came before they were published, by clocks that differ: order is by counter",
            int(early or 0),
        )
        count(
            "streams have deliveries but no publications: they have no rate, and end with what was delivered",
            int(unpublished or 0),
        )
        count(
            "advertisements were made before the trace began: they go by their publishers' names",
            strangers,
        )
        count("subscriptions got nothing in the windows: their profiles are empty", silent)
        again = self.frame("publishers").where(F.col("name").rlike(r"#\d+$")).count()
        count("publishers have the name of another that stands, and are called NAME#2", again)

    def make_network(self) -> Network:
        """The planner's input."""
        tables = {name: self.frame(name) for name in NETWORK_TABLES}
        return network_from_tables(tables, self.length, self.decisions)

    # -- tables ---------------------------------------------------------------------------------------

    def frame(self, name: str) -> DataFrame:
        """A table that a job has written."""
        if not (self.out / name).exists():
            raise InputError(
                f"{self.out}: there is no {name} in it: run the job that makes it first"
            )
        return self.spark.read.parquet(escape_path(self.out / name))

    def write(self, frame: DataFrame, name: str) -> None:
        """Write a table under a name, and replace an earlier one."""
        frame.write.mode("overwrite").parquet(str(self.out / name))
