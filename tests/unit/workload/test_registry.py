"""Workloads by name: parameters are checked and errors name the key; one seed gives one workload."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runnel.errors import InputError
from runnel.workload.files import write_events
from runnel.workload.registry import NAMES, TEMPLATES, make_workload, parameters_of

SMALL: dict[str, dict[str, Any]] = {
    "balance": {"publishers": 3, "days": 20, "subscriptions": 30},
    "placement": {"publishers": 3, "days": 20, "per_publisher": 10},
    "green": {"publishers": 3, "days": 20, "per_publisher": 10, "scenario": "heterogeneous"},
    "zipf": {"data_set": "DT-C", "subscriptions": 300, "brokers": 20},
    "social": {
        "users": 300,
        "subscriptions": 2_000,
        "drawn_interactions": 500,
        "brokers": 10,
        "reached_share": 0.4,
    },
    "churn": {"parameters": {"publishers": 3, "days": 20}, "duration_s": 120},
    "events": {"path": "e.jsonl", "subscriptions": 20, "by": "kind"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_events(
        tmp_path / "e.jsonl", [{"kind": "abc"[n % 3], "size": n * 7 % 101} for n in range(300)]
    )
    return tmp_path


def small(kind: str) -> tuple[str, dict[str, Any]]:
    return (
        ("stocks", {"templates": kind} | SMALL[kind]) if kind in TEMPLATES else (kind, SMALL[kind])
    )


def text_of(kind: str, folder: Path, seed: int = 1) -> str:
    """Everything a workload says, with some of its events."""
    name, table = small(kind)
    workload = make_workload(name, table, seed, folder)
    events = [
        [e for e, _ in zip(one.events, range(5), strict=False)] for one in workload.publishers
    ]
    # How a Loop prints depends on where it is in memory; its events are what counts.
    heads = [
        (p.name, p.advertisement, p.rate_per_s, p.broker, p.rate_changes)
        for p in workload.publishers
    ]
    return repr((heads, events, workload.subscribers, dict(workload.facts)))


@pytest.mark.parametrize("kind", SMALL)
def test_one_seed_gives_one_workload(kind: str, folder: Path) -> None:
    assert text_of(kind, folder) == text_of(kind, folder)
    assert text_of(kind, folder) != text_of(kind, folder, seed=2)


def test_whatever_the_hash_seed(folder: Path) -> None:
    program = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import test_registry as t\n"
        "print([t.text_of(kind, pathlib.Path(sys.argv[2])) for kind in t.SMALL])"
    )
    command = [sys.executable, "-c", program, str(Path(__file__).parent), str(folder)]
    outputs = [
        subprocess.run(
            command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1] and len(outputs[0]) > 10_000


@pytest.mark.parametrize(
    ("name", "table", "message"),
    [
        ("stonks", {}, "there is no workload 'stonks'; there are stocks, zipf"),
        (
            "stocks",
            {"templates": "red"},
            "templates: must be one of balance, placement, green, got 'red'",
        ),
        ("stocks", {"templates": ["green"]}, "templates: must be one of"),
        (
            "stocks",
            {"publisher": 3},
            "publisher: there is no such parameter; known here: publishers",
        ),
        ("stocks", {"publishers": 0}, "publishers: must be at least 1, got 0"),
        ("stocks", {"publishers": "many"}, "publishers: must be a whole number, got 'many'"),
        ("stocks", {"rate_per_min": True}, "rate_per_min: must be a number, got True"),
        ("stocks", {"order": "random"}, "order: must be one of date, shuffled, got 'random'"),
        ("stocks", {"quotes": 5}, "quotes: must be a text, got 5"),
        ("stocks", {"zero_share": 0.99}, "zero_share: must be at most 0.94"),
        ("stocks", {"zero_share": 1.5}, "zero_share: must be at most 1"),
        ("stocks", {"quotes": "none.csv"}, "none.csv: cannot be opened"),
        (
            "stocks",
            {"templates": "placement", "on_brokers": 64},
            "on_brokers: must be at most brokers",
        ),
        ("zipf", {"data_set": "DT9"}, "data_set: must be one of DT-C, DT1, DT2, .* got 'DT9'"),
        ("zipf", {"brokers": -1}, "brokers: must be at least 0"),
        ("zipf", {"topics": 5}, "topics: .* use at least 13"),
        ("events", {}, "path: is missing"),
        ("churn", {"of": "churn"}, "of: must be a workload other than churn"),
        (
            "churn",
            {"of": "zipf", "parameters": {"topic": 1}},
            "churn of zipf: topic: there is no such",
        ),
        ("churn", {"parameters": 5}, "parameters: must be a table, got 5"),
        ("churn", {"stay_min_s": 900}, "stay_min_s: must be at most stay_max_s"),
        ("social", {"interactions": "x.csv"}, "friends: is missing"),
    ],
)
def test_a_mistake_names_its_key(name: str, table: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_workload(name, table)


def test_every_workload_tells_its_parameters() -> None:
    required = {
        name: [key for key, default in parameters_of(name).items() if default is None]
        for name in NAMES
    }
    assert required == {"stocks": [], "zipf": [], "social": [], "churn": [], "events": ["path"]}
    for templates in TEMPLATES:
        assert set(SMALL[templates]) <= set(parameters_of("stocks", templates))
    assert parameters_of("stocks", "green")["rate_per_min"] == 70.0
    assert parameters_of("churn")["parameters"] == {}


@pytest.mark.parametrize("kind", SMALL)
def test_events_are_what_their_publisher_advertises(kind: str, folder: Path) -> None:
    name, table = small(kind)
    workload = make_workload(name, table, folder=folder)
    assert workload.name == name and workload.publishers and workload.subscribers
    for one in workload.publishers:
        events = [event for event, _ in zip(one.events, range(20), strict=False)]
        assert events and all(map(one.advertisement.matches, events))
        assert one.rate_per_s > 0
