"""Input that means harm: huge, deep, exploding or malformed. Each gets a clear error or an answer,
in bounded time; the bounds are generous, for slow machines, but far below what a blow-up takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from runnel.errors import FilterLimitError, FilterSyntaxError, InvalidValue
from runnel.language import Filter, Limits, Op, Predicate, like, parse, parse_padres, parse_sql

WIDE = Limits(characters=10_000_000, predicates=100_000)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    started = time.perf_counter()
    yield
    assert time.perf_counter() - started < seconds


# Size


def test_ten_thousand_predicates_on_different_attributes() -> None:
    with within(5):
        big = Filter(Predicate(f"a{i}", Op.GT, i) for i in range(10_000))
    assert len(big.predicates) == 10_000
    with within(5):
        assert big.covers(big)
        assert big.intersects(big)
    with pytest.raises(FilterLimitError, match="10000 predicates, the limit is 1000"):
        Limits().check(big)


@pytest.mark.parametrize(
    ("op", "left"), [(Op.GT, 1), (Op.NE, 1), (Op.PREFIX, 0), (Op.EQ, 0)], ids=str
)
def test_ten_thousand_predicates_on_one_attribute(op: str, left: Any) -> None:
    with within(10):
        if op is Op.PREFIX:
            with pytest.raises(FilterLimitError, match="10000 patterns"):
                Filter(Predicate("a", op, f"x{i}") for i in range(10_000))
        else:
            assert len(Filter(Predicate("a", op, i) for i in range(10_000)).predicates) == left  # type: ignore[arg-type]


@pytest.mark.parametrize("joint", [" AND ", " OR "])
def test_ten_thousand_predicates_in_a_text(joint: str) -> None:
    text = joint.join(f"a{i} > {i}" for i in range(10_000))
    with pytest.raises(FilterLimitError, match="characters, the limit is 65536"):
        parse_sql(text)
    with within(20), pytest.raises(FilterLimitError, match=r"alternatives|predicates"):
        parse_sql(text, limits=Limits(characters=10_000_000))


def test_ten_thousand_predicates_in_brackets() -> None:
    text = ",".join(f"[a{i},>,{i}]" for i in range(10_000))
    with within(20), pytest.raises(FilterLimitError, match="10000 predicates"):
        parse_padres(text, limits=Limits(characters=10_000_000))
    with within(20), pytest.raises(FilterLimitError, match="10000 disjuncts"):
        parse_padres(text.replace("],[", "]|["), limits=Limits(characters=10_000_000))


@pytest.mark.parametrize("op", [Op.EQ, Op.PREFIX, Op.CONTAINS, Op.LIKE, Op.GT, Op.NOT_PREFIX])
def test_literals_of_a_megabyte(op: str) -> None:
    literal = "é" * 500_000 + "x" * 500_000
    with within(5):
        big = Filter([Predicate("a", op, literal), Predicate("a", Op.GT, "b")])  # type: ignore[arg-type]
        assert big.matches({"a": literal}) == (op not in (Op.GT, Op.NOT_PREFIX))
        assert big.covers(big)
    with pytest.raises(FilterLimitError, match="characters"):
        parse_sql(f"a = '{literal}'")
    with within(5):
        assert parse_sql(f"a = '{literal}'", limits=WIDE) == Filter(
            [Predicate("a", Op.EQ, literal)]
        )


# Nesting


@pytest.mark.parametrize("opening", ["(", "NOT (", "(NOT "])
def test_thirty_thousand_nested_parentheses(opening: str) -> None:
    text = opening * 30_000 + "a > 1" + ")" * 30_000
    with within(20):
        assert parse_sql(text, limits=WIDE) == parse_sql("a > 1")


def test_nested_nots() -> None:
    with within(20):
        assert parse_sql("NOT " * 30_001 + "a > 1", limits=WIDE) == parse_sql("a <= 1")


def test_nested_parentheses_that_never_close() -> None:
    with within(20), pytest.raises(FilterSyntaxError, match="column 30006: expected "):
        parse_sql("(" * 30_000 + "a > 1")


def test_nested_conjunctions() -> None:
    text = "(" * 900 + "a0 > 0" + "".join(f" AND a{i} > {i})" for i in range(900))
    with within(20):
        assert len(parse_sql(text).attributes) == 900


# Explosion


def test_a_product_of_sums_is_refused() -> None:
    text = " AND ".join(f"(a{i} = 1 OR b{i} = 2)" for i in range(60))
    with within(5), pytest.raises(FilterLimitError, match="more than 1000 alternatives"):
        parse_sql(text)


def test_a_product_of_sums_that_nobody_asks_for_is_harmless() -> None:
    text = " AND ".join(f"(a{i} = 1 OR b{i} = 2)" for i in range(60))
    with within(5):
        assert len(parse_sql(f"NOT ({text})").disjuncts) == 60
    with within(5):
        assert parse_sql(f"({text}) AND FALSE").is_contradiction
        assert parse_sql(f"({text}) OR TRUE") == Filter()


def test_a_product_that_folds_is_accepted() -> None:
    one_of_thirty = "(" + " OR ".join(f"a = {i}" for i in range(30)) + ")"
    with within(5):
        assert parse_sql(f"{one_of_thirty} AND {one_of_thirty}") == parse_sql(one_of_thirty)


def test_more_disjuncts_than_allowed() -> None:
    text = " OR ".join(f"(a > {i} AND b < {i})" for i in range(101))
    with within(5), pytest.raises(FilterLimitError, match="101 disjuncts, the limit is 100"):
        parse_sql(text)
    assert len(parse_sql(text, limits=Limits(disjuncts=200)).disjuncts) == 101


def test_many_hard_patterns_multiplied() -> None:
    hard = " AND ".join(f"a LIKE '%{'_a' * 20}{i}%'" for i in range(90))
    text = f"{hard} AND ({' OR '.join(f'b = {i}' for i in range(99))})"
    with within(20), pytest.raises(FilterLimitError):
        parse_sql(text)


# Patterns


@pytest.mark.parametrize("piece", ["a%", "%a%b", "_a%", "a_%", "%_b"])
def test_like_takes_linear_time(piece: str) -> None:
    pattern = like("%" + piece * 2_000 + "c")
    with within(5):
        assert not pattern.matches("ab" * 100_000)
        assert not pattern.matches("a" * 200_000 + "c" + "b")
        pattern.matches("ab" * 100_000 + "c")


def test_like_with_too_long_a_piece() -> None:
    with pytest.raises(FilterLimitError, match="65 characters, the limit is 64"):
        parse_sql(f"a LIKE '{'_' * 65}'")
    assert parse_sql(f"a LIKE '{'_' * 64}'").matches({"a": "x" * 64})


# Values


@pytest.mark.parametrize(
    "text", ["a = '\ud800'", "a LIKE '\udfff%'", '"\ud800" = 1', "[a,eq,'\ud800']", "[\ud800,=,1]"]
)
def test_lone_surrogates(text: str) -> None:
    with pytest.raises(InvalidValue, match="lone surrogate"):
        parse(text)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**400], ids=["max", "min", "huge"])
def test_ints_beyond_64_bits(number: Any) -> None:
    for text in (f"a = {number}", f"[a,=,{number}]"):
        with pytest.raises(InvalidValue, match=r"64 bits|characters"):
            parse(text)
    with pytest.raises(InvalidValue, match="64 bits: use a float or a string"):
        Filter([Predicate("a", Op.GT, number)])


def test_ints_at_the_edge_of_64_bits_are_exact() -> None:
    for number in (2**63 - 1, -(2**63), 2**53 + 1):
        exact = parse_sql(f"a = {number}")
        assert exact.matches({"a": number})
        assert not exact.matches({"a": float(number)}) or float(number) == number


def test_a_number_with_a_million_digits() -> None:
    with within(5), pytest.raises(InvalidValue, match="1000000 characters"):
        parse_sql("a = " + "9" * 1_000_000, limits=WIDE)


@pytest.mark.parametrize("value", [float("nan"), None, b"bytes", [1], 1j, object()])
def test_what_is_no_literal(value: Any) -> None:
    with pytest.raises(InvalidValue):
        Filter([Predicate("a", Op.EQ, value)])


@pytest.mark.parametrize("name", ["", None, 5, "\ud800", b"a"])
def test_what_is_no_attribute(name: str) -> None:
    with pytest.raises(InvalidValue):
        Filter([Predicate(name, Op.EQ, 1)])


def test_mixed_types() -> None:
    mixed = parse_sql("a IN (1, 'x', TRUE, 2)")
    assert [mixed.matches({"a": v}) for v in (1, 2.0, "x", True, "1", False)] == [
        *(True, True, True, True),
        *(False, False),
    ]
    assert parse_sql("a > 5 AND a < 'x'").is_contradiction
    with pytest.raises(InvalidValue, match="one kind"):
        Filter([Predicate("a", Op.IN, (1, "x"))])
    with pytest.raises(InvalidValue, match="needs a string"):
        Filter([Predicate("a", Op.PREFIX, 5)])


@pytest.mark.parametrize("text", [None, 5, b"a = 1", ["a = 1"]])
def test_what_is_no_text(text: str) -> None:
    with pytest.raises(InvalidValue, match="must be a str"):
        parse(text)


def test_many_values_with_many_patterns_are_refused_before_they_are_tried() -> None:
    values = Predicate("a", Op.IN, tuple(f"v{n}" for n in range(12_000)))
    patterns = [Predicate("a", Op.NOT_CONTAINS, f"x{n}") for n in range(99)]
    with pytest.raises(FilterLimitError, match="leave out the values"):
        Filter([values, *patterns])
    assert len(Filter([values, *patterns[:8]]).predicates) == 1
