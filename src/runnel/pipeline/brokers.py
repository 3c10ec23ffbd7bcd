"""What brokers were measured to be able to do, from the rows of `intervals`.

    output         bytes that went out over the time that the output was busy: the rate at which it can send. While a
                   queue grows, Or is larger than that share of time, by what came in over what went out; so that is
                   taken out again.
    base, each     the matching delay as a line through what was measured with different numbers of subscriptions, by
                   tens; with one number only, a constant. As brokers reckon it for themselves (allocation/rates.py).

    told           what a broker says of itself when it starts: where it listens, and what it is configured to be
                   planned with, if it is
    stopped        whether that it has stopped is its last word, and others went on

Null is not measured, or not told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SECOND = 1_000_000_000
MEASURED_MIN = 100
"""Publications matched: fewer say nothing about matching."""
_TENS = 10


def measured(brokers: DataFrame, intervals: DataFrame) -> DataFrame:
    """What every broker that is in either table was measured to be able to do, and what it says of itself."""
    names = brokers.select("broker").union(intervals.select("broker")).distinct()
    end = intervals.select(F.max("time_ns").alias("end_ns"))
    stopped = F.coalesce(F.col("stopped_ns") < F.col("end_ns"), F.lit(False))
    return (
        names.join(_outputs(intervals), "broker", "left")
        .join(_delays(intervals), "broker", "left")
        .join(_told(brokers), "broker", "left")
        .crossJoin(F.broadcast(end))
        .select(
            *("broker", "output_bytes_per_s", "base_ns", "each_ns"),
            *("address", "told_output_bytes_per_s", "told_base_ns", "told_each_ns"),
            stopped.alias("stopped"),
        )
    )


def _told(brokers: DataFrame) -> DataFrame:
    """What brokers said when they started last: where they listen, and what they may be planned to do."""
    is_start = F.col("event") == "started"
    newest = F.max(F.when(is_start, F.struct("time_ns", "detail"))).getField("detail")
    # Of one time, "stopped" is after "started".
    last = F.max(F.struct("time_ns", "event"))
    stopped = F.when(last.getField("event") == "stopped", last.getField("time_ns"))

    def said(key: str) -> Column:
        return F.get_json_object("detail", f"$.{key}")

    def amount(key: str) -> Column:
        # 0 is how they say that they have no limit, or do not know.
        return F.nullif(said(key).cast("long"), F.lit(0))

    return (
        brokers.groupBy("broker")
        .agg(newest.alias("detail"), stopped.alias("stopped_ns"))
        .select(
            *("broker", "stopped_ns"),
            F.nullif(said("address"), F.lit("")).alias("address"),
            amount("output_bytes_per_second").cast("double").alias("told_output_bytes_per_s"),
            amount("match_ns_base").alias("told_base_ns"),
            amount("match_ns_each").alias("told_each_ns"),
        )
    )


def sendings(intervals: DataFrame) -> DataFrame:
    """(broker, bytes_out, frames_out, busy_ns): every interval in which something went out, and for how long it did."""
    before = Window.partitionBy("broker").orderBy("time_ns")
    began = F.col("time_ns") - F.col("window_ns")
    follows = F.lag("time_ns").over(before) == began
    waiting = F.when(follows, F.lag("queue_bytes").over(before)).otherwise(0)
    received = F.col("bytes_out") + F.col("queue_bytes") - F.coalesce(waiting, F.lit(0))
    growth = F.greatest(F.lit(1.0), received / F.col("bytes_out"))
    known = intervals.where("output_ratio is not null and window_ns > 0")
    busy = known.withColumn("growth", growth).where("bytes_out > 0")
    # Whole nanoseconds, so that the sum does not depend on its order.
    spent = F.round(F.col("output_ratio") * F.col("window_ns") / F.col("growth")).cast("long")
    return busy.select("broker", "bytes_out", "frames_out", spent.alias("busy_ns"))


def _outputs(intervals: DataFrame) -> DataFrame:
    sums = (
        sendings(intervals)
        .groupBy("broker")
        .agg(F.sum("bytes_out").alias("bytes"), F.sum("busy_ns").alias("busy_ns"))
    )
    rate = F.when(F.col("busy_ns") > 0, F.col("bytes") * float(SECOND) / F.col("busy_ns"))
    return sums.select("broker", rate.alias("output_bytes_per_s"))


def _delays(intervals: DataFrame) -> DataFrame:
    spent = F.round(F.col("matching_delay_s") * F.col("publications_in") * SECOND).cast("long")
    tens = F.floor(F.col("subscriptions") / _TENS) * _TENS
    points = (
        intervals.groupBy("broker", tens.alias("count"))
        .agg(F.sum(spent).alias("spent_ns"), F.sum("publications_in").alias("matched"))
        .where(F.col("matched") >= MEASURED_MIN)
        .withColumn("delay", F.col("spent_ns") / F.col("matched"))
    )
    # In one order, so that sums of floats come out the same.
    listed = F.sort_array(F.collect_list(F.struct("count", "delay"))).alias("points")
    lists = points.groupBy("broker").agg(listed)
    middle, average = _mean("count"), _mean("delay")
    spread = _sum(lambda x: (x["count"] - middle) * (x["count"] - middle))
    rise = _sum(lambda x: (x["count"] - middle) * (x["delay"] - average))
    each = F.when(spread > 0, F.greatest(F.lit(0.0), rise / spread)).otherwise(0.0)
    lines = lists.select("broker", "points", each.alias("each"))
    base = F.greatest(F.lit(0.0), average - F.col("each") * middle)
    return lines.select(
        "broker",
        F.round(base).cast("long").alias("base_ns"),
        F.round("each").cast("long").alias("each_ns"),
    )


def _sum(term: Callable[[Column], Column]) -> Column:
    return F.aggregate(
        "points", F.lit(0.0), lambda total, point: total + term(point).cast("double")
    )


def _mean(name: str) -> Column:
    return _sum(lambda point: point[name]) / F.size("points")
