"""The job `place` makes the same choices as GRAPE with the same reports, computed row by row."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from runnel.errors import InputError
from runnel.lab.run import ScenarioRun
from runnel.modules.placement.delays import wait_ns
from runnel.modules.placement.grape import BrokerReport, Choice, choose
from runnel.pipeline.delays import BrokerDelays
from runnel.pipeline.jobs import Job
from runnel.pipeline.place import (
    SAMPLE,
    Priority,
    make_stations,
    parse_priority,
    place_all,
    place_publisher,
    top_moves,
    total_messages,
    tree_of_trace,
)
from runnel.planning.documents.plan import Plan
from runnel.planning.planner import PlanOptions, make_plan
from runnel.quantities import SECOND
from runnel.trace.reader import Trace, open_trace
from support.sparked import TraceOracle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Homes = dict[str, str]
Row = dict[str, Any]


# -- the same, row by row ---------------------------------------------------------------------------------


def delays_row_by_row(trace: Trace) -> dict[str, BrokerDelays]:
    """How long messages take in brokers, computed row by row."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * 5)
    queued: dict[str, int] = defaultdict(int)
    for row in sorted(trace.rows("intervals"), key=lambda row: row["time_ns"]):
        found = sums[row["broker"]]
        matching = round(row["matching_delay_s"] * row["publications_in"] * SECOND)
        found[0] += row["window_ns"]
        found[1] += row["publications_in"]
        found[2] += matching
        if row["bytes_out"]:
            received = row["bytes_out"] + row["queue_bytes"] - queued[row["broker"]]
            growth = max(1.0, received / row["bytes_out"])
            found[3] += row["frames_out"]
            found[4] += round(row["output_ratio"] * row["window_ns"] / growth)
        queued[row["broker"]] = row["queue_bytes"]
    return {
        broker: BrokerDelays(
            wait_ns(matching, matched, window),
            matching // matched,
            wait_ns(sending, sent, window) + sending // sent,
            sending // sent,
        )
        for broker, (window, matched, matching, sent, sending) in sums.items()
    }


def link_times_row_by_row(
    trace: Trace, brokers: dict[str, BrokerDelays]
) -> dict[tuple[str, str], int]:
    """How long links take, computed row by row."""
    pairs = {(row["broker"], row["peer"]) for row in trace.rows("links") if row["kind"] == "broker"}
    last: dict[int, int] = defaultdict(int)
    seen: dict[tuple[int, int], dict[tuple[int, str], int]] = defaultdict(dict)
    for table in ("publications", "deliveries"):
        for row in trace.rows(table):
            last[row["advertisement"]] = max(last[row["advertisement"]], row["counter"])
            at = seen[row["advertisement"], row["counter"]]
            key = (row.get("hops", 0), row["broker"])
            at[key] = min(at.get(key, row["time_ns"]), row["time_ns"])
    least: dict[tuple[str, str], int] = {}
    for (advertisement, counter), at in seen.items():
        if counter > last[advertisement] - SAMPLE:
            for (hops, here), began in at.items():
                for (further, there), ended in at.items():
                    if further == hops + 1 and (here, there) in pairs:
                        took = ended - began - brokers[here].matching_ns - brokers[here].sending_ns
                        least[here, there] = min(least.get((here, there), took), took)
    return {
        way: max(0, (ns + least.get((b, a), ns)) // 2)
        for (a, b), ns in least.items()
        for way in ((a, b), (b, a))
    }


def choose_row_by_row(
    known: TraceOracle,
    stations: dict[str, BrokerReport],
    priority: Priority,
    plan: Plan | None,
    homes: Homes,
) -> dict[str, Choice]:
    """GRAPE's choice for every publisher, from what subscriptions received."""
    found = {}
    for number, publisher in enumerate(known.publishers):
        if publisher.name not in homes:
            continue
        reports = {name: BrokerReport(**as_dict(one)) for name, one in stations.items()}
        for id, profile in known.by_subscription().items():
            client = known.owners[id]
            if plan and client not in plan.subscriptions:
                continue
            broker = plan.subscriptions[client] if plan else known.homes[client]
            bits = profile.get(number, 0)
            old = reports[broker]
            more = {"bits": old.bits | bits, "deliveries": old.deliveries + bits.bit_count()}
            reports[broker] = BrokerReport(**as_dict(old) | more)
        found[publisher.name] = choose(reports, homes[publisher.name], *priority)
    return found


def as_dict(report: BrokerReport) -> Row:
    return {name: getattr(report, name) for name in report.__slots__}


def gains(choice: Choice, home: str, priority: Priority) -> bool:
    """Whether a move improves what counts: at 100% that is the primary metric alone."""
    value: dict[str, float] = {one.broker: one.load for one in choice.candidates}
    if priority.metric == "delay":
        value = {one.broker: one.delay_s for one in choice.candidates}
    return priority.percent < 100 or value[choice.broker] < value[home]


@pytest.fixture(scope="module")
def known(run: ScenarioRun) -> TraceOracle:
    return TraceOracle(open_trace(run.trace))


@pytest.fixture(scope="module")
def plan(done: Job) -> Plan:
    """With publishers at its root, so that there is something to move.

    It does not know one publisher and one client, which are at brokers that it does not have either.
    """
    network = done.make_network()
    found = make_plan(network, PlanOptions("BIN PACKING", relocate=False))
    publishers, clients = dict(found.publishers), dict(found.subscriptions)
    homes = zip(network.publishers, network.publisher_homes, strict=True)
    del publishers[next(one.name for one, home in homes if home not in found.overlay)]
    seats = zip(network.subscriptions, network.subscription_homes, strict=True)
    del clients[next(client for client, home in seats if home not in found.overlay)]
    return replace(found, publishers=publishers, subscriptions=clients)


@pytest.mark.parametrize(("text", "with_plan"), [("load 100%", False), ("delay 50%", True)])
def test_choices_are_those_of_grape(
    done: Job, run: ScenarioRun, known: TraceOracle, plan: Plan, text: str, with_plan: bool
) -> None:
    trace, priority, laid = open_trace(run.trace), parse_priority(text), plan if with_plan else None
    told = place_all(done, priority, laid)
    rows = {row["publisher"]: row for row in done.frame("placements").collect()}
    overlay = tree_of_trace(done.frame("brokers"), done.frame("links"))
    neighbours = overlay.neighbours
    homes = {row["name"]: row["broker"] for row in done.frame("publishers").collect()}
    if laid:
        layout = {broker: [] for broker in laid.overlay}  # type: dict[str, list[str]]
        for one, other in laid.links:
            layout[one].append(other)
            layout[other].append(one)
        neighbours = {broker: sorted(layout[broker]) for broker in sorted(layout)}
        homes = laid.publishers
    brokers = delays_row_by_row(trace)
    times = link_times_row_by_row(trace, brokers)
    stations = make_stations(neighbours, brokers, times)
    expected = choose_row_by_row(known, stations, priority, laid, homes)
    assert told["publishers"] == len(rows) == len(expected) == 5 - with_plan
    for lost in (
        "1 publishers are at brokers that are not in the overlay, and are not placed",
        "1 subscriptions are at brokers that are not in the overlay, and do not count",
    ):
        assert (lost in done.decisions.lines) == with_plan
    unknown = "links have no measured time, and count as taking none"
    pairs = {(one, other) for one, beside in neighbours.items() for other in beside if one < other}
    assert done.decisions.counts.get(unknown, 0) == sum(pair not in times for pair in pairs)
    assert told["would move"] == sum(
        one.broker != homes[name] and gains(one, homes[name], priority)
        for name, one in expected.items()
    )
    for name, choice in expected.items():
        named, row = {one.broker: one for one in choice.candidates}, rows[name]
        now, then = named[homes[name]], named[choice.broker]
        assert (row["home"], row["broker"]) == (homes[name], choice.broker)
        assert (row["load_now"], row["load_after"]) == (now.load, then.load)
        assert (row["delay_now_s"], row["delay_after_s"]) == (now.delay_s, then.delay_s)
        assert row["candidates"] == len(choice.candidates) == len(neighbours)
        assert row["gain_percent"] == choice.gain_percent(homes[name], priority.metric)
    assert told["would move"] > 0
    moves = top_moves(done.frame("placements"), 3).collect()
    assert moves and all(row["home"] != row["broker"] and row["gain_percent"] > 0 for row in moves)
    total = total_messages(done.frame("placements")).first()
    assert total and total[0] == pytest.approx(sum(row["messages_now"] for row in rows.values()))


def test_the_time_of_a_link_is_what_the_simulator_was_told(run: ScenarioRun) -> None:
    """The tests above compute times in the same way as the job; this one compares with the simulator's settings."""
    trace = open_trace(run.trace)
    times = link_times_row_by_row(trace, delays_row_by_row(trace))
    assert len(times) == 12
    assert all(1_000_000 <= ns < 2_500_000 for ns in times.values()), "1 ms, and a frame before it"


# -- odd cases --------------------------------------------------------------------------------------------


STATIONS = make_stations(
    {"A": ["B", "C"], "B": ["A"], "C": ["A"]}, {}, {("A", "B"): 5, ("B", "A"): 5}
)


def test_nobody_listens_or_all_are_equal() -> None:
    publisher = {"name": "p", "broker": "B", "rate": 2.0, "span": 4}
    silent = place_publisher(publisher, [], STATIONS, Priority("delay", 50.0))
    assert (silent["broker"], silent["load_now"], silent["candidates"]) == ("B", 0, 3)
    even = [{"broker": name, "deliveries": 4, "words": [15]} for name in ("A", "B", "C")]
    equal = place_publisher(publisher, even, STATIONS, Priority("load", 100.0))
    assert (equal["broker"], equal["load_after"], equal["messages_after"]) == ("A", 12, 6.0)
    assert (equal["gain_in"], equal["moves"], equal["load_now"]) == ("delay", False, 12)
    most = place_publisher(publisher, even, STATIONS, Priority("load", 99.0))
    assert (most["broker"], most["gain_in"], most["moves"]) == ("A", "delay", True)
    top = [{"broker": "C", "deliveries": 1, "words": [-(2**63), 1]}]
    high = place_publisher(publisher, top, STATIONS, Priority())
    assert (high["broker"], high["load_now"], high["load_after"]) == ("C", 6, 2)
    assert (high["gain_in"], high["moves"], silent["gain_in"]) == ("load", True, None)


@pytest.mark.parametrize("text", ["load", "load 101%", "rate 50%", "", "load -1%"])
def test_what_is_no_priority(text: str) -> None:
    with pytest.raises(InputError, match="is no priority: write"):
        parse_priority(text)


def test_an_overlay_with_a_circle_is_refused(spark: SparkSession) -> None:
    brokers = spark.createDataFrame([(name,) for name in "ABCD"], "broker string")
    links = [("A", "B"), ("B", "C"), ("A", "C")]

    def frame(pairs: list[tuple[str, str]]) -> DataFrame:
        return spark.createDataFrame(pairs, "one string, other string")

    with pytest.raises(InputError, match=r"the 3 links of 4 brokers make no tree.*--plan"):
        tree_of_trace(brokers, frame(links))
    assert tree_of_trace(brokers, frame(links[:2])).neighbours == {
        **{"A": ["B"], "B": ["A", "C"]},
        **{"C": ["B"], "D": []},
    }


PROGRAM = """
from runnel.pipeline.place import Priority, make_stations, place_publisher
names = [f"B{n}" for n in range(31)]
near = {name: [] for name in names}
for n in range(1, 31):
    near[names[n]].append(names[(n - 1) // 2]); near[names[(n - 1) // 2]].append(names[n])
links = {(a, b): 1000 for a in near for b in near[a]}
wanted = [{"broker": f"B{n}", "deliveries": n, "words": [n * 77, n]} for n in range(9, 31, 4)]
publisher = {"name": "p", "broker": "B0", "rate": 1.0, "span": 128}
for text in (("load", 100.0), ("delay", 50.0)):
    print(place_publisher(publisher, wanted, make_stations(near, {}, links), Priority(*text)))
"""


def test_choices_do_not_depend_on_hash_seeds() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1 and "'broker': 'B" in said.pop()
