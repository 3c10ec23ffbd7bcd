"""`runnel pub`: publishes one event from the command line, or many from stdin."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer
from typing import TextIO

import click

from runnel.cli.broker_address import DIAL_S, broker_option, find_broker
from runnel.cli.events import EventLine, filter_for_event, parse_event, parse_line
from runnel.cli.filters import read_filter
from runnel.cli.show.connection import say_missing
from runnel.client import blocking
from runnel.client.aio import State
from runnel.errors import InputError, NoCredit
from runnel.language import EVERYTHING, Selection, to_sql
from runnel.modules.inspection.why import describe, failures

SAY_AFTER_S = 1.0  # who waits for longer is told what for
INTERRUPTED = 130


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

    \b
    Exit codes:
      0    the broker has everything
      1    no broker could be reached, or it was lost before it had confirmed everything
      2    the command line, or a line of stdin, cannot be used
      130  interrupted by Ctrl-C
    """
    total: int | None = None
    if words:
        line = EventLine(parse_event(words), (payload or "").encode())
        lines: Iterator[EventLine] = iter([line] * repeat)
        default: Selection = filter_for_event(line.attributes)
        total = repeat
    else:
        if payload is not None or repeat > 1:
            raise InputError("--payload and --repeat are for an event on the command line")
        if sys.stdin.isatty() and not quiet:
            click.echo(
                "reading events from the terminal, one JSON object per line; Ctrl-D ends", err=True
            )
        lines, default = _read_lines(sys.stdin), EVERYTHING
    selection = default if advertised is None else read_filter(advertised, quiet=quiet)
    run = _PublishRun(str(find_broker(broker)), name, selection, rate_per_s, quiet)
    try:
        run.publish(lines)
    except KeyboardInterrupt:
        of_all = f"of {total:,}" if total is not None else "so far"
        click.echo(f"interrupted: published {run.count:,} {of_all}", err=True)
        sys.exit(INTERRUPTED)
    if not quiet:
        click.echo(f"published {_count_of_events(run.count)} at {run.where}", err=True)


@dataclass
class _PublishRun:
    """One run of the command; `count` is how many were published, `where` at which broker."""

    url: str
    name: str | None
    selection: Selection
    rate_per_s: float | None
    quiet: bool
    count: int = 0
    where: str = ""

    def publish(self, lines: Iterator[EventLine]) -> None:
        """Publish all, and return when the broker has them."""
        with self._say_if_slow(f"waiting for a broker at {self.url}"):
            client = blocking.connect(self.url, name=self.name, timeout=DIAL_S)
        with client:
            self.where = f"{client.broker} ({client.address})"
            publisher = client.advertise(self.selection, wait="nothing")
            self._wait(
                client,
                lambda timeout: publisher.ready(timeout, wait="reachable"),
                "to tell the network what will be published",
            )
            if not self.quiet:
                say_missing(publisher.missing, "subscribers behind {} are to get")
            try:
                self._publish(client, publisher, lines)
            except InputError as error:
                if not self.count:
                    raise
                publisher.flush()
                raise InputError(
                    f"{error}\npublished before it: {_count_of_events(self.count)}"
                ) from None
            self._wait(client, publisher.flush, f"to confirm {_count_of_events(self.count)}")

    def _publish(
        self,
        client: blocking.BlockingClient,
        publisher: blocking.BlockingPublisher,
        lines: Iterator[EventLine],
    ) -> None:
        begin = time.monotonic()
        for line in lines:
            if self.rate_per_s is not None:
                due = begin + self.count / self.rate_per_s
                time.sleep(max(0.0, due - time.monotonic()))
            while not self._hand_over(publisher, line):
                self._wait(client, publisher.wait_credit, "to take more")
            self.count += 1

    def _hand_over(self, publisher: blocking.BlockingPublisher, line: EventLine) -> bool:
        """Publish one, if there is credit for it."""
        if not publisher.credit:
            return False
        try:
            publisher.publish_nowait(line.attributes, line.payload)
        except NoCredit:  # it went between two threads
            return False
        except InputError:
            if self.selection.matches(line.attributes):
                raise
            raise InputError(_not_advertised(self.selection, line)) from None
        return True

    def _wait(
        self, client: blocking.BlockingClient, wait: Callable[[float | None], None], why: str
    ) -> None:
        """Wait; after a while say what for."""
        try:
            wait(SAY_AFTER_S)
        except TimeoutError:
            is_lost = client.state is State.RECONNECTING
            self._say(
                f"lost {self.where}, trying again" if is_lost else f"waiting for {self.where} {why}"
            )
            wait(None)

    @contextmanager
    def _say_if_slow(self, text: str) -> Iterator[None]:
        """Say it if what follows takes long."""
        timer = Timer(SAY_AFTER_S, self._say, [text])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _say(self, text: str) -> None:
        if not self.quiet:
            click.echo(text, err=True)


def _count_of_events(count: int) -> str:
    return f"{count:,} event{'' if count == 1 else 's'}"


def _not_advertised(selection: Selection, line: EventLine) -> str:
    groups = failures(selection, line.attributes)
    why = "; or ".join(", ".join(map(describe, group)) for group in groups)
    return (
        f"the event is not what was advertised ({to_sql(selection)}): "
        f"{why or 'nothing can satisfy it'}"
    )


def _read_lines(source: TextIO) -> Iterator[EventLine]:
    for number, text in enumerate(source, start=1):
        if text.strip():
            try:
                yield parse_line(text)
            except InputError as error:
                raise InputError(f"line {number}: {error}") from None
