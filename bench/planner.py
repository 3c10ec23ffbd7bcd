"""Benchmark of the planner: seconds of CPU from profiles to a finished network, and how good that network is.

    green-80      2,000 to 8,000 subscriptions on 80 brokers, homogeneous; 4,100 heterogeneous
    green-1000    22,500 subscriptions on 1,000 brokers

Every row is Phase 2, Phase 3 and GRAPE of one algorithm: how many brokers it allocates `of` all, how many are
overloaded (`over`), their messages per second (`mean`, `max`), the share of their output that is `used`. `first` counts
the computations of closeness until every group has a partner, `computed` all of them; groups that share no publisher
are not compared. `at least` is the lower bound for the number of brokers.

Further tables have the growth of CRAM-IOU with the number of subscriptions, the effect of each optimisation, the
difference between poset pruning and the exhaustive search (green prints about 280,000 computations to find the closest
partner of each of 3,200 groups, and 5,000,000 without pruning) and, if SciPy is installed, the difference between the
heuristics and the exact packing.

Profiles are filled by direct matching: 1,280 publications of each publisher. Subscriptions are in the order of their
brokers, as brokers report them. Times are process times, since other programs may use the machine.

    make bench-planner                            everything (some minutes)
    make bench-planner ARGS='--only green-80'     one network
    make bench-planner ARGS='--quick'             small, held to nothing
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from common import (
    REPEATS,
    Row,
    Target,
    finish,
    judge,
    machine,
    print_table,
    with_verdicts,
)
from runnel.errors import InputError
from runnel.lab.inventory import make_inventory
from runnel.matching import make_engine
from runnel.planning.algorithms.bound import lower_bound
from runnel.planning.algorithms.cram.clustering import CramOptions
from runnel.planning.algorithms.cram.cram import cram
from runnel.planning.algorithms.cram.exhaustive import ExhaustiveSearch
from runnel.planning.algorithms.cram.gifs import group_by_profile
from runnel.planning.algorithms.cram.poset import GifPoset
from runnel.planning.algorithms.exact import pack_exactly
from runnel.planning.algorithms.packing import DoesNotFit, bin_packing
from runnel.planning.documents.constraints import Constraints, task_of
from runnel.planning.layout import PredictedLoad, output_ratio, overloaded_brokers, predict_loads
from runnel.planning.load import MICRO, Bin, Capacity, Item, Traffic
from runnel.planning.network import Network
from runnel.planning.planner import ALGORITHMS, Outcome, PlanOptions, lay_out
from runnel.planning.profiles import BITS, PublisherProfile, profiles_by_matching
from runnel.workload.green import GreenParameters, make_green

MESSAGE_BYTES = 244
ONCE_S = 14.0
"""An action that takes longer than this is run once."""
COLUMNS = (
    *("network", "algorithm", "subs", "of", "brokers", "at least", "over", "mean", "max", "used"),
    *("gifs", "first", "computed"),
    *("cpu_s", "spread", "runs", "asked", ""),
)


class PlanningCase(NamedTuple):
    """One network and the algorithms to try on it."""

    network: str
    brokers: int
    publishers: int
    per_publisher: int
    algorithms: Sequence[str]
    scenario: str = "homogeneous"


CASES = (
    *(PlanningCase("green-80", 80, 40, count, ("CRAM-IOU",)) for count in (50, 100, 150)),
    PlanningCase("green-80", 80, 40, 200, ALGORITHMS),
    PlanningCase("green-80", 80, 40, 200, ALGORITHMS, "heterogeneous"),
    PlanningCase("green-1000", 1_000, 100, 225, ("BIN PACKING", "CRAM-IOU", "CRAM-SPLIT")),
)
QUICK = (
    PlanningCase("green-80", 8, 4, 20, ALGORITHMS),
    PlanningCase("green-80", 8, 4, 40, ("CRAM-IOU",)),
)


def green_network(case: PlanningCase, seed: int = 1) -> Network:
    """The workload of green with its profiles, on the brokers of its inventory."""
    parameters = GreenParameters(
        publishers=case.publishers,
        per_publisher=case.per_publisher,
        brokers=case.brokers,
        scenario=case.scenario,  # type: ignore[arg-type]
    )
    workload = make_green(parameters, seed, Path())
    subscribers = sorted(workload.subscribers, key=lambda one: one.broker or 0)
    engine = make_engine()
    for number, subscriber in enumerate(subscribers):
        engine.add(number, subscriber.selection)
    events = [list(islice(one.events, BITS)) for one in workload.publishers]
    windows = profiles_by_matching(
        events, lambda event: engine.match(event).ids(), len(subscribers)
    )
    names = [f"B{n}" for n in range(case.brokers)]
    means = make_inventory("green", {"scenario": case.scenario}, names)
    return Network(
        tuple(Capacity(name, means[name].output_bytes_per_second) for name in names),
        tuple(
            PublisherProfile(one.name, one.rate_per_s, one.rate_per_s * MESSAGE_BYTES, BITS - 1)
            for one in workload.publishers
        ),
        tuple(one.name for one in subscribers),
        windows.profiles,
        windows.spans,
        tuple((names[n], names[(n - 1) // 2]) for n in range(1, len(names))),
        tuple(names[one.broker or 0] for one in workload.publishers),
        tuple(names[one.broker or 0] for one in subscribers),
    )


def timed(action: Callable[[], Any], repeats: int = REPEATS) -> tuple[Any, Row]:
    """The result and the process time: median, spread, number of runs. An action that takes long is run once."""
    times: list[float] = []
    result = None
    while not times or (len(times) < repeats and times[0] < ONCE_S):
        start = time.process_time()
        result = action()
        times.append(time.process_time() - start)
    middle = statistics.median(times)
    spread = round((max(times) - min(times)) / middle, 3) if len(times) > 1 else None
    return result, {"cpu_s": round(middle, 3), "spread": spread, "runs": len(times)}


def measure_case(case: PlanningCase, network: Network, algorithm: str) -> Row:
    """Plan one network with one algorithm."""
    items, traffic = network.items(), network.traffic()
    task = task_of(network, Constraints(), items)
    options = PlanOptions(algorithm)
    outcome: Outcome
    outcome, times = timed(lambda: lay_out(task, items, traffic, options))
    loads = predict_loads(outcome.layout, items, traffic)
    bins = {one.name: one for one in task.bins}
    row: Row = {
        "network": case.network + ("-het" if case.scenario == "heterogeneous" else ""),
        "algorithm": algorithm,
        "subs": len(items),
        "of": case.brokers,
        "brokers": len(outcome.layout.parents),
        "at least": lower_bound(items, task.bins, traffic),
        **load_figures(loads, bins),
        **times,
    }
    if outcome.cram:
        row |= {
            "gifs": outcome.cram.gifs,
            "first": outcome.cram.computations_first,
            "computed": outcome.cram.computations,
            "packings": outcome.cram.packings,
        }
    return row


def load_figures(loads: dict[str, PredictedLoad], bins: dict[str, Bin]) -> Row:
    """Figures of the predicted loads of the brokers."""
    rates = [load.input / MICRO for load in loads.values()]
    used = [output_ratio(load, bins[broker]) for broker, load in loads.items()]
    return {
        "over": len(overloaded_brokers(loads, bins)),
        "mean": round(statistics.mean(rates), 3),
        "max": round(max(rates), 3),
        "used": round(statistics.mean(used), 3),
    }


def targets_of(row: Row) -> list[Target]:
    """The targets of a row."""
    if row["algorithm"] == "CRAM-IOU" and row["network"] == "green-1000":
        return [Target("cpu_s", 60, at_most=True)]
    if row["algorithm"] == "CRAM-IOU" and row["subs"] == 8_000:
        return [Target("cpu_s", 10, at_most=True)]
    return []


def growth_exponent(rows: Sequence[Row]) -> Row | None:
    """The exponent of the time in the number of subscriptions, by least squares on logarithms."""
    points = [
        (math.log(row["subs"]), math.log(row["cpu_s"]))
        for row in rows
        if row["algorithm"] == "CRAM-IOU" and "het" not in row["network"] and row["cpu_s"] > 0
    ]
    if len(points) < 2:
        return None
    slope, _ = statistics.linear_regression([x for x, _ in points], [y for _, y in points])
    return {"figure": "growth", "points": len(points), "exponent": round(slope, 2), "paper": 2}


def measure_optimisations(network: Network) -> list[Row]:
    """CRAM-IOU with each optimisation switched off; without pruning the search is exhaustive."""
    items, bins, traffic = network.items(), network.bins(), network.traffic()
    every = CramOptions()
    rows = []
    for name, options in (
        ("all", every),
        ("no grouping", replace(every, grouping=False)),
        ("no pruning", replace(every, pruning=False)),
        ("no one-to-many", replace(every, one_to_many=False)),
    ):
        result, times = timed(partial(cram, items, bins, traffic, options))
        rows.append(
            {
                "figure": "optimisations",
                "CRAM-IOU": name,
                "subs": len(items),
                "gifs": result.gifs,
                "first": result.computations_first,
                "computed": result.computations,
                "packings": result.packings,
                **times,
                "brokers": result.best.brokers,
                "msg/s": round(result.best.rate / MICRO, 1),
            }
        )
    return rows


def make_interval_items(count: int = 1_500) -> list[Item]:
    """Subscriptions to one or two intervals of one or two publishers: many overlap, few cover each other."""
    random = Random("intervals")
    found = []
    for number in range(count):
        profile: dict[int, int] = {}
        for _ in range(random.randint(1, 2)):
            first, last = sorted(random.sample(range(BITS + 1), 2))
            publisher = random.randrange(5)
            profile[publisher] = profile.get(publisher, 0) | ((1 << last) - (1 << first))
        found.append(Item(profile, 1, (number,)))
    return found


def measure_pruning(workload: str, items: Sequence[Item], spans: Sequence[int]) -> Row:
    """For every group: whether the poset's closest partner is as close as the closest there is."""
    gifs = group_by_profile(items)
    poset, every = GifPoset("IOU"), ExhaustiveSearch("IOU", spans)
    poset.add_all(gifs)
    every.add_all(gifs)
    ratios = []
    for gif in gifs:
        pruned, best = poset.closest(gif, lambda *_: True), every.closest(gif, lambda *_: True)
        if best:
            ratios.append(pruned[0] / best[0] if pruned else 0.0)
    return {
        "figure": "pruning",
        "workload": workload,
        "gifs": len(gifs),
        "computed": poset.computations,
        "exhaustive": every.computations,
        "closest missed": round(sum(ratio < 1 - 1e-9 for ratio in ratios) / len(ratios), 4),
        "closeness kept": round(statistics.mean(ratios), 4),
    }


def small_instance(seed: int) -> tuple[list[Item], list[Bin], Traffic]:
    """Ten subscriptions, by thresholds or with random bits, and five brokers."""
    random = Random(f"{seed}/small")
    span = 12
    traffic = Traffic(
        tuple(PublisherProfile(f"P{n}", 12.0, 12.0, span - 1) for n in range(2)), (span, span)
    )
    items = []
    for number in range(10):
        bits = (
            (1 << random.randint(1, span)) - 1
            if random.random() < 0.7
            else random.getrandbits(span)
        )
        profile = {random.randrange(2): bits or 1}
        items.append(Item(profile, traffic.need(profile), (number,)))
    return items, [Bin(f"B{n}", random.randint(12, 30) * MICRO) for n in range(5)], traffic


def measure_against_exact(instances: int) -> list[Row]:
    """How far the heuristics are from the optimum, over seeded instances; no rows if there is no solver."""
    over: dict[str, list[int]] = {"BIN PACKING": [], "CRAM-IOU": [], "CRAM-SPLIT": []}
    rates: dict[str, list[float]] = {name: [] for name in over}
    missed = 0
    for seed in range(instances):
        items, bins, traffic = small_instance(seed)
        try:
            best = pack_exactly(items, bins, traffic)
        except InputError as error:
            print(f"no exact packing: {error}", file=sys.stderr)
            return []
        try:
            found = {
                "BIN PACKING": bin_packing(items, bins, traffic),
                "CRAM-IOU": cram(items, bins, traffic, CramOptions(judge_every=1)).best,
                "CRAM-SPLIT": cram(
                    items, bins, traffic, CramOptions(judge_every=1, split=True)
                ).best,
            }
        except DoesNotFit:
            missed += best is not None
            continue
        assert best is not None
        for name, scheme in found.items():
            over[name].append(scheme.brokers - best.brokers)
            if scheme.brokers == best.brokers:
                rates[name].append(scheme.rate / best.rate - 1)
    return [
        {
            "figure": "exact",
            "algorithm": name,
            "instances": len(over[name]),
            "brokers over the best": round(statistics.mean(over[name]), 3),
            "most": max(over[name]),
            "rate over the best": round(statistics.mean(rates[name]), 3),
            "packings missed": missed,
        }
        for name in over
        if over[name]
    ]


def main() -> None:
    """Measure every case, print the tables, then the JSON line."""
    parser = argparse.ArgumentParser(description="Measure the planner.")
    parser.add_argument("--quick", action="store_true", help="small, held to nothing")
    parser.add_argument("--only", choices=sorted({case.network for case in CASES}))
    arguments = parser.parse_args()
    about = machine()
    rows: list[Row] = []
    largest: Network | None = None
    for case in QUICK if arguments.quick else CASES:
        if arguments.only in (None, case.network):
            network = green_network(case)
            if case.network == "green-80" and case.scenario == "homogeneous":
                largest = network
            for algorithm in case.algorithms:
                print(f"{case.network} {len(network.subscriptions)} {algorithm}", file=sys.stderr)
                rows.append(measure_case(case, network, algorithm))
    fit = growth_exponent(rows)
    if not arguments.quick:
        rows = [judge(row, targets_of(row)) for row in rows]
    print_table("planner", COLUMNS, with_verdicts(rows))
    more = measure_optimisations(largest) if largest else []
    gaps = [
        measure_pruning(
            "intervals", make_interval_items(100 if arguments.quick else 1_500), (BITS,) * 5
        )
    ]
    if largest:
        gaps.append(measure_pruning("green", largest.items(), largest.spans))
    for title, found in (
        ("growth of CRAM-IOU: time ∝ subscriptions to this power", [fit] if fit else []),
        ("optimisations, Phase 2 only", more),
        ("poset pruning against the exhaustive search, IOU", gaps),
        (
            "against the exact packing, 10 subscriptions",
            measure_against_exact(5 if arguments.quick else 60),
        ),
    ):
        if found:
            print_table(title, [name for name in found[0] if name != "figure"], found)
            rows += found
    finish("planner", rows, about)


if __name__ == "__main__":
    main()
