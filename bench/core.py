"""What the broker core costs, and what the simulator can carry: `make bench-core`.

Every measurement runs in a fresh process, one after the other. What the figures mean:

door          CPU per publication through `Broker.handle`, from bytes to bytes: 12 attributes, 10,000
              subscriptions, one local match, one forward; in chunks of so many publications, the
              acknowledgements of the peers included; `clients`: how many share the local matches
part          the parts of it, each timed by itself: reading frames, reading attributes too, finding the next hops,
              making the frame to forward, queueing on two links
access        what checking publications by the rules of their user adds, per publication
handlings     messages that brokers of a simulated world take in per second of CPU; publishers send one at
              a time, or ten
memory        what a simulated world takes in which every broker holds every subscription
build         how long a world takes from nothing until every subscription is ready: a tree of brokers, 100
              publishers, subscriptions as in balance §6.2, each of a client of its own

    make bench-core                            everything (a few minutes)
    make bench-core ARGS='--only door'         one figure; also --quick
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
from typing import Any

from common import Row, Target, finish, judge, machine, print_table, with_verdicts
from core_door import access_rows, door_rows, part_rows
from core_world import build_rows, handling_rows, memory_rows
from runnel.matching import engine_note, make_engine

CASES: dict[str, list[list[Any]]] = {
    "door": [
        *([engine, chunk, 1] for engine in ("compiled", "index") for chunk in (1, 10, 100)),
        ["compiled", 100, 100],
    ],
    "part": [["compiled"], ["index"]],
    "access": [[rules, chunk] for rules in (1, 10) for chunk in (1, 100)],
    "handlings": [[1], [10]],
    "memory": [[120, 20_000]],
    "build": [[1_000, 22_500]],
}
COLUMNS = {
    "door": ("engine", "chunk", "clients", "subscriptions", "us_per_publication", "spread"),
    "part": ("engine", "part", "us_per_publication", "spread"),
    "access": ("rules", "chunk", "us_per_publication", "ratio"),
    "handlings": ("burst", "brokers", "subscriptions", "handlings_per_s", "spread"),
    "memory": ("brokers", "subscriptions", "rows", "memory_gib", "bytes_per_row", "build_s"),
    "build": ("brokers", "subscriptions", "rows", "build_s", "messages", "memory_gib"),
}


def targets_of(row: Row) -> list[Target]:
    """What is asked of a row."""
    match row:
        case {"figure": "door", "engine": "compiled", "chunk": 100, "clients": 1}:
            return [Target("us_per_publication", 4, at_most=True)]
        case {"figure": "access"}:
            return [Target("us_per_publication", 1, at_most=True)]
        case {"figure": "handlings"}:
            return [Target("handlings_per_s", 80_000)]
        case {"figure": "memory"}:
            return [Target("memory_gib", 4, at_most=True)]
        case {"figure": "build"}:
            return [Target("build_s", 60, at_most=True)]
    return []


def measure_case(figure: str, arguments: list[Any], quick: bool) -> list[Row]:
    """One measurement, in this process."""
    measures: dict[str, Any] = {
        "door": door_rows,
        "part": part_rows,
        "access": access_rows,
        "handlings": handling_rows,
        "memory": memory_rows,
        "build": build_rows,
    }
    gc.collect()
    gc.freeze()
    rows: list[Row] = measures[figure](*arguments, quick)
    return rows


def in_child(figure: str, arguments: list[Any], quick: bool) -> list[Row]:
    """One measurement in a fresh process, which prints its rows as JSON."""
    command = [sys.executable, __file__, "--child", json.dumps([figure, arguments])]
    command += ["--quick"] if quick else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    rows: list[Row] = json.loads(done.stdout.splitlines()[-1])
    return rows


def print_report(rows: list[Row]) -> None:
    """One table per figure, the target beside what it is asked of."""
    for figure, columns in COLUMNS.items():
        found = [row for row in rows if row["figure"] == figure]
        if found:
            print_table(f"core: {figure}", [*columns, "asked", ""], with_verdicts(found))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the broker core and the simulator.")
    parser.add_argument("--only", action="append", choices=tuple(CASES), help="this figure")
    parser.add_argument(
        "--quick", action="store_true", help="small and short, held to nothing: does it work?"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure every case, print the tables, then the JSON line."""
    arguments = parse_arguments()
    if arguments.child:
        figure, parameters = json.loads(arguments.child)
        print(json.dumps(measure_case(figure, parameters, arguments.quick)))
        return
    about = machine() | {"engine": engine_note()}
    has_compiled = make_engine().name == "compiled"
    rows: list[Row] = []
    for figure in arguments.only or CASES:
        for parameters in CASES[figure][: 1 if arguments.quick else None]:
            if parameters[0] == "compiled" and not has_compiled:
                continue
            print(f"{figure} {parameters} ...", file=sys.stderr, flush=True)
            found = in_child(figure, parameters, arguments.quick)
            rows += found if arguments.quick else [judge(row, targets_of(row)) for row in found]
    print_report(rows)
    finish("core", rows, about)


if __name__ == "__main__":
    main()
