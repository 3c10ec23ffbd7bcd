"""Green allocation: plans by every algorithm, each of them run, against a network that nobody planned.

green_cases.py says what is run, and what the paper leaves open; green_claims.py what is claimed. The quick scale has
small networks and brokers of a quarter of the capacity: it shows that everything works, and no row is evidence.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runnel.lab.experiment import Desk, Scale, Step, Timing, experiment
from runnel.lab.experiments.green_cases import (
    ALGORITHMS,
    HEADROOM,
    IOU,
    LAST,
    MANUAL,
    MOST,
    PACKING,
    PAIRWISE_K,
    PAIRWISE_N,
    RATE_PER_MIN,
    XOR,
    Case,
    Kind,
    Net,
)
from runnel.lab.experiments.green_claims import claims
from runnel.lab.experiments.green_figures import charts, table
from runnel.lab.experiments.green_run import work
from runnel.lab.experiments.green_sweeps import Sweeps, exponent
from runnel.lab.report import Findings

TITLE = "Green allocation: CRAM, its rivals, and the plans run"
PLANNING = "planning, seconds of CPU"
QUICK = (
    " This is the quick scale: small networks of weaker brokers, and quotes that repeat every minute; take no row as "
    "evidence."
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a scale means. `at` is the network in which bits are swept, `small` that of everything else."""

    homogeneous: tuple[Net, ...]
    heterogeneous: tuple[Net, ...]
    large: tuple[Net, ...]
    minutes: float
    long_minutes: float  # of one run, to see that it makes no difference
    at: Net
    small: Net
    bits: tuple[int, ...] = (128, 256, 512, 1_024)
    headrooms: tuple[float, ...] = (0.0, 5.0, 10.0, 20.0)
    days: tuple[int, ...] = (500, 1_000, 2_000)
    capacities: tuple[float, ...] = (0.5, 0.75, 1.5, 2.0)
    seconds_each: float = 40.0  # what the longest of the usual runs takes

    def cases(self) -> list[Case]:
        """Every run, once; the longest first."""
        return list(dict.fromkeys(self._cases()))

    def _cases(self) -> Iterator[Case]:
        for net in self.large:
            for algorithm in MOST:
                yield Case(net, algorithm, self.minutes)
        for net in (*self.homogeneous, *self.heterogeneous):
            for algorithm in ALGORITHMS:
                yield Case(net, algorithm, self.minutes)
            for algorithm in (IOU, LAST):
                yield Case(net, algorithm, self.minutes, "without GRAPE")
            yield Case(net, MANUAL, self.minutes, "with GRAPE")
        for algorithm in (IOU, PACKING):
            for bits in self.bits:
                yield Case(self.at, algorithm, self.minutes, bits=bits)
            for headroom in self.headrooms:
                yield Case(self.small, algorithm, self.minutes, headroom=headroom)
            for days in self.days:
                yield Case(self.small._replace(days=days), algorithm, self.minutes)
            yield Case(self.small, algorithm, self.long_minutes)
        for algorithm in (MANUAL, PACKING, IOU):
            for capacity in self.capacities:
                net = self.small._replace(capacity=self.small.capacity * capacity)
                yield Case(net, algorithm, self.minutes)

    def seconds(self, case: Case) -> float:
        """About how long a run takes with all processors at it: deliveries, and brokers that each passes."""
        net = case.net
        weight = net.subscriptions + 100 * (net.brokers if case.algorithm == MANUAL else 0)
        usual = self.at.subscriptions + 100 * self.at.brokers
        return self.seconds_each / 2 * weight / usual * case.minutes / self.minutes


def _nets(kind: Kind, usual: Net, each: Sequence[int]) -> tuple[Net, ...]:
    """The same network with so many subscriptions per publisher."""
    return tuple(usual._replace(kind=kind, per_publisher=count) for count in each)


SMALL = Net(12, 6, 20, days=70, capacity=0.25)
EIGHTY = Net(80, 40, 50)
PLANS: dict[Scale, Plan] = {
    "quick": Plan(
        homogeneous=_nets("homogeneous", SMALL, (20, 40)),
        heterogeneous=_nets("heterogeneous", SMALL, (30, 60)),
        large=(SMALL._replace(brokers=24, publishers=8, per_publisher=45),),
        minutes=1.0,
        long_minutes=2.0,
        at=SMALL._replace(per_publisher=40),
        small=SMALL,
        bits=(128, 1_024),
        headrooms=(0.0, 10.0),
        days=(280,),
        capacities=(2.0,),
        seconds_each=1.0,
    ),
    "paper": Plan(
        homogeneous=_nets("homogeneous", EIGHTY, (200, 150, 100, 50)),
        heterogeneous=_nets("heterogeneous", EIGHTY, (200, 150, 100, 50)),
        large=(Net(1_000, 100, 225), Net(400, 72, 225)),
        minutes=3.5,
        long_minutes=10.0,
        at=EIGHTY._replace(per_publisher=200),
        small=EIGHTY,
    ),
}


def steps(scale: Scale) -> Sequence[Step]:
    """Every run."""
    plan = PLANS[scale]
    return [Step(case.name, plan.seconds(case)) for case in plan.cases()]


@experiment("green", TITLE, steps)
def run(desk: Desk) -> Findings:
    """Run everything, and compare."""
    plan = PLANS[desk.scale]
    cases = {case.name: case for case in plan.cases()}
    found = desk.work_all(cases, work)
    sweeps = Sweeps(
        {case: found[name] for name, case in cases.items()},
        *(plan.homogeneous, plan.heterogeneous, plan.large, plan.at, plan.small, plan.minutes),
    )
    desk.timings[PLANNING] = planning_times(desk, plan)
    return Findings(
        "green", TITLE, setting(plan, desk.scale), claims(sweeps), charts(sweeps), [table(sweeps)]
    )


def setting(plan: Plan, scale: Scale) -> str:
    """What was run, and what was chosen where the paper prints nothing."""
    net = plan.at
    return (
        f"Each algorithm plans a network from profiles of the past, and the plan is run: {net.brokers} brokers and "
        f"{net.publishers} publishers at {RATE_PER_MIN:g} msg/min, homogeneous and heterogeneous, and larger networks. "
        "Values are means over the brokers in use and over "
        f"{plan.minutes:g} minutes, in which every quote is published once; the paper's ten minutes "
        "show the same quotes again. "
        "The paper prints no capacity: 252 messages of 244 bytes per second, inferred from what it calls "
        "saturated; the heterogeneous scenario has halves and quarters of it. Plans leave "
        f"{HEADROOM:g}% of the output free; publishers repeat the quotes of {net.days} days; vectors have 1,280 bits, "
        "and shorter ones the paper's allowance. Matching takes 5.4 µs for each subscription and 54 µs besides, links "
        "between brokers 1 ms, to clients 0.1 ms. CRAM takes the scheme with the fewest brokers, CRAM-LAST the one "
        "with which clustering ends, as the paper does; CRAM-SPLIT splits clusters; both are ours. What planning took "
        "by the clock is in timings.json." + (QUICK if scale == "quick" else "")
    )


def planning_times(desk: Desk, plan: Plan) -> Timing:
    """Seconds of planning, as the paper sets them side by side: growth with subscriptions and bits, XOR against IOU."""
    took = {case: desk.timings[case.name]["plan_cpu_s"] for case in plan.cases()}
    usual = {(case.net, case.algorithm): s for case, s in took.items() if case == _usual(case)}
    bits = {
        case.bits: s
        for case, s in took.items()
        if case == _usual(case).but(bits=case.bits)
        and case.net == plan.at
        and case.algorithm == IOU
    }
    equal = [(net.subscriptions, usual[net, IOU]) for net in plan.homogeneous]
    return {
        "CRAM-IOU, grows with subscriptions to the power": _power(equal),
        "CRAM-IOU, grows with bits to the power": _power(list(bits.items())),
        "CRAM-IOU, seconds by bits": dict(sorted(bits.items())),
        **{
            f"{name} against CRAM-IOU, percent, {kind}": round(
                statistics.mean(100 * (usual[net, name] / usual[net, IOU] - 1) for net in nets), 1
            )
            for name in (XOR, PAIRWISE_K, PAIRWISE_N)
            for kind, nets in (
                ("homogeneous", plan.homogeneous),
                ("heterogeneous", plan.heterogeneous),
            )
        },
    }


def _usual(case: Case) -> Case:
    return Case(case.net, case.algorithm, case.minutes)


def _power(points: Sequence[tuple[float, float]]) -> float:
    sizes, seconds = zip(*points, strict=True)
    return round(exponent(sizes, seconds), 2)
