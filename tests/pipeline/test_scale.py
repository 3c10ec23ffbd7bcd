"""Plans that Spark makes in parts, compared with those of one process for the same network."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from runnel.errors import InputError
from runnel.lab.inventory import make_inventory as means_of
from runnel.matching import make_engine
from runnel.pipeline import planning, shards
from runnel.pipeline.inventory import make_inventory
from runnel.pipeline.jobs import Job
from runnel.pipeline.planning import plan_network
from runnel.pipeline.scale import outline_network, plan_parts
from runnel.pipeline.tables import Decisions
from runnel.planning.documents.constraints import Constraints
from runnel.planning.documents.plan import Plan, from_json, to_json
from runnel.planning.foresight import Foresight
from runnel.planning.layout import Layout, overloaded_brokers, predict_loads
from runnel.planning.load import MICRO, Capacity, Delay, scaling_for
from runnel.planning.network import Network
from runnel.planning.planner import PlanOptions, make_plan
from runnel.planning.profiles import BITS, PublisherProfile, profiles_by_matching
from runnel.workload.balance import BalanceParameters, make_balance
from runnel.workload.green import GreenParameters, make_green
from runnel.workload.shape import Workload
from support.sparked import SubscriptionRecord, several_subscriptions_each, write_profiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGE_BYTES = 244
SUBSCRIPTIONS = 8_000
NO_DELAY = Delay()


def network_of(workload: Workload, brokers: int) -> Network:
    """A workload with its profiles, all clients at random brokers."""
    engine = make_engine()
    for number, subscriber in enumerate(workload.subscribers):
        engine.add(number, subscriber.selection)
    events = [list(islice(one.events, BITS)) for one in workload.publishers]
    count = len(workload.subscribers)
    windows = profiles_by_matching(events, lambda event: engine.match(event).ids(), count)
    names = [f"B{number}" for number in range(brokers)]
    means = means_of("green", {}, names)
    lots = Random("homes")
    return Network(
        tuple(Capacity(name, means[name].output_bytes_per_second) for name in names),
        tuple(
            PublisherProfile(one.name, one.rate_per_s, one.rate_per_s * MESSAGE_BYTES, BITS - 1)
            for one in workload.publishers
        ),
        tuple(one.name for one in workload.subscribers),
        windows.profiles,
        windows.spans,
        tuple((names[n], names[(n - 1) // 2]) for n in range(1, brokers)),
        tuple(lots.choice(names) for _ in workload.publishers),
        tuple(lots.choice(names) for _ in workload.subscribers),
    )


def green() -> Network:
    """The workload of green, 8,000 subscriptions on 80 brokers."""
    return network_of(make_green(GreenParameters(), 1, Path()), 80)


def balance() -> Network:
    """That of balance, with templates that name no symbol, 8,000 on the same brokers."""
    parameters = BalanceParameters(publishers=40, subscriptions=SUBSCRIPTIONS)
    return network_of(make_balance(parameters, 1, Path()), 80)


def small(seed: int, clients: int = 60, delay: Delay = NO_DELAY, length: int = BITS) -> Network:
    """A few publishers; subscriptions by thresholds or random, some to several publishers, some without traffic."""
    lots = Random(f"{seed}/small")
    span = 100
    names = [f"B{number}" for number in range(12)]
    profiles = []
    for _ in range(clients):
        several = lots.choice((0, 1, 1, 1, 2, 10))
        chosen = lots.sample(range(10), several)
        profiles.append({p: (1 << lots.randint(1, span)) - 1 for p in sorted(chosen)})
    return Network(
        tuple(Capacity(name, 2_000.0, delay) for name in names),
        tuple(PublisherProfile(f"P{n}", 1.0 + n, 10.0 + 10 * n, span - 1) for n in range(10)),
        tuple(f"c{number:03}" for number in range(clients)),
        tuple(profiles),
        (span,) * 10,
        tuple((names[n], names[(n - 1) // 2]) for n in range(1, len(names))),
        tuple(lots.choice(names) for _ in range(10)),
        tuple(lots.choice(names) for _ in range(clients)),
        scaling_for(length),
    )


def plan_with_spark(
    spark: SparkSession,
    out: Path,
    network: Network,
    options: PlanOptions | None = None,
    constraints: Constraints | None = None,
    length: int = BITS,
    subscriptions: Sequence[SubscriptionRecord] | None = None,
) -> Plan:
    """The plan that Spark makes for a network."""
    write_profiles(network, out, length, subscriptions)
    job = Job(spark, out, out, length)
    there = outline_network(job, network.brokers)
    return plan_parts(job, there, options or PlanOptions(), constraints or Constraints())


def rate_of(plan: Plan) -> float:
    return sum(load.messages_per_s for load in plan.after.values())


def check_plan(network: Network, plan: Plan, constraints: Constraints | None = None) -> None:
    """Check that every client has a broker, that no broker is overloaded, and that the plan's figures are right."""
    assert from_json(to_json(plan)) == plan
    assert set(plan.subscriptions) == set(network.subscriptions)
    assert set(plan.publishers) == {one.name for one in network.publishers}
    items, traffic = network.items(), network.traffic()
    places: dict[str, list[int]] = {name: [] for name in plan.overlay}
    for number, name in enumerate(network.subscriptions):
        places[plan.subscriptions[name]].append(number)
    homes = {n: plan.publishers[one.name] for n, one in enumerate(network.publishers)}
    layout = Layout(plan.overlay, {b: tuple(found) for b, found in places.items()}, homes)
    loads = predict_loads(layout, items, traffic)
    assert not overloaded_brokers(loads, {one.name: one for one in network.bins()})
    for broker, load in loads.items():
        told = plan.after[broker]
        assert told.messages_per_s == pytest.approx(load.input / 1e6, abs=1e-6)
        assert told.output_bytes_per_s == pytest.approx(load.output / 1e6, abs=1e-3)
        assert told.subscriptions == load.subscriptions
    for client, broker in (constraints or Constraints()).pinned.items():
        assert {**plan.subscriptions, **plan.publishers}[client] == broker


@pytest.mark.parametrize("make", [green, balance])
def test_8000_subscriptions_as_one_process_plans_them(
    spark: SparkSession, tmp_path: Path, make: Callable[[], Network]
) -> None:
    network = make()
    found = plan_with_spark(spark, tmp_path, network)
    check_plan(network, found)
    split = make_plan(network, PlanOptions("CRAM-SPLIT"))
    paper = make_plan(network, PlanOptions("CRAM-IOU"))
    assert abs(found.brokers - split.brokers) <= 1
    assert rate_of(found) == pytest.approx(rate_of(split), rel=0.05)
    assert found.brokers <= paper.brokers + 1
    assert rate_of(found) <= 1.05 * rate_of(paper)
    assert found.before == split.before
    assert found.brokers_at_least == split.brokers_at_least


@pytest.mark.parametrize(
    ("seed", "algorithm", "delay", "length"),
    [
        (1, "CRAM-IOU", NO_DELAY, BITS),
        (2, "CRAM-IOS", Delay(1_000_000, 100_000), BITS),
        (3, "CRAM-INTERSECT", NO_DELAY, 128),
    ],
)
def test_small_networks_of_all_kinds(
    spark: SparkSession, tmp_path: Path, seed: int, algorithm: str, delay: Delay, length: int
) -> None:
    """Clients with several subscriptions, some of them withdrawn."""
    network = small(seed, delay=delay, length=length)
    network = replace(network, counts=(2,) * len(network.subscriptions))
    asked, kept = PlanOptions(algorithm), several_subscriptions_each(network)
    found = plan_with_spark(spark, tmp_path, network, asked, length=length, subscriptions=kept)
    check_plan(network, found)
    assert found.algorithm == algorithm
    assert found.before == make_plan(network, asked).before
    silent = 2 * sum(1 for profile in network.profiles if not profile)
    assert found.notes == [f"{silent} subscriptions without traffic need no output"]


def test_parts_are_dominant_publishers_and_one_of_those_with_many(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of the broad ones are in the order of their dominant publishers."""
    monkeypatch.setattr(shards, "BROAD_BLOCK", 3)
    network = small(8)
    write_profiles(network, tmp_path)
    there = outline_network(Job(spark, tmp_path, tmp_path), network.brokers)
    rows = shards.group_clients(there.wanted, there.clients, there.places).collect()
    found = {member["id"]: row["part"] for row in rows for member in row["members"]}
    weights = network.traffic().weights
    expected, broad = {}, []
    for client, profile in enumerate(network.profiles):
        worth = {p: bits.bit_count() * weights[p] for p, bits in profile.items()}
        if profile:
            many, dominant = len(profile) > shards.BROAD, max(worth, key=lambda p: (worth[p], -p))
            expected[client] = -1 if many else dominant
            broad += [(dominant, -sum(map(int.bit_count, profile.values())), client)] * many
    assert found == expected and set(expected.values()) >= {-1, 9}
    blocks = {row["gif"]: row["block"] for row in rows if row["part"] == -1}
    in_order = [client for _, _, client in sorted(broad) if client in blocks]
    assert [blocks[client] for client in in_order] == [n // 3 for n in range(len(blocks))]
    assert len(blocks) > 3 and len({dominant for dominant, _, _ in broad}) > 1


def test_who_is_at_a_broker_that_is_not_planned_with_has_no_home(
    spark: SparkSession, tmp_path: Path
) -> None:
    network = small(9)
    write_profiles(network, tmp_path)
    job = Job(spark, tmp_path, tmp_path)
    there = outline_network(job, network.brokers[:-1])
    gone = network.brokers[-1].name
    for homes, expected in (
        (there.network.subscription_homes, network.subscription_homes),
        (there.network.publisher_homes, network.publisher_homes),
    ):
        assert gone in expected
        assert list(homes) == [None if home == gone else home for home in expected]
    plan = plan_parts(job, there, PlanOptions(), Constraints())
    assert plan.before == {} and set(plan.subscriptions) == set(network.subscriptions)


def test_many_are_planned_in_parts(
    done: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a trace, with the plan's owners, addresses and evidence."""
    inventory = make_inventory({"brokers": {f"B{n}": {} for n in range(7)}}, "brokers.toml")
    one = plan_network(replace(done, decisions=Decisions()), inventory)
    shutil.copytree(done.out, tmp_path / "out")
    told: list[str] = []
    job = replace(done, out=tmp_path / "out", decisions=Decisions(), tell=told.append)
    monkeypatch.setattr(planning, "ONE_PROCESS", 0)
    found = plan_network(job, inventory)
    assert "clustering the clients of every publisher" in told
    assert (found.brokers, found.before) == (one.brokers, one.before)
    assert set(found.subscriptions) == set(one.subscriptions)
    assert (found.owners, found.evidence, found.notes) == (one.owners, one.evidence, one.notes)
    assert rate_of(found) == pytest.approx(rate_of(one), rel=0.05)


def test_constraints_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    network = small(4)
    large = Capacity("B0", 50_000.0)  # which others must not be taken for
    network = replace(network, brokers=(large, *network.brokers[1:]))
    asked = Constraints(
        pinned={"c003": "B7", "c004": "B7", "P2": "B1"}, excluded=("B0",), headroom_percent=30.0
    )
    found = plan_with_spark(spark, tmp_path, network, constraints=asked)
    check_plan(network, found, asked)
    assert "B0" not in found.overlay
    assert all(load.output_ratio < 0.7 for load in found.after.values())
    needs: Counter[tuple[int, int, int]] = Counter()
    for row in spark.read.parquet(str(tmp_path / "pieces")).collect():
        needs[row["part"], row["block"], row["cluster"]] += row["need"]
    room = 0.7 * 2_000 * MICRO
    assert room / 2 < max(needs.values()) <= room, "a cluster fits a broker with its head-room"


def test_head_room_is_learned_from_the_same_bits(spark: SparkSession, tmp_path: Path) -> None:
    """Every need is what one process works out; what got nothing is dealt out; the plan has peaks beside means."""
    network, learned = _varying(small(9)), Constraints(foresight=Foresight())
    found = plan_with_spark(spark, tmp_path, network, constraints=learned)
    check_plan(network, found)
    ahead = replace(network, foresight=learned.foresight)
    pieces = spark.read.parquet(str(tmp_path / "pieces")).collect()
    assert sum(row["need"] for row in pieces) == sum(one.need for one in ahead.items())
    assert sum(row["measured"] for row in pieces) == sum(one.need for one in network.items())
    peaks = [load.peak_output_ratio or 0.0 for load in found.after.values()]
    assert 0 < max(peaks) <= 1
    assert any(
        peak != load.output_ratio for peak, load in zip(peaks, found.after.values(), strict=True)
    )
    assert found.asked is not None and found.asked.deviations == Foresight().deviations
    one = make_plan(network, PlanOptions("CRAM-SPLIT"), learned)
    assert found.brokers == one.brokers


def _varying(network: Network) -> Network:
    """The same network, with the bits of every vector now and then all through its window."""
    spread = {place: place * 37 % 100 for place in range(100)}
    profiles = (
        {p: sum(1 << spread[n] for n in range(100) if bits >> n & 1) for p, bits in profile.items()}
        for profile in network.profiles
    )
    return replace(network, profiles=tuple(profiles))


def test_what_does_not_fit_is_named(spark: SparkSession, tmp_path: Path) -> None:
    network = small(5)
    tiny = replace(network, brokers=tuple(Capacity(one.name, 150.0) for one in network.brokers))
    with pytest.raises(InputError, match=r"do not fit on 12 brokers: .*c0\d\d.* because"):
        plan_with_spark(spark, tmp_path, tiny)


def test_one_process_plans_what_has_no_parts(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="CRAM-XOR is planned in one process"):
        plan_with_spark(spark, tmp_path, small(6), PlanOptions("CRAM-XOR"))


def test_rows_in_another_order_make_the_same_plan(spark: SparkSession, tmp_path: Path) -> None:
    network = small(7)
    one = plan_with_spark(spark, tmp_path / "one", network)
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    try:
        assert plan_with_spark(spark, tmp_path / "other", network) == one
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
