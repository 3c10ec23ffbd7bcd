"""What came of a topology: the same shape from the simulator and from real processes, so that they can be compared."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runnel.language import Value
from runnel.topology.plan import Topology

Delivery = tuple[int, str, str]
"""The place of the subscription among the client's, the publisher, and the event as text."""


@dataclass(slots=True)
class Outcome:
    """What clients published and got, and how many publications went over each link, in each direction."""

    published: Counter[str] = field(default_factory=Counter)
    delivered: Counter[str] = field(default_factory=Counter)
    deliveries: dict[str, list[Delivery]] = field(default_factory=dict)  # if they are recorded
    missed: Counter[str] = field(default_factory=Counter)
    links: dict[tuple[str, str], int] = field(default_factory=dict)

    def in_order(self) -> dict[tuple[str, str], list[tuple[int, str]]]:
        """The deliveries of each client from each publisher: all the order that is promised."""
        ordered: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for client, deliveries in self.deliveries.items():
            for place, publisher, event in deliveries:
                ordered.setdefault((client, publisher), []).append((place, event))
        # Two subscriptions of a client that want the same event get it in no promised order.
        return {
            key: [
                one for place in sorted({p for p, _ in found}) for one in found if one[0] == place
            ]
            for key, found in ordered.items()
        }

    def as_dict(self, topology: Topology) -> dict[str, Any]:
        """For programs: counts per client and per link."""
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
