"""MANUAL and AUTOMATIC, the deployments that green compares with (§VI): all brokers, nobody asks what they can take.

MANUAL      a tree with a fan-out of 2, the strongest brokers at its top; clients at random brokers, subscriptions in
            proportion to the brokers' output (which is plain chance where all are equal)
AUTOMATIC   a tree and places by lot
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from runnel.allocation.layout import Layout
from runnel.allocation.load import UNLIMITED, Bin, strongest_first
from runnel.allocation.packing import Scheme

FAN_OUT = 2


def manual(bins: Sequence[Bin], subscriptions: int, publishers: int, seed: int = 0) -> Layout:
    """MANUAL.

    >>> manual([Bin("A", 9), Bin("B", 9), Bin("C", 9), Bin("D", 9)], 0, 0).parents
    {'A': None, 'B': 'A', 'C': 'A', 'D': 'B'}
    """
    random = Random(f"{seed}/manual")
    order = [one.name for one in strongest_first(bins)]
    parents: dict[str, str | None] = {
        name: order[(place - 1) // FAN_OUT] if place else None for place, name in enumerate(order)
    }
    weights = [1 if one.room >= UNLIMITED else one.room for one in strongest_first(bins)]
    homes = random.choices(order, weights, k=subscriptions)
    return _layout(parents, homes, random.choices(order, k=publishers))


def automatic(bins: Sequence[Bin], subscriptions: int, publishers: int, seed: int = 0) -> Layout:
    """AUTOMATIC."""
    random = Random(f"{seed}/automatic")
    names = [one.name for one in bins]
    parents = random_tree(names, random)
    return _layout(
        parents, random.choices(names, k=subscriptions), random.choices(names, k=publishers)
    )


def automatic_overlay(scheme: Scheme, publishers: int, seed: int = 0) -> Layout:
    """A given allocation on an overlay by lot: what the PAIRWISE algorithms use."""
    random = Random(f"{seed}/automatic")
    names = list(scheme.placed)
    homes = random.choices(names, k=publishers)
    return Layout(random_tree(names, random), scheme.placed, dict(enumerate(homes)))


def random_tree(names: Sequence[str], random: Random) -> dict[str, str | None]:
    """A tree by lot: in random order, each hangs below one that is there already."""
    order = random.sample(list(names), len(names))
    return {
        name: order[random.randrange(place)] if place else None for place, name in enumerate(order)
    }


def _layout(parents: dict[str, str | None], homes: list[str], publishers: list[str]) -> Layout:
    places: dict[str, list[int]] = {name: [] for name in parents}
    for number, home in enumerate(homes):
        places[home].append(number)
    found = {name: tuple(numbers) for name, numbers in places.items()}
    return Layout(parents, found, dict(enumerate(publishers)))
