"""How long messages take in brokers and on links, from traces: what GRAPE's reports say besides who got what.

As placement/delays.py reckons it in a running broker, over days instead of seconds:

    in a broker   how busy it was says how long a message waited, for matching and for the output
    on a link     a publication is seen at both ends, where it enters the network or is delivered. The least time
                  between, less what the first broker took to match and send it, is the link's: the rest of a longer
                  one is queues. With samples in both directions it is their mean, in which the difference of two
                  clocks cancels out.

Differs from a running broker, which sees what waits on a link at that moment: over days that is the mean wait, and
counted already. A link that nobody's publications were seen on both sides of takes no time, and is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.pipeline.brokers import SECOND, sendings
from runnel.placement.delays import wait_ns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Taken(NamedTuple):
    """How long a message takes in a broker, in nanoseconds."""

    input_ns: int = 0
    matching_ns: int = 0
    output_ns: int = 0  # waiting and sending
    sending_ns: int = 0  # sending alone


def spent(intervals: DataFrame) -> DataFrame:
    """(broker, window_ns, matched, matching_ns, sent, sending_ns): what each broker did in all, and for how long."""
    matching = F.round(F.col("matching_delay_s") * F.col("publications_in") * SECOND).cast("long")
    inside = intervals.groupBy("broker").agg(
        F.sum("window_ns").alias("window_ns"),
        F.sum("publications_in").alias("matched"),
        F.sum(matching).alias("matching_ns"),
    )
    outside = (
        sendings(intervals)
        .groupBy("broker")
        .agg(F.sum("frames_out").alias("sent"), F.sum("busy_ns").alias("sending_ns"))
    )
    return (
        inside.join(outside, "broker", "left")
        .na.fill(0, ["sent", "sending_ns"])
        .select("broker", "window_ns", "matched", "matching_ns", "sent", "sending_ns")
    )


def taken(spent: DataFrame) -> dict[str, Taken]:
    """How long a message takes in every broker."""
    return {
        row["broker"]: Taken(
            wait_ns(row["matching_ns"], row["matched"], row["window_ns"]),
            row["matching_ns"] // max(1, row["matched"]),
            wait_ns(row["sending_ns"], row["sent"], row["window_ns"])
            + row["sending_ns"] // max(1, row["sent"]),
            row["sending_ns"] // max(1, row["sent"]),
        )
        for row in spent.collect()
    }


def newest(rows: DataFrame, incarnations: DataFrame, count: int) -> DataFrame:
    """Of publications or deliveries, those of the last publications of each advertisement: a sample that is enough."""
    lasts = incarnations.select("advertisement", "last")
    found = rows.join(F.broadcast(lasts), "advertisement").where(
        F.col("counter") > F.col("last") - count
    )
    return found.select(*rows.columns)


def crossings(publications: DataFrame, deliveries: DataFrame, links: DataFrame) -> DataFrame:
    """(from, to, least_ns): how long a publication took from one broker to the next, at best; of links as traced."""
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


def link_times(crossings: DataFrame, brokers: dict[str, Taken]) -> dict[tuple[str, str], int]:
    """How long a link takes, by its two brokers in either order; links without a sample are not there."""
    ways = {
        (row["from"], row["to"]): row["least_ns"] - matching - sending
        for row in crossings.collect()
        for _, matching, _, sending in (brokers.get(row["from"], Taken()),)
    }
    return {
        pair: max(0, (ns + ways.get((there, here), ns)) // 2)
        for (here, there), ns in sorted(ways.items())
        for pair in ((here, there), (there, here))
    }
