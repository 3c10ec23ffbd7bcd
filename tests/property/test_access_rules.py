"""Decisions by rules against a brute force over a small world: every event that there can be, looked at one by one.

The oracle knows nothing of filters: a rule is a list of conditions on numbers, and what it lets through is a set of
events. A subscription may be taken only if its events are within those of the rules; an advertisement must be taken if
it has one in common with them; a publication is taken if and only if it is one of them.
"""

from __future__ import annotations

import operator
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from runnel.broker.permits import Permit
from runnel.language import NOTHING, Selection, any_of, parse

Condition = tuple[str, str, int]
Conjunction = list[Condition]

COMPARE = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# Values between those that rules name, and events that lack an attribute.
VALUES = (None, *range(-1, 5))
EVENTS = [
    {name: value for name, value in (("a", a), ("b", b)) if value is not None}
    for a, b in product(VALUES, VALUES)
]

conditions = st.tuples(st.sampled_from("ab"), st.sampled_from(sorted(COMPARE)), st.integers(0, 3))
conjunctions = st.lists(conditions, min_size=0, max_size=3)
rules = st.lists(conjunctions, min_size=0, max_size=3)


def lets_through(one: Conjunction, event: dict[str, int]) -> bool:
    return all(name in event and COMPARE[op](event[name], value) for name, op, value in one)


def events_of(conjunctions: list[Conjunction]) -> set[int]:
    return {
        number
        for number, event in enumerate(EVENTS)
        if any(lets_through(one, event) for one in conjunctions)
    }


def selection(conjunctions: list[Conjunction]) -> Selection:
    texts = [" AND ".join(f"{n} {op} {v}" for n, op, v in one) or "TRUE" for one in conjunctions]
    filters = [disjunct for text in texts for disjunct in parse(text).disjuncts]
    return any_of(filters) if filters else NOTHING


@given(rules, rules)
def test_what_may_be_subscribed_to_is_within_the_rules(
    allowed: list[Conjunction], wanted: list[Conjunction]
) -> None:
    permit = Permit("alice", subscribe=selection(allowed))
    if not permit.why_not_subscribe(selection(wanted)):
        assert events_of(wanted) <= events_of(allowed)


@given(rules, st.integers(0, 2), conjunctions)
def test_what_is_narrower_than_one_rule_may_be_subscribed_to(
    allowed: list[Conjunction], which: int, narrower: Conjunction
) -> None:
    """The other direction, where it is exact: conditions that are added to a rule."""
    if not allowed:
        return
    permit = Permit("alice", subscribe=selection(allowed))
    wanted = [*allowed[which % len(allowed)], *narrower]
    if events_of([wanted]):
        assert permit.why_not_subscribe(selection([wanted])) == ""


@given(rules)
def test_what_may_be_published_is_what_the_rules_match(allowed: list[Conjunction]) -> None:
    permit = Permit("alice", publish=selection(allowed))
    taken = {number for number, event in enumerate(EVENTS) if permit.may_publish(event)}
    assert taken == events_of(allowed)


@given(rules, rules)
def test_what_has_an_event_in_common_with_the_rules_may_be_advertised(
    allowed: list[Conjunction], advertised: list[Conjunction]
) -> None:
    permit = Permit("alice", publish=selection(allowed))
    if events_of(allowed) & events_of(advertised):
        assert permit.why_not_advertise(selection(advertised)) == ""


NAMES = st.text("ab-/*", max_size=6)


@given(st.lists(st.text("ab-/", min_size=1, max_size=4), max_size=3), st.booleans(), NAMES)
def test_names_are_those_of_the_patterns_and_of_their_publishers(
    patterns: list[str], with_star: bool, name: str
) -> None:
    said = [f"{one}*" if with_star else one for one in patterns]
    permit = Permit("alice", names=tuple(said))

    def is_like(one: str, text: str) -> bool:
        return text[: len(one)] == one if with_star else text == one

    owner = name.split("/")[0]
    expected = any(is_like(one, name) or is_like(one, owner) for one in patterns)
    assert permit.allows_name(name) is expected
