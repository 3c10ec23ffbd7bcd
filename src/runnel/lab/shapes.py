"""Broker trees by name: general ones, and those of the papers as far as their texts describe them.

    tree         balanced, every broker with `fan_out` children; broker 0 is the root, rows from top to bottom
    star         broker 0 in the middle
    line         one after the other
    clusters     PEER: cluster-heads in a line, edge brokers at each (B10 is a head, B11 and B12 are its edges)
    random       every broker hangs on a randomly chosen earlier one with fewer than `degree_max` neighbours

    balance-local    Fig. 11 left: a star of B0 and the edge brokers B1 to B4
    balance-global   Fig. 11 right: 12 brokers, 4 clusters in a line with 2 edge brokers each
    placement        "a balanced tree with a fan-out of 2 or 4"; 63 brokers (§V, where pinging is measured)
    green            MANUAL: "the broker overlay has a fan-out of 2", 80, 400 or 1,000 brokers
    mesh-c1 …        Table 1: 120 (C1), 250 (C2), 500 (C3) and 21 (CPL) brokers of degree 3. The text does not say how
                     they are joined: a random tree of degree 3 stands in

A broker's place in `brokers` is the index by which workloads speak of it. In a link the first dials the second.
Names are B0, B1 … after the index, but for clusters, whose names are the paper's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, Literal

from msgspec import Meta

from runnel.errors import InputError
from runnel.network.topology import LinkOf
from runnel.workload.parameters import Parameters, read_parameters

Brokers = Annotated[int, Meta(ge=1, le=100_000)]
FanOut = Annotated[int, Meta(ge=1, le=10_000)]


@dataclass(frozen=True, slots=True)
class Shape:
    """A tree of brokers."""

    brokers: tuple[str, ...]
    links: tuple[LinkOf, ...]


class NoParameters(Parameters, frozen=True):
    """For the papers' shapes that leave nothing to choose."""


class TreeParameters(Parameters, frozen=True):
    """A balanced tree."""

    brokers: Brokers = 80
    fan_out: FanOut = 2


class SizeParameters(Parameters, frozen=True):
    """How many brokers there are."""

    brokers: Brokers = 5


class ClusterParameters(Parameters, frozen=True):
    """PEER: so many clusters in a line."""

    clusters: Brokers = 4
    edges: FanOut = 2


class RandomParameters(Parameters, frozen=True):
    """A random tree."""

    brokers: Brokers = 120
    degree_max: Annotated[int, Meta(ge=2, le=10_000)] = 3


class PlacementShapeParameters(Parameters, frozen=True):
    """The tree of placement."""

    brokers: Brokers = 63
    fan_out: Literal[2, 4] = 2


class GreenShapeParameters(Parameters, frozen=True):
    """The tree that MANUAL makes."""

    brokers: Brokers = 80


def make_shape(name: str, parameters: Mapping[str, Any] | None = None, seed: int = 1) -> Shape:
    """Make a tree of brokers; an error names the key.

    >>> make_shape("tree", {"brokers": 4}).links
    (('B1', 'B0'), ('B2', 'B0'), ('B3', 'B1'))
    >>> make_shape("clusters", {"clusters": 2, "edges": 1}).links
    (('B11', 'B10'), ('B20', 'B10'), ('B21', 'B20'))
    """
    kind = SHAPES.get(name)
    if kind is None:
        raise InputError(f"shape: there is no {name!r}; there are {', '.join(SHAPES)}")
    parameters_kind, make = kind
    return make(read_parameters(parameters_kind, parameters or {}), Random(f"{seed}/shape/{name}"))


def _shape_of_parents(parents: list[int]) -> Shape:
    """The tree in which the parent of broker n + 1 is the n-th of these."""
    names = tuple(f"B{n}" for n in range(len(parents) + 1))
    links = tuple((names[n + 1], names[parent]) for n, parent in enumerate(parents))
    return Shape(names, links)


def _tree(parameters: TreeParameters | PlacementShapeParameters, random: Random) -> Shape:
    return _shape_of_parents([n // parameters.fan_out for n in range(parameters.brokers - 1)])


def _green(parameters: GreenShapeParameters, random: Random) -> Shape:
    return _tree(TreeParameters(brokers=parameters.brokers), random)


def _star(parameters: SizeParameters, random: Random) -> Shape:
    return _shape_of_parents([0] * (parameters.brokers - 1))


def _line(parameters: SizeParameters, random: Random) -> Shape:
    return _shape_of_parents(list(range(parameters.brokers - 1)))


def _clusters(parameters: ClusterParameters, random: Random) -> Shape:
    # One digit for the place in the cluster, as in the paper, unless there are more edges than that.
    digits = len(str(parameters.edges))
    names: list[str] = []
    links: list[LinkOf] = []
    head = ""
    for cluster in range(1, parameters.clusters + 1):
        before, head = head, f"B{cluster}{0:0{digits}}"
        names.append(head)
        if before:
            links.append((head, before))
        for edge in range(1, parameters.edges + 1):
            names.append(f"B{cluster}{edge:0{digits}}")
            links.append((names[-1], head))
    return Shape(tuple(names), tuple(links))


def _random(parameters: RandomParameters, random: Random) -> Shape:
    parents: list[int] = []
    degree = [0] * parameters.brokers
    free = [0]  # the brokers that have room for another neighbour
    for broker in range(1, parameters.brokers):
        place = random.randrange(len(free))
        parent = free[place]
        parents.append(parent)
        degree[parent] += 1
        degree[broker] += 1
        if degree[parent] == parameters.degree_max:
            free[place] = free[-1]
            free.pop()
        free.append(broker)
    return _shape_of_parents(parents)


def _mesh(brokers: int) -> Callable[[NoParameters, Random], Shape]:
    return lambda _, random: _random(RandomParameters(brokers=brokers, degree_max=3), random)


SHAPES: Mapping[str, tuple[type[Parameters], Callable[[Any, Random], Shape]]] = {
    "tree": (TreeParameters, _tree),
    "star": (SizeParameters, _star),
    "line": (SizeParameters, _line),
    "clusters": (ClusterParameters, _clusters),
    "random": (RandomParameters, _random),
    "balance-local": (NoParameters, lambda _, random: _star(SizeParameters(brokers=5), random)),
    "balance-global": (NoParameters, lambda _, random: _clusters(ClusterParameters(), random)),
    "placement": (PlacementShapeParameters, _tree),
    "green": (GreenShapeParameters, _green),
    "mesh-c1": (NoParameters, _mesh(120)),
    "mesh-c2": (NoParameters, _mesh(250)),
    "mesh-c3": (NoParameters, _mesh(500)),
    "mesh-cpl": (NoParameters, _mesh(21)),
}
"""The parameters of each shape, and the function that makes it."""
