"""AND, OR and NOT, multiplied out: from nested conditions to a bounded disjunctive normal form.

SQL's logic has three values (Kleene's): a condition on an event is true, false or unknown. So a
`Condition` is a pair: in which cases it is true (`yes`), and in which it is false (`no`); in all
others it is unknown. NOT swaps the two, and De Morgan's laws do the rest.

Rules:
- A side is a tuple of terms, a term a tuple of predicates that must all hold. Sides are not
  normalised on the way; that is for `Filter` to do once, at the end.
- A side that grows past TERMS_MAX or WEIGHT_MAX becomes None, "too large". That is an error only if
  it is the answer: the `no` of a long AND chain is large, and nobody asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from runnel.errors import FilterLimitError
from runnel.language.filters import DISJUNCTS_MAX, Filter, Selection
from runnel.language.limits import Limits
from runnel.language.predicates import Predicate

TERMS_MAX = DISJUNCTS_MAX
WEIGHT_MAX = 10_000
"""Bounds the work of normalising: a predicate weighs 1, more if it has many members or characters."""

_CHARACTERS_PER_WEIGHT = 16

Term = tuple[Predicate, ...]


class Side(NamedTuple):
    """The cases in which a condition is true, or those in which it is false."""

    terms: tuple[Term, ...]
    weight: int = 0


ALWAYS = Side(((),))
NEVER = Side(())


class Condition(NamedTuple):
    """An expression: the cases in which it is true, and those in which it is false. None: too large."""

    yes: Side | None
    no: Side | None


TRUE = Condition(ALWAYS, NEVER)
FALSE = Condition(NEVER, ALWAYS)


def condition(predicate: Predicate) -> Condition:
    """Return a single predicate as a condition."""
    checked = predicate.validate()
    members = len(checked.value) if isinstance(checked.value, tuple) else 1
    weight = members + checked.characters // _CHARACTERS_PER_WEIGHT
    return Condition(Side(((checked,),), weight), Side(((checked.negation,),), weight))


def negation(one: Condition) -> Condition:
    """NOT: what is unknown stays unknown."""
    return Condition(one.no, one.yes)


def conjunction(one: Condition, other: Condition) -> Condition:
    """AND: true if both are true, false if either is false."""
    return Condition(_product(one.yes, other.yes), _sum(one.no, other.no))


def disjunction(one: Condition, other: Condition) -> Condition:
    """OR: true if either is true, false if both are false."""
    return Condition(_sum(one.yes, other.yes), _product(one.no, other.no))


def either(conditions: Iterable[Condition]) -> Condition:
    """OR over any number of conditions."""
    result = FALSE
    for one in conditions:
        result = disjunction(result, one)
    return result


def to_selection(one: Condition, limits: Limits) -> Selection:
    """Return the filters of which one must match for the condition to be true.

    >>> from runnel.language import Op
    >>> to_selection(negation(condition(Predicate("a", Op.GT, 5))), Limits())
    Filter([a,<=,5])
    """
    if one.yes is None:
        raise FilterLimitError(
            f"with OR and NOT multiplied out the filter has more than {TERMS_MAX} alternatives (or "
            "they are too large): use IN for a list of values, or split it into several subscriptions"
        )
    return limits.select(map(Filter, one.yes.terms))


def _sum(one: Side | None, other: Side | None) -> Side | None:
    if one is ALWAYS or other is NEVER:
        return one
    if other is ALWAYS or one is NEVER:
        return other
    if one is None or other is None:
        return None
    weight = one.weight + other.weight
    if _is_too_large(len(one.terms) + len(other.terms), weight):
        return None
    return Side(one.terms + other.terms, weight)


def _product(one: Side | None, other: Side | None) -> Side | None:
    if one is NEVER or other is ALWAYS:
        return one
    if other is NEVER or one is ALWAYS:
        return other
    if one is None or other is None:
        return None
    count = len(one.terms) * len(other.terms)
    weight = one.weight * len(other.terms) + other.weight * len(one.terms)
    if _is_too_large(count, weight):
        return None
    return Side(tuple(mine + theirs for mine in one.terms for theirs in other.terms), weight)


def _is_too_large(terms: int, weight: int) -> bool:
    # A single term is no larger than the text that it came from, which has its own limit.
    return terms > TERMS_MAX or (terms > 1 and weight > WEIGHT_MAX)
