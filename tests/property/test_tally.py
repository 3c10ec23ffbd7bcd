"""Totals of events against the oracle, for both engines."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies as our
from oracle import BruteForce
from runnel.errors import InputError
from runnel.language import Filter, Op, Predicate, parse
from runnel.matching import make_engine
from runnel.matching.tally import Totals

ENGINES = ("compiled", "index")
Event = tuple[Any, int, int]


def expected(oracle: BruteForce, events: list[Event]) -> dict[int, tuple[int, ...]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for attributes, amount, at in events:
        for id in oracle.match(attributes):
            found.setdefault(id, []).append((amount, at))
    return {
        id: (len(got), sum(a for a, _ in got), min(t for _, t in got), max(t for _, t in got))
        for id, got in found.items()
    }


def by_id(totals: Totals) -> dict[int, tuple[int, ...]]:
    rows = list(zip(*totals, strict=True))
    assert len({row[0] for row in rows}) == len(rows), "an id once"
    return {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize("name", ENGINES)
@settings(max_examples=500, deadline=None)
@given(
    selections=st.lists(our.selections(), max_size=20),
    events=st.lists(st.tuples(our.attributes(), st.integers(0, 9), st.integers(-9, 9))),
)
def test_totals_are_the_oracles(name: Any, selections: Any, events: list[Event]) -> None:
    engine, oracle = make_engine(name), BruteForce()
    for id, selection in enumerate(selections):
        engine.add(id, selection)
        oracle.add(id, selection)
    tally = engine.tally()
    for some in (events[::2], events[1::2]):
        for event in some:
            tally.add(*event)
        assert by_id(tally.take()) == expected(oracle, some)
    assert by_id(tally.take()) == {}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("op", [Op.GT, Op.LT, Op.EQ])
def test_totals_of_many_thresholds(name: Any, op: Op) -> None:
    """More of them than a block of the index holds, on the same few values and on many."""
    chance = random.Random(1)
    engine, oracle = make_engine(name), BruteForce()
    for id in range(2_500):
        filter_ = Filter(
            [Predicate("a", op, chance.randrange(3_000)), Predicate("b", Op.EQ, id % 2)]
        )
        engine.add(3 * id, filter_)
        oracle.add(3 * id, filter_)
    tally = engine.tally()
    events: list[Event] = [
        ({"a": chance.randrange(3_000), "b": n % 2}, n, chance.randrange(99)) for n in range(200)
    ]
    for event in events:
        tally.add(*event)
    assert by_id(tally.take()) == expected(oracle, events) != {}


def test_a_tally_of_an_engine_that_changed_is_stale() -> None:
    engine = make_engine("compiled")
    engine.add(1, parse("a > 1"))
    tally = engine.tally()
    tally.add({"a": 2}, 1, 1)
    engine.add(2, parse("a > 2"))
    with pytest.raises(InputError, match=r"stale.*take\(\) before changing"):
        tally.take()
