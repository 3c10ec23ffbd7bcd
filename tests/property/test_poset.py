"""The poset against brute force: the CSS, the order, and the two questions asked of it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runnel.matching.covering import Intersecting
from runnel.matching.poset import Poset, PosetNode
from support import strategies as our
from support.effort import examples
from support.oracle import BruteForce

steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), our.selections(names=("a", "b"))),
        st.tuples(st.just("add"), our.selections(names=("a", "b"))),
        st.tuples(st.just("remove"), st.integers(0, 20)),
    ),
    max_size=25,
)


def strictly(one: Any, other: Any) -> bool:
    return one.covers(other) and not other.covers(one)


def check(poset: Poset, oracle: BruteForce) -> None:
    distinct = set(oracle.selections.values())
    tops = {s for s in distinct if not any(strictly(other, s) for other in distinct)}
    assert {oracle.selections[id] for id in poset.css()} == tops
    assert len(poset.css()) == len(tops)
    for id in oracle.selections:
        check_node(poset.node(id), distinct)


def check_node(node: PosetNode, distinct: set[Any]) -> None:
    """Parents are exactly the coverers with no other coverer in between."""
    above = {s for s in distinct if strictly(s, node.selection)}
    nearest = {s for s in above if not any(strictly(s, other) for other in above)}
    assert {parent.selection for parent in node.parents} == nearest
    for parent in node.parents:
        assert node in parent.children


@examples(2500)
@given(steps=steps, question=our.selections(names=("a", "b")))
def test_the_poset_is_what_brute_force_finds(steps: Any, question: Any) -> None:
    poset, oracle = Poset(), BruteForce()
    for id, (step, what) in enumerate(steps):
        if step == "add":
            poset.add(id, what)
            oracle.add(id, what)
        elif oracle.selections:
            victim = sorted(oracle.selections)[what % len(oracle.selections)]
            poset.remove(victim)
            oracle.remove(victim)
        check(poset, oracle)
    filed = oracle.selections.items()
    assert sorted(poset.covering.ids_covered_by(question)) == [
        id for id, s in filed if question.covers(s)
    ]
    assert poset.covering.is_covered(question) == any(s.covers(question) for _, s in filed)
    intersecting = Intersecting()
    for id, selection in filed:
        intersecting.add(id, selection)
    found = sorted(intersecting.find(question))
    assert found == [id for id, s in filed if question.intersects(s)]
    for id in list(oracle.selections):
        poset.remove(id)
        intersecting.remove(id)
    assert len(poset) == 0 and poset.css() == []
    assert list(intersecting.find(question)) == []
