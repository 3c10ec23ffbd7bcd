"""A day of a trace, made small: what each advertisement published and delivered, and the bits of that day.

    streams       per advertisement: how much it published, the first and last counters, where and when
    partials      per subscription and advertisement: the deliveries among the last publications of that day, as words
    subscribers   all that got anything, also before those

These are facts that never change once a day is over, and that can be brought together with those of other days
(profiles.py). So a day is read once, however often profiles are made.

Theory: a window of L publications that ends with a later publication begins later. So of what a day delivered, only the
last L publications of each advertisement in that day can ever be inside a window. A word is 64 publications whose
counters agree above the lowest six bits; `base` says which word is the first. L of them lie in at most L/64 + 1 words.

The bits come from one `bit_or(case …)` per word, which Spark compiles into one loop over the rows: several times as
fast as anything that builds the vector row by row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import (
    ArrayType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from runnel.allocation.bits import WORD, words_for

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SIX = 6  # the bits of a place within a word


def _fields(*fields: tuple[str, LongType | StringType | ArrayType, bool]) -> StructType:
    return StructType([StructField(*one) for one in fields])


_LONG, _TEXT = LongType(), StringType()
STREAMS = _fields(
    ("day", _LONG, False),
    ("advertisement", _LONG, False),
    ("publisher", _TEXT, True),  # null if none of its publications was traced
    ("broker", _TEXT, True),  # where its last publication entered
    ("publications", _LONG, False),
    ("bytes", _LONG, False),
    ("doubles", _LONG, False),  # rows that say again what another said
    ("first_ns", _LONG, True),
    ("last_ns", _LONG, True),
    ("first", _LONG, False),  # counters, as far as published or delivered
    ("last", _LONG, False),
    ("delivered_first", _LONG, True),
    ("delivered_last", _LONG, True),
    ("deliveries", _LONG, False),
    ("early", _LONG, False),  # deliveries before they were published, by the clocks of two machines
)
PARTIALS = _fields(
    ("day", _LONG, False),
    ("subscription", _LONG, False),
    ("advertisement", _LONG, False),
    ("base", _LONG, False),  # the first word: its first bit is the counter 64 · base
    ("rows", _LONG, False),  # deliveries in these words; more than there are bits: some came twice
    ("words", ArrayType(_LONG, False), False),
)


def _contract(frame: DataFrame, schema: StructType) -> DataFrame:
    return frame.select(*(F.col(one.name).cast(one.dataType) for one in schema))


def streams(day: int, publications: DataFrame, deliveries: DataFrame) -> DataFrame:
    """What each advertisement published and delivered in a day."""
    once = publications.groupBy("advertisement", "counter").agg(
        F.min("time_ns").alias("time_ns"),
        F.min("size_bytes").alias("size_bytes"),
        F.count("*").alias("rows"),
    )
    sent = once.groupBy("advertisement").agg(
        F.count("*").alias("publications"),
        F.sum("size_bytes").alias("bytes"),
        F.sum(F.col("rows") - 1).alias("doubles"),
        F.min("time_ns").alias("first_ns"),
        F.max("time_ns").alias("last_ns"),
        F.min("counter").alias("sent_first"),
        F.max("counter").alias("sent_last"),
    )
    # By the texts first: their largest cannot be found without sorting, and there are few.
    texts = publications.groupBy("advertisement", "publisher", "broker")
    named = (
        texts.agg(F.max("time_ns").alias("time_ns"))
        .groupBy("advertisement")
        .agg(
            F.max("publisher").alias("publisher"),
            F.max(F.struct("time_ns", "broker")).getField("broker").alias("broker"),
        )
    )
    got = deliveries.groupBy("advertisement").agg(
        F.min("counter").alias("delivered_first"),
        F.max("counter").alias("delivered_last"),
        F.count("*").alias("deliveries"),
        F.count_if(F.col("time_ns") < F.col("published_ns")).alias("early"),
    )
    both = sent.join(named, "advertisement").join(got, "advertisement", "full")
    zeros = ["publications", "bytes", "doubles", "deliveries", "early"]
    return _contract(
        both.na.fill(0, zeros)
        .withColumn("day", F.lit(day))
        .withColumn("first", F.least("sent_first", "delivered_first"))
        .withColumn("last", F.greatest("sent_last", "delivered_last")),
        STREAMS,
    )


def partials(day: int, deliveries: DataFrame, of_day: DataFrame, length: int) -> DataFrame:
    """The bits of a day, given its streams."""
    ends = of_day.select(
        "advertisement",
        word_of(F.greatest(F.col("last") - (length - 1), F.lit(0))).alias("base"),
    )
    word = word_of(F.col("counter"))
    marked = (
        deliveries.join(F.broadcast(ends), "advertisement")
        .where(word >= F.col("base"))
        .select(
            "subscription",
            "advertisement",
            (word - F.col("base")).alias("word"),
            bit_of(F.col("counter")).alias("bit"),
        )
    )
    count = words_for(length) + 1
    names = [f"word{number}" for number in range(count)]
    none = F.lit(0).cast("long")  # where null might be, every row would be asked for it
    bits = [
        F.bit_or(F.when(F.col("word") == number, F.col("bit")).otherwise(none)).alias(name)
        for number, name in enumerate(names)
    ]
    found = marked.groupBy("subscription", "advertisement").agg(*bits, F.count("*").alias("rows"))
    return _contract(
        # The base is joined again rather than carried along, which every row would pay for.
        found.join(F.broadcast(ends), "advertisement")
        .withColumn("day", F.lit(day))
        .withColumn("words", F.array(*(F.coalesce(F.col(name), none) for name in names))),
        PARTIALS,
    )


def subscribers(deliveries: DataFrame) -> DataFrame:
    """(subscription): all that got anything in a day."""
    return deliveries.select("subscription").distinct()


def word_of(counter: Column) -> Column:
    """The word of 64 that a counter is in."""
    return F.shiftright(counter, _SIX)


def bit_of(counter: Column) -> Column:
    """A word with the bit of a counter."""
    return shifted(F.lit(1).cast("long"), counter.bitwiseAND(WORD - 1).cast("int"))


def shifted(word: Column, by: Column) -> Column:
    """A word shifted to the left by a number that is a column too."""
    return F.call_function("shiftleft", word, by)
