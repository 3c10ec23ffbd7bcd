"""What may be asked of a plan, on the command line: the options that `runnel plan` and `runnel pipeline plan` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from runnel.allocation.planner import NAMES
from runnel.errors import InputError
from runnel.pipeline.inventory import Inventory


def asked_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """How to plan, and what to keep to. Nothing is said unless it is asked for: a file may say it."""
    for option in reversed(
        (
            click.option(
                "--algorithm",
                type=click.Choice(list(NAMES), case_sensitive=False),
                help="How clients are put together.  [default: cram-iou]",
            ),
            click.option(
                "--head-room",
                metavar="PERCENT",
                help="How much of its capacity each broker keeps free.  [default: 0%]",
            ),
            click.option(
                "--exclude", multiple=True, metavar="BROKER", help="Not to be used; once for each."
            ),
            click.option(
                "--pin",
                multiple=True,
                metavar="CLIENT=BROKER",
                help="A client, or CLIENT/PUBLISHER, that must be there; once for each.",
            ),
            click.option(
                "--max-moves",
                type=click.IntRange(0),
                metavar="N",
                help="How many may change their broker.",
            ),
            click.option(
                "--seed", type=int, help="For algorithms that draw lots.  [default: 0]", metavar="N"
            ),
        )
    ):
        command = option(command)
    return command


def take_asked(told: dict[str, Any], inventory: Inventory) -> Inventory:
    """What a file says and what is asked for besides, which wins; what was taken is no longer in `told`.

    >>> told = dict(algorithm="fbf", head_room="20%", exclude=(), pin=("a=B1",), max_moves=None, seed=None)
    >>> asked = take_asked(told, Inventory())
    >>> asked.options.algorithm, asked.constraints.headroom_percent, asked.constraints.pinned, told
    ('FBF', 20.0, {'a': 'B1'}, {})
    """
    algorithm, head_room = told.pop("algorithm"), told.pop("head_room")
    return inventory.but(
        algorithm=algorithm and algorithm.lower(),
        seed=told.pop("seed"),
        headroom_percent=None if head_room is None else percent(head_room),
        max_moves=told.pop("max_moves"),
        excluded=told.pop("exclude"),
        pinned=pins(told.pop("pin")),
    )


def percent(text: str, option: str = "--head-room") -> float:
    """A percentage, with or without its sign.

    >>> percent("20%"), percent("12.5")
    (20.0, 12.5)
    """
    try:
        return float(text.strip().removesuffix("%"))
    except ValueError:
        raise InputError(f"{option}: {text!r} is no percentage: write 20%") from None


def pins(said: tuple[str, ...]) -> dict[str, str]:
    """Who is to be where.

    >>> pins(("alice=B1", "a=b=B2"))
    {'alice': 'B1', 'a=b': 'B2'}
    """
    found = {}
    for text in said:
        client, sign, broker = text.rpartition("=")
        if not (client and sign and broker):
            raise InputError(f"--pin: {text!r} is no pin: write CLIENT=BROKER")
        found[client] = broker
    return found
