"""Plans made in parts by Spark, held against those of one process on the same network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from runnel.allocation.constraints import Constraints
from runnel.allocation.layout import Layout, overloaded, predicted
from runnel.allocation.load import Capacity, Delay, scaling_for
from runnel.allocation.network import Network
from runnel.allocation.plan import Plan, from_json, to_json
from runnel.allocation.planner import PlanOptions, make_plan
from runnel.allocation.profiles import BITS, PublisherProfile, by_matching
from runnel.errors import InputError
from runnel.lab.inventory import make_inventory
from runnel.matching import make_engine
from runnel.pipeline.jobs import Job
from runnel.pipeline.scale import known, plan_parts
from runnel.workload.balance import BalanceParameters, make_balance
from runnel.workload.green import GreenParameters, make_green
from runnel.workload.shape import Workload
from sparked import keep_profiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGE_BYTES = 244
SUBSCRIPTIONS = 8_000
NO_DELAY = Delay()


def network_of(workload: Workload, brokers: int) -> Network:
    """A workload with its profiles, everybody at a broker by lot."""
    engine = make_engine()
    for number, subscriber in enumerate(workload.subscribers):
        engine.add(number, subscriber.selection)
    events = [list(islice(one.events, BITS)) for one in workload.publishers]
    count = len(workload.subscribers)
    windows = by_matching(events, lambda event: engine.match(event).ids(), count)
    names = [f"B{number}" for number in range(brokers)]
    means = make_inventory("green", {}, names)
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
    """A few publishers, subscriptions by thresholds and by lot, some of several publishers, some of none."""
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


def planned(
    spark: SparkSession,
    out: Path,
    network: Network,
    options: PlanOptions | None = None,
    constraints: Constraints | None = None,
    length: int = BITS,
) -> Plan:
    """What Spark makes of it."""
    keep_profiles(network, out, length)
    job = Job(spark, out, out, length)
    there = known(job, network.brokers)
    return plan_parts(job, there, options or PlanOptions(), constraints or Constraints())


def rate_of(plan: Plan) -> float:
    return sum(load.messages_per_s for load in plan.after.values())


def check(network: Network, plan: Plan, constraints: Constraints | None = None) -> None:
    """It is a plan for that network: everybody is somewhere, and nobody is overloaded; and its figures are true."""
    assert from_json(to_json(plan)) == plan
    assert set(plan.subscriptions) == set(network.subscriptions)
    assert set(plan.publishers) == {one.name for one in network.publishers}
    items, traffic = network.items(), network.traffic()
    places: dict[str, list[int]] = {name: [] for name in plan.overlay}
    for number, name in enumerate(network.subscriptions):
        places[plan.subscriptions[name]].append(number)
    homes = {n: plan.publishers[one.name] for n, one in enumerate(network.publishers)}
    layout = Layout(plan.overlay, {b: tuple(found) for b, found in places.items()}, homes)
    loads = predicted(layout, items, traffic)
    assert not overloaded(loads, {one.name: one for one in network.bins()})
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
    found = planned(spark, tmp_path, network)
    check(network, found)
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
    network = small(seed, delay=delay, length=length)
    found = planned(spark, tmp_path, network, PlanOptions(algorithm), length=length)
    check(network, found)
    assert found.algorithm == algorithm
    assert found.before == make_plan(network, PlanOptions(algorithm)).before


def test_constraints_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    network = small(4)
    asked = Constraints(
        pinned={"c003": "B7", "c004": "B7", "P2": "B1"}, excluded=("B0",), headroom_percent=30.0
    )
    found = planned(spark, tmp_path, network, constraints=asked)
    check(network, found, asked)
    assert "B0" not in found.overlay
    assert all(load.output_ratio < 0.7 for load in found.after.values())


def test_what_does_not_fit_is_named(spark: SparkSession, tmp_path: Path) -> None:
    network = small(5)
    tiny = replace(network, brokers=tuple(Capacity(one.name, 150.0) for one in network.brokers))
    with pytest.raises(InputError, match=r"do not fit on 12 brokers: .*c0\d\d.* because"):
        planned(spark, tmp_path, tiny)


def test_one_process_plans_what_has_no_parts(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="CRAM-XOR is planned in one process"):
        planned(spark, tmp_path, small(6), PlanOptions("CRAM-XOR"))


def test_rows_in_another_order_make_the_same_plan(spark: SparkSession, tmp_path: Path) -> None:
    network = small(7)
    one = planned(spark, tmp_path / "one", network)
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    try:
        assert planned(spark, tmp_path / "other", network) == one
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
