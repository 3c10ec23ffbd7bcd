r"""Selectors in SQL-92 syntax, as users of JMS know them.

    symbol = 'YHOO' AND (volume > 300000 OR close BETWEEN 10 AND 20) AND note LIKE 'a%'

Rules:
- Three-valued logic: a comparison with an attribute that is missing, or that is of another kind than
  the literal, is unknown; NOT unknown is unknown; an event matches if the whole is true. (JMS calls a
  comparison of different kinds false; then `NOT a > 5` would match a = 'x'. Here it does not.)
- An expression is compiled to a disjunctive normal form while it is read; see `normal_form`.
- `to_sql` writes what `parse_sql` reads back as an equal selection.
- Empty text, as in JMS, asks for everything.
- LIKE has no escape character unless ESCAPE names one, as in SQL.
"""

from __future__ import annotations

import re

from lark import Token, v_args

from runnel.errors import InvalidValue
from runnel.language.filters import Filter, Selection
from runnel.language.limits import DEFAULT_LIMITS, Limits
from runnel.language.normal_form import (
    FALSE,
    TRUE,
    Condition,
    condition,
    conjunction,
    disjunction,
    either,
    negation,
    to_selection,
)
from runnel.language.notation import (
    NUMBER,
    Literals,
    make_parser,
    print_number,
    quote,
    read,
    unquote,
)
from runnel.language.patterns import escape
from runnel.language.predicates import Op, Predicate
from runnel.language.values import Value, kind_of

_KEYWORDS = "AND OR NOT BETWEEN IN LIKE ESCAPE IS NULL TRUE FALSE".split()
_WORD_END = r"(?![A-Za-z0-9_.$])"
_KEYWORD_TERMINALS = "\n".join(f"{word}: /{word}{_WORD_END}/i" for word in _KEYWORDS)

_GRAMMAR = rf"""
start: [any]
?any: all | any OR all -> either
?all: not | all AND not -> both
?not: test | NOT not -> opposite
?test: "(" any ")"
    | TRUE -> true
    | FALSE -> false
    | name -> flag
    | name COMPARISON literal -> compare
    | literal COMPARISON name -> compare_mirrored
    | name BETWEEN literal AND literal -> between
    | name NOT BETWEEN literal AND literal -> not_between
    | name IN "(" literals ")" -> among
    | name NOT IN "(" literals ")" -> not_among
    | name LIKE STRING [ESCAPE STRING] -> like
    | name NOT LIKE STRING [ESCAPE STRING] -> not_like
    | name IS NULL -> absent
    | name IS NOT NULL -> present
literals: literal ("," literal)*
?literal: NUMBER -> number
    | STRING -> string
    | TRUE -> true_value
    | FALSE -> false_value
?name: NAME -> plain_name
    | QUOTED_NAME -> quoted_name

{_KEYWORD_TERMINALS}
NAME: /(?!(?:{"|".join(_KEYWORDS)}){_WORD_END})[A-Z_$][A-Z0-9_.$]*/i
QUOTED_NAME: /"(?:[^"]|"")++"/
STRING: /'(?:[^']|'')*+'/
NUMBER: /{NUMBER}/
COMPARISON: /<>|!=|<=|>=|=|<|>/
%ignore /\s+/
"""

_LITERAL_WORDS = {
    "NUMBER": "a number",
    "STRING": "a string in single quotes",
    "TRUE": "TRUE",
    "FALSE": "FALSE",
}
_WORDS = {
    "NAME": "an attribute",
    "QUOTED_NAME": "an attribute",
    **_LITERAL_WORDS,
    "COMPARISON": "a comparison (= <> < <= > >=)",
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": "a comma",
    **{word: word for word in _KEYWORDS},
    "$END": "the end of the text",
}

_MIRRORED = {Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}
_PLAIN_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_.$]*")
_COMPARISON_SIGNS = {op: str(op) for op in (Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE)} | {Op.NE: "<>"}


def parse_sql(text: str, *, limits: Limits = DEFAULT_LIMITS) -> Selection:
    """Read an SQL selector.

    >>> parse_sql("symbol = 'YHOO' AND NOT volume > 300000")
    Filter([symbol,=,'YHOO'],[volume,<=,300000])
    >>> parse_sql("symbol = = 'YHOO'")
    Traceback (most recent call last):
        ...
    runnel.errors.FilterSyntaxError: line 1, column 10: expected a number or a string in single quotes or TRUE or FALSE
      symbol = = 'YHOO'
               ^
    """
    compiled: Condition = read(_parse, text, limits, _WORDS)
    return to_selection(compiled, limits)


def to_sql(selection: Selection) -> str:
    """Write a selection as an SQL selector.

    >>> to_sql(parse_sql("note like 'a%' and (x is not null or x is not null)"))
    "note LIKE 'a%' AND x IS NOT NULL"
    """
    filters = selection.disjuncts
    if not filters:
        return "FALSE"
    if len(filters) == 1:
        return _print_filter(filters[0])
    return " OR ".join(f"({_print_filter(filter_)})" for filter_ in filters)


@v_args(inline=True)
class _Compiler(Literals):
    """Turns each rule of the grammar into a condition, a name or a value as soon as it is read."""

    def start(self, whole: Condition | None) -> Condition:
        return TRUE if whole is None else whole

    def either(self, one: Condition, _or: Token, other: Condition) -> Condition:
        return disjunction(one, other)

    def both(self, one: Condition, _and: Token, other: Condition) -> Condition:
        return conjunction(one, other)

    def opposite(self, _not: Token, one: Condition) -> Condition:
        return negation(one)

    def true(self, _token: Token) -> Condition:
        return TRUE

    def false(self, _token: Token) -> Condition:
        return FALSE

    def flag(self, name: str) -> Condition:
        return condition(Predicate(name, Op.EQ, True))

    def compare(self, name: str, sign: Token, value: Value) -> Condition:
        return condition(Predicate(name, _op(sign), value))

    def compare_mirrored(self, value: Value, sign: Token, name: str) -> Condition:
        op = _op(sign)
        return condition(Predicate(name, _MIRRORED.get(op, op), value))

    def between(
        self, name: str, _between: Token, least: Value, _and: Token, most: Value
    ) -> Condition:
        return conjunction(
            condition(Predicate(name, Op.GE, least)), condition(Predicate(name, Op.LE, most))
        )

    def not_between(
        self, name: str, _not: Token, between: Token, least: Value, and_: Token, most: Value
    ) -> Condition:
        return negation(self.between(name, between, least, and_, most))

    def among(self, name: str, _in: Token, members: tuple[Value, ...]) -> Condition:
        # Predicates are typed, so a list of mixed kinds is one predicate for each kind.
        kinds = dict.fromkeys(map(kind_of, members))
        return either(
            condition(Predicate(name, Op.IN, tuple(m for m in members if kind_of(m) is kind)))
            for kind in kinds
        )

    def not_among(
        self, name: str, _not: Token, in_: Token, members: tuple[Value, ...]
    ) -> Condition:
        return negation(self.among(name, in_, members))

    def like(
        self, name: str, _like: Token, text: Token, _escape: Token | None, mark: Token | None
    ) -> Condition:
        pattern = _replace_escape(unquote(text), unquote(mark) if mark is not None else None)
        return condition(Predicate(name, Op.LIKE, pattern))

    def not_like(
        self,
        name: str,
        _not: Token,
        like: Token,
        text: Token,
        escape: Token | None,
        mark: Token | None,
    ) -> Condition:
        return negation(self.like(name, like, text, escape, mark))

    def absent(self, name: str, _is: Token, _null: Token) -> Condition:
        return condition(Predicate(name, Op.ABSENT))

    def present(self, name: str, _is: Token, _not: Token, _null: Token) -> Condition:
        return condition(Predicate(name, Op.PRESENT))


_parse = make_parser(_GRAMMAR, _Compiler(), start="start")


def _op(sign: str) -> Op:
    return Op.NE if sign == "<>" else Op(str(sign))


def _replace_escape(pattern: str, mark: str | None) -> str:
    r"""Rewrite a pattern with SQL's escape character, if any, to one with `\`."""
    if mark is None:
        return pattern.replace("\\", "\\\\")
    if len(mark) != 1:
        raise InvalidValue(f"ESCAPE needs a single character, not {mark!r}")
    pieces = []
    characters = iter(pattern)
    for character in characters:
        if character != mark:
            pieces.append("\\\\" if character == "\\" else character)
            continue
        escaped = next(characters, "")
        if not escaped or escaped not in ("%", "_", mark):
            raise InvalidValue(
                f"in a LIKE pattern {mark} must stand before %, _ or another {mark}: "
                "double it, or name another ESCAPE character"
            )
        pieces.append(escape(escaped))
    return "".join(pieces)


def _print_filter(filter_: Filter) -> str:
    return " AND ".join(map(_print_predicate, filter_.predicates)) or "TRUE"


def _print_predicate(predicate: Predicate) -> str:
    name, op, value = _print_name(predicate.attribute), predicate.op, predicate.value
    match op:
        case Op.PRESENT:
            return f"{name} IS NOT NULL"
        case Op.ABSENT:
            return f"{name} IS NULL"
    if op in _COMPARISON_SIGNS and not isinstance(value, tuple | None):
        return f"{name} {_COMPARISON_SIGNS[op]} {_print_literal(value)}"
    if isinstance(value, tuple):
        members = ", ".join(map(_print_literal, value))
        return f"{name} {'IN' if op is Op.IN else 'NOT IN'} ({members})"
    return f"{name} {_print_pattern(op, str(value))}"


def _print_pattern(op: Op, value: str) -> str:
    match op:
        case Op.PREFIX | Op.NOT_PREFIX:
            pattern = escape(value) + "%"
        case Op.SUFFIX | Op.NOT_SUFFIX:
            pattern = "%" + escape(value)
        case Op.CONTAINS | Op.NOT_CONTAINS:
            pattern = "%" + escape(value) + "%"
        case _:
            pattern = value
    is_positive = op in (Op.PREFIX, Op.SUFFIX, Op.CONTAINS, Op.LIKE)
    escaping = r" ESCAPE '\'" if "\\" in pattern else ""
    return f"{'LIKE' if is_positive else 'NOT LIKE'} {quote(pattern)}{escaping}"


def _print_name(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in _KEYWORDS:
        return name
    return quote(name, '"')


def _print_literal(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return quote(value) if isinstance(value, str) else print_number(value)
