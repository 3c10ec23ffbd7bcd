"""Bounds: what a field of a message may hold at most. A message with a field that has no bound cannot be registered.

The types say it (`Meta(ge=…, le=…)` for numbers, `Meta(max_length=…)` for text, bytes and lists), and the decoder
checks it, so no handler is ever called with more. What counts as bounded without a word: true or false, enums,
literals, and `msgspec.Raw`, which is as long as the frame at most and is measured by its reader (`selections.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import inspect

_BOUNDED = (
    *(inspect.BoolType, inspect.NoneType, inspect.EnumType, inspect.LiteralType, inspect.RawType),
)
_SIZED = (inspect.StrType, inspect.BytesType)
_LISTS = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType)


def fields_without_bounds(kind: type) -> list[str]:
    """Return the fields of a message, and of what it holds, that could be of any size.

    >>> from runnel.wire import Message, Missed
    >>> class Careless(Message, frozen=True):
    ...     names: tuple[str, ...]
    ...     count: int
    >>> fields_without_bounds(Careless)
    ['Careless.names', 'Careless.names[]', 'Careless.count']
    >>> fields_without_bounds(Missed)
    []
    """
    return list(_find(inspect.type_info(kind), kind.__name__))


def _find(kind: inspect.Type, place: str) -> Iterator[str]:
    """The places in a type that have no bound."""
    if isinstance(kind, inspect.StructType):
        for field in kind.fields:
            yield from _find(field.type, f"{kind.cls.__name__}.{field.name}")
    elif isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from _find(one, place)
    elif isinstance(kind, inspect.TupleType):
        for one in kind.item_types:
            yield from _find(one, f"{place}[]")
    elif isinstance(kind, (*_LISTS, inspect.DictType)):
        if kind.max_length is None:
            yield place
        if isinstance(kind, inspect.DictType):
            yield from _find(kind.key_type, f"{place}[]")
            yield from _find(kind.value_type, f"{place}[]")
        else:
            yield from _find(kind.item_type, f"{place}[]")
    elif not _is_bounded(kind):
        yield place


def _is_bounded(kind: inspect.Type) -> bool:
    if isinstance(kind, _SIZED):
        return kind.max_length is not None
    if isinstance(kind, (inspect.IntType, inspect.FloatType)):
        return kind.ge is not None and kind.le is not None
    return isinstance(kind, _BOUNDED)
