"""Both engines against the oracle, under random adds, removals and matches of everything there is."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.language import Filter, Op, Predicate, Selection, any_of
from runnel.matching import Engine, make_engine
from runnel.matching.engine import ID_MAX
from support import strategies as our
from support.effort import examples
from support.oracle import BruteForce

ENGINES = ("compiled", "index")

steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), our.selections()),
        st.tuples(st.just("add"), our.selections()),
        st.tuples(st.just("remove"), st.integers(0, 20)),
        st.tuples(st.just("match"), our.attributes()),
    ),
    max_size=25,
)


def assert_same(engine: Engine, oracle: BruteForce, event: Any) -> None:
    want = oracle.match(event)
    answer = engine.match(event)
    assert len(answer) == len(want)
    assert sorted(answer.ids()) == want
    assert sorted(id for piece in answer.slices() for id in piece) == want


@pytest.mark.parametrize("name", ENGINES)
@examples(2500)
@given(steps=steps, events=st.lists(our.attributes(), min_size=1, max_size=4))
def test_an_engine_answers_as_the_oracle_does(name: Any, steps: Any, events: Any) -> None:
    engine, oracle = make_engine(name), BruteForce()
    for id, (step, what) in enumerate(steps):
        if step == "add":
            engine.add(id, what)
            oracle.add(id, what)
        elif step == "match":
            assert_same(engine, oracle, what)
        elif oracle.selections:
            victim = sorted(oracle.selections)[what % len(oracle.selections)]
            engine.remove(victim)
            oracle.remove(victim)
        assert len(engine) == len(oracle.selections)
    for event in events:
        assert_same(engine, oracle, event)


@pytest.mark.parametrize("name", ENGINES)
@examples(2000)
@given(
    selections=st.lists(our.selections(), max_size=8), rows=st.lists(our.attributes(), max_size=5)
)
def test_a_batch_is_answered_row_by_row(name: Any, selections: Any, rows: Any) -> None:
    engine, oracle = make_engine(name), BruteForce()
    for id, selection in enumerate(selections):
        engine.add(ID_MAX - id, selection)
        oracle.add(ID_MAX - id, selection)
    columns = {column: [row.get(column) for row in rows] for column in our.NAMES}
    answer = engine.match_batch(columns)
    assert len(answer) == len(rows)
    assert [sorted(answer[i]) for i in range(len(rows))] == [oracle.match(row) for row in rows]


def random_selection(rng: random.Random) -> Selection:
    """Selections of many shapes over few attributes, so that every shelf of the index fills up."""

    def predicate() -> Predicate:
        name = rng.choice("abcd")
        kind = rng.random()
        if kind < 0.6:
            op = rng.choice([Op.GT, Op.GE, Op.LT, Op.LE])
            return Predicate(name, op, rng.choice([rng.randint(0, 50), rng.random() * 50]))
        if kind < 0.7:
            return Predicate(name, rng.choice([Op.EQ, Op.NE]), rng.randint(0, 5))
        if kind < 0.75:
            return Predicate(name, Op.IN, tuple(rng.sample(range(50), 3)))
        if kind < 0.8:
            return Predicate(name, Op.LIKE, rng.choice(["a%b", "%a_", "_b%", "a%b%a"]))
        text = "".join(rng.choices("ab", k=rng.randint(0, 6)))
        ops = [Op.EQ, Op.PREFIX, Op.SUFFIX, Op.CONTAINS, Op.NOT_CONTAINS, Op.GE]
        return Predicate(name, rng.choice(ops), text)

    def conjunction() -> Filter:
        return Filter([predicate() for _ in range(rng.randint(1, 4))])

    return any_of(conjunction() for _ in range(rng.choice([1, 1, 1, 2, 3])))


def random_event(rng: random.Random) -> dict[str, Any]:
    texts = ("".join(rng.choices("ab", k=rng.randint(0, 8))) for _ in range(4))
    numbers = (rng.choice([rng.randint(0, 50), rng.random() * 50]) for _ in range(4))
    return {
        name: rng.choice([number, number, text])
        for name, number, text in zip("abcd", numbers, texts, strict=True)
        if rng.random() < 0.9
    }


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ENGINES)
def test_large_sets_use_bitmaps_and_survive_growth_and_decay(name: Any, seed: int) -> None:
    rng = random.Random(seed)
    engine, oracle = make_engine(name), BruteForce()
    for id in range(1500):
        selection = random_selection(rng)
        engine.add(id, selection)
        oracle.add(id, selection)
        if id % 100 == 0:
            assert_same(engine, oracle, random_event(rng))
    for round in range(12):
        for _ in range(8):
            assert_same(engine, oracle, random_event(rng))
        for id in rng.sample(sorted(oracle.selections), len(oracle.selections) // 4):
            engine.remove(id)
            oracle.remove(id)
        for id in range(2000 + 60 * round, 2060 + 60 * round):
            selection = random_selection(rng)
            engine.add(id, selection)
            oracle.add(id, selection)
    for id in list(oracle.selections):
        engine.remove(id)
    assert len(engine) == 0
    assert len(engine.match(random_event(rng))) == 0
