"""`runnel sub`: prints the events that a filter wants as they are published."""

from __future__ import annotations

import asyncio
import sys

import click

from runnel.cli.broker_address import DIAL_S, broker_option, find_broker
from runnel.cli.filters import read_filter
from runnel.cli.show.connection import ConnectionNotices, say_gap, say_missing
from runnel.cli.show.events import as_json as event_as_json
from runnel.cli.show.events import as_line
from runnel.cli.stop_signals import run_until_signal
from runnel.client.aio import Client, State, connect
from runnel.client.effects import Gap
from runnel.client.subscription import Subscription
from runnel.errors import NetworkError
from runnel.language import Selection


@click.command(short_help="Print the events that a filter wants.")
@click.argument("filters", nargs=-1, required=True, metavar="FILTER...")
@broker_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, payload included.")
@click.option("--count", type=click.IntRange(1), help="End after so many events.")
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    help="End after so many seconds; exit code 1 if --count is not reached.",
)
@click.option("--name", help="What the client is called; unique in the network.")
@click.option("--quiet", is_flag=True, help="Say nothing on stderr but errors.")
def sub(
    filters: tuple[str, ...],
    broker: str | None,
    as_json: bool,
    count: int | None,
    timeout: float | None,
    name: str | None,
    quiet: bool,
) -> None:
    """Subscribe, and print every event that a FILTER wants: one per line, until Ctrl-C.

    A filter is SQL-like (symbol = 'YHOO' AND volume > 5) or in brackets ([volume,>,5]); TRUE wants everything.
    With several filters an event is printed once for each that wants it. When "ready" appears on stderr,
    everything published from then on arrives; if a part of the network cannot be reached, that is said
    before. If the broker is lost, that is told there too, and it is tried again.

    \b
    Examples:
      runnel sub "symbol = 'YHOO'"
      runnel sub "volume > 300000" --json | jq .attributes
      runnel sub TRUE --count 1 --broker runnel://127.0.0.1:7002

    \b
    Exit codes:
      0    ended by Ctrl-C or SIGTERM, after --count events, or after --timeout
      1    no broker could be reached, another client took the name, or --timeout came before --count events
      2    the command line cannot be used
    """
    selections = [read_filter(text, quiet=quiet) for text in filters]
    printer = _Printer(as_json, count, quiet)
    url = str(find_broker(broker))
    run_until_signal(printer.run(url, name, selections, timeout), None)
    sys.exit(1 if count is not None and printer.printed < count and timeout is not None else 0)


class _Printer:
    """Prints events as they come, at most so many."""

    def __init__(self, as_json: bool, count: int | None, quiet: bool) -> None:
        self.printed = 0
        self._count = count
        self._quiet = quiet
        self._notices = ConnectionNotices("events may be missing")
        self._text = event_as_json if as_json else as_line

    async def run(
        self, url: str, name: str | None, selections: list[Selection], timeout: float | None
    ) -> None:
        """Subscribe and print until there is enough, or the time is over."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        dial_s = DIAL_S if timeout is None else min(DIAL_S, timeout)
        # Not under the same timeout: `connect` raises its own error, which says what could not be reached, and why.
        async with connect(
            url, name=name, timeout=dial_s, on_missed=_say_missed, on_gap=self._note_gap
        ) as client:
            where = f"{client.broker} ({client.address})"
            ready = False
            try:
                async with asyncio.timeout_at(None if timeout is None else begin + timeout):
                    subscriptions = [
                        await client.subscribe(wanted, wait="reachable", timeout=None)
                        for wanted in selections
                    ]
                    ready = True
                    if not self._quiet:
                        say_missing(subscriptions[-1].missing, "is published behind {}")
                        click.echo(f"ready at {where}; Ctrl-C ends it", err=True)
                    await self._print_all(client, subscriptions)
            except TimeoutError:
                if not ready:
                    raise NetworkError(
                        f"connected to {where}, but the network did not confirm the subscription "
                        f"within {timeout:g} s: see runnel status, or give it a longer --timeout"
                    ) from None

    def _note_gap(self, gap: Gap) -> None:
        self._notices.note_gap(gap)
        if not self._quiet:
            say_gap(gap)

    async def _print_all(self, client: Client, subscriptions: list[Subscription]) -> None:
        tasks = [asyncio.ensure_future(self._print(one)) for one in subscriptions]
        if not self._quiet:
            tasks.append(asyncio.ensure_future(self._notices.tell(client)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result
        if client.state is State.CLOSED:
            await client.flush()  # says why the client is over

    async def _print(self, subscription: Subscription) -> None:
        async for event in subscription:
            if self.printed == self._count:
                return
            click.echo(self._text(event))
            self.printed += 1
            if self.printed == self._count:
                return


def _say_missed(count: int) -> None:
    click.echo(f"missed {count:,} events: whoever reads this is too slow", err=True)
