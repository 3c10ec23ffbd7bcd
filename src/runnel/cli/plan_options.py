"""The options of a plan: how to plan, and which constraints to keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from runnel.errors import InputError
from runnel.pipeline.inventory import Inventory
from runnel.planning.foresight import Foresight
from runnel.planning.planner import NAMES

LEARNED = "learned"


def planning_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options for how to plan and for constraints. None has a default here, because a file may give the values."""
    for option in reversed(
        (
            click.option(
                "--algorithm",
                type=click.Choice(list(NAMES), case_sensitive=False),
                help="How clients are put together.  [default: cram-iou]",
            ),
            click.option(
                "--head-room",
                metavar="PERCENT|learned",
                help="How much of its capacity each broker keeps free: the same share everywhere, or for each "
                "subscription as much as its traffic has varied.  [default: 0%]",
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


def apply_planning_options(options: dict[str, Any], inventory: Inventory) -> Inventory:
    """The inventory of a file with the command line's options, which win; removes these options from `options`.

    >>> options = dict(algorithm="fbf", head_room="20%", exclude=(), pin=("a=B1",), max_moves=None, seed=None)
    >>> asked = apply_planning_options(options, Inventory())
    >>> asked.options.algorithm, asked.constraints.headroom_percent, asked.constraints.pinned, options
    ('FBF', 20.0, {'a': 'B1'}, {})
    """
    algorithm, head_room = options.pop("algorithm"), options.pop("head_room")
    is_learned = head_room == LEARNED
    return inventory.override(
        algorithm=algorithm and algorithm.lower(),
        seed=options.pop("seed"),
        headroom_percent=None if head_room is None or is_learned else parse_percent(head_room),
        foresight=Foresight() if is_learned else None,
        max_moves=options.pop("max_moves"),
        excluded=options.pop("exclude"),
        pinned=parse_pins(options.pop("pin")),
    )


def parse_percent(text: str, option: str = "--head-room") -> float:
    """A percentage, with or without its sign.

    >>> parse_percent("20%"), parse_percent("12.5")
    (20.0, 12.5)
    """
    try:
        return float(text.strip().removesuffix("%"))
    except ValueError:
        raise InputError(f"{option}: {text!r} is no percentage: write 20%") from None


def parse_pins(said: tuple[str, ...]) -> dict[str, str]:
    """Which client must be at which broker.

    >>> parse_pins(("alice=B1", "a=b=B2"))
    {'alice': 'B1', 'a=b': 'B2'}
    """
    found = {}
    for text in said:
        client, sign, broker = text.rpartition("=")
        if not (client and sign and broker):
            raise InputError(f"--pin: {text!r} is no pin: write CLIENT=BROKER")
        found[client] = broker
    return found
