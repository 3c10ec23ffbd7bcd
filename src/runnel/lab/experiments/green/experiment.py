"""Green allocation: plans by every algorithm, each of them run, against a network that nobody planned.

cases.py says what is run, and what the paper leaves open; claims.toml what is claimed and by what it is judged; rows.py
how each row is measured; live.py plans from brokers' answers and has GRAPE run in brokers. The quick scale has
small networks and brokers of a quarter of the capacity: it shows that everything works, and no row is evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runnel.lab.experiment import (
    ByCase,
    ExperimentContext,
    ExperimentStep,
    Jobs,
    Scale,
    experiment,
)
from runnel.lab.experiments.green.cases import (
    ALGORITHMS,
    HEADROOM,
    IOU,
    LAST,
    MANUAL,
    MOST,
    PACKING,
    RATE_PER_MIN,
    UNAWARE,
    GreenCase,
    Kind,
    Net,
)
from runnel.lab.experiments.green.figures import charts, table
from runnel.lab.experiments.green.live import run_live_case
from runnel.lab.experiments.green.rows import measures
from runnel.lab.experiments.green.run import GreenResult, run_case
from runnel.lab.experiments.green.sweeps import GreenSweeps
from runnel.lab.report import Findings
from runnel.planning.profiles import BITS

TITLE = "Green allocation: CRAM, its rivals, and the plans run"
START_S = 0.4
"""What a run takes besides, however small it is: the world is set up, and its trace is written and read."""
QUICK = (
    " This is the quick scale: small networks of weaker brokers, and quotes that repeat every minute; take no row as "
    "evidence."
)


@dataclass(frozen=True, slots=True)
class GreenExtent:
    """What is run at a scale. Bits are swept on the network `at`, everything else on `small`."""

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
    live: int = 1_000  # GRAPE's samples: "GRAPE's publication sample count was set to 1,000" (§VI)
    live_bits: int = BITS
    seconds_each: float = 40.0  # what the longest of the usual runs takes

    def cases(self) -> list[GreenCase]:
        """Every run once, the longest first."""
        return list(dict.fromkeys(self._cases()))

    def _cases(self) -> Iterator[GreenCase]:
        for net in self.large:
            for algorithm in MOST:
                yield GreenCase(net, algorithm, self.minutes)
        for net in (*self.homogeneous, *self.heterogeneous):
            for algorithm in ALGORITHMS:
                yield GreenCase(net, algorithm, self.minutes)
            for algorithm in (IOU, LAST):
                yield GreenCase(net, algorithm, self.minutes, "without GRAPE")
            yield GreenCase(net, MANUAL, self.minutes, "with GRAPE")
        for algorithm in (IOU, PACKING):
            for bits in self.bits:
                yield GreenCase(self.at, algorithm, self.minutes, bits=bits)
                if bits == min(self.bits):
                    yield GreenCase(self.at, algorithm, self.minutes, bits=bits, is_scaled=False)
            for headroom in self.headrooms:
                yield GreenCase(self.small, algorithm, self.minutes, headroom=headroom)
            for days in self.days:
                yield GreenCase(self.small._replace(days=days), algorithm, self.minutes)
            yield GreenCase(self.small, algorithm, self.long_minutes)
        for algorithm in (MANUAL, PACKING, IOU):
            for capacity in self.capacities:
                net = self.small._replace(capacity=self.small.capacity * capacity)
                yield GreenCase(net, algorithm, self.minutes)
        yield self.live_case

    @property
    def live_case(self) -> GreenCase:
        """The one run that is live."""
        return GreenCase(self.small, IOU, self.minutes, bits=self.live_bits, live=self.live)

    def seconds(self, case: GreenCase) -> float:
        """Roughly how long a run takes if all processors are busy; it grows with subscriptions and brokers in use."""
        net = case.net
        weight = net.subscriptions + 100 * (net.brokers if case.algorithm in UNAWARE else 0)
        usual = self.at.subscriptions + 100 * self.at.brokers
        minutes = case.minutes
        if (
            case.live
        ):  # profiles are filled on all brokers, then GRAPE collects its samples on a few
            weight = net.subscriptions + 100 * net.brokers
            minutes += (case.bits + case.live) / RATE_PER_MIN
        return START_S + self.seconds_each / 2 * weight / usual * minutes / self.minutes


def _nets(kind: Kind, usual: Net, each: Sequence[int]) -> tuple[Net, ...]:
    """The same network with each of these numbers of subscriptions per publisher."""
    return tuple(usual._replace(kind=kind, per_publisher=count) for count in each)


SMALL = Net(12, 6, 20, days=70, capacity=0.25)
EIGHTY = Net(80, 40, 50)
EXTENTS: dict[Scale, GreenExtent] = {
    "quick": GreenExtent(
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
        seconds_each=2.0,
        live=100,
        live_bits=128,
    ),
    "paper": GreenExtent(
        homogeneous=_nets("homogeneous", EIGHTY, (200, 150, 100, 50)),
        heterogeneous=_nets("heterogeneous", EIGHTY, (200, 150, 100, 50)),
        large=(Net(1_000, 100, 225), Net(400, 72, 225)),
        minutes=3.5,
        long_minutes=10.0,
        at=EIGHTY._replace(per_publisher=200),
        small=EIGHTY,
    ),
}


def steps(scale: Scale) -> Sequence[ExperimentStep]:
    """Every run."""
    plan = EXTENTS[scale]
    return [ExperimentStep(case.name, plan.seconds(case)) for case in plan.cases()]


def jobs(scale: Scale) -> Jobs:
    """Every run, from its workload to what is measured."""
    return Jobs({case.name: case for case in EXTENTS[scale].cases()}, run_any)


@experiment(
    *("green", TITLE, steps, Path(__file__).with_name("claims.toml")),
    setting=lambda scale: setting(EXTENTS[scale], scale),
    measured=lambda: measures().keys(),
    jobs=jobs,
)
def run(context: ExperimentContext) -> Findings:
    """Run all cases, and compare them with the paper."""
    plan = EXTENTS[context.scale]
    cases = {case.name: case for case in plan.cases()}
    found = context.run_jobs(*jobs(context.scale))
    sweeps = GreenSweeps(
        ByCase({case: name for name, case in cases.items()}, found),
        *(plan.homogeneous, plan.heterogeneous, plan.large, plan.at, plan.small, plan.minutes),
    )
    values = context.measure_rows(measures(), sweeps)
    findings = Findings("green", TITLE, setting(plan, context.scale), values)
    if context.rows is None:
        findings.charts, findings.tables = charts(sweeps), [table(sweeps)]
    return findings


def run_any(case: GreenCase, place: Path, seed: int) -> tuple[GreenResult, dict[str, Any]]:
    """Run a case, live or planned offline."""
    return run_live_case(case, place, seed) if case.live else run_case(case, place, seed)


def setting(plan: GreenExtent, scale: Scale) -> str:
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
        "with which clustering ends, as the paper does; CRAM-SPLIT splits clusters and is ours. One run is "
        f"live: brokers keep profiles of {plan.live_bits:,} publications, the plan is made of their answers to a BIR, "
        f"and GRAPE runs in brokers with {plan.live:,} samples; publishers start at the root."
        + (QUICK if scale == "quick" else "")
    )
