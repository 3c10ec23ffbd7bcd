"""MANUAL and AUTOMATIC, the deployments that green compares with (§VI). Both use all brokers and ignore capacities.

MANUAL      a tree with a fan-out of 2, the strongest brokers at its top; clients at random brokers, subscriptions in
            proportion to the brokers' output (uniformly, if all are equal)
AUTOMATIC   a random tree, with every client at a random broker
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from runnel.planning.algorithms.packing import Scheme
from runnel.planning.layout import Layout
from runnel.planning.load import UNLIMITED, Bin, strongest_first

FAN_OUT = 2


def manual_layout(
    bins: Sequence[Bin], subscriptions: int, publishers: int, seed: int = 0
) -> Layout:
    """MANUAL.

    >>> manual_layout([Bin("A", 9), Bin("B", 9), Bin("C", 9), Bin("D", 9)], 0, 0).parents
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


def automatic_layout(
    bins: Sequence[Bin], subscriptions: int, publishers: int, seed: int = 0
) -> Layout:
    """AUTOMATIC."""
    random = Random(f"{seed}/automatic")
    names = [one.name for one in bins]
    parents = random_tree(names, random)
    return _layout(
        parents, random.choices(names, k=subscriptions), random.choices(names, k=publishers)
    )


def layout_on_random_tree(scheme: Scheme, publishers: int, seed: int = 0) -> Layout:
    """A given allocation on a random tree, as the PAIRWISE algorithms use it."""
    random = Random(f"{seed}/automatic")
    names = list(scheme.placed)
    homes = random.choices(names, k=publishers)
    return Layout(random_tree(names, random), scheme.placed, dict(enumerate(homes)))


def random_tree(names: Sequence[str], random: Random) -> dict[str, str | None]:
    """A random tree: in random order, each broker becomes the child of a random earlier one."""
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
