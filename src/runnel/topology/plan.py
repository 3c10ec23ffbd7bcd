"""What a topology is, once it is read and verified: brokers on a tree, and clients with their work.

Start times: nobody starts before everybody with an earlier start time is ready, and nobody publishes before
everybody of the same time is. So a file in which subscribers start no later than publishers means the same
deliveries wherever it runs, however slow the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from runnel.errors import InputError
from runnel.language import Selection, Value

LinkOf = tuple[str, str]
"""Two brokers; the first dials the second."""


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """One broker: where it listens (port 0: any that is free), and the rest of its configuration."""

    name: str
    listen: str = "127.0.0.1:0"
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter, as it was written and as it is meant."""

    text: str
    selection: Selection


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """What a client publishes. `events`: "stocks", a file, or the events themselves."""

    advertise: Wanted
    events: str | tuple[Mapping[str, Value], ...] = "stocks"
    rate_per_s: float = 10.0
    count: int | None = None  # None: lists once, stocks without end
    payload_bytes: int = 0
    seed: int = 1

    @property
    def is_endless(self) -> bool:
        """Whether it never has published everything."""
        return self.events == "stocks" and self.count is None


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """One client."""

    name: str
    broker: str
    start_s: float = 0.0
    subscribe: tuple[Wanted, ...] = ()
    publish: PublishPlan | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """A network and its clients. `folder` is where files that it names are looked for."""

    brokers: Mapping[str, BrokerPlan]
    links: tuple[LinkOf, ...]
    clients: tuple[ClientPlan, ...] = ()
    folder: Path = Path()

    def dials(self, broker: str) -> list[str]:
        """The neighbours that a broker dials."""
        return [other for one, other in self.links if one == broker]

    def neighbours(self, broker: str) -> list[str]:
        """All neighbours of a broker."""
        return [
            other if one == broker else one for one, other in self.links if broker in (one, other)
        ]

    def groups(self) -> list[tuple[float, list[ClientPlan]]]:
        """The clients that start together, in order of time."""
        ordered = sorted(self.clients, key=lambda client: client.start_s)
        return [(at, list(group)) for at, group in groupby(ordered, lambda client: client.start_s)]

    def node_tables(
        self, broker: str, listen: str, addresses: Mapping[LinkOf, str]
    ) -> dict[str, Any]:
        """The configuration of a broker's node, as tables; `addresses` says where each link is dialled."""
        tables: dict[str, Any] = {"name": broker, "listen": listen}
        tables.update(self.brokers[broker].settings)
        dials = self.dials(broker)
        if dials:
            tables["neighbours"] = {other: addresses[broker, other] for other in dials}
        return tables


def path_between(topology: Topology, start: str, end: str) -> list[str]:
    """The brokers from one to another, both included; there is one way on a tree.

    >>> chain = Topology({name: BrokerPlan(name) for name in "ABC"}, (("A", "B"), ("B", "C")))
    >>> path_between(chain, "C", "A")
    ['C', 'B', 'A']
    """
    came_from: dict[str, str | None] = {start: None}
    frontier = [start]
    while frontier and end not in came_from:
        here = frontier.pop()
        for other in topology.neighbours(here):
            if other not in came_from:
                came_from[other] = here
                frontier.append(other)
    path: list[str] = []
    step: str | None = end if end in came_from else None
    while step is not None:
        path.append(step)
        step = came_from[step]
    return path[::-1]


def verify_ends(topology: Topology, seconds: float | None) -> None:
    """Raise InputError if a run to the end would have none."""
    endless = [c.name for c in topology.clients if c.publish is not None and c.publish.is_endless]
    if endless and seconds is None:
        raise InputError(
            f"{', '.join(endless)} would publish for ever: say for how many seconds (--seconds), "
            "or give each a count"
        )
