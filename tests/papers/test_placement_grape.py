"""GRAPE on real brokers: the bit vector of Fig. 3, and Algorithms 1 to 3 through the messages on a tree by hand.

A – B – C        the publisher is at A; B wants a quarter of what it says, C half, E all of it
    │
    D – E        a link takes 10 ms; nothing else takes any time
"""

from __future__ import annotations

import time

import pytest

from runnel.language import parse
from runnel.modules.placement.config import PlacementConfig, PublisherSettings
from runnel.modules.placement.grape import CLIENT, BrokerReport, Candidate, choose
from runnel.modules.placement.grape_module import Grape
from runnel.modules.placement.messages import Tia, Tir, session_of
from runnel.quantities import SECOND
from runnel.wire import Advertise, Subscribe, make_publication, raw_selection
from support.door import ALL, Door
from support.placed import PlacementWorld

DELIVERED = (213, 215, 216, 217, 220, 222, 225, 226)
PRINTED = "0 1 0 1 1 1 0 0 1 0 1 0 0 1 1 0 0".split()

LINKS = (("A", "B"), ("B", "C"), ("B", "D"), ("D", "E"))
LATENCIES = dict.fromkeys(LINKS, 10.0)
SESSION = (1, 2, 3, 4)  # B wants 1, C wants 1 and 2, E all


def test_fig_3_the_bit_vector_of_a_trace_session() -> None:
    door = Door(modules=(Grape(),))
    door.connect(1, "upstream", "broker")
    door.connect(2, "alice")
    door.arrive(1, Advertise(34, ALL, "P", 9))
    door.arrive(2, Subscribe(1, raw_selection(parse("wanted = true")), 0))
    for counter in range(212, 229):
        wanted = {"wanted": counter in DELIVERED}
        door.arrive(1, make_publication(34, counter, wanted, flags=session_of(212) << 1))
    door.received(1)
    door.arrive(1, Tir(34, session_of(212), 17, 1))
    (answer,) = door.received(1)
    assert isinstance(answer, Tia) and answer.complete
    (report,) = answer.reports
    bits = int.from_bytes(report.bits, "little")
    assert [str(bits >> place & 1) for place in range(17)] == PRINTED
    assert report.deliveries == len(DELIVERED)
    module = door.broker.modules["grape"]
    assert isinstance(module, Grape) and module.session(34) is None, "cleared with the answer"


def by_hand(config: PlacementConfig) -> tuple[PlacementWorld, int]:
    placed = PlacementWorld(LINKS, config, latencies_ms=LATENCIES)
    placed.subscribers("B", 1, "a = 1")
    placed.subscribers("C", 1, "a <= 2")
    placed.subscribers("E", 1, "a >= 0")
    return placed, placed.publisher("P", "A")


def grape(**parameters: object) -> PlacementConfig:
    return PlacementConfig("grape", g_threshold=len(SESSION), **parameters)  # type: ignore[arg-type]


def candidates(placed: PlacementWorld) -> dict[str, Candidate]:
    (decision,) = placed.grapes["A"].decisions
    return {one.broker: one for one in decision.candidates}


def test_algorithm_2_and_3_through_the_messages() -> None:
    placed, id = by_hand(grape())
    placed.publish("P", SESSION)
    loads = {name: one.load for name, one in candidates(placed).items()}
    assert loads == {
        "A": 4 + 4 + 2 + 4 + 4,  # A, B, C, D, E
        "B": 4 + 2 + 4 + 4,  # nothing goes to A
        "C": 4 + 4 + 4 + 4,
        "D": 2 + 2 + 4 + 4,
        "E": 2 + 2 + 2 + 4,
    }
    assert placed.moves == [("A", id, "E", "sim://E")]
    assert all(module.session(id) is None for module in placed.grapes.values()), "cleared"


def test_algorithm_1_through_the_messages() -> None:
    placed, _ = by_hand(grape())
    placed.publish("P", SESSION)
    delays_ms = {name: round(one.delay_s * 1e3, 6) for name, one in candidates(placed).items()}
    assert delays_ms == {
        "A": round((1 * 10 + 2 * 20 + 4 * 30) / 7, 6),  # one delivery at B, two at C, four at E
        "B": round((2 * 10 + 4 * 20) / 7, 6),
        "C": round((1 * 10 + 4 * 30) / 7, 6),
        "D": round((1 * 10 + 2 * 20 + 4 * 10) / 7, 6),
        "E": round((1 * 20 + 2 * 30) / 7, 6),
    }
    assert {name: one.hops for name, one in candidates(placed).items()} == {
        **{"A": 0, "B": 1, "C": 2, "D": 2, "E": 3}
    }


def test_requests_and_answers_go_once_over_each_link_that_carried_the_session() -> None:
    placed, _ = by_hand(grape())
    placed.publish("P", SESSION)
    assert placed.messages_in("Tir") == {"B": 1, "C": 1, "D": 1, "E": 1}
    assert placed.messages_in("Tia") == {"A": 1, "B": 2, "D": 1}


@pytest.mark.parametrize("at", ["A", "B", "C", "E"])
def test_load_1_percent_is_delay_100_percent(at: str) -> None:
    chosen = []
    for metric, weight in (("load", 1.0), ("delay", 100.0)):
        config = grape(metric=metric, weight_percent=weight, gain_percent_min=0)
        placed = PlacementWorld(LINKS, config, latencies_ms={**LATENCIES, ("D", "E"): 40.0})
        placed.subscribers("B", 8, "a <= 2")
        placed.subscribers("C", 3, "a = 1")
        placed.subscribers("E", 1, "a >= 0")
        placed.publisher("P", at)
        placed.publish("P", SESSION)
        (decision,) = placed.grapes[at].decisions
        chosen.append(decision.to)
    assert chosen == ["B", "B"]


@pytest.mark.parametrize("at", ["A", "C", "E"])
def test_all_choose_the_broker_that_has_all_subscribers(at: str) -> None:
    """X = 1 of the paper's sweep."""
    settings = {
        "pop": PublisherSettings("pop"),
        "load": PublisherSettings("grape", "load", 100.0),
        "delay": PublisherSettings("grape", "delay", 100.0),
    }
    config = PlacementConfig(publishers=settings, g_threshold=4, p_threshold=4)
    placed = PlacementWorld(LINKS, config, latencies_ms=LATENCIES)
    placed.subscribers("D", 3)
    for name in settings:
        placed.publisher(name, at)
        placed.publish(name, range(30))
    decided = [d for algorithm in ("pop", "grape") for d in placed.decisions(algorithm)]
    assert {(d["publisher"], d["to"]) for d in decided} == {(name, "D") for name in settings}


def wide(brokers: int, fan_out: int, bits: int) -> dict[str, BrokerReport]:
    """A balanced tree in which everybody delivers something."""
    beside: dict[int, list[int]] = {n: [] for n in range(brokers)}
    for n in range(1, brokers):
        beside[n].append((n - 1) // fan_out)
        beside[(n - 1) // fan_out].append(n)
    return {
        f"B{n}": BrokerReport(
            f"B{n}",
            tuple(f"B{other}" for other in others),
            (0x9E3779B97F4A7C15 * (n + 1)) ** 3 % (1 << bits),
            n % 7 + 1,
            *(0.001, 0.002),
            {CLIENT: 0.001} | {f"B{other}": 0.003 for other in others},
            {f"B{other}": 0.02 for other in others},
        )
        for n, others in beside.items()
    }


@pytest.mark.parametrize("fan_out", [2, 4])
def test_63_brokers_are_compared_in_less_than_70_ms(fan_out: int) -> None:
    reports = wide(63, fan_out, 100)
    began = time.perf_counter_ns()
    assert len(choose(reports, "B0", "delay", 50).candidates) == 63
    assert time.perf_counter_ns() - began < 0.07 * SECOND
