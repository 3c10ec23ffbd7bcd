"""Decisions carried out: publishers migrate, nothing is lost, and none goes to and fro for nothing."""

from __future__ import annotations

import pytest

from runnel.modules.placement.config import PlacementConfig
from support.placed import PlacementWorld

LINKS = (("A", "B"), ("B", "C"), ("B", "D"), ("D", "E"))


@pytest.mark.parametrize("algorithm", ["pop", "grape"])
def test_a_publisher_goes_where_its_subscribers_are_and_stays(algorithm: str) -> None:
    config = PlacementConfig(algorithm, p_threshold=10, g_threshold=10, w_s=5)  # type: ignore[arg-type]
    placed = PlacementWorld(LINKS, config, migrates=True)
    for broker, count in (("E", 3), ("A", 1), ("C", 1)):
        placed.subscribers(broker, count)
    id = placed.publisher("P", "A")
    placed.publish("P", range(60), every_s=0.5)
    assert placed.delivered == 60 * 5
    decided = placed.decisions(algorithm)
    assert [(d["at"], d["to"], d["outcome"]) for d in decided[:2]] == [
        ("A", "E", "moves"),
        ("E", "E", "stays"),
    ]
    assert all(d["outcome"] == "stays" for d in decided[1:])
    assert placed.broker("E").tables.srt[id].link.is_client
    modules = placed.pops if algorithm == "pop" else placed.grapes
    assert [module.decisions for name, module in modules.items() if name != "E"] == [[]] * 4


def test_tables_on_the_path_start_from_nothing_and_others_stay() -> None:
    placed = PlacementWorld(LINKS, PlacementConfig("pop", p_threshold=10, w_s=5), migrates=True)
    placed.subscribers("E", 2)
    placed.subscribers("C", 1)
    id = placed.publisher("P", "A")
    placed.publish("P", range(30), every_s=0.5)
    tables = {name: pop.table(id) for name, pop in placed.pops.items()}
    traced = {name: table.traced for name, table in tables.items() if table}
    assert traced == {"B": traced["E"], "C": traced["E"] + 10, "D": traced["E"], "E": traced["E"]}


def to_and_fro(damping: float) -> tuple[int, int]:
    """Five subscribers at either end want all, a sixth is now on this side, now on that; moves, and deliveries."""
    config = PlacementConfig("pop", p_threshold=10, w_s=5, damping=damping)
    placed = PlacementWorld((("A", "B"), ("B", "C")), config, migrates=True)
    for broker, sometimes in (("A", "a = 0"), ("C", "a = 1")):
        placed.subscribers(broker, 5)
        placed.subscribers(broker, 1, sometimes)
    placed.publisher("P", "A")
    placed.publish("P", [n // 80 % 2 for n in range(320)], every_s=0.5)
    return len(placed.moves), placed.delivered


def test_damping_ends_a_publishers_going_to_and_fro() -> None:
    assert to_and_fro(damping=0) == (3, 320 * 11), "with every turn it moves"
    assert to_and_fro(damping=2) == (0, 320 * 11)


def test_rest_keeps_a_publisher_for_a_while_where_it_has_come_to() -> None:
    """The subscribers change sides right after it has moved to them: it follows when it has rested."""
    config = PlacementConfig("grape", g_threshold=10, gain_percent_min=0)
    placed = PlacementWorld((("A", "B"), ("B", "C")), config, migrates=True)
    placed.subscribers("C", 1, "a = 0")
    placed.subscribers("A", 1, "a = 1")
    placed.publisher("P", "A")
    placed.publish("P", [0] * 10 + [1] * 100, every_s=0.5)
    outcomes = [(d["at"], d["outcome"]) for d in placed.decisions("grape")]
    assert outcomes[:6] == [("A", "moves")] + [("C", "rests")] * 5
    assert ("C", "moves") in outcomes and outcomes[-1] == ("A", "stays")
    assert placed.delivered == 110
