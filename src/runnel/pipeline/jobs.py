"""The jobs: which transforms in which order, and where what they make is kept.

    profiles     days.json, days/streams, days/partials     what each day came to, read once
                 publishers, subscriptions, vectors, brokers, links
    gifs         gifs, members                              after profiles
    closeness    closeness/metric=IOU                       after gifs

Everything is Parquet, with the schema that its transform ends with. A job brings what it needs up to date first: days
that have not changed since the last run are not read again. A day counts as read when days.json says so, which is
written last; so a run that was interrupted is simply run again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.allocation.closeness import Metric
from runnel.allocation.network import Network
from runnel.allocation.profiles import BITS
from runnel.errors import InputError
from runnel.pipeline.brokers import measured
from runnel.pipeline.clients import links, owned, standing
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
from runnel.pipeline.streams import PARTIALS, STREAMS, partials, streams
from runnel.pipeline.tables import Reading, Tables, open_tables, paths_of
from runnel.trace.folder import write_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NETWORK_TABLES = ("publishers", "subscriptions", "vectors", "brokers", "links")
Tell = Callable[[str], None]


class Days(msgspec.Struct):
    """What days.json says: how long vectors are, and the files that each day was made from."""

    length: int
    files: dict[int, list[str]] = {}


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
    tables: Tables | None = None  # the trace, once it was opened
    streams: DataFrame | None = None  # what profiles were made of, once they were
    partials: DataFrame | None = None

    # -- profiles -------------------------------------------------------------------------------------

    def profiles(self) -> dict[str, int]:
        """Bring profiles up to date; how many publishers, subscriptions and vectors there are."""
        self.tell("looking at the files")
        tables = open_tables(self.traces, skip_unreadable=self.skip_unreadable)
        self.tables, self.reading = tables, tables.reading
        tables.require("deliveries", "trace for longer, with deliveries = true")
        read = self._read_days(tables)
        self.tell(f"bringing {len(tables.days):,} days together" if read else "nothing is new")
        both = (("streams", STREAMS), ("partials", PARTIALS))
        self.bring_together(tables, *(self._of_days(tables, *one) for one in both))
        self.judge()
        return {name: self.frame(name).count() for name in NETWORK_TABLES[:3]}

    def _read_days(self, tables: Tables) -> int:
        known = self._known_days()
        changed = 0
        for number, day in enumerate(tables.days, 1):
            both = (tables.of_days(name, [day]) for name in ("publications", "deliveries"))
            files = paths_of([part for found in both for part in found])
            if known.files.get(day) != files:
                self.tell(f"reading day {day:,} ({number:,} of {len(tables.days):,})")
                self._read_day(tables, day)
                known.files[day] = files
                path = self.out / "days.json"
                write_whole(path.with_suffix(".tmp"), path, msgspec.json.encode(known), sync=True)
                changed += 1
        return changed

    def _read_day(self, tables: Tables, day: int) -> None:
        published = tables.frame(self.spark, "publications", [day])
        delivered = tables.frame(self.spark, "deliveries", [day])
        self.write(streams(day, published, delivered), f"days/streams/{day}")
        of_day = self.spark.read.schema(STREAMS).parquet(str(self.out / f"days/streams/{day}"))
        self.write(partials(day, delivered, of_day, self.length), f"days/partials/{day}")

    def _known_days(self) -> Days:
        path = self.out / "days.json"
        self.out.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            return Days(self.length)
        try:
            known = msgspec.json.decode(path.read_bytes(), type=Days)
        except msgspec.DecodeError as error:
            raise InputError(f"{path}: cannot be read: {error}; remove it") from None
        return known if known.length == self.length else Days(self.length)

    def _of_days(self, tables: Tables, name: str, schema: StructType) -> DataFrame:
        paths = [str(self.out / f"days/{name}/{day}") for day in tables.days]
        return self.spark.read.schema(schema).parquet(*paths)

    def bring_together(
        self, tables: Tables, all_streams: DataFrame, all_partials: DataFrame
    ) -> None:
        """Make profiles of what was published and delivered."""
        self.tables, self.streams, self.partials = tables, all_streams, all_partials
        spark = self.spark
        told = {name: tables.frame(spark, name) for name in ("subscriptions", "advertisements")}
        clients = (
            told["subscriptions"].select("client").union(told["advertisements"].select("client"))
        )
        stand = owned(standing(told["advertisements"], "advertisement", "publisher"), clients)
        recent_from = tables.days[-1] - RECENT_DAYS + 1
        start_ns, end_ns = start_of(recent_from), self._end_ns(tables, all_streams)
        self.write(incarnations(all_streams, stand, recent_from), "incarnations")
        known = self.frame("incarnations")
        self.write(publishers(known, self.length, start_ns, end_ns), "publishers")
        self.write(vectors(all_partials, known, self.frame("publishers"), self.length), "vectors")
        self.write(self._subscribers(tables, told["subscriptions"]), "subscriptions")
        intervals, about = tables.frame(spark, "intervals"), tables.frame(spark, "brokers")
        self.write(measured(about, intervals), "brokers")
        self.write(links(tables.frame(spark, "links")), "links")

    def _end_ns(self, tables: Tables, all_streams: DataFrame) -> int:
        """When the trace ends: the last that any broker said."""
        intervals = tables.frame(self.spark, "intervals").select(F.max("time_ns"))
        ends = all_streams.select(F.max("last_ns")).union(intervals).collect()
        return max((int(row[0]) for row in ends if row[0] is not None), default=0)

    def _subscribers(self, tables: Tables, told: DataFrame) -> DataFrame:
        """Every subscription: its client, where it is, and in how many vectors; unknown ones as deliveries tell."""
        stand = standing(told, "subscription").drop("since_ns")
        got = self.frame("vectors").groupBy("subscription").agg(F.count("*").alias("vectors"))
        strangers = got.join(stand, "subscription", "left_anti").select("subscription")
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
        count("deliveries are there twice, and count once", int(twice or 0))
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
        return self.spark.read.parquet(str(self.out / name))

    def write(self, frame: DataFrame, name: str) -> None:
        """Keep a table under a name, in place of what was there."""
        frame.write.mode("overwrite").parquet(str(self.out / name))
