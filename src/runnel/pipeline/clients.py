"""The state at the end of a trace: the brokers of subscriptions and advertisements, and the links between brokers.

A client that moves subscribes at its new broker before or after the old broker withdraws the subscription. So the last
event at each broker counts: a subscription is present if the last event of any broker is "made", and its home is the
broker with the latest such event. A broker that restarts loses its tables, so events before its last start do not
count. For a link the last event of either end counts.

Publishers are called CLIENT/PUBLISHER. An advertisement may be made by a separate connection, at another broker than
the client's (named CLIENT/PUBLISHER or CLIENT/PUBLISHER#2); it belongs to the client, if there is one with that name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def state_at_end(rows: DataFrame, id: str, *more: str) -> DataFrame:
    """(id, client, broker, present, since_ns, …): the last state of everything that a table has events for."""
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


def withdraw_before_restart(rows: DataFrame, brokers: DataFrame) -> DataFrame:
    """The same rows, but events of a broker from before its last start are changed to "withdrawn" or "lost"."""
    started = brokers.where(F.col("event") == "started").groupBy("broker")
    since = started.agg(F.max("time_ns").alias("started_ns"))
    void = F.when(F.col("event") == "made", "withdrawn").when(F.col("event") != "withdrawn", "lost")
    is_old = F.col("time_ns") < F.col("started_ns")
    event = F.when(is_old, F.coalesce(void, "event")).otherwise(F.col("event"))
    joined = rows.join(F.broadcast(since), "broker", "left").withColumn("event", event)
    return joined.select(*rows.columns)


def resolve_owners(advertisements: DataFrame, clients: DataFrame) -> DataFrame:
    """The state of advertisements with the clients that own them; `clients` has the names of all clients."""
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


def links_at_end(rows: DataFrame) -> DataFrame:
    """(one, other): the pairs of brokers with a link at the end, each pair once."""
    between = rows.where(F.col("kind") == "broker").select(
        F.least("broker", "peer").alias("one"),
        F.greatest("broker", "peer").alias("other"),
        "time_ns",
        (F.col("event") != "lost").alias("up"),
    )
    word = F.max(F.struct("time_ns", "up")).alias("word")
    return between.groupBy("one", "other").agg(word).where("word.up").select("one", "other")
