"""Merges days: the publishers, their windows, and the bit vectors of subscriptions.

The bits are made first, day by day, by `daily_bits.py::partials`; `vectors` shifts and joins them here. A running
broker makes the same vectors for its own clients while publications pass: modules/profiles/.

The results are those that planning/profiles.py defines for the same deliveries; the tests compare with `synchronise`.
The window of a publisher ends with its last publication, is at most as long as the vectors, and begins no earlier than
the first known delivery.

Decision, where the papers are silent: a publisher that restarts has a new advertisement id, whose counter starts again.
The publications of its incarnations are numbered consecutively, each incarnation after the one before. So a window
reaches back over a restart, and for a publisher with one incarnation the number is the counter. Two advertisements of
the same name that are both present at the end are two publishers; the second is called NAME#2.

Rates are means over the last two days, the last whole one and the present one, from the publisher's first appearance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.bits import WORD, words_for
from runnel.pipeline.daily_bits import PLACE_BITS, shift_left
from runnel.pipeline.tables import DAY_NS
from runnel.quantities import SECOND

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RECENT_DAYS = 2


def incarnations(streams: DataFrame, advertised: DataFrame, recent_from: int) -> DataFrame:
    """Every advertisement: its publisher, what it published, and what is added to its counters (`offset`).

    `streams` are those of all days (`daily_bits.py`). `advertised` has what was recorded of advertisements themselves:
    advertisement, client, publisher, broker, present, since_ns; advertisements older than the trace are not in it.
    `recent_from` is the first day that counts for rates.
    """
    both = _sum_days(streams, recent_from).join(advertised, "advertisement", "full")
    publisher_name = F.nullif(F.coalesce("publisher", "stream_publisher"), F.lit(""))
    plain = F.coalesce(
        F.concat("client", F.lit("/"), publisher_name),
        publisher_name,
        F.lower(F.hex(F.col("advertisement"))),
    )
    by_id = Window.partitionBy("plain", "present").orderBy("advertisement")
    again = F.when(F.col("present"), F.row_number().over(by_id)).otherwise(1)
    every = both.select(
        "advertisement",
        plain.alias("plain"),
        "client",
        publisher_name.alias("publisher"),
        F.coalesce("broker", "stream_broker").alias("broker"),
        F.coalesce("present", F.lit(True)).alias("present"),
        F.col("client").isNotNull().alias("advertised"),
        # Nothing published: an empty range of counters.
        F.coalesce("first", F.lit(1)).alias("first"),
        F.coalesce("last", F.lit(0)).alias("last"),
        "delivered_first",
        F.coalesce("publications", F.lit(0)).alias("publications"),
        F.coalesce("bytes", F.lit(0)).alias("bytes"),
        F.least("since_ns", "first_ns").alias("began_ns"),
    )
    named = every.withColumn("again", again).withColumn(
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
    # The first incarnation keeps its counters; each other is shifted to follow the publications of those before it.
    offset = F.first("first").over(in_order) + F.coalesce(count, F.lit(0)) - F.col("first")
    return named.withColumn("offset", offset).drop("plain", "again")


def publishers(numbered: DataFrame, length: int, start_ns: int, end_ns: int) -> DataFrame:
    """Every publisher with its window and rates, numbered by name.

    `numbered` is the result of `incarnations`; rates are those from `start_ns` to `end_ns`.
    """
    newest = F.max(
        F.struct("present", "began_ns", "advertisement", "client", "publisher", "broker")
    )
    delivered = F.min(F.col("delivered_first") + F.col("offset"))
    whole = numbered.groupBy("name").agg(
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


def vectors(partials: DataFrame, numbered: DataFrame, windows: DataFrame, length: int) -> DataFrame:
    """(subscription, publisher, ones, words): the bit vector of every pair with a bit in the window.

    `partials` are the bits of each day (`daily_bits.py`), `numbered` is the result of `incarnations` and `windows` that
    of `publishers`. Days are shifted to the window and joined by OR. The first bit of a vector is the publication with
    which the publisher's window begins.
    """
    # `move` is what is added to a counter to get the place of its bit in the window.
    moves = numbered.join(windows.select("name", "number", "begin"), "name").select(
        "advertisement",
        F.col("number").alias("publisher"),
        (F.col("offset") - F.col("begin")).alias("move"),
    )
    # The place of the first bit of the first word in the window; it may be negative.
    at = F.col("base") * WORD + F.col("move")
    placed = partials.join(F.broadcast(moves), "advertisement").select(
        "subscription",
        "publisher",
        "words",
        # Whole words, and bits within a word.
        F.shiftright(at, PLACE_BITS).cast("int").alias("skip"),
        at.bitwiseAND(WORD - 1).cast("int").alias("shift"),
    )
    count = words_for(length)
    names = [f"word{number}" for number in range(count)]
    found = placed.groupBy("subscription", "publisher").agg(
        *(F.bit_or(_shifted_word(number)).alias(name) for number, name in enumerate(names))
    )
    ones = sum((F.bit_count(name) for name in names[1:]), F.bit_count(names[0]))
    return found.select(
        "subscription", "publisher", ones.alias("ones"), F.array(*names).alias("words")
    ).where(F.col("ones") > 0)


def _shifted_word(number: int) -> Column:
    """The word at a place of the window: the upper part of one word, and the lower part of the next."""
    upper = F.call_function(
        "shiftrightunsigned", _word(F.lit(number - 1) - F.col("skip")), WORD - F.col("shift")
    )
    lower = shift_left(_word(F.lit(number) - F.col("skip")), F.col("shift"))
    # Java shifts by the number modulo 64, so a shift by 64 bits would be none.
    return F.when(F.col("shift") == 0, lower).otherwise(lower.bitwiseOR(upper))


def _word(place: Column) -> Column:
    return F.coalesce(F.get("words", place), F.lit(0).cast("long"))


def _sum_days(streams: DataFrame, recent_from: int) -> DataFrame:
    """The sums of each advertisement over all days; for publications and bytes over the recent days."""
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


def day_start_ns(day: int) -> int:
    """The time at which a day begins."""
    return day * DAY_NS
