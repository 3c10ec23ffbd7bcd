"""Plain routing on green's 80 brokers, with covering and without: what everything else is measured against.

Printed (green §VI): 80 brokers in a tree of fan-out 2, whose longest path is 11; 40 publishers at 70 msg/min, so that a
broker that sinks everything sinks 46.7 msg/s; 2,000 to 8,000 subscriptions, 40% to a whole symbol and 60% with
an inequality more; clients at random brokers. Covering is described (balance §2.3), but no figure is printed for it.

Chosen: 1 ms between brokers, 0.1 ms to clients; matching takes no time and bandwidth has no limit, since nothing
here is about load. The paper's values are means of ten minutes; plain routing of a periodic workload is the same in
each of them, so one minute is measured (at the quick scale 12 seconds, and fewer subscriptions).

The bounds on what covering saves are our own, and they are for crowds: the fewer subscriptions there are, the less
often one covers another. With seed 1 at the quick scale, what is sent between brokers shrinks to 38% at 800
subscriptions, but only to 50.5% at 400 (beyond the bound of 50%), to 65% at 200 and to 87% at 80.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from runnel.lab.claims import RowValue
from runnel.lab.expectation import DeliveryCheck, check_deliveries, count_differences
from runnel.lab.experiment import ExperimentContext, ExperimentStep, Scale, experiment
from runnel.lab.figures import Axis, Chart, Level, Series
from runnel.lab.metrics import (
    BrokerSpread,
    Forwarding,
    Ints,
    Loads,
    Window,
    count_published,
    delays,
    forwarding,
    hop_counts,
    loads,
    percentile,
    spread,
)
from runnel.lab.report import Findings, Table
from runnel.lab.run import ScenarioRun
from runnel.lab.scenario import Scenario, make_scenario
from runnel.trace.reader import Trace, open_trace

BROKERS = 80
PUBLISHERS = 40
SINK_RATE = 46.7
LONGEST_PATH = 11
COVERING = {True: "covering on", False: "covering off"}


@dataclass(frozen=True, slots=True)
class RoutingExtent:
    """What is run at a scale: subscriptions per publisher, and how long."""

    per_publisher: tuple[int, ...]
    warm_up_s: float
    measure_s: float
    interval_s: float
    seconds_each: float  # that a run takes, roughly


EXTENTS: dict[Scale, RoutingExtent] = {
    "quick": RoutingExtent((20, 30, 40), warm_up_s=2, measure_s=12, interval_s=1, seconds_each=3),
    "paper": RoutingExtent(
        (50, 100, 150, 200), warm_up_s=10, measure_s=60, interval_s=10, seconds_each=20
    ),
}


@dataclass(frozen=True, slots=True)
class RoutingResult:
    """One run, measured."""

    subscriptions: int
    covering: bool
    trace: Trace
    window: Window  # the same part of the workload in every run
    offered_rate: float  # publications per second that enter
    load: Loads
    rate: BrokerSpread
    control: int  # messages but publications, up to the window
    hops: Ints
    delay_ns: Ints
    passed: Forwarding
    delivered: DeliveryCheck

    @property
    def forwarded(self) -> int:
        """How often a subscription was sent from broker to broker: each is a row that no client's link made."""
        return int(self.load.subscriptions.sum()) - self.subscriptions


def make_routing_scenario(plan: RoutingExtent, per_publisher: int, covering: bool) -> Scenario:
    """One point of the sweep."""
    workload = {"templates": "green", "publishers": PUBLISHERS, "per_publisher": per_publisher}
    return make_scenario(
        {
            "topology": {"shape": "green", "brokers": BROKERS},
            "workload": {"name": "stocks", "brokers": BROKERS, **workload},
            "routing": {"covering": covering},
            "network": {"latency_ms": 1.0, "client_latency_ms": 0.1},
            "time": {"warm_up_s": plan.warm_up_s, "measure_s": plan.measure_s},
            "trace": {"interval_s": plan.interval_s},
        },
        "routing",
    )


def step_name(per_publisher: int, covering: bool) -> str:
    """The name of a run.

    >>> step_name(50, True)
    '2000 subscriptions, covering on'
    """
    return f"{PUBLISHERS * per_publisher} subscriptions, {COVERING[covering]}"


def steps(scale: Scale) -> Sequence[ExperimentStep]:
    """Every point of the sweep, with covering and without."""
    plan = EXTENTS[scale]
    largest = max(plan.per_publisher)
    return [
        ExperimentStep(
            step_name(count, covering), plan.seconds_each * (0.3 + 0.7 * count / largest)
        )
        for count in plan.per_publisher
        for covering in COVERING
    ]


@experiment(
    "routing",
    "Plain routing on 80 brokers, covering on and off",
    steps,
    Path(__file__).with_name("claims.toml"),
)
def run(context: ExperimentContext) -> Findings:
    """Run the sweep, and compare it with the paper."""
    plan = EXTENTS[context.scale]
    cases = [
        measure(
            context.simulate(
                step_name(count, covering), make_routing_scenario(plan, count, covering)
            ),
            covering,
        )
        for count in plan.per_publisher
        for covering in COVERING
    ]
    pairs = list(zip(cases[::2], cases[1::2], strict=True))
    return Findings(
        "routing",
        "Plain routing on 80 brokers, covering on and off",
        f"Green's 80 brokers and {PUBLISHERS} publishers at 70 msg/min, before anything is reorganised. RowValue for "
        f"{pairs[0][0].window.seconds:g} s after {plan.warm_up_s:g} s of warm-up. Links between brokers take 1 ms; "
        "matching takes no time and bandwidth has no limit.",
        values(pairs),
        charts(pairs),
        [table(cases)],
    )


def measure(run: ScenarioRun, covering: bool) -> RoutingResult:
    """Measure one run."""
    trace, info = open_trace(run.trace), run.info
    window = Window(info.window_start_ns, info.window_end_ns)
    load = loads(trace, window)
    before = loads(trace, Window(0, info.window_start_ns))
    return RoutingResult(
        subscriptions=info.subscribers,
        covering=covering,
        trace=trace,
        window=window,
        offered_rate=count_published(trace, window) / window.seconds,
        load=load,
        rate=spread(load.message_rate),
        control=int(before.control_in.sum()),
        hops=hop_counts(trace, window),
        delay_ns=delays(trace, window),
        passed=forwarding(trace, window),
        # Every route was there before the warm-up began, so nobody needs a grace.
        delivered=check_deliveries(trace, window, grace_ns=0),
    )


# -- values of rows -----------------------------------------------------------------------------------------------

Pairs = Sequence[tuple[RoutingResult, RoutingResult]]
"""With covering and without, for each number of subscriptions, the most last."""


def values(pairs: Pairs) -> dict[str, RowValue]:
    """The value of each row of claims.toml."""
    most, _ = pairs[-1]
    return {
        "offered": RowValue(most.offered_rate),
        "busiest": RowValue(most.rate.maximum),
        "longest-path": RowValue(int(most.hops.max())),
        **_correctness(pairs),
        **_covering(pairs),
    }


def _correctness(pairs: Pairs) -> dict[str, RowValue]:
    """With covering or without, every client gets what it is owed, once, over the same paths."""
    found = [case.delivered for pair in pairs for case in pair]
    checked = f"of {sum(one.owed for one in found):,} deliveries owed, in {len(found)} runs"
    differing = sum(
        count_differences((on.trace, on.window), (off.trace, off.window)) for on, off in pairs
    )
    rates = [abs(on.load.message_rate - off.load.message_rate).max() for on, off in pairs]
    hops = [abs(float(on.hops.mean()) - float(off.hops.mean())) for on, off in pairs]
    return {
        "lost": RowValue(sum(one.lost for one in found), checked),
        "duplicates": RowValue(sum(one.duplicates for one in found)),
        "stray": RowValue(sum(one.stray for one in found)),
        "differing-deliveries": RowValue(differing),
        "differing-hops": RowValue(max(hops)),
        "differing-rates": RowValue(
            float(max(rates)),
            "largest of all brokers; counted by the interval, which may begin elsewhere in the workload",
        ),
    }


def _covering(pairs: Pairs) -> dict[str, RowValue]:
    """How much covering saves, by the worst point. The paper describes it and prints no number."""
    rows = [
        100 * int(on.load.subscriptions.sum()) / int(off.load.subscriptions.sum())
        for on, off in pairs
    ]
    sent = [100 * on.forwarded / off.forwarded for on, off in pairs]
    control = [100 * on.control / off.control for on, off in pairs]
    crowd = f"the bound is for crowds: from {pairs[0][0].subscriptions:,} subscriptions on; fewer save less"
    return {
        "covering-rows": RowValue(max(rows), crowd),
        "covering-sent": RowValue(max(sent), crowd),
        "covering-control": RowValue(
            max(control), "advertisements, handshakes and barriers are the same in both"
        ),
    }


# -- what is shown ----------------------------------------------------------------------------------------


def charts(pairs: Pairs) -> list[Chart]:
    """The figures."""
    return [_rates(pairs), _tables(pairs), _messages(pairs), _hops(pairs)]


def _rates(pairs: Pairs) -> Chart:
    counts = [on.subscriptions for on, _ in pairs]
    rates = [on.rate for on, _ in pairs]
    return Chart(
        "message-rate",
        "Broker message rate",
        "Publications that come into a broker per second: average of 80 brokers with its standard deviation, and the "
        "busiest of them. Covering on; without it the rates are the same. The dotted line is that of green Fig. 5c.",
        "lines",
        Axis("subscriptions"),
        Axis("broker message rate", "msg/s"),
        [
            Series(
                "average ± deviation", counts, [r.mean for r in rates], [r.deviation for r in rates]
            ),
            Series("maximum", counts, [r.maximum for r in rates]),
        ],
        [Level("sinks everything: 46.7 msg/s", SINK_RATE)],
    )


def _tables(pairs: Pairs) -> Chart:
    on, off = zip(*pairs, strict=True)
    kinds = (("average", np.mean), ("maximum", np.max))
    return Chart(
        "table-size",
        "Rows of a publication routing table",
        "Average and maximum of 80 brokers. A broker has a row for each subscription of its clients, and for each "
        "that a neighbour sent.",
        "lines",
        Axis("subscriptions"),
        Axis("rows per broker", logarithmic=True),
        [
            Series(
                f"{name}, {COVERING[cases[0].covering]}",
                [case.subscriptions for case in cases],
                [float(value(case.load.subscriptions)) for case in cases],
                like=like,
            )
            for name, value in kinds
            for like, cases in enumerate((on, off))
        ],
    )


def _messages(pairs: Pairs) -> Chart:
    on, off = zip(*pairs, strict=True)
    kinds = (("subscriptions", "forwarded"), ("all", "control"))
    return Chart(
        "control-traffic",
        "Messages to set up all routes",
        "Subscriptions sent from broker to broker, and all messages that brokers took in until every route was known: "
        "also advertisements, handshakes, and the barriers by which clients learn that their routes are complete.",
        "lines",
        Axis("subscriptions"),
        Axis("messages"),
        [
            Series(
                f"{name}, {COVERING[cases[0].covering]}",
                [case.subscriptions for case in cases],
                [float(getattr(case, key)) for case in cases],
                like=like,
            )
            for name, key in kinds
            for like, cases in enumerate((on, off))
        ],
    )


def _hops(pairs: Pairs) -> Chart:
    places = list(range(LONGEST_PATH + 1))
    return Chart(
        "hops",
        f"Hops of delivered publications, {pairs[-1][0].subscriptions:,} subscriptions",
        "Links between brokers that a publication has passed when it is delivered.",
        "bars",
        Axis("hops", "links between brokers"),
        Axis("share of deliveries", "%"),
        [
            Series(
                COVERING[case.covering],
                places,
                [100 * float(np.mean(case.hops == place)) for place in places],
            )
            for case in pairs[-1]
        ],
    )


def table(cases: Sequence[RoutingResult]) -> Table:
    """Every run, side by side."""
    columns = [
        *("subscriptions", "covering", "message rate avg (msg/s)", "deviation", "maximum"),
        *("PRT rows avg", "PRT rows max", "subscriptions sent", "control messages"),
        *(
            "hops avg",
            "delay avg (ms)",
            "delay p99 (ms)",
            "pure forwards (%)",
            "deliveries owed",
            "lost",
        ),
    ]
    rows = [
        [
            case.subscriptions,
            "on" if case.covering else "off",
            *case.rate,
            float(case.load.subscriptions.mean()),
            int(case.load.subscriptions.max()),
            case.forwarded,
            case.control,
            float(case.hops.mean()),
            float(case.delay_ns.mean()) / 1e6,
            percentile(case.delay_ns, 99) / 1e6,
            100 * (1 - case.passed.useful),
            case.delivered.owed,
            case.delivered.lost,
        ]
        for case in cases
    ]
    return Table("runs", "All runs", columns, rows)
