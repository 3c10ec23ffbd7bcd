"""Figures and tables of the experiment `placement`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runnel.lab.experiments.placement.cases import (
    ALGORITHMS,
    CLUSTER,
    DELAY,
    GRAPE,
    LOAD,
    POP,
    RATE_PER_MIN,
    WIDE,
    Mix,
    Model,
    PlacementCase,
)
from runnel.lab.experiments.placement.rows import over_last_mile, over_matching
from runnel.lab.experiments.placement.sweeps import (
    PlacementSweeps,
    Value,
    delay,
    hops,
    message_rate,
    overhead,
    utilisation,
)
from runnel.lab.figures import Axis, Chart, Level, Series, line_chart
from runnel.lab.report import Cell, Table

RATE = Axis("average broker message rate", "msg/s")
UTILISATION = Axis("average input utilisation", "%")
DELAY_AXIS = Axis("average delivery delay", "ms")
HOPS = Axis("average hops", "links")
SHARE = Axis("message overhead", "%")
VALUES: tuple[tuple[str, Value, Axis], ...] = (
    ("overhead", overhead, SHARE),
    ("delay", delay, DELAY_AXIS),
    ("rate", message_rate, RATE),
)
BEST = Level("the paper's best: 68%", 68.0)
PRINTED_SHARES = (Level("POP: 32%", 32.0), Level("GRAPE: 16%", 16.0))
X = Axis("X: brokers with subscribers of a publisher", logarithmic=True)


def charts(sweeps: PlacementSweeps) -> list[Chart]:
    """The figures, those of the paper first."""
    plain: list[tuple[str, str, Value, Axis, Model, Mix, int]] = [
        ("message-rate-wide", "Message rate", message_rate, RATE, WIDE, "enterprise", 2),
        ("message-rate-cluster", "Message rate", message_rate, RATE, CLUSTER, "enterprise", 2),
        ("utilisation-wide", "Input utilisation", utilisation, UTILISATION, WIDE, "enterprise", 2),
        ("delay-wide", "Delivery delay", delay, DELAY_AXIS, WIDE, "enterprise", 2),
        ("delay-cluster", "Delivery delay", delay, DELAY_AXIS, CLUSTER, "enterprise", 2),
        ("hops", "Hops", hops, HOPS, WIDE, "enterprise", 2),
        ("message-rate-fan-out-4", "Message rate", message_rate, RATE, WIDE, "enterprise", 4),
        ("delay-fan-out-4", "Delivery delay", delay, DELAY_AXIS, WIDE, "enterprise", 4),
        ("random-message-rate", "Message rate", message_rate, RATE, CLUSTER, "random", 2),
        ("random-delay-wide", "Delivery delay", delay, DELAY_AXIS, WIDE, "random", 2),
        ("random-delay-cluster", "Delivery delay", delay, DELAY_AXIS, CLUSTER, "random", 2),
    ]
    return [
        *(_over_x(sweeps, *one) for one in plain),
        _overhead(sweeps),
        _over_rate(sweeps),
        *_weights(sweeps),
        *_thresholds(sweeps),
        _over_matching_cost(sweeps),
        _over_last_mile(sweeps),
    ]


def _series(
    sweeps: PlacementSweeps, name: str, value: Value, cases: Mapping[Any, PlacementCase]
) -> Series:
    """A value of runs, over what they are listed by."""
    return Series(name, list(cases), [sweeps.value_of(value, case) for case in cases.values()])


def _over_x(
    sweeps: PlacementSweeps,
    name: str,
    title: str,
    value: Value,
    axis: Axis,
    model: Model,
    mix: Mix,
    fan_out: int,
) -> Chart:
    series = [
        _series(sweeps, algorithm, value, sweeps.cases_by_x(model, mix, algorithm, fan_out))
        for algorithm in ALGORITHMS
    ]
    title = f"{title}: {mix}, {model.name}, fan-out {fan_out}"
    caption = f"{value.__doc__} `load` and `delay` are GRAPE's."
    return line_chart(name, title, caption, (X, axis), series)


def _overhead(sweeps: PlacementSweeps) -> Chart:
    mixes: tuple[Mix, ...] = ("enterprise", "random")
    series = [
        replace(
            _series(sweeps, f"{name}, {mix}", overhead, sweeps.cases_by_x(WIDE, mix, name)),
            like=len(mixes) * place if mix == "random" else None,
        )
        for place, name in enumerate((POP, *GRAPE))
        for mix in mixes
    ]
    return line_chart(
        "overhead",
        "Message overhead: wide area, fan-out 2",
        "Share of all messages since the start that placement added. The dotted lines are the most that the paper saw.",
        (X, SHARE),
        series,
        PRINTED_SHARES,
    )


def _over_rate(sweeps: PlacementSweeps) -> Chart:
    """POP's overhead depends on a rate that the paper does not print."""
    return line_chart(
        "overhead-over-rate",
        "POP's message overhead over the publication rate",
        f"Enterprise, wide area, X = {sweeps.at}. POP traces at most 50 publications a minute, so a smaller share of "
        f"more. The rate of all other runs is {RATE_PER_MIN:g}, at which the most over X is the paper's.",
        (Axis("publications of each publisher", "per minute"), SHARE),
        [_series(sweeps, POP, overhead, sweeps.cases_by_rate(POP))],
        PRINTED_SHARES[:1],
    )


def _weights(sweeps: PlacementSweeps) -> list[Chart]:
    caption = f"Enterprise workload on the cluster, X = {sweeps.at}: GRAPE that minimises load, or delay, first."
    return [
        line_chart(
            f"weights-{name}",
            f"Weights: {axis.name}",
            caption,
            (Axis("weight P", "%", from_zero=False), axis),
            [
                _series(sweeps, f"GRAPE, {metric} P%", value, sweeps.cases_by_weight(metric))
                for metric in ("load", "delay")
            ],
        )
        for name, value, axis in VALUES[1:]
    ]


def _thresholds(sweeps: PlacementSweeps) -> list[Chart]:
    caption = (
        f"Enterprise workload on the cluster, X = {sweeps.at}; POP's N is half of its threshold."
    )
    return [
        line_chart(
            f"thresholds-{name}",
            f"Sampling thresholds: {axis.name}",
            caption,
            (Axis("samples before a decision", logarithmic=True), axis),
            [
                _series(sweeps, label, value, sweeps.cases_by_threshold(algorithm))
                for label, algorithm in (("GRAPE, load 100%", LOAD), ("POP", POP))
            ],
        )
        for name, value, axis in VALUES
    ]


def _over_matching_cost(sweeps: PlacementSweeps) -> Chart:
    """How the reduction of input utilisation depends on what matching takes, which the paper does not print."""
    curves = {name: over_matching(sweeps, name) for name in (POP, LOAD)}
    return line_chart(
        "over-matching",
        "Reduction of input utilisation over the cost of matching",
        "X = 1, enterprise, wide area. Matching takes m for each subscription in the table and b besides; worked out "
        "of the rates and tables that were measured. Ours is b = 10 m.",
        (Axis("b / m", logarithmic=True), Axis("reduction of input utilisation", "%")),
        [Series(name, list(curve), list(curve.values())) for name, curve in curves.items()],
        [BEST],
    )


def _over_last_mile(sweeps: PlacementSweeps) -> Chart:
    """The same for delays, and how far clients are from their brokers."""
    curves = {name: over_last_mile(sweeps, name) for name in (POP, DELAY)}
    return line_chart(
        "over-last-mile",
        "Reduction of delay over the way to clients",
        "X = 1, enterprise, wide area. How long it takes from a client to its broker, in latencies between brokers; "
        "worked out of the delays that were measured. Ours is 1.",
        (Axis("latency to clients / between brokers"), Axis("reduction of delay", "%")),
        [Series(name, list(curve), list(curve.values())) for name, curve in curves.items()],
        [BEST],
    )


def table(sweeps: PlacementSweeps) -> Table:
    """Every run."""
    columns = [
        *("model", "workload", "fan-out", "X", "algorithm", "threshold", "msg/min"),
        *("message rate (msg/s)", "publications (msg/s)", "input utilisation (%)", "delay (ms)"),
        *("hops", "overhead (%)", "migrations", "pause (ms)", "pause max (ms)"),
        *("first decision (s)", "memory added (%)", "deliveries owed", "lost", "doubled"),
    ]
    rows: list[list[Cell]] = []
    for case, found in sweeps.found.items():
        rows.append([case.model.name, case.mix, case.fan_out, case.x, case.algorithm])
        rows[-1] += [case.threshold, case.rate_per_min, found.message_rate]
        rows[-1] += [found.publication_rate, utilisation(case, found), delay(case, found)]
        rows[-1] += [found.hops, overhead(case, found), found.migrated, found.pause_ms]
        rows[-1] += [found.pause_ms_max, found.decided_s, 100 * found.memory]
        rows[-1] += [found.delivered.owed, found.delivered.lost, found.delivered.duplicates]
    return Table("runs", "All runs", columns, rows)
