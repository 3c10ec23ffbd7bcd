"""The page that `runnel pipeline report` writes: a table of numbers, figures, and the numbers once more for programs.

The pipeline computes the numbers; this file only formats and draws them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from runnel.lab.figures import Axis, Chart, Series, draw
from runnel.lab.networks import Drawing, draw_networks
from runnel.lab.report import Table, as_json, format_number, write_text
from runnel.planning.documents.plan import BrokerLoad
from runnel.planning.layout import downstream
from runnel.quantities import MILLISECOND

if TYPE_CHECKING:
    from runnel.pipeline.report import WindowMetrics

BROKERS_NAMED = 24
"""With more brokers, bars cannot be read: brokers are then drawn in the order of their rates, without names."""

BROKERS_DRAWN = 60
_DRAWN = (
    "Brokers in use, and the links between them at the end. A disc is the larger the more clients it has, "
    "and the darker the busier it is."
)


class _Line(NamedTuple):
    key: str
    label: str
    scale: float = 1.0


_MILLI, _PERCENT, _MICRO = 1e3, 1e2, 1e6
_LINES = (
    _Line("seconds", "measured for (s)"),
    _Line("brokers_in_use", "brokers in use"),
    _Line("published_per_s", "published per second"),
    _Line("deliveries_per_s", "delivered per second"),
    _Line("messages_per_s", "messages into all brokers per second"),
    _Line("message_rate_mean", "message rate of a broker, mean (1/s)"),
    _Line("message_rate_deviation", "message rate of a broker, deviation (1/s)"),
    _Line("message_rate_maximum", "message rate of a broker, highest (1/s)"),
    _Line("output_rate_mean", "output rate of a broker, mean (1/s)"),
    _Line("input_ratio_mean", "input utilisation, mean (%)", _PERCENT),
    _Line("input_ratio_maximum", "input utilisation, highest (%)", _PERCENT),
    _Line("output_ratio_mean", "output utilisation, mean (%)", _PERCENT),
    _Line("output_ratio_maximum", "output utilisation, highest (%)", _PERCENT),
    _Line("matching_delay_s_mean", "matching delay, mean (µs)", _MICRO),
    _Line("subscriptions_mean", "subscriptions in a broker's table, mean"),
    _Line("memory_bytes_mean", "memory of a broker, mean (MB)", 1e-6),
    _Line("delay_mean_s", "delivery delay, mean (ms)", _MILLI),
    _Line("delay_median_s", "delivery delay, median (ms)", _MILLI),
    _Line("delay_99_s", "delivery delay, 99% (ms)", _MILLI),
    _Line("delay_maximum_s", "delivery delay, longest (ms)", _MILLI),
    _Line("hops_mean", "hops of a delivery, mean"),
    _Line("hops_maximum", "hops of a delivery, most"),
    _Line("handled", "publications handled, by all brokers together"),
    _Line("pure_forwards", "of these by brokers that only forward"),
    _Line("yield", "of these by brokers that deliver (%)", _PERCENT),
    _Line("overhead_share", "messages that are no publications (%)", _PERCENT),
)


def rows_of(found: Sequence[WindowMetrics]) -> list[list[str]]:
    """The table: a label, the numbers side by side, and how the last differs from the first."""

    rows = []
    for line in _LINES:
        values = [one.summary.get(line.key) for one in found]
        told = ["not measured" if v is None else format_number(v * line.scale) for v in values]
        rows.append([line.label, *told, change(values[0], values[-1]) if len(found) > 1 else ""])
    return rows


def change(was: float | None, now: float | None) -> str:
    """By how many percent a value has changed.

    >>> change(200.0, 150.0), change(2.0, 2.0), change(0.0, 1.0), change(None, 1.0)
    ('−25%', 'same', '', '')
    """
    if was is None or now is None or (not was and now):
        return ""
    percent = 100 * (now - was) / was if was else 0.0
    if abs(percent) < 0.05:
        return "same"
    digits = 0 if abs(percent) >= 10 else 1
    return f"{'+' if percent > 0 else '−'}{abs(percent):,.{digits}f}%"


def write_page(folder: Path, found: Mapping[str, WindowMetrics], decided: Sequence[str]) -> Path:
    """Write page, figures and numbers; where the page is."""

    columns = ["", *found, "change"] if len(found) > 1 else ["", *found]
    rows = [row[: len(columns)] for row in rows_of(list(found.values()))]
    parts = ["# What the trace says\n", Table("numbers", "", columns, rows).as_markdown()]
    for chart in charts(found):
        draw(chart, folder)
        picture = f"![{chart.title}]({chart.name}.svg)\n"
        parts += [f"## {chart.title}\n", picture, f"{chart.caption}\n"]
    if all(0 < len(one.brokers) <= BROKERS_DRAWN for one in found.values()):
        draw_networks("networks", [_drawing(name, one) for name, one in found.items()], folder)
        parts += ["## The network\n", "![The network](networks.svg)\n", f"{_DRAWN}\n"]
    if decided:
        parts += ["## Decided on the way\n", "\n".join(f"- {line}" for line in decided) + "\n"]
    numbers = {
        name: {
            "window_ns": list(one.window),
            "summary": one.summary,
            "delays_ns": {f"{percent:g}": ns for percent, ns in one.delays_ns.items()},
            "hops": one.hops,
            "messages": one.messages,
        }
        for name, one in found.items()
    }
    write_text(folder / "report.json", as_json(numbers))
    write_text(folder / "report.md", "\n".join(parts))
    return folder / "report.md"


def charts(found: Mapping[str, WindowMetrics]) -> list[Chart]:
    """The figures, each with one series for every window."""

    made = [_rates(found)]
    made.append(
        Chart(
            "over-time",
            "Messages into all brokers",
            "Publications that all brokers together took in per second.",
            "lines",
            Axis("time", "s"),
            Axis("message rate", "1/s"),
            [
                Series(name, [row[0] for row in one.over_time], [row[1] for row in one.over_time])
                for name, one in found.items()
            ],
        )
    )
    if any(one.delays_ns for one in found.values()):
        made.append(
            Chart(
                "delays",
                "Delivery delay",
                "From the publisher to the client's queue: so many deliveries took no longer.",
                "steps",
                Axis("delay", "ms", logarithmic=_all_positive(found)),
                Axis("deliveries", "%"),
                [
                    Series(
                        name,
                        [ns / MILLISECOND for ns in one.delays_ns.values()],
                        list(one.delays_ns),
                    )
                    for name, one in found.items()
                ],
            )
        )
        made.append(
            Chart(
                "hops",
                "Hops of a delivery",
                "Links between brokers that deliveries have passed.",
                "bars",
                Axis("hops"),
                Axis("share of deliveries", "%"),
                [_shares(name, one.hops, found) for name, one in found.items()],
            )
        )
    return made


def _all_positive(found: Mapping[str, WindowMetrics]) -> bool:
    """Whether every delay is; by clocks that differ it may not be."""
    return all(ns > 0 for one in found.values() for ns in one.delays_ns.values())


def _rates(found: Mapping[str, WindowMetrics]) -> Chart:
    """Brokers side by side as long as they can be told apart, else in the order of their rates."""

    rates = {
        name: {broker: row["message_rate"] for broker, row in one.brokers.items()}
        for name, one in found.items()
    }
    names = sorted({broker for of_brokers in rates.values() for broker in of_brokers})
    rate = Axis("message rate", "1/s")
    caption = "Publications that came into each broker per second, from clients and neighbours"
    title = "Message rate of brokers"
    if len(names) <= BROKERS_NAMED:
        series = [
            Series(name, names, [of_brokers.get(broker, 0.0) for broker in names])
            for name, of_brokers in rates.items()
        ]
        return Chart("brokers", title, f"{caption}.", "bars", Axis("broker"), rate, series)
    falling = {name: sorted(of.values(), reverse=True) for name, of in rates.items()}
    series = [
        Series(name, [float(n + 1) for n in range(len(of))], of) for name, of in falling.items()
    ]
    caption += "; the busiest first."
    return Chart("brokers", title, caption, "steps", Axis("brokers"), rate, series)


def _drawing(name: str, one: WindowMetrics) -> Drawing:
    """The network of a window, as a tree for each part that hangs together."""
    beside: dict[str, list[str]] = {broker: [] for broker in one.brokers}
    for here, there in one.links:
        beside[here].append(there)
        beside[there].append(here)
    parents: dict[str, str | None] = {}
    for broker in beside:
        if broker not in parents:
            parents |= downstream(beside, broker)
    loads = {
        broker: BrokerLoad(
            row["message_rate"],
            0.0,
            row["clients"],
            row["input_ratio"] or 0.0,
            row["output_ratio"] or 0.0,
        )
        for broker, row in one.brokers.items()
    }
    return Drawing(f"{name}: {len(parents)} brokers", parents, loads)


def _shares(name: str, hops: Mapping[int, int], found: Mapping[str, WindowMetrics]) -> Series:

    most = max((hop for one in found.values() for hop in one.hops), default=0)
    total = max(1, sum(hops.values()))
    return Series(
        name,
        [str(hop) for hop in range(most + 1)],
        [100 * hops.get(hop, 0) / total for hop in range(most + 1)],
    )
