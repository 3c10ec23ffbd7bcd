"""`runnel trace`: look at a trace: what it holds, how it ends, the rows of a table."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from time import sleep
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from runnel.language import parse
from runnel.trace.folder import Clock
from runnel.trace.reader import Row, open_trace
from runnel.trace.schemas import TABLES
from runnel.trace.summary import Summary, summarise
from runnel.trace.tail import Tail, Told

SECOND = 1_000_000_000
PLAIN_WIDTH = 160  # of a table that goes into a file or a pipe
LOOKED_EVERY_S = 0.3
_STATES = {"running": "green", "ended": "", "killed": "red"}

directory = click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
broker_names = click.option(
    "--broker", "brokers", multiple=True, metavar="NAME", help="Only this broker; may be repeated."
)


@click.group()
def trace() -> None:
    """Look at what was recorded in a trace directory."""


@trace.command()
@directory
@click.option("--json", "as_json", is_flag=True, help="Everything, as one JSON object.")
def summary(directory: Path, as_json: bool) -> None:
    """Tell what a trace holds, who wrote it, and what is missing.

    \b
    Examples:
      runnel trace summary traces/
      runnel trace summary traces/ --json | jq '.tables.publications.rows'

    \b
    Exit codes:
      0    everything that is there can be read
      1    a file that is there cannot be read
      2    the command line cannot be used
    """
    found = summarise(open_trace(directory))
    if as_json:
        click.echo(json.dumps(asdict(found)))
    else:
        _print_summary(found)
    if found.unreadable:
        raise SystemExit(1)


@trace.command()
@directory
@click.option("-n", "--rows", "count", default=20, show_default=True, type=click.IntRange(0))
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written, until Ctrl-C.")
@click.option(
    "--table", "tables", multiple=True, type=click.Choice(TABLES), help="Only this table."
)
@broker_names
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def tail(
    directory: Path,
    count: int,
    follow: bool,
    tables: Sequence[str],
    brokers: Sequence[str],
    as_json: bool,
) -> None:
    """Show the newest rows of all tables, in the order of their times.

    What a broker records can be seen when its writer has flushed, some seconds later.

    \b
    Examples:
      runnel trace tail traces/
      runnel trace tail traces/ --follow --table control

    \b
    Exit codes:
      0    all was shown
      2    the command line cannot be used
      130  interrupted by Ctrl-C
    """
    found = open_trace(directory)
    end = Tail(found, tables or TABLES, brokers or None)
    try:
        _tell(end.last(count), found.clock, as_json)
        while follow:
            # Others write, and nobody tells when: the directory is looked at now and then.
            sleep(LOOKED_EVERY_S)
            _tell(end.more(), found.clock, as_json)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


@trace.command()
@directory
@click.argument("table", type=click.Choice(TABLES), metavar="TABLE")
@click.option("--where", metavar="FILTER", help="Only rows that match, as in a subscription.")
@click.option("--from", "start_s", type=float, help="Only from this time on, in seconds.")
@click.option("--to", "end_s", type=float, help="Only before this time, in seconds.")
@broker_names
@click.option("--limit", default=20, show_default=True, type=click.IntRange(0), help="0: all rows.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def show(
    directory: Path,
    table: str,
    where: str | None,
    start_s: float | None,
    end_s: float | None,
    brokers: Sequence[str],
    limit: int,
    as_json: bool,
) -> None:
    """Show the rows of one table.

    The tables: brokers, links, subscriptions, advertisements, publications, deliveries, intervals, control. A filter
    sees the columns, and of publications their attributes too.

    \b
    Examples:
      runnel trace show traces/ publications --where "symbol = 'YHOO' AND size_bytes > 200"
      runnel trace show traces/ deliveries --where "hops > 3" --limit 0 --json
      runnel trace show traces/ intervals --broker B1 --from 60 --to 120
    """
    found = open_trace(directory)
    rows = found.rows(
        table,
        where=parse(where) if where else None,
        start_ns=None if start_s is None else round(start_s * SECOND),
        end_ns=None if end_s is None else round(end_s * SECOND),
        brokers=brokers or None,
    )
    wanted = islice(rows, limit) if limit else rows
    if as_json:
        for row in wanted:
            click.echo(json.dumps(_plain(row)))
    else:
        shown = _print_rows(table, wanted, found.clock)
        if limit and shown == limit and next(rows, None) is not None:
            click.echo(f"… more than {limit:,} rows: --limit 0 shows all", err=True)


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


# -- summary --------------------------------------------------------------------------------------------


def _print_summary(found: Summary) -> None:
    console = _console()
    console.print(_tables_table(found))
    if found.writers:
        console.print(_writers_table(found))
    for line in found.complaints:
        console.print(Text(line, style="red"))
    if not found.complaints:
        console.print("nothing is missing")


def _tables_table(found: Summary) -> Table:
    table = Table(title=f"tables, {found.clock} time", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("table", no_wrap=True)
    for column in ("rows", "files", "KiB", "dropped", "not written"):
        table.add_column(column, justify="right")
    table.add_column("from", no_wrap=True)
    table.add_column("to", no_wrap=True)
    for name, held in found.tables.items():
        table.add_row(
            name,
            f"{held.rows:,}",
            f"{held.files:,}",
            f"{held.bytes / 1024:,.0f}",
            Text(f"{held.dropped:,}", style="red" if held.dropped else ""),
            Text(f"{held.failed:,}", style="red" if held.failed else ""),
            _moment(held.first_ns, found.clock),
            _moment(held.last_ns, found.clock),
        )
    return table


def _writers_table(found: Summary) -> Table:
    table = Table(title="writers", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("writer", no_wrap=True)
    table.add_column("state")
    table.add_column("kept")
    table.add_column("files", justify="right")
    table.add_column("from", no_wrap=True)
    table.add_column("written up to", no_wrap=True)
    table.add_column("may be missing", justify="right")
    for writer in found.writers:
        table.add_row(
            Text(writer.name),
            Text(writer.state, style=_STATES[writer.state]),
            "all" if writer.sample == 1 else f"1 of {writer.sample:,}",
            f"{writer.files:,}",
            _moment(writer.opened_ns, found.clock),
            _moment(writer.flushed_ns, found.clock),
            f"{writer.missing_s:.1f} s" if writer.missing_s else "",
        )
    return table


def _moment(time_ns: int | None, clock: Clock) -> str:
    """A time for people: seconds in the simulator, the time of day in UTC on a node.

    >>> _moment(1_500_000_000, "virtual"), _moment(1_500_000_000, "wall")
    ('1.500000 s', '1970-01-01 00:00:01.500000')
    """
    if time_ns is None:
        return ""
    if clock == "virtual":
        return f"{time_ns / SECOND:,.6f} s"
    whole, rest = divmod(time_ns, SECOND)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%d %H:%M:%S}.{rest // 1000:06d}"


# -- rows -----------------------------------------------------------------------------------------------


def _tell(rows: Sequence[Told], clock: Clock, as_json: bool) -> None:
    """Rows of any tables, one line each."""
    for table, row in rows:
        if as_json:
            line = json.dumps({"table": table, **_plain(row)})
        else:
            rest = {k: v for k, v in row.items() if k not in ("time_ns", "broker", "selection")}
            told = " ".join(f"{key}={_cell(value)}" for key, value in rest.items() if value != "")
            line = f"{_moment(row['time_ns'], clock)}  {row['broker']}  {table}  {told}"
        click.echo(line)


def _print_rows(table: str, rows: Iterator[Row], clock: Clock) -> int:
    """Rows of one table; how many there were."""
    found = list(rows)
    if not found:
        click.echo("no rows", err=True)
        return 0
    if len(found[0]) > 10:  # too wide for a table: a line each
        _tell([(table, row) for row in found], clock, as_json=False)
        return len(found)
    columns = [name for name in found[0] if name != "selection"]
    printed = Table(box=box.SIMPLE_HEAD)
    for name in columns:
        is_number = isinstance(found[0][name], int) and name != "time_ns"
        printed.add_column(
            "time" if name == "time_ns" else name, justify="right" if is_number else "left"
        )
    for row in found:
        printed.add_row(
            *(
                _moment(row[name], clock) if name == "time_ns" else Text(_cell(row[name]))
                for name in columns
            )
        )
    _console().print(printed)
    return len(found)


def _cell(value: Any) -> str:
    """A value for people.

    >>> _cell({"symbol": "YHOO", "close": 18.5}), _cell(0.123456), _cell(None)
    ('symbol=YHOO close=18.5', '0.1235', '')
    """
    if isinstance(value, dict):
        return " ".join(f"{key}={_cell(held)}" for key, held in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def _plain(row: Row) -> Row:
    """A row as JSON can hold it: bytes in base64."""
    return {
        name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for name, value in row.items()
    }
