"""Summaries of a day of a trace: what each advertisement published and delivered, and the bits of subscriptions.

    streams       per advertisement, whose publications are a stream: how many, first and last counters, where and when
    partials      per subscription and advertisement: the deliveries among the last publications of that day, as words
    subscribers   all subscriptions that received anything, also before those publications

These summaries do not change once a day is over, and can be merged with those of other days (profiles.py). So a day is
read once, however often profiles are made.

Theory: a window of L publications that ends later also begins later. So of the deliveries of a day, only those of the
last L publications of each advertisement can ever be inside a window. A word is 64 publications whose counters agree
above the lowest six bits; `base` is the number of the first word. L publications lie in at most ⌈L/64⌉ + 1 words.

The bits come from one `bit_or(case …)` per word, which Spark compiles into one loop over the rows. That is several
times as fast as building the vectors row by row.
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

from runnel.bits import WORD, words_for

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PLACE_BITS = 6  # a word has 2⁶ places: the lowest six bits of a counter are its place in the word


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
    ("doubles", _LONG, False),  # rows beyond the first of a publication
    ("first_ns", _LONG, True),
    ("last_ns", _LONG, True),
    ("first", _LONG, False),  # counters, as far as published or delivered
    ("last", _LONG, False),
    ("delivered_first", _LONG, True),
    ("delivered_last", _LONG, True),
    ("deliveries", _LONG, False),
    # Deliveries with a time before that of their publication, by differing clocks.
    ("early", _LONG, False),
)
PARTIALS = _fields(
    ("day", _LONG, False),
    ("subscription", _LONG, False),
    ("advertisement", _LONG, False),
    ("base", _LONG, False),  # the first word: its first bit is the counter 64 · base
    # Deliveries in these words; as many as are more than the bits that are set are duplicates.
    ("rows", _LONG, False),
    ("words", ArrayType(_LONG, False), False),
)


def _with_schema(frame: DataFrame, schema: StructType) -> DataFrame:
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
    # Grouped by the texts first, of which there are few: Spark must sort to find their maximum.
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
    return _with_schema(
        both.na.fill(0, zeros)
        .withColumn("day", F.lit(day))
        .withColumn("first", F.least("sent_first", "delivered_first"))
        .withColumn("last", F.greatest("sent_last", "delivered_last")),
        STREAMS,
    )


def partials(day: int, deliveries: DataFrame, of_day: DataFrame, length: int) -> DataFrame:
    """The bits of a day: which of the last `length` publications of each advertisement every subscription got.

    `of_day` is the result of `streams` for the same day, which says where the publications of each end.
    """
    bases = of_day.select(
        "advertisement",
        word_of(F.greatest(F.col("last") - (length - 1), F.lit(0))).alias("base"),
    )
    word = word_of(F.col("counter"))
    marked = (
        deliveries.join(F.broadcast(bases), "advertisement")
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
    none = F.lit(0).cast("long")  # not null: Spark would test every row for it
    bits = [
        F.bit_or(F.when(F.col("word") == number, F.col("bit")).otherwise(none)).alias(name)
        for number, name in enumerate(names)
    ]
    found = marked.groupBy("subscription", "advertisement").agg(*bits, F.count("*").alias("rows"))
    return _with_schema(
        # The base is joined again, which costs less than a further column in every row above.
        found.join(F.broadcast(bases), "advertisement")
        .withColumn("day", F.lit(day))
        .withColumn("words", F.array(*(F.coalesce(F.col(name), none) for name in names))),
        PARTIALS,
    )


def subscribers(deliveries: DataFrame) -> DataFrame:
    """(subscription): all subscriptions that received anything in a day."""
    return deliveries.select("subscription").distinct()


def word_of(counter: Column) -> Column:
    """The number of the word of 64 that has a counter."""
    return F.shiftright(counter, PLACE_BITS)


def bit_of(counter: Column) -> Column:
    """A word in which only the bit of a counter is set."""
    return shift_left(F.lit(1).cast("long"), counter.bitwiseAND(WORD - 1).cast("int"))


def shift_left(word: Column, by: Column) -> Column:
    """A word shifted to the left by a number that is a column, too."""
    return F.call_function("shiftleft", word, by)
