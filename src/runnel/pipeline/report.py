"""The metrics of a trace of any size. lab/metrics.py defines these metrics.

    broker_loads           every broker: message rates, utilisations, sizes of tables
    intervals_over_time    the same, interval by interval
    spreads                mean, deviation and maximum over brokers
    journeys               hops and delay, from the publisher to the client's queue, of every delivery
    percentiles            of these delays, by nearest rank
    hop_counts             number of deliveries by hops
    count_messages         number of messages by class
    measure_window         all of these, for one window of a trace

The rules are those of lab/metrics.py: loads are of whole intervals within the window; the rate of a broker is its input
rate; what was not measured in every interval is null. Integers are equal to those of lab/metrics.py, floats up to
rounding. Floats are summed as decimals or in sorted order, so that sums do not depend on the distribution of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.errors import InputError
from runnel.pipeline.clients import links_at_end
from runnel.pipeline.doubles import count_by_word, count_doubles, drop_doubles
from runnel.pipeline.network import links_between
from runnel.pipeline.tables import TraceTables
from runnel.quantities import SECOND
from runnel.trace.window import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from runnel.pipeline.jobs import Job

PUBLICATION = "Publication"
PERCENTS = (1.0, *(float(n) for n in range(5, 100, 5)), 99.0, 99.9, 100.0)
SPREAD_COLUMNS = (
    *("message_rate", "output_rate", "input_ratio", "output_ratio", "matching_delay_s"),
    *("subscriptions", "advertisements", "clients", "memory_bytes"),
)
"""The columns of `broker_loads` that are summarised as mean, deviation and maximum."""

STRETCHES = 60
"""A window is drawn as at most this many stretches."""

_STEP = 12  # bits of a delay that each step of `percentiles` adds
_STEPS = (2 * _STEP, _STEP, 0)


# -- brokers ----------------------------------------------------------------------------------------------


def intervals_within(intervals: DataFrame, window: Window) -> DataFrame:
    """The intervals that begin and end within a window; the time of a row is the end of its interval."""
    began = F.col("time_ns") - F.col("window_ns")
    return intervals.where((F.col("time_ns") <= window.end_ns) & (began >= window.start_ns)).where(
        F.col("time_ns") > window.start_ns
    )


def broker_loads(intervals: DataFrame) -> DataFrame:
    """The load of every broker over some intervals; the sizes of tables are those at the end of its last interval."""
    last = F.max(F.struct("time_ns", "subscriptions", "advertisements", "clients")).alias("last")
    found = intervals.groupBy("broker").agg(
        F.sum("window_ns").alias("window_ns"),
        *(
            F.sum(name).alias(name)
            for name in ("publications_in", "publications_out", "control_in")
        ),
        _weighted_mean("input_ratio", "window_ns"),
        _weighted_mean("output_ratio", "window_ns"),
        _weighted_mean("matching_delay_s", "publications_in"),
        _weighted_mean("memory_bytes", "window_ns", whole=True),
        last,
    )
    seconds = F.col("window_ns") / float(SECOND)
    return found.select(
        "broker",
        seconds.alias("seconds"),
        *("publications_in", "publications_out", "control_in"),
        (F.col("publications_in") / seconds).alias("message_rate"),
        (F.col("publications_out") / seconds).alias("output_rate"),
        *("input_ratio", "output_ratio", "matching_delay_s"),
        *("last.subscriptions", "last.advertisements", "last.clients", "memory_bytes"),
        ((F.col("last.clients") > 0) | (F.col("publications_in") > 0)).alias("allocated"),
    )


def _weighted_mean(name: str, weight: str, *, whole: bool = False) -> Column:
    """A weighted mean; null if a value is missing, 0 if the total weight is 0."""
    values, weights = F.col(name), F.col(weight)
    if whole:  # a gigabyte times ten seconds exceeds 64 bits
        product = values.cast("decimal(19,0)") * weights.cast("decimal(19,0)")
    else:
        product = (values * weights).cast("decimal(38,15)")
    exact, total = F.sum(product).cast("double"), F.sum(weight)
    value = F.when(total > 0, exact / total).otherwise(0.0)
    return F.when(F.count(name) == F.count("*"), value).alias(name)


def intervals_over_time(intervals: DataFrame, window: Window) -> DataFrame:
    """The load of every broker, interval by interval; `seconds` are from the start of the window."""
    seconds = (F.col("time_ns") - window.start_ns) / float(SECOND)
    return intervals.select(
        "broker",
        seconds.alias("seconds"),
        (F.col("window_ns") / float(SECOND)).alias("length_s"),
        *("input_ratio", "output_ratio", "matching_delay_s", "input_rate", "output_rate"),
        *("publications_in", "publications_out", "control_in", "bytes_in", "bytes_out", "dropped"),
        *(
            "queue_frames",
            "queue_bytes",
            "subscriptions",
            "advertisements",
            "clients",
            "memory_bytes",
        ),
    )


def rates_over_time(intervals: DataFrame, window: Window, length_s: float) -> DataFrame:
    """(seconds, message_rate, output_rate): the rates of all brokers together in each stretch of a window."""
    number = F.ceil((F.col("time_ns") - window.start_ns) / (length_s * SECOND)).alias("number")
    sums = intervals.groupBy(number).agg(
        F.sum("publications_in").alias("taken"), F.sum("publications_out").alias("sent")
    )
    end = F.least(F.col("number") * length_s, F.lit(window.seconds))  # the last may be shorter
    length = end - (F.col("number") - 1) * length_s
    return sums.select(
        end.alias("seconds"),
        (F.col("taken") / length).alias("message_rate"),
        (F.col("sent") / length).alias("output_rate"),
    )


def spreads(loads: DataFrame) -> DataFrame:
    """One row: mean, deviation (of the population) and maximum of each column of SPREAD, over brokers in use."""
    in_use = loads.where("allocated")
    listed = in_use.select(
        F.count("*").alias("brokers"),
        *(F.sort_array(F.collect_list(F.col(n).cast("double"))).alias(n) for n in SPREAD_COLUMNS),
    )
    return listed.select(*(column for name in SPREAD_COLUMNS for column in _spread(name)))


def _spread(name: str) -> list[Column]:
    known = (F.size(name) > 0) & (F.size(name) == F.col("brokers"))

    def mean(values: Column) -> Column:
        return F.aggregate(values, F.lit(0.0), lambda sum, value: sum + value) / F.size(name)

    middle = mean(F.col(name))
    squares = F.transform(name, lambda value: (value - middle) * (value - middle))
    statistics = {"mean": middle, "deviation": F.sqrt(mean(squares)), "maximum": F.array_max(name)}
    return [F.when(known, value).alias(f"{name}_{what}") for what, value in statistics.items()]


def count_messages(intervals: DataFrame) -> DataFrame:
    """(message, count): how many messages of each class brokers received."""
    each = intervals.select(F.explode("messages_in").alias("message", "count"))
    found = each.groupBy("message").agg(F.sum("count").alias("count"))
    return found.orderBy(F.desc("count"), "message").select("message", "count")


def overhead_share(counts: Mapping[str, int]) -> float:
    """The share of messages that are not publications.

    >>> overhead_share({"Publication": 90, "Trm": 10})
    0.1
    """
    total = sum(counts.values())
    return (total - counts.get(PUBLICATION, 0)) / total if total else 0.0


def spans(intervals: DataFrame) -> DataFrame:
    """(broker, first_ns, last_ns): the time that each broker's intervals cover."""
    began = F.min(F.col("time_ns") - F.col("window_ns")).alias("first_ns")
    of_each = intervals.groupBy("broker").agg(began, F.max("time_ns").alias("last_ns"))
    return of_each.select("broker", "first_ns", "last_ns")


# -- deliveries -------------------------------------------------------------------------------------------


def rows_during(rows: DataFrame, window: Window) -> DataFrame:
    """The rows of a window."""
    return rows.where(F.col("time_ns").between(window.start_ns, window.end_ns - 1))


def journeys(deliveries: DataFrame) -> DataFrame:
    """(hops, delay_ns): for every delivery, the links between brokers and the time, up to the client's queue."""
    return deliveries.select("hops", (F.col("time_ns") - F.col("published_ns")).alias("delay_ns"))


def percentiles(journeys: DataFrame, percents: Sequence[float] = PERCENTS) -> dict[float, int]:
    """For each percentage, the smallest delay that at least this share does not exceed; empty without delays.

    Delays are counted in wide buckets, then in narrower ones within the buckets that matter, until they are exact. So
    little memory is needed, however many delays there are.
    """
    found: dict[float, tuple[int, int]] = {}  # percent → bucket, and the rank of the delay in it
    for step in _STEPS:
        bucket, wide = (F.shiftright("delay_ns", by) for by in (step, step + _STEP))
        wanted = sorted({b for b, _ in found.values()})
        rows = journeys.where(wide.isin(wanted)) if found else journeys
        counted = rows.groupBy(bucket.alias("bucket")).count().collect()
        counts = sorted((int(row[0]), int(row[1])) for row in counted)
        if not counts:
            return {}
        total = sum(count for _, count in counts)
        for percent in percents:
            # Rounded before it is rounded up: 99.9% of 1,000 must not become the 1,000th by the last digit.
            rank = math.ceil(round(percent * total / 100, 9))
            inside = counts
            if percent in found:
                above, rank = found[percent]
                inside = [(b, count) for b, count in counts if b >> _STEP == above]
            for place, count in inside:
                if rank <= count:
                    found[percent] = (place, rank)
                    break
                rank -= count
    return {percent: bucket for percent, (bucket, _) in found.items()}


def hop_counts(journeys: DataFrame) -> DataFrame:
    """(hops, deliveries): the number of deliveries that passed so many links between brokers."""
    found = journeys.groupBy("hops").agg(F.count("*").alias("deliveries"))
    return found.orderBy("hops").select("hops", "deliveries")


def wanted_publications(deliveries: DataFrame, spans: DataFrame) -> DataFrame:
    """(broker, advertisement, counter): the publications that a broker delivered during the time of its intervals."""
    covered = F.broadcast(spans)
    inside = (F.col("first_ns") <= F.col("time_ns")) & (F.col("time_ns") < F.col("last_ns"))
    found = deliveries.join(covered, "broker").where(inside)
    return found.select("broker", "advertisement", "counter").distinct()


# -- all of it --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WindowMetrics:
    """The metrics of a window of a trace. `summary` has single numbers; None: not measured."""

    window: Window
    summary: dict[str, float | None]
    hops: dict[int, int]
    delays_ns: dict[float, int]
    messages: dict[str, int]
    brokers: dict[str, dict[str, Any]]  # those in use, with their row of `broker_loads`
    links: list[tuple[str, str]]  # between them, at the end
    over_time: list[tuple[float, ...]]  # seconds, messages in and out per second


def whole_window(intervals: DataFrame, where: str) -> Window:
    """The time that the intervals of a trace cover."""
    began = F.min(F.col("time_ns") - F.col("window_ns"))
    row = intervals.select(began, F.max("time_ns")).first()
    if row is None or row[0] is None:
        raise InputError(f"{where}: there are no intervals in it: trace for longer")
    return Window(int(row[0]), int(row[1]))


def measure_window(
    job: Job, name: str, start_ns: int | None = None, end_ns: int | None = None
) -> WindowMetrics:
    """Measure a window of the job's trace, or all of it; tables of brokers and intervals are written under a name."""
    tables = _open_once(job)
    if start_ns is None or end_ns is None:
        all_of_it = whole_window(tables.frame(job.spark, "intervals"), str(job.traces))
        start_ns = all_of_it.start_ns if start_ns is None else start_ns
        end_ns = all_of_it.end_ns if end_ns is None else end_ns
    window = Window(start_ns, end_ns)
    job.tell(f"measuring {name}: {window.seconds:,.1f} s of {job.traces}")
    rows = intervals_within(tables.frame_around(job.spark, "intervals", window), window)
    intervals = _drop_doubles(job, "intervals", rows, "broker", counter="time_ns").cache()
    try:
        if intervals.isEmpty():
            raise InputError(
                f"{job.traces}: no interval lies within {window.start_ns / SECOND:.3f} s to "
                f"{window.end_ns / SECOND:.3f} s: choose a longer window, or trace with shorter intervals"
            )
        job.write(broker_loads(intervals), f"report/{name}/brokers")
        job.write(intervals_over_time(intervals, window), f"report/{name}/intervals")
        return _compute_metrics(job, name, window, intervals, tables)
    finally:
        intervals.unpersist()


def _drop_doubles(
    job: Job, table: str, rows: DataFrame, *keys: str, counter: str = "counter"
) -> DataFrame:
    """The rows of a table without duplicates."""
    named = count_by_word(rows, *keys, counter=counter)
    _, again = _count_doubles(job, table, named)
    return drop_doubles(rows, named, *keys, counter=counter) if again else rows


def _count_doubles(job: Job, table: str, words: DataFrame) -> tuple[int, int]:
    """How many distinct rows a table has, and how many duplicates; the duplicates are counted among the decisions."""
    found = count_doubles(words)
    job.decisions.count(f"{table} are there twice, and count once", found[1])
    return found


def _open_once(job: Job) -> TraceTables:
    """The trace; its files are inspected once for all windows."""
    if job.tables is not None:
        return job.tables
    job.tell("looking at the files")
    tables = job.open()
    for decision, times in tables.decisions.counts.items():
        job.decisions.count(decision, times)
    return tables


def _compute_metrics(
    job: Job, name: str, window: Window, intervals: DataFrame, tables: TraceTables
) -> WindowMetrics:
    brokers = job.frame(f"report/{name}/brokers")
    rows = sorted(brokers.where("allocated").collect(), key=lambda row: str(row["broker"]))
    used = {row["broker"]: row.asDict() for row in rows}
    delivered = rows_during(tables.frame_around(job.spark, "deliveries", window), window)
    each = _drop_doubles(job, "deliveries", delivered, "subscription", "advertisement")
    went = journeys(each).persist()
    messages = {row["message"]: row["count"] for row in count_messages(intervals).collect()}
    hops = {row["hops"]: row["deliveries"] for row in hop_counts(went).collect()}
    sent = rows_during(tables.frame_around(job.spark, "publications", window), window)
    published, _ = _count_doubles(job, "publications", count_by_word(sent, "advertisement"))
    summary: dict[str, float | None] = {
        "seconds": window.seconds,
        "brokers": brokers.count(),
        "brokers_in_use": len(used),
        "published": published,
        "published_per_s": published / window.seconds,
        "deliveries": sum(hops.values()),
        "deliveries_per_s": sum(hops.values()) / window.seconds,
        "messages_per_s": math.fsum(row["message_rate"] for row in rows),
    }
    spread = spreads(brokers).first()
    summary |= spread.asDict() if spread else {}
    found = percentiles(went)
    summary |= _delivery_summary(went, hops, found)
    went.unpersist()
    summary |= _forwarding_summary(intervals, delivered)
    summary["overhead_share"] = overhead_share(messages)
    (longest,) = intervals.select(F.max("window_ns")).first() or (0,)
    length_s = max(window.seconds / STRETCHES, longest / SECOND)
    series = rates_over_time(intervals, window, length_s).orderBy("seconds").collect()
    until = tables.frame_around(job.spark, "links", Window(0, window.end_ns)).where(
        F.col("time_ns") <= window.end_ns
    )
    pairs = links_between(links_at_end(until), set(used))
    over_time = [tuple(row) for row in series]
    return WindowMetrics(window, summary, hops, found, messages, used, list(pairs), over_time)


_DELIVERY_KEYS = (
    *("delay_mean_s", "delay_median_s", "delay_99_s", "delay_maximum_s"),
    *("hops_mean", "hops_maximum"),
)


def _delivery_summary(
    journeys: DataFrame, hops: Mapping[int, int], delays_ns: Mapping[float, int]
) -> dict[str, float | None]:
    """The delays and hops of deliveries."""
    count = sum(hops.values())
    if not count:
        return dict.fromkeys(_DELIVERY_KEYS)
    (total,) = journeys.select(F.sum(F.col("delay_ns").cast("decimal(20,0)"))).first() or (0,)
    return {
        "delay_mean_s": int(total) / count / SECOND,
        "delay_median_s": delays_ns[50.0] / SECOND,
        "delay_99_s": delays_ns[99.0] / SECOND,
        "delay_maximum_s": delays_ns[100.0] / SECOND,
        "hops_mean": sum(hop * times for hop, times in hops.items()) / count,
        "hops_maximum": max(hops),
    }


def _forwarding_summary(intervals: DataFrame, delivered: DataFrame) -> dict[str, float | None]:
    """How many publications brokers handled, and how many of these without a delivery of their own."""
    (handled,) = intervals.select(F.sum("publications_in")).first() or (0,)
    wanted = wanted_publications(delivered, spans(intervals)).count()
    return {
        "handled": handled,
        "pure_forwards": handled - wanted,
        "yield": wanted / handled if handled else 0.0,
    }
