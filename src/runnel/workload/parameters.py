"""The parameters of a workload: a table of the configuration, checked once; errors name the key.

Every workload declares a subclass of `Parameters` with types, limits and defaults. Units are in the names. An unknown
key is an error, so that a misspelt parameter is not silently ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct, inspect

from runnel.complaints import describe_allowed
from runnel.errors import InputError

Count = Annotated[int, Meta(ge=1, le=10_000_000)]
Index = Annotated[int, Meta(ge=0, le=1_000_000)]
Share = Annotated[float, Meta(ge=0, le=1)]
Rate = Annotated[float, Meta(ge=1e-6, le=1e9)]
Seconds = Annotated[float, Meta(ge=0, le=1e8)]

_KEY = re.compile(r" - at `\$\.(?P<key>[^`.\[]*)")
_UNKNOWN = re.compile(r"unknown field `(?P<key>[^`]*)`")
_MISSING = re.compile(r"required field `(?P<key>[^`]*)`")


class Parameters(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of one workload."""


P = TypeVar("P", bound=Parameters)


def read_parameters(shape: type[P], table: Mapping[str, Any]) -> P:
    """Check a table and convert it to the parameters of a workload.

    >>> class Some(Parameters, frozen=True):
    ...     publishers: Count = 40
    >>> read_parameters(Some, {"publishers": 3})
    Some(publishers=3)
    >>> read_parameters(Some, {"publishers": 0})
    Traceback (most recent call last):
    runnel.errors.InputError: publishers: must be at least 1, got 0
    """
    try:
        return msgspec.convert(dict(table), shape)
    except msgspec.ValidationError as error:
        raise InputError(_explain(str(error), table, shape)) from None


def _explain(problem: str, table: Mapping[str, Any], shape: type[Parameters]) -> str:
    """Make a message that names the key from msgspec's error."""
    info = inspect.type_info(shape)
    assert isinstance(info, inspect.StructType)
    types = {field.name: field.type for field in info.fields}
    if unknown := _UNKNOWN.search(problem):
        return f"{unknown['key']}: there is no such parameter; known here: {', '.join(types)}"
    if missing := _MISSING.search(problem):
        return f"{missing['key']}: is missing"
    place = _KEY.search(problem)
    if place is None:
        return f"these parameters cannot be read: {problem}"
    key = place["key"]
    is_text = isinstance(types[key], inspect.StrType)
    wanted = "a text" if is_text else describe_allowed(types[key], table[key])
    return f"{key}: must be {wanted}, got {table[key]!r}"
