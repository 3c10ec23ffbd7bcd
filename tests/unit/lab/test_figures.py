"""Figures: the same bytes for the same chart, everything inside the picture, nothing that goes unsaid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pytest

from runnel.errors import InputError
from runnel.lab.figures import Axis, Chart, Level, Series, draw, house_style, make_figure

LINES = Chart(
    "rate",
    "Broker message rate",
    "A caption.",
    "lines",
    Axis("subscriptions"),
    Axis("broker message rate", "msg/s"),
    [
        Series("average, with a rather long name to tell", [2000, 8000], [40, 44], [3, 1]),
        Series("maximum, with a rather long name as well", [2000, 8000], [46, 46]),
    ],
    [Level("sinks everything: 46.7 msg/s", 46.7)],
)
BARS = replace(LINES, kind="bars", levels=())
STEPS = replace(LINES, kind="steps", x=Axis("delay", "ms", logarithmic=True))


@pytest.mark.parametrize("chart", [LINES, BARS, STEPS], ids=lambda chart: chart.kind)
def test_a_chart_gives_the_same_bytes_whatever_the_users_style(
    chart: Chart, tmp_path: Path
) -> None:
    first = [path.read_bytes() for path in draw(chart, tmp_path / "one")]
    with mpl.rc_context({"font.size": 30, "svg.hashsalt": None, "lines.linewidth": 9}):
        second = [path.read_bytes() for path in draw(chart, tmp_path / "two")]
        assert mpl.rcParams["font.size"] == 30  # and the user keeps it
    assert first == second
    assert first[0].startswith(b"<?xml") and first[1].startswith(b"\x89PNG")


def test_another_number_gives_another_picture(tmp_path: Path) -> None:
    other = replace(LINES, series=[Series("average", [2000, 8000], [40, 45])])
    one, two = draw(LINES, tmp_path / "one"), draw(other, tmp_path / "two")
    assert one[0].read_bytes() != two[0].read_bytes()
    assert one[1].read_bytes() != two[1].read_bytes()


@pytest.mark.parametrize("chart", [LINES, BARS, STEPS], ids=lambda chart: chart.kind)
def test_names_and_units_stand_at_the_axes_and_nothing_is_cut_off(chart: Chart) -> None:
    with house_style():
        figure = make_figure(chart)
        figure.canvas.draw()
        (axes,) = figure.axes
        assert axes.get_xlabel() == chart.x.label
        assert axes.get_ylabel() == "broker message rate (msg/s)"
        assert axes.get_title(loc="left") == chart.title
        (legend,) = figure.legends
        assert [text.get_text() for text in legend.get_texts()] == [s.name for s in chart.series]
        whole = figure.bbox
        for artist in (legend, axes.xaxis.label, axes.yaxis.label, axes.title):
            box = artist.get_window_extent()
            assert whole.x0 <= box.x0 and box.x1 <= whole.x1
            assert whole.y0 <= box.y0 and box.y1 <= whole.y1


def test_the_levels_of_papers_are_within_the_axes() -> None:
    low = replace(LINES, series=[Series("average", [1, 2], [3, 4])])
    with house_style():
        (axes,) = make_figure(low).axes
        assert axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > 46.7


def test_a_sweep_is_marked_where_it_was_measured() -> None:
    with house_style():
        (axes,) = make_figure(LINES).axes
        assert axes.get_xticks().tolist() == [0, 2000, 8000]


def test_one_series_needs_no_legend() -> None:
    with house_style():
        assert not make_figure(replace(LINES, series=LINES.series[:1])).legends


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'rate' has nothing to draw"):
        draw(replace(LINES, series=[]), tmp_path)
    with pytest.raises(InputError, match=r"'average': as many y \(and errors\) are needed as x"):
        Series("average", [1, 2], [1])
