"""Matching: who wants this event?

`make_engine()` gives the fastest engine this install has.

>>> from runnel.language import parse
>>> engine = make_engine()
>>> engine.add(1, parse("symbol = 'YHOO' AND volume > 300000"))
>>> engine.add(2, parse("volume < 1000 OR symbol LIKE 'Y%'"))
>>> sorted(engine.match({"symbol": "YHOO", "volume": 500_000}))
[1, 2]
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Literal

from runnel.errors import InputError
from runnel.matching import engine
from runnel.matching.covering import Covering, Intersecting
from runnel.matching.engine import BatchMatches, Engine, Matches
from runnel.matching.index import Index
from runnel.matching.poset import Poset


def _load_compiled() -> tuple[
    type[Engine] | None, Callable[[array[int], array[int]], list[int]], str
]:
    """The compiled engine and the compiled `distinct`, or why there are none."""
    try:
        from runnel.matching import _compiled
    except ImportError as error:  # no C++ compiler when Runnel was installed
        return None, engine.distinct, str(error)
    return _compiled.CompiledEngine, _compiled.distinct, ""


_compiled, distinct, _why_not = _load_compiled()

EngineName = Literal["auto", "compiled", "index"]


def make_engine(name: EngineName = "auto") -> Engine:
    """A new engine: `compiled`, `index` (pure Python), or `auto` for the fastest there is."""
    if name == "index" or (name == "auto" and _compiled is None):
        return Index()
    if name not in ("auto", "compiled"):
        raise InputError(f"there is no engine {name!r}; choose auto, compiled or index")
    if _compiled is None:
        raise InputError(engine_note())
    return _compiled()


def engine_note() -> str:
    """Which engine `auto` is, in words for a person."""
    if _compiled is not None:
        return "compiled engine"
    return (
        "pure-Python engine (slower): the compiled one was not built; "
        f"with a C++ compiler there, install again ({_why_not})"
    )


__all__ = [
    "BatchMatches",
    "Covering",
    "Engine",
    "Index",
    "Intersecting",
    "Matches",
    "Poset",
    "distinct",
    "engine_note",
    "make_engine",
]
