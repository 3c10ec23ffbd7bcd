"""Totals over many events for every subscription: how many match, their total amount, the first and the last time.

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
    """Five arrays of equal length: ids, each once in any order, and the totals of each."""

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
    """Sums up matches. The engine must not change between `add` and `take`."""

    def add(self, attributes: Mapping[str, Any], amount: int, at: int) -> None:
        """Add an event of this amount (its size, for example) at this time."""
        ...

    def add_packed(self, events: PackedEvents, rows: Any) -> list[int]:
        """Add the events of these rows (64-bit integers); returns the rows that need decoding, for `add`."""
        ...

    def take(self) -> Totals:
        """The totals of all events since the last call."""
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
        """Add an event of this amount at this time."""
        for id in self._engine.match(attributes):
            count, sum, first, last = self._totals.get(id, (0, 0, at, at))
            self._totals[id] = (count + 1, sum + amount, min(first, at), max(last, at))

    def add_packed(self, events: PackedEvents, rows: Any) -> list[int]:
        """Returns all rows: this engine does not read packed events."""
        return list(rows)

    def take(self) -> Totals:
        """The totals of all events since the last call."""
        rows = [(id, *total) for id, total in self._totals.items()]
        self._totals.clear()
        return Totals(*(array("q", column) for column in zip(*rows, strict=True))) if rows else NONE


NONE = Totals(*(array("q") for _ in range(5)))
