"""What many events come to for every subscription: how many it wants, how much that is, the first and the last.

`engine.tally()` gives one. The compiled engine counts slices of its index instead of matches (`native/tally.hpp`);
this is the plain definition, for any engine.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from runnel.matching.engine import Engine


class Totals(NamedTuple):
    """Five arrays of one length: ids, each once in no promised order, and what events came to for each."""

    ids: array[int]
    counts: array[int]
    amounts: array[int]
    firsts: array[int]
    lasts: array[int]


class PackedEvents(NamedTuple):
    """Many events as columns: the maps of their attributes in msgpack, one after the other, amounts and times.

    Buffers: `data` of bytes, the others of 64-bit integers; event i is data[edges[i]:edges[i + 1]].
    """

    data: Any
    edges: Any
    amounts: Any
    times: Any


class Tally(Protocol):
    """Events are added, totals are taken. The engine must not change in between."""

    def add(self, attributes: Mapping[str, Any], amount: int, at: int) -> None:
        """An event of this amount (its size, say) at this time."""
        ...

    def add_packed(self, events: PackedEvents, rows: Any) -> list[int]:
        """Those of these rows (64-bit integers) that can be read as they are; the others are handed back, for add()."""
        ...

    def take(self) -> Totals:
        """What all events since the last time came to."""
        ...


class PlainTally:
    """A tally of any engine.

    >>> from runnel.language import parse
    >>> from runnel.matching.index import Index
    >>> engine = Index(); engine.add(7, parse("a > 1"))
    >>> tally = PlainTally(engine)
    >>> for time, a in enumerate((1, 2, 3)): tally.add({"a": a}, 10, time)
    >>> [column.tolist() for column in tally.take()]
    [[7], [2], [20], [1], [2]]
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._totals: dict[int, tuple[int, int, int, int]] = {}

    def add(self, attributes: Mapping[str, Any], amount: int, at: int) -> None:
        """An event of this amount at this time."""
        for id in self._engine.match(attributes):
            count, sum, first, last = self._totals.get(id, (0, 0, at, at))
            self._totals[id] = (count + 1, sum + amount, min(first, at), max(last, at))

    def add_packed(self, events: PackedEvents, rows: Any) -> list[int]:
        """All are handed back: decoding is not for an engine in Python."""
        return list(rows)

    def take(self) -> Totals:
        """What all events since the last time came to."""
        rows = [(id, *total) for id, total in self._totals.items()]
        self._totals.clear()
        return Totals(*(array("q", column) for column in zip(*rows, strict=True))) if rows else NONE


NONE = Totals(*(array("q") for _ in range(5)))
