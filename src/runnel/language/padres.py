"""The bracket form that the papers (and PADRES, their system) write filters and publications in.

    [class,eq,'STOCK'],[symbol,eq,'YHOO'],[volume,>,300000]        a filter
    [class,'STOCK'],[symbol,'YHOO'],[volume,1000],[close,18.37]    a publication

Rules:
- Brackets joined by commas must all hold. Our own addition: filters joined by | are a disjunction.
- Operators: = eq, != <> neq, < <= > >=, str-prefix str-suffix str-contains (also without "str-"),
  isPresent with any or no third field, as in [open,isPresent,0]; and our own str-like, in,
  the same with "not-" in front, and isAbsent.
- An attribute's name is anything without white space, commas, brackets and quotes, so
  openClose%Diff works; any other name stands in double quotes.
- Strings stand in single or double quotes, doubled inside, or in the typographic ones of the papers.
- Empty text is the filter that asks for everything, or the publication without attributes.
- What is printed is read back as an equal selection or publication.
"""

from __future__ import annotations

import re

from lark import Token, v_args

from runnel.errors import InvalidValue
from runnel.language.filters import NOTHING, Filter, Selection
from runnel.language.limits import DEFAULT_LIMITS, Limits
from runnel.language.notation import (
    NUMBER,
    Literals,
    make_parser,
    print_number,
    quote,
    read,
)
from runnel.language.predicates import NEGATED_PATTERNS, PATTERNS, Op, Predicate
from runnel.language.values import Attributes, Value, check_attributes, is_absent

_NAME = r"""[^,\[\]'"‘’\s]+"""

_GRAMMAR = rf"""
selection: [filter ("|" filter)*]
filter: predicate ("," predicate)*
?predicate: "[" name "," COMPARISON "," literal "]" -> comparison
    | "[" name "," AMONG "," "(" literals ")" "]" -> among
    | "[" name "," PRESENCE ["," literal] "]" -> presence
literals: literal ("," literal)*

publication: [pair ("," pair)*]
pair: "[" name "," literal "]"

?literal: NUMBER -> number
    | STRING -> string
    | TRUE -> true_value
    | FALSE -> false_value
?name: NAME -> plain_name
    | QUOTED_NAME -> quoted_name

COMPARISON: /<>|!=|<=|>=|=|<|>|n?eq|(?:not-)?(?:str-)?(?:prefix|suffix|contains|like)/i
AMONG: /(?:not-)?in/i
PRESENCE: /isPresent|isAbsent/i
NAME: /{_NAME}/
QUOTED_NAME: /"(?:[^"]|"")++"/
STRING: /'(?:[^']|'')*+'|"(?:[^"]|"")*+"|[‘’][^‘’]*[‘’]/
NUMBER: /{NUMBER}/
TRUE: /true(?![A-Za-z0-9_.$])/i
FALSE: /false(?![A-Za-z0-9_.$])/i
%ignore /\s+/
"""

_OPERATOR = "an operator (= != < <= > >= str-prefix str-suffix str-contains str-like in isPresent)"
_WORDS = {
    "LSQB": "[",
    "RSQB": "]",
    "NAME": "an attribute",
    "QUOTED_NAME": "an attribute",
    "COMPARISON": _OPERATOR,
    "AMONG": _OPERATOR,
    "PRESENCE": _OPERATOR,
    "NUMBER": "a number",
    "STRING": "a string in quotes",
    "TRUE": "true",
    "FALSE": "false",
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": "a comma",
    "VBAR": "|",
    "$END": "the end of the text",
}

_OP_OF_WORD = {str(op).lower(): op for op in Op} | {"eq": Op.EQ, "neq": Op.NE, "<>": Op.NE}
_PLAIN_NAME = re.compile(_NAME)


def parse_padres(text: str, *, limits: Limits = DEFAULT_LIMITS) -> Selection:
    """Read a filter in the bracket form.

    >>> parse_padres("[class,eq,'STOCK'],[volume,>,300000]")
    Filter([class,=,'STOCK'],[volume,>,300000])
    """
    filters: list[list[Predicate]] = read(_parse_selection, text, limits, _WORDS)
    return limits.select(map(Filter, filters))


def parse_publication(text: str, *, limits: Limits = DEFAULT_LIMITS) -> dict[str, Value]:
    """Read a publication in the bracket form.

    >>> parse_publication("[class,'STOCK'],[volume,1000]")
    {'class': 'STOCK', 'volume': 1000}
    """
    pairs: list[tuple[str, Value]] = read(_parse_publication, text, limits, _WORDS)
    publication: dict[str, Value] = {}
    for name, value in pairs:
        if name in publication:
            raise InvalidValue(f"the publication has the attribute {name!r} twice: keep one")
        publication[name] = value
    return publication


def to_padres(selection: Selection) -> str:
    """Write a selection in the bracket form.

    >>> to_padres(parse_padres("[volume,>,300000],[class,=,'STOCK']"))
    "[class,eq,'STOCK'],[volume,>,300000]"
    """
    if selection == NOTHING:
        return "[x,isAbsent],[x,isPresent]"
    return " | ".join(
        ",".join(map(_print_predicate, filter_.predicates)) for filter_ in selection.disjuncts
    )


def print_publication(attributes: Attributes) -> str:
    """Write a publication in the bracket form; absent attributes (None, NaN) are left out.

    >>> print_publication({"class": "STOCK", "volume": 1000, "note": None})
    "[class,'STOCK'],[volume,1000]"
    """
    check_attributes(attributes)
    return ",".join(
        f"[{_print_name(name)},{_print_literal(value)}]"
        for name, value in attributes.items()
        if value is not None and not is_absent(value)
    )


@v_args(inline=True)
class _Builder(Literals):
    """Turns each rule of the grammar into predicates, names and values as soon as it is read."""

    def selection(self, *filters: list[Predicate] | None) -> list[list[Predicate]]:
        return [filter_ or [] for filter_ in filters]

    def filter(self, *predicates: Predicate) -> list[Predicate]:
        return list(predicates)

    def comparison(self, name: str, word: Token, value: Value) -> Predicate:
        return Predicate(name, _op(word), value)

    def among(self, name: str, word: Token, members: tuple[Value, ...]) -> Predicate:
        return Predicate(name, _op(word), members)

    def presence(self, name: str, word: Token, _ignored: Value | None) -> Predicate:
        return Predicate(name, _op(word), None)

    def publication(self, *pairs: tuple[str, Value] | None) -> list[tuple[str, Value]]:
        return [pair for pair in pairs if pair is not None]

    def pair(self, name: str, value: Value) -> tuple[str, Value]:
        return name, value


_parse_selection = make_parser(_GRAMMAR, _Builder(), start="selection")
_parse_publication = make_parser(_GRAMMAR, _Builder(), start="publication")


def _op(word: str) -> Op:
    return _OP_OF_WORD[word.lower().replace("str-", "")]


def _print_predicate(predicate: Predicate) -> str:
    name, op, value = _print_name(predicate.attribute), predicate.op, predicate.value
    if value is None:
        return f"[{name},{op}]"
    if isinstance(value, tuple):
        return f"[{name},{op},({','.join(map(_print_literal, value))})]"
    return f"[{name},{_print_op(op, value)},{_print_literal(value)}]"


def _print_op(op: Op, value: Value) -> str:
    """Return an operator as the papers write it: eq for strings, = for numbers."""
    if op in (Op.EQ, Op.NE) and isinstance(value, str):
        return "eq" if op is Op.EQ else "neq"
    if op in PATTERNS:
        return f"str-{op}"
    return f"not-str-{op.negation}" if op in NEGATED_PATTERNS else str(op)


def _print_name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else quote(name, '"')


def _print_literal(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return quote(value) if isinstance(value, str) else print_number(value)
