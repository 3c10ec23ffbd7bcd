"""The network of a plan, ready to be run: its brokers and links, their resources, and the broker of every client.

A scenario with a planned network runs the plan's overlay instead of a shape by name. Brokers that the plan does not
use are not started. In a link the child dials its parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runnel.lab.shapes import Shape
from runnel.planning.layout import Layout
from runnel.planning.network import Network
from runnel.sim.resources import Resources


@dataclass(frozen=True, slots=True)
class PlannedNetwork:
    """Brokers, links and resources of a plan. `homes` has the broker of every client, by the client's name."""

    shape: Shape
    resources: Mapping[str, Resources]
    homes: Mapping[str, str]


def make_planned_network(layout: Layout, network: Network) -> PlannedNetwork:
    """Make a plan's layout into a network to run. Brokers have the resources that the planner reckoned with."""
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
    return PlannedNetwork(Shape(brokers, links), means, homes)
