"""How long messages take in brokers and on links, from traces: the delays in GRAPE's reports.

The computation is that of modules/placement/delays.py in a running broker, but over days instead of seconds:

    in a broker   the wait for matching and for the output follows from how busy the broker was
    on a link     a publication is traced at a broker where it enters the network or is delivered. For publications
                  that are traced at both ends of a link, the time of the link is the least difference of these times,
                  less the time that the first broker takes to match and send; larger differences come from queues.
                  With samples in both directions it is their mean, in which the difference of the clocks cancels out.

A running broker also adds the bytes that wait on a link at that moment. Over days that is the mean wait in the output,
which is included already. A link without a publication traced at both ends takes no time, and is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.modules.placement.delays import wait_ns
from runnel.pipeline.brokers import busy_intervals
from runnel.quantities import SECOND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class BrokerDelays(NamedTuple):
    """How long a message takes in a broker, in nanoseconds."""

    input_ns: int = 0
    matching_ns: int = 0
    output_ns: int = 0  # waiting and sending
    sending_ns: int = 0  # sending alone


def sum_broker_times(intervals: DataFrame) -> DataFrame:
    """(broker, window_ns, matched, matching_ns, sent, sending_ns): messages matched and sent, and the time for both."""
    matching = F.round(F.col("matching_delay_s") * F.col("publications_in") * SECOND).cast("long")
    inside = intervals.groupBy("broker").agg(
        F.sum("window_ns").alias("window_ns"),
        F.sum("publications_in").alias("matched"),
        F.sum(matching).alias("matching_ns"),
    )
    outside = (
        busy_intervals(intervals)
        .groupBy("broker")
        .agg(F.sum("frames_out").alias("sent"), F.sum("busy_ns").alias("sending_ns"))
    )
    return (
        inside.join(outside, "broker", "left")
        .na.fill(0, ["sent", "sending_ns"])
        .select("broker", "window_ns", "matched", "matching_ns", "sent", "sending_ns")
    )


def delays_of_brokers(spent: DataFrame) -> dict[str, BrokerDelays]:
    """How long a message takes in every broker."""
    return {
        row["broker"]: BrokerDelays(
            wait_ns(row["matching_ns"], row["matched"], row["window_ns"]),
            row["matching_ns"] // max(1, row["matched"]),
            wait_ns(row["sending_ns"], row["sent"], row["window_ns"])
            + row["sending_ns"] // max(1, row["sent"]),
            row["sending_ns"] // max(1, row["sent"]),
        )
        for row in spent.collect()
    }


def newest_publications(rows: DataFrame, incarnations: DataFrame, count: int) -> DataFrame:
    """The publications or deliveries of the last `count` publications of each advertisement, as a sample."""
    lasts = incarnations.select("advertisement", "last")
    found = rows.join(F.broadcast(lasts), "advertisement").where(
        F.col("counter") > F.col("last") - count
    )
    return found.select(*rows.columns)


def link_crossings(publications: DataFrame, deliveries: DataFrame, links: DataFrame) -> DataFrame:
    """(from, to, least_ns): the least time of a publication from one end of a traced link to the other."""
    id = ("advertisement", "counter")
    entered = publications.select(*id, "broker", "time_ns", F.lit(0).cast("long").alias("hops"))
    left = deliveries.select(*id, "broker", "time_ns", "hops")
    seen = (
        entered.unionByName(left).groupBy(*id, "hops", "broker").agg(F.min("time_ns").alias("at"))
    )
    ways = links.select(F.col("one").alias("from"), F.col("other").alias("to"))
    ways = ways.union(ways.select("to", "from"))
    before = seen.select(*id, F.col("broker").alias("from"), F.col("at").alias("began"), "hops")
    before = before.join(F.broadcast(ways), "from").withColumn("hops", F.col("hops") + 1)
    after = seen.select(*id, F.col("broker").alias("to"), "at", "hops")
    both = before.join(after, [*id, "hops", "to"])
    least = F.min(F.col("at") - F.col("began"))
    return both.groupBy("from", "to").agg(least.alias("least_ns")).select("from", "to", "least_ns")


def link_times(
    crossings: DataFrame, brokers: dict[str, BrokerDelays]
) -> dict[tuple[str, str], int]:
    """How long a link takes, by its two brokers in either order; links without a sample are missing."""
    ways = {
        (row["from"], row["to"]): row["least_ns"] - matching - sending
        for row in crossings.collect()
        for _, matching, _, sending in (brokers.get(row["from"], BrokerDelays()),)
    }
    return {
        pair: max(0, (ns + ways.get((there, here), ns)) // 2)
        for (here, there), ns in sorted(ways.items())
        for pair in ((here, there), (there, here))
    }
