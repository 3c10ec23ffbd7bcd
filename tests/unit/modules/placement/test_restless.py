"""Placement in networks where nothing keeps still: it must never raise, never hang, and leave nothing behind."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.broker.events import TimerFired
from runnel.modules.placement.config import PlacementConfig, PublisherSettings
from runnel.modules.placement.grape_module import Grape
from runnel.modules.placement.messages import (
    SUBSCRIBERS_MAX,
    BrokerTrace,
    Hop,
    Ping,
    Pong,
    Ram,
    Rrm,
    Tia,
    Tir,
    Trm,
)
from runnel.modules.placement.pop_module import Pop
from runnel.wire import Advertise, Subscribe, Unadvertise, make_publication
from support.door import ALL, Door
from support.placed import PlacementWorld

NAMES = st.sampled_from(["B", "up", "left", "P", "alice", "nobody"])
IDS = st.sampled_from([7, 8, 9])
COUNTS = st.sampled_from([0, 1, 2, 5, 2**63 - 1])
SESSIONS = st.sampled_from([1, 2, 3, 0x7FFF])
PATHS = st.lists(NAMES, max_size=4).map(tuple)
HOPS = st.lists(st.builds(Hop, NAMES, COUNTS, COUNTS), max_size=3).map(tuple)
REPORTS = st.builds(
    BrokerTrace, NAMES, NAMES, st.binary(max_size=4), COUNTS, COUNTS, COUNTS, COUNTS, HOPS
)
SAID = st.one_of(
    st.builds(Trm, IDS, st.integers(1, 3), COUNTS),
    st.builds(Rrm, IDS, st.floats(0, SUBSCRIBERS_MAX), PATHS),
    st.builds(Ram, IDS, PATHS, NAMES),
    st.builds(Tir, IDS, SESSIONS, COUNTS, st.sampled_from([0, 1, 255])),
    st.builds(Tia, IDS, SESSIONS, st.lists(REPORTS, max_size=3).map(tuple), st.booleans()),
    st.builds(Ping, COUNTS),
    st.builds(Pong, COUNTS),
)
PUBLISHED = st.builds(
    lambda id, counter, flags: make_publication(id, counter, {"a": 1}, flags=flags),
    IDS,
    st.integers(1, 3),
    st.sampled_from([0, 1, 2, 3, 4, 5, 0xFFFF]),
)
STEPS = st.one_of(
    st.tuples(st.sampled_from([1, 2]), SAID),  # brokers, and only they
    st.tuples(st.sampled_from([1, 2, 3, 4]), PUBLISHED),
    st.sampled_from(["wait", "pop:deadline", "grape:deadline", "lose"]),
)


@given(st.lists(STEPS, max_size=40))
def test_whatever_well_formed_peers_say_nobody_falls_over(steps: list[Any]) -> None:
    config = PlacementConfig(
        "grape", publishers={"Q": PublisherSettings("pop")}, g_threshold=2, p_threshold=2
    )
    moved: list[str] = []

    def migrate(context: Any, id: int, to: str, address: str, now: int) -> bool:
        moved.append(to)
        return True

    door = Door(modules=(Pop(config, migrate), Grape(config, migrate)))
    for conn, name in ((1, "up"), (2, "left")):
        door.connect(conn, name, "broker")
    for conn, name in ((3, "P"), (4, "alice")):
        door.connect(conn, name)
    door.arrive(1, Advertise(7, ALL, "P", 9))
    door.arrive(3, Advertise(8, ALL, "P", 9), Advertise(9, ALL, "Q", 9))
    for id, conn in enumerate((1, 2, 4)):
        door.arrive(conn, Subscribe(id, ALL, 9))
    left = 2
    for step in steps:
        match step:
            case "wait":
                door.now += 11_000_000_000
            case "lose":
                left += 10
                door.connect(left, "left", "broker")
                door.arrive(left, Subscribe(left, ALL, 9))
            case str():
                door.event(TimerFired(step))
            case conn, said:
                door.arrive(left if conn == 2 else conn, said)
    assert not any(trace.kind == "peer-error" for trace in door.traces)
    assert "B" not in moved, "nobody is moved to where it is"
    for id, conn in ((7, 1), (8, 3), (9, 3)):
        door.arrive(conn, Unadvertise(id))
    pop, grape = door.broker.modules["pop"], door.broker.modules["grape"]
    assert isinstance(pop, Pop) and isinstance(grape, Grape)
    assert not (pop._tables or pop._publishers or pop._deadlines._until or grape._deadlines._until)
    assert not (grape._sessions or pop.decisions or grape.decisions)


@pytest.mark.parametrize("seed", range(6))
def test_a_network_full_of_faults_comes_to_rest_and_decides(seed: int) -> None:
    random = Random(seed)
    brokers = [f"B{n}" for n in range(9)]
    links = [(brokers[random.randrange(n)], brokers[n]) for n in range(1, 9)]
    config = PlacementConfig(
        "pop",
        publishers={
            "P0": PublisherSettings("grape"),
            "P1": PublisherSettings("grape", "delay", 50.0),
        },
        g_threshold=7,
        p_threshold=7,
        w_s=5,
        answer_timeout_s=3,
    )
    placed = PlacementWorld(links, config, seed=seed)
    for _ in range(6):
        placed.subscribers(
            random.choice(brokers), random.randrange(1, 4), f"a < {random.randrange(9)}"
        )
    names = [f"P{n}" for n in range(4)]
    for name in names:
        placed.publisher(name, random.choice(brokers))
    for _ in range(60):
        match random.randrange(6):
            case 0:
                wire = placed.world.network.wire(*random.choice(links))
                placed.world.network.break_connections(*wire.ends)
            case 1 if random.random() < 0.3:
                crashed = random.choice(brokers)
                placed.world.crash(placed.world.hosts[crashed])
                placed.run(random.random())
                placed.start(crashed)
            case 2:
                placed.subscribers(random.choice(brokers), 1, f"a > {random.randrange(9)}")
        for name in names:
            placed.publish(name, [random.randrange(10)], every_s=0, then_s=random.random() / 4)
    placed.run(30)
    for pop, grape in zip(placed.pops.values(), placed.grapes.values(), strict=True):
        assert not pop._pending and not pop._deadlines._until and not grape._deadlines._until
        assert not any(publisher.is_asking for publisher in pop._publishers.values())
        assert not any(trace.waiting for trace in grape._sessions.values())
    before = len(placed.decisions("pop")), len(placed.decisions("grape"))
    for name in names:
        placed.publish(name, [n % 10 for n in range(40)], every_s=1)
    assert len(placed.decisions("pop")) > before[0] and len(placed.decisions("grape")) > before[1]


def test_one_seed_gives_one_history() -> None:
    hashes = []
    for _ in range(2):
        placed = PlacementWorld(
            (("A", "B"), ("B", "C")), PlacementConfig("pop", p_threshold=5), seed=3
        )
        placed.subscribers("C", 3)
        placed.publisher("P", "A")
        placed.publish("P", range(40))
        hashes.append(placed.world.log_hash)
    assert hashes[0] == hashes[1] and placed.decisions("pop")
