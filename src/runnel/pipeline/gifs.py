"""Groups of identical profiles (green §IV-C1), as allocation/gifs.py has them; each goes by its least subscription.

The hash of a profile puts rows in order quickly; what makes two of them one group is that their vectors are equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def profiles(vectors: DataFrame) -> DataFrame:
    """(subscription, ones, profile): the vectors of each subscription, by publisher."""
    one = F.struct("publisher", "words")
    return vectors.groupBy("subscription").agg(
        F.sum("ones").cast("int").alias("ones"), F.sort_array(F.collect_list(one)).alias("profile")
    )


def groups(profiles: DataFrame) -> DataFrame:
    """(gif, count, ones, profile, members): the groups. Subscriptions that got nothing are in none."""
    found = (
        profiles.withColumn("hash", F.xxhash64("profile"))
        .groupBy("hash", "profile")
        .agg(
            F.min("subscription").alias("gif"),
            F.count("*").alias("count"),
            F.first("ones").alias("ones"),
            F.sort_array(F.collect_list("subscription")).alias("members"),
        )
    )
    return found.select("gif", "count", "ones", "profile", "members")


def members(groups: DataFrame) -> DataFrame:
    """(subscription, gif): who is in which group."""
    return groups.select(F.explode("members").alias("subscription"), "gif")
