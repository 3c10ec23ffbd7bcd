"""How much memory brokers and their modules use, counted object by object.

All brokers of a simulated world share one process, so the system cannot say how much each uses. Instead the sizes that
Python reports for all reachable objects are added up: tables, links and what waits on them, but no code. Two runs of
one seed give the same number.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from msgspec import Raw

_NOT_STATE = (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType)
_ATOMS = (str, bytes, int, float, bool, type(None), Raw)


def memory_bytes(roots: Iterable[Any], seen: dict[Any, Any]) -> int:
    """The size of everything that can be reached from the roots and is not in `seen`; adds it to `seen`.

    `seen` has objects by their id and keeps them alive, because Python reuses the id of an object that is gone. Texts
    and numbers count once by their values: whether two equal ones are one object depends on the process, such as on
    whether a scenario came to it from another one.

    >>> memory_bytes([[1000, "text"]], {}) == sum(map(sys.getsizeof, ([1000, "text"], 1000, "text")))
    True
    >>> known = ["text" * 9]
    >>> memory_bytes([known], {id(known): known})
    0
    """
    total, todo = 0, list(roots)
    while todo:
        one = todo.pop()
        key = (type(one), bytes(one) if isinstance(one, Raw) else one) if _is_atom(one) else id(one)
        if key in seen or isinstance(one, _NOT_STATE):
            continue
        seen[key] = one
        # Python does not know how long raw messages are.
        total += sys.getsizeof(bytes(one) if isinstance(one, Raw) else one)
        if not _is_atom(one):
            todo += _references(one)
    return total


def _is_atom(one: Any) -> bool:
    """Whether it refers to nothing else; what can change, or has attributes, is itself and no other."""
    return type(one) in _ATOMS


def attributes_of(one: Any) -> dict[str, Any]:
    """An object's attributes, as a table of its own.

    As it is, Python may share a part of it between objects of one class, or not: that depends on what the process
    has done before.
    """
    return dict(vars(one).items())


def _references(one: Any) -> Iterator[Any]:
    """What an object refers to."""
    if isinstance(one, Mapping):
        yield from one
        yield from one.values()
    elif isinstance(one, (list, tuple, set, frozenset)) or type(one).__name__ == "deque":
        yield from one
    if hasattr(one, "__dict__"):
        yield attributes_of(one)
    for kind in type(one).__mro__:
        names = kind.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if hasattr(one, name) and name not in ("__dict__", "__weakref__"):
                yield getattr(one, name)
