"""Filters: what a subscription or an advertisement asks for.

    Filter        a conjunction of predicates: all must hold
    Disjunction   a few filters under one subscription: one must match
    Selection     either of them

Rules:
- Immutable, hashable, and in canonical form from the start: filters that say the same thing about
  comparisons, sets and prefixes are equal, whichever way they were written.
- `matches` is the definition of what a filter means; every matching engine agrees with it.
- `covers` may say no where the truth is yes, `intersects` yes where the truth is no; never the
  reverse. For single filters made of comparisons both are exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from math import isfinite
from operator import itemgetter
from typing import Any

from runnel.errors import FilterLimitError
from runnel.language.domain import Domain
from runnel.language.predicates import NEGATED_PATTERNS, PATTERNS, PRESENCE, Op, Predicate
from runnel.language.values import INT_MAX, INT_MIN, Attributes

PATTERNS_MAX = 100
"""The most patterns that a filter may have on one attribute: they are compared pair by pair."""

TRIALS_MAX = 100_000
"""The most trials of a pattern on a value of `in` that it may take to bring a filter to its form."""

DISJUNCTS_MAX = 1_000
"""The most filters that a disjunction may have: they are compared pair by pair."""

_PLAIN_NUMBER_OPS = frozenset({Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE})
_PLAIN_STRING_OPS = _PLAIN_NUMBER_OPS | {Op.PREFIX, Op.SUFFIX, Op.CONTAINS}
_UPPER_OPS = frozenset({Op.LT, Op.LE})
_LOWER_OPS = frozenset({Op.GT, Op.GE})
_NUMBER_TYPES = (int, float)
_BY_ATTRIBUTE_AND_OP = itemgetter(0, 1)
_OP_RANK = {op: rank for rank, op in enumerate(Op)}


class Filter:
    """A conjunction of predicates, in canonical form.

    >>> stocks = Filter([Predicate("class", Op.EQ, "STOCK"), Predicate("volume", Op.GT, 1000)])
    >>> stocks.matches({"class": "STOCK", "volume": 5000})
    True
    >>> stocks.covers(Filter([*stocks.predicates, Predicate("volume", Op.LT, 9000)]))
    True
    >>> Filter([Predicate("a", Op.GE, 5), Predicate("a", Op.LE, 5)])
    Filter([a,=,5])
    """

    __slots__ = ("_domains", "_is_contradiction", "_predicates")

    def __init__(self, predicates: Iterable[Predicate] = ()) -> None:
        given = tuple(predicates)
        self._domains: dict[str, Domain] | None = None
        self._is_contradiction = False
        ordered = sorted(given, key=_BY_ATTRIBUTE_AND_OP) if all(map(_is_plain, given)) else None
        if ordered is not None and all(map(_may_follow, ordered, ordered[1:])):
            self._predicates = tuple(ordered)
        else:
            self._normalise([Predicate(*predicate).validate() for predicate in given])

    def _normalise(self, given: list[Predicate]) -> None:
        """Work out the canonical predicates from any others."""
        _check_pattern_count(given)
        self._domains = _domains_of(given)
        self._is_contradiction = any(domain.is_empty for domain in self._domains.values())
        if self._is_contradiction:
            self._domains = {}
        self._predicates = tuple(
            predicate
            for attribute in sorted(self._domains)
            for predicate in self._domains[attribute].predicates(attribute)
        )

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        """The canonical predicates, by attribute and then by operator."""
        return self._predicates

    @property
    def is_contradiction(self) -> bool:
        """Tell whether nothing can ever match."""
        return self._is_contradiction

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes that the filter looks at, sorted."""
        return tuple(dict.fromkeys(predicate.attribute for predicate in self._predicates))

    @property
    def disjuncts(self) -> tuple[Filter, ...]:
        """The filters of which one must match: this one, or none for a contradiction."""
        return () if self._is_contradiction else (self,)

    def matches(self, attributes: Attributes) -> bool:
        """Tell whether an event with these attributes satisfies every predicate."""
        return not self._is_contradiction and all(
            predicate.holds(attributes.get(predicate.attribute)) for predicate in self._predicates
        )

    def covers(self, other: Selection) -> bool:
        """Tell whether this certainly matches every event that the other matches."""
        return all(self._covers_filter(filter_) for filter_ in other.disjuncts)

    def intersects(self, other: Selection) -> bool:
        """Tell whether some event may match both."""
        return any(self._intersects_filter(filter_) for filter_ in other.disjuncts)

    def _covers_filter(self, other: Filter) -> bool:
        if self._is_contradiction:
            return False
        mine, theirs = self._by_attribute(), other._by_attribute()
        if len(mine) > len(theirs):
            return False
        for attribute, domain in mine.items():
            narrower = theirs.get(attribute)
            if narrower is None or not narrower.is_within(domain):
                return False
        return True

    def _intersects_filter(self, other: Filter) -> bool:
        if self._is_contradiction:
            return False
        mine, theirs = self._by_attribute(), other._by_attribute()
        for attribute, domain in mine.items():
            theirs_too = theirs.get(attribute)
            if theirs_too is not None and not domain.may_intersect(theirs_too):
                return False
        return True

    def _by_attribute(self) -> dict[str, Domain]:
        """Return the domain of each attribute, worked out at most once."""
        if self._domains is None:
            self._domains = _domains_of(self._predicates)
        return self._domains

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Filter):
            return NotImplemented
        return (
            self._predicates == other._predicates
            and self._is_contradiction == other._is_contradiction
        )

    def __hash__(self) -> int:
        return hash((self._predicates, self._is_contradiction))

    def __repr__(self) -> str:
        shown = "nothing" if self._is_contradiction else ",".join(map(str, self._predicates))
        return f"Filter({shown or 'everything'})"


class Disjunction:
    """A few filters of which at least one must match; see `any_of`.

    Filters that another one covers are dropped, and the rest are put in one canonical order.

    >>> cheap = Filter([Predicate("close", Op.LT, 5)])
    >>> busy = Filter([Predicate("volume", Op.GT, 1000)])
    >>> Disjunction([cheap, busy]).matches({"close": 18.37, "volume": 5000})
    True
    """

    __slots__ = ("_disjuncts",)

    def __init__(self, filters: Iterable[Filter]) -> None:
        self._disjuncts = _canonical_disjuncts(filters)

    @property
    def disjuncts(self) -> tuple[Filter, ...]:
        """The filters of which one must match."""
        return self._disjuncts

    @property
    def is_contradiction(self) -> bool:
        """Tell whether nothing can ever match."""
        return not self._disjuncts

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes that any of the filters looks at, sorted."""
        return tuple(sorted({name for filter_ in self._disjuncts for name in filter_.attributes}))

    def matches(self, attributes: Attributes) -> bool:
        """Tell whether an event with these attributes satisfies one of the filters."""
        return any(filter_.matches(attributes) for filter_ in self._disjuncts)

    def covers(self, other: Selection) -> bool:
        """Tell whether each of the other's filters is certainly covered by one of these."""
        return all(
            any(mine.covers(theirs) for mine in self._disjuncts) for theirs in other.disjuncts
        )

    def intersects(self, other: Selection) -> bool:
        """Tell whether some event may match both."""
        return any(mine.intersects(other) for mine in self._disjuncts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Disjunction):
            return NotImplemented
        return self._disjuncts == other._disjuncts

    def __hash__(self) -> int:
        return hash(self._disjuncts)

    def __repr__(self) -> str:
        return f"Disjunction({', '.join(map(repr, self._disjuncts))})"


Selection = Filter | Disjunction
"""What a subscription asks for."""


def any_of(filters: Iterable[Filter]) -> Selection:
    """Return what matches when any of the filters does: a plain filter where one is enough.

    >>> any_of([Filter([Predicate("a", Op.GT, 5)]), Filter([Predicate("a", Op.GT, 3)])])
    Filter([a,>,3])
    """
    disjunction = Disjunction(filters)
    match disjunction.disjuncts:
        case ():
            return NOTHING
        case (only,):
            return only
    return disjunction


def _is_plain(predicate: Predicate) -> bool:
    """Tell whether a predicate is valid and, if alone on its attribute, already canonical.

    This keeps the common case quick. Everything unusual (infinities, empty strings, anything but
    ASCII, ...) is left to the normalisation, which handles all cases.
    """
    if type(predicate) is not Predicate:
        return False
    attribute, op, value = predicate
    if type(op) is not Op or type(attribute) is not str or not attribute.isascii():
        return False
    if not attribute:
        return False
    if type(value) is str:
        return op in _PLAIN_STRING_OPS and value.isascii() and value != "" and "\0" not in value
    if type(value) is int:
        return op in _PLAIN_NUMBER_OPS and INT_MIN <= value <= INT_MAX
    if type(value) is float:
        return op in _PLAIN_NUMBER_OPS and isfinite(value)
    return op is Op.EQ if type(value) is bool else value is None and op in PRESENCE


def _may_follow(one: Predicate, other: Predicate) -> bool:
    """Tell whether two plain predicates, in order, are canonical side by side.

    They are if they are about different attributes, or are the two ends of an interval of numbers.
    """
    return one.attribute != other.attribute or (
        one.op in _UPPER_OPS
        and other.op in _LOWER_OPS
        and type(one.value) in _NUMBER_TYPES
        and type(other.value) in _NUMBER_TYPES
        and other.value < one.value  # type: ignore[operator]
    )


def _domains_of(predicates: Iterable[Predicate]) -> dict[str, Domain]:
    groups: dict[str, list[Predicate]] = {}
    for predicate in predicates:
        groups.setdefault(predicate.attribute, []).append(predicate)
    return {attribute: Domain(group) for attribute, group in groups.items()}


def _check_pattern_count(predicates: list[Predicate]) -> None:
    """Bound the work of normalisation: every pattern is tried on every member of an `in`."""
    patterns: dict[str, int] = {}
    members: dict[str, int] = {}
    for attribute, op, value in predicates:
        if op in PATTERNS or op in NEGATED_PATTERNS:
            patterns[attribute] = patterns.get(attribute, 0) + 1
        elif isinstance(value, tuple):
            members[attribute] = members.get(attribute, 0) + len(value)
    for attribute, count in patterns.items():
        if count > PATTERNS_MAX:
            raise FilterLimitError(
                f"the filter has {count} patterns on the attribute {attribute!r}, the limit is "
                f"{PATTERNS_MAX}: split it into several subscriptions"
            )
        if count * members.get(attribute, 0) > TRIALS_MAX:
            raise FilterLimitError(
                f"the filter has {count} patterns and {members[attribute]:,} values on the attribute "
                f"{attribute!r}: leave out the values that the patterns exclude"
            )


def _canonical_disjuncts(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    """Drop contradictions, repetitions and what another filter covers; sort the rest."""
    distinct = sorted({f for f in filters if not f.is_contradiction}, key=_sort_key)
    if len(distinct) > DISJUNCTS_MAX:
        raise FilterLimitError(
            f"the disjunction has {len(distinct)} filters, the limit is {DISJUNCTS_MAX}: "
            "split it into several subscriptions"
        )
    rivals: dict[Predicate | None, list[Filter]] = {}
    for filter_ in distinct:
        rivals.setdefault(_anchor(filter_), []).append(filter_)
    kept = dict.fromkeys(distinct)
    for candidate in distinct:
        anchors = [None, *(p for p in candidate.predicates if p.op is Op.EQ)]
        for rival in chain.from_iterable(rivals.get(anchor, ()) for anchor in anchors):
            # Of two that cover each other one must stay, so a rival that is gone does not count.
            if rival is not candidate and rival._covers_filter(candidate) and rival in kept:
                del kept[candidate]
                break
    return tuple(kept)


def _anchor(filter_: Filter) -> Predicate | None:
    """Return an equality of the filter: a filter that it covers has the same, so only those are compared."""
    return next((p for p in filter_.predicates if p.op is Op.EQ), None)


def _sort_key(filter_: Filter) -> tuple[tuple[Any, ...], ...]:
    """Order filters by their predicates, without ever comparing values of different kinds."""
    return tuple(
        (attribute, _OP_RANK[op], predicate.kind.value, value if value is not None else 0)
        for predicate in filter_.predicates
        for attribute, op, value in (predicate,)
    )


EVERYTHING = Filter()
"""The filter that matches every event."""

NOTHING = Filter([Predicate("x", Op.PRESENT), Predicate("x", Op.ABSENT)])
"""The contradiction; all contradictions are equal to it."""
