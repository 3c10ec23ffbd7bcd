"""Operators and predicates: the single condition on a single attribute.

Rule: a predicate is typed by its literal. On an attribute that is absent, or of another kind than
the literal, it is neither true nor false but *unknown*, and so does not hold: `a != 5` does not hold
for a = 'x', and the negation of `a > 5` is `a <= 5`. Only isPresent and isAbsent look at whether
there is a value at all.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from runnel.errors import InvalidValue
from runnel.language.patterns import like
from runnel.language.values import Kind, Value, check_attribute, check_literal, kind_of

Literal = Value | tuple[Value, ...] | None
"""The right-hand side: one value, the members of in and not-in, or None for isPresent, isAbsent."""


class Op(StrEnum):
    """The operators, in the order in which a filter lists its predicates on one attribute."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    PREFIX = "prefix"
    SUFFIX = "suffix"
    CONTAINS = "contains"
    LIKE = "like"
    IN = "in"
    PRESENT = "isPresent"
    NOT_PREFIX = "not-prefix"
    NOT_SUFFIX = "not-suffix"
    NOT_CONTAINS = "not-contains"
    NOT_LIKE = "not-like"
    NOT_IN = "not-in"
    ABSENT = "isAbsent"

    # Enum's own is a slow Python function, and operators are looked up everywhere.
    __hash__ = str.__hash__

    @property
    def negation(self) -> Op:
        """The operator that holds exactly where this one is false.

        >>> Op.LT.negation
        <Op.GE: '>='>
        """
        return _NEGATIONS[self]


_PAIRS = {
    Op.EQ: Op.NE,
    Op.LT: Op.GE,
    Op.LE: Op.GT,
    Op.PREFIX: Op.NOT_PREFIX,
    Op.SUFFIX: Op.NOT_SUFFIX,
    Op.CONTAINS: Op.NOT_CONTAINS,
    Op.LIKE: Op.NOT_LIKE,
    Op.IN: Op.NOT_IN,
    Op.PRESENT: Op.ABSENT,
}
_NEGATIONS = _PAIRS | {no: yes for yes, no in _PAIRS.items()}

ORDERINGS = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
SETS = frozenset({Op.IN, Op.NOT_IN})
PRESENCE = frozenset({Op.PRESENT, Op.ABSENT})
PATTERNS = frozenset({Op.PREFIX, Op.SUFFIX, Op.CONTAINS, Op.LIKE})
NEGATED_PATTERNS = frozenset({op.negation for op in PATTERNS})

_TESTS: dict[Op, Callable[[Any, Any], bool]] = {
    Op.EQ: operator.eq,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.PREFIX: str.startswith,
    Op.SUFFIX: str.endswith,
    Op.CONTAINS: operator.contains,
    Op.LIKE: lambda value, pattern: like(pattern).matches(value),
    Op.IN: lambda value, members: value in members,
}


class Predicate(NamedTuple):
    """A condition on one attribute.

    >>> Predicate("volume", Op.GT, 300000).holds(350000)
    True
    >>> Predicate("volume", Op.NE, 5).holds("five")
    False
    """

    attribute: str
    op: Op
    value: Literal = None

    def holds(self, value: Value | None) -> bool:
        """Tell whether the predicate is true of an attribute's value (None: it has no value)."""
        kind = kind_of(value)
        if self.op is Op.PRESENT:
            return kind is not Kind.ABSENT
        if self.op is Op.ABSENT:
            return kind is Kind.ABSENT
        if kind is not self.kind:
            return False
        test = _TESTS.get(self.op)
        if test is None:
            return not _TESTS[self.op.negation](value, self.value)
        return test(value, self.value)

    @property
    def kind(self) -> Kind:
        """The kind of value that the predicate is about; ABSENT if it has no literal."""
        return kind_of(self.value[0] if isinstance(self.value, tuple) else self.value)

    @property
    def negation(self) -> Predicate:
        """The predicate that is true where this one is false, and unknown where it is unknown."""
        return Predicate(self.attribute, self.op.negation, self.value)

    @property
    def characters(self) -> int:
        """How much text the predicate holds: in its attribute's name and its strings."""
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        return len(self.attribute) + sum(len(v) for v in values if isinstance(v, str))

    def validate(self) -> Predicate:
        """Return the predicate with a real `Op`; raise InvalidValue if it makes no sense.

        >>> Predicate("flag", Op.LT, True).validate()
        Traceback (most recent call last):
            ...
        runnel.errors.InvalidValue: '<' does not work on a bool, only = and != do: [flag,<,True]
        """
        check_attribute(self.attribute)
        op = _parse_op(self.op)
        if op in PRESENCE:
            return Predicate(self.attribute, op, None)
        if op in SETS:
            return Predicate(self.attribute, op, self._validate_members())
        kind = check_literal(self.value)
        if op in PATTERNS or op in NEGATED_PATTERNS:
            if kind is not Kind.STRING:
                raise InvalidValue(f"'{op}' needs a string: {self}")
        elif op in ORDERINGS and kind is Kind.BOOL:
            raise InvalidValue(f"'{op}' does not work on a bool, only = and != do: {self}")
        return Predicate(self.attribute, op, self.value)

    def _validate_members(self) -> tuple[Value, ...]:
        members = self.value
        if not isinstance(members, tuple) or not members:
            raise InvalidValue(
                f"'{self.op}' on {self.attribute!r} needs a tuple of values, not empty"
            )
        if len({check_literal(member) for member in members}) > 1:
            raise InvalidValue(f"'{self.op}' needs values of one kind: {self}")
        return members

    # As tuples, (a, =, True) and (a, =, 1) would be the same, since Python says True == 1.

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, other) and self._is_about_bools == _is_about_bools(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return tuple.__hash__(self)

    @property
    def _is_about_bools(self) -> bool:
        return type(self.value[0] if isinstance(self.value, tuple) else self.value) is bool

    def __str__(self) -> str:
        shown = repr(self.value)
        return f"[{self.attribute},{self.op},{shown if len(shown) < 80 else shown[:77] + '...'}]"


def _parse_op(op: str) -> Op:
    try:
        return Op(op)
    except ValueError:
        known = " ".join(Op)
        raise InvalidValue(f"there is no operator {op!r}: use one of {known}") from None


def _is_about_bools(other: object) -> bool:
    return isinstance(other, Predicate) and other._is_about_bools
