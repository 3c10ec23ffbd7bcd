"""The set of values that one attribute may take: the reasoning behind `Filter`.

A `Domain` is what the predicates on one attribute leave over, in a form where empty sets, inclusion
and the shortest list of predicates can be read off. Its parts:

    kind       what kind of value; ABSENT: the attribute must be missing; None: any value at all
    members    the values, where they are finitely many; then nothing else is set
    bounds     an interval, as two *cuts*; `prefix p` is the interval from p up to its successor
    excluded   single values inside the interval that are left out
    patterns   what the strings must look like (suffix, contains, like)
    negated    what they must not look like (also: not-prefix)

Rules:
- Comparisons and prefixes are reasoned about exactly. Numbers count as dense: between 1 and 2 there
  is always another. Strings are ordered by code point, and the next string after s is s + '\\0'.
- Patterns are reasoned about safely: a domain may be thought possible when it is empty, never the
  reverse.
- A domain is in its final form once made; it is never changed.

A cut is a place between values: BOTTOM, just before v `(1, v, 0)`, just after v `(1, v, 1)`, or TOP.
Cuts compare as tuples; an interval holds what lies between its lower and its upper cut.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from runnel.language import patterns
from runnel.language.patterns import Pattern
from runnel.language.predicates import NEGATED_PATTERNS, ORDERINGS, PATTERNS, Op, Predicate
from runnel.language.values import Kind, Value, kind_of

Cut = tuple[Any, ...]
Interval = tuple[Cut, Cut]

BOTTOM: Cut = (0,)
TOP: Cut = (2,)

_FEW = 16
"""Strings such as those from 'a' to 'a\\0\\0' are so few that they are listed one by one."""

_LAST_CHARACTER = "\U0010ffff"
_AROUND_SURROGATES = {"\ud7ff": "\ue000"}

_MAKE_PATTERN: dict[Op, Callable[[str], Pattern]] = {
    Op.PREFIX: patterns.prefix_pattern,
    Op.SUFFIX: patterns.suffix_pattern,
    Op.CONTAINS: patterns.substring_pattern,
    Op.LIKE: patterns.like,
}


def before(value: Value) -> Cut:
    """Return the cut just before a value: where `>= value` starts and `< value` ends."""
    return BOTTOM if value == "" or value == -math.inf else (1, value, 0)


def after(value: Value) -> Cut:
    """Return the cut just after a value: where `> value` starts and `<= value` ends."""
    if isinstance(value, str):
        return (1, value + "\0", 0)
    return TOP if value == math.inf else (1, value, 1)


def cone(prefix: str) -> Interval:
    """Return the interval of all strings that start with the prefix."""
    return before(prefix), _end_of_cone(prefix)


def _end_of_cone(prefix: str) -> Cut:
    """Return the cut before the first string that is beyond all those with the prefix."""
    stem = prefix.rstrip(_LAST_CHARACTER)
    if not stem:
        return TOP
    last = stem[-1]
    return before(stem[:-1] + _AROUND_SURROGATES.get(last, chr(ord(last) + 1)))


class Domain:
    """The values that satisfy some predicates on one attribute; see the top of this file."""

    __slots__ = (
        "excluded",
        "is_empty",
        "kind",
        "lower",
        "members",
        "negated",
        "patterns",
        "upper",
    )

    def __init__(self, predicates: Iterable[Predicate]) -> None:
        self.kind: Kind | None = None
        self.lower = BOTTOM
        self.upper = TOP
        self.members: tuple[Value, ...] | None = None
        self.excluded: tuple[Value, ...] = ()
        self.patterns: tuple[Pattern, ...] = ()
        self.negated: tuple[Pattern, ...] = ()
        self.is_empty = False
        given = tuple(predicates)
        if self._set_kind(given):
            self._collect(given)
            self._normalise()

    def accepts(self, value: Value | None) -> bool:
        """Tell whether the attribute may have this value."""
        kind = kind_of(value)
        if self.is_empty:
            return False
        if self.kind is None:
            return kind is not Kind.ABSENT
        if kind is not self.kind:
            return False
        if value is None or kind is Kind.ABSENT:
            return True
        if self.members is not None:
            return _is_among(value, self.members)
        return not _is_among(value, self.excluded) and self._fits(value)

    def is_within(self, other: Domain) -> bool:
        """Tell whether every value here is certainly accepted by the other domain."""
        if self.is_empty:
            return True
        if other.is_empty:
            return False
        if other.kind is None:
            return self.kind is not Kind.ABSENT
        if self.kind is not other.kind:
            return False
        if self.members is not None:
            return all(other.accepts(member) for member in self.members)
        if other.members is not None:
            return False
        return (
            other.lower <= self.lower
            and self.upper <= other.upper
            and not any(self.accepts(value) for value in other.excluded)
            and all(self._is_void(negated=(p,)) for p in other.patterns)
            and all(self._is_void(patterns=(p,)) for p in other.negated)
        )

    def may_intersect(self, other: Domain) -> bool:
        """Tell whether some value may be accepted by both: `not self.intersection(other).is_empty`, but quick."""
        if self.is_empty or other.is_empty:
            return False
        if self.kind is None or other.kind is None:
            return (other.kind if self.kind is None else self.kind) is not Kind.ABSENT
        if self.kind is not other.kind:
            return False
        if self.members is not None:
            return any(other.accepts(member) for member in self.members)
        if other.members is not None:
            return any(self.accepts(member) for member in other.members)
        if self.kind is Kind.NUMBER and not self.excluded and not other.excluded:
            return max(self.lower, other.lower) < min(self.upper, other.upper)
        return not self.intersection(other).is_empty

    def intersection(self, other: Domain) -> Domain:
        """Return the values that are in both domains."""
        return Domain(chain(self.predicates(""), other.predicates("")))

    def predicates(self, attribute: str) -> Iterator[Predicate]:
        """Yield the shortest list of predicates that says the same, in the order of `Op`."""
        found = sorted(self._conditions(), key=lambda condition: _OP_RANK[condition[0]])
        return (Predicate(attribute, op, value) for op, value in found)

    # From predicates to parts

    def _set_kind(self, given: tuple[Predicate, ...]) -> bool:
        """Set the kind; return whether there is more to know than that."""
        kinds = {predicate.kind for predicate in given if predicate.op is not Op.PRESENT}
        self.is_empty = len(kinds) > 1 or (
            kinds == {Kind.ABSENT} and any(p.op is Op.PRESENT for p in given)
        )
        self.kind = next(iter(kinds), None)
        return not self.is_empty and self.kind not in (None, Kind.ABSENT)

    def _collect(self, given: tuple[Predicate, ...]) -> None:
        """Sort the predicates into the parts, without drawing conclusions yet."""
        choices: list[set[Value]] = [{False, True}] if self.kind is Kind.BOOL else []
        excluded: dict[Value, None] = {}
        wanted: dict[Pattern, None] = {}
        unwanted: dict[Pattern, None] = {}
        for _, op, value in given:
            values: Any = value if isinstance(value, tuple) else (value,)
            if op is Op.EQ or op is Op.IN:
                choices.append(set(values))
            elif op is Op.NE or op is Op.NOT_IN:
                excluded.update(dict.fromkeys(values))
            elif op in ORDERINGS:
                self._bound(op, values[0])
            elif op in PATTERNS:
                wanted[_MAKE_PATTERN[op](values[0])] = None
            elif op in NEGATED_PATTERNS:
                unwanted[_MAKE_PATTERN[op.negation](values[0])] = None
        self.excluded = tuple(sorted(excluded))
        self.patterns, self.negated = tuple(wanted), tuple(unwanted)
        if choices:
            self.members = tuple(sorted(choices[0].intersection(*choices[1:])))

    def _bound(self, op: Op, value: Value) -> None:
        match op:
            case Op.LT:
                self.upper = min(self.upper, before(value))
            case Op.LE:
                self.upper = min(self.upper, after(value))
            case Op.GT:
                self.lower = max(self.lower, after(value))
            case _:
                self.lower = max(self.lower, before(value))

    # Conclusions

    def _normalise(self) -> None:
        """Bring the parts into their final form."""
        if self.kind is Kind.STRING:
            self._normalise_words()
        if self.members is None:
            self._normalise_bounds()
        if self.members is not None:
            self._normalise_members(self.members)
            return
        if self.patterns or self.negated:
            self.is_empty = self._is_void()
            self._drop_redundant_patterns()
        self.excluded = tuple(v for v in self.excluded if self._fits(v))

    def _normalise_words(self) -> None:
        """Turn patterns without a wildcard into values, and prefixes into bounds."""
        rest = []
        for pattern in self.patterns:
            self.lower, self.upper = _intersection((self.lower, self.upper), cone(pattern.head))
            if pattern.word is not None:
                keep = self.members is None or pattern.word in self.members
                self.members = (pattern.word,) if keep else ()
            elif not pattern.is_cone:
                rest.append(pattern)
        words = [p.word for p in self.negated if p.word is not None]
        if words:
            self.negated = tuple(p for p in self.negated if p.word is None)
            self.excluded = tuple(sorted({*self.excluded, *words}))
        self.patterns = tuple(rest)

    def _normalise_bounds(self) -> None:
        """Let the bounds swallow the holes at their ends; list the values if they are few."""
        self.lower, self.upper = _trim((self.lower, self.upper), self._holes(self.negated))
        self.members = _list_values_between(self.lower, self.upper, self.kind)

    def _normalise_members(self, members: tuple[Value, ...]) -> None:
        """Keep the members that pass everything else, and forget everything else."""
        excluded = set(self.excluded)
        self.members = tuple(v for v in members if v not in excluded and self._fits(v))
        self.is_empty = not self.members
        self.lower, self.upper = BOTTOM, TOP
        self.excluded, self.patterns, self.negated = (), (), ()

    def _drop_redundant_patterns(self) -> None:
        """Drop patterns that another part implies, and negated ones that nothing here fits."""
        for pattern in self.patterns:
            others = tuple(p for p in self.patterns if p is not pattern)
            if _is_implied(pattern, (*others, _shape_of_interval(self.lower, self.upper))):
                self.patterns = others
        for pattern in self.negated:
            others = tuple(p for p in self.negated if p is not pattern)
            if self._is_void(patterns=(pattern,), instead=others):
                self.negated = others

    def _is_void(
        self,
        patterns: tuple[Pattern, ...] = (),
        negated: tuple[Pattern, ...] = (),
        instead: tuple[Pattern, ...] | None = None,
    ) -> bool:
        """Tell whether certainly nothing is left when these patterns are asked for as well.

        `instead` takes the place of the negated patterns of this domain.
        """
        unwanted = (self.negated if instead is None else instead) + negated
        wanted = self.patterns + patterns
        interval = self.lower, self.upper
        for pattern in patterns:
            interval = _intersection(interval, cone(pattern.head))
        lower, upper = _trim(interval, self._holes(unwanted))
        if lower >= upper or not _can_all_end(wanted):
            return True
        shapes = (*wanted, _shape_of_interval(lower, upper)) if unwanted else ()
        return any(_is_implied(pattern, shapes) for pattern in unwanted)

    def _holes(self, negated: tuple[Pattern, ...]) -> list[Interval]:
        """Return the intervals that are left out: single values, and the cones of not-prefix."""
        holes = [(before(value), after(value)) for value in self.excluded]
        holes += [cone(pattern.head) for pattern in negated if pattern.is_cone]
        return holes

    def _fits(self, value: Value) -> bool:
        """Tell whether a value of the right kind passes the bounds and the patterns."""
        if not (self.lower <= before(value) and after(value) <= self.upper):
            return False
        if not isinstance(value, str):
            return True
        return all(p.matches(value) for p in self.patterns) and not any(
            p.matches(value) for p in self.negated
        )

    # From parts to predicates

    def _conditions(self) -> Iterator[tuple[Op, Any]]:
        if self.kind is None:
            yield Op.PRESENT, None
        elif self.kind is Kind.ABSENT:
            yield Op.ABSENT, None
        elif self.members is not None:
            yield _one_or_many(Op.EQ, Op.IN, self.members)
        else:
            yield from self._bound_conditions()
            if self.excluded:
                yield _one_or_many(Op.NE, Op.NOT_IN, self.excluded)
            for pattern in sorted(self.patterns, key=lambda p: p.text):
                yield _condition(pattern)
            for pattern in sorted(self.negated, key=lambda p: p.text):
                op, value = _condition(pattern)
                yield op.negation, value

    def _bound_conditions(self) -> Iterator[tuple[Op, Any]]:
        """Yield the bounds that nothing else implies."""
        implied = (BOTTOM, TOP)
        for pattern in self.patterns:
            implied = _intersection(implied, cone(pattern.head))
        prefix = _prefix_of_interval(self.lower, self.upper)
        if (self.lower, self.upper) == implied:
            if not self.patterns and not self.excluded and not self.negated:
                yield Op.GE, "" if self.kind is Kind.STRING else -math.inf
        elif prefix and (self.lower, self.upper) == cone(prefix) and self.upper != TOP:
            yield Op.PREFIX, prefix
        else:
            if self.lower != implied[0]:
                yield _lower_condition(self.lower)
            if self.upper != implied[1]:
                yield _upper_condition(self.upper)


def _is_among(value: Value, ordered: tuple[Value, ...]) -> bool:
    """Look a value up among sorted values of its kind."""
    place = bisect_left(ordered, value)
    return place < len(ordered) and ordered[place] == value


_OP_RANK = {op: rank for rank, op in enumerate(Op)}


def _one_or_many(one: Op, many: Op, values: tuple[Value, ...]) -> tuple[Op, Any]:
    return (one, values[0]) if len(values) == 1 else (many, values)


def _condition(pattern: Pattern) -> tuple[Op, str]:
    """Return the plainest operator that says what a pattern says."""
    if not pattern.has_gaps:
        match pattern.segments:
            case (word, ""):
                return Op.PREFIX, word
            case ("", word):
                return Op.SUFFIX, word
            case ("", word, ""):
                return Op.CONTAINS, word
    return Op.LIKE, pattern.text


def _lower_condition(cut: Cut) -> tuple[Op, Any]:
    _, value, side = cut
    if isinstance(value, str) and value.endswith("\0"):
        return Op.GT, value[:-1]
    return (Op.GT if side else Op.GE), value


def _upper_condition(cut: Cut) -> tuple[Op, Any]:
    _, value, side = cut
    if isinstance(value, str) and value.endswith("\0"):
        return Op.LE, value[:-1]
    return (Op.LE if side else Op.LT), value


# Intervals


def _intersection(one: Interval, other: Interval) -> Interval:
    return max(one[0], other[0]), min(one[1], other[1])


def _trim(interval: Interval, holes: list[Interval]) -> Interval:
    """Move the ends of an interval inwards over the holes that touch them.

    Afterwards lower >= upper if and only if the holes leave nothing of the interval.
    """
    lower, upper = interval
    for start, end in sorted(holes):
        if start <= lower < end:
            lower = end
    for start, end in sorted(holes, key=lambda hole: hole[1], reverse=True):
        if start < upper <= end:
            upper = start
    return lower, upper


def _list_values_between(lower: Cut, upper: Cut, kind: Kind | None) -> tuple[Value, ...] | None:
    """Return the values of an interval if it certainly holds only a few, else None."""
    if lower >= upper:
        return ()
    if kind is Kind.STRING:
        first = lower[1] if lower != BOTTOM else ""
        if upper == TOP or not upper[1].startswith(first):
            return None
        rest = upper[1][len(first) :]
        if len(rest) > _FEW or rest.strip("\0"):
            return None
        return tuple(first + rest[:i] for i in range(len(rest)))
    least = lower[1] if lower != BOTTOM else -math.inf
    greatest = upper[1] if upper != TOP else math.inf
    return (least,) if least == greatest else None


def _prefix_of_interval(lower: Cut, upper: Cut) -> str:
    """Return the longest text that all strings of an interval start with."""
    first = lower[1] if lower != BOTTOM else ""
    if not isinstance(first, str):
        return ""
    # The cones of the prefixes of `first` lie in each other: halve to find the last one that holds.
    low, high = 0, len(first)
    while low < high:
        middle = (low + high + 1) // 2
        if upper <= _end_of_cone(first[:middle]):
            low = middle
        else:
            high = middle - 1
    return first[:low]


def _shape_of_interval(lower: Cut, upper: Cut) -> Pattern:
    return patterns.prefix_pattern(_prefix_of_interval(lower, upper))


# Patterns


def _is_implied(pattern: Pattern, shapes: Iterable[Pattern]) -> bool:
    return any(shape.implies(pattern) for shape in shapes)


def _can_all_end(wanted: tuple[Pattern, ...]) -> bool:
    """Tell whether one string can have the endings of all the patterns."""
    if len(wanted) < 2:
        return True
    longest = max((pattern.tail for pattern in wanted), key=len)
    return all(longest.endswith(pattern.tail) for pattern in wanted)
