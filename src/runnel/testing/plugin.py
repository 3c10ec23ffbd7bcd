"""A fixture for pytest: `runnel_network`, a network of brokers within the process.

It is there as soon as Runnel is installed:

    def test_quotes(runnel_network):
        with runnel_network.connect_blocking("B3") as client:
            ...

    @pytest.mark.runnel_brokers(1)
    def test_alone(runnel_network):
        asyncio.run(program(runnel_network.url("B1")))

Three brokers in a chain, B1 – B2 – B3, unless the marker asks for another number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from runnel.testing.network import InMemoryNetwork

BROKERS = 3


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "runnel_brokers(n): how many brokers the fixture runnel_network has (3 by default)",
    )


@pytest.fixture
def runnel_network(request: pytest.FixtureRequest) -> Iterator[InMemoryNetwork]:
    """A network in memory, new for this test; see `runnel.testing.network`."""
    # Imported here, as pytest loads this plugin also for tests that do not use Runnel.
    from runnel.testing.network import InMemoryNetwork

    marker = request.node.get_closest_marker("runnel_brokers")
    brokers = marker.args[0] if marker is not None and marker.args else BROKERS
    with InMemoryNetwork(brokers) as network:
        yield network
