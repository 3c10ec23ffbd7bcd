"""What brokers tell operators of their publishers, decisions on request, and moves by hand."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.errors import InputError
from runnel.modules.placement.answers import PlacementAnswers
from runnel.modules.placement.config import PlacementConfig
from runnel.modules.placement.questions import Decide, MovePublisher, Publishers
from runnel.quantities import SECOND
from support.placed import PlacementWorld

LINKS = (("A", "B"), ("B", "C"))


class Operated(PlacementWorld):
    """Brokers, and an operator who asks them."""

    def answers(self, broker: str) -> PlacementAnswers:
        return PlacementAnswers(self.pops[broker], self.grapes[broker])

    def tell(self, broker: str, **asked: Any) -> list[dict[str, Any]]:
        """The publishers of a broker."""
        found = self.answers(broker).publishers(
            self.broker(broker), Publishers(**asked), self.world.now
        )
        assert found["publishers_in_all"] == len(found["publishers"])
        publishers: list[dict[str, Any]] = found["publishers"]
        return publishers

    def decide(self, broker: str, id: int) -> bool:
        """Ask for a decision, and give it the time that it takes."""
        answer = self.answers(broker).decide(self.broker(broker), Decide(id), self.world.now)
        self.run(2)
        return bool(answer["deciding"])

    def move(self, id: int, at: str, to: str) -> None:
        """Move a publisher by hand."""
        asked = MovePublisher(id, to, f"sim://{to}")
        self.answers(at).move(self.broker(at), asked, self.world.now)
        self.moves.append((at, id, to, asked.address))
        self.run(2)


def placed(algorithm: str, publications: int, **parameters: Any) -> tuple[Operated, int]:
    """Three brokers in a row, the publisher at one end, two of its three subscribers at the other."""
    config = PlacementConfig(algorithm, **parameters)  # type: ignore[arg-type]
    made = Operated(LINKS, config, migrates=True)
    made.subscribers("C", 2)
    made.subscribers("B", 1)
    id = made.publisher("P", "A")
    made.publish("P", range(publications))
    return made, id


def test_a_broker_tells_of_its_own_publishers_alone() -> None:
    made, id = placed("off", 5)
    [row] = made.tell("A")
    assert (row["id"], row["publisher"], row["filter"]) == (id, "P", "a >= 0")
    assert (row["algorithm"], row["progress"], row["decision"]) == ("off", None, None)
    assert made.tell("B") == made.tell("C") == made.tell("A", publisher="Q") == []
    assert not made.decide("A", id), "nothing is known of a publisher that nobody is to place"


@pytest.mark.parametrize(
    ("algorithm", "what"), [("grape", "publications"), ("pop", "trace results")]
)
def test_how_far_a_decision_is_and_one_before_its_time_moves_nobody(
    algorithm: str, what: str
) -> None:
    made, id = placed(algorithm, 4)
    [row] = made.tell("A")
    assert row["decision"] is None
    assert row["progress"] == {"what": what, "have": 4, "wanted": 100, "is_deciding": False}
    assert made.decide("A", id)
    [row] = made.tell("A", candidates=True)
    decision = row["decision"]
    assert (decision["to"], decision["address"]) == ("C", "sim://C")
    assert decision["outcome"] == "dry run"
    assert row["progress"]["have"] == 0
    assert made.moves == []
    if algorithm == "grape":
        assert decision["numbers"]["publications"] == 4
        loads = {one["broker"]: one["load"] for one in decision["candidates"]}
        assert loads == {"A": 12, "B": 8, "C": 8}
        assert made.tell("A")[0]["decision"]["candidates"] == []
    else:
        assert row["subscribers"] == {"A": 0.0, "B": 3.0}
        assert decision["numbers"]["path"] == ["A", "B", "C"]


@pytest.mark.parametrize("algorithm", ["grape", "pop"])
def test_only_the_decision_that_was_asked_for_moves_nobody(algorithm: str) -> None:
    made, id = placed(algorithm, 4, g_threshold=10, p_threshold=10)
    assert made.decide("A", id)
    made.publish("P", range(15))
    assert [(at, to) for at, _, to, _ in made.moves] == [("A", "C")]
    [row] = made.tell("C")
    assert row["id"] == id and made.tell("A") == []
    assert 0 < row["rests_s"] <= 30


@pytest.mark.parametrize("algorithm", ["grape", "pop"])
def test_without_anything_to_go_by_nothing_is_decided(algorithm: str) -> None:
    made, id = placed(algorithm, 0)
    assert not made.decide("A", id)
    assert made.tell("A")[0]["progress"]["have"] == 0


def test_pop_gives_up_a_decision_that_nobody_answers_and_the_next_one_counts() -> None:
    made, id = placed("pop", 4, p_threshold=10, answer_timeout_s=5)
    made.cut("B", "C")  # a link that is not yet given up: what is asked over it is not answered
    made.answers("A").decide(made.broker("A"), Decide(id), made.world.now)
    assert made.tell("A")[0]["progress"]["is_deciding"]
    made.run(6)
    [row] = made.tell("A")
    assert row["decision"] is None and not row["progress"]["is_deciding"]
    assert made.pops["A"]._only_shown == {}


def test_an_operator_moves_a_publisher_even_if_it_rests() -> None:
    made, id = placed("off", 1)
    made.move(id, "A", "B")
    [row] = made.tell("B")
    assert (row["migrating"], row["held_by"], row["rests_s"] > 0) == (False, "", True)
    made.move(id, "B", "C")
    assert [row["id"] for row in made.tell("C")] == [id]
    made.move(id, "C", "A")
    assert made.tell("A")[0]["held_by"] == "", "no lease is left from when it was here first"


def test_an_operator_does_not_take_a_publisher_from_a_plan() -> None:
    made, id = placed("off", 1)
    made.broker("A").arbiter.claim("publisher:P", "plan", made.world.now)
    assert made.tell("A")[0]["held_by"] == "plan"
    with pytest.raises(InputError, match="P: it is being moved by: plan; ask again in 60 s"):
        made.move(id, "A", "B")
    made.run(61)
    made.move(id, "A", "B")
    assert made.tell("B")


def test_what_is_not_here_cannot_be_moved_from_here() -> None:
    made, id = placed("off", 1)
    with pytest.raises(InputError, match="B has no publisher"):
        made.move(id, "B", "C")
    with pytest.raises(InputError, match="A has no publisher 1: it may have moved"):
        made.decide("A", 1)


def test_a_publisher_on_its_way_is_not_sent_elsewhere() -> None:
    made, id = placed("off", 1)
    made.answers("A").move(made.broker("A"), MovePublisher(id, "C", "sim://C"), made.world.now)
    while id not in made.broker("C").tables.leaving:
        made.world.run(made.world.now + SECOND // 2_000)
    [row] = made.tell("C")
    assert row["migrating"]
    with pytest.raises(InputError, match="P is migrating: wait for that first"):
        made.move(id, "C", "A")
