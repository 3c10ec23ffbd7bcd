"""Duplicate rows, such as those of files that were copied, count once.

    count_by_word   per key and 64 consecutive counters (a word): how many rows there are, and how many distinct ones
    count_doubles   from that, how many distinct rows and how many duplicates there are
    drop_doubles    the rows without the duplicates

A row is identified by keys and a counter: a publication by its advertisement, a delivery by its subscription as well;
an interval by its broker and its time. Counting by word reads only these columns and exchanges little data between
machines. Only the rows of words with duplicates are grouped to drop the duplicates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import MapType

from runnel.pipeline.daily_bits import bit_of, word_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FEW = 1_000_000
"""Lists of at most so many words are broadcast to every machine."""


def count_by_word(rows: DataFrame, *keys: str, counter: str = "counter") -> DataFrame:
    """(keys…, word, rows, different, first_ns, last_ns): one row for each word of 64 counters."""
    found = rows.groupBy(*keys, word_of(F.col(counter)).alias("word")).agg(
        F.count("*").alias("rows"),
        F.bit_count(F.bit_or(bit_of(F.col(counter)))).alias("different"),
        F.min("time_ns").alias("first_ns"),
        F.max("time_ns").alias("last_ns"),
    )
    return found.select(*keys, "word", "rows", "different", "first_ns", "last_ns")


def count_doubles(words: DataFrame) -> tuple[int, int]:
    """How many distinct rows there are, and how many duplicates."""
    rows, different = words.select(F.sum("rows"), F.sum("different")).first() or (0, 0)
    return int(different or 0), int((rows or 0) - (different or 0))


def drop_doubles(
    rows: DataFrame, words: DataFrame, *keys: str, counter: str = "counter"
) -> DataFrame:
    """The rows without duplicates; of several the first in the order of their columns is kept."""
    on = [*keys, "word"]
    doubled = words.where("rows > different").select(*on)
    if doubled.count() <= FEW:
        doubled = F.broadcast(doubled)
    placed = rows.withColumn("word", word_of(F.col(counter)))
    more = [name for name in rows.columns if name not in (*keys, counter)]
    order = F.struct(*(_sortable(rows, name) for name in more))
    first = F.min_by(F.struct(*more), order).alias("first")
    again = placed.join(doubled, on, "left_semi").groupBy(*keys, counter).agg(first)
    alone = placed.join(doubled, on, "left_anti").select(*rows.columns)
    return alone.unionByName(again.select(*keys, counter, "first.*"))


def _sortable(rows: DataFrame, name: str) -> Column:
    """The column in a form that can be sorted; maps cannot."""
    is_map = isinstance(rows.schema[name].dataType, MapType)
    return F.sort_array(F.map_entries(name)).alias(name) if is_map else F.col(name)
