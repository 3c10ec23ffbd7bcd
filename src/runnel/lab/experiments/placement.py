"""Publisher placement: POP and GRAPE on 63 brokers, against publishers that stay where they are.

placement_cases.py says what is run, and what the paper leaves open; placement_claims.py what is claimed.
The quick scale has fewer points and publishers, which publish the more often: brokers and trace sessions are the same,
but averages are over so few publishers that rows fall on either side of their bounds by the draw. It shows that
everything works; what holds is asked at the paper's scale.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from runnel.lab.experiment import Desk, Scale, Step, experiment
from runnel.lab.experiments.placement_cases import (
    ALGORITHMS,
    CLUSTER,
    LOAD,
    MEASURED,
    POP,
    RATE_PER_MIN,
    THRESHOLD,
    WARM_UP,
    WIDE,
    Case,
    Mix,
    Model,
    Pace,
    measure,
)
from runnel.lab.experiments.placement_claims import SELECTION_MS_MAX, claims
from runnel.lab.experiments.placement_figures import charts, table
from runnel.lab.experiments.placement_sweeps import Sweeps
from runnel.lab.report import Findings
from runnel.lab.shapes import make_shape
from runnel.placement.grape import Metric, Report, choose

TITLE = "Publisher placement on 63 brokers: POP and GRAPE"
SELECTING = "choosing among 63 brokers"
QUICK = (
    " This is the quick scale: with so few publishers, where each happens to start decides which rows near their bound "
    "hold; take none of them as evidence."
)
CHOICES = 21
METRICS: tuple[Metric, ...] = ("load", "delay")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a scale means. `seconds_each` is what a run takes, roughly, with all processors at it."""

    pace: Pace
    enterprise: tuple[int, ...]  # values of X
    random: tuple[int, ...]
    fan_out_4: tuple[int, ...]
    mixes_4: tuple[Mix, ...]
    at: int  # the X of what is not swept over X
    weights: tuple[int, ...]
    grape_thresholds: tuple[int, ...]
    pop_thresholds: tuple[int, ...]
    publications: int  # of each publisher where thresholds are swept
    rates_per_min: tuple[float, ...]
    seconds_each: float

    def cases(self) -> list[Case]:
        """Every run, once."""
        sweeps: list[tuple[tuple[Model, ...], Mix, tuple[int, ...], int]] = [
            ((WIDE, CLUSTER), "enterprise", self.enterprise, 2),
            ((WIDE, CLUSTER), "random", self.random, 2),
            *(((WIDE,), mix, self.fan_out_4, 4) for mix in self.mixes_4),
        ]
        found = [
            Case(model, mix, x, algorithm, fan_out)
            for models, mix, xs, fan_out in sweeps
            for model in models
            for x in xs
            for algorithm in ALGORITHMS
        ]
        middle = Case(CLUSTER, "enterprise", self.at, LOAD)
        found += [
            middle.but(algorithm=f"{metric} {weight}%")
            for metric in ("load", "delay")
            for weight in self.weights
        ]
        swept = [(LOAD, self.grape_thresholds), (POP, self.pop_thresholds)]
        found += [
            middle.but(algorithm=algorithm, threshold=threshold, publications=self.publications)
            for algorithm, thresholds in swept
            for threshold in thresholds
        ]
        found += [
            Case(WIDE, "enterprise", self.at, POP, rate_per_min=rate) for rate in self.rates_per_min
        ]
        return list(dict.fromkeys(found))


PLANS: dict[Scale, Plan] = {
    "quick": Plan(
        Pace(63, publishers=6, faster=5.0),
        enterprise=(1, 16),
        random=(16,),
        fan_out_4=(1,),
        mixes_4=("enterprise",),
        at=16,
        weights=(1, 100),
        grape_thresholds=(10, 400, 12_800),
        pop_thresholds=(10, 400),
        publications=650,
        rates_per_min=(30.0,),
        seconds_each=0.7,
    ),
    "paper": Plan(
        Pace(63, publishers=40, faster=1.0),
        enterprise=(1, 2, 4, 8, 16, 32, 63),
        random=(1, 4, 16, 63),
        fan_out_4=(1, 4, 16, 63),
        mixes_4=("enterprise", "random"),
        at=16,
        weights=(1, 25, 50, 75, 100),
        grape_thresholds=(10, 50, 100, 400, 1_600, 12_800),
        pop_thresholds=(10, 50, 100, 400, 1_600, 12_800),
        publications=1_620,  # in the paper's 18 minutes
        rates_per_min=(30.0, 60.0, 120.0, 240.0),
        seconds_each=5,
    ),
}


def steps(scale: Scale) -> Sequence[Step]:
    """Every run, and the one thing that is timed."""
    plan = PLANS[scale]
    usual = (WARM_UP + MEASURED) * THRESHOLD  # publications of each publisher
    runs = [
        Step(case.name, plan.seconds_each * (case.publications or usual) / usual)
        for case in plan.cases()
    ]
    return [*runs, Step(SELECTING, 0.1)]


@experiment("placement", TITLE, steps)
def run(desk: Desk) -> Findings:
    """Run everything, and compare."""
    plan = PLANS[desk.scale]
    cases = {case.name: case for case in plan.cases()}
    scenarios = {name: case.scenario(plan.pace) for name, case in cases.items()}
    found = desk.simulate_all(scenarios, measure)
    sweeps = Sweeps({case: found[name] for name, case in cases.items()}, plan.at)
    with desk.step(SELECTING):
        took_ms = selection_ms()
    desk.timings[SELECTING] |= {"milliseconds": took_ms, "choices": CHOICES}
    return Findings(
        "placement",
        TITLE,
        setting(plan),
        claims(sweeps, took_ms <= SELECTION_MS_MAX),
        charts(sweeps),
        [table(sweeps)],
    )


def setting(plan: Plan) -> str:
    """What was run, and what was chosen where the paper prints nothing."""
    rate = RATE_PER_MIN * plan.pace.faster
    return (
        f"{plan.pace.brokers} brokers in a balanced tree, {plan.pace.publishers} publishers at random brokers with "
        f"{rate:g} msg/min and 40 subscribers each, on X brokers. Placement's figure with its settings is not in our "
        "text, so these are chosen: there are as many publishers as in green; their rate is calibrated on POP's "
        "overhead; *wide area* is 20 to 60 ms between "
        "brokers and 40 ms to clients, *cluster* 0.2 ms each; matching takes 5.4 µs for each subscription in the "
        "table and 54 µs besides on the cluster (balance's inventories at 1.86 GHz), five times that in the wide "
        "area; covering is on, bandwidth has no limit. Measured are two trace sessions of 100 publications "
        f"({MEASURED * 60 * THRESHOLD / rate:.0f} s) after three of warm-up; where thresholds are swept, the end of "
        f"{plan.publications:,} publications ({plan.publications / rate:.0f} min). Message rates count all "
        "messages, those of placement too; overhead is the share of the messages since the start that placement added: "
        "traces, requests, pings, migrations, and the routes that change with them. Claims that say "
        f"no X are about X = {plan.at}, the only one that the text names besides 1."
        + ("" if plan.pace.faster == 1 else QUICK)
    )


def selection_ms() -> float:
    """How long GRAPE takes to choose among 63 brokers that all have subscribers: the median of a few, by the clock."""
    shape = make_shape("placement")
    neighbours: dict[str, list[str]] = {name: [] for name in shape.brokers}
    for one, other in shape.links:
        neighbours[one].append(other)
        neighbours[other].append(one)
    reports = {
        name: Report(
            name,
            tuple(others),
            bits=(1 << 100) - 1 if place % 2 else 1 << place,
            deliveries=100 + place,
            matching_s=1e-3,
            link_s=dict.fromkeys(others, 0.04 + place * 1e-4),
        )
        for place, (name, others) in enumerate(neighbours.items())
    }
    took = []
    for place in range(CHOICES):
        began = time.perf_counter()
        choose(reports, shape.brokers[-1], METRICS[place % 2], 50.0)
        took.append((time.perf_counter() - began) * 1e3)
    return round(statistics.median(took), 3)
