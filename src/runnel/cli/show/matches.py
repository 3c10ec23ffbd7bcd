"""What `runnel match` prints: tables for people, or one JSON object for programs."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from runnel.cli.show.tables import make_console
from runnel.matching import engine_note
from runnel.workload.files import Event, NamedFilter

# What a table is wide when it goes into a file or a pipe, where there is no terminal to ask.
_PLAIN_WIDTH = 120
_NAMES_SHOWN = 6
# From this number of filters on, a table of their selectivity is printed.
_FILTERS_WORTH_SORTING = 50
_SHARES = (
    (1.0, "all of them"),
    (0.1, "10 % and more"),
    (0.01, "1 % to 10 %"),
    (0.001, "0.1 % to 1 %"),
)
_BAR_CELLS = 40


@dataclass
class MatchCounts:
    """What a run counted."""

    engine: str
    events: int = 0
    matches: int = 0
    unwanted: int = 0
    """Events that no filter wants."""
    matching_s: float = 0.0
    """Time spent in the engine alone."""
    counts: Counter[int] = field(default_factory=Counter)
    """How many events each filter wants, by its place in the file of filters."""
    shown: list[tuple[Event, array[int]]] = field(default_factory=list)
    """The first events, with who wants them."""


def report_as_json(
    tally: MatchCounts, filters: list[NamedFilter], top: int | None
) -> dict[str, Any]:
    """The whole result as one object; `top` limits the list of filters."""
    return {
        "events": tally.events,
        "filters": len(filters),
        "matches": tally.matches,
        "unwanted_events": tally.unwanted,
        "matching_s": round(tally.matching_s, 6),
        "events_per_s": round(_rate(tally)),
        "engine": tally.engine,
        "counts": [
            {
                "id": filters[number].name,
                "filter": filters[number].text,
                "matches": tally.counts[number],
                "share": round(_share(tally, number), 6),
            }
            for number in _by_matches(tally, filters)[:top]
        ],
    }


def print_report(tally: MatchCounts, filters: list[NamedFilter], rows: int) -> None:
    """Print the events that were to be shown, the filters with the most matches, and the summary."""
    console = make_console(_PLAIN_WIDTH)
    if tally.shown:
        console.print(_events_table(tally, filters))
    if rows:
        console.print(_filters_table(tally, filters, rows))
    if tally.events and len(filters) >= _FILTERS_WORTH_SORTING:
        console.print(_shares_table(tally, filters))
    console.print()
    console.print(_summary(tally, filters))


def _events_table(tally: MatchCounts, filters: list[NamedFilter]) -> Table:
    table = Table(
        title="events and who wants them", box=box.SIMPLE_HEAD, title_justify="left", leading=1
    )
    table.add_column("event", ratio=3, overflow="fold", style="cyan")
    table.add_column("wanted by", justify="right")
    table.add_column("filters", ratio=2, overflow="fold")
    for event, ids in tally.shown:
        names = [filters[number].name for number in sorted(ids)[:_NAMES_SHOWN]]
        more = ["…"] if len(ids) > _NAMES_SHOWN else []
        table.add_row(Text(_describe(event)), f"{len(ids):,}", Text(", ".join(names + more)))
    return table


def _filters_table(tally: MatchCounts, filters: list[NamedFilter], rows: int) -> Table:
    """One row per distinct filter: those that mean the same share a row."""
    groups: dict[object, list[int]] = {}
    for number in _by_matches(tally, filters):
        groups.setdefault(filters[number].selection, []).append(number)
    shown = list(groups.values())[:rows]
    hidden = len(filters) - sum(map(len, shown))
    table = Table(
        title="filters with the most matches",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption=f"and {hidden:,} more filters (--top N shows more)" if hidden else None,
        caption_justify="left",
    )
    table.add_column("name", no_wrap=True)
    table.add_column("filter", overflow="fold", style="cyan")
    table.add_column("matches", justify="right")
    table.add_column("share", justify="right")
    for first, *equal in shown:
        name = Text(filters[first].name)
        if equal:
            name.append(f" +{len(equal)} equal", style="dim")
        share = f"{_share(tally, first):.1%}"
        table.add_row(name, Text(filters[first].text), f"{tally.counts[first]:,}", share)
    return table


def _shares_table(tally: MatchCounts, filters: list[NamedFilter]) -> Table:
    """How many filters want how large a share of the events."""
    labels = [label for _, label in _SHARES] + ["less than 0.1 %", "none"]
    found = Counter(_share_label(_share(tally, number)) for number in range(len(filters)))
    table = Table(title="how choosy the filters are", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("share of the events")
    table.add_column("filters", justify="right")
    table.add_column(width=_BAR_CELLS)
    for label in labels:
        cells = round(_BAR_CELLS * found[label] / len(filters))
        table.add_row(label, f"{found[label]:,}", Text("█" * cells, style="cyan"))
    return table


def _share_label(share: float) -> str:
    for least, label in _SHARES:
        if share >= least:
            return label
    return "less than 0.1 %" if share else "none"


def _summary(tally: MatchCounts, filters: list[NamedFilter]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 1))
    table.add_column(style="dim")
    table.add_column(justify="right", style="bold")
    table.add_column()
    idle = len(filters) - len(tally.counts)
    each = f"{tally.matches / tally.events:,.1f} per event" if tally.events else ""
    table.add_row("events", f"{tally.events:,}", f"{tally.unwanted:,} wanted by no filter")
    table.add_row("filters", f"{len(filters):,}", f"{idle:,} want no event")
    table.add_row("matches", f"{tally.matches:,}", each)
    table.add_row(
        "rate", f"{_rate(tally):,.0f}", f"events/s, matching alone ({tally.matching_s:.2f} s)"
    )
    table.add_row("engine", tally.engine, "" if tally.engine == "compiled" else engine_note())
    return table


def _by_matches(tally: MatchCounts, filters: list[NamedFilter]) -> list[int]:
    """Places of the filters, the one with the most matches first, equals in the file's order."""
    return sorted(range(len(filters)), key=lambda number: -tally.counts[number])


def _share(tally: MatchCounts, number: int) -> float:
    return tally.counts[number] / tally.events if tally.events else 0.0


def _rate(tally: MatchCounts) -> float:
    return tally.events / tally.matching_s if tally.matching_s else 0.0


def _describe(event: Event) -> str:
    return " ".join(f"{attribute}={value}" for attribute, value in event.items())
