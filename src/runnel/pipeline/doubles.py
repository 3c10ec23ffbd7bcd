"""Rows that are there twice, such as those of files that were copied: each counts once.

    words      per key and 64 counters: how many rows there are, and how many are different
    counted    how many different rows there are, and how many that say again what another said
    once       the rows, each once

What names a row is a key and a counter: a publication its advertisement, a delivery its subscription too; an interval
its broker and its time. Whether any is there twice, words tell at the price of the columns that name it: most rows
share their word with others, and are not sent anywhere. Only words in which there are any are brought together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import MapType

from runnel.pipeline.streams import bit_of, word_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FEW = 1_000_000
"""Words, at most, that every machine is sent a list of."""


def words(rows: DataFrame, *keys: str, counter: str = "counter") -> DataFrame:
    """(keys…, word, rows, different, first_ns, last_ns): 64 counters each."""
    found = rows.groupBy(*keys, word_of(F.col(counter)).alias("word")).agg(
        F.count("*").alias("rows"),
        F.bit_count(F.bit_or(bit_of(F.col(counter)))).alias("different"),
        F.min("time_ns").alias("first_ns"),
        F.max("time_ns").alias("last_ns"),
    )
    return found.select(*keys, "word", "rows", "different", "first_ns", "last_ns")


def counted(words: DataFrame) -> tuple[int, int]:
    """How many different rows there are, and how many more that say the same again."""
    rows, different = words.select(F.sum("rows"), F.sum("different")).first() or (0, 0)
    return int(different or 0), int((rows or 0) - (different or 0))


def once(rows: DataFrame, words: DataFrame, *keys: str, counter: str = "counter") -> DataFrame:
    """The rows without those that are there again; of several the first counts."""
    on = [*keys, "word"]
    doubled = words.where("rows > different").select(*on)
    if doubled.count() <= FEW:
        doubled = F.broadcast(doubled)
    placed = rows.withColumn("word", word_of(F.col(counter)))
    more = [name for name in rows.columns if name not in (*keys, counter)]
    order = F.struct(*(_in_order(rows, name) for name in more))
    first = F.min_by(F.struct(*more), order).alias("first")
    again = placed.join(doubled, on, "left_semi").groupBy(*keys, counter).agg(first)
    alone = placed.join(doubled, on, "left_anti").select(*rows.columns)
    return alone.unionByName(again.select(*keys, counter, "first.*"))


def _in_order(rows: DataFrame, name: str) -> Column:
    """A column by which rows can be sorted; maps cannot."""
    is_map = isinstance(rows.schema[name].dataType, MapType)
    return F.sort_array(F.map_entries(name)).alias(name) if is_map else F.col(name)
