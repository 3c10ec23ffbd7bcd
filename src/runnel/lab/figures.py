"""Figures: charts as data, drawn in one style as SVG and PNG.

An experiment says what is in a chart (`Chart`, `Series`, `Level`); this file alone says how it looks. Rules:

- Colours are those of Okabe and Ito, which colour-blind people can tell apart. Markers, dashes and hatches differ too,
  so a chart can be read when it is printed in grey.
- Every axis has a name and, unless it counts, a unit. Text is large enough to be read at half size.
- The same chart gives the same bytes: no date, no random ids, one font that comes with matplotlib.
- Drawing needs no screen: figures are written to files through Agg and SVG.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis as MplAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from runnel.errors import InputError

Kind = Literal["lines", "bars", "steps"]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (2, 1.2)), (0, (6, 2, 1.5, 2)), "-", "-", "-")
_HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++", "oo")
_INK, _FAINT = "#222222", "#D9D9D9"
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 13,
    "axes.titlesize": 14,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "axes.labelsize": 13,
    "axes.labelpad": 6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.axisbelow": True,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _FAINT,
    "grid.linewidth": 0.8,
    "lines.linewidth": 2.4,
    "lines.markersize": 8,
    "hatch.linewidth": 1.2,
    "legend.fontsize": 12,
    "legend.frameon": False,
    "figure.constrained_layout.w_pad": 0.12,
    "figure.constrained_layout.h_pad": 0.08,
    "svg.fonttype": "path",  # looks the same everywhere, whatever fonts are there
    "svg.hashsalt": "runnel",
    "path.simplify": False,
}
_SIZE_INCHES = (7.5, 4.7)
_DOTS_PER_INCH = 144
_TICKS_MAX = 8
_LEGEND_CHARACTERS = 80  # that stand side by side


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis. `unit` stands behind the name; what is counted has none."""

    name: str
    unit: str = ""
    logarithmic: bool = False
    from_zero: bool = True

    @property
    def label(self) -> str:
        """Name and unit.

        >>> Axis("delay", "ms").label, Axis("brokers").label
        ('delay (ms)', 'brokers')
        """
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True, slots=True)
class Series:
    """One line, one set of bars, or one distribution. `errors` are drawn up and down from each value.

    `like` is the place of the series whose colour this one shares, for two that belong together.
    """

    name: str
    x: Sequence[float | str]
    y: Sequence[float]
    errors: Sequence[float] | None = None
    like: int | None = None

    def __post_init__(self) -> None:
        if not len(self.x) == len(self.y) == len(self.y if self.errors is None else self.errors):
            raise InputError(f"series {self.name!r}: as many y (and errors) are needed as x")


@dataclass(frozen=True, slots=True)
class Level:
    """A value that a paper prints, as a dotted line across the chart with its name on it."""

    name: str
    y: float


@dataclass(frozen=True, slots=True)
class Chart:
    """What is in a figure. `name` becomes the files' name; the caption stands below it in the report.

    lines   points joined by lines
    bars    groups side by side; x are names or whole numbers
    steps   a distribution function: y jumps at each x
    """

    name: str
    title: str
    caption: str
    kind: Kind
    x: Axis
    y: Axis
    series: Sequence[Series]
    levels: Sequence[Level] = ()


def line_chart(
    name: str,
    title: str,
    caption: str,
    axes: tuple[Axis, Axis],
    series: list[Series],
    levels: Sequence[Level] = (),
) -> Chart:
    """A chart of the kind `lines`, for x and y in one argument."""
    return Chart(name, title, caption, "lines", *axes, series, levels)


def draw(chart: Chart, folder: Path) -> tuple[Path, Path]:
    """Draw a chart into a folder; the SVG and the PNG."""
    with house_style():
        return save(make_figure(chart), chart.name, chart.title, folder)


def save(figure: Figure, name: str, title: str, folder: Path) -> tuple[Path, Path]:
    """Write a figure as SVG and PNG; the same figure gives the same bytes. The style must be set."""
    svg, png = folder / f"{name}.svg", folder / f"{name}.png"
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(svg, metadata={"Date": None, "Creator": "runnel", "Title": title})
    figure.savefig(png, dpi=_DOTS_PER_INCH, metadata={"Software": None, "Title": title})
    return svg, png


@contextmanager
def house_style() -> Iterator[None]:
    """Set the style of all figures, whatever style the user has."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def make_figure(chart: Chart) -> Figure:
    """A chart as matplotlib has it; the style must be set."""
    if not chart.series or not any(len(series.x) for series in chart.series):
        raise InputError(f"chart {chart.name!r} has nothing to draw")
    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _DRAW[chart.kind](axes, chart)
    _label_axes(axes, chart)
    _add_legend(figure, axes, chart)
    return figure


# -- kinds of charts --------------------------------------------------------------------------------------


def _style_of(chart: Chart, place: int) -> tuple[str, int]:
    """The colour of a series, and the number of its marker, dash and hatch."""
    like = chart.series[place].like
    return COLOURS[(place if like is None else like) % len(COLOURS)], place % len(_MARKERS)


def _draw_lines(axes: Axes, chart: Chart) -> None:
    for place, series in enumerate(chart.series):
        colour, look = _style_of(chart, place)
        axes.errorbar(
            series.x,
            series.y,
            yerr=series.errors,
            label=series.name,
            color=colour,
            marker=_MARKERS[look],
            linestyle=_DASHES[look],
            markeredgecolor="white",
            markeredgewidth=1.0,
            elinewidth=1.4,
            capsize=4,
            zorder=3 + place,
        )


def _draw_steps(axes: Axes, chart: Chart) -> None:
    for place, series in enumerate(chart.series):
        colour, look = _style_of(chart, place)
        axes.step(
            series.x,
            series.y,
            where="post",
            label=series.name,
            color=colour,
            linestyle=_DASHES[look],
            zorder=3 + place,
        )


def _draw_bars(axes: Axes, chart: Chart) -> None:
    names = list(dict.fromkeys(name for series in chart.series for name in series.x))
    where = {name: place for place, name in enumerate(names)}
    width = 0.8 / len(chart.series)
    for place, series in enumerate(chart.series):
        colour, look = _style_of(chart, place)
        offset = (place - (len(chart.series) - 1) / 2) * width
        axes.bar(
            [where[name] + offset for name in series.x],
            list(series.y),
            width * 0.94,
            yerr=None if series.errors is None else list(series.errors),
            label=series.name,
            color=colour,
            edgecolor="white",
            hatch=_HATCHES[look],
            error_kw={"elinewidth": 1.4, "capsize": 4, "ecolor": _INK},
            zorder=3,
        )
    axes.set_xticks(range(len(names)), [_format_tick(name) for name in names])
    axes.tick_params(axis="x", length=0)


_DRAW = {"lines": _draw_lines, "bars": _draw_bars, "steps": _draw_steps}


# -- what all have in common ------------------------------------------------------------------------------


def _label_axes(axes: Axes, chart: Chart) -> None:
    """Title, axes, grid and the levels of the papers."""
    axes.set_title(chart.title)
    axes.set_xlabel(chart.x.label)
    axes.set_ylabel(chart.y.label)
    axes.grid(visible=True, axis="y")
    _set_scales(axes, chart)
    for level in chart.levels:
        axes.axhline(level.y, color=_INK, linestyle=(0, (1, 2)), linewidth=1.6, zorder=2)
        axes.annotate(
            level.name,
            (1.0, level.y),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 4),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=11,
        )


def _set_scales(axes: Axes, chart: Chart) -> None:
    """Set the ends and the ticks of the axes."""
    if chart.y.logarithmic:
        axes.set_yscale("log")
        _mark_decades(axes.yaxis, axes.get_ylim())
    else:
        if chart.y.from_zero:
            # A line that is nearly flat would else lie on the edge.
            highest = max(axes.get_ylim()[1], axes.dataLim.ymax * 1.05)
            highest = max([highest, *(level.y * 1.08 for level in chart.levels)])
            axes.set_ylim(0, highest)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _format_tick(value)))
    if chart.kind == "bars":
        return
    if chart.x.logarithmic:
        axes.set_xscale("log")
        _mark_decades(axes.xaxis, axes.get_xlim())
    elif chart.x.from_zero:
        axes.set_xlim(left=0)
    known = sorted({x for series in chart.series for x in series.x if not isinstance(x, str)})
    if len(known) <= _TICKS_MAX:  # a sweep: mark what was measured
        zero = [0] if chart.x.from_zero and not chart.x.logarithmic else []
        axes.set_xticks([*zero, *known])
        axes.xaxis.set_minor_locator(NullLocator())
    elif not chart.x.logarithmic:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=_TICKS_MAX, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _format_tick(value)))


def _mark_decades(axis: MplAxis, limits: tuple[float, float]) -> None:
    """1, 2, 5, 10 … or, where that would be too many, 1, 10, 100 …"""
    decades = math.log10(limits[1] / limits[0])
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades <= 3 else (1.0,)))
    axis.set_minor_formatter(NullFormatter())


def _add_legend(figure: Figure, axes: Axes, chart: Chart) -> None:
    """Add a legend below the chart, where it hides nothing, if there is more than one series."""
    if len(chart.series) < 2:
        return
    handles, labels = axes.get_legend_handles_labels()
    columns = max(1, min(len(labels), _LEGEND_CHARACTERS // (max(map(len, labels)) + 6)))
    if len(labels) == 4 and columns == 3:
        columns = 2
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, handlelength=2.8)


def _format_tick(value: float | str) -> str:
    """A number on an axis.

    >>> _format_tick(12000.0), _format_tick(0.25), _format_tick("S0"), _format_tick(1e-9)
    ('12,000', '0.25', 'S0', '1e-09')
    """
    if isinstance(value, str):
        return value
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    return f"{value:.4g}"
