"""What both engines promise beyond right answers: errors, stale answers, learning, forgetting."""

from __future__ import annotations

import math
from typing import Any

import pytest

from runnel.errors import InputError, InvalidValue
from runnel.language import Filter, Op, Predicate, parse
from runnel.matching import Engine, engine_note, make_engine
from runnel.matching.index import Index


@pytest.fixture(params=["compiled", "index"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return make_engine(request.param)


def test_the_papers_example(engine: Engine) -> None:
    engine.add(1, parse("[class,eq,'STOCK'],[symbol,eq,'YHOO'],[volume,>,300000]"))
    engine.add(2, parse("[class,eq,'STOCK'],[volume,>,300000]"))
    engine.add(3, parse("[class,eq,'STOCK']"))
    quote = {"class": "STOCK", "symbol": "YHOO", "volume": 203400, "close": 31.62}
    assert sorted(engine.match(quote)) == [3]
    assert sorted(engine.match(quote | {"volume": 300001})) == [1, 2, 3]
    assert sorted(engine.match(quote | {"volume": 300001, "symbol": "MSFT"})) == [2, 3]


@pytest.mark.parametrize("id", [-1, 2**63, "1", None, True, 1.0])
def test_an_id_is_a_number_of_63_bits(engine: Engine, id: Any) -> None:
    with pytest.raises(InputError, match="a subscription id is an int"):
        engine.add(id, Filter())
    assert len(engine) == 0 and id not in engine


def test_an_id_is_used_once_and_removed_once(engine: Engine) -> None:
    engine.add(5, parse("a = 1"))
    with pytest.raises(InputError, match="subscription 5 is in the engine already"):
        engine.add(5, parse("a = 2"))
    engine.remove(5)
    with pytest.raises(InputError, match="subscription 5 is not in the engine"):
        engine.remove(5)


@pytest.mark.parametrize(
    ("value", "message"),
    [([1], "list"), (b"x", "bytes"), (2**63, "64 bits"), ("\ud800", "lone surrogate")],
)
def test_a_value_that_is_none_says_what_to_send(engine: Engine, value: Any, message: str) -> None:
    engine.add(1, parse("a = 1"))
    with pytest.raises(InvalidValue, match=message):
        engine.match({"a": value})
    assert list(engine.match({"a": 1, "b": value})) == [1], "nobody asks for b"


def test_what_is_absent(engine: Engine) -> None:
    engine.add(1, parse("a IS NOT NULL"))
    engine.add(2, parse("a IS NULL"))
    for absent in ({}, {"a": None}, {"a": math.nan}):
        assert list(engine.match(absent)) == [2]
    assert list(engine.match({"a": ""})) == [1]


def test_a_contradiction_is_kept_and_never_answers(engine: Engine) -> None:
    engine.add(1, parse("a > 5 AND a < 3"))
    assert 1 in engine and list(engine.match({"a": 4})) == []
    engine.remove(1)
    assert len(engine) == 0


def test_an_answer_outlives_other_matches_but_not_a_change() -> None:
    engine = make_engine("compiled")
    for id in range(10):
        engine.add(id, parse(f"a > {id}"))
    answer = engine.match({"a": 5.5})
    engine.match({"a": 2})
    assert sorted(answer.ids()) == [0, 1, 2, 3, 4, 5]
    engine.remove(3)
    assert len(answer) == 6
    with pytest.raises(InputError, match="stale"):
        answer.ids()


def test_a_batch_takes_lists_and_arrays_of_one_length(engine: Engine) -> None:
    from array import array

    engine.add(1, parse("a > 1"))
    batch = engine.match_batch({"a": array("d", [1.0, 2.0]), "b": ("x", "y")})
    assert [list(batch[i]) for i in range(2)] == [[], [1]]
    with pytest.raises(IndexError):
        batch[2]
    with pytest.raises(InputError, match="differ in length"):
        engine.match_batch({"a": [1], "b": [1, 2]})
    assert len(engine.match_batch({})) == 0


def test_events_teach_which_equality_is_rare() -> None:
    """Filed under `kind` at first, since it has more values; events show that `user` is the rare one."""
    index = Index()
    for id in range(40):
        user = Predicate("user", Op.EQ, id % 4)
        index.add(id, Filter([user, Predicate("kind", Op.EQ, id % 8)]))
    assert {entry.path[0].attribute.name for entry in index._entries} == {"kind"}
    for _ in range(64 * 100):
        index.match({"user": 99, "kind": 1})
    asked_often = [entry for entry in index._entries if entry.left == [] and entry.id % 8 == 1]
    assert {entry.path[0].attribute.name for entry in asked_often} == {"user"}
    assert sorted(index.match({"user": 1, "kind": 1})) == [1, 9, 17, 25, 33]


def test_the_note_names_the_engine() -> None:
    assert "engine" in engine_note()
    with pytest.raises(InputError, match="there is no engine 'fast'"):
        make_engine("fast")  # type: ignore[arg-type]
