"""Who is where at the end of a trace: subscriptions, advertisements and links, from what was made and withdrawn.

A client that moves subscribes at its new broker before the old one forgets it, or after. So what counts is the last
word of each broker: somebody is present while any broker's last word is "made", and at home where that was said last. A
broker that has started anew has forgotten what it knew: what it said before does not count. Of a link, the last word of
either end counts.

A publisher goes by CLIENT/PUBLISHER. Its advertisement may be held by a connection of its own, at another broker
than its client (CLIENT/PUBLISHER or CLIENT/PUBLISHER#2); then it is that client's, if there is one of the name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def standing(rows: DataFrame, id: str, *more: str) -> DataFrame:
    """(id, client, broker, present, since_ns, …): the state of everything that a table tells as made or withdrawn."""
    word = F.max(F.struct("time_ns", "event", "client", *more)).alias("word")
    last = rows.groupBy(id, "broker").agg(word, F.min("time_ns").alias("since_ns"))
    is_made = F.col("word.event") == "made"
    best = F.max(F.struct(is_made.alias("present"), "word.time_ns", "broker", "word")).alias("best")
    found = last.groupBy(id).agg(best, F.min("since_ns").alias("since_ns"))
    return found.select(
        id,
        F.col("best.word.client").alias("client"),
        F.col("best.broker").alias("broker"),
        F.col("best.present").alias("present"),
        "since_ns",
        *(F.col(f"best.word.{name}").alias(name) for name in more),
    )


def remembered(rows: DataFrame, brokers: DataFrame) -> DataFrame:
    """The same rows; what a broker said before it started last is withdrawn, or lost."""
    started = brokers.where(F.col("event") == "started").groupBy("broker")
    since = started.agg(F.max("time_ns").alias("started_ns"))
    void = F.when(F.col("event") == "made", "withdrawn").when(F.col("event") != "withdrawn", "lost")
    is_old = F.col("time_ns") < F.col("started_ns")
    event = F.when(is_old, F.coalesce(void, "event")).otherwise(F.col("event"))
    joined = rows.join(F.broadcast(since), "broker", "left").withColumn("event", event)
    return joined.select(*rows.columns)


def owned(advertisements: DataFrame, clients: DataFrame) -> DataFrame:
    """The state of advertisements, with the clients that they are of; `clients` has all names of clients."""
    base = F.regexp_replace("client", r"#\d+$", "")
    tail = F.concat(F.lit("/"), F.col("publisher"))
    guest = F.when(
        F.endswith(base, tail) & (F.length(base) > F.length(tail)),
        F.substring(base, F.lit(1), F.length(base) - F.length(tail)),
    )
    names = clients.select(F.col("client").alias("host")).distinct()
    return (
        advertisements.withColumn("host", guest)
        .join(names.withColumn("known", F.lit(True)), "host", "left")
        .select(
            "advertisement",
            F.when(F.col("known"), F.col("host")).otherwise(F.col("client")).alias("client"),
            "publisher",
            "broker",
            "present",
            "since_ns",
        )
    )


def links(rows: DataFrame) -> DataFrame:
    """(one, other): brokers that are joined at the end, each pair once."""
    between = rows.where(F.col("kind") == "broker").select(
        F.least("broker", "peer").alias("one"),
        F.greatest("broker", "peer").alias("other"),
        "time_ns",
        (F.col("event") != "lost").alias("up"),
    )
    word = F.max(F.struct("time_ns", "up")).alias("word")
    return between.groupBy("one", "other").agg(word).where("word.up").select("one", "other")
