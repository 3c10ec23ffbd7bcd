"""`runnel demo`: shows on real processes that nothing is lost and nothing doubled, whatever is done to the network."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import click
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from runnel.cli.demorun import Demo
from runnel.cli.running import Stopped, StopSignals
from runnel.cli.upview import LiveView
from runnel.topology.rates import Rates
from runnel.topology.tally import Result

LOOK_EVERY_S = 1.0
SAID_SHOWN_MAX = 3


@click.command(short_help="Seven brokers at work, while their network is disturbed.")
@click.option(
    "--seconds",
    default=15.0,
    show_default=True,
    type=click.FloatRange(3, 3600),
    help="How long publishers publish.",
)
@click.option("--json", "as_json", is_flag=True, help="Report as one JSON object, for programs.")
def demo(seconds: float, as_json: bool) -> None:
    """Run seven brokers with stock publishers and subscribers; cut a link, move a subscriber, count everything.

    Each broker is a process of its own. What had to be delivered is worked out by brute force and compared with what
    was.

    \b
    Exit codes:
      0    everything arrived, once and in order
      1    something was lost, doubled or out of order
      2    the command line cannot be used
      130  interrupted by Ctrl-C
    """
    folder = Path(tempfile.mkdtemp(prefix="runnel-demo-"))
    shown = _Shown(quiet=as_json)
    run = Demo(seconds, folder, shown.say)
    with StopSignals() as stop:
        run.processes.checkpoint = stop.check
        try:
            run.start()
            result = stop.run(_watched(run, shown))
        except Stopped:
            shown.say("stopped")
            sys.exit(130)
        finally:
            run.stop()
    latency = run.latency_apart_from_the_cut()
    if as_json:
        whole = {"p50_ms_links_up": latency[0], "p99_ms_links_up": latency[1]}
        hops = run.tally.hops / max(1, result.delivered)
        click.echo(json.dumps({**asdict(result), **whole, "mean_hops": round(hops, 2)}))
    else:
        _print_result(shown.console, run, result, latency)
    if not result.is_clean:
        click.echo(f"something went wrong; the logs of the brokers are in {folder}", err=True)
        sys.exit(1)
    shutil.rmtree(folder, ignore_errors=True)


async def _watched(run: Demo, shown: _Shown) -> Result:
    """Run it, and show how it goes."""
    watching = asyncio.get_running_loop().create_task(_watch(run, shown))
    try:
        return await run.run()
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def _watch(run: Demo, shown: _Shown) -> None:
    with shown.live():
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await asyncio.to_thread(run.look)
            shown.look(run)


class _Shown:
    """What the user sees while it runs: tables on a terminal, lines elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self.console = Console(highlight=False)
        self._quiet = quiet
        self._said: list[str] = []
        self._view = LiveView()
        self._rates = Rates()
        self._live: Live | None = None

    def say(self, text: str) -> None:
        """Something happened."""
        if self._quiet:
            return
        self._said.append(text)
        if self._live is None:
            self.console.print(text, markup=False)

    @contextmanager
    def live(self) -> Iterator[None]:
        """While the tables are shown, what is said stands above them; afterwards it stays."""
        if self._quiet or not self.console.is_terminal:
            yield
            return
        before = len(self._said)
        try:
            with Live(console=self.console, auto_refresh=False, transient=True) as self._live:
                yield
        finally:
            self._live = None
            for text in self._said[before:]:
                self.console.print(text, markup=False)

    def look(self, run: Demo) -> None:
        """Show the rates and hops of this moment."""
        if self._quiet or run.runner is None:
            return
        tally = run.tally
        counts = {"published": tally.published, "delivered": tally.delivered}
        rates = self._rates.look(counts)
        hops = tally.hops / tally.delivered if tally.delivered else 0.0
        line = (
            f"published {tally.published:,} ({rates['published']:,.0f}/s)  "
            f"delivered {tally.delivered:,} ({rates['delivered']:,.0f}/s)  mean hops {hops:.2f}"
        )
        if self._live is None:
            self.console.print(line, markup=False)
            return
        tables = self._view.tables(run.statuses, run.runner.running)
        said = [Text(text, style="yellow") for text in self._said[-SAID_SHOWN_MAX:]]
        # The tables come last: a terminal that is too small cuts off the end.
        self._live.update(Group(*said, Text(line, style="bold"), tables), refresh=True)


def _print_result(
    console: Console, run: Demo, result: Result, latency: tuple[float, float]
) -> None:
    table = Table(title="what came of it", box=box.SIMPLE, title_justify="left", show_header=False)
    table.add_column(style="dim")
    table.add_column(justify="right", style="bold")
    table.add_column(style="dim")
    hops = run.tally.hops / max(1, result.delivered)
    table.add_row("published", f"{result.published:,}", "events")
    table.add_row("delivered", f"{result.delivered:,}", f"over {hops:.2f} links on average")
    table.add_row("must", f"{result.must:,}", "by brute force: every event against every filter")
    table.add_row("lost", _wrong(result.lost))
    table.add_row("doubled", _wrong(result.doubled))
    table.add_row("out of order", _wrong(result.disordered))
    if result.uncalled_for:
        table.add_row("uncalled for", _wrong(result.uncalled_for))
    if result.in_doubt:
        table.add_row("in doubt", _wrong(result.in_doubt))
    table.add_row("p50", f"{latency[0]:,.1f} ms", "while all links were up")
    table.add_row("p99", f"{latency[1]:,.1f} ms")
    table.add_row("p99", f"{result.p99_ms:,.1f} ms", "with what waited for the link that was cut")
    console.print(table)


def _wrong(count: int) -> Text:
    return Text(f"{count:,}", style="bold red" if count else "bold green")
