"""`runnel reproduce`: runs the experiments and shows what the papers say beside what comes out here."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from runnel.cli.extras import require_lab

if (
    TYPE_CHECKING
):  # loaded when there is something to run: help need not wait for what draws figures
    from runnel.lab.experiment import Experiment, Scale, Tell
    from runnel.lab.reproduce import Reproduced

SCALES: tuple[Scale, ...] = ("quick", "paper")
PLAIN_WIDTH = 160
_TELL_EVERY_S = 30.0  # where there is no terminal for a progress bar
ALL = "all"


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--scale", type=click.Choice(SCALES), default="quick", show_default=True)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("reproduced"),
    show_default=True,
    help="Where results, figures and traces go.",
)
def reproduce(names: Sequence[str], scale: Scale, seed: int, out: Path) -> None:
    """Run experiments of the papers in simulated time; without a NAME, list them.

    Writes results.json (one row per claim), report.md with figures, timings.json, and traces of the runs. The
    same seed gives the same results. Exit code 1 if a claim does not hold.

    \b
    Examples:
      runnel reproduce
      runnel reproduce routing
      runnel reproduce all --scale paper --out results
    """
    require_lab()
    from runnel.lab.experiment import experiments
    from runnel.lab.reproduce import reproduce as run_experiments

    known = experiments()
    if not names:
        _print_list(known)
        return
    chosen = list(known) if ALL in names else list(names)
    try:
        with _progress() as tell:
            found = run_experiments(chosen, scale, seed, out, tell)
    except KeyboardInterrupt:
        click.echo("interrupted: nothing was concluded", err=True)
        sys.exit(130)
    _print_claims(found)
    if not found.holds:
        sys.exit(1)


def _print_list(known: dict[str, Experiment]) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("name", "what it shows"):
        table.add_column(column)
    for scale in SCALES:
        table.add_column(f"{scale}, about", justify="right")
    for one in known.values():
        table.add_row(one.name, one.title, *(_about(one.seconds(scale)) for scale in SCALES))
    _console().print(table)
    click.echo("runnel reproduce NAME, or all")


def _about(seconds: float) -> str:
    """How long something takes, roughly.

    >>> _about(7), _about(100)
    ('7 s', '2 min')
    """
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


@contextmanager
def _progress() -> Iterator[Tell]:
    """A bar with the time that is left; without a terminal, a line now and then."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()),
        *(TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn()),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=1.0)
        yield lambda share, what: progress.update(task, completed=share, description=what)


class _Lines:
    """Tells of each step when it begins, and then from time to time how far it is."""

    def __init__(self) -> None:
        self._began = self._told_at = time.monotonic()
        self._what = ""

    def __call__(self, share: float, what: str) -> None:
        now = time.monotonic()
        if what == self._what and now - self._told_at < _TELL_EVERY_S:
            return
        self._told_at, self._what = now, what
        passed = now - self._began
        left = f", about {passed * (1 - share) / share:.0f} s left" if share > 0.02 else ""
        click.echo(f"{share:4.0%}  {what}{left}", err=True)


def _print_claims(found: Reproduced) -> None:
    from runnel.lab.report import claims_table

    console = _console()
    for findings in found.found:
        plain = claims_table(findings)
        table = Table(
            title=f"{findings.experiment}: {findings.title}",
            box=box.SIMPLE_HEAD,
            title_justify="left",
        )
        for column in plain.columns[:5]:
            table.add_column(column, justify="right" if column in ("paper", "ours") else "left")
        for claim, row in zip(findings.claims, plain.rows, strict=True):
            cells = [Text(str(cell)) for cell in row[:4]]
            holds = Text("yes" if claim.holds else "no", style="green" if claim.holds else "red")
            table.add_row(*cells, holds.append(", calibrated" if claim.calibrated else ""))
        console.print(table)
    holding = sum(claim.holds for claim in found.claims)
    click.echo(f"{holding} of {len(found.claims)} claims hold; {found.seconds:.0f} s")
    click.echo(f"report: {found.out / 'report.md'}")


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)
