"""Parts of a network, each clustered by itself: what Spark does of planning.

    clients     who is to be placed: the subscriptions of a client move together
    wanted      what clients got of the publishers that are still there, as bit vectors
    homes       the same of all clients of a broker together, for the load that there is now
    groups      clients with identical profiles, and the part that they belong to
    pieces      clusters of every part, in pieces (allocation/sharding.py)

A part is a dominant publisher: the one of which a group gets the most messages. Groups of more than `BROAD` publishers
are a part of their own. A part with more than `BLOCK` groups is cut, by the number of bits: those that got equally much
of one publisher are the likeliest to have got the same. The broad ones are cut by their dominant publishers first: who
has one in common may have others; and into smaller blocks (`BROAD_BLOCK`). Clients that got nothing are in none; they
are pieces too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from runnel.allocation.bits import WORD, packed, words_for
from runnel.allocation.clustering import CramOptions
from runnel.allocation.load import Bin, Item, Scaling, Traffic
from runnel.allocation.profiles import Profile
from runnel.allocation.sharding import in_pieces
from runnel.pipeline.network import bits_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BROAD = 8
BLOCK = 2_000
BROAD_BLOCK = 250
"""Fewer: of profiles with many publishers all are close to each other, and to compare two takes longer."""

QUIET = 1_000
"""Clients that got nothing, to a piece."""

_LONG, _INT = LongType(), IntegerType()
PIECES = StructType(
    [
        StructField("part", _LONG, False),  # the dominant publisher; −1: broad; −2: got nothing
        StructField("block", _LONG, False),
        StructField("cluster", _INT, False),
        StructField("piece", _INT, False),
        StructField("need", _LONG, False),
        StructField("count", _LONG, False),  # subscriptions
        StructField("publishers", ArrayType(_LONG, False), False),
        StructField("words", ArrayType(_LONG, False), False),  # those of all publishers in a row
        StructField("members", ArrayType(_LONG, False), False),  # clients
    ]
)


def clients(subscriptions: DataFrame) -> DataFrame:
    """(id, client, home, count): whoever has a subscription that stands. The id is that of its first one."""
    return (
        subscriptions.where("present")
        .groupBy("client")
        .agg(
            F.min("subscription").alias("id"),
            F.max_by("broker", "subscription").alias("home"),
            F.count("*").alias("count"),
        )
        .select("id", "client", "home", "count")
    )


def wanted(
    vectors: DataFrame, subscriptions: DataFrame, clients: DataFrame, places: DataFrame, length: int
) -> DataFrame:
    """(id, place, ones, words): a row for every client and publisher. `places`: (publisher, place, …)."""
    owner = subscriptions.where("present").join(clients.select("client", "id"), "client")
    rows = vectors.join(F.broadcast(places.select("publisher", "place")), "publisher").join(
        owner.select("subscription", "id"), "subscription"
    )
    return _merged(rows, "id", length)


def homes(
    wanted: DataFrame, clients: DataFrame, places: DataFrame, scaling: Scaling, length: int
) -> tuple[DataFrame, DataFrame]:
    """What the clients of a broker want together: (home, place, ones, words); and (home, need, count)."""
    at = wanted.join(clients.select("id", "home"), "id")
    needs = (
        at.join(F.broadcast(places), "place")
        .groupBy("home")
        .agg(F.sum(need(F.col("ones"), scaling)).alias("need"))
    )
    counts = clients.groupBy("home").agg(F.sum("count").alias("count"))
    sums = counts.join(needs, "home", "left").select(
        "home", F.coalesce("need", F.lit(0)).alias("need"), "count"
    )
    return _merged(at, "home", length), sums


def need(ones: Column, scaling: Scaling) -> Column:
    """As Traffic.need has it, for the columns `span` and `bytes`, which is of a bit."""
    span = F.col("span").cast("double")
    more = F.lit(0.0)
    for below, by in reversed(scaling.steps):
        more = F.when(ones < below * span, F.lit(by)).otherwise(more)
    bits = F.least(span, F.greatest(scaling.minimum * span, ones * (1.0 + more)))
    return F.rint(F.col("bytes") * bits).cast("long")


def _merged(rows: DataFrame, key: str, length: int) -> DataFrame:
    """The OR of all vectors with the same key and publisher."""
    names = [f"word{number}" for number in range(words_for(length))]
    found = rows.groupBy(key, "place").agg(
        *(F.bit_or(F.get("words", F.lit(at))).alias(name) for at, name in enumerate(names))
    )
    ones = sum((F.bit_count(name) for name in names[1:]), F.bit_count(names[0]))
    return found.select(key, "place", ones.alias("ones"), F.array(*names).alias("words"))


def groups(wanted: DataFrame, clients: DataFrame, places: DataFrame) -> DataFrame:
    """(part, block, gif, profile, members): identical profiles as one, by part."""
    worth = F.struct((F.col("ones") * F.col("weight")).alias("worth"), (-F.col("place")))
    profiles = (
        wanted.join(F.broadcast(places), "place")
        .groupBy("id")
        .agg(
            F.sum("ones").alias("ones"),
            F.max_by("place", worth).alias("dominant"),
            F.sort_array(F.collect_list(F.struct("place", "words"))).alias("profile"),
        )
        .join(clients.select("id", "count"), "id")
    )
    found = profiles.groupBy("profile").agg(
        F.min("id").alias("gif"),
        F.first("ones").alias("ones"),
        F.first("dominant").alias("dominant"),
        F.sort_array(F.collect_list(F.struct("id", "count"))).alias("members"),
    )
    is_broad = F.size("profile") > BROAD
    part = F.when(is_broad, F.lit(-1)).otherwise(F.col("dominant")).cast("long")
    by_size = Window.partitionBy("part").orderBy(
        F.when(is_broad, F.col("dominant")), F.desc("ones"), "gif"
    )
    most = F.when(is_broad, BROAD_BLOCK).otherwise(BLOCK)
    block = F.floor((F.row_number().over(by_size) - 1) / most)
    return found.withColumn("part", part).select(
        "part", block.alias("block"), "gif", "profile", "members"
    )


def pieces(groups: DataFrame, one: Bin, traffic: Traffic, options: CramOptions) -> DataFrame:
    """The clusters of every part, one row for each piece."""
    by_part = groups.groupBy("part", "block")
    return by_part.applyInArrow(_clustering(one, traffic, options), PIECES)


def quiet(clients: DataFrame, wanted: DataFrame) -> DataFrame:
    """Pieces of clients that got nothing, by home."""
    silent = clients.join(wanted.select("id").distinct(), "id", "left_anti")
    by_id = Window.partitionBy("home").orderBy("id")
    chunk = F.floor((F.row_number().over(by_id) - 1) / QUIET)
    found = (
        silent.withColumn("chunk", chunk)
        .groupBy("home", "chunk")
        .agg(
            F.min("id").alias("block"),
            F.sum("count").alias("count"),
            F.sort_array(F.collect_list("id")).alias("members"),
        )
    )
    nothing = F.array().cast("array<bigint>")
    return found.select(
        F.lit(-2).cast("long").alias("part"),
        "block",
        F.lit(0).alias("cluster"),
        F.lit(0).alias("piece"),
        F.lit(0).cast("long").alias("need"),
        "count",
        nothing.alias("publishers"),
        nothing.alias("words"),
        "members",
    )


def _clustering(
    one: Bin, traffic: Traffic, options: CramOptions
) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """What is done with a part, on whichever machine it is."""

    def run(key: tuple[pa.Scalar, ...], part: pa.Table) -> pa.Table:
        ordered = part.sort_by("gif")  # rows come in any order
        items = list(_items(ordered, traffic))
        rows = [
            {
                "part": key[0].as_py(),
                "block": key[1].as_py(),
                "cluster": cluster,
                "piece": number,
                "need": piece.need,
                "count": piece.count,
                **_columns(piece.profile, ordered),
                "members": sorted(piece.members),
            }
            for cluster, found in enumerate(in_pieces(items, one, traffic, options))
            for number, piece in enumerate(found)
        ]
        return pa.Table.from_pylist(rows, schema=to_arrow_schema(PIECES))

    return run


def _items(part: pa.Table, traffic: Traffic) -> Iterator[Item]:
    """Every client of a part."""
    entries = part["profile"].combine_chunks()
    places = entries.flatten().field("place").to_pylist()
    vectors = iter(zip(places, bits_of(entries.flatten().field("words"), len(places)), strict=True))
    counts = entries.value_lengths().to_pylist()
    for count, members in zip(counts, part["members"].to_pylist(), strict=True):
        profile: Profile = dict(islice(vectors, count))
        needed = traffic.need(profile)
        for member in members:
            yield Item(profile, needed, (member["id"],), member["count"])


def _columns(profile: Profile, part: pa.Table) -> dict[str, list[int]]:
    width = len(part["profile"][0][0]["words"])
    words = packed(list(profile.values()), width * WORD).view(np.int64)
    return {"publishers": list(profile), "words": words.reshape(-1).tolist()}
