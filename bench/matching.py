"""How fast the matching engines are, and how much memory they take: `make bench-matching`.

Every combination of workload, size and engine runs in a fresh process, one after the other, and memory in
one more, so that none of them inherits the other's caches and heap. What the figures mean:

events_per_s             events matched in a second, called from Python with a dict, on one core
                         output = slices: the answer as the engine gives it, slices of the index, counted;
                         views: each of those slices as a Python sequence; ids: all as one array
inserts_per_s            from empty to full, until the first event after it is answered
removes_per_s            every tenth subscription, in random order, until the first answer after it
reinserts_per_s          the same ones put back into the full engine
churn_per_s              remove one, add one, match one, over and over
bytes_per_subscription   what the process grew by, per subscription, filters not kept by the caller
build_s                  making the filters, which is never part of the other times

    make bench-matching                              everything (several minutes)
    make bench-matching ARGS='--workload stock'      one workload; also --size, --engine, --quick
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from common import REPEATS, Row, Target, finish, machine, measure, print_table, rss_bytes
from runnel.language import Filter
from runnel.matching import Engine, EngineName, engine_note, make_engine
from workloads import INTERVAL_CASES, MatchingWorkload, find_data, make_workload

SIZES = (1_000, 10_000, 100_000)
LOAD_SIZE = 1_000_000
# With fewer subscriptions the heap's own coming and going is larger than what they take.
MEMORY_FROM = 10_000
WORKLOADS = ("stock", *(f"intervals-{k}-{p}" for k, p in INTERVAL_CASES), "strings", "events")
ENGINES: tuple[EngineName, ...] = ("compiled", "index")
OUTPUTS = ("slices", "views", "ids")
# The pure-Python engine is up to a hundred times slower; these keep its share of a run moderate.
INDEX_EVENTS = 50
INDEX_MAX_S = 5.0

UPDATES = (Target("inserts_per_s", 200_000), Target("removes_per_s", 100_000))
TARGETS: dict[tuple[str, int, str, str], tuple[Target, ...]] = {
    ("stock", 1_000, "compiled", "slices"): (Target("events_per_s", 2_000_000),),
    ("stock", 10_000, "compiled", "slices"): (Target("events_per_s", 1_000_000),),
    ("stock", 100_000, "compiled", "slices"): (
        Target("events_per_s", 400_000),
        *UPDATES,
        Target("bytes_per_subscription", 400, at_most=True),
    ),
    ("stock", 100_000, "index", "slices"): (Target("events_per_s", 40_000),),
    ("intervals-5-0.1", 100_000, "compiled", "slices"): (Target("events_per_s", 20_000), *UPDATES),
    ("intervals-3-0.3", 100_000, "compiled", "slices"): (Target("events_per_s", 8_000), *UPDATES),
    ("intervals-10-0.5", 100_000, "compiled", "slices"): (Target("events_per_s", 8_000), *UPDATES),
    ("intervals-10-0.9", 100_000, "compiled", "slices"): (Target("events_per_s", 4_000), *UPDATES),
    ("load", LOAD_SIZE, "compiled", "slices"): (Target("load_s", 10, at_most=True),),
}
# What people read: figure → heading.
FIGURES = {
    "matches_per_event": "matches",
    "inserts_per_s": "inserts/s",
    "removes_per_s": "removes/s",
    "reinserts_per_s": "reinserts/s",
    "churn_per_s": "churn/s",
    "bytes_per_subscription": "bytes/sub",
    "build_s": "build s",
}


def speed(workload: MatchingWorkload, size: int, engine_name: EngineName, quick: bool) -> list[Row]:
    """Measure one engine at one size; one row per output."""
    start = time.perf_counter()
    filters = list(workload.filters(size))
    build_s = time.perf_counter() - start
    engine = make_engine(engine_name)
    probe = workload.events[0]
    gc.collect()
    gc.freeze()
    common: Row = {"subscriptions": size, "engine": engine_name, "build_s": round(build_s, 3)}
    brief = quick or engine_name == "index"
    common |= _updates(engine, filters, probe, repeats=1 if brief else REPEATS)
    events = workload.events[: INDEX_EVENTS if brief else None]
    # The engines learn from events which equality tells most; the rates are those of a settled engine.
    matches = sum(len(engine.match(event)) for event in events)
    common["matches_per_event"] = round(matches / len(events), 1)
    rows = []
    for output in OUTPUTS:
        rate = measure(
            _pass(engine, events, output),
            min_s=0.02 if quick else 0.2,
            max_s=INDEX_MAX_S if brief else 20.0,
        )
        rows.append(
            common
            | {"output": output, "events_per_s": round(rate.per_s), "spread": round(rate.spread, 3)}
        )
    churn = _churn_per_s(engine, filters, events, 0.02 if quick else 0.1)
    return [row | {"churn_per_s": churn} for row in rows]


def _pass(engine: Engine, events: list[Any], output: str) -> Callable[[], int]:
    """One timed pass over the events, with the answer in the form that is asked for."""
    match = engine.match

    def slices() -> int:
        for event in events:
            len(match(event))
        return len(events)

    def views() -> int:
        for event in events:
            match(event).slices()
        return len(events)

    def ids() -> int:
        for event in events:
            match(event).ids()
        return len(events)

    return {"slices": slices, "views": views, "ids": ids}[output]


def _updates(engine: Engine, filters: list[Filter], probe: Any, repeats: int) -> Row:
    """Time the load, then removing and adding a tenth; each until the engine has answered again."""

    def timed(change: Callable[[], None]) -> float:
        start = time.perf_counter()
        change()
        len(engine.match(probe))
        return time.perf_counter() - start

    def insert(ids: list[int]) -> None:
        for number in ids:
            engine.add(number, filters[number])

    def remove(ids: list[int]) -> None:
        for number in ids:
            engine.remove(number)

    everything = list(range(len(filters)))
    some = Random(10).sample(everything, max(1, len(everything) // 10))
    load_s = timed(lambda: insert(everything))
    removes, inserts = [], []
    for _ in range(repeats):
        removes.append(timed(lambda: remove(some)))
        inserts.append(timed(lambda: insert(some)))
    return {
        "load_s": round(load_s, 3),
        "inserts_per_s": round(len(filters) / load_s),
        "removes_per_s": round(len(some) / sorted(removes)[len(removes) // 2]),
        "reinserts_per_s": round(len(some) / sorted(inserts)[len(inserts) // 2]),
    }


def _churn_per_s(engine: Engine, filters: list[Filter], events: list[Any], min_s: float) -> int:
    """Subscribers come and go while events flow: the case that an index built in one go fears."""
    ids = Random(11).sample(range(len(filters)), min(len(filters), 100))

    def once() -> int:
        for number, event in zip(ids, events, strict=False):
            engine.remove(number)
            engine.add(number, filters[number])
            len(engine.match(event))
        return min(len(ids), len(events))

    return round(measure(once, min_s=min_s, repeats=3, max_s=INDEX_MAX_S).per_s)


def memory(workload: MatchingWorkload, size: int, engine_name: EngineName) -> Row:
    """Measure what an engine adds to the process; nobody but the engine keeps the filters."""
    for _ in workload.filters(1_000):
        pass  # what making filters needs once is not the engine's
    engine = make_engine(engine_name)
    gc.collect()
    before = rss_bytes()
    for number, wanted in enumerate(workload.filters(size)):
        engine.add(number, wanted)
    for event in workload.events[:20]:
        len(engine.match(event))
    gc.collect()
    return {"bytes_per_subscription": round((rss_bytes() - before) / size)}


def in_child(
    arguments: argparse.Namespace, kind: str, workload: str, size: int, engine: str
) -> Any:
    """Run one measurement in a fresh process, which prints its result as JSON."""
    command = [sys.executable, __file__, "--child", kind]
    command += ["--workload", workload, "--size", str(size), "--engine", engine]
    command += ["--data", str(arguments.data)] if arguments.data else []
    command += ["--quick"] if arguments.quick else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def run_child(arguments: argparse.Namespace) -> None:
    """The fresh process's side of `in_child`."""
    workload = make_workload(arguments.workload[0], arguments.data)
    size, engine = arguments.size[0], arguments.engine[0]
    if arguments.child == "memory":
        print(json.dumps(memory(workload, size, engine)))
    else:
        rows = speed(workload, size, engine, arguments.quick)
        print(json.dumps([row | {"source": workload.source} for row in rows]))


def describe(case: str, size: int) -> Row:
    """The parameters of a case, apart: `intervals-5-0.1` is the workload intervals with k and p."""
    if case.startswith("intervals-"):
        _, k, p = case.split("-")
        return {"workload": "intervals", "case": case, "k": int(k), "p": float(p)}
    name = "load" if size == LOAD_SIZE else case
    return {"workload": name, "case": name}


def targets_of(row: Row) -> tuple[Target, ...]:
    return TARGETS.get((row["case"], row["subscriptions"], row["engine"], row["output"]), ())


def judge(row: Row) -> Row:
    """Say in the row what was asked of it, and whether it came out."""
    return row | {
        "targets": [
            {"figure": target.figure, "bound": target.bound, "met": target.met(row)}
            for target in targets_of(row)
        ]
    }


def print_report(rows: list[Row]) -> None:
    """Print two tables: all figures, the outputs of one case side by side; and the targets."""
    lines: dict[tuple[str, int, str], Row] = {}
    for row in rows:
        key = row["case"], row["subscriptions"], row["engine"]
        line = lines.setdefault(
            key, dict(zip(("case", "subscriptions", "engine"), key, strict=True))
        )
        line[f"{row['output']}/s"] = row["events_per_s"]
        line["spread"] = max(line.get("spread", 0.0), row["spread"])
        line |= {heading: row[figure] for figure, heading in FIGURES.items()}
    columns = ["case", "subscriptions", "engine", *(f"{output}/s" for output in OUTPUTS), "spread"]
    print_table(
        "matching: events/s by form of the answer",
        [*columns, *FIGURES.values()],
        list(lines.values()),
    )
    held = [
        {name: row[name] for name in ("case", "subscriptions", "engine", "output")}
        | {
            "figure": target.figure,
            "asked": f"{'≤' if target.at_most else '≥'} {target.bound:,.0f}",
        }
        | {"measured": row[target.figure], "verdict": "met" if target.met(row) else "MISSED"}
        for row in rows
        for target in targets_of(row)
    ]
    if held:
        print_table("targets", list(held[0]), held)


def cases(arguments: argparse.Namespace) -> list[tuple[str, int, str]]:
    """Every (workload, size, engine) to measure; the million only as stock in the compiled engine."""
    found = [
        (workload, size, engine)
        for workload in arguments.workload or WORKLOADS
        for size in arguments.size or ((500,) if arguments.quick else SIZES)
        for engine in arguments.engine or available_engines()
    ]
    wanted = arguments.engine or available_engines()
    if not (arguments.quick or arguments.size) and found[0][0] == "stock" and "compiled" in wanted:
        found.append(("stock", LOAD_SIZE, "compiled"))
    return found


def available_engines() -> tuple[str, ...]:
    return ENGINES if make_engine().name == "compiled" else ("index",)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the matching engines.")
    parser.add_argument("--workload", action="append", choices=WORKLOADS)
    parser.add_argument("--size", action="append", type=int, help="subscriptions")
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--data", type=Path, help="folder of real data (or $RUNNEL_DATA)")
    parser.add_argument("--quick", action="store_true", help="small and short: does it work?")
    parser.add_argument("--child", choices=("speed", "memory"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.data and not arguments.data.is_dir():
        parser.error(f"--data {arguments.data}: there is no such folder")
    arguments.data = arguments.data or find_data()
    return arguments


def main() -> None:
    """Measure every case, print the table, then the JSON line."""
    arguments = parse_arguments()
    if arguments.child:
        run_child(arguments)
        return
    about = machine() | {"engine": engine_note()}
    rows: list[Row] = []
    for workload, size, engine in cases(arguments):
        print(f"{workload}, {size:,} subscriptions, {engine} ...", file=sys.stderr, flush=True)
        taken: Row = {"bytes_per_subscription": None}
        if size >= MEMORY_FROM:
            taken = in_child(arguments, "memory", workload, size, engine)
        timed = in_child(arguments, "speed", workload, size, engine)
        rows += [judge(describe(workload, size) | row | taken) for row in timed]
    print_report(rows)
    sources = sorted({f"{row['workload']}: {row['source']}" for row in rows})
    print("data: " + "; ".join(sources))
    finish("matching", rows, about)


if __name__ == "__main__":
    main()
