"""Figures and tables of the experiment `green`: those of the paper by their numbers, then what hangs on our choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from runnel.lab.experiments.green.cases import (
    AUTOMATIC,
    IOU,
    LAST,
    MANUAL,
    METRICS,
    PACKING,
    PAIRWISE_K,
    PAIRWISE_N,
    RATE_PER_MIN,
    SPLIT,
    GreenCase,
    Kind,
    Net,
)
from runnel.lab.experiments.green.run import GreenResult
from runnel.lab.experiments.green.sweeps import (
    GreenSweeps,
    Value,
    brokers,
    computations,
    delay,
    hops,
    mean_input,
    mean_output,
    mean_rate,
    peak_output,
    peak_rate,
    percent_less,
)
from runnel.lab.figures import Axis, Chart, Level, Series, line_chart
from runnel.lab.report import Cell, Table

MACRO = (MANUAL, PAIRWISE_N, PACKING, IOU, LAST, SPLIT)
KNOWN = (MANUAL, AUTOMATIC, PAIRWISE_K, PAIRWISE_N, PACKING, IOU)
SUBSCRIPTIONS = Axis("subscriptions")
BROKERS = Axis("allocated brokers")
RATE = Axis("broker message rate", "msg/s")
INPUT = Axis("input utilisation", "%")
OUTPUT = Axis("output utilisation", "%")
HOPS = Axis("average hops", "links")
DELAY = Axis("average delivery delay", "ms", logarithmic=True)
WORK = Axis("computations of closeness", logarithmic=True)
FULL = Level("all of it", 100.0)


class SweepFigure(NamedTuple):
    """A value over the number of subscriptions."""

    name: str  # begins with the paper's number
    what: str
    value: Value
    axis: Axis
    kind: Kind
    names: Sequence[str] = MACRO
    level: Level | None = None


SUNK = Level("all publications: 46.7", 40 * RATE_PER_MIN / 60)
HOM: Kind = "homogeneous"
HET: Kind = "heterogeneous"
FIGURES = (
    SweepFigure("5a-brokers", "allocated brokers", brokers, BROKERS, HET),
    SweepFigure("5c-rates", "average message rate", mean_rate, RATE, HET, level=SUNK),
    SweepFigure("5c-rates-most", "maximum message rate", peak_rate, RATE, HET, level=SUNK),
    SweepFigure("5e-input", "average input utilisation", mean_input, INPUT, HOM),
    SweepFigure("5f-output", "average output utilisation", mean_output, OUTPUT, HOM, level=FULL),
    SweepFigure("5g-hops", "hops", hops, HOPS, HOM, (MANUAL, AUTOMATIC, *MACRO[1:])),
    SweepFigure("5h-delay", "delivery delay", delay, DELAY, HOM),
    SweepFigure("5i-work", "work of the planner", computations, WORK, HOM, METRICS),
    SweepFigure("6c-metrics-rates", "metrics, average message rate", mean_rate, RATE, HOM, METRICS),
    SweepFigure("6d-metrics-hops", "metrics, hops", hops, HOPS, HOM, METRICS),
    SweepFigure(
        "6e-metrics-work", "metrics, work of the planner", computations, WORK, HET, METRICS
    ),
    SweepFigure("6f-overload", "the fullest broker", peak_output, OUTPUT, HET, KNOWN, FULL),
)


def charts(sweeps: GreenSweeps) -> list[Chart]:
    """All figures, those of the paper in its order."""
    share = Axis("allocated brokers", "% of all")
    found = [
        *(_by_subscriptions(sweeps, figure) for figure in FIGURES),
        _large(sweeps, "5b-brokers-large", "allocated brokers, large networks", None, share),
        _large(sweeps, "5d-rates-large", "average message rate, large networks", mean_rate, RATE),
        _breakdown(sweeps, "6a-breakdown-rates", "what moves the message rate", mean_rate, RATE),
        _breakdown(sweeps, "6b-breakdown-delay", "what moves the delay", delay, DELAY),
        *_bits(sweeps),
    ]
    return [*sorted(found, key=lambda chart: chart.name), *_over_constants(sweeps)]


def _title(name: str, what: str) -> str:
    figure, _, _ = name.partition("-")
    return f"Fig. {figure}: {what}"


def _by_subscriptions(sweeps: GreenSweeps, figure: SweepFigure) -> Chart:
    nets = sweeps.homogeneous if figure.kind == HOM else sweeps.heterogeneous
    ordered = sorted(nets, key=lambda net: net.subscriptions)
    counts = [net.subscriptions for net in ordered]
    series = [
        Series(name, counts, list(sweeps.values_by_net(figure.value, ordered, name).values()))
        for name in figure.names
    ]
    return line_chart(
        figure.name,
        _title(figure.name, f"{figure.what}, {figure.kind}"),
        f"{figure.value.__doc__} {ordered[0].brokers} brokers, as measured when the plan is run.",
        (SUBSCRIPTIONS, figure.axis),
        series,
        [figure.level] if figure.level else [],
    )


def _large(sweeps: GreenSweeps, name: str, what: str, value: Value | None, axis: Axis) -> Chart:
    """A value on the largest networks; None is the share of brokers that are allocated."""
    nets = sorted([sweeps.at, *sweeps.large], key=lambda net: net.subscriptions)
    labels = [f"{net.subscriptions:,} on {net.brokers:,}" for net in nets]
    series = []
    for algorithm in MACRO:
        values = sweeps.values_by_net(value or brokers, nets, algorithm)
        if value is None:
            values = {net: 100 * count / net.brokers for net, count in values.items()}
        series.append(Series(algorithm, labels, list(values.values())))
    caption = "Homogeneous networks by subscriptions and brokers, as measured when the plan is run."
    return Chart(
        name, _title(name, what), caption, "bars", Axis("subscriptions on brokers"), axis, series
    )


def _breakdown(sweeps: GreenSweeps, name: str, what: str, value: Value, axis: Axis) -> Chart:
    kinds = (sweeps.homogeneous, sweeps.heterogeneous)
    nets = [max(found, key=lambda net: net.subscriptions) for found in kinds]
    labels = [f"{net.kind}, {net.subscriptions:,}" for net in nets]
    parts: list[tuple[str, Mapping[Net, float]]] = [
        ("MANUAL", sweeps.values_by_net(value, nets, MANUAL)),
        ("MANUAL + GRAPE", sweeps.values_with_grape(value, nets)),
        ("CRAM-IOU without GRAPE", sweeps.values_without_grape(value, nets, IOU)),
        ("CRAM-IOU + GRAPE", sweeps.values_by_net(value, nets, IOU)),
    ]
    series = [Series(label, labels, list(values.values())) for label, values in parts]
    caption = f"{value.__doc__} Without GRAPE, CRAM's publishers are at the root."
    return Chart(name, _title(name, what), caption, "bars", Axis("network"), axis, series)


def _series(sweeps: GreenSweeps, name: str, value: Value, cases: Mapping[Any, GreenCase]) -> Series:
    return Series(name, list(cases), [sweeps.value_of(value, case) for case in cases.values()])


def _bits(sweeps: GreenSweeps) -> list[Chart]:
    axis = Axis("bits of a vector", from_zero=False)
    caption = (
        f"{sweeps.at.subscriptions:,} subscriptions on {sweeps.at.brokers} brokers, homogeneous. Short vectors have "
        "the paper's allowance."
    )
    values: tuple[tuple[str, str, Value, Axis], ...] = (
        ("6g-bits-work", "work of the planner", computations, WORK),
        ("6h-bits-rates", "average message rate", mean_rate, RATE),
        ("6h-bits-rates-most", "maximum message rate", peak_rate, RATE),
        ("6i-bits-brokers", "allocated brokers", brokers, BROKERS),
    )
    return [
        line_chart(
            name,
            _title(name, f"length of vectors, {what}"),
            caption,
            (axis, y),
            [
                _series(sweeps, algorithm, value, sweeps.cases_by_bits(algorithm))
                for algorithm in (IOU, PACKING)
                if value is not computations or algorithm == IOU
            ],
        )
        for name, what, value, y in values
    ]


def _over_constants(sweeps: GreenSweeps) -> list[Chart]:
    """What hangs on the constants that the paper does not print."""
    small = f"{sweeps.small.subscriptions:,} subscriptions on {sweeps.small.brokers} brokers, homogeneous."
    both = (IOU, PACKING)
    room, days = Axis("head-room", "%"), Axis("days whose quotes a publisher repeats")

    def error(found: GreenResult) -> float:
        return 100 * found.output_error

    return [
        line_chart(
            "chosen-headroom-output",
            "Head-room: the fullest broker",
            f"{small} Beyond 100% it is overloaded. Ours is 2%.",
            (room, OUTPUT),
            [_series(sweeps, name, peak_output, sweeps.cases_by_headroom(name)) for name in both],
            [FULL],
        ),
        line_chart(
            "chosen-headroom-brokers",
            "Head-room: allocated brokers",
            small,
            (room, BROKERS),
            [_series(sweeps, name, brokers, sweeps.cases_by_headroom(name)) for name in both],
        ),
        line_chart(
            "chosen-days-error",
            "The past and the future: output predicted, off by",
            f"{small} The longer it takes until quotes repeat, the less the past says of what is measured.",
            (days, Axis("error, average over brokers", "%")),
            [
                _series(sweeps, name, error, sweeps.cases_by_net_field("days", name))
                for name in both
            ],
        ),
        line_chart(
            "chosen-days-output",
            "The past and the future: the fullest broker",
            small,
            (days, OUTPUT),
            [
                _series(sweeps, name, peak_output, sweeps.cases_by_net_field("days", name))
                for name in both
            ],
            [FULL],
        ),
        _over_capacity(sweeps),
    ]


def _over_capacity(sweeps: GreenSweeps) -> Chart:
    """How the reduction of brokers depends on the capacity, which the paper does not print."""
    series = []
    for name in (IOU, PACKING):
        runs = sweeps.cases_by_net_field("capacity", name)
        saved = [
            percent_less(sweeps.value_of(brokers, case), case.net.brokers) for case in runs.values()
        ]
        series.append(Series(name, list(runs), saved))
    return line_chart(
        "chosen-capacity",
        "Capacity: reduction of allocated brokers",
        f"{sweeps.small.subscriptions:,} subscriptions on {sweeps.small.brokers} brokers, homogeneous. 1 is what was "
        "inferred, 252 messages per second; MANUAL always allocates all.",
        (Axis("capacity, times what was inferred"), Axis("reduction of brokers", "%")),
        series,
        [Level("the paper's best: 91%", 91.0)],
    )


def table(sweeps: GreenSweeps) -> Table:
    """Every run."""
    columns = [
        *("network", "algorithm", "GRAPE", "bits", "head-room (%)", "minutes", "brokers"),
        *("rate (msg/s)", "rate max", "input (%)", "input max", "output (%)", "output max"),
        *("overloaded", "hops", "delay (ms)", "rate error (%)", "output error (%)"),
        *("groups", "clusters", "computed", "deliveries owed", "lost", "doubled"),
    ]
    rows: list[list[Cell]] = []
    for case, found in sweeps.found.items():
        rows.append([case.net.name, case.algorithm, case.grape, case.bits, case.headroom])
        rows[-1] += [case.minutes, found.brokers, found.rate.mean, found.rate.maximum]
        rows[-1] += [100 * found.input.mean, 100 * found.input.maximum]
        rows[-1] += [100 * found.output.mean, 100 * found.output.maximum]
        rows[-1] += [found.overloaded, found.hops, found.delay_ms]
        rows[-1] += [100 * found.rate_error, 100 * found.output_error]
        rows[-1] += [found.planning.gifs, found.planning.clusters, found.planning.computed]
        rows[-1] += [found.delivered.owed, found.delivered.lost, found.delivered.duplicates]
    return Table("runs", "All runs", columns, rows)
