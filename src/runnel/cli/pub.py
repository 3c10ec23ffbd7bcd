"""`runnel pub`: publishes one event from the command line, or many from stdin."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TextIO

import click

from runnel.cli.eventtext import Line, exactly, parse_event, parse_line
from runnel.cli.where import DIAL_S, broker_option, find_broker
from runnel.client import blocking
from runnel.errors import InputError
from runnel.language import EVERYTHING, Selection, parse


@click.command(short_help="Publish events.")
@click.argument("words", nargs=-1, metavar="[NAME=VALUE...]")
@broker_option
@click.option(
    "--advertise",
    "advertised",
    metavar="FILTER",
    help="What to announce. [default: exactly the event; for stdin everything]",
)
@click.option("--payload", metavar="TEXT", help="What to send along; brokers do not look at it.")
@click.option(
    "--repeat", default=1, show_default=True, type=click.IntRange(1), help="Publish it so often."
)
@click.option(
    "--rate",
    "rate_per_s",
    type=click.FloatRange(0, min_open=True),
    help="At most so many per second.",
)
@click.option("--name", help="What the publisher is called; unique in the network.")
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
def pub(
    words: tuple[str, ...],
    broker: str | None,
    advertised: str | None,
    payload: str | None,
    repeat: int,
    rate_per_s: float | None,
    name: str | None,
    quiet: bool,
) -> None:
    """Publish an event: name=value for each attribute, or JSON; without arguments, a JSON object per line of stdin.

    Numbers are numbers, true and false are booleans, everything else is text; quotes make text of
    anything (code='007'). Before it publishes it advertises, and waits until everybody who wants the event can
    get it. It ends when the broker has everything.

    \b
    Examples:
      runnel pub symbol=YHOO volume=3 close=18.37
      runnel pub '{"symbol": "YHOO", "volume": 3}' --payload "the chart"
      runnel pub < events.jsonl
      runnel sub TRUE --json | runnel pub --broker runnel://elsewhere:7001
    """
    if words:
        line = Line(parse_event(words), (payload or "").encode())
        lines: Iterator[Line] = iter([line] * repeat)
        default: Selection = exactly(line.attributes)
    else:
        if payload is not None or repeat > 1:
            raise InputError("--payload and --repeat are for an event on the command line")
        if sys.stdin.isatty() and not quiet:
            click.echo(
                "reading events from the terminal, one JSON object per line; Ctrl-D ends", err=True
            )
        lines, default = _read(sys.stdin), EVERYTHING
    selection = default if advertised is None else parse(advertised)
    count, where = _publish(str(find_broker(broker)), name, selection, lines, rate_per_s)
    if not quiet:
        click.echo(f"published {count:,} event{'' if count == 1 else 's'} at {where}", err=True)


def _publish(
    url: str,
    name: str | None,
    selection: Selection,
    lines: Iterator[Line],
    rate_per_s: float | None,
) -> tuple[int, str]:
    """Publish all; how many, and where."""
    with blocking.connect(url, name=name, timeout=DIAL_S) as client:
        publisher = client.advertise(selection)
        begin, count = time.monotonic(), 0
        for line in lines:
            if rate_per_s is not None:
                time.sleep(max(0.0, begin + count / rate_per_s - time.monotonic()))
            if not publisher.credit:
                publisher.wait_credit()
            publisher.publish_nowait(line.attributes, line.payload)
            count += 1
        publisher.flush()
        return count, f"{client.broker} ({client.address})"


def _read(source: TextIO) -> Iterator[Line]:
    for number, text in enumerate(source, start=1):
        if text.strip():
            try:
                yield parse_line(text)
            except InputError as error:
                raise InputError(f"line {number}: {error}") from None
