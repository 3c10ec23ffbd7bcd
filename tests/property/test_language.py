"""What must hold for every filter: normalisation keeps the meaning, covers and intersects are safe
(and exact for comparisons), and both languages read back what they print."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations_with_replacement, pairwise, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.language import (
    NOTHING,
    Filter,
    Op,
    Predicate,
    Value,
    any_of,
    like,
    parse,
    parse_padres,
    parse_publication,
    parse_sql,
    print_publication,
    to_padres,
    to_sql,
)
from support.effort import examples
from support.strategies import (
    COMPARISONS,
    NAMES,
    STRING_OPS,
    TRICKY_ALPHABET,
    attributes,
    disjunctions,
    filters,
    like_patterns,
    numbers,
    predicates,
    selections,
    strings,
    values,
)

thorough = examples(2_000)

ONE_NAME = ("a",)
ORDER_OPS = (*COMPARISONS, Op.PREFIX, Op.NOT_PREFIX, Op.PRESENT, Op.ABSENT)


def holds_each(given_: list[Predicate], event: dict[str, Value | None]) -> bool:
    """The meaning of a conjunction before any normalisation."""
    return all(p.holds(event.get(p.attribute)) for p in given_)


# Normalisation


@thorough
@given(st.lists(predicates(), max_size=6), attributes())
def test_normalisation_preserves_meaning(given_: Any, event: Any) -> None:
    assert Filter(given_).matches(event) == holds_each(given_, event)


@thorough
@given(
    st.lists(predicates(ONE_NAME, TRICKY_ALPHABET, (*ORDER_OPS, *STRING_OPS)), max_size=5),
    st.text(TRICKY_ALPHABET, max_size=5),
)
def test_normalisation_preserves_meaning_for_tricky_strings(given_: Any, text: str) -> None:
    assert Filter(given_).matches({"a": text}) == holds_each(given_, {"a": text})


@thorough
@given(st.lists(predicates(ONE_NAME), max_size=6), st.randoms(use_true_random=False))
def test_normalisation_is_canonical_and_stable(given_: Any, random: Any) -> None:
    one = Filter(given_)
    shuffled = given_ * 2
    random.shuffle(shuffled)
    assert Filter(shuffled) == one
    assert hash(Filter(shuffled)) == hash(one)
    assert one.is_contradiction or Filter(one.predicates) == one


@thorough
@given(st.lists(filters(max_size=3), max_size=5), attributes())
def test_any_of_preserves_meaning(several: Any, event: Any) -> None:
    assert any_of(several).matches(event) == any(f.matches(event) for f in several)


# Covers and intersects: safe for everything


@thorough
@given(selections(NAMES[:2]), selections(NAMES[:2]), st.lists(attributes(), min_size=1, max_size=8))
def test_covers_and_intersects_are_safe(one: Any, other: Any, events: Any) -> None:
    for event in events:
        if one.covers(other):
            assert one.matches(event) or not other.matches(event)
        if not one.intersects(other):
            assert not (one.matches(event) and other.matches(event))
    assert one.intersects(other) == other.intersects(one)


@thorough
@given(
    filters(ONE_NAME, ops=(*STRING_OPS, Op.EQ, Op.GE, Op.LT, Op.NOT_IN), max_size=4),
    filters(ONE_NAME, ops=(*STRING_OPS, Op.EQ, Op.GE, Op.LT, Op.NOT_IN), max_size=4),
)
def test_covers_and_intersects_are_safe_for_every_short_string(one: Any, other: Any) -> None:
    for text in SHORT_STRINGS:
        mine, theirs = one.matches({"a": text}), other.matches({"a": text})
        assert not (theirs and not mine and one.covers(other))
        assert not (theirs and mine and not one.intersects(other))


@thorough
@given(selections(), filters())
def test_covers_and_intersects_agree_with_conjunction(one: Any, other: Any) -> None:
    assert one.covers(one)
    for part in one.disjuncts:
        assert not part.intersects(NOTHING)
        if not other.is_contradiction:
            both = Filter([*part.predicates, *other.predicates])
            assert part.covers(both)
            assert part.intersects(other) == (not both.is_contradiction)


# Covers and intersects: exact for comparisons, by enumeration of a domain that has a witness
# for every set of values that comparisons can tell apart


def string_witnesses(literals: list[str]) -> set[str]:
    """Each literal, the strings next to it, and strings just below and far above each cone."""
    found = {"", "\0", "\U0010ffff" * 9}
    for text in literals:
        found |= {text, text + "\0", text + "\0\0", text + "\0" * 5, text + "a", text + "zz"}
        found |= {text + "\U0010ffff" * 9, text + "\U0010ffff" * 9 + "\0"}
        if text.endswith("\0"):
            found.add(text[:-1])
        elif text:
            last = "\ud7ff" if text[-1] == "\ue000" else chr(ord(text[-1]) - 1)
            below = text[:-1] + last
            found |= {below, below + "\U0010ffff" * 9, below + "\U0010ffff" * 9 + "a"}
    return found


def number_witnesses(literals: list[int | float]) -> set[int | float]:
    """Each literal, and a number between any two neighbours."""
    ordered = sorted({*literals, -1000, 1000})
    between = {(x + y) / 2 for x, y in pairwise(ordered)}
    return {*ordered, *between, -math.inf, math.inf}


def literals_of(*several: Filter) -> Iterator[Value]:
    for predicate in (p for f in several for p in f.predicates):
        if isinstance(predicate.value, tuple):
            yield from predicate.value
        elif predicate.value is not None:
            yield predicate.value


def witnesses(*several: Filter) -> list[Value | None]:
    found = list(literals_of(*several))
    strings = [v for v in found if isinstance(v, str)]
    numbers = [v for v in found if isinstance(v, int | float) and not isinstance(v, bool)]
    return [None, False, True, *number_witnesses(numbers), *string_witnesses(strings)]


SHORT_STRINGS = ["".join(c) for n in range(7) for c in product("ab", repeat=n)]
ANY_COMPARISON = st.sampled_from([op for op in ORDER_OPS if op not in (Op.PREFIX, Op.NOT_PREFIX)])
ANY_ORDER_OP = st.sampled_from(ORDER_OPS)


def comparisons(
    ops: st.SearchStrategy[Op], literals: st.SearchStrategy[Value]
) -> st.SearchStrategy[Filter]:
    """Conjunctions of comparisons with literals of one kind, few enough to touch each other."""

    def predicate(op: Op) -> st.SearchStrategy[Predicate]:
        if op in (Op.PRESENT, Op.ABSENT):
            return st.just(Predicate("a", op))
        many = st.lists(literals, min_size=1, max_size=3).map(tuple)
        return (many if op in (Op.IN, Op.NOT_IN) else literals).map(
            lambda value: Predicate("a", op, value)
        )

    return st.lists(ops.flatmap(predicate), max_size=4).map(Filter)


# The numbers leave room for another one in between; the strings are short, so that they meet.
number_filters = comparisons(ANY_COMPARISON, st.sampled_from([0, 0.5, 1, 2]))
string_filters = comparisons(ANY_ORDER_OP, st.text("ab", max_size=2))
tricky_filters = comparisons(ANY_ORDER_OP, st.text("a\0\ue000\U0010ffff", max_size=2))
mixed_filters = st.one_of(number_filters, string_filters, filters(ONE_NAME, ops=(Op.EQ, Op.NE)))


def check_exactness(one: Filter, other: Filter) -> None:
    values = witnesses(one, other)
    mine = [one.matches({"a": v}) for v in values]
    theirs = [other.matches({"a": v}) for v in values]
    assert one.covers(other) == all(m for m, t in zip(mine, theirs, strict=True) if t)
    assert one.intersects(other) == any(m and t for m, t in zip(mine, theirs, strict=True))
    assert one.is_contradiction == (not any(mine))


@pytest.mark.parametrize(
    "literals",
    [(0, 1), (-math.inf, 0, math.inf), ("", "a", "b"), ("a", "a\0", "a\U0010ffff")],
    ids=ascii,
)
def test_covers_and_intersects_are_exact_for_all_pairs_of_small_filters(literals: Any) -> None:
    """Not a sample: every filter of up to two predicates against every other."""
    ops = [Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE]
    ops += [Op.PREFIX, Op.NOT_PREFIX] if isinstance(literals[0], str) else []
    single = [Predicate("a", op, literal) for op, literal in product(ops, literals)]
    small = [Filter(), *(Filter(pair) for pair in combinations_with_replacement(single, 2))]
    values = witnesses(*small)
    matching = [frozenset(i for i, v in enumerate(values) if f.matches({"a": v})) for f in small]
    for (one, mine), (other, theirs) in product(zip(small, matching, strict=True), repeat=2):
        assert one.covers(other) == (mine >= theirs), (one, other)
        assert one.intersects(other) == (not mine.isdisjoint(theirs)), (one, other)
        assert (one == other) == (mine == theirs), (one, other)


@thorough
@given(number_filters, number_filters)
def test_covers_and_intersects_are_exact_for_numbers(one: Any, other: Any) -> None:
    check_exactness(one, other)


@thorough
@given(string_filters, string_filters)
def test_covers_and_intersects_are_exact_for_strings(one: Any, other: Any) -> None:
    check_exactness(one, other)


@thorough
@given(tricky_filters, tricky_filters)
def test_covers_and_intersects_are_exact_for_tricky_strings(one: Any, other: Any) -> None:
    check_exactness(one, other)


@thorough
@given(mixed_filters, mixed_filters)
def test_covers_and_intersects_are_exact_across_kinds(one: Any, other: Any) -> None:
    check_exactness(one, other)


@thorough
@given(st.one_of(*(st.tuples(f, f, f) for f in (number_filters, string_filters))))
def test_equal_sets_are_equal_filters(three: Any) -> None:
    """Filters that cover each other are the same filter, as far as comparisons go."""
    one, other, third = three
    if one.covers(other) and other.covers(one):
        assert one == other
    if one.covers(other) and other.covers(third):
        assert one.covers(third)


@thorough
@given(selections())
def test_disjunctions_are_canonical(selection: Any) -> None:
    again = any_of(reversed(selection.disjuncts))
    assert again == selection
    assert hash(again) == hash(selection)


# Both languages read back what they print

ODD_NAMES = ("a", "and", "two words", "openClose%Diff", 'q"u', "[b]", "ü.x", "‘c’")


@thorough
@given(selections(ODD_NAMES, TRICKY_ALPHABET))
def test_sql_reads_back_what_it_prints(selection: Any) -> None:
    assert parse_sql(to_sql(selection)) == selection


@thorough
@given(selections(ODD_NAMES, TRICKY_ALPHABET))
def test_padres_reads_back_what_it_prints(selection: Any) -> None:
    assert parse_padres(to_padres(selection)) == selection


@thorough
@given(disjunctions())
def test_both_languages_read_back_disjunctions(selection: Any) -> None:
    assert parse(to_sql(selection)) == selection
    assert parse(to_padres(selection)) == selection


@thorough
@given(st.dictionaries(st.sampled_from(ODD_NAMES), st.one_of(values(TRICKY_ALPHABET), st.none())))
def test_publications_are_read_back(publication: Any) -> None:
    present = {name: value for name, value in publication.items() if value is not None}
    found = parse_publication(print_publication(publication))
    assert found == present
    assert [type(v) for v in found.values()] == [type(v) for v in present.values()]


# SQL's three-valued logic, against a tiny evaluator that shares nothing with the compiler


def kleene_and(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def kleene_not(one: bool | None) -> bool | None:
    return None if one is None else not one


def kleene_or(one: bool | None, other: bool | None) -> bool | None:
    return kleene_not(kleene_and(kleene_not(one), kleene_not(other)))


def same_kind(value: Value | None, literal: Value) -> bool:
    def kind(v: Value | None) -> str:
        if v is None or v != v:
            return "absent"
        return {"bool": "bool", "str": "str"}.get(type(v).__name__, "number")

    return kind(value) == kind(literal)


COMPARE = {
    "=": lambda v, w: v == w,
    "<>": lambda v, w: v != w,
    "<": lambda v, w: v < w,
    "<=": lambda v, w: v <= w,
    ">": lambda v, w: v > w,
    ">=": lambda v, w: v >= w,
}


def evaluate(tree: tuple[Any, ...], event: dict[str, Value | None]) -> bool | None:
    """True, False, or None for unknown."""
    match tree:
        case ("not", one):
            return kleene_not(evaluate(one, event))
        case ("and", one, other):
            return kleene_and(evaluate(one, event), evaluate(other, event))
        case ("or", one, other):
            return kleene_or(evaluate(one, event), evaluate(other, event))
        case ("constant", value):
            return value  # type: ignore[no-any-return]
        case ("null", name):
            value = event.get(name)
            return value is None or value != value
        case ("in", name, members):
            result: bool | None = False
            for member in members:
                result = kleene_or(result, evaluate(("compare", name, "=", member), event))
            return result
        case ("between", name, least, most):
            return kleene_and(
                evaluate(("compare", name, ">=", least), event),
                evaluate(("compare", name, "<=", most), event),
            )
        case ("compare", name, sign, literal):
            value = event.get(name)
            return COMPARE[sign](value, literal) if same_kind(value, literal) else None
        case ("like", name, pattern):
            value = event.get(name)
            return fits_by_definition(value, pattern) if isinstance(value, str) else None
    raise AssertionError(tree)


def fits_by_definition(text: str, pattern: str) -> bool:
    """LIKE as SQL defines it, by trying everything: slow, and plainly right."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(fits_by_definition(text[i:], pattern[1:]) for i in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and fits_by_definition(text[1:], pattern[1:])


def write(tree: tuple[Any, ...]) -> str:
    """The tree as SQL."""
    match tree:
        case ("not", one):
            return f"NOT ({write(one)})"
        case ("and" | "or" as word, one, other):
            return f"({write(one)}) {word} ({write(other)})"
        case ("constant", value):
            return str(value)
        case ("null", name):
            return f"{name} IS NULL"
        case ("in", name, members):
            return f"{name} IN ({', '.join(map(write_literal, members))})"
        case ("between", name, least, most):
            return f"{name} BETWEEN {write_literal(least)} AND {write_literal(most)}"
        case ("compare", name, sign, literal):
            return f"{name} {sign} {write_literal(literal)}"
        case ("like", name, pattern):
            return f"{name} LIKE {write_literal(pattern)}"
    raise AssertionError(tree)


def write_literal(value: Value) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


names = st.sampled_from(NAMES[:3])
finite_numbers = numbers().filter(math.isfinite)
literals = st.one_of(finite_numbers, strings())
leaves = st.one_of(
    st.tuples(st.just("constant"), st.booleans()),
    st.tuples(st.just("null"), names),
    st.tuples(st.just("in"), names, st.lists(st.one_of(literals, st.booleans()), min_size=1)),
    st.tuples(st.just("between"), names, literals, literals),
    st.tuples(st.just("compare"), names, st.sampled_from(list(COMPARE)), literals),
    st.tuples(st.just("compare"), names, st.sampled_from(["=", "<>"]), st.booleans()),
    st.tuples(st.just("like"), names, st.text("ab%_", max_size=5)),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.just("and"), inner, inner),
        st.tuples(st.just("or"), inner, inner),
    ),
    max_leaves=6,
)


@thorough
@given(trees, st.lists(attributes(), min_size=1, max_size=10))
def test_sql_has_three_valued_logic(tree: Any, events: Any) -> None:
    selection, opposite = parse_sql(write(tree)), parse_sql(f"NOT ({write(tree)})")
    for event in events:
        truth = evaluate(tree, event)
        assert selection.matches(event) == (truth is True)
        assert opposite.matches(event) == (truth is False)


@thorough
@given(st.text("ab", max_size=9), st.text("ab%_", max_size=8))
def test_like_means_what_sql_says(text: str, pattern: str) -> None:
    assert like(pattern).matches(text) == fits_by_definition(text, pattern)


@thorough
@given(like_patterns(), like_patterns(), strings())
def test_a_pattern_only_implies_what_follows(one: Any, other: Any, text: str) -> None:
    if like(one).implies(like(other)) and like(one).matches(text):
        assert like(other).matches(text)
    assert like(like(one).text) == like(one)
