"""What `runnel explain` prints: broker by broker, whether an event goes on, and the verdict."""

from __future__ import annotations

import click
from rich.text import Text

from runnel.cli.show.tables import make_console
from runnel.operate.explain import Explanation


def print_explanation(found: Explanation) -> None:
    """Print what each broker does with the event, then the verdict and warnings."""
    console = make_console()
    width = max((len(broker) for broker, _, _ in found.steps), default=0)
    for broker, goes_on, says in found.steps:
        mark = Text("✓ " if goes_on else "✗ ", style="green" if goes_on else "red")
        console.print(mark + Text(f"{broker:<{width}}  ", style="bold") + Text(says))
    head = (
        Text("delivered: ", style="bold green")
        if found.delivered
        else Text(
            "not delivered as things are: " if found.as_things_are else "not delivered: ",
            style="bold red",
        )
    )
    console.print(head + Text(found.verdict))
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
