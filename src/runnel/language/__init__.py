"""The language: what a filter and an event are, what a filter means, and how both are written.

Everything that other rooms need is here; the files behind it are in reading order:

    values      strings, numbers, booleans, and what counts as absent
    patterns    LIKE in linear time
    predicates  one condition on one attribute
    domain      the set of values that an attribute may take: the reasoning
    filters     Filter, Disjunction: matches, covers, intersects
    limits      how large a filter may be
    normal_form AND, OR and NOT multiplied out
    notation    what the two languages share
    sql         a > 5 AND b LIKE 'x%'
    padres      [a,>,5],[b,str-prefix,'x']
"""

from __future__ import annotations

from runnel.language.filters import (
    EVERYTHING,
    NOTHING,
    Disjunction,
    Filter,
    Selection,
    any_of,
)
from runnel.language.limits import DEFAULT_LIMITS, Limits
from runnel.language.padres import parse_padres, parse_publication, print_publication, to_padres
from runnel.language.patterns import Pattern, like
from runnel.language.predicates import Op, Predicate
from runnel.language.sql import parse_sql, to_sql
from runnel.language.values import Attributes, Kind, Value, check_attributes, kind_of

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Attributes",
    "Disjunction",
    "Filter",
    "Kind",
    "Limits",
    "Op",
    "Pattern",
    "Predicate",
    "Selection",
    "Value",
    "any_of",
    "check_attributes",
    "kind_of",
    "like",
    "parse",
    "parse_padres",
    "parse_publication",
    "parse_sql",
    "print_publication",
    "to_padres",
    "to_sql",
]


def parse(text: str, *, limits: Limits = DEFAULT_LIMITS) -> Selection:
    """Read a filter in either language: the bracket form if it starts with [, else SQL.

    >>> parse("[volume,>,300000]") == parse("volume > 300000")
    True
    """
    in_brackets = isinstance(text, str) and text.lstrip().startswith("[")
    return parse_padres(text, limits=limits) if in_brackets else parse_sql(text, limits=limits)
