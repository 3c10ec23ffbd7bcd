"""What both languages share in reading and writing: numbers, quotes, and errors that point.

Rule: whatever a parser is given, only FilterSyntaxError, FilterLimitError or InvalidValue comes out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any

from lark import (
    Lark,
    Token,
    Transformer,
    UnexpectedCharacters,
    UnexpectedInput,
    UnexpectedToken,
    v_args,
)

from runnel.errors import FilterSyntaxError, InvalidValue
from runnel.language.limits import Limits
from runnel.language.values import Value, check_literal

NUMBER = r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+(?![A-Za-z0-9_.$])"
"""A number in either language; one too large for a float, such as 1e999, is infinite."""

_DIGITS_MAX = 400
"""More digits than any int or float can use; Python itself refuses to read ints of over 4,300."""


def make_parser(grammar: str, transformer: Any, start: str) -> Callable[[str], Any]:
    """Return an LALR parser that builds its result as it goes.

    No tree is built and nothing recurses, so nesting can be as deep as the text is long. The tables of the grammar
    are worked out when the first text is read: a program that reads none need not wait for them.
    """

    @cache
    def parser() -> Lark:
        return Lark(grammar, parser="lalr", start=start, transformer=transformer)

    return lambda text: parser().parse(text)


def read(parser: Callable[[str], Any], text: str, limits: Limits, words: Mapping[str, str]) -> Any:
    """Parse a text; `words` says for each terminal of the grammar what a reader would call it."""
    if not isinstance(text, str):
        raise InvalidValue(f"a filter's text must be a str, not {type(text).__name__}")
    limits.check_text(text)
    try:
        return parser(text)
    except UnexpectedInput as error:
        raise _explain(error, text, words) from None


def read_number(text: str) -> int | float:
    """Read a number as both languages write it.

    >>> read_number("42"), read_number("-1.5e3")
    (42, -1500.0)
    """
    if len(text) > _DIGITS_MAX:
        raise InvalidValue(f"a number of {len(text)} characters: use at most {_DIGITS_MAX}")
    number = int(text) if text.lstrip("+-").isdigit() else float(text)
    check_literal(number)
    return number


def print_number(number: int | float) -> str:
    """Write a number so that reading gives it back.

    >>> print_number(0.1), print_number(-math.inf)
    ('0.1', '-1e999')
    """
    if isinstance(number, float) and math.isinf(number):
        return "1e999" if number > 0 else "-1e999"
    return repr(number)


def quote(text: str, mark: str = "'") -> str:
    """Put a text into quotes, doubling those inside.

    >>> quote("it's")
    "'it''s'"
    """
    return mark + text.replace(mark, mark * 2) + mark


def unquote(text: str) -> str:
    """Take the quotes off again.

    >>> unquote("'it''s'")
    "it's"
    """
    mark = text[-1]
    unquoted = text[1:-1].replace(mark * 2, mark)
    check_literal(unquoted)
    return unquoted


@v_args(inline=True)
class Literals(Transformer[Token, Any]):
    """The actions that both grammars share: names and literals."""

    def literals(self, *members: Value) -> tuple[Value, ...]:
        return members

    def number(self, token: Token) -> int | float:
        return read_number(token)

    def string(self, token: Token) -> str:
        return unquote(token)

    def true_value(self, _token: Token) -> bool:
        return True

    def false_value(self, _token: Token) -> bool:
        return False

    def plain_name(self, token: Token) -> str:
        return str(token)

    def quoted_name(self, token: Token) -> str:
        return unquote(token)


def _explain(error: UnexpectedInput, text: str, words: Mapping[str, str]) -> FilterSyntaxError:
    """Turn the parser library's complaint into ours."""
    line, column = error.line, error.column
    expected: Collection[str] = ()
    if isinstance(error, UnexpectedCharacters):
        expected = error.allowed or ()
        mark = text[error.pos_in_stream or 0]
        if mark in "'\"" and text.count(mark) % 2:
            return FilterSyntaxError(text, line=line, column=column, expected=[f"a closing {mark}"])
    elif isinstance(error, UnexpectedToken):
        expected = error.accepts or error.expected
        if error.token.type == "$END":
            line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
    said = dict.fromkeys(word for terminal, word in words.items() if terminal in expected)
    return FilterSyntaxError(text, line=line, column=column, expected=list(said))
