"""`runnel match`: which filters want which events, from files.

The journey: read the filters → put them into an engine → read events in batches → match each batch
(only this is timed) → count → report. Events stream through; memory grows with the filters only.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import IO

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from runnel.cli.show.matches import MatchCounts, print_report, report_as_json
from runnel.errors import InputError
from runnel.matching import Engine, EngineName, make_engine
from runnel.workload.files import NamedFilter, count_events, read_events, read_filters

# Small, because a batch holds the ids of everyone who wants its events.
_EVENTS_PER_BATCH = 256
_TABLE_ROWS = 20


_file = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--filters", "filters_path", required=True, type=_file, metavar="FILE")
@click.option("--events", "events_path", required=True, type=_file, metavar="FILE")
@click.option(
    "--output", type=_file, metavar="FILE", help="Write one JSON line per event: who wants it."
)
@click.option("--top", type=click.IntRange(0), help="Show the N filters with the most matches.")
@click.option("--show", default=0, type=click.IntRange(0), help="Show the first N events.")
@click.option("--json", "as_json", is_flag=True, help="Report as one JSON object, for programs.")
@click.option(
    "--engine",
    "engine_name",
    type=click.Choice(["auto", "compiled", "index"]),
    default="auto",
    show_default=True,
    help="index is pure Python; auto takes the compiled one where it was built.",
)
def match(
    filters_path: Path,
    events_path: Path,
    output: Path | None,
    top: int | None,
    show: int,
    as_json: bool,
    engine_name: EngineName,
) -> None:
    """Show which filters want which events.

    \b
    FILTERS  text, one filter per line, optionally with a name: filters.txt
               cheap:  symbol = 'YHOO' AND close < 20
               busy:   [symbol,eq,'YHOO'],[volume,>,300000]
             or a table with the columns id and filter: .jsonl, .csv, .parquet
    EVENTS   a table, one event per row: .jsonl, .csv, .parquet
    Text formats may be compressed (.gz).

    \b
    Example:
      echo '{"symbol": "YHOO", "close": 18.37, "volume": 6200}' > events.jsonl
      echo "cheap: symbol = 'YHOO' AND close < 20" > filters.txt
      runnel match --filters filters.txt --events events.jsonl

    \b
    Exit codes:
      0    done
      2    the command line, a filter or an event cannot be used; the message says what to do
    """
    filters = read_filters(filters_path)
    engine = make_engine(engine_name)
    for number, wanted in enumerate(filters):
        engine.add(number, wanted.selection)
    with ExitStack() as stack:
        sink = stack.enter_context(_open_output(output)) if output else None
        advance = stack.enter_context(_progress(count_events(events_path)))
        tally = _run(engine, filters, events_path, show=show, sink=sink, advance=advance)
    if as_json:
        click.echo(json.dumps(report_as_json(tally, filters, top), ensure_ascii=False))
    else:
        print_report(tally, filters, _TABLE_ROWS if top is None else top)
        if output:
            click.echo(f"who wants which event: {output}")


def _run(
    engine: Engine,
    filters: list[NamedFilter],
    path: Path,
    *,
    show: int,
    sink: IO[str] | None,
    advance: Callable[[int], None],
) -> MatchCounts:
    """Match every event of the file; only the engine's own time is counted."""
    tally = MatchCounts(engine.name)
    numbered = read_events(path)
    while batch := list(islice(numbered, _EVENTS_PER_BATCH)):
        start = time.perf_counter()
        found = [engine.match(event).ids() for _, event in batch]
        tally.matching_s += time.perf_counter() - start
        tally.events += len(batch)
        for (number, event), ids in zip(batch, found, strict=True):
            tally.matches += len(ids)
            tally.unwanted += not ids
            tally.counts.update(ids)
            if len(tally.shown) < show:
                tally.shown.append((event, ids))
            if sink:
                names = [filters[wanted].name for wanted in sorted(ids)]
                sink.write(
                    json.dumps({"event": number, "filters": names}, ensure_ascii=False) + "\n"
                )
        advance(len(batch))
    return tally


@contextmanager
def _open_output(path: Path) -> Iterator[IO[str]]:
    try:
        with open(path, "w", encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


@contextmanager
def _progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on the terminal; where errors go to a file or a pipe, nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (TextColumn("matching"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("matching", total=total)
        yield lambda events: progress.advance(task, events)
