"""A plan from traces is the planner's plan for the network in the trace's rows, and it can be applied."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from runnel.cli.main import main
from runnel.errors import InputError
from runnel.lab.run import ScenarioRun
from runnel.pipeline.inventory import Inventory, ObservedBroker, make_inventory
from runnel.pipeline.jobs import Job
from runnel.pipeline.planning import _notes, observe_brokers, plan_network
from runnel.planning.documents.constraints import Constraints
from runnel.planning.documents.evidence import evidence_of
from runnel.planning.documents.plan import Plan, from_json, to_json
from runnel.planning.load import Capacity, Delay, scaling_for
from runnel.planning.network import Network
from runnel.planning.planner import make_plan
from runnel.planning.profiles import Profile, union
from runnel.quantities import SECOND
from runnel.trace.reader import Trace, open_trace
from support.handmade import HandMade
from support.sparked import LENGTH, TraceOracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIKE_TRACED = {"output_bytes_per_s": 200_000, "matching_base_us": 20, "matching_each_us": 2}


@pytest.fixture(scope="module")
def trace(run: ScenarioRun) -> Trace:
    return open_trace(run.trace)


@pytest.fixture(scope="module")
def known(trace: Trace) -> TraceOracle:
    return TraceOracle(trace)


@pytest.fixture(scope="module")
def plan(done: Job) -> Plan:
    """Any limit of moves makes one process plan, so that the result is known to the last digit."""
    return plan_network(done, Inventory().override(max_moves=1_000))


def network_of(trace: Trace, known: TraceOracle) -> Network:
    """The network of a trace, from its rows, read one after the other."""
    names = sorted({row["broker"] for row in trace.rows("brokers")})
    links = {
        (min(row["broker"], row["peer"]), max(row["broker"], row["peer"]))
        for row in trace.rows("links")
        if row["kind"] == "broker"
    }
    by_client: dict[str, list[Profile]] = {}
    for id, profile in known.by_subscription().items():
        by_client.setdefault(known.owners[id], []).append(profile)
    at = {
        f"{row['client']}/{row['publisher']}": row["broker"] for row in trace.rows("advertisements")
    }
    clients = sorted(by_client)
    return Network(
        tuple(Capacity(name, 200_000.0, Delay(20_000, 2_000)) for name in names),
        tuple(known.publishers),
        tuple(clients),
        tuple(union(by_client[client]) for client in clients),
        known.windows.spans,
        tuple(sorted(links)),
        tuple(at[one.name] for one in known.publishers),
        tuple(known.homes[client] for client in clients),
        scaling_for(LENGTH),
        tuple(len(by_client[client]) for client in clients),
    )


def test_the_plan_is_the_planners_own(plan: Plan, trace: Trace, known: TraceOracle) -> None:
    local = make_plan(network_of(trace, known), constraints=Constraints(max_moves=1_000))
    assert plan.overlay == local.overlay and len(plan.overlay) < 7
    assert {name: plan.subscriptions[name] for name in local.subscriptions} == local.subscriptions
    assert (plan.publishers, plan.freed, plan.moved) == (local.publishers, local.freed, local.moved)
    assert (plan.after, plan.before) == (local.after, local.before)
    assert plan.brokers_at_least == local.brokers_at_least


def test_everybody_is_in_it_by_the_names_that_apply_knows(plan: Plan, trace: Trace) -> None:
    rows = list(trace.rows("advertisements"))
    clients = {row["client"] for row in [*rows, *trace.rows("subscriptions")]}
    assert set(plan.subscriptions) == clients
    told = {
        f"{row['client']}/{row['publisher']}": (
            row["client"],
            row["publisher"],
            f"{row['advertisement']:x}",
        )
        for row in rows
    }
    owners = {
        key: (one.client, one.publisher, one.advertisement) for key, one in plan.owners.items()
    }
    assert owners == told
    for key, owner in plan.owners.items():
        assert plan.subscriptions[owner.client] == plan.publishers[key], "it goes along"
    assert from_json(to_json(plan)) == plan
    assert "nobody says where brokers listen: this plan cannot be applied" in plan.notes


def test_it_says_what_it_rests_on(plan: Plan, trace: Trace, known: TraceOracle) -> None:
    profiles = known.by_subscription().values()
    wanted = {number for profile in profiles for number in profile}
    pairs = zip(known.windows.spans, known.publishers, strict=True)
    windows = [(span, one.bandwidth) for n, (span, one) in enumerate(pairs) if n in wanted]
    received = [sum(bits.bit_count() for bits in profile.values()) for profile in profiles]
    times = [row["time_ns"] for row in trace.rows("publications")]
    expected = evidence_of("traces", (max(times) - min(times)) / SECOND, windows, received)
    found = plan.evidence
    assert found is not None
    for name in ("seconds", "publishers", "publications", "followed", "subscriptions"):
        assert getattr(found, name) == getattr(expected, name), name
    assert (found.with_few, found.with_none) == (expected.with_few, expected.with_none)
    sizes = Counter(len(row["selection"]) for row in trace.rows("subscriptions"))
    mean = sum(size * count for size, count in sizes.items()) / sizes.total()
    assert found.subscription_bytes == pytest.approx(mean + 40, abs=0.06)


def test_brokers_are_what_they_say_of_themselves(done: Job) -> None:
    found = observe_brokers(Job(done.spark, done.traces, done.out))
    assert len(found) == 7
    for one in found:
        assert one.address is None, "in the simulator there is no such thing"
        assert (one.output_bytes_per_s, one.base_ns, one.each_ns) == (200_000.0, 20_000, 2_000)


def inventory_of(**more: Any) -> Inventory:
    brokers = {f"B{n}": {"address": f"10.0.0.{n}:7001", **LIKE_TRACED} for n in range(7)}
    return make_inventory({"brokers": brokers | more.pop("brokers", {}), **more}, "brokers.toml")


def test_constraints_are_kept_and_addresses_are_there(done: Job, plan: Plan) -> None:
    publisher = next(iter(plan.owners.values())).client
    asked = {"excluded": ["B0"], "head_room_percent": 10, "pinned": {publisher: "B6"}}
    found = plan_network(done, inventory_of(constraints=asked, brokers={"B9": {"address": "h:1"}}))
    assert "B0" in found.freed and found.addresses["B9"] == "h:1"
    assert set(found.addresses) == {*found.overlay, *found.freed}
    [key] = [key for key, owner in found.owners.items() if owner.client == publisher]
    assert found.publishers[key] == found.subscriptions[publisher] == "B6"
    assert all(load.output_ratio <= 0.9 for load in found.after.values())
    assert found.asked is not None and found.asked.headroom_percent == 10


def test_a_broker_that_serves_and_is_not_in_the_file_is_a_mistake(done: Job) -> None:
    some = {f"B{n}": LIKE_TRACED for n in range(6)}
    with pytest.raises(InputError, match=r"brokers\.toml: B6 served when the trace ended"):
        plan_network(done, make_inventory({"brokers": some}, "brokers.toml"))
    given_up = {"brokers": some, "constraints": {"excluded": ["B6"]}}
    found = plan_network(done, make_inventory(given_up, "brokers.toml").override(max_moves=1_000))
    assert "B6" in found.freed and len(found.before) == 7


def test_what_cannot_be_is_said(done: Job) -> None:
    with pytest.raises(InputError, match="no client or publisher nobody in this network"):
        plan_network(done, Inventory().override(pinned={"nobody": "B1"}, max_moves=1_000))
    weak = make_inventory({"defaults": {"output_bytes_per_s": 10}}).override(algorithm="fbf")
    with pytest.raises(InputError, match="more output than the largest broker has"):
        plan_network(done, weak)


def test_a_fleet_without_limits_is_told_whoever_said_so() -> None:
    note = "no broker has a limit for its output"
    said = make_inventory(
        {"defaults": {"output_bytes_per_s": "unlimited"}, "brokers": {"B1..B2": {}}}
    )
    assert note in _notes([], said.make_fleet([ObservedBroker("B1", output_bytes_per_s=5.0)]))[-1]
    assert note in _notes([], Inventory().make_fleet([ObservedBroker("B1")]))[-1]
    one_has = Inventory().make_fleet(
        [ObservedBroker("B1"), ObservedBroker("B2", output_bytes_per_s=5.0)]
    )
    assert not any(note in line for line in _notes([], one_has))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan", "--from-traces", "nowhere"], "this is no trace"),
        (["plan", "127.0.0.1:1", "--from-traces", "x"], "say one of them"),
        (["plan", "--brokers", "x.toml"], "--brokers: goes with --from-traces DIR"),
        (["plan", "--bits", "64", "--to", "3"], "--bits, --to: go with --from-traces DIR"),
        (["plan", "--from-traces", "x", "--timeout", "3"], "--timeout: goes with brokers that are"),
        (["plan", "--from-traces", "nowhere", "--skip-unreadable"], "this is no trace"),
        (["plan", "--from-traces", "x", "--brokers", "y.toml"], "y.toml: cannot be opened"),
        (["plan", "--from-traces", "x", "--pin", "a"], "write CLIENT=BROKER"),
        (["plan", "--from-traces", "x", "--head-room", "z"], "no percentage"),
        (["pipeline", "plan", "--traces", "x", "--out", "y"], "made by `runnel plan --from-traces"),
    ],
)
def test_mistakes_are_told_before_spark_starts(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(main, arguments)
    assert told.exit_code == 2 and said in told.output


def test_who_has_left_is_not_planned_with(spark: SparkSession, tmp_path: Path) -> None:
    """B1 stops while B0 is running; then the last client leaves, and the error suggests an earlier time."""
    made = HandMade(tmp_path / "trace")
    for broker, event, at_s in (("B0", "started", 0), ("B1", "started", 0), ("B1", "stopped", 9)):
        made.event(broker, event, at_s)
    for end_s in (10, 20, 30):
        made.interval("B0", end_s)
    for counter in range(1, 20):
        made.publish(counter, counter)
        made.deliver(counter, 1, counter, 0.0)
    made.subscribe(1, "a > 1", 0.0)
    made.subscribe(1, "a > 1", 25.0, event="withdrawn")
    made.open()
    job = Job(spark, tmp_path / "trace", tmp_path / "out")
    job.make_profiles()
    with pytest.raises(InputError, match=r"all 1 subscriptions were withdrawn.*--to TIME, such as"):
        plan_network(job, Inventory())
    job = Job(spark, tmp_path / "trace", tmp_path / "out", until_ns=25 * SECOND)
    job.make_profiles()
    plan = plan_network(job, Inventory())
    assert list(plan.overlay) == ["B0"] and set(plan.subscriptions) == {"c1"}
    assert job.decisions.counts["brokers had stopped by the end, and are planned without"] == 1
