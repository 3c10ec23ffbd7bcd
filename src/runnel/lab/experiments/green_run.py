"""One run of the experiment `green`, from workload to figures: profile the past, plan, run the plan, measure.

A planner never sees what is measured: its profiles end where the run begins.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from runnel.allocation.closeness import Metric
from runnel.allocation.clustering import CramOptions
from runnel.allocation.constraints import Constraints, Task, task_of
from runnel.allocation.cram import CramResult, cram
from runnel.allocation.layout import Layout, output_ratio, predicted
from runnel.allocation.load import MICRO, Bin, Capacity, Item, Traffic, scaling_for
from runnel.allocation.network import Network
from runnel.allocation.overlay import build_overlay, place_publishers, without_idle
from runnel.allocation.packing import Scheme
from runnel.allocation.planner import Outcome, PlanOptions, lay_out
from runnel.allocation.profiles import PublisherProfile, by_matching
from runnel.errors import BugError
from runnel.lab.expectation import Delivered, check_deliveries
from runnel.lab.experiments.green_cases import (
    CLIENT_MS,
    DELAY,
    LAST,
    LAST_XOR,
    MANUAL,
    MESSAGE_BYTES,
    Case,
    Net,
)
from runnel.lab.inventory import make_inventory
from runnel.lab.laid import laid_out
from runnel.lab.metrics import (
    Floats,
    Spread,
    Window,
    delays,
    hop_counts,
    intervals,
    loads,
    spread,
)
from runnel.lab.run import Run, run_scenario
from runnel.matching import make_engine
from runnel.trace.reader import open_trace
from runnel.workload.files import Event
from runnel.workload.registry import make_workload
from runnel.workload.shape import Loop, Publisher

LAST_OF: Mapping[str, Metric] = {LAST: "IOU", LAST_XOR: "XOR"}


@dataclass(frozen=True, slots=True)
class Planning:
    """How CRAM came to its plan; zeros for others."""

    gifs: int = 0
    clusters: int = 0
    first: int = 0  # computations of closeness until every group has a partner
    computed: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of a run, over the brokers that the plan uses."""

    brokers: int
    rate: Spread  # publications into a broker, per second
    input: Spread
    output: Spread
    overloaded: int
    hops: float
    delay_ms: float
    rate_error: float  # |predicted / measured − 1| of the message rate, average over brokers
    output_error: float  # the same of the output
    bytes_each: float  # that left brokers, for every publication that did
    planning: Planning
    delivered: Delivered
    drained: bool


def work(case: Case, place: Path, seed: int) -> tuple[Measured, dict[str, Any]]:
    """One run in all, and what it took. Its trace is removed: there are many, and large."""
    began = time.perf_counter()
    network = profiled(case.net, case.bits, seed)
    cpu = time.process_time()
    outcome = planned(case, network, seed)
    plan_cpu_s = time.process_time() - cpu
    scenario = replace(case.scenario(), laid=laid_out(outcome.layout, network))
    run = run_scenario(scenario, place, seed)
    found = measure(run, outcome, network)
    shutil.rmtree(run.trace)
    seconds = time.perf_counter() - began
    timing = {"seconds": round(seconds, 3), "plan_cpu_s": round(plan_cpu_s, 4)}
    return found, timing | {"handlings": run.handlings}


# -- what the planner is told -------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def profiled(net: Net, bits: int, seed: int) -> Network:
    """The network with profiles of the publications before time zero."""
    workload = make_workload("stocks", net.workload(), seed, Path())
    # As brokers report them: those of one broker together.
    subscribers = sorted(workload.subscribers, key=lambda one: one.broker or 0)
    engine = make_engine()
    for number, subscriber in enumerate(subscribers):
        engine.add(number, subscriber.selection)
    before = [past(one, bits) for one in workload.publishers]
    windows = by_matching(before, lambda event: engine.match(event).ids(), len(subscribers))
    names = [f"B{n}" for n in range(net.brokers)]
    means = make_inventory("green", {"scenario": net.kind}, names)
    return Network(
        tuple(
            Capacity(name, means[name].output_bytes_per_second * net.capacity, DELAY)
            for name in names
        ),
        tuple(
            PublisherProfile(one.name, one.rate_per_s, one.rate_per_s * MESSAGE_BYTES, bits - 1)
            for one in workload.publishers
        ),
        tuple(one.name for one in subscribers),
        windows.profiles,
        windows.spans,
        scaling=scaling_for(bits),
    )


def past(publisher: Publisher, count: int) -> list[Event]:
    """The so many publications before time zero, of a publisher that goes on with its first event then.

    >>> from runnel.language import Filter
    >>> one = Publisher("P", Filter([]), 1.0, Loop([{"a": 1}, {"a": 2}, {"a": 3}]))
    >>> [event["a"] for event in past(one, 5)]
    [2, 3, 1, 2, 3]
    """
    if not isinstance(publisher.events, Loop):
        raise BugError(f"{publisher.name} does not repeat its events, so that it has no past")
    events = publisher.events.events
    skipped = -count % len(events)
    return list(islice(cycle(events), skipped, skipped + count))


# -- the plan -----------------------------------------------------------------------------------------------


def planned(case: Case, network: Network, seed: int) -> Outcome:
    """What the algorithm makes of the network."""
    items, traffic = network.items(), network.traffic()
    task = task_of(network, Constraints(headroom_percent=case.headroom), items)
    relocate = case.grape != "without GRAPE"
    bins = {one.name: one for one in task.bins}
    if case.algorithm in LAST_OF:
        outcome = _last(task, items, traffic, CramOptions(LAST_OF[case.algorithm]))
        if not relocate:
            return outcome
        layout = place_publishers(outcome.layout, items, traffic, bins)
        return replace(outcome, layout=without_idle(layout, items, traffic, bins))
    outcome = lay_out(task, items, traffic, PlanOptions(case.algorithm, seed, relocate=relocate))
    if case.algorithm == MANUAL and case.grape:
        return Outcome(place_publishers(outcome.layout, items, traffic, bins))
    return outcome


def _last(task: Task, items: Sequence[Item], traffic: Traffic, options: CramOptions) -> Outcome:
    """The scheme with which clustering ends: of all that CRAM saw, the one with the lowest rate."""

    def lowest(some: Sequence[Item], bins: Sequence[Bin], traffic: Traffic) -> Scheme:
        return _lowest(cram(some, bins, traffic, options))

    result = cram(task.items, task.bins, traffic, options)
    return Outcome(build_overlay(_lowest(result), items, task.bins, traffic, lowest), result)


def _lowest(result: CramResult) -> Scheme:
    return min(result.schemes, key=lambda one: (one.rate, one.brokers))


# -- what came of it ----------------------------------------------------------------------------------------


def measure(run: Run, outcome: Outcome, network: Network) -> Measured:
    """Everything that is wanted of one run."""
    trace, info = open_trace(run.trace), run.info
    window = Window(info.window_start_ns, info.window_end_ns)
    load = loads(trace, window)
    rows = intervals(trace, window)
    sent = int(rows["bytes_out"].to_numpy().sum())
    rates, outputs = _predictions(outcome.layout, network, load.brokers)
    result = outcome.cram
    return Measured(
        brokers=len(load.brokers),
        rate=spread(load.message_rate),
        input=spread(load.input_ratio),
        output=spread(load.output_ratio),
        overloaded=int(np.sum((load.output_ratio > 1) | (load.input_ratio > 1))),
        hops=float(np.mean(hop_counts(trace, window))),
        delay_ms=(float(np.mean(delays(trace, window))) + run.client_wait_ns) / 1e6 + CLIENT_MS,
        rate_error=_error(rates, load.message_rate),
        output_error=_error(outputs, load.output_ratio),
        bytes_each=sent / max(1, int(load.publications_out.sum())),
        planning=Planning(result.gifs, result.units, result.computations_first, result.computations)
        if result
        else Planning(),
        # Every route was there before time zero, so nobody needs a grace.
        delivered=check_deliveries(trace, Window(info.zero_ns, info.window_end_ns), grace_ns=0),
        drained=info.drained,
    )


def _predictions(layout: Layout, network: Network, brokers: Sequence[str]) -> tuple[Floats, Floats]:
    """The message rate and the output utilisation that the planner expects of each broker."""
    expected = predicted(layout, network.items(), network.traffic())
    bins = {one.name: one for one in network.bins()}
    return (
        np.array([expected[name].input / MICRO for name in brokers]),
        np.array([output_ratio(expected[name], bins[name]) for name in brokers]),
    )


def _error(expected: Floats, measured: Floats) -> float:
    """How far off predictions are, on average over brokers that had something to do."""
    busy = measured > 0
    return float(np.mean(np.abs(expected[busy] / measured[busy] - 1))) if busy.any() else 0.0
