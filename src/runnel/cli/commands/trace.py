"""`runnel trace`: look at a trace: what it holds, how it ends, the rows of a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from time import sleep

import click

from runnel.cli.show.trace import json_row, print_mixed_rows, print_rows, print_summary
from runnel.language import parse
from runnel.quantities import SECOND
from runnel.trace.reader import open_trace
from runnel.trace.schemas import TABLES
from runnel.trace.summary import summarise
from runnel.trace.tail import Tail

LOOKED_EVERY_S = 0.3

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
        print_summary(found)
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
        print_mixed_rows(end.last(count), found.clock, as_json)
        while follow:
            # Others write, and nobody tells when: the directory is looked at now and then.
            sleep(LOOKED_EVERY_S)
            print_mixed_rows(end.read_new_rows(), found.clock, as_json)
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

    \b
    Exit codes:
      0    all was shown
      2    the command line, the filter or the trace cannot be used; the message says what to do
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
            click.echo(json.dumps(json_row(row)))
    else:
        shown = print_rows(table, wanted, found.clock)
        if limit and shown == limit and next(rows, None) is not None:
            click.echo(f"… more than {limit:,} rows: --limit 0 shows all", err=True)
