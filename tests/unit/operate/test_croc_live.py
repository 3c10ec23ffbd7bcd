"""CROC with networks that run: what it predicts is what brokers do, in the simulator and in memory."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from runnel.broker.effects import Connect
from runnel.lab.croc_client import CrocClient
from runnel.language import parse
from runnel.modules.profiles.config import ProfilesConfig
from runnel.net.driver import Driver
from runnel.net.memory import MemoryDialler
from runnel.operate.croc import plan_answers
from runnel.operate.picture import Answers
from runnel.planning.documents.constraints import Constraints
from runnel.planning.documents.plan import from_json, to_json
from runnel.testing.network import InMemoryNetwork
from support.profiled import ProfilesWorld

LINKS = [("B1", "B2"), ("B2", "B3"), ("B2", "B4")]
RATE = 4
PUBLICATIONS = 280  # of each publisher: for longer than rates are counted


def busy_world(seed: int, output: int) -> tuple[ProfilesWorld, dict[str, int]]:
    """Two publishers, thirty clients with one to three subscriptions that overlap; what each broker sent."""
    random = Random(seed)
    config = ProfilesConfig(enabled=True, output_bytes_per_s=output)
    world = ProfilesWorld(LINKS, config, seed)
    brokers = ["B1", "B2", "B3", "B4"]
    for n in range(30):
        session = world.session(f"c{n}", random.choice(brokers))
        for _ in range(random.randint(1, 3)):
            session.subscribe(
                parse(f"a >= {random.randrange(8)} AND a <= {random.randrange(4, 12)}")
            )
        world.do(f"c{n}", 0.1)
    for name, home in (("p", "B1"), ("q", "B4")):
        world.publisher(name, home)
    before = {name: world.broker(name).meter.copy() for name in brokers}
    for _ in range(PUBLICATIONS):
        for name in ("p", "q"):
            world.publish(name, [random.randrange(12)], every_s=0.5 / RATE, then_s=0)
    after = {name: world.broker(name).meter for name in brokers}
    return world, {
        name: after[name].publications_out - before[name].publications_out for name in brokers
    }


@pytest.mark.parametrize("seed", range(2))
def test_what_it_predicts_of_the_network_as_it_is_is_what_brokers_did(seed: int) -> None:
    world, sent = busy_world(seed, output=1 << 30)
    asking = world.begin_to_ask("B3")
    world.run(0.5)
    plan = plan_answers(asking.answers)
    [size] = {round(one.bytes / one.publications) for _, one in asking.answers.publishers}
    for broker, count in sent.items():
        predicted = plan.before[broker].output_bytes_per_s
        assert predicted == pytest.approx(count * size * RATE / PUBLICATIONS, rel=0.03), broker


def test_a_plan_of_a_busy_world_respects_what_brokers_can() -> None:
    world, _ = busy_world(7, output=5_000)
    answers = world.answers("B1")
    for constraints in (Constraints(), Constraints(headroom_percent=30), Constraints(max_moves=8)):
        plan = plan_answers(answers, constraints=constraints)
        most = 1 - constraints.headroom_percent / 100
        assert all(load.output_ratio < most for load in plan.after.values())
        assert len(plan.subscriptions) == 32 and plan.brokers_at_least <= plan.brokers <= 4
        assert len(plan.moved) <= (constraints.max_moves or 99)
        assert from_json(to_json(plan)) == plan


async def ask(network: InMemoryNetwork, broker: str) -> Answers:
    """CROC as a client in memory."""
    over = asyncio.Event()
    asking = CrocClient()
    driver = Driver(asking, MemoryDialler(), lambda effect: over.set())
    try:
        driver.perform([Connect(network.url(broker))])
        async with asyncio.timeout(10):
            await over.wait()
    finally:
        driver.stop()
    return asking.answers


def test_clients_of_a_network_in_memory_are_planned_by_their_names() -> None:
    settings = {"profiles": {"enabled": True, "output_bytes_per_s": 1_000_000}}

    async def main(network: InMemoryNetwork) -> None:
        async with (
            network.connect("B1", name="alice") as alice,
            network.connect("B3", name="bob") as bob,
        ):
            mine = [await alice.subscribe("n >= 0"), await alice.subscribe("n < 50")]
            theirs = await bob.subscribe("n >= 50")
            quotes = await alice.advertise("n >= 0", name="quotes")
            await bob.advertise("n < 0", name="silence")
            for n in range(100):
                await quotes.publish({"n": n})
            for n in range(100):
                assert (await mine[0].get(10))["n"] == n
            assert (await theirs.get(10))["n"] == 50
            await network.settle()
            plan = plan_answers(await ask(network, "B2"))
            assert list(plan.subscriptions) == ["alice", "bob"]
            assert list(plan.publishers) == ["alice/quotes", "bob/silence"]
            assert plan.addresses == {name: network.url(name) for name in ("B1", "B2", "B3")}
            assert plan.brokers == 1 and len(plan.freed) == 2
            assert {load.subscriptions for load in plan.after.values()} == {3}
            assert plan.before["B1"].subscriptions == 2 + 1  # two of alice, and B2

    with InMemoryNetwork(3, settings=settings) as network:
        asyncio.run(main(network))
