"""The plan as a document: reading returns what was written, and errors name what is wrong."""

from __future__ import annotations

import json

import pytest

from runnel.errors import InputError
from runnel.planning.documents.plan import Plan, compare_plans, from_json, to_json
from runnel.planning.planner import PlanOptions, make_plan
from support.planning_small import small_network

PLAN = Plan(
    algorithm="FBF", overlay={"A": None, "B": "A"}, subscriptions={"s": "B"}, publishers={"p": "A"}
)


def changed(**fields: object) -> bytes:
    return json.dumps({**json.loads(to_json(PLAN)), **fields}).encode()


def test_a_plan_is_read_as_it_was_written() -> None:
    plan = make_plan(small_network())
    assert from_json(to_json(plan)) == plan
    assert to_json(plan) == to_json(make_plan(small_network()))
    assert json.loads(to_json(plan))["version"] == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"nonsense", "not a plan"),
        (b"[]", "not a plan"),
        (changed(version=2), "version 2; this Runnel reads version 1"),
        (changed(extra=1), "not a plan.*extra"),
        (changed(seed="x"), "not a plan.*seed"),
        (changed(overlay={"A": None, "B": None}), "not one tree: its roots are A, B"),
        (changed(overlay={"A": "B", "B": "A"}), "not one tree: its roots are none"),
        (changed(overlay={"A": None, "B": "C"}), "hangs on C"),
        (changed(subscriptions={"s": "Z"}), "subscription s goes to Z"),
        (changed(publishers={"p": "Z"}), "publisher p goes to Z"),
    ],
)
def test_what_is_wrong_with_a_document_is_said(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_json(data)


def test_a_diff_names_what_changes_and_nothing_else() -> None:
    other = Plan(
        algorithm="FBF",
        overlay={"B": None, "A": "B", "C": "A"},
        subscriptions={"s": "A", "t": "C"},
        publishers={"p": "A"},
    )
    found = compare_plans(PLAN, other)
    assert found.brokers_added == ["C"] and found.brokers_removed == []
    assert found.links_changed == ["A"], (
        "A has a new neighbour; which one is called the root is no change"
    )
    assert found.moved == {"s": ("B", "A"), "t": (None, "C")}
    assert not found.same and compare_plans(other, other).same


def test_two_algorithms_differ() -> None:
    one = make_plan(small_network(60.0), PlanOptions("FBF"))
    two = make_plan(small_network(60.0), PlanOptions("CRAM-IOU"))
    assert not compare_plans(one, two).same
