"""`runnel demo`: shows on real processes that nothing is lost and nothing doubled, whatever is done to the network, and
that fewer brokers can do the same work."""

from __future__ import annotations

import asyncio
import json
import os
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

from runnel.cli.demoplan import Measured
from runnel.cli.demorun import Demo
from runnel.cli.extras import require_lab
from runnel.cli.running import Stopped, StopSignals
from runnel.cli.upview import LiveView
from runnel.errors import InputError, RunnelError
from runnel.pipeline.java import find_java
from runnel.pipeline.session import require_spark
from runnel.topology.rates import Rates
from runnel.topology.tally import Result

LOOK_EVERY_S = 1.0
LINE_EVERY = 5  # looks, where lines stay and are not written over
SAID_SHOWN_MAX = 3


@click.command(short_help="Seven brokers at work, disturbed, planned anew and checked.")
@click.option(
    "--seconds",
    default=15.0,
    show_default=True,
    type=click.FloatRange(3, 3600),
    help="How long publishers publish, before the plan.",
)
@click.option(
    "--plan/--no-plan",
    "with_plan",
    default=True,
    help="Plan fewer brokers from traces with Spark, and switch over to them; the default.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Leave traces, plan and logs there.",
)
@click.option("--json", "as_json", is_flag=True, help="Report as one JSON object, for programs.")
def demo(seconds: float, with_plan: bool, keep: Path | None, as_json: bool) -> None:
    """Run seven brokers with stock publishers and subscribers; cut a link, move a subscriber, plan fewer brokers from
    what was recorded, switch over to them, and count everything.

    Each broker is a process of its own. What had to be delivered is worked out by brute force and compared with what
    was. It takes a minute or two, most of it for Spark; --no-plan does without.

    \b
    Exit codes:
      0    everything arrived, once and in order
      1    something was lost, doubled or out of order; or the plan could not be made or applied
      2    the command line cannot be used, or Spark cannot start
      130  interrupted by Ctrl-C
    """
    if with_plan:
        require_spark()
        require_lab()
        find_java(os.environ)
    folder = _folder(keep)
    shown = _Shown(quiet=as_json)
    run = Demo(seconds, folder, shown.say, with_plan=with_plan)
    result = measured = None
    with StopSignals() as stop:
        run.processes.checkpoint = stop.check
        try:
            run.start()
            result = stop.run(_watched(run, shown))
            run.stop()
            measured = stop.run(run.report())
        except Stopped:
            result = None
            shown.say("stopped")
        except RunnelError:
            click.echo(f"the logs of the brokers are in {folder}", err=True)
            raise
        finally:
            run.stop()
    if result is None:
        _clean(folder, keep)
        sys.exit(130)
    _report(shown, run, result, measured, as_json)
    if not result.is_clean:
        click.echo(f"something went wrong; the logs of the brokers are in {folder}", err=True)
        sys.exit(1)
    if with_plan and keep is None:
        shown.say("runnel demo --keep DIR leaves traces, plan and report there")
    _clean(folder, keep)


def _folder(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="runnel-demo-"))
    if keep.exists() and any(keep.iterdir()):
        raise InputError(f"--keep: {keep} is not empty: choose another directory")
    keep.mkdir(parents=True, exist_ok=True)
    return keep.absolute()


def _clean(folder: Path, keep: Path | None) -> None:
    if keep is None:
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
        self._looks = 0

    def say(self, text: str) -> None:
        """Something happened."""
        if self._quiet:
            return
        self._said.append(text)
        if self._live is None:
            self.console.print(text, markup=False, soft_wrap=True)

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
                self.console.print(text, markup=False, soft_wrap=True)

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
            self._looks += 1
            if self._looks % LINE_EVERY == 1:
                self.console.print(line, markup=False, soft_wrap=True)
            return
        tables = self._view.tables(run.statuses, run.runner.running)
        said = [Text(text, style="yellow") for text in self._said[-SAID_SHOWN_MAX:]]
        # The tables come last: a terminal that is too small cuts off the end.
        self._live.update(Group(*said, Text(line, style="bold"), tables), refresh=True)


def _report(
    shown: _Shown,
    run: Demo,
    result: Result,
    measured: tuple[Measured, Measured] | None,
    as_json: bool,
) -> None:
    """What came of it: counted by brute force, and read from the traces."""
    latency = run.latency_apart_from_the_cut()
    hops = run.tally.hops / max(1, result.delivered)
    if as_json:
        whole = {"p50_ms_links_up": latency[0], "p99_ms_links_up": latency[1]}
        seen = dict(
            zip(("before", "after"), (one._asdict() for one in measured or ()), strict=False)
        )
        click.echo(json.dumps({**asdict(result), **whole, "mean_hops": round(hops, 2), **seen}))
        return
    _print_result(shown.console, result, latency, hops)
    if measured is not None:
        _print_measured(shown.console, *measured)


def _print_result(
    console: Console, result: Result, latency: tuple[float, float], hops: float
) -> None:
    table = Table(title="what came of it", box=box.SIMPLE, title_justify="left", show_header=False)
    table.add_column(style="dim")
    table.add_column(justify="right", style="bold")
    table.add_column(style="dim")
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


def _print_measured(console: Console, before: Measured, after: Measured) -> None:
    """The network before and after the plan, as its traces have it."""
    title = "before and after the plan, from the traces"
    table = Table(title=title, box=box.SIMPLE, title_justify="left")
    table.add_column(style="dim")
    for name in ("before", "after", "change"):
        table.add_column(name, justify="right", style="bold")
    for what, was, now, shape in (
        ("brokers at work", before.brokers, after.brokers, ",.0f"),
        ("messages/s, all brokers together", before.messages_per_s, after.messages_per_s, ",.0f"),
        ("links that a delivery passes", before.mean_hops, after.mean_hops, ".2f"),
    ):
        change = f"{(now - was) / was:+.0%}" if was else "–"
        table.add_row(what, f"{was:{shape}}", f"{now:{shape}}", change)
    console.print(table)


def _wrong(count: int) -> Text:
    return Text(f"{count:,}", style="bold red" if count else "bold green")
