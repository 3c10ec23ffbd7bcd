"""Profiles from Spark are equal to those of planning/profiles.py: for a simulated network, and for random days."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.lab.run import ScenarioRun
from runnel.pipeline.clients import (
    links_at_end,
    resolve_owners,
    state_at_end,
    withdraw_before_restart,
)
from runnel.pipeline.daily_bits import partials, streams
from runnel.pipeline.jobs import Job
from runnel.pipeline.profiles import incarnations, publishers, vectors
from runnel.pipeline.tables import DAY_NS, spark_schema
from runnel.planning.load import Delay
from runnel.planning.profiles import (
    Profile,
    PublisherProfile,
    SubscriptionProfile,
    synchronise,
    union,
)
from runnel.quantities import SECOND
from runnel.trace.reader import open_trace
from support.handmade import HandMade
from support.sparked import LENGTH, SCENARIO, TraceOracle, profiles_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL = 70  # not a whole number of words


def test_vectors_are_those_of_the_planner(done: Job, run: ScenarioRun) -> None:
    known = TraceOracle(open_trace(run.trace))
    expected = {id: profile for id, profile in known.by_subscription().items() if profile}
    assert len(expected) > 20 and max(known.windows.spans) == LENGTH
    assert profiles_of(done.frame("vectors")) == expected


def test_the_network_is_what_the_planner_would_be_told(done: Job, run: ScenarioRun) -> None:
    known, network = TraceOracle(open_trace(run.trace)), done.make_network()
    assert network.publishers == tuple(known.publishers)
    assert network.spans == known.windows.spans
    by_client: dict[str, list[Profile]] = {}
    for id, profile in known.by_subscription().items():
        by_client.setdefault(known.owners[id], []).append(profile)
    assert network.subscriptions == tuple(sorted(by_client))
    assert network.profiles == tuple(union(by_client[name]) for name in sorted(by_client))
    assert network.counts == tuple(len(by_client[name]) for name in sorted(by_client))
    assert network.subscription_homes == tuple(known.homes[name] for name in sorted(by_client))
    assert len(network.links) == 6 and network.layout() is not None


def test_brokers_are_measured_as_they_are(done: Job) -> None:
    """The simulator's settings: delays are exact up to rounding, the output as precise as intervals allow."""
    means = SCENARIO["resources"]
    assert len(done.make_network().brokers) == 7
    for one in done.make_network().brokers:
        assert one.output == pytest.approx(means["output_bytes_per_s"], rel=0.05)
        assert one.delay.takes_time and isinstance(one.delay, Delay)


# -- days, incarnations, clients ------------------------------------------------------------------------


class RandomDays:
    """Random deliveries of some days, and the expected profiles, computed in the simplest way."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.published: list[dict[str, Any]] = []
        self.delivered: list[dict[str, Any]] = []
        self.made: list[dict[str, Any]] = []
        # (advertisement, counter) → number of its publisher's.
        self.ids: dict[tuple[int, int], int] = {}
        self.lasts = {"c/P": 0, "c/Q": 0}
        advertisement = 100
        for name in sorted(self.lasts):
            time_ns = random.randrange(DAY_NS)
            for _ in range(random.randint(1, 3)):
                advertisement -= 1  # later ones have lower ids: it is time that orders them
                self._incarnation(random, name, advertisement, time_ns)
                time_ns += random.randrange(2 * DAY_NS // 3)
                self._end(advertisement, time_ns)
                time_ns += random.randrange(1, DAY_NS // 3)
            self.made.pop()  # the last one stands

    def _row(self, table: str, **known: Any) -> dict[str, Any]:
        blank: dict[str, Any] = {
            f.name: b"" if "Binary" in str(f) else "" for f in spark_schema(table)
        }
        blank |= {f.name: 0 for f in spark_schema(table) if "Long" in str(f)}
        return blank | known

    def _incarnation(self, random: Random, name: str, id: int, time_ns: int) -> None:
        self._advertise(id, name, "made", time_ns)
        for counter in range(1, random.choice((1, 40, 200))):
            time_ns += random.randrange(1, DAY_NS // 400)
            about = {"time_ns": time_ns, "advertisement": id, "counter": counter}
            entered = self._row("publications", **about, publisher=name[2:], size_bytes=10)
            self.published += [entered] * random.choice((1, 1, 1, 2))
            self.lasts[name] += 1
            self.ids[id, counter] = self.lasts[name]
            for subscription in range(1, 5):
                if random.random() < subscription / 6 and self.lasts[name] > 20:
                    got = self._row("deliveries", **about, subscription=subscription)
                    self.delivered += [got] * random.choice((1, 1, 2))

    def _advertise(self, id: int, name: str, event: str, time_ns: int) -> None:
        about = {"time_ns": time_ns, "advertisement": id, "event": event}
        self.made.append(
            self._row("advertisements", **about, client="c", publisher=name[2:], broker="B")
        )

    def _end(self, id: int, time_ns: int) -> None:
        name = f"c/{self.made[-1]['publisher']}"
        last = max([time_ns, *(r["time_ns"] for r in self.published if r["advertisement"] == id)])
        self._advertise(id, name, "withdrawn", last + 1)

    def expected(self) -> tuple[tuple[int, ...], dict[int, Profile]]:
        found = {number: SubscriptionProfile(str(number)) for number in range(1, 5)}
        names = {row["advertisement"]: f"c/{row['publisher']}" for row in self.made}
        rows = sorted(
            self.delivered, key=lambda row: self.ids[row["advertisement"], row["counter"]]
        )
        for row in rows:
            id = self.ids[row["advertisement"], row["counter"]]
            found[row["subscription"]].record(names[row["advertisement"]], id, SMALL)
        told = [PublisherProfile(name, 1, 1, last) for name, last in sorted(self.lasts.items())]
        windows = synchronise(told, list(found.values()), SMALL)
        profiles = {n: p for n, p in zip(found, windows.profiles, strict=True) if p}
        return windows.spans, profiles


@pytest.mark.parametrize("seed", range(3))
def test_days_and_incarnations_add_up(spark: SparkSession, seed: int) -> None:
    drawn = RandomDays(seed)

    def frame(table: str, rows: list[dict[str, Any]]) -> DataFrame:
        return spark.createDataFrame(rows, spark_schema(table))

    published, delivered = (
        frame("publications", drawn.published),
        frame("deliveries", drawn.delivered),
    )
    days = sorted({row["time_ns"] // DAY_NS for row in drawn.published})
    all_streams, all_partials = None, None
    for day in days:
        of_day = F.floor(F.col("time_ns") / DAY_NS) == day
        stream = streams(day, published.where(of_day), delivered.where(of_day)).localCheckpoint()
        partial = partials(day, delivered.where(of_day), stream, SMALL)
        all_streams = stream if all_streams is None else all_streams.union(stream)
        all_partials = partial if all_partials is None else all_partials.union(partial)
    assert all_streams is not None and all_partials is not None
    adverts = frame("advertisements", drawn.made)
    stand = resolve_owners(
        state_at_end(adverts, "advertisement", "publisher"), adverts.select("client")
    )
    known = incarnations(all_streams, stand, days[-1] - 1).localCheckpoint()
    told = publishers(known, SMALL, 0, days[-1] * DAY_NS).localCheckpoint()
    rows = told.orderBy("number").collect()
    spans, profiles = drawn.expected()
    assert [row["name"] for row in rows] == ["c/P", "c/Q"] and all(row["present"] for row in rows)
    assert [row["last"] for row in rows] == [drawn.lasts[row["name"]] for row in rows]
    assert tuple(row["span"] for row in rows) == spans
    assert profiles_of(vectors(all_partials, known, told, SMALL)) == profiles


def test_rates_are_of_the_last_two_days(spark: SparkSession) -> None:
    rows = [
        {"day": day, "advertisement": 1, "publications": count, "bytes": 10 * count}
        for day, count in ((3, 1_000_000), (8, 7_200), (9, 3_600))
    ]
    fixed = "delivered_first bigint, first bigint, last bigint, last_ns bigint, first_ns bigint"
    schema = (
        "day bigint, advertisement bigint, publications bigint, bytes bigint, "
        f"publisher string, broker string, {fixed}"
    )
    known = [{**row, "publisher": "P", "broker": "B", "first": 1, "last": 9} for row in rows]
    for row in known:
        row |= {"delivered_first": 1, "last_ns": 5, "first_ns": 4}
    stand = spark.createDataFrame(
        [],
        "advertisement bigint, client string, publisher string, broker string, present boolean, since_ns bigint",
    )
    found = incarnations(spark.createDataFrame(known, schema), stand, 8)
    half_a_day = 9 * DAY_NS + DAY_NS // 2
    made = publishers(found, SMALL, 8 * DAY_NS, half_a_day).first()
    assert made is not None and made["rate"] == 10_800 / (1.5 * 86_400) and made["name"] == "P"
    assert made["bandwidth"] == 108_000 / (1.5 * 86_400)


def test_a_client_is_where_it_was_last_said_to_be(spark: SparkSession) -> None:
    def told(time_ns: int, broker: str, event: str, id: int) -> dict[str, Any]:
        return {
            "time_ns": time_ns,
            "broker": broker,
            "event": event,
            "subscription": id,
            "client": "c",
        }

    rows = [
        *(told(1, "A", "made", 1), told(5, "B", "made", 1), told(6, "A", "withdrawn", 1)),
        *(told(1, "A", "made", 2), told(2, "A", "withdrawn", 2)),
        *(told(1, "A", "made", 3), told(4, "A", "withdrawn", 3), told(6, "A", "made", 3)),
    ]
    frame = spark.createDataFrame(
        rows, "time_ns bigint, broker string, event string, subscription bigint, client string"
    )
    found = {row["subscription"]: row for row in state_at_end(frame, "subscription").collect()}
    assert [(found[n]["broker"], found[n]["present"]) for n in (1, 2, 3)] == [
        *(("B", True), ("A", False), ("A", True))
    ]
    assert SECOND > found[1]["since_ns"] == 1


def test_a_broker_that_started_anew_has_forgotten(spark: SparkSession) -> None:
    brokers = spark.createDataFrame(
        [(1, "A", "started"), (5, "A", "started"), (0, "B", "started")],
        "time_ns bigint, broker string, event string",
    )
    rows = [(1, "A", "made", 1), (6, "A", "made", 2), (1, "A", "withdrawn", 3), (1, "B", "made", 4)]
    subscriptions = spark.createDataFrame(
        rows, "time_ns bigint, broker string, event string, subscription bigint"
    ).withColumn("client", F.lit("c"))
    found = state_at_end(withdraw_before_restart(subscriptions, brokers), "subscription").collect()
    assert {row["subscription"]: row["present"] for row in found} == {
        **{1: False, 2: True, 3: False, 4: True}
    }


def test_a_link_is_what_was_said_of_it_last(spark: SparkSession) -> None:
    """Either end may have traced the loss: a broker that was killed has not."""
    rows = [
        *((1, "A", "B", "up"), (1, "B", "A", "up"), (9, "B", "A", "lost")),
        *((1, "A", "C", "up"), (4, "C", "A", "lost"), (5, "A", "C", "up")),
        *((1, "C", "D", "up"), (3, "C", "D", "counted")),
    ]
    frame = spark.createDataFrame(
        rows, "time_ns bigint, broker string, peer string, event string"
    ).withColumn("kind", F.lit("broker"))
    found = links_at_end(frame).orderBy("one", "other").collect()
    assert [tuple(row) for row in found] == [("A", "C"), ("C", "D")]


def test_idle_time_after_the_last_publication_has_no_rate(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = HandMade(tmp_path / "trace")
    for counter in range(1, 6):
        made.publish(counter, counter)
        made.deliver(counter, 1, counter, 0.0)
    for end_s in (3, 6, 9, 99):
        made.interval("B0", end_s, 3)
    made.open()
    job = Job(spark, tmp_path / "trace", tmp_path / "out")
    job.make_profiles()
    (publisher,) = job.frame("publishers").collect()
    assert publisher["rate"] == 5 / (6 - 1), (
        "from its first publication to the end of that interval"
    )


def test_all_that_ever_got_anything_are_known(spark: SparkSession, tmp_path: Path) -> None:
    """Also one that was made before the trace began and received something only before the window."""
    made = HandMade(tmp_path / "trace")
    for counter in range(1, 101):
        made.publish(counter, counter)
        made.deliver(counter, 1, counter, 0.0)
    made.deliver(2, 9, 2, 0.0, "B1")
    made.open()
    job = Job(spark, tmp_path / "trace", tmp_path / "out", 64)
    job.make_profiles()
    rows = {row["subscription"]: row for row in job.frame("subscriptions").collect()}
    assert (rows[9]["client"], rows[9]["broker"], rows[9]["vectors"]) == ("c9", "B1", 0)
    decided = job.decisions.counts
    assert decided["subscriptions got nothing in the windows: their profiles are empty"] == 1


def test_a_publisher_that_lives_elsewhere_is_still_its_clients(spark: SparkSession) -> None:
    names = [("alice/quotes#2", "quotes"), ("bob/quotes", "quotes"), ("alice", "quotes")]
    rows = [
        (number, client, publisher, "B", True, 0)
        for number, (client, publisher) in enumerate(names)
    ]
    stand = spark.createDataFrame(
        rows,
        "advertisement bigint, client string, publisher string, broker string, present boolean, since_ns bigint",
    )
    found = resolve_owners(stand, spark.createDataFrame([("alice",)], "client string"))
    by_id = {row["advertisement"]: row["client"] for row in found.collect()}
    assert by_id == {0: "alice", 1: "bob/quotes", 2: "alice"}
