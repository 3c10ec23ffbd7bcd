"""What real brokers deliver: `make bench-broker`. Real processes, real sockets, the client everybody uses.

A publisher and a subscriber, each a process of its own, with one broker or a chain of three between them; at most
`window` publications are on their way (the subscriber hands tokens back to the publisher through a pipe, past the
brokers). Beside them a third process holds the other installed subscriptions, which want none of it.

window 2,000      delivered_per_s, and how long a publication is on its way when the window is full
window 1          ping-pong: the latency of one publication, from `publish_nowait` to the subscriber's loop
fan-out           one publisher, a hundred subscribers with a connection each, in one process

broker_cpu_us_per_message is the CPU that one broker takes per publication that it takes in. Rates and CPU are medians
over slices of about a second, with their spread; latencies are nearest-rank percentiles over all of them.

    make bench-broker                             everything (two minutes)
    make bench-broker ARGS='--quick'              small and short, held to nothing
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

from broker_processes import Broker, Role, chain, start_role
from harness import Row, Target, finish, judged, machine, print_table, with_verdicts
from runnel.matching import engine_note
from runnel.net.loops import LOOP_NAME

COLUMNS = (
    *("case", "traced", "brokers", "subscriptions", "event", "window", "delivered_per_s", "spread"),
    *("p50_us", "p99_us", "broker_cpu_us_per_message", "lost_share", "asked", ""),
)


class Case(NamedTuple):
    """One measurement."""

    case: str
    brokers: int = 1
    subscriptions: int = 1
    event: str = "small"
    window: int = 2_000
    subscribers: int = 1
    slice_count: int = 100_000  # deliveries
    slices: int = 6  # of which the first warms up
    sample: int = 0  # of what the brokers trace: one publication of so many, or nothing


CASES = (
    *(Case("throughput", subscriptions=n) for n in (1, 1_000, 10_000)),
    Case("throughput", subscriptions=10_000, event="quote"),
    Case("throughput", brokers=3),
    Case("throughput", brokers=3, subscriptions=10_000),
    *(Case("ping-pong", subscriptions=n, window=1, slice_count=4_000) for n in (1, 1_000, 10_000)),
    Case("ping-pong", brokers=3, window=1, slice_count=4_000),
    Case("fan-out", subscriptions=100, subscribers=100),
)


def targets_of(row: Row) -> list[Target]:
    """What is asked of a row."""
    match row:
        case {"case": "throughput", "brokers": 1, "event": "small"}:
            return [
                Target("delivered_per_s", 150_000),
                Target("broker_cpu_us_per_message", 6, at_most=True),
            ]
        case {"case": "ping-pong", "brokers": 1}:
            return [Target("p50_us", 80, at_most=True)]
        case {"case": "traced", "traced": "all"}:
            return [Target("lost_share", 0.1, at_most=True)]
        case {"case": "traced", "traced": "1%"}:
            return [Target("lost_share", 0.02, at_most=True)]
        case {"case": "extra hop"}:
            return [Target("p50_us", 40, at_most=True)]
    return []


def run_case(case: Case) -> Row:
    """Start everything, count slices, stop everything; it says which case it is, for whoever waits."""
    print(f"{case} ...", file=sys.stderr, flush=True)
    with ExitStack() as stack:
        brokers = stack.enter_context(chain(case.brokers, case.sample))
        taken, handed_back = os.pipe()
        crowd = stack.enter_context(
            start_role("crowd", brokers[-1], count=case.subscriptions - case.subscribers)
        )
        crowd.wait_for("ready")
        subscriber = stack.enter_context(
            start_role(
                *("subscriber", brokers[-1]),
                pass_fds=(handed_back,),
                tokens=handed_back,
                **_parameters(case),
            )
        )
        subscriber.wait_for("ready")
        publisher = stack.enter_context(
            start_role(
                *("publisher", brokers[0]), pass_fds=(taken,), tokens=taken, **_parameters(case)
            )
        )
        os.close(taken)
        os.close(handed_back)
        slices = list(_slices(case, brokers, subscriber))
        publisher.stop()
    return _row(case, slices)


def _parameters(case: Case) -> dict[str, Any]:
    return {
        "event": case.event,
        "window": case.window,
        "subscribers": case.subscribers,
        "slice_count": case.slice_count,
    }


class Slice(NamedTuple):
    """What a subscriber saw of so many deliveries, and what the brokers took for it."""

    seconds: float
    latencies_us: list[float]
    broker_cpu_s: float


def _slices(case: Case, brokers: list[Broker], subscriber: Role) -> Iterator[Slice]:
    before = None
    for _ in range(case.slices + 1):
        told = json.loads(subscriber.line())
        cpu = sum(broker.cpu_s() for broker in brokers) / len(brokers)
        if before is not None:
            yield Slice(told["at"] - before[0], told["latencies_us"], cpu - before[1])
        before = told["at"], cpu


def _row(case: Case, slices: list[Slice]) -> Row:
    rates = [case.slice_count / s.seconds for s in slices[1:]]
    taken_in = case.slice_count / case.subscribers
    cpu = [s.broker_cpu_s * 1e6 / taken_in for s in slices[1:]]
    latencies = sorted(us for s in slices[1:] for us in s.latencies_us)
    rate = statistics.median(rates)
    return {
        "case": case.case,
        "brokers": case.brokers,
        "subscriptions": case.subscriptions,
        "event": case.event,
        "window": case.window,
        "delivered_per_s": round(rate),
        "spread": round((max(rates) - min(rates)) / rate, 3),
        "p50_us": round(_rank(latencies, 0.5), 1),
        "p99_us": round(_rank(latencies, 0.99), 1),
        "broker_cpu_us_per_message": round(statistics.median(cpu), 2),
    }


def _rank(values: list[float], share: float) -> float:
    """The percentile by nearest rank."""
    return values[min(len(values) - 1, int(share * len(values)))]


TRACED = {0: "off", 1: "all", 100: "1%"}
"""What of the publications and deliveries goes into the trace, by sample."""

ROUNDS = 5


def traced_rows(quick: bool) -> list[Row]:
    """What tracing costs: without, with all of it, with 1%, by turns, so that all have the same machine."""
    found: dict[int, list[Row]] = {sample: [] for sample in TRACED}
    for _ in range(1 if quick else ROUNDS):
        for sample in TRACED:
            case = Case("traced", sample=sample, slices=4)
            if quick:
                case = case._replace(slice_count=2_000, slices=3)
            found[sample].append(run_case(case))
    rates = {s: statistics.median(r["delivered_per_s"] for r in rows) for s, rows in found.items()}
    cpus = {
        s: statistics.median(r["broker_cpu_us_per_message"] for r in rows)
        for s, rows in found.items()
    }
    return [
        rows[0]
        | {
            "traced": TRACED[sample],
            "delivered_per_s": round(rates[sample]),
            "broker_cpu_us_per_message": cpus[sample],
            "lost_share": round(1 - rates[sample] / rates[0], 3),
        }
        for sample, rows in found.items()
    ]


def extra_hop(rows: list[Row]) -> list[Row]:
    """What two more brokers add to the latency, for each."""
    found = {
        row["brokers"]: row
        for row in rows
        if row["case"] == "ping-pong" and row["subscriptions"] == 1
    }
    if set(found) != {1, 3}:
        return []
    return [
        {
            "case": "extra hop",
            "p50_us": round((found[3]["p50_us"] - found[1]["p50_us"]) / 2, 1),
            "p99_us": round((found[3]["p99_us"] - found[1]["p99_us"]) / 2, 1),
        }
    ]


def main() -> None:
    """Measure every case, print the table, then the JSON line."""
    parser = argparse.ArgumentParser(description="Measure real brokers.")
    parser.add_argument("--quick", action="store_true", help="small and short, held to nothing")
    parser.add_argument(
        "--only", action="append", choices=sorted({c.case for c in CASES} | {"traced"})
    )
    arguments = parser.parse_args()
    about = machine() | {"engine": engine_note(), "loop": LOOP_NAME}
    rows = []
    for case in CASES:
        if arguments.only and case.case not in arguments.only:
            continue
        if arguments.quick:
            case = case._replace(slice_count=max(400, case.slice_count // 20), slices=3)
        rows.append(run_case(case))
    rows += extra_hop(rows)
    if not arguments.only or "traced" in arguments.only:
        rows += traced_rows(arguments.quick)
    if not arguments.quick:
        rows = [judged(row, targets_of(row)) for row in rows]
    print_table("broker", COLUMNS, with_verdicts(rows))
    finish("broker", rows, about)


if __name__ == "__main__":
    main()
