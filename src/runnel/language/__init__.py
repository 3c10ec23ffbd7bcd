"""The language: what a filter and an event are, what a filter means, and how both are written.

Everything that other rooms need is here; the files behind it are in reading order:

    values      strings, numbers, booleans, and what counts as absent
    patterns    LIKE in linear time
    predicates  one condition on one attribute
    domain      the set of values that an attribute may take: the reasoning
    filters     Filter, Disjunction: matches, covers, intersects
"""

from runnel.language.filters import (
    EVERYTHING,
    NOTHING,
    Disjunction,
    Filter,
    Selection,
    any_of,
)
from runnel.language.patterns import Pattern, like
from runnel.language.predicates import Op, Predicate
from runnel.language.values import Attributes, Kind, Value, check_attributes, kind_of

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Attributes",
    "Disjunction",
    "Filter",
    "Kind",
    "Op",
    "Pattern",
    "Predicate",
    "Selection",
    "Value",
    "any_of",
    "check_attributes",
    "kind_of",
    "like",
]
