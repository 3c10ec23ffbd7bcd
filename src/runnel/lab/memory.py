"""How much memory brokers and their modules keep, counted object by object.

A simulated world is one process, so nobody can ask the system. What is counted is what Python says of each object that
can be reached: tables, links and what waits on them; no interpreter, no code. Two runs of one seed keep the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from msgspec import Raw

_NOT_STATE = (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType)
_ATOMS = (str, bytes, bytearray, int, float, type(None), Raw)


def kept_bytes(roots: Iterable[Any], seen: dict[int, Any]) -> int:
    """The size of everything that can be reached from here and was not seen before; now it is.

    `seen` has objects by their id, and holds them: an id is given again when its object is gone.

    >>> kept_bytes([[1000, "text"]], {}) == sum(map(sys.getsizeof, ([1000, "text"], 1000, "text")))
    True
    >>> known = ["text" * 9]
    >>> kept_bytes([known], {id(known): known})
    0
    """
    total, todo = 0, list(roots)
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, _NOT_STATE):
            continue
        seen[id(one)] = one
        # Of raw messages Python does not know how long they are.
        total += sys.getsizeof(bytes(one) if isinstance(one, Raw) else one)
        if not isinstance(one, _ATOMS):
            todo += _inside(one)
    return total


def attributes_of(one: Any) -> dict[str, Any]:
    """An object's attributes, as a table of its own.

    As it is, Python may share a part of it between objects of one class, or not: that depends on what the process
    has done before.
    """
    return dict(vars(one).items())


def _inside(one: Any) -> Iterator[Any]:
    """What an object refers to."""
    if isinstance(one, Mapping):
        yield from one
        yield from one.values()
    elif isinstance(one, (list, tuple, set, frozenset)) or type(one).__name__ == "deque":
        yield from one
    if hasattr(one, "__dict__"):
        yield attributes_of(one)
    for kind in type(one).__mro__:
        names = kind.__dict__.get("__slots__", kind.__dict__.get("__struct_fields__", ()))
        for name in (names,) if isinstance(names, str) else names:
            if hasattr(one, name) and name not in ("__dict__", "__weakref__"):
                yield getattr(one, name)
