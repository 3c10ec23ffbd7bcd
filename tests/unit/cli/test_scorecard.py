"""What a scorecard says: goals met and missed, what is sent again, how sure it is; old plans have less to say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runnel.cli.show.plans import (
    ROWS_MAX,
    describe_evidence,
    moves,
    next_steps,
    remarks,
    scorecard,
    summary,
)
from runnel.cli.show.tables import show
from runnel.planning.documents.constraints import Constraints
from runnel.planning.documents.evidence import Evidence, doubts, evidence_of
from runnel.planning.documents.goals import PlanGoal, goals_of, resent_messages_of
from runnel.planning.documents.plan import BrokerLoad, Plan, from_json, to_json
from runnel.planning.planner import make_plan
from support.planning_small import small_network


def load(output_ratio: float, subscriptions: int = 1) -> BrokerLoad:
    return BrokerLoad(10.0, 1_000.0 * output_ratio, subscriptions, 0.1, output_ratio)


def plan_of(**fields: object) -> Plan:
    plain = {"algorithm": "FBF", "overlay": {"A": None}, "subscriptions": {}, "publishers": {}}
    return from_json(json.dumps({"version": 1, **plain, **fields}).encode())


def goal(plan: Plan, name: str) -> PlanGoal:
    return next(goal for goal in goals_of(plan) if goal.name == name)


def test_what_was_asked_of_a_plan_is_in_the_document_and_among_its_goals() -> None:
    asked = Constraints(headroom_percent=25.0, max_moves=100, excluded=("B5",))
    plan = make_plan(small_network(), constraints=asked)
    assert plan.asked is not None and plan.asked.excluded == ["B5"]
    assert from_json(to_json(plan)) == plan
    assert goal(plan, "head-room").most == pytest.approx(0.75)
    assert goal(plan, "head-room").is_met and goal(plan, "moves").is_met
    assert goal(plan, "capacity").is_met


def test_goals_that_are_missed_are_missed() -> None:
    overlay = {"A": None, "B": "A", "C": "A"}
    after = {"A": load(1.2), "B": load(0.1), "C": load(0.1)}
    plan = Plan(algorithm="MANUAL", overlay=overlay, subscriptions={}, publishers={}, after=after)
    assert [(one.name, one.was_met, one.is_met) for one in goals_of(plan)] == [
        ("capacity", None, False),
        ("balance", None, False),
        ("brokers", None, False),
    ]


def test_what_is_sent_again_goes_the_way_to_the_publishers() -> None:
    """A chain A – B – C; all subscriptions at A, one publisher at C: each crosses two links after its own."""
    chain = {"A": None, "B": "A", "C": "B"}
    after = {"A": load(0.5, 10), "B": load(0.1, 0), "C": load(0.1, 0)}
    plan = Plan(
        algorithm="FBF", overlay=chain, subscriptions={}, publishers={"p": "C"}, after=after
    )
    assert resent_messages_of(plan).bytes == 100 * (10 * 3) + 100 * 3
    sized = Evidence("traces", 1.0, 1, 1, 1, 10, 0, 0, 50.0, 10.0)
    plan = Plan(
        **{key: getattr(plan, key) for key in ("algorithm", "overlay", "after", "publishers")},
        subscriptions={},
        evidence=sized,
    )
    assert resent_messages_of(plan).bytes == 50 * (10 * 3) + 10 * 3


def test_evidence_counts_what_plans_rest_on() -> None:
    windows = [(1_000, 80.0), (200, 15.0), (3, 5.0)]
    found = evidence_of("brokers", 12.3456, windows, [0, 0, 9, 10, 500])
    assert (found.publications, found.followed, found.seconds) == (1_203, 200, 12.346)
    assert (found.subscriptions, found.with_none, found.with_few) == (5, 2, 1)
    assert doubts(found) == ["60% of the subscriptions got fewer than 10 of them"]
    assert evidence_of("brokers", 0.0, [], []).followed == 0


def test_an_old_plan_has_a_scorecard_too(capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(after={"A": {**json.loads(json.dumps(loads(0.5)))}})
    assert plan.evidence is None and plan.asked is None and describe_evidence(None) == []
    show(*scorecard(plan))
    told = capsys.readouterr().out
    assert "capacity" in told and "50% met" in told and "rests on" not in told


def loads(ratio: float) -> dict[str, float]:
    return fields_of(load(ratio))


def fields_of(one: BrokerLoad) -> dict[str, float]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


def test_a_scorecard_has_freed_brokers_and_the_first_of_many(
    capsys: pytest.CaptureFixture[str],
) -> None:
    many = {f"B{n}": load(n / 200) for n in range(100)}
    plan = Plan(
        algorithm="FBF",
        overlay={"B0": None} | {f"B{n}": "B0" for n in range(1, 90)},
        subscriptions={},
        publishers={},
        before=many,
        after={name: many[name] for name in list(many)[:90]},
        freed=[f"B{n}" for n in range(90, 100)],
    )
    show(*scorecard(plan))
    told = capsys.readouterr().out
    assert f"{100 - ROWS_MAX} more are in the document" in told
    assert " B89 " in told and " B1 " not in told, "the most loaded come first"
    assert remarks(plan)[0] == "freed: B90, B91, B92, B93, B94, B95, B96, B97, B98, B99"
    first_names = Plan(
        algorithm="FBF", overlay={"A": None}, subscriptions={}, publishers={},
        before={"A": load(0.2), "Z": load(0.1)}, after={"A": load(0.3)}, freed=["Z"],
    )  # fmt: skip
    show(*scorecard(first_names))
    told = capsys.readouterr().out
    assert "Z" in told and "freed" in told and "10% → 0%" in told


def test_without_limits_nothing_is_said_to_be_at_0_percent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    free = BrokerLoad(10.0, 1_000.0, 1, 0.001, 0.0)
    plan = Plan(
        algorithm="FBF", overlay={"A": None}, subscriptions={}, publishers={},
        before={"A": free, "Z": free}, after={"A": free}, freed=["Z"],
    )  # fmt: skip
    show(*scorecard(plan))
    told = capsys.readouterr().out
    [capacity] = [line for line in told.splitlines() if line.strip().startswith("capacity")]
    assert capacity.count("no limit") == 2 and "met" not in capacity.replace("is met if", "")
    assert "output without a limit, matching at 0%" in told
    rows = [line for line in told.splitlines() if line.strip().startswith(("A ", "Z "))]
    assert [row.count("no limit") for row in rows] == [1, 1], "for the one that is freed as well"


def test_a_limit_that_one_broker_has_is_told() -> None:
    free, busy = BrokerLoad(10.0, 1_000.0, 1, 0.0, 0.0), load(0.5)
    plan = plan_of(
        overlay={"A": None, "B": "A"}, after={"A": fields_of(free), "B": fields_of(busy)}
    )
    assert "output at 50%" in summary(plan)[2]


def test_one_is_one_and_moves_are_of_clients_and_of_publishers() -> None:
    plan = plan_of(
        subscriptions={"s": "A", "t": "A"}, publishers={"s/p": "A"}, moved=["s", "s/p"],
        after={"A": loads(0.5)},
    )  # fmt: skip
    assert moves(plan) == "1 of 2 clients, 1 of 1 publisher"
    assert summary(plan)[-1].startswith("sends again 1 subscription and 1 advertisement,")


def test_after_a_plan_comes_what_can_be_done_with_it() -> None:
    file = Path("plan.json")
    assert next_steps(plan_of(addresses={"A": "h:1"}), file)[1:] == [
        "to see it again: runnel plan show plan.json",
        "to carry it out: runnel apply plan.json",
    ]
    assert len(next_steps(plan_of(), file)) == 2, "nobody knows where its brokers are"
