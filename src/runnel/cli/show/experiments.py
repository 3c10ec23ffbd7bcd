"""What `runnel reproduce` prints: the experiments, how far they are, and their rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
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

from runnel.cli.show.tables import make_console

if TYPE_CHECKING:
    from runnel.lab.experiment import Experiment, Scale, Tell
    from runnel.lab.report import Table as PlainTable
    from runnel.lab.reproduce import Reproduction

SCALES: tuple[Scale, ...] = ("quick", "paper")

PLAIN_WIDTH = 160
_TELL_EVERY_S = 30.0  # where there is no terminal for a progress bar


def print_experiments(known: dict[str, Experiment]) -> None:
    """Print the experiments with what each shows and roughly how long it takes."""
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("name", "what it shows"):
        table.add_column(column)
    for scale in SCALES:
        table.add_column(f"{scale}, about", justify="right")
    for one in known.values():
        table.add_row(one.name, one.title, *(_rough_time(one.seconds(scale)) for scale in SCALES))
    make_console(PLAIN_WIDTH).print(table)
    click.echo("runnel reproduce NAME, or all")


def _rough_time(seconds: float) -> str:
    """How long something takes, roughly.

    >>> _rough_time(7), _rough_time(100)
    ('7 s', '2 min')
    """
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


@contextmanager
def show_progress() -> Iterator[Tell]:
    """A bar with the time that is left; without a terminal, a line now and then."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _ProgressLines()
        return
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()),
        *(TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn()),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=1.0)
        yield lambda share, what: progress.update(task, completed=share, description=what)


class _ProgressLines:
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


def print_rows(found: Reproduction) -> None:
    """Print each experiment's rows: what they are judged by, ours, and whether it holds; and how many of each kind."""
    from runnel.lab.claims import count_outcomes, describe_counts
    from runnel.lab.report import TITLES, claims_table

    console = make_console(PLAIN_WIDTH)
    for one in found.results.experiments:
        rows = found.results.rows_of(one.name)
        for kind, title in TITLES.items():
            some = [row for row in rows if row.kind == kind]
            if some:
                console.print(_rows_table(f"{one.name}: {title}", claims_table(some)))
        for line in describe_counts(count_outcomes(rows)):
            click.echo(f"{one.name}, {line}")
    click.echo(f"{found.seconds:.0f} s; report: {found.out / 'report.md'}")


def _rows_table(title: str, plain: PlainTable) -> Table:
    """A table for the terminal, without the quotes and the notes."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for column in ("claim", "judged by", "ours", "outcome"):
        table.add_column(column, justify="right" if column == "ours" else "left")
    for claim, _, judged_by, ours, outcome, _ in plain.rows:
        style = "green" if outcome == "holds" else "red" if outcome == "**differs**" else "yellow"
        table.add_row(
            *(Text(str(cell)) for cell in (claim, judged_by, ours)),
            Text(str(outcome).strip("*"), style=style),
        )
    return table
