"""What `runnel demo` prints: rates and events while it runs, and the results at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

import click
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from runnel.cli.demo.disturbances import Demo
from runnel.cli.demo.plan import TrafficFigures
from runnel.cli.show.network import LiveView
from runnel.network.tally import Result
from runnel.operate.rates import Rates

LINE_EVERY = 5  # looks, where lines stay and are not written over
SAID_SHOWN_MAX = 3


class DemoView:
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
        """Show a line about something that happened."""
        if self._quiet:
            return
        self._said.append(text)
        if self._live is None:
            self.console.print(text, markup=False, soft_wrap=True)

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show tables meanwhile, with the last lines above them; at the end print all lines."""
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


def print_demo_report(
    view: DemoView,
    run: Demo,
    result: Result,
    measured: tuple[TrafficFigures, TrafficFigures] | None,
    as_json: bool,
) -> None:
    """Print the results: counted by brute force, and read from the traces."""
    latency = run.latency_while_links_were_up()
    hops = run.tally.hops / max(1, result.delivered)
    if as_json:
        whole = {"p50_ms_links_up": latency[0], "p99_ms_links_up": latency[1]}
        seen = dict(
            zip(("before", "after"), (one._asdict() for one in measured or ()), strict=False)
        )
        click.echo(json.dumps({**asdict(result), **whole, "mean_hops": round(hops, 2), **seen}))
        return
    _print_result(view.console, result, latency, hops)
    if measured is not None:
        _print_measured(view.console, *measured)


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
    table.add_row("lost", _error_count(result.lost))
    table.add_row("doubled", _error_count(result.doubled))
    table.add_row("out of order", _error_count(result.disordered))
    if result.uncalled_for:
        table.add_row("uncalled for", _error_count(result.uncalled_for))
    if result.in_doubt:
        table.add_row("in doubt", _error_count(result.in_doubt))
    table.add_row("p50", f"{latency[0]:,.1f} ms", "while all links were up")
    table.add_row("p99", f"{latency[1]:,.1f} ms")
    table.add_row("p99", f"{result.p99_ms:,.1f} ms", "with what waited for the link that was cut")
    console.print(table)


def _print_measured(console: Console, before: TrafficFigures, after: TrafficFigures) -> None:
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


def _error_count(count: int) -> Text:
    return Text(f"{count:,}", style="bold red" if count else "bold green")
