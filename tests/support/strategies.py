"""Hypothesis strategies for everything that the language can say, shared by all property tests.

Names and values come from small sets, so that filters and events really meet: five attributes, the
numbers around zero with their halves, ints where floats stop being exact, short strings over 'ab'.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from hypothesis import strategies as st

from runnel.language import Disjunction, Filter, Op, Predicate, Selection, Value, any_of

NAMES = ("a", "b", "c", "d", "e")
SMALL_NUMBERS: tuple[int | float, ...] = (*range(-3, 4), *(n + 0.5 for n in range(-3, 3)))
BIG_NUMBERS: tuple[int | float, ...] = (
    *(2**53 + n for n in (-1, 0, 1, 2)),
    *(2**62 + n for n in (-1, 0, 1)),
    2.0**53,
    2.0**62,
    -(2**63),
    2**63 - 1,
    2.0**63,
    math.inf,
    -math.inf,
)
TRICKY_ALPHABET = "a\0\ud7ff\ue000\U0010ffff%_\\'"
"""Where strings are hard: the first and last characters, the edges of the surrogates, wildcards."""

COMPARISONS = (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.IN, Op.NOT_IN)
STRING_OPS = (
    *(Op.PREFIX, Op.SUFFIX, Op.CONTAINS, Op.LIKE),
    *(Op.NOT_PREFIX, Op.NOT_SUFFIX, Op.NOT_CONTAINS, Op.NOT_LIKE),
)


def numbers() -> st.SearchStrategy[int | float]:
    """Numbers: mostly small ones, sometimes those where floats stop being exact."""
    small = st.sampled_from(SMALL_NUMBERS)
    return st.one_of(small, small, small, st.sampled_from(BIG_NUMBERS))


def strings(alphabet: str = "ab") -> st.SearchStrategy[str]:
    """Strings of up to four characters."""
    return st.text(alphabet, max_size=4)


def values(alphabet: str = "ab") -> st.SearchStrategy[Value]:
    """Values of every kind."""
    return st.one_of(numbers(), strings(alphabet), st.booleans())


def attributes(alphabet: str = "ab") -> st.SearchStrategy[Mapping[str, Value | None]]:
    """Events: each attribute may be missing, None, NaN, or have a value of any kind."""
    nothing = st.sampled_from([None, math.nan])
    present = values(alphabet)
    content = st.one_of(present, present, present, nothing)
    return st.dictionaries(st.sampled_from(NAMES), content, max_size=len(NAMES))


def like_patterns(alphabet: str = "ab") -> st.SearchStrategy[str]:
    """LIKE patterns with every sort of wildcard."""
    plain = [c for c in alphabet if c not in "%_\\"]
    pieces = st.sampled_from([*plain, "%", "_", r"\%", r"\_", r"\\"])
    return st.lists(pieces, max_size=6).map("".join)


def literals(alphabet: str = "ab") -> dict[Op, st.SearchStrategy[Any]]:
    """What suits each operator."""
    kinds = (numbers(), strings(alphabet))
    members = st.one_of(
        *(st.lists(kind, min_size=1, max_size=4) for kind in (*kinds, st.booleans()))
    )
    ordered, any_kind = st.one_of(*kinds), st.one_of(*kinds, st.booleans())
    return (
        dict.fromkeys(COMPARISONS, ordered)
        | dict.fromkeys((Op.EQ, Op.NE), any_kind)
        | dict.fromkeys((Op.IN, Op.NOT_IN), members.map(tuple))
        | dict.fromkeys(STRING_OPS, strings(alphabet))
        | dict.fromkeys((Op.LIKE, Op.NOT_LIKE), like_patterns(alphabet))
        | dict.fromkeys((Op.PRESENT, Op.ABSENT), st.none())
    )


def predicates(
    names: tuple[str, ...] = NAMES,
    alphabet: str = "ab",
    ops: tuple[Op, ...] = tuple(Op),
) -> st.SearchStrategy[Predicate]:
    """Predicates with every operator, and a literal that suits it."""
    # All strategies are made here, once: to make one takes longer than to draw from it.
    some_name, some_op, suiting = st.sampled_from(names), st.sampled_from(ops), literals(alphabet)

    @st.composite
    def predicate(draw: st.DrawFn) -> Predicate:
        name, op = draw(some_name), draw(some_op)
        return Predicate(name, op, draw(suiting[op]))

    return predicate()


def filters(
    names: tuple[str, ...] = NAMES,
    alphabet: str = "ab",
    ops: tuple[Op, ...] = tuple(Op),
    max_size: int = 5,
) -> st.SearchStrategy[Filter]:
    """Conjunctions, from everything to contradictions."""
    return st.lists(predicates(names, alphabet, ops), max_size=max_size).map(Filter)


def selections(
    names: tuple[str, ...] = NAMES, alphabet: str = "ab", max_disjuncts: int = 3
) -> st.SearchStrategy[Selection]:
    """What a subscription may ask for: one filter or a few."""
    several = st.lists(filters(names, alphabet, max_size=3), max_size=max_disjuncts).map(any_of)
    return st.one_of(filters(names, alphabet), several)


def is_disjunction(selection: Selection) -> TypeGuard[Disjunction]:
    """Whether it is a real one."""
    return isinstance(selection, Disjunction)


def disjunctions(alphabet: str = "ab") -> st.SearchStrategy[Disjunction]:
    """Only real disjunctions, of at least two filters."""
    some = filters(alphabet=alphabet, max_size=3).filter(lambda f: bool(f.predicates))
    several = st.lists(some, min_size=3, max_size=4).map(any_of)
    return several.filter(is_disjunction)
