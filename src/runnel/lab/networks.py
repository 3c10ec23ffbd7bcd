"""Networks drawn as trees side by side, for example before and after a plan.

    Drawing          a tree of brokers: parents, loads, how many clients each has
    draw_networks    several of them in one figure, as SVG and PNG, in the style of all figures

A broker is a disc. Its area shows how many clients it has, its colour its utilisation: white is none, full blue is
100%, red is more. Children are drawn below their parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from runnel.errors import InputError
from runnel.lab.figures import COLOURS, house_style, save
from runnel.planning.documents.plan import BrokerLoad

_INCHES_EACH = (6.0, 4.2)
_AREA_MIN, _AREA_MOST = 500.0, 2_600.0
_INK, _LINE = "#222222", "#999999"
_FULL, _OVER = to_rgb(COLOURS[0]), to_rgb(COLOURS[1])


@dataclass(frozen=True, slots=True)
class Drawing:
    """A tree. `parents` has each broker's parent, None for the root. A broker without a load is white."""

    title: str
    parents: Mapping[str, str | None]
    loads: Mapping[str, BrokerLoad] = field(default_factory=dict)


def draw_networks(name: str, drawings: Sequence[Drawing], folder: Path) -> tuple[Path, Path]:
    """Draw trees side by side into a folder; the SVG and the PNG."""
    if not drawings or not all(drawing.parents for drawing in drawings):
        raise InputError(f"figure {name!r} has no brokers to draw")
    most = max((load.subscriptions for one in drawings for load in one.loads.values()), default=0)
    with house_style():
        width, height = _INCHES_EACH
        figure = Figure(figsize=(width * len(drawings), height), layout="constrained")
        FigureCanvasAgg(figure)
        for place, drawing in enumerate(drawings, 1):
            _draw(figure.add_subplot(1, len(drawings), place), drawing, max(1, most))
        return save(figure, name, "; ".join(drawing.title for drawing in drawings), folder)


def _draw(axes: Axes, drawing: Drawing, most: int) -> None:
    places = positions(drawing.parents)
    for broker, parent in drawing.parents.items():
        if parent is not None:
            (x, y), (above_x, above_y) = places[broker], places[parent]
            axes.plot([x, above_x], [y, above_y], color=_LINE, linewidth=2.0, zorder=1)
    for broker, (x, y) in places.items():
        load = drawing.loads.get(broker)
        ratio = max(load.output_ratio, load.input_ratio) if load else 0.0
        share = load.subscriptions / most if load else 0.0
        area = _AREA_MIN + (_AREA_MOST - _AREA_MIN) * share
        colour = shade(ratio)
        axes.scatter([x], [y], s=area, color=[colour], edgecolors=_INK, linewidths=1.4, zorder=2)
        label = f"{broker}\n{ratio:.0%}" if load else broker
        ink = "white" if sum(colour) < 1.6 else _INK
        axes.text(x, y, label, ha="center", va="center", color=ink, fontsize=11, zorder=3)
    axes.set_title(drawing.title)
    axes.margins(0.2, 0.3)
    axes.set_axis_off()


def shade(ratio: float) -> tuple[float, float, float]:
    """The colour of a load.

    >>> shade(0.0)
    (1.0, 1.0, 1.0)
    >>> shade(1.5) == to_rgb(COLOURS[1])
    True
    """
    if ratio > 1:
        return _OVER
    red, green, blue = (1.0 - max(0.0, ratio) * (1.0 - part) for part in _FULL)
    return red, green, blue


def positions(parents: Mapping[str, str | None]) -> dict[str, tuple[float, float]]:
    """Where each broker of a tree is drawn: leaves side by side, every other broker above the middle of its children.

    >>> positions({"A": None, "B": "A", "C": "A"})
    {'A': (0.5, 0.0), 'B': (0.0, -1.0), 'C': (1.0, -1.0)}
    """
    children: dict[str | None, list[str]] = {}
    for broker, parent in parents.items():
        children.setdefault(parent, []).append(broker)
    depths: dict[str, int] = {}
    waiting = [(root, 0) for root in reversed(children.get(None, []))]
    while waiting:  # not by calls: a tree may be as deep as it has brokers
        broker, depth = waiting.pop()
        depths[broker] = depth
        waiting += [(child, depth + 1) for child in reversed(children.get(broker, []))]
    across: dict[str, float] = {}
    leaves = 0
    for broker in depths:  # each before what hangs on it, and from left to right
        if broker not in children:
            across[broker] = float(leaves)
            leaves += 1
    for broker in reversed(depths):
        if broker in children:
            below = [across[child] for child in children[broker]]
            across[broker] = (below[0] + below[-1]) / 2
    return {broker: (across[broker], 0.0 - depth) for broker, depth in depths.items()}
