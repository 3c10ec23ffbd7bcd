"""Scenarios in which publishers are placed: they go where they should, the trace tells it, and nothing is lost."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from runnel.client.effects import RelocateAsked
from runnel.lab.expectation import check_deliveries
from runnel.lab.memory import memory_bytes
from runnel.lab.metrics import Window
from runnel.lab.run import ScenarioRun, _ScenarioRunner, run_scenario
from runnel.lab.scenario import Scenario, make_scenario
from runnel.lab.scenario_workload import as_topology, due_times, make_scenario_workload
from runnel.lab.world import LabWorld
from runnel.quantities import SECOND
from runnel.trace.reader import open_trace

GRAPE = {"algorithm": "grape", "g_threshold": 20}
POP = {"algorithm": "pop", "p_threshold": 10, "n": 10, "w_s": 2.0}


def scenario_of(x: int = 1, placement: dict[str, Any] | None = None, **more: Any) -> Scenario:
    """Seven brokers in a tree; the subscribers of each publisher are on X of them."""
    tables: dict[str, Any] = {
        "topology": {"shape": "tree", "brokers": 7},
        "workload": {
            **{"name": "stocks", "templates": "placement", "mix": "enterprise", "brokers": 7},
            **{"publishers": 3, "per_publisher": 20, "rate_per_min": 600.0, "on_brokers": x},
        },
        "network": {"latency_ms": 5.0},
        "time": {"warm_up_s": 4.0, "measure_s": 4.0},
        "trace": {"interval_s": 1.0},
        "modules": {"placement": GRAPE if placement is None else placement},
    }
    return make_scenario(tables | more)


def due(scenario: Scenario) -> int:
    """How many publications fall due before the end."""
    workload = make_scenario_workload(scenario, scenario.shape(1), 1)
    end = (scenario.time.warm_up_s + scenario.time.measure_s) * SECOND
    count = 0
    for place, publisher in enumerate(workload.publishers):
        for at in due_times(publisher, place, len(workload.publishers)):
            if at >= end:
                break
            count += 1
    return count


def assert_nothing_lost(run: ScenarioRun, scenario: Scenario) -> None:
    """By direct matching: everything that was due was published, and delivered once, in each publisher's order."""
    info = run.info
    assert info.drained and info.published == due(scenario)
    trace = open_trace(run.trace)
    found = check_deliveries(trace, Window(info.zero_ns, info.end_ns), grace_ns=0)
    assert found.is_exact and found.owed > 0 and found.publications == info.published
    counters: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in trace.rows("deliveries"):
        counters[row["subscription"], row["advertisement"]].append(row["counter"])
    assert all(seen == sorted(seen) for seen in counters.values())


def told(run: ScenarioRun, kind: str) -> list[dict[str, Any]]:
    rows = [row for row in open_trace(run.trace).rows("control") if row["kind"] == kind]
    return [json.loads(row["detail"]) for row in rows]


@pytest.mark.parametrize("placement", [GRAPE, GRAPE | {"metric": "delay"}, POP])
def test_publishers_go_to_their_subscribers_and_nothing_is_lost(
    tmp_path: Path, placement: dict[str, Any]
) -> None:
    scenario = scenario_of(1, placement)
    run = run_scenario(scenario, tmp_path)
    assert_nothing_lost(run, scenario)
    crowd = make_scenario_workload(scenario, scenario.shape(1), 1)
    where = {one.name: f"B{one.broker}" for one in crowd.publishers}
    homes = {one.name[len("pub-") :]: one.name for one in crowd.publishers}
    wanted = {
        name: f"B{one.broker}"
        for one in crowd.subscribers
        for symbol, name in homes.items()
        if symbol in str(one.selection)
    }
    assert where != wanted  # there is something to do
    moved = told(run, "publisher-migrated")
    for move in moved:
        assert move["is_done"] and move["pause_ns"] > 0
        assert move["from"] == where[move["publisher"]]
        where[move["publisher"]] = move["to"]
    assert where == wanted
    decisions = told(run, "placement")
    assert Counter(one["outcome"] for one in decisions)["moves"] == len(moved)
    assert len(told(run, "migration-begins")) == len(told(run, "migration-ends")) == len(moved)
    last = {row["publisher"]: row["broker"] for row in open_trace(run.trace).rows("publications")}
    assert last == wanted


def test_what_falls_due_on_the_way_is_published_late_even_after_the_end(tmp_path: Path) -> None:
    """A path so slow that the migration begins within the window and ends after it."""
    slow = {"latency_ms": 300.0, "client_latency_ms": 1.0}
    times = {"warm_up_s": 0.0, "measure_s": 4.3}
    scenario = scenario_of(1, network=slow, time=times)
    run = run_scenario(scenario, tmp_path)
    assert_nothing_lost(run, scenario)
    rows = list(open_trace(run.trace).rows("publications"))
    assert max(row["published_ns"] for row in rows) > run.info.window_end_ns
    assert max(one["pause_ns"] for one in told(run, "publisher-migrated")) > SECOND


def test_a_migration_to_a_broker_that_is_not_there_is_undone(tmp_path: Path) -> None:
    scenario = scenario_of(1, {"algorithm": "off"}, time={"warm_up_s": 2.0, "measure_s": 12.0})
    run = _ScenarioRunner(scenario, tmp_path, 1, None)
    clients, world = run._clients, run._world

    def ask() -> None:
        one = clients._publishers[0]
        clients.handle_effect(one.host, RelocateAsked(one.id, "B99", ""))

    world.at(3 * SECOND, ask)
    found = run.run()
    assert_nothing_lost(found, scenario)
    (move,) = told(found, "publisher-migrated")
    assert (move["to"], move["is_done"], move["pause_ns"]) == ("B99", False, None)
    assert {row["broker"] for row in open_trace(found.trace).rows("publications")} == {
        f"B{one.broker}"
        for one in make_scenario_workload(scenario, scenario.shape(1), 1).publishers
    }
    assert not clients.roaming.is_under_way


def test_memory_is_counted_where_there_are_modules(tmp_path: Path) -> None:
    kept = run_scenario(scenario_of(4), tmp_path / "placed").memory_bytes
    assert kept["broker"] > kept["placement"] > 0
    # Whatever the process has done before: Python shares what it can between objects that are there already.
    run_scenario(scenario_of(1, POP), tmp_path / "other")
    again = run_scenario(scenario_of(4), tmp_path / "again").memory_bytes
    assert again == kept
    short = {"warm_up_s": 0.0, "measure_s": 1.0}
    plain = scenario_of(4, modules={}, time=short)
    assert run_scenario(plain, tmp_path / "plain").memory_bytes == {}


def test_links_have_latencies_of_their_own(tmp_path: Path) -> None:
    network = {"latency_ms": 40.0, "latency_spread": 0.5, "client_latency_ms": 3.0}
    scenario = scenario_of(network=network)
    found = []
    for folder, seed in (("one", 1), ("again", 1), ("other", 2)):
        lab = LabWorld(scenario, seed, tmp_path / folder, None)  # type: ignore[arg-type]
        wire = lab.world.network.wire
        found.append([wire(*link).latency_ns for link in lab.shape.links])
        assert wire("B0", "sub-1").latency_ns == 3_000_000
        lab.close()
    assert found[0] == found[1] != found[2]
    assert len(set(found[0])) == 6
    assert all(20_000_000 <= ns <= 60_000_000 for ns in found[0])


def test_real_processes_are_told_the_same() -> None:
    settings = as_topology(scenario_of()).brokers["B1"].settings
    assert settings["placement"]["algorithm"] == "grape"
    assert settings["placement"]["g_threshold"] == 20


def test_equal_texts_and_numbers_count_once_whether_or_not_they_are_one_object() -> None:
    """A scenario that comes from another process has texts of its own."""
    one, other = ("".join(["load", " 100%"]) for _ in range(2))
    assert one is not other
    assert memory_bytes([[one, other]], {}) == memory_bytes([[one, one]], {})
    assert memory_bytes([[1, True]], {}) > memory_bytes([[1, 1]], {})
    assert memory_bytes([[[1], [1]]], {}) > memory_bytes([[[1]] * 2], {})
