"""Days brought together: who the publishers are, their windows, and the bit vectors of subscriptions.

What comes out is what allocation/profiles.py defines, for the same deliveries: its `synchronised` is the tests' oracle.
The window of a publisher ends with its last publication, is no longer than the vectors, and begins no earlier than the
first delivery that is known.

Decision, where the papers are silent: a publisher that comes back has another advertisement id, whose counter starts
again. Its incarnations follow each other: the publications of each are numbered on from the last of the one before. So
a window reaches back over a restart, and a publisher with one incarnation is numbered by its counter. Two
advertisements that both stand at the end are two publishers; the second is called NAME#2.

Rates are of the last two days: the last whole one and the present one, from when the publisher was first heard of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.allocation.bits import WORD, words_for
from runnel.pipeline.streams import shifted
from runnel.pipeline.tables import DAY_NS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SECOND = 1_000_000_000
RECENT_DAYS = 2


def incarnations(streams: DataFrame, owned: DataFrame, recent_from: int) -> DataFrame:
    """Every advertisement: whose it is, what it published, and by how much its counters are moved (`offset`)."""
    both = _advertisements(streams, recent_from).join(owned, "advertisement", "full")
    told = F.nullif(F.coalesce("publisher", "stream_publisher"), F.lit(""))
    plain = F.coalesce(
        F.concat("client", F.lit("/"), told), told, F.lower(F.hex(F.col("advertisement")))
    )
    standing = F.coalesce("present", F.lit(True))
    by_id = Window.partitionBy("plain", "present").orderBy("advertisement")
    again = F.when(F.col("present"), F.row_number().over(by_id)).otherwise(1)
    known = both.select(
        "advertisement",
        plain.alias("plain"),
        "client",
        told.alias("publisher"),
        F.coalesce("broker", "stream_broker").alias("broker"),
        standing.alias("present"),
        F.col("client").isNotNull().alias("advertised"),
        # Nothing published: an empty range of counters.
        F.coalesce("first", F.lit(1)).alias("first"),
        F.coalesce("last", F.lit(0)).alias("last"),
        "delivered_first",
        F.coalesce("publications", F.lit(0)).alias("publications"),
        F.coalesce("bytes", F.lit(0)).alias("bytes"),
        F.least("since_ns", "first_ns").alias("began_ns"),
    )
    named = known.withColumn("again", again).withColumn(
        "name",
        F.when(F.col("again") == 1, F.col("plain")).otherwise(
            F.concat("plain", F.lit("#"), "again")
        ),
    )
    in_order = Window.partitionBy("name").orderBy(
        F.col("began_ns").asc_nulls_first(), "advertisement"
    )
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    count = F.sum(F.col("last") - F.col("first") + 1).over(earlier)
    offset = F.first("first").over(in_order) + F.coalesce(count, F.lit(0)) - F.col("first")
    return named.withColumn("offset", offset).drop("plain", "again")


def publishers(known: DataFrame, length: int, start_ns: int, end_ns: int) -> DataFrame:
    """Every publisher with its window and rates, numbered by name."""
    newest = F.max(
        F.struct("present", "began_ns", "advertisement", "client", "publisher", "broker")
    )
    delivered = F.min(F.col("delivered_first") + F.col("offset"))
    whole = known.groupBy("name").agg(
        newest.alias("newest"),
        F.count("*").alias("incarnations"),
        F.max(F.col("last") + F.col("offset")).alias("last"),
        delivered.alias("delivered"),
        F.sum("publications").alias("publications"),
        F.sum("bytes").alias("bytes"),
        F.min("began_ns").alias("began_ns"),
    )
    first = F.least(F.coalesce("delivered", "last"), "last")
    begin = F.greatest(F.col("last") - (length - 1), first)
    since = F.greatest(F.coalesce("began_ns", F.lit(start_ns)), F.lit(start_ns))
    seconds = F.greatest(F.lit(end_ns) - since, F.lit(SECOND)) / float(SECOND)
    number = F.row_number().over(Window.orderBy("name")) - 1
    return whole.select(
        number.alias("number"),
        "name",
        "newest.client",
        "newest.publisher",
        "newest.advertisement",
        "newest.broker",
        "newest.present",
        "incarnations",
        (F.col("publications") / seconds).alias("rate"),
        (F.col("bytes") / seconds).alias("bandwidth"),
        "last",
        begin.alias("begin"),
        (F.col("last") - begin + 1).alias("span"),
    )


def vectors(partials: DataFrame, known: DataFrame, publishers: DataFrame, length: int) -> DataFrame:
    """(subscription, publisher, ones, words): the bit vector of every pair with a bit in the window."""
    windows = known.join(publishers.select("name", "number", "begin"), "name").select(
        "advertisement",
        F.col("number").alias("publisher"),
        (F.col("offset") - F.col("begin")).alias("move"),
    )
    # Where the first bit of the first word lies in the window; it may be before it.
    at = F.col("base") * WORD + F.col("move")
    placed = partials.join(F.broadcast(windows), "advertisement").select(
        "subscription",
        "publisher",
        "words",
        F.shiftright(at, 6).cast("int").alias("skip"),
        at.bitwiseAND(WORD - 1).cast("int").alias("shift"),
    )
    count = words_for(length)
    names = [f"word{number}" for number in range(count)]
    found = placed.groupBy("subscription", "publisher").agg(
        *(F.bit_or(_moved(number)).alias(name) for number, name in enumerate(names))
    )
    ones = sum((F.bit_count(name) for name in names[1:]), F.bit_count(names[0]))
    return found.select(
        "subscription", "publisher", ones.alias("ones"), F.array(*names).alias("words")
    ).where(F.col("ones") > 0)


def _moved(number: int) -> Column:
    """The word at a place of the window: the upper part of one, and the lower part of the next."""
    upper = F.call_function(
        "shiftrightunsigned", _word(F.lit(number - 1) - F.col("skip")), WORD - F.col("shift")
    )
    lower = shifted(_word(F.lit(number) - F.col("skip")), F.col("shift"))
    # A shift by all 64 bits is none at all, to Java.
    return F.when(F.col("shift") == 0, lower).otherwise(lower.bitwiseOR(upper))


def _word(place: Column) -> Column:
    return F.coalesce(F.get("words", place), F.lit(0).cast("long"))


def _advertisements(streams: DataFrame, recent_from: int) -> DataFrame:
    """The days of each advertisement as one; what it published counts from a day on."""
    recent = F.col("day") >= recent_from
    newest = F.max(F.struct("last_ns", "broker"))
    return streams.groupBy("advertisement").agg(
        F.max("publisher").alias("stream_publisher"),
        newest.getField("broker").alias("stream_broker"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
        F.min("delivered_first").alias("delivered_first"),
        F.min("first_ns").alias("first_ns"),
        F.sum(F.when(recent, F.col("publications"))).alias("publications"),
        F.sum(F.when(recent, F.col("bytes"))).alias("bytes"),
    )


def start_of(recent_from: int) -> int:
    """When the days begin that rates are of."""
    return recent_from * DAY_NS
