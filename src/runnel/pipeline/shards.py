"""Parts of a network, which are clustered separately: the share of Spark in planning.

    list_clients      the clients to be placed; the subscriptions of a client move together
    client_vectors    what clients received from the publishers that are still present, as bit vectors
    merge_by_home     the same for all clients of a broker together, for the present load
    group_clients     clients with identical profiles, and the part that they belong to
    cluster_groups    the clusters of every part, in pieces (planning/algorithms/cram/sharding.py)
    quiet_pieces      pieces of the clients that received nothing

The part of a group is its dominant publisher: the one from which it receives the most messages. Groups with more than
`BROAD` publishers form a part of their own. A part with more than `BLOCK` groups is divided in the order of the number
of bits: groups that received equally many publications of one publisher are the most likely to have received the same.
The broad groups are ordered by their dominant publishers first, since groups with the same one may share others, and
divided into smaller blocks (`BROAD_BLOCK`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
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

from runnel.bits import WORD, pack, words_for
from runnel.pipeline.network import bits_of
from runnel.planning.algorithms.cram.clustering import CramOptions
from runnel.planning.algorithms.cram.sharding import cluster_in_pieces
from runnel.planning.load import Bin, Item, Scaling, Traffic
from runnel.planning.profiles import Profile

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BROAD = 8
BLOCK = 2_000
BROAD_BLOCK = 250
"""Smaller: profiles with many publishers are all close to each other, and comparing two of them takes longer."""

QUIET = 1_000
"""Clients per piece, for clients that received nothing."""

_LONG, _INT = LongType(), IntegerType()
# `part` is the dominant publisher; −1: broad; −2: received nothing.
PIECES = StructType(
    [
        StructField("part", _LONG, False),
        StructField("block", _LONG, False),
        StructField("cluster", _INT, False),
        StructField("piece", _INT, False),
        StructField("need", _LONG, False),
        StructField(
            "measured", _LONG, False
        ),  # the need in the window of the bits, if `need` looks ahead
        StructField("count", _LONG, False),  # subscriptions
        StructField("publishers", ArrayType(_LONG, False), False),
        StructField("words", ArrayType(_LONG, False), False),  # of all publishers after each other
        StructField("members", ArrayType(_LONG, False), False),  # clients
    ]
)


def list_clients(subscriptions: DataFrame) -> DataFrame:
    """(id, client, home, count): the clients with a present subscription. The id is that of their first one."""
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


def client_vectors(
    vectors: DataFrame, subscriptions: DataFrame, clients: DataFrame, places: DataFrame, length: int
) -> DataFrame:
    """(id, place, ones, words): a row for every client and publisher. `places`: (publisher, place, …)."""
    owner = subscriptions.where("present").join(clients.select("client", "id"), "client")
    rows = vectors.join(F.broadcast(places.select("publisher", "place")), "publisher").join(
        owner.select("subscription", "id"), "subscription"
    )
    return _merge_vectors(rows, "id", length)


def merge_by_home(
    wanted: DataFrame, clients: DataFrame, places: DataFrame, scaling: Scaling, length: int
) -> tuple[DataFrame, DataFrame]:
    """The vectors of all clients of a broker together, (home, place, ones, words); and the sums (home, need, count)."""
    at = wanted.join(clients.select("id", "home"), "id")
    needs = (
        at.join(F.broadcast(places), "place")
        .groupBy("home")
        .agg(F.sum(need_column(F.col("ones"), scaling)).alias("need"))
    )
    counts = clients.groupBy("home").agg(F.sum("count").alias("count"))
    sums = counts.join(needs, "home", "left").select(
        "home", F.coalesce("need", F.lit(0)).alias("need"), "count"
    )
    return _merge_vectors(at, "home", length), sums


def need_column(ones: Column, scaling: Scaling) -> Column:
    """Traffic.need as a column, from the columns `span` and `bytes` (bytes per bit)."""
    span = F.col("span").cast("double")
    more = F.lit(0.0)
    for below, by in reversed(scaling.steps):
        more = F.when(ones < below * span, F.lit(by)).otherwise(more)
    bits = F.least(span, F.greatest(scaling.minimum * span, ones * (1.0 + more)))
    return F.rint(F.col("bytes") * bits).cast("long")


def _merge_vectors(rows: DataFrame, key: str, length: int) -> DataFrame:
    """The OR of all vectors with the same key and publisher."""
    names = [f"word{number}" for number in range(words_for(length))]
    found = rows.groupBy(key, "place").agg(
        *(F.bit_or(F.get("words", F.lit(at))).alias(name) for at, name in enumerate(names))
    )
    ones = sum((F.bit_count(name) for name in names[1:]), F.bit_count(names[0]))
    return found.select(key, "place", ones.alias("ones"), F.array(*names).alias("words"))


def group_clients(wanted: DataFrame, clients: DataFrame, places: DataFrame) -> DataFrame:
    """(part, block, gif, profile, members): one row for each distinct profile."""
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


def cluster_groups(
    groups: DataFrame, one: Bin, traffic: Traffic, options: CramOptions
) -> DataFrame:
    """Cluster every block of every part; the result has one row for each piece."""
    by_part = groups.groupBy("part", "block")
    return by_part.applyInArrow(_make_clusterer(one, traffic, options), PIECES)


def quiet_pieces(clients: DataFrame, wanted: DataFrame) -> DataFrame:
    """Pieces of clients that received nothing, by home."""
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
        F.lit(0).cast("long").alias("measured"),
        "count",
        nothing.alias("publishers"),
        nothing.alias("words"),
        "members",
    )


def _make_clusterer(
    one: Bin, traffic: Traffic, options: CramOptions
) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """The function that clusters one block of a part, in a worker of Spark."""

    def run(key: tuple[pa.Scalar, ...], part: pa.Table) -> pa.Table:
        ordered = part.sort_by("gif")  # rows come in any order
        items = list(_read_items(ordered, traffic))
        measured = _measured_needs(items, traffic)
        rows = [
            {
                "part": key[0].as_py(),
                "block": key[1].as_py(),
                "cluster": cluster,
                "piece": number,
                "need": piece.need,
                "measured": sum(measured[member] for member in piece.members),
                "count": piece.count,
                **_profile_columns(piece.profile, ordered),
                "members": sorted(piece.members),
            }
            for cluster, found in enumerate(cluster_in_pieces(items, one, traffic, options))
            for number, piece in enumerate(found)
        ]
        return pa.Table.from_pylist(rows, schema=to_arrow_schema(PIECES))

    return run


def _read_items(part: pa.Table, traffic: Traffic) -> Iterator[Item]:
    """An item for every client of a part."""
    entries = part["profile"].combine_chunks()
    places = entries.flatten().field("place").to_pylist()
    vectors = iter(zip(places, bits_of(entries.flatten().field("words"), len(places)), strict=True))
    counts = entries.value_lengths().to_pylist()
    for count, members in zip(counts, part["members"].to_pylist(), strict=True):
        profile: Profile = dict(islice(vectors, count))
        needed = traffic.need(profile)
        for member in members:
            yield Item(profile, needed, (member["id"],), member["count"])


def _measured_needs(items: list[Item], traffic: Traffic) -> dict[int, int]:
    """What every client needed in the window of its bits."""
    if traffic.foresight is None:
        return {item.members[0]: item.need for item in items}
    as_it_was = replace(traffic, foresight=None)
    return {item.members[0]: as_it_was.need(item.profile) for item in items}


def _profile_columns(profile: Profile, part: pa.Table) -> dict[str, list[int]]:
    width = len(part["profile"][0][0]["words"])
    words = pack(list(profile.values()), width * WORD).view(np.int64)
    return {"publishers": list(profile), "words": words.reshape(-1).tolist()}
