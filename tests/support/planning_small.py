"""A small network for the tests of the planner: three publishers, twelve subscriptions, six brokers in a chain."""

from __future__ import annotations

from typing import Any

from runnel.planning.load import Capacity, Delay
from runnel.planning.network import Network
from runnel.planning.profiles import Profile, PublisherProfile

SPAN = 20
ALL = (1 << SPAN) - 1
BROKERS = tuple(f"B{n}" for n in range(6))


def profiles() -> tuple[Profile, ...]:
    """For each publisher one subscription to all its publications, two to halves, one to a few."""
    kinds = (ALL, (1 << 10) - 1, ((1 << 10) - 1) << 10, 0b111)
    return tuple({publisher: bits} for bits in kinds for publisher in range(3))


def small_network(output: float = 100.0, delay: Delay | None = None, **more: Any) -> Network:
    """Every message has 2 bytes, every publisher sends 10 a second; subscription n is at broker n mod 6."""
    wanted = more.pop("profiles", profiles())
    settings: dict[str, Any] = {
        "links": tuple((f"B{n}", f"B{n + 1}") for n in range(5)),
        "publisher_homes": ("B0", "B2", "B4"),
        "subscription_homes": tuple(f"B{n % 6}" for n in range(len(wanted))),
    }
    return Network(
        tuple(Capacity(name, output, delay or Delay()) for name in BROKERS),
        tuple(PublisherProfile(f"P{n}", 10.0, 20.0, SPAN - 1) for n in range(3)),
        tuple(f"s{n}" for n in range(len(wanted))),
        wanted,
        (SPAN,) * 3,
        **(settings | more),
    )
