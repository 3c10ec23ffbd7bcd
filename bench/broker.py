"""What real brokers deliver: `make bench-broker`. Real processes, real sockets, the public client.

A publisher and a subscriber, each a process of its own, with one broker or a chain of three between them; at most
`window` publications are under way (the subscriber returns tokens to the publisher through a pipe, not through
brokers). A third process holds the other installed subscriptions, which do not match.

window 2,000      delivered_per_s, and how long a publication takes when the window is full
window 1          ping-pong: the latency of one publication, from `publish_nowait` to the subscriber's loop
access            the same without and with an access file, by turns: rate_ratio and p50_ratio are with against without
fan-out           one publisher, a hundred subscribers with a connection each, in one process
tls               the same without and with TLS, by turns: rate_ratio and p50_ratio are with it against without
secured           the same without and with both, TLS and an access file

broker_cpu_us_per_message is the CPU that one broker takes per publication that it takes in. Rates and CPU are medians
over slices of about a second, with their spread; latencies are nearest-rank percentiles over all of them.

    make bench-broker                             everything (two minutes)
    make bench-broker ARGS='--quick'              small and short, without targets
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from broker_processes import CLIENT, Role, SpawnedBroker, chain, start_role
from common import Row, Target, finish, judge, machine, print_table, with_verdicts
from runnel.matching import engine_note
from runnel.net.loops import LOOP_NAME
from runnel.operate.certificate_folder import CertificateFolder
from runnel.operate.certificates import make_authority, make_certificates

COLUMNS = (
    *(
        "case",
        "traced",
        "access",
        "tls",
        "secured",
        "brokers",
        "subscriptions",
        "event",
        "window",
        "delivered_per_s",
        "spread",
    ),
    *("p50_us", "p99_us", "broker_cpu_us_per_message", "lost_share"),
    *("rate_ratio", "p50_ratio", "asked", ""),
)


class BrokerCase(NamedTuple):
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
    access: bool = False  # whether everybody has to log in, and rules hold
    tls: bool = False


CASES = (
    *(BrokerCase("throughput", subscriptions=n) for n in (1, 1_000, 10_000)),
    BrokerCase("throughput", subscriptions=10_000, event="quote"),
    BrokerCase("throughput", brokers=3),
    BrokerCase("throughput", brokers=3, subscriptions=10_000),
    *(
        BrokerCase("ping-pong", subscriptions=n, window=1, slice_count=4_000)
        for n in (1, 1_000, 10_000)
    ),
    BrokerCase("ping-pong", brokers=3, window=1, slice_count=4_000),
    BrokerCase("fan-out", subscriptions=100, subscribers=100),
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


def run_case(case: BrokerCase) -> Row:
    """Start everything, count slices, stop everything; it says which case it is, for whoever waits."""
    print(f"{case} ...", file=sys.stderr, flush=True)
    with ExitStack() as stack:
        folder = _certificates(case.brokers, stack) if case.tls else None
        brokers = stack.enter_context(
            chain(case.brokers, case.sample, folder, has_rules=case.access)
        )
        taken, handed_back = os.pipe()
        crowd = stack.enter_context(
            start_role("crowd", brokers[-1], count=case.subscriptions - case.subscribers)
        )
        crowd.wait_for("ready")
        subscriber = stack.enter_context(
            start_role(
                "subscriber",
                brokers[-1],
                pass_fds=(handed_back,),
                tokens=handed_back,
                **_parameters(case),
            )
        )
        subscriber.wait_for("ready")
        publisher = stack.enter_context(
            start_role(
                "publisher", brokers[0], pass_fds=(taken,), tokens=taken, **_parameters(case)
            )
        )
        os.close(taken)
        os.close(handed_back)
        slices = list(_slices(case, brokers, subscriber))
        publisher.stop()
    return _row(case, slices)


def _certificates(brokers: int, stack: ExitStack) -> CertificateFolder:
    """For so many brokers, and for clients."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    make_authority(folder)
    make_certificates(folder, [f"B{number + 1}" for number in range(brokers)], [CLIENT])
    return CertificateFolder(folder)


def _parameters(case: BrokerCase) -> dict[str, Any]:
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


def _slices(case: BrokerCase, brokers: list[SpawnedBroker], subscriber: Role) -> Iterator[Slice]:
    before = None
    for _ in range(case.slices + 1):
        told = json.loads(subscriber.line())
        cpu = sum(broker.cpu_s() for broker in brokers) / len(brokers)
        if before is not None:
            yield Slice(told["at"] - before[0], told["latencies_us"], cpu - before[1])
        before = told["at"], cpu


def _row(case: BrokerCase, slices: list[Slice]) -> Row:
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
            case = BrokerCase("traced", sample=sample, slices=4)
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


SWITCHES = {
    "access": (
        BrokerCase("access", slices=4),
        BrokerCase("access", window=1, slice_count=4_000, slices=4),
    ),
    "tls": (
        BrokerCase("tls", slices=4),
        BrokerCase("tls", brokers=3, slices=4),
        BrokerCase("tls", window=1, slice_count=4_000, slices=4),
    ),
    "secured": (
        BrokerCase("secured", slices=4),
        BrokerCase("secured", window=1, slice_count=4_000, slices=4),
    ),
}
"""What is measured without and with something."""

SWITCHED_FIELDS = {"access": ("access",), "tls": ("tls",), "secured": ("access", "tls")}
"""The fields of a case that each of them switches."""


def switched_rows(switch: str, quick: bool) -> list[Row]:
    """What something costs: without and with it, by turns; ratios of the medians."""
    rows: list[Row] = []
    for case in SWITCHES[switch]:
        if quick:
            case = case._replace(slice_count=max(400, case.slice_count // 50), slices=3)
        found: dict[bool, list[Row]] = {False: [], True: []}
        for _ in range(1 if quick else ROUNDS):
            for is_on in found:
                switched: dict[str, Any] = dict.fromkeys(SWITCHED_FIELDS[switch], is_on)
                found[is_on].append(run_case(case._replace(**switched)))
        off, on = (_median_row(found[is_on], {switch: "on" if is_on else "off"}) for is_on in found)
        on["rate_ratio"] = round(on["delivered_per_s"] / off["delivered_per_s"], 3)
        on["p50_ratio"] = round(on["p50_us"] / off["p50_us"], 3)
        rows += [off, on]
    return rows


def _median_row(rows: list[Row], told: Row) -> Row:
    names = ("delivered_per_s", "p50_us", "p99_us", "broker_cpu_us_per_message")
    return rows[0] | told | {n: statistics.median(row[n] for row in rows) for n in names}


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
    parser.add_argument("--quick", action="store_true", help="small and short, without targets")
    parser.add_argument(
        "--only", action="append", choices=sorted({c.case for c in CASES} | {"traced", *SWITCHES})
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
    for switch in SWITCHES:
        if not arguments.only or switch in arguments.only:
            rows += switched_rows(switch, arguments.quick)
    if not arguments.quick:
        rows = [judge(row, targets_of(row)) for row in rows]
    print_table("broker", COLUMNS, with_verdicts(rows))
    finish("broker", rows, about)


if __name__ == "__main__":
    main()
