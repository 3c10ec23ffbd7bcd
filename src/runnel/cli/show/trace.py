"""What `runnel trace` prints: the summary of a trace, and rows of its tables, for people or as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import click
from rich import box
from rich.table import Table
from rich.text import Text

from runnel.cli.show.tables import make_console
from runnel.quantities import SECOND
from runnel.trace.folder import Clock
from runnel.trace.reader import Row
from runnel.trace.summary import Summary
from runnel.trace.tail import TableAndRow

PLAIN_WIDTH = 160  # of a table that goes into a file or a pipe
_STATES = {"running": "green", "ended": "", "killed": "red"}


def print_summary(found: Summary) -> None:
    """Print what a trace holds, who wrote it, and what is missing."""
    console = make_console(PLAIN_WIDTH)
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
            _format_time(held.first_ns, found.clock),
            _format_time(held.last_ns, found.clock),
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
            _format_time(writer.opened_ns, found.clock),
            _format_time(writer.flushed_ns, found.clock),
            f"{writer.missing_s:.1f} s" if writer.missing_s else "",
        )
    return table


def _format_time(time_ns: int | None, clock: Clock) -> str:
    """A time for people: seconds in the simulator, the time of day in UTC on a node.

    >>> _format_time(1_500_000_000, "virtual"), _format_time(1_500_000_000, "wall")
    ('1.500000 s', '1970-01-01 00:00:01.500000')
    """
    if time_ns is None:
        return ""
    if clock == "virtual":
        return f"{time_ns / SECOND:,.6f} s"
    whole, rest = divmod(time_ns, SECOND)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%d %H:%M:%S}.{rest // 1000:06d}"


def print_mixed_rows(rows: Sequence[TableAndRow], clock: Clock, as_json: bool) -> None:
    """Rows of any tables, one line each."""
    for table, row in rows:
        if as_json:
            line = json.dumps({"table": table, **json_row(row)})
        else:
            rest = {k: v for k, v in row.items() if k not in ("time_ns", "broker", "selection")}
            told = " ".join(
                f"{key}={_format_value(value)}" for key, value in rest.items() if value != ""
            )
            line = f"{_format_time(row['time_ns'], clock)}  {row['broker']}  {table}  {told}"
        click.echo(line)


def print_rows(table: str, rows: Iterator[Row], clock: Clock) -> int:
    """Rows of one table; how many there were."""
    found = list(rows)
    if not found:
        click.echo("no rows", err=True)
        return 0
    if len(found[0]) > 10:  # too wide for a table: a line each
        print_mixed_rows([(table, row) for row in found], clock, as_json=False)
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
                _format_time(row[name], clock)
                if name == "time_ns"
                else Text(_format_value(row[name]))
                for name in columns
            )
        )
    make_console(PLAIN_WIDTH).print(printed)
    return len(found)


def _format_value(value: Any) -> str:
    """A value for people.

    >>> _format_value({"symbol": "YHOO", "close": 18.5}), _format_value(0.123456), _format_value(None)
    ('symbol=YHOO close=18.5', '0.1235', '')
    """
    if isinstance(value, dict):
        return " ".join(f"{key}={_format_value(held)}" for key, held in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def json_row(row: Row) -> Row:
    """A row as JSON can hold it: bytes in base64."""
    return {
        name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for name, value in row.items()
    }
