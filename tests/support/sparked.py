"""Shared by tests of the pipeline: a small network to trace, and profiles made from its trace without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from runnel.bits import pack
from runnel.planning.network import Network
from runnel.planning.profiles import (
    BITS,
    Profile,
    PublisherProfile,
    SubscriptionProfile,
    synchronise,
)
from runnel.quantities import SECOND
from runnel.trace.reader import Trace
from runnel.trace.schemas import LinksRow
from support.handmade import HandMade

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


LENGTH = 128
"""Shorter than the default, so that windows shift in a short run."""

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Code that runs once or twice is not worth optimising: with this it takes half the time."""

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


_ODD = int("01" * (BITS // 2), 2)


class HandMadeNetwork(HandMade):
    """A trace made by hand that also has links."""

    def link(self, broker: str, peer: str, at_s: float, event: str = "up") -> None:
        """Record an event of a link between brokers, as one end traces it."""
        self._recorder.add(
            LinksRow(
                time_ns=round(at_s * SECOND),
                broker=broker,
                peer=peer,
                kind="broker",
                event=event,
                publications_in=0,
                publications_out=0,
                dropped=0,
                waiting_bytes=0,
            )
        )


class TraceOracle:
    """The expected profiles of a trace, from its rows, read one after the other, and planning/profiles.py."""

    def __init__(self, trace: Trace, length: int = LENGTH) -> None:
        self.end_ns = max(row["time_ns"] for row in trace.rows("intervals"))
        names: dict[int, str] = {}
        since: dict[int, int] = {}
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
        self.windows = synchronise(self.publishers, list(self.profiles.values()), length)

    def by_subscription(self) -> dict[int, Profile]:
        """The synchronised profiles."""
        return dict(zip(self.profiles, self.windows.profiles, strict=True))


class SubscriptionRecord(NamedTuple):
    """A subscription."""

    client: str
    broker: str | None
    present: bool
    profile: Profile


def one_subscription_each(network: Network) -> list[SubscriptionRecord]:
    """One subscription for each client."""
    told = zip(network.subscriptions, network.subscription_homes, network.profiles, strict=True)
    return [SubscriptionRecord(client, home, True, profile) for client, home, profile in told]


def several_subscriptions_each(network: Network) -> list[SubscriptionRecord]:
    """Two subscriptions for each client (the later one at its home) and a withdrawn one; and a client that has left."""
    found = []
    away = {one.name: other.name for one, other in pairwise((*network.brokers, network.brokers[0]))}
    everything = dict.fromkeys(range(len(network.publishers)), 1)
    for client, home, _, profile in one_subscription_each(network):
        elsewhere = away[str(home)]
        odd = {p: bits & _ODD for p, bits in profile.items() if bits & _ODD}
        even = {p: bits & ~_ODD for p, bits in profile.items() if bits & ~_ODD}
        found += [
            SubscriptionRecord(client, elsewhere, True, odd),
            SubscriptionRecord(client, home, True, even),
        ]
        found += [SubscriptionRecord(client, elsewhere, False, everything)]
    return [*found, SubscriptionRecord("gone", network.brokers[0].name, False, everything)]


def write_profiles(
    network: Network,
    out: Path,
    length: int = BITS,
    subscriptions: Sequence[SubscriptionRecord] | None = None,
) -> None:
    """Write the tables of the job `profiles` for a network with these profiles."""
    kept = one_subscription_each(network) if subscriptions is None else subscriptions
    publishers = sorted(range(len(network.publishers)), key=lambda n: network.publishers[n].name)
    numbers = {publisher: number for number, publisher in enumerate(publishers)}
    profiles = [network.publishers[n] for n in publishers]
    rows = [(n, numbers[p], bits) for n, one in enumerate(kept) for p, bits in one.profile.items()]
    words = pack([bits for _, _, bits in rows], length).view(np.int64)
    ends = np.arange(0, words.size + 1, words.shape[1], dtype=np.int32)
    count = len(publishers)
    tables = {
        "publishers": {
            "number": pa.array(range(count), pa.int32()),
            "name": [one.name for one in profiles],
            "client": [one.name for one in profiles],
            "publisher": [one.name for one in profiles],
            "advertisement": list(range(count)),
            "broker": [network.publisher_homes[n] for n in publishers],
            "present": [True] * count,
            "rate": [one.rate for one in profiles],
            "bandwidth": [one.bandwidth for one in profiles],
            "last": [one.last for one in profiles],
            "span": [network.spans[n] for n in publishers],
        },
        "subscriptions": {
            "subscription": list(range(len(kept))),
            "client": [one.client for one in kept],
            "broker": [one.broker for one in kept],
            "present": [one.present for one in kept],
            "vectors": [len(one.profile) for one in kept],
        },
        "vectors": {
            "subscription": [row[0] for row in rows],
            "publisher": pa.array([row[1] for row in rows], pa.int32()),
            "ones": [row[2].bit_count() for row in rows],
            "words": pa.ListArray.from_arrays(pa.array(ends), words.reshape(-1)),
        },
        "links": {
            "one": [min(link) for link in network.links],
            "other": [max(link) for link in network.links],
        },
    }
    for name, columns in tables.items():
        (out / name).mkdir(parents=True)
        pq.write_table(pa.table(columns), out / name / "rows.parquet")


def profiles_of(vectors: DataFrame) -> dict[int, Profile]:
    """The profiles in rows of the table `vectors`."""
    found: dict[int, Profile] = {}
    for row in vectors.collect():
        bits = sum((word % 2**64) << (64 * place) for place, word in enumerate(row["words"]))
        assert bits.bit_count() == row["ones"] > 0
        found.setdefault(row["subscription"], {})[row["publisher"]] = bits
    return found
