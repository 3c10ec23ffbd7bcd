"""Explains msgspec's validation errors of a configuration in terms of its keys and values.

msgspec reports JSON paths and Python types (``Expected `float` >= 0.05 - at `$.link.heartbeat_s` ``); the author of the
file thinks in keys and values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec import inspect

_PLACE = re.compile(r" - at `(?:key in )?\$(?P<path>[^`]*)`$")
_PART = re.compile(r"\[\.\.\.\]|[^.\[]+")
_FIELD = re.compile(r"(?:unknown|required) field `(?P<field>[^`]*)`")


def explain(
    problem: str,
    tables: Mapping[str, Any],
    shape: type[msgspec.Struct],
    *,
    shows_texts: bool = True,
) -> str:
    """An error message for the problem that msgspec found in these tables; texts in it may be secrets."""
    place = _PLACE.search(problem)
    path: list[str] = []
    info = inspect.type_info(shape)
    value: Any = tables
    for part in _PART.findall(place["path"] if place else ""):
        if isinstance(info, inspect.ListType):  # the list is named, not its item
            break
        info, key = _step_into(info, part, value)
        value = value.get(key)
        path.append(key)
    if named := _FIELD.search(problem):
        key = ".".join([*path, named["field"]])
        if "required" in problem:
            return f"{key}: is missing"
        known = [f.name for f in info.fields] if isinstance(info, inspect.StructType) else []
        near = get_close_matches(named["field"], known, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        return f"{key}: there is no such key; {meant}known here: {', '.join(known)}"
    shown = _format_value(value) if shows_texts or not isinstance(value, str) else "a text"
    return f"{'.'.join(path) or 'the file'}: must be {describe_allowed(info, value)}, got {shown}"


def _step_into(info: inspect.Type, part: str, value: Any) -> tuple[inspect.Type, str]:
    """One step down a path. For a table with free keys msgspec does not name the key: take the first invalid one."""
    if isinstance(info, inspect.StructType):
        return next(field.type for field in info.fields if field.name == part), part
    assert isinstance(info, inspect.DictType)
    kind = info.value_type
    return kind, next(key for key, item in value.items() if _is_wrong(kind, item))


def _is_wrong(info: inspect.Type, value: Any) -> bool:
    """Whether an item of a table with free keys, which are texts or tables, is the one complained about."""
    if not isinstance(info, inspect.StructType):
        return not isinstance(value, str)
    try:
        msgspec.convert(value, info.cls)
    except msgspec.ValidationError:
        return True
    return False


def describe_allowed(info: inspect.Type, value: Any) -> str:
    """What is allowed: the type if the type is wrong, otherwise the limit that is violated."""
    match info:
        case inspect.UnionType(types=types):  # what is given, or nothing; TOML has no nothing
            return describe_allowed(
                next(t for t in types if not isinstance(t, inspect.NoneType)), value
            )
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType(ge=least, le=most) | inspect.FloatType(ge=least, le=most):
            whole = isinstance(info, inspect.IntType)
            right = int if whole else (int, float)
            if isinstance(value, bool) or not isinstance(value, right):
                return "a whole number" if whole else "a number"
            if info.gt is not None and value <= info.gt:
                return f"more than {info.gt}"
            return f"at least {least}" if least is not None and value < least else f"at most {most}"
        case inspect.StrType(min_length=least, max_length=most):
            if not isinstance(value, str):
                return "a text in quotes"
            return f"{least or 0} to {most} characters long"
        case inspect.ListType(item_type=item):
            return f"a list, each item {describe_allowed(item, None)}"
        case _:
            return "a table"


def _format_value(value: Any) -> str:
    """A value as TOML would have it, or nearly."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping | list):
        return "a table" if isinstance(value, Mapping) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
