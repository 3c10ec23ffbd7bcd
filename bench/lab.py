"""Benchmark of the laboratory: how fast a scenario runs in the simulator with its trace, and how much memory it needs.

    green-80      messages that brokers take in per second of CPU, from time zero to the end of the window, with the
                  writing of the trace; the median of five runs. 80 brokers, 8,000 subscriptions, two deliveries to
                  clients for every message that a broker takes in. `traced` says what is in the trace: all of it, or
                  neither publications nor deliveries
    green-1000    one simulated minute of 1,000 brokers with 22,500 subscriptions, once

Each run is a process of its own, so that memory is its own.

    make bench-lab                          everything (some minutes)
    make bench-lab ARGS='--only green-80'   one scenario
    make bench-lab ARGS='--quick'           small and short, held to nothing
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from common import Row, Target, finish, judge, machine, print_table, with_verdicts
from runnel.lab.run import run_scenario
from runnel.lab.scenario import (
    NamedParameters,
    Scenario,
    ScenarioTraceSettings,
    TimeSettings,
    named_scenario,
)
from runnel.matching import engine_note

COLUMNS = (
    *("scenario", "traced", "brokers", "subscriptions", "simulated_s", "handlings", "deliveries"),
    *("handlings_per_s", "spread", "build_s", "window_s", "memory_gib", "asked", ""),
)
GIB = 1 << 30


class ScenarioCase(NamedTuple):
    """One run."""

    scenario: str
    traced: bool = True
    repeats: int = 5


SECONDS = 60.0
CASES = (
    ScenarioCase("green-80"),
    ScenarioCase("green-80", traced=False),
    ScenarioCase("green-1000", repeats=1),
)


def targets_of(row: Row) -> list[Target]:
    """The targets of a row."""
    memory = Target("memory_gib", 2, at_most=True)
    if row["scenario"] == "green-80" and row["traced"] == "all":
        return [Target("handlings_per_s", 60_000), memory]
    return [memory] if row["scenario"] == "green-80" else []


def shrink_scenario(scenario: Scenario) -> Scenario:
    """The same with a tenth of everything."""
    topology, workload = dict(scenario.topology.parameters), dict(scenario.workload.parameters)
    topology["brokers"] = workload["brokers"] = 8
    workload |= {"publishers": 4, "per_publisher": 20}
    return replace(
        scenario,
        topology=NamedParameters(scenario.topology.name, topology),
        workload=NamedParameters(scenario.workload.name, workload),
    )


def run_case(case: ScenarioCase, quick: bool) -> Row:
    """Run a scenario; how many messages brokers took in per second of CPU."""
    scenario = named_scenario(case.scenario)
    if quick:
        scenario = shrink_scenario(scenario)
    seconds = 5.0 if quick else SECONDS
    trace = ScenarioTraceSettings(publications=case.traced, deliveries=case.traced)
    scenario = replace(scenario, time=TimeSettings(warm_up_s=0.0, measure_s=seconds), trace=trace)
    with tempfile.TemporaryDirectory() as folder:
        run = run_scenario(scenario, Path(folder))
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024
    return {
        "scenario": case.scenario,
        "traced": "all" if case.traced else "load only",
        "brokers": run.info.brokers,
        "subscriptions": run.info.subscribers,
        "simulated_s": seconds,
        "handlings": run.window_handlings,
        "deliveries": run.info.delivered,
        "handlings_per_s": round(run.window_handlings / run.window_cpu_s),
        "build_s": round(run.build_s, 1),
        "window_s": round(run.window_s, 1),
        "memory_gib": round(peak_bytes / GIB, 3),
    }


def run_repeatedly(case: ScenarioCase, quick: bool) -> Row:
    """Run a case several times; the median run, and the spread of all."""
    rows = [run_in_process(case, quick) for _ in range(1 if quick else case.repeats)]
    rows.sort(key=lambda row: row["handlings_per_s"])
    rates = [row["handlings_per_s"] for row in rows]
    middle = rows[len(rows) // 2]
    spread = (rates[-1] - rates[0]) / middle["handlings_per_s"]
    return middle | {"spread": round(spread, 3)}


def run_in_process(case: ScenarioCase, quick: bool) -> Row:
    """Run a case in a process of its own, where nothing else has used memory."""
    command = [sys.executable, __file__, "--case", json.dumps(case), *(["--quick"] * quick)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def main() -> None:
    """Measure every case, print the table, then the JSON line."""
    parser = argparse.ArgumentParser(description="Measure scenarios in the simulator.")
    parser.add_argument("--quick", action="store_true", help="small and short, held to nothing")
    parser.add_argument("--only", action="append", choices=sorted({c.scenario for c in CASES}))
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(run_case(ScenarioCase(*json.loads(arguments.case)), arguments.quick)))
        return
    about = machine() | {"engine": engine_note()}
    rows = []
    for case in CASES:
        if not arguments.only or case.scenario in arguments.only:
            print(f"{case} ...", file=sys.stderr, flush=True)
            rows.append(run_repeatedly(case, arguments.quick))
    if not arguments.quick:
        rows = [judge(row, targets_of(row)) for row in rows]
    print_table("lab", COLUMNS, with_verdicts(rows))
    finish("lab", rows, about)


if __name__ == "__main__":
    main()
