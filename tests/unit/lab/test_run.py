"""Running a scenario: what is in the trace is what must be, each time the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runnel.errors import InputError
from runnel.lab.run import ScenarioRun, read_run_info, run_scenario
from runnel.lab.scenario import Scenario, make_scenario
from runnel.lab.scenario_workload import due_times, make_scenario_workload
from runnel.quantities import SECOND
from runnel.trace.reader import open_trace
from runnel.trace.schemas import TABLES
from runnel.trace.summary import summarise

SMALL: dict[str, Any] = {
    "topology": {"shape": "tree", "brokers": 7},
    "workload": {
        **{"name": "stocks", "templates": "green", "brokers": 7},
        **{"publishers": 5, "per_publisher": 8, "rate_per_min": 300.0},
    },
    "time": {"warm_up_s": 1.0, "measure_s": 4.0},
    "trace": {"interval_s": 1.0},
}


def expected(scenario: Scenario, seed: int) -> Counter[tuple[str, str]]:
    """How often each client must get something from each publisher, by brute force; nobody comes or goes."""
    workload = make_scenario_workload(scenario, scenario.shape(seed), seed)
    end = (scenario.time.warm_up_s + scenario.time.measure_s) * SECOND
    found: Counter[tuple[str, str]] = Counter()
    total = len(workload.publishers)
    for place, publisher in enumerate(workload.publishers):
        for at, event in zip(due_times(publisher, place, total), publisher.events, strict=False):
            if at >= end:
                break
            for one in workload.subscribers:
                if one.selection.matches(event):
                    found[one.name, publisher.name] += 1
    return found


def delivered(run: ScenarioRun) -> Counter[tuple[str, str]]:
    trace = open_trace(run.trace)
    publishers = {row["advertisement"]: row["publisher"] for row in trace.rows("advertisements")}
    return Counter(
        (row["client"], publishers[row["advertisement"]]) for row in trace.rows("deliveries")
    )


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("covering", [False, True])
def test_everything_is_delivered_once(tmp_path: Path, verify: bool, covering: bool) -> None:
    tables = SMALL | {"clients": {"verify": verify}, "routing": {"covering": covering}}
    scenario = make_scenario(tables)
    run = run_scenario(scenario, tmp_path)
    must = expected(scenario, 1)
    assert must and delivered(run) == must
    info = read_run_info(run.trace)
    assert info == run.info and info.drained
    assert (info.published, info.delivered) == (125, sum(must.values()))
    assert info.window_start_ns - info.zero_ns == SECOND
    assert info.window_end_ns - info.window_start_ns == 4 * SECOND
    assert summarise(open_trace(run.trace)).complaints == []


def test_the_trace_adds_up(tmp_path: Path) -> None:
    run = run_scenario(make_scenario(SMALL), tmp_path)
    trace = open_trace(run.trace)
    intervals = list(trace.rows("intervals"))
    taken = sum(row["publications_in"] + row["control_in"] for row in intervals)
    assert taken == run.handlings > run.window_handlings > 0
    last = {(r["broker"], r["peer"]): r for r in trace.rows("links") if r["kind"] == "broker"}
    assert len(last) == 12  # both ends of six links
    for (one, other), row in last.items():
        assert row["publications_out"] == last[other, one]["publications_in"]
    assert Counter(row["event"] for row in trace.rows("brokers")) == {"started": 7, "stopped": 7}
    made = list(trace.rows("subscriptions"))
    assert len(made) == 40 and {row["event"] for row in made} == {"made"}
    assert all(row["time_ns"] <= run.info.zero_ns for row in made)
    assert all(row["time_ns"] > run.info.zero_ns for row in trace.rows("publications"))


def tables_of(trace: Path) -> dict[str, Any]:
    opened = open_trace(trace)
    return {table: opened.read(table) for table in TABLES} | {
        "run": (trace / "run.json").read_bytes()
    }


def test_one_seed_gives_one_trace(tmp_path: Path) -> None:
    scenario = make_scenario(SMALL)
    first, again, other = (
        tables_of(run_scenario(scenario, tmp_path / name, seed).trace)
        for name, seed in (("first", 1), ("again", 1), ("other", 2))
    )
    assert first == again
    assert first["deliveries"] != other["deliveries"]


def test_the_hash_seed_changes_nothing(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from runnel.lab.scenario import make_scenario\n"
        "from runnel.lab.run import run_scenario\n"
        f"run_scenario(make_scenario({SMALL!r}), Path(sys.argv[1]))"
    )
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", program, str(tmp_path / hash_seed)]
        subprocess.run(command, env=environment, check=True)
    one, two = (tables_of(tmp_path / hash_seed / "trace") for hash_seed in ("1", "2"))
    assert one == two


def test_sampling_keeps_whole_publications(tmp_path: Path) -> None:
    scenario = make_scenario(SMALL | {"trace": {"sample": 5}})
    trace = open_trace(run_scenario(scenario, tmp_path).trace)
    for table in ("publications", "deliveries"):
        assert {row["counter"] % 5 for row in trace.rows(table)} == {0}
    assert sum(1 for _ in trace.rows("publications")) == 25


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[float, str]] = []
    run_scenario(make_scenario(SMALL), tmp_path, on_progress=lambda *said: told.append(said))
    shares = [share for share, _ in told]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1
    stages = list(dict.fromkeys(what for _, what in told))
    assert stages[-3:] == ["warming up", "measuring", "done"]


def test_a_trace_is_never_written_over(tmp_path: Path) -> None:
    scenario = make_scenario(SMALL)
    run_scenario(scenario, tmp_path)
    with pytest.raises(InputError, match="choose another directory"):
        run_scenario(scenario, tmp_path)
    with pytest.raises(InputError, match=r"has no run.json"):
        read_run_info(tmp_path)


def test_resources_take_their_time(tmp_path: Path) -> None:
    """Of two brokers one publishes to the other: what each step takes is known beforehand."""
    tables = {
        "topology": {"shape": "line", "brokers": 2},
        "resources": {"match_us_base": 2_000, "output_bytes_per_s": 100_000},
        "network": {"latency_ms": 5, "client_latency_ms": 1},
        "workload": {"name": "events", "path": "one.jsonl", "subscriptions": 1, "selectivity": 1.0}
        | {"rate_per_s": 1.0},
        "clients": {"placement": "round-robin"},
        "time": {"warm_up_s": 0, "measure_s": 10},
        "trace": {"interval_s": 1},
    }
    (tmp_path / "one.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(30)))
    scenario = make_scenario(tables, folder=tmp_path)
    trace = open_trace(run_scenario(scenario, tmp_path / "out").trace)
    published = {row["counter"]: row for row in trace.rows("publications")}
    rows = list(trace.rows("deliveries"))
    assert len(rows) == len(published) == 10
    for row in rows:
        made = published[row["counter"]]
        assert made["time_ns"] - made["published_ns"] == 1_000_000
        assert row["hops"] == 0  # both are at the first broker
    inside = [
        row
        for row in trace.rows("intervals")
        if row["broker"] == "B0" and row["publications_in"] == 1 and not row["control_in"]
    ]
    for row in inside:
        assert row["matching_delay_s"] == pytest.approx(0.002)
        assert row["input_ratio"] == pytest.approx(0.002)
        assert row["bytes_out"] >= published[1]["size_bytes"]
        assert row["output_ratio"] == pytest.approx(row["bytes_out"] / 100_000)
    assert len(inside) >= 8


def test_rates_change_and_subscribers_come_and_go(tmp_path: Path) -> None:
    changes = [
        {"at_s": 2.0, "kind": "rate", "clients": "pub-*", "factor": 2.0},
        {"at_s": 2.0, "kind": "join", "clients": "sub-*"},
        {"at_s": 4.0, "kind": "leave", "clients": "sub-*"},
    ]
    run = run_scenario(make_scenario(SMALL | {"changes": changes}), tmp_path)
    trace = open_trace(run.trace)
    times = [row["published_ns"] - run.info.zero_ns for row in trace.rows("publications")]
    assert sum(at < 2 * SECOND for at in times) == 50
    # An interval that has begun is not cut short, so each of the five may be one late.
    assert 145 <= sum(at >= 2 * SECOND for at in times) <= 150
    events = Counter(row["event"] for row in trace.rows("subscriptions"))
    assert events == {"made": 40, "withdrawn": 40}
    got = [row["time_ns"] - run.info.zero_ns for row in trace.rows("deliveries")]
    assert got and min(got) > 2 * SECOND and max(got) < 4.1 * SECOND
    assert run.info.delivered == len(got)


@pytest.mark.parametrize(
    ("away", "back"),
    [
        ({"kind": "cut", "broker": "B1", "other": "B0"}, {"kind": "mend"}),
        ({"kind": "stop", "broker": "B1"}, {"kind": "start"}),
    ],
)
def test_links_and_brokers_go_and_come_back(
    tmp_path: Path, away: dict[str, str], back: dict[str, str]
) -> None:
    """B1 joins B3 and B4 to the rest; when it is back, so are the deliveries."""
    where = {key: value for key, value in away.items() if key != "kind"}
    changes = [{"at_s": 2.0, **away}, {"at_s": 3.0, **where, **back}]
    tables = SMALL | {
        "changes": changes,
        "network": {"heartbeat_s": 0.1},
        "time": {"warm_up_s": 0.0, "measure_s": 8.0},
    }
    scenario = make_scenario(tables)
    run = run_scenario(scenario, tmp_path)
    trace = open_trace(run.trace)
    zero = run.info.zero_ns
    links = [row for row in trace.rows("links") if row["time_ns"] > zero]
    lost = [row for row in links if row["event"] == "lost" and row["peer"] == "B1"]
    far = [
        row["time_ns"] - zero for row in trace.rows("deliveries") if row["broker"] in ("B3", "B4")
    ]
    assert sum(at < 2 * SECOND for at in far) > 20
    assert sum(at > 5 * SECOND for at in far) > 20
    if away["kind"] == "cut":  # it came back before anybody gave it up: nothing is lost
        assert not lost and delivered(run) == expected(scenario, 1)
    else:
        assert lost and sum(delivered(run).values()) < sum(expected(scenario, 1).values())
        started = [row["broker"] for row in trace.rows("brokers") if row["event"] == "started"]
        assert started.count("B1") == 2
