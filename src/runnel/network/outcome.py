"""The outcome of a topology, in the same form from the simulator and from real processes, so that they compare."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runnel.language import Value
from runnel.network.topology import Topology

Delivery = tuple[int, str, str]
"""The place of the subscription among the client's, the publisher, and the event as text."""


@dataclass(slots=True)
class TopologyOutcome:
    """What clients published and got, and how many publications went over each link, in each direction."""

    published: Counter[str] = field(default_factory=Counter)
    delivered: Counter[str] = field(default_factory=Counter)
    deliveries: dict[str, list[Delivery]] = field(default_factory=dict)  # only if they are recorded
    missed: Counter[str] = field(default_factory=Counter)
    links: dict[tuple[str, str], int] = field(default_factory=dict)

    def by_publisher(self) -> dict[tuple[str, str], list[tuple[int, str]]]:
        """The deliveries of each client from each publisher; order is promised within such a pair only."""
        ordered: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for client, deliveries in self.deliveries.items():
            for place, publisher, event in deliveries:
                ordered.setdefault((client, publisher), []).append((place, event))
        # If two subscriptions of a client match the same event, it is not promised which gets it first.
        return {
            key: [
                one for place in sorted({p for p, _ in found}) for one in found if one[0] == place
            ]
            for key, found in ordered.items()
        }

    def as_dict(self, topology: Topology) -> dict[str, Any]:
        """Counts per client and per link, for machine-readable output."""
        return {
            "clients": [
                {
                    "name": client.name,
                    "broker": client.broker,
                    "published": self.published[client.name],
                    "delivered": self.delivered[client.name],
                    "missed": self.missed[client.name],
                }
                for client in topology.clients
            ],
            "links": [
                {"from": one, "to": other, "publications": count}
                for (one, other), count in sorted(self.links.items())
                if one in topology.brokers and other in topology.brokers
            ],
        }


def as_text(event: Mapping[str, Value]) -> str:
    """An event as text that is the same for the same event.

    >>> as_text({"b": 1, "a": "x"})
    '{"a": "x", "b": 1}'
    """
    return json.dumps(dict(event), sort_keys=True, ensure_ascii=False)
