"""A network as a plan lays it out, ready to be run: its brokers and links, what each has, where every client is.

A scenario that is given one runs the plan's overlay instead of a shape by name. Brokers that the plan does not use are
not started. In a link the child dials its parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runnel.allocation.layout import Layout
from runnel.allocation.network import Network
from runnel.lab.shapes import Shape
from runnel.sim.resources import Resources


@dataclass(frozen=True, slots=True)
class Laid:
    """`homes`: the broker of every client, by name."""

    shape: Shape
    resources: Mapping[str, Resources]
    homes: Mapping[str, str]


def laid_out(layout: Layout, network: Network) -> Laid:
    """What a plan makes of a network. Brokers get the means that the planner was told of."""
    brokers = tuple(layout.parents)
    links = tuple((name, parent) for name, parent in layout.parents.items() if parent is not None)
    means = {
        one.name: Resources(
            match_ns_each=one.delay.each_ns,
            match_ns_base=one.delay.base_ns,
            output_bytes_per_second=0 if one.output is None else round(one.output),
        )
        for one in network.brokers
        if one.name in layout.parents
    }
    homes = {network.subscriptions[number]: home for number, home in layout.homes.items()}
    homes |= {network.publishers[number].name: home for number, home in layout.publishers.items()}
    return Laid(Shape(brokers, links), means, homes)
