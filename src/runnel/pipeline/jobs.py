"""The jobs: which transforms in which order, and where what they make is kept.

    profiles     days.json, days/…                          what each day came to, read once
                 publishers, subscriptions, vectors, brokers, links
    gifs         gifs, members                              after profiles
    closeness    closeness/metric=IOU                       after gifs

Everything is Parquet, with the schema that its transform ends with. A job brings what it needs up to date first: days
that have not changed since the last run are not read again. A day counts as read when days.json says so, which is
written last; so a run that was interrupted is simply run again. The same goes for the tables that are made of days.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.allocation.closeness import Metric
from runnel.allocation.network import Network
from runnel.allocation.profiles import BITS
from runnel.errors import InputError
from runnel.pipeline.brokers import measured
from runnel.pipeline.clients import links, owned, remembered, standing
from runnel.pipeline.closeness import closeness
from runnel.pipeline.gifs import groups, members, profiles
from runnel.pipeline.network import to_network
from runnel.pipeline.profiles import (
    RECENT_DAYS,
    incarnations,
    publishers,
    start_of,
    vectors,
)
from runnel.pipeline.streams import PARTIALS, STREAMS, partials, streams, subscribers
from runnel.pipeline.tables import Reading, Tables, open_tables, paths_of, plain
from runnel.trace.folder import write_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NETWORK_TABLES = ("publishers", "subscriptions", "vectors", "brokers", "links")
PROFILES = (*NETWORK_TABLES, "incarnations")
_IDS = "subscription bigint"
Tell = Callable[[str], None]


class Days(msgspec.Struct):
    """What days.json says: of which trace days are and how long vectors; what files each was made from; and what the
    tables were made from, and what was decided then."""

    length: int
    traces: str
    files: dict[int, list[str]] = {}
    tables: list[str] = []
    decisions: dict[str, int] = {}


def date_of(day: int) -> str:
    """A day, counted from 1970, as people write it.

    >>> date_of(20_773)
    '2026-11-16'
    """
    return (date(1970, 1, 1) + timedelta(days=day)).isoformat()


@dataclass(slots=True)
class Job:
    """One run of the pipeline over a trace; `tell` is told what is being done."""

    spark: SparkSession
    traces: Path
    out: Path
    length: int = BITS
    skip_unreadable: bool = False
    tell: Tell = lambda what: None
    reading: Reading = field(default_factory=Reading)
    until_ns: int | None = None  # as if the trace ended then
    tables: Tables | None = None  # the trace, once it was opened
    streams: DataFrame | None = None  # what profiles were made of, once they were
    partials: DataFrame | None = None

    def __post_init__(self) -> None:
        self.traces, self.out = Path(self.traces), Path(self.out)

    def open(self) -> Tables:
        """The trace as it is now."""
        self.tables = open_tables(
            self.traces,
            skip_unreadable=self.skip_unreadable,
            before=self.tables,
            until_ns=self.until_ns,
        )
        return self.tables

    # -- profiles -------------------------------------------------------------------------------------

    def profiles(self) -> dict[str, int]:
        """Bring profiles up to date; how many publishers, subscriptions and vectors there are."""
        self.tell("looking at the files")
        tables = self.open()
        self.reading = tables.reading
        tables.require("deliveries", "trace for longer, with deliveries = true")
        known = self._known_days()
        self._read_days(tables, known)
        files = [
            f"until {self.until_ns}",
            *paths_of([p for all in tables.parts.values() for p in all]),
        ]
        all_streams = self._of_days(tables, "streams", STREAMS)
        all_partials = self._of_days(tables, "partials", PARTIALS)
        if known.tables == files and all(self._has(name) for name in PROFILES):
            self.tell("nothing is new")
            self.streams, self.partials = all_streams, all_partials
            for decision, times in known.decisions.items():
                self.reading.count(decision, times)
        else:
            seen = dict(self.reading.decisions)
            known.tables = []
            self._keep(known)
            self.tell(f"bringing days together: {len(tables.days):,}")
            got = self.spark.read.schema(_IDS).parquet(*self._paths(tables, "subscribers"))
            self.bring_together(tables, all_streams, all_partials, got, self.tell)
            self.judge()
            known.tables = files
            known.decisions = {
                name: times - seen.get(name, 0) for name, times in self.reading.decisions.items()
            }
            self._keep(known)
        return {name: self.frame(name).count() for name in NETWORK_TABLES[:3]}

    def _read_days(self, tables: Tables, known: Days) -> None:
        for number, day in enumerate(tables.days, 1):
            both = (tables.of_days(name, [day]) for name in ("publications", "deliveries"))
            files = paths_of([part for found in both for part in found])
            if self.until_ns is not None and self.until_ns < start_of(day + 1):
                files.append(f"until {self.until_ns}")
            if known.files.get(day) != files:
                date = date_of(day) if tables.folder.about.clock == "wall" else f"day {day:,}"
                self.tell(f"reading {date} ({number:,} of {len(tables.days):,})")
                # Until it is through, what is there of that day is of no use.
                known.files.pop(day, None)
                self._keep(known)
                self._read_day(tables, day)
                known.files[day] = files
                self._keep(known)

    def _read_day(self, tables: Tables, day: int) -> None:
        published = tables.frame(self.spark, "publications", [day])
        delivered = tables.frame(self.spark, "deliveries", [day])
        self.write(streams(day, published, delivered), f"days/streams/{day}")
        of_day = self.spark.read.schema(STREAMS).parquet(plain(self.out / f"days/streams/{day}"))
        self.write(partials(day, delivered, of_day, self.length), f"days/partials/{day}")
        # Also those that got something before the windows only: they are to be known.
        self.write(subscribers(delivered), f"days/subscribers/{day}")

    def _known_days(self) -> Days:
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

    def _keep(self, known: Days) -> None:
        path = self.out / "days.json"
        write_whole(path.with_suffix(".tmp"), path, msgspec.json.encode(known), sync=True)

    def _has(self, name: str) -> bool:
        return (self.out / name / "_SUCCESS").exists()

    def _of_days(self, tables: Tables, name: str, schema: StructType) -> DataFrame:
        return self.spark.read.schema(schema).parquet(*self._paths(tables, name))

    def _paths(self, tables: Tables, name: str) -> list[str]:
        return [plain(self.out / f"days/{name}/{day}") for day in tables.days]

    def bring_together(
        self,
        tables: Tables,
        all_streams: DataFrame,
        all_partials: DataFrame,
        subscribers: DataFrame | None = None,
        tell: Tell = lambda what: None,
    ) -> None:
        """Make profiles of what was published and delivered; `subscribers` are all that ever got anything, if known."""
        self.tables, self.streams, self.partials = tables, all_streams, all_partials
        spark = self.spark
        about = tables.frame(spark, "brokers")
        told = {
            name: remembered(tables.frame(spark, name), about)
            for name in ("subscriptions", "advertisements", "links")
        }
        clients = (
            told["subscriptions"].select("client").union(told["advertisements"].select("client"))
        )
        stand = owned(standing(told["advertisements"], "advertisement", "publisher"), clients)
        recent_from = tables.days[-1] - RECENT_DAYS + 1
        start_ns, end_ns = start_of(recent_from), self._end_ns(tables, all_streams)
        tell("publishers and their windows")
        self.write(incarnations(all_streams, stand, recent_from), "incarnations")
        known = self.frame("incarnations")
        self.write(publishers(known, self.length, start_ns, end_ns), "publishers")
        tell("subscriptions and their vectors")
        self.write(vectors(all_partials, known, self.frame("publishers"), self.length), "vectors")
        self.write(self._subscribers(tables, told["subscriptions"], subscribers), "subscriptions")
        tell("brokers and links")
        self.write(measured(about, tables.frame(spark, "intervals")), "brokers")
        self.write(links(told["links"]), "links")

    def _end_ns(self, tables: Tables, all_streams: DataFrame) -> int:
        """When the work ended: with the interval in which the last publication was. Idle time after it has no rates."""
        (last,) = all_streams.select(F.max("last_ns")).first() or (None,)
        ends = tables.frame(self.spark, "intervals").where(F.col("time_ns") >= (last or 0))
        (end,) = ends.select(F.min("time_ns")).first() or (None,)
        return int(end or last or 0)

    def _subscribers(
        self, tables: Tables, told: DataFrame, subscribers: DataFrame | None
    ) -> DataFrame:
        """Every subscription: its client, where it is, and in how many vectors; unknown ones as deliveries tell."""
        stand = standing(told, "subscription").drop("since_ns")
        got = self.frame("vectors").groupBy("subscription").agg(F.count("*").alias("vectors"))
        known = got.select("subscription")
        every = known if subscribers is None else known.union(subscribers).distinct()
        strangers = every.join(stand, "subscription", "left_anti").select("subscription")
        unknown = strangers.count()
        self.reading.count(
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

    def judge(self) -> None:
        """Count what is not as it should be in the profiles that were made."""
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
        count = self.reading.count
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

    # -- gifs, closeness ------------------------------------------------------------------------------

    def gifs(self) -> dict[str, int]:
        """Group identical profiles; how many subscriptions and groups there are."""
        self.tell("grouping identical profiles")
        self.write(groups(profiles(self.frame("vectors"))), "gifs")
        self.write(members(self.frame("gifs")), "members")
        return {"subscriptions": self.frame("members").count(), "gifs": self.frame("gifs").count()}

    def closeness(self, metric: Metric, minimum: float = 0.0) -> dict[str, int]:
        """Find every group's nearest partner; how many have one, and how many vectors were looked at."""
        self.tell(f"finding nearest partners under {metric}")
        self.write(closeness(self.frame("gifs"), metric, minimum), f"closeness/metric={metric}")
        found = self.frame(f"closeness/metric={metric}")
        partners, computed = found.select(F.count("*"), F.sum("computed")).first() or (0, 0)
        return {"partners": int(partners), "computed": int(computed or 0)}

    def network(self) -> Network:
        """What the planner is told."""
        tables = {name: self.frame(name) for name in NETWORK_TABLES}
        return to_network(tables, self.length, self.reading)

    # -- what is kept ---------------------------------------------------------------------------------

    def frame(self, name: str) -> DataFrame:
        """What a job has written."""
        if not (self.out / name).exists():
            raise InputError(
                f"{self.out}: there is no {name} in it: run the job that makes it first"
            )
        return self.spark.read.parquet(plain(self.out / name))

    def write(self, frame: DataFrame, name: str) -> None:
        """Keep a table under a name, in place of what was there."""
        frame.write.mode("overwrite").parquet(str(self.out / name))
