"""Scenarios: what a file may say, what it means, and how mistakes are told."""

from __future__ import annotations

import pickle
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from runnel.errors import InputError
from runnel.lab.scenario import (
    Scenario,
    is_scenario,
    make_scenario,
    named_scenario,
    read_scenario,
    scenario_names,
)
from runnel.lab.scenario_workload import as_topology, due_times, make_scenario_workload
from runnel.quantities import SECOND
from runnel.workload.shape import Workload

SMALL: dict[str, Any] = {
    "topology": {"shape": "star", "brokers": 4},
    "workload": {
        **{"name": "stocks", "templates": "green", "brokers": 4},
        **{"publishers": 4, "per_publisher": 5, "rate_per_min": 120.0},
    },
    "time": {"warm_up_s": 1.0, "measure_s": 4.0},
}


def crowd(scenario: Scenario, seed: int = 1) -> Workload:
    return make_scenario_workload(scenario, scenario.shape(seed), seed)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name == "green-1000" else [])
        for name in scenario_names()
    ],
)
def test_the_scenarios_that_come_along_are_sound(name: str) -> None:
    scenario = named_scenario(name)
    found = crowd(scenario)
    assert found.publishers and found.subscribers
    everybody: list[Any] = [*found.publishers, *found.subscribers]
    assert all(0 <= (one.broker or 0) < len(scenario.shape().brokers) for one in everybody)


def test_the_stock_scenario_of_green() -> None:
    found = crowd(named_scenario("green-80"))
    assert len(found.subscribers) == 8_000
    assert round(found.rate_per_s, 1) == 46.7


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"topolgy": {}}, "topolgy: there is no such key"),
        ({"topology": {}}, "topology.shape: must be a name in quotes"),
        ({"topology": 3}, "topology: must be a table"),
        ({"topology": {"shape": "star", "brokers": 0}}, "topology.brokers: must be at least 1"),
        ({"workload": {"name": "stokcs"}}, "workload.name: there is no workload 'stokcs'"),
        ({"inventory": {"name": "green", "scenario": "x"}}, "inventory.scenario: must be one of"),
        ({"inventory": {"name": "green"}, "resources": {}}, "resources: there is an inventory"),
        ({"resources": {"match_us_each": -1}}, "resources.match_us_each: must be at least 0"),
        ({"routing": {"covering": "yes"}}, "routing.covering: must be true or false"),
        ({"network": {"latency": 1}}, "network.latency: there is no such parameter"),
        ({"clients": {"placement": "near"}}, "clients.placement: must be one of random, round"),
        ({"time": {"measure_s": 0}}, "time.measure_s: must be at least"),
        ({"trace": {"sample": 0}}, "trace.sample: must be at least 1"),
        ({"modules": {"balance": {}}}, "modules.balance: there is no such module"),
        ({"modules": {"placement": 1}}, "modules.placement: must be a table"),
        (
            {"modules": {"placement": {"weight_percent": 101.0}}},
            "modules.placement.weight_percent: must be at most 100",
        ),
        (
            {"modules": {"placement": {"algoritm": "pop"}}},
            "modules.placement.algoritm: there is no such key; did you mean algorithm",
        ),
        ({"network": {"latency_spread": 1.0}}, "network.latency_spread: must be at most 0.99"),
        ({"seed": "one"}, "seed: must be a whole number"),
        ({"changes": {"at_s": 1}}, "changes: must be a list of tables"),
        ({"changes": [{"kind": "cut"}]}, r"changes\[0\].at_s: is missing"),
        ({"changes": [{"at_s": 1, "kind": "cut"}]}, r"changes\[0\].broker: is missing"),
        (
            {"changes": [{"at_s": 1, "kind": "stop", "broker": "B9"}]},
            r"changes\[0\].broker: there is no broker B9",
        ),
        (
            {"changes": [{"at_s": 1, "kind": "cut", "broker": "B1", "other": "B2"}]},
            r"changes\[0\].other: there is no link between B1 and B2",
        ),
        (
            {"changes": [{"at_s": 1, "kind": "stop", "broker": "B1", "clients": "x"}]},
            r"changes\[0\].clients: has no place in a change of kind 'stop'",
        ),
        (
            {"changes": [{"at_s": 1, "kind": "rate", "clients": "pub-*"}]},
            r"changes\[0\].factor: give either factor or rate_per_s",
        ),
    ],
)
def test_mistakes_name_their_place(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=f"^{says}"):
        make_scenario(SMALL | changed)


def test_mistakes_that_only_the_workload_shows() -> None:
    nobody = {"at_s": 1, "kind": "leave", "clients": "pub-*"}
    with pytest.raises(InputError, match=r"^changes\[0\].clients: no client"):
        crowd(make_scenario(SMALL | {"changes": [nobody]}))
    with pytest.raises(InputError, match=r"^workload.per_publisher: must be at least 1"):
        crowd(make_scenario(SMALL | {"workload": SMALL["workload"] | {"per_publisher": 0}}))
    with pytest.raises(InputError, match="speaks of 4 brokers, the topology has 2"):
        crowd(make_scenario(SMALL | {"topology": {"shape": "star", "brokers": 2}}))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    with pytest.raises(InputError, match=r"bad.toml: cannot be opened"):
        read_scenario(path)
    path.write_text("[topology")
    with pytest.raises(InputError, match=r"bad.toml: this is not TOML"):
        read_scenario(path)
    path.write_text('[topology]\nshape = "star"\n[workload]\nname = "none"')
    with pytest.raises(InputError, match=r"bad.toml: workload.name: there is no"):
        read_scenario(path)


def test_a_scenario_is_told_from_a_topology(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    assert not is_scenario(path)
    for text, found in (("[workload]", True), ("[brokers.B1]", False), ("[brokers", False)):
        path.write_text(text)
        assert is_scenario(path) is found


def test_files_of_a_workload_are_found_beside_the_scenario(tmp_path: Path) -> None:
    lines = "".join(f'{{"n": {n}, "kind": "{"ab"[n % 2]}"}}\n' for n in range(60))
    (tmp_path / "numbers.jsonl").write_text(lines)
    path = tmp_path / "own.toml"
    path.write_text(
        '[topology]\nshape = "line"\nbrokers = 2\n'
        '[workload]\nname = "events"\npath = "numbers.jsonl"\nsubscriptions = 7\n'
    )
    assert len(crowd(read_scenario(path)).subscribers) == 7


@pytest.mark.parametrize("placement", ["workload", "random", "round-robin"])
def test_everybody_has_a_place(placement: str) -> None:
    scenario = make_scenario(SMALL | {"clients": {"placement": placement}})
    places, again, others = (
        [one.broker for one in crowd(scenario, seed).subscribers] for seed in (1, 1, 2)
    )
    assert places == again
    if placement == "round-robin":
        assert places == [n % 4 for n in range(20)]
    else:
        assert places != others
        assert set(places) == {0, 1, 2, 3}


def test_changes_become_part_of_the_workload() -> None:
    changes = [
        {"at_s": 2, "kind": "rate", "clients": "pub-*", "share": 0.5, "factor": 3.0},
        {"at_s": 3, "kind": "rate", "clients": "pub-*", "rate_per_s": 7.0},
        {"at_s": 1, "kind": "join", "clients": "sub-1*"},
        {"at_s": 4, "kind": "leave", "clients": "sub-2"},
    ]
    found = crowd(make_scenario(SMALL | {"changes": changes}))
    rates = [one.rate_at(round(2.5 * SECOND)) for one in found.publishers]
    assert sorted(rates) == [2.0, 2.0, 6.0, 6.0]
    assert {one.rate_at(3 * SECOND) for one in found.publishers} == {7.0}
    assert sum(one.joins_ns == SECOND for one in found.subscribers) == 11  # 1, 10 to 19
    assert [one.name for one in found.subscribers if one.leaves_ns == 4 * SECOND] == ["sub-2"]


def test_publishers_take_turns() -> None:
    found = crowd(make_scenario(SMALL)).publishers  # 4 publishers, 2 per second each
    due = [list(islice(due_times(one, place, 4), 3)) for place, one in enumerate(found)]
    tenths = [[at // (SECOND // 1000) for at in times] for times in due]
    assert tenths == [[125 * n, 125 * n + 500, 125 * n + 1000] for n in range(4)]


def test_the_same_scenario_for_real_processes() -> None:
    topology = as_topology(make_scenario(SMALL), trace=Path("/somewhere"))
    assert list(topology.brokers) == ["B0", "B1", "B2", "B3"] and len(topology.links) == 3
    publishing = [one.publish for one in topology.clients if one.publish is not None]
    assert [plan.count for plan in publishing] == [10] * 4  # 2 per second for 5 seconds
    assert sum(len(one.subscribe) for one in topology.clients) == 20
    settings = topology.brokers["B1"].settings
    assert settings["trace"]["dir"] == "/somewhere" and settings["routing"]["covering"] is True


def test_what_real_processes_cannot_do_is_refused() -> None:
    cut = {"at_s": 1, "kind": "stop", "broker": "B1"}
    with pytest.raises(InputError, match=r"^changes: only the simulator"):
        as_topology(make_scenario(SMALL | {"changes": [cut]}))
    churn = {"name": "churn", "edge_brokers": 3, "duration_s": 600.0}
    with pytest.raises(InputError, match="can only be simulated"):
        as_topology(make_scenario(SMALL | {"workload": churn}))


def test_a_scenario_goes_to_another_process() -> None:
    tables: dict[str, Any] = {"topology": {"shape": "star"}, "workload": {"name": "stocks"}}
    made = make_scenario(tables | {"routing": {"covering": False}, "modules": {"placement": {}}})
    assert pickle.loads(pickle.dumps(made)) == made
