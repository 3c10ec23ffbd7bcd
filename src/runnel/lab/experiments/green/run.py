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

from runnel.errors import BugError
from runnel.lab.expectation import DeliveryCheck, check_deliveries
from runnel.lab.experiments.green.cases import (
    CLIENT_MS,
    DELAY,
    LAST,
    LAST_XOR,
    MANUAL,
    MESSAGE_BYTES,
    GreenCase,
    Net,
)
from runnel.lab.inventory import make_inventory
from runnel.lab.metrics import (
    BrokerSpread,
    Floats,
    Window,
    delays,
    hop_counts,
    intervals,
    loads,
    spread,
)
from runnel.lab.planned_network import make_planned_network
from runnel.lab.run import ScenarioRun, run_scenario
from runnel.matching import make_engine
from runnel.planning.algorithms.cram.closeness import Metric
from runnel.planning.algorithms.cram.clustering import CramOptions
from runnel.planning.algorithms.cram.cram import cram
from runnel.planning.algorithms.overlay import build_overlay, drop_idle_brokers, place_publishers
from runnel.planning.algorithms.packing import Scheme
from runnel.planning.documents.constraints import Constraints, Task, task_of
from runnel.planning.layout import Layout, output_ratio, predict_loads
from runnel.planning.load import MICRO, PLAIN, Bin, Capacity, Item, Traffic, scaling_for
from runnel.planning.network import Network
from runnel.planning.planner import Outcome, PlanOptions, lay_out
from runnel.planning.profiles import PublisherProfile, profiles_by_matching
from runnel.trace.reader import open_trace
from runnel.workload.files import Event
from runnel.workload.registry import make_workload
from runnel.workload.shape import Loop, WorkloadPublisher

LAST_OF: Mapping[str, Metric] = {LAST: "IOU", LAST_XOR: "XOR"}


@dataclass(frozen=True, slots=True)
class Planning:
    """How CRAM came to its plan; zeros for others."""

    gifs: int = 0
    clusters: int = 0
    first: int = 0  # computations of closeness until every group has a partner
    computed: int = 0


@dataclass(frozen=True, slots=True)
class Asking:
    """What a BIR and its answers cost: frames and bytes that brokers wrote, to each other and to CROC."""

    brokers: int
    requests: int
    answers: int
    bytes: int
    written_bytes: int  # by all brokers before, while profiles were filled
    seconds: float  # of simulated time, from the dial to the last answer


@dataclass(frozen=True, slots=True)
class LiveResult:
    """The plan of the answers against the offline plan, GRAPE live against GRAPE on paper, and what asking costs."""

    asking: Asking
    brokers: int
    offline_brokers: int
    rate: float  # publications into all brokers per second, as planned
    offline_rate: float
    publishers: int
    moved: int  # by live GRAPE, away from the root
    same_homes: int  # … to where GRAPE places them on paper
    profiled: DeliveryCheck  # of the run with profiles
    profiled_drained: bool


@dataclass(frozen=True, slots=True)
class GreenResult:
    """What was measured in a run, over the brokers that the plan uses."""

    brokers: int
    rate: BrokerSpread  # publications into a broker, per second
    input: BrokerSpread
    output: BrokerSpread
    overloaded: int
    overloaded_output: int  # of these, the brokers that were to send more than they can
    hops: float
    delay_ms: float
    rate_error: float  # |predicted / measured − 1| of the message rate, average over brokers
    output_error: float  # the same of the output
    bytes_each: float  # that left brokers, for every publication that did
    planning: Planning
    delivered: DeliveryCheck
    drained: bool
    plan_cpu_s: float  # of this machine's clock, so for rows that are declared as such only
    live: LiveResult | None = None  # of a live run


def run_case(case: GreenCase, place: Path, seed: int) -> tuple[GreenResult, dict[str, Any]]:
    """Plan, run and measure one case; also how long it took. The trace is removed, because traces are large."""
    began = time.perf_counter()
    network = profile_network(case.net, case.bits, seed)
    if not case.is_scaled:
        network = replace(network, scaling=PLAIN)
    cpu = time.process_time()
    outcome = plan_case(case, network, seed)
    plan_cpu_s = time.process_time() - cpu
    scenario = replace(case.scenario(), planned=make_planned_network(outcome.layout, network))
    run = run_scenario(scenario, place, seed)
    found = measure(run, outcome, network, plan_cpu_s)
    shutil.rmtree(run.trace)
    seconds = time.perf_counter() - began
    timing = {"seconds": round(seconds, 3), "plan_cpu_s": round(plan_cpu_s, 4)}
    return found, timing | {"handlings": run.handlings}


# -- what the planner is told -------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def profile_network(net: Net, bits: int, seed: int) -> Network:
    """The network with profiles of the publications before time zero."""
    workload = make_workload("stocks", net.workload(), seed, Path())
    # As brokers report them: those of one broker together.
    subscribers = sorted(workload.subscribers, key=lambda one: one.broker or 0)
    engine = make_engine()
    for number, subscriber in enumerate(subscribers):
        engine.add(number, subscriber.selection)
    before = [past_events(one, bits) for one in workload.publishers]
    windows = profiles_by_matching(
        before, lambda event: engine.match(event).ids(), len(subscribers)
    )
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


def past_events(publisher: WorkloadPublisher, count: int) -> list[Event]:
    """The last `count` publications before time zero, of a publisher that starts with its first event at time zero.

    >>> from runnel.language import Filter
    >>> one = WorkloadPublisher("P", Filter([]), 1.0, Loop([{"a": 1}, {"a": 2}, {"a": 3}]))
    >>> [event["a"] for event in past_events(one, 5)]
    [2, 3, 1, 2, 3]
    """
    if not isinstance(publisher.events, Loop):
        raise BugError(f"{publisher.name} does not repeat its events, so that it has no past")
    events = publisher.events.events
    skipped = -count % len(events)
    return list(islice(cycle(events), skipped, skipped + count))


# -- the plan -----------------------------------------------------------------------------------------------


def plan_case(case: GreenCase, network: Network, seed: int) -> Outcome:
    """Plan the network with the algorithm of the case."""
    items, traffic = network.items(), network.traffic()
    task = task_of(network, Constraints(headroom_percent=case.headroom), items)
    relocate = case.grape != "without GRAPE"
    bins = {one.name: one for one in task.bins}
    if case.algorithm in LAST_OF:
        outcome = _plan_by_last_scheme(task, items, traffic, CramOptions(LAST_OF[case.algorithm]))
        if not relocate:
            return outcome
        layout = place_publishers(outcome.layout, items, traffic, bins)
        return replace(outcome, layout=drop_idle_brokers(layout, items, traffic, bins))
    outcome = lay_out(task, items, traffic, PlanOptions(case.algorithm, seed, relocate=relocate))
    if case.algorithm == MANUAL and case.grape:
        return Outcome(place_publishers(outcome.layout, items, traffic, bins))
    return outcome


def _plan_by_last_scheme(
    task: Task, items: Sequence[Item], traffic: Traffic, options: CramOptions
) -> Outcome:
    """The scheme with which clustering ends, for the subscriptions and for every layer of the overlay."""

    def last(some: Sequence[Item], bins: Sequence[Bin], traffic: Traffic) -> Scheme:
        return cram(some, bins, traffic, options).last

    result = cram(task.items, task.bins, traffic, options)
    return Outcome(build_overlay(result.last, items, task.bins, traffic, last), result)


# -- measuring the run --------------------------------------------------------------------------------------


def measure(run: ScenarioRun, outcome: Outcome, network: Network, plan_cpu_s: float) -> GreenResult:
    """Measure one run."""
    trace, info = open_trace(run.trace), run.info
    window = Window(info.window_start_ns, info.window_end_ns)
    load = loads(trace, window)
    rows = intervals(trace, window)
    sent = int(rows["bytes_out"].to_numpy().sum())
    rates, outputs = _predict(outcome.layout, network, load.brokers)
    result = outcome.cram
    return GreenResult(
        brokers=len(load.brokers),
        rate=spread(load.message_rate),
        input=spread(load.input_ratio),
        output=spread(load.output_ratio),
        overloaded=int(np.sum((load.output_ratio > 1) | (load.input_ratio > 1))),
        overloaded_output=int(np.sum(load.output_ratio > 1)),
        hops=float(np.mean(hop_counts(trace, window))),
        delay_ms=(float(np.mean(delays(trace, window))) + run.client_wait_ns) / 1e6 + CLIENT_MS,
        rate_error=_mean_error(rates, load.message_rate),
        output_error=_mean_error(outputs, load.output_ratio),
        bytes_each=sent / max(1, int(load.publications_out.sum())),
        planning=Planning(result.gifs, result.units, result.computations_first, result.computations)
        if result
        else Planning(),
        # Every route was there before time zero, so nobody needs a grace.
        delivered=check_deliveries(trace, Window(info.zero_ns, info.window_end_ns), grace_ns=0),
        drained=info.drained,
        plan_cpu_s=plan_cpu_s,
    )


def _predict(layout: Layout, network: Network, brokers: Sequence[str]) -> tuple[Floats, Floats]:
    """The message rate and the output utilisation that the planner expects of each broker."""
    expected = predict_loads(layout, network.items(), network.traffic())
    bins = {one.name: one for one in network.bins()}
    return (
        np.array([expected[name].input / MICRO for name in brokers]),
        np.array([output_ratio(expected[name], bins[name]) for name in brokers]),
    )


def _mean_error(expected: Floats, measured: Floats) -> float:
    """How far off predictions are, on average over brokers that had something to do."""
    busy = measured > 0
    return float(np.mean(np.abs(expected[busy] / measured[busy] - 1))) if busy.any() else 0.0
