"""Tables for people: on a terminal as wide as it is, elsewhere as wide as they need and without blanks at the ends."""

from __future__ import annotations

import click
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table

PLAIN_WIDTH = 140  # of a table that goes into a file or a pipe


def make_console(plain_width: int = PLAIN_WIDTH) -> Console:
    """A console for tables: as wide as the terminal, or `plain_width` columns in a file or a pipe."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=plain_width)


def show(*parts: RenderableType, console: Console | None = None) -> None:
    """Print on stdout; into a file or a pipe without the blanks that fill up a row, which a diff would show."""
    console = console or make_console()
    if console.is_terminal:
        console.print(*parts, sep="\n")
        return
    with console.capture() as captured:
        console.print(*parts, sep="\n")
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def make_table(title: str, *columns: str, words: tuple[str, ...] = ()) -> Table:
    """A table whose headings are never cut; the columns that are `words` stand on the left, numbers on the right."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(
            column,
            justify="left" if column in words else "right",
            no_wrap=column != "log",
            min_width=len(column),
        )
    return table
