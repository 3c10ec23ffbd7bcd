"""The network in memory that users test with, and its fixture."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from runnel.errors import InputError
from runnel.testing.network import InMemoryNetwork

STAR = [("hub", "a"), ("hub", "b"), ("c", "hub")]


def test_brokers_are_joined_as_asked() -> None:
    with InMemoryNetwork(edges=STAR) as network:
        assert network.brokers == ("hub", "a", "b", "c")
        with network.connect_blocking("c") as writer, network.connect_blocking("a") as reader:
            subscription = reader.subscribe("x > 0")
            writer.advertise("x > 0").publish({"x": 1})
            assert subscription.get(10).hops == 2


def test_a_loop_and_an_unknown_broker_are_refused() -> None:
    with pytest.raises(InputError, match="closes a loop"):
        InMemoryNetwork(edges=[("a", "b"), ("b", "c"), ("c", "a")])
    with InMemoryNetwork(["one", "two"]) as network:
        assert network.edges == (("one", "two"),)
        with pytest.raises(InputError, match="use one of one, two"):
            network.url("three")


def test_a_setting_that_does_not_exist_is_refused_and_nothing_is_left_running() -> None:
    with pytest.raises(InputError, match="limits"):
        InMemoryNetwork(settings={"limits": {"speed": 1}}).start()


def test_once_settled_everything_is_where_it_goes() -> None:
    async def main(network: InMemoryNetwork) -> None:
        async with network.connect("B1") as writer, network.connect("B3") as reader:
            subscription = await reader.subscribe("x > 0", wait="nothing")
            publisher = await writer.advertise("x > 0", wait="nothing")
            await publisher.ready()
            await network.settle()
            for _ in range(100):
                await publisher.publish({"x": 1})
            await network.settle()
            links = network._running["B3"].broker.links
            assert links[reader.name].publications_out == 100
            for _ in range(100):
                await subscription.get(10)

    with InMemoryNetwork(3) as network:
        asyncio.run(main(network))


def test_settled_waits_for_links_that_broke() -> None:
    with InMemoryNetwork(3, settings={"link": {"heartbeat_s": 0.1}}) as network:
        network.break_connections()
        network.settle_blocking()
        network.kill("B2")
        network.settle_blocking()  # who is gone is not waited for
        network.restart("B2")
        network.settle_blocking()
        links = network._running["B2"].broker.links
        assert all(links[name].established for name in ("B1", "B3"))
        with pytest.raises(InputError, match="kill it first"):
            network.restart("B2")


def test_two_networks_do_not_meet() -> None:
    with InMemoryNetwork() as one, InMemoryNetwork() as two:
        assert one.url("B1") != two.url("B1")
        with one.connect_blocking() as client, two.connect_blocking() as other:
            subscription = client.subscribe("x > 0")
            other.advertise("x > 0").publish({"x": 1})
            with pytest.raises(TimeoutError):
                subscription.get(0.05)


USERS_TESTS = """
import asyncio
import pytest
import runnel.client.aio

def test_plain(runnel_network):
    assert runnel_network.brokers == ("B1", "B2", "B3")
    with runnel_network.connect_blocking("B3") as client:
        subscription = client.subscribe("x > 0")
        client.advertise("x > 0").publish({"x": 1})
        assert subscription.get(10)["x"] == 1

@pytest.mark.runnel_brokers(1)
def test_marked(runnel_network):
    assert runnel_network.brokers == ("B1",)
    async def program(url):
        async with runnel.client.aio.connect(url) as client:
            return client.broker
    assert asyncio.run(program(runnel_network.url())) == "B1"
"""


def test_the_fixture_works_in_a_users_project(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(USERS_TESTS)
    # Whether or not it is installed as a plugin, it is taken from here, once.
    plugin = ["-p", "no:runnel", "-p", "runnel.testing.plugin"]
    command = [sys.executable, "-X", "dev", "-m", "pytest", "--strict-markers", "-W", "error"]
    done = subprocess.run(
        [*command, *plugin, "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
