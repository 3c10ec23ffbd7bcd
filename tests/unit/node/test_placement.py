"""Placement as configured: brokers that are made of a configuration move publishers, or let them be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runnel.testing.network import InMemoryNetwork


def home_after(events: int, placement: dict[str, Any]) -> str:
    """Where a publisher of B1 is, all of whose subscribers are at B3, after so many events; all of which arrive."""

    async def main(network: InMemoryNetwork) -> str:
        async with network.connect("B1") as writer, network.connect("B3") as reader:
            subscription = await reader.subscribe("n >= 0")
            publisher = await writer.advertise("n >= 0", name="quotes")
            for n in range(events):
                await publisher.publish({"n": n})
                assert (await subscription.get(10))["n"] == n
                await network.settle()
            return publisher.broker

    with InMemoryNetwork(3, settings={"placement": placement}) as network:
        return asyncio.run(main(network))


@pytest.mark.parametrize("algorithm", ["grape", "pop"])
def test_a_publisher_goes_to_its_subscribers(algorithm: str) -> None:
    quick = {"algorithm": algorithm, "g_threshold": 5, "p_threshold": 5}
    assert home_after(60, quick) == "B3"


@pytest.mark.parametrize(
    "placement",
    [
        {},
        {"algorithm": "grape", "g_threshold": 5, "dry_run": True},
        {"algorithm": "grape", "g_threshold": 5, "publishers": {"quotes": {"algorithm": "off"}}},
        {"g_threshold": 5, "publishers": {"others": {"algorithm": "grape"}}},
    ],
)
def test_one_that_is_not_to_be_moved_stays(placement: dict[str, Any]) -> None:
    assert home_after(20, placement) == "B1"


def test_one_publisher_may_be_placed_where_others_are_not() -> None:
    only = {"g_threshold": 5, "publishers": {"quotes": {"algorithm": "grape"}}}
    assert home_after(60, only) == "B3"
