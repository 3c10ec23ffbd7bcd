"""The measured capacities of brokers, from the rows of `intervals`.

    output         the rate at which a broker can send: bytes sent, over the time that its output was busy. That time
                   follows from the output ratio Or. While a queue grows, Or exceeds the busy share of the time by the
                   factor of bytes queued over bytes sent, so Or is divided by that factor.
    base, each     the matching delay as a straight line, fitted to the delays measured with different numbers of
                   subscriptions (in tens); a constant if there is only one number. Brokers compute it in the same way
                   (modules/profiles/rates.py).

    told_…         what a broker states when it starts: its address and, if configured, its limits for plans
    stopped        whether the broker stopped and did not start again, while others were still running

Null: not measured, or not stated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.quantities import SECOND

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MEASURED_MIN = 100
"""With fewer matched publications the matching delay is not estimated."""
_TENS = 10


def measure_brokers(brokers: DataFrame, intervals: DataFrame) -> DataFrame:
    """The measured and the stated capacities of every broker in either table."""
    names = brokers.select("broker").union(intervals.select("broker")).distinct()
    end = intervals.select(F.max("time_ns").alias("end_ns"))
    stopped = F.coalesce(F.col("stopped_ns") < F.col("end_ns"), F.lit(False))
    return (
        names.join(_output_rates(intervals), "broker", "left")
        .join(_matching_delays(intervals), "broker", "left")
        .join(_broker_statements(brokers), "broker", "left")
        .crossJoin(F.broadcast(end))
        .select(
            *("broker", "output_bytes_per_s", "base_ns", "each_ns"),
            *("address", "told_output_bytes_per_s", "told_base_ns", "told_each_ns"),
            stopped.alias("stopped"),
        )
    )


def _broker_statements(brokers: DataFrame) -> DataFrame:
    """What brokers stated at their last start (address, limits for plans), and when they stopped for good."""
    is_start = F.col("event") == "started"
    newest = F.max(F.when(is_start, F.struct("time_ns", "detail"))).getField("detail")
    # Among rows of the same time "stopped" counts as the later.
    last = F.max(F.struct("time_ns", "event"))
    stopped = F.when(last.getField("event") == "stopped", last.getField("time_ns"))

    def text_of(key: str) -> Column:
        return F.get_json_object("detail", f"$.{key}")

    def number_of(key: str) -> Column:
        # Brokers write 0 if there is no limit, or if it is unknown.
        return F.nullif(text_of(key).cast("long"), F.lit(0))

    return (
        brokers.groupBy("broker")
        .agg(newest.alias("detail"), stopped.alias("stopped_ns"))
        .select(
            *("broker", "stopped_ns"),
            F.nullif(text_of("address"), F.lit("")).alias("address"),
            number_of("output_bytes_per_second").cast("double").alias("told_output_bytes_per_s"),
            number_of("match_ns_base").alias("told_base_ns"),
            number_of("match_ns_each").alias("told_each_ns"),
        )
    )


def busy_intervals(intervals: DataFrame) -> DataFrame:
    """(broker, bytes_out, frames_out, busy_ns): the intervals in which a broker sent, and the time that this took."""
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


def _output_rates(intervals: DataFrame) -> DataFrame:
    sums = (
        busy_intervals(intervals)
        .groupBy("broker")
        .agg(F.sum("bytes_out").alias("bytes"), F.sum("busy_ns").alias("busy_ns"))
    )
    rate = F.when(F.col("busy_ns") > 0, F.col("bytes") * float(SECOND) / F.col("busy_ns"))
    return sums.select("broker", rate.alias("output_bytes_per_s"))


def _matching_delays(intervals: DataFrame) -> DataFrame:
    spent = F.round(F.col("matching_delay_s") * F.col("publications_in") * SECOND).cast("long")
    tens = F.floor(F.col("subscriptions") / _TENS) * _TENS
    points = (
        intervals.groupBy("broker", tens.alias("count"))
        .agg(F.sum(spent).alias("spent_ns"), F.sum("publications_in").alias("matched"))
        .where(F.col("matched") >= MEASURED_MIN)
        .withColumn("delay", F.col("spent_ns") / F.col("matched"))
    )
    # Sorted, so that sums of floats are reproducible.
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
