"""Placement Figs. 1 and 2 on real brokers: publications are traced, tables fill, a request finds the closest broker.

            B3 (2)      B7 (6)
             │           │
    B2 (4) ─ B1 (1) ─ B5 ─ B6 (4) ─ B8 (5)         P is at B1; in brackets the subscribers
             │
            B4 (3)

B3 is behind B2: six lie there. The text gives B1's table (6, 3, 15 and 1 of its own), and that B5 has none of its own.
"""

from __future__ import annotations

import pytest

from runnel.modules.placement.config import PlacementConfig
from runnel.modules.placement.pop import LOCAL
from support.placed import PlacementWorld

LINKS = (
    ("B1", "B2"),
    ("B2", "B3"),
    ("B1", "B4"),
    ("B1", "B5"),
    ("B5", "B6"),
    ("B6", "B7"),
    ("B6", "B8"),
)
SUBSCRIBERS = {"B1": 1, "B2": 4, "B3": 2, "B4": 3, "B6": 4, "B7": 6, "B8": 5}


def figure_1(config: PlacementConfig) -> tuple[PlacementWorld, int]:
    placed = PlacementWorld(LINKS, config)
    for broker, count in SUBSCRIBERS.items():
        placed.subscribers(broker, count)
    return placed, placed.publisher("P", "B1")


def test_fig_1_the_tables_after_one_traced_publication() -> None:
    placed, id = figure_1(PlacementConfig("pop"))
    placed.publish("P", [1])
    tables = {name: pop.table(id) for name, pop in placed.pops.items()}
    assert {name: table.rows for name, table in tables.items() if table} == {
        "B1": {LOCAL: 1, "B2": 6, "B4": 3, "B5": 15},
        "B2": {LOCAL: 4, "B3": 2},
        "B3": {LOCAL: 2},
        "B4": {LOCAL: 3},
        "B5": {LOCAL: 0, "B6": 15},
        "B6": {LOCAL: 4, "B7": 6, "B8": 5},
        "B7": {LOCAL: 6},
        "B8": {LOCAL: 5},
    }
    assert placed.messages_in("Trm") == {"B1": 3, "B2": 1, "B5": 1, "B6": 2}, "one for each link"


def test_fig_1_the_request_goes_by_b5_to_b6_and_nowhere_else() -> None:
    placed, id = figure_1(PlacementConfig("pop", p_threshold=1))
    placed.publish("P", [1])
    assert placed.messages_in("Rrm") == {"B5": 1, "B6": 1}
    assert placed.messages_in("Ram") == {"B5": 1, "B1": 1}
    (decision,) = placed.pops["B1"].decisions
    assert (decision.publisher, decision.at, decision.to) == ("P", "B1", "B6")
    assert decision.numbers["path"] == ["B1", "B5", "B6"]
    assert decision.numbers["subscribers"] == {"B1": 1, "B2": 6, "B4": 3, "B5": 15}
    assert decision.numbers["selection_s"] > 0, "the request went to B6 and back"
    assert placed.moves == [("B1", id, "B6", "sim://B6")]


@pytest.mark.parametrize(
    ("behind_b1", "at_b2", "behind_b3", "closest"),
    [
        (7, 1, 2, "B1"),  # (a) a neighbour satisfies the closest condition
        (4, 1, 4, "B2"),  # (b) no neighbour of B2 does: B2 is the closest
        (0, 1, 0, "B2"),
    ],
)
def test_fig_2_a_and_b(behind_b1: int, at_b2: int, behind_b3: int, closest: str) -> None:
    placed = PlacementWorld(
        (("B0", "B2"), ("B2", "B1"), ("B2", "B3")), PlacementConfig("pop", p_threshold=1)
    )
    for broker, count in (("B1", behind_b1), ("B2", at_b2), ("B3", behind_b3)):
        placed.subscribers(broker, count)
    placed.publisher("P", "B0")
    placed.publish("P", [1])
    assert [to for _, _, to, _ in placed.moves] == [closest]


@pytest.mark.parametrize(("behind", "here"), [(2, 5), (5, 5), (0, 3), (0, 0)])
def test_fig_2_c_the_original_broker_is_the_closest(behind: int, here: int) -> None:
    placed = PlacementWorld((("B2", "B1"), ("B2", "B3")), PlacementConfig("pop", p_threshold=1))
    placed.subscribers("B1", behind)
    placed.subscribers("B2", here)
    placed.publisher("P", "B2")
    placed.publish("P", [1])
    assert placed.moves == [] and placed.messages_in("Rrm") == {}
    assert [(d["to"], d["outcome"]) for d in placed.decisions("pop")] == [("B2", "stays")]


def test_a_decision_takes_p_threshold_results_and_then_as_many_again() -> None:
    placed = PlacementWorld((("B1", "B2"),), PlacementConfig("pop", p_threshold=5, n=1_000))
    placed.subscribers("B1", 2)
    id = placed.publisher("P", "B1")
    placed.publish("P", range(4))
    assert placed.decisions("pop") == []
    placed.publish("P", range(20), every_s=1)
    traced = placed.pops["B1"].table(id)
    assert traced is not None and len(placed.decisions("pop")) == traced.traced // 5 > 1
