"""The classes of a topology that was read and verified: brokers in a tree, and clients with their work.

Start times: a client starts when all clients with an earlier start time are ready, and publishes when all clients with
the same start time are. So if subscribers start no later than publishers, a file leads to the same deliveries
everywhere, however slow the machine is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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

    @property
    def is_secure(self) -> bool:
        """Whether it speaks TLS."""
        return bool(self.settings.get("tls"))


@dataclass(frozen=True, slots=True)
class WrittenFilter:
    """A filter: its text, and what the text means."""

    text: str
    selection: Selection


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """What a client publishes. `events`: "stocks", a file, or the events themselves."""

    advertise: WrittenFilter
    events: str | tuple[Mapping[str, Value], ...] = "stocks"
    rate_per_s: float = 10.0
    count: int | None = None  # None: lists once, stocks without end
    payload_bytes: int = 0
    seed: int = 1

    @property
    def is_endless(self) -> bool:
        """Whether it publishes for ever."""
        return self.events == "stocks" and self.count is None


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """One client."""

    name: str
    broker: str
    start_s: float = 0.0
    subscribe: tuple[WrittenFilter, ...] = ()
    publish: PublishPlan | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """A network and its clients. Files that it names are looked for in `folder`."""

    brokers: Mapping[str, BrokerPlan]
    links: tuple[LinkOf, ...]
    clients: tuple[ClientPlan, ...] = ()
    folder: Path = Path()

    def with_tls(self, tables: Mapping[str, Mapping[str, str]]) -> Topology:
        """The same over TLS; `tables` has the table [tls] of each broker."""
        brokers = {
            name: replace(plan, settings={**plan.settings, "tls": tables[name]})
            for name, plan in self.brokers.items()
        }
        return replace(self, brokers=brokers)

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
        if accepted := [other for other in self.neighbours(broker) if other not in dials]:
            tables["accept"] = accepted
        return tables


def verify_ends(topology: Topology, seconds: float | None) -> None:
    """Raise InputError if a run to the end would never end."""
    endless = [c.name for c in topology.clients if c.publish is not None and c.publish.is_endless]
    if endless and seconds is None:
        raise InputError(
            f"{', '.join(endless)} would publish for ever: say for how many seconds (--seconds), "
            "or give each a count"
        )
