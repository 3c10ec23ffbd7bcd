"""Filters by example: what matches, what the canonical form is, what covers and intersects what."""

import math
import pickle
from typing import Any

import pytest

from runnel.errors import FilterLimitError, InvalidValue
from runnel.language import (
    EVERYTHING,
    NOTHING,
    Disjunction,
    Filter,
    Limits,
    Op,
    Predicate,
    any_of,
    parse,
    parse_sql,
    to_sql,
)


@pytest.mark.parametrize(
    ("text", "value", "does"),
    [
        ("a = 5", 5.0, True),
        ("a = 1", True, False),
        ("a = TRUE", 1, False),
        ("a != 5", "five", False),
        ("a != 5", None, False),
        ("a <> 'x'", "y", True),
        ("a > 9007199254740992", 9007199254740993, True),
        ("a > 9007199254740993", 9007199254740992.0, False),
        ("a >= 0", -0.0, True),
        ("a < 5", math.nan, False),
        ("a IS NULL", math.nan, True),
        ("a IS NOT NULL", False, True),
        ("a IS NOT NULL", None, False),
        ("a < 'b'", "abc", True),
        ("a < 'é'", "z", True),
        ("a LIKE 'Y%'", "YHOO", True),
        ("a NOT LIKE 'Y%'", "IBM", True),
        ("a NOT LIKE 'Y%'", 5, False),
        ("a IN ('x', 'y')", "y", True),
        ("a NOT IN (1, 2)", 3, True),
    ],
)
def test_what_matches(text: str, value: Any, does: bool) -> None:
    assert parse_sql(text).matches({"a": value}) is does


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("a >= 5 AND a <= 5", "a = 5"),
        ("a > 5 AND a > 3 AND a >= 5", "a > 5"),
        ("a >= 5 AND a <> 5", "a > 5"),
        ("a <> 5 AND a < 3", "a < 3"),
        ("a <> 1 AND a <> 3 AND a <> 1.0", "a NOT IN (1, 3)"),
        ("a IN (1, 2, 3) AND a > 1 AND a <> 3", "a = 2"),
        ("a IN (3, 1, 2, 1)", "a IN (1, 2, 3)"),
        ("a <> TRUE", "a = FALSE"),
        ("a IS NOT NULL AND a > 5", "a > 5"),
        ("b > 1 AND a > 1", "a > 1 AND b > 1"),
        ("a <= 1e999 AND a > 5", "a > 5"),
        ("a <= 1e999", "a >= -1e999"),
        ("a >= 1e999", "a = 1e999"),
        ("a LIKE 'x'", "a = 'x'"),
        ("a LIKE '%'", "a >= ''"),
        ("a <= ''", "a = ''"),
        ("a <> ''", "a > ''"),
        ("a LIKE 'ab%' AND a LIKE 'a%'", "a LIKE 'ab%'"),
        ("a LIKE 'ab%' AND a > 'aa'", "a LIKE 'ab%'"),
        ("a >= 'ab' AND a < 'ac'", "a LIKE 'ab%'"),
        ("a LIKE '%abc' AND a LIKE '%c' AND a LIKE '%b%'", "a LIKE '%abc'"),
        ("a LIKE 'ab%yz' AND a LIKE 'a%' AND a LIKE '%z'", "a LIKE 'ab%yz'"),
        ("a NOT LIKE 'a%' AND a <> 'abc' AND a NOT LIKE 'ab%'", "a NOT LIKE 'a%'"),
        ("a NOT LIKE 'b%' AND a >= 'b'", "a >= 'c'"),
        ("a NOT LIKE '%b%' AND a LIKE '%c'", "a LIKE '%c' AND a NOT LIKE '%b%'"),
        ("a NOT LIKE 'x%' AND a LIKE 'y%'", "a LIKE 'y%'"),
    ],
)
def test_canonical_form(written: str, canonical: str) -> None:
    assert to_sql(parse_sql(written)) == canonical
    assert parse_sql(written) == parse_sql(canonical)


@pytest.mark.parametrize(
    "text",
    [
        "a > 5 AND a < 5",
        "a > 5 AND a <= 5",
        "a = 5 AND a <> 5.0",
        "a = 1 AND a = TRUE",
        "a > 5 AND a = 'x'",
        "a IS NULL AND a IS NOT NULL",
        "a IS NULL AND a > 5",
        "a > 1e999",
        "a < ''",
        "a = TRUE AND a <> TRUE",
        "a IN (1, 2) AND a > 2",
        "a LIKE 'x%' AND a LIKE 'y%'",
        "a LIKE '%x' AND a LIKE '%y'",
        "a LIKE '%ab%' AND a NOT LIKE '%a%'",
        "a LIKE 'x%' AND a < 'w'",
        "a LIKE 'xy%' AND a NOT LIKE 'x%'",
        "FALSE",
    ],
)
def test_contradictions(text: str) -> None:
    found = parse_sql(text)
    assert found.is_contradiction
    assert found == NOTHING
    assert hash(found) == hash(NOTHING)
    assert (found.predicates, found.disjuncts) == ((), ())  # type: ignore[union-attr]
    assert not found.matches({"a": 5})
    assert EVERYTHING.covers(found)
    assert not found.covers(EVERYTHING)
    assert not found.intersects(EVERYTHING)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("TRUE", "a = 1"),
        ("a > 5", "a > 6"),
        ("a >= 5", "a > 5"),
        ("a <> 5", "a > 5"),
        ("a IS NOT NULL", "a LIKE 'x%'"),
        ("a > 5", "a > 5 AND b = 1"),
        ("a IN (1, 2, 3)", "a = 2"),
        ("a < 'b'", "a LIKE 'a%'"),
        ("a LIKE '%b%'", "a LIKE '%abc'"),
        ("a NOT LIKE 'x%'", "a LIKE 'y%'"),
        ("a NOT LIKE '%x'", "a LIKE '%y'"),
        ("a > 5 OR b > 5", "a > 6 OR b > 7"),
    ],
)
def test_covers(wide: str, narrow: str) -> None:
    assert parse_sql(wide).covers(parse_sql(narrow))
    assert not parse_sql(narrow).covers(parse_sql(wide))
    assert parse_sql(narrow).intersects(parse_sql(wide))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a > 5", "a < 5"),
        ("a = 1", "a = TRUE"),
        ("a IS NULL", "a IS NOT NULL"),
        ("a LIKE 'x%'", "a LIKE 'y%' AND b = 1"),
        ("a = 1 OR a = 2", "a = 3 OR a > 7"),
    ],
)
def test_disjoint(one: Any, other: Any) -> None:
    assert not parse_sql(one).intersects(parse_sql(other))
    assert not parse_sql(one).covers(parse_sql(other))


def test_a_bool_is_not_a_number_even_in_equality() -> None:
    assert parse_sql("a = TRUE") != parse_sql("a = 1")
    assert Predicate("a", Op.EQ, True) != Predicate("a", Op.EQ, 1)
    assert Predicate("a", Op.IN, (False, True)) != Predicate("a", Op.IN, (0, 1))
    assert Predicate("a", Op.EQ, 1.0) == Predicate("a", Op.EQ, 1)


def test_disjunctions() -> None:
    both = parse_sql("b > 1 OR a > 1")
    assert isinstance(both, Disjunction)
    assert both == parse_sql("a > 1 OR b > 1 OR a > 2 OR FALSE")
    assert both.attributes == ("a", "b")
    assert any_of([]) == NOTHING
    assert any_of([EVERYTHING, parse_sql("a = 1")]) == EVERYTHING  # type: ignore[list-item]
    with pytest.raises(FilterLimitError, match="1001 filters"):
        Disjunction(Filter([Predicate("a", Op.EQ, i)]) for i in range(1_001))


def test_filters_are_values() -> None:
    one = parse("[a,>,5],[b,eq,'x']")
    assert pickle.loads(pickle.dumps(one)) == one
    assert pickle.loads(pickle.dumps(NOTHING)) == NOTHING
    assert {one: 1}[parse_sql("b = 'x' AND a > 5.0")] == 1
    with pytest.raises(AttributeError):
        one.predicates = ()  # type: ignore[misc, union-attr]


def test_operators_may_be_given_as_text() -> None:
    assert Filter([Predicate("a", ">", 5)]).predicates[0].op is Op.GT  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="no operator 'near'"):
        Filter([Predicate("a", "near", 5)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "predicate",
    [
        Predicate("a", Op.LT, True),
        Predicate("a", Op.SUFFIX, 5),
        Predicate("a", Op.IN, ()),
        Predicate("a", Op.IN, "xy"),
        Predicate("a", Op.LIKE, "\\x"),
    ],
)
def test_predicates_that_make_no_sense(predicate: Any) -> None:
    with pytest.raises(InvalidValue):
        Filter([predicate])


def test_limits() -> None:
    selection = parse_sql("a > 1 OR b > 1")
    Limits().check(selection)
    for limits in (Limits(disjuncts=1), Limits(predicates=1), Limits(characters=1)):
        with pytest.raises(FilterLimitError):
            limits.check(selection)
    for wrong in ({"disjuncts": 1_001}, {"characters": 0}):
        with pytest.raises(InvalidValue):
            Limits(**wrong)
