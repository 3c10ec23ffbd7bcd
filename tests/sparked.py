"""What tests of the pipeline share: a small network to trace, and profiles made from its trace without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runnel.allocation.profiles import (
    Profile,
    PublisherProfile,
    SubscriptionProfile,
    synchronised,
)
from runnel.trace.reader import Trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SECOND = 1_000_000_000

LENGTH = 128
"""Shorter than the default, so that windows shift in a short run."""

SCENARIO: dict[str, Any] = {
    "topology": {"shape": "tree", "brokers": 7},
    "resources": {"match_us_base": 20.0, "match_us_each": 2.0, "output_bytes_per_s": 200_000},
    "workload": {
        **{"name": "stocks", "templates": "green", "brokers": 7},
        **{"publishers": 5, "per_publisher": 12, "rate_per_min": 3_000.0},
    },
    "time": {"warm_up_s": 1.0, "measure_s": 4.0},
    "trace": {"interval_s": 1.0},
}


class Known:
    """What a trace says, by reading its rows one after the other and allocation/profiles.py."""

    def __init__(self, trace: Trace, length: int = LENGTH) -> None:
        self.end_ns = max(row["time_ns"] for row in trace.rows("intervals"))
        names, since = {}, {}
        for row in trace.rows("advertisements"):
            names[row["advertisement"]] = f"{row['client']}/{row['publisher']}"
            since.setdefault(row["advertisement"], row["time_ns"])
        self.owners: dict[int, str] = {}
        self.homes: dict[str, str] = {}
        self.profiles: dict[int, SubscriptionProfile] = {}
        for row in sorted(trace.rows("subscriptions"), key=lambda row: row["subscription"]):
            self.profiles[row["subscription"]] = SubscriptionProfile(str(row["subscription"]))
            self.owners[row["subscription"]] = row["client"]
            self.homes[row["client"]] = row["broker"]
        for row in sorted(trace.rows("deliveries"), key=lambda row: row["counter"]):
            profile = self.profiles[row["subscription"]]
            profile.record(names[row["advertisement"]], row["counter"], length)
        published: dict[str, list[Any]] = {name: [] for name in names.values()}
        for row in trace.rows("publications"):
            published[names[row["advertisement"]]].append(row)
        began = {names[id]: at for id, at in since.items()}
        self.publishers = [
            PublisherProfile(
                name,
                len(rows) / ((self.end_ns - began[name]) / SECOND),
                sum(row["size_bytes"] for row in rows) / ((self.end_ns - began[name]) / SECOND),
                max(row["counter"] for row in rows),
            )
            for name, rows in sorted(published.items())
        ]
        self.windows = synchronised(self.publishers, list(self.profiles.values()), length)

    def by_subscription(self) -> dict[int, Profile]:
        """The synchronised profiles."""
        return dict(zip(self.profiles, self.windows.profiles, strict=True))


def profiles_of(vectors: DataFrame) -> dict[int, Profile]:
    """The same from rows of Spark's."""
    found: dict[int, Profile] = {}
    for row in vectors.collect():
        bits = sum((word % 2**64) << (64 * place) for place, word in enumerate(row["words"]))
        assert bits.bit_count() == row["ones"] > 0
        found.setdefault(row["subscription"], {})[row["publisher"]] = bits
    return found
