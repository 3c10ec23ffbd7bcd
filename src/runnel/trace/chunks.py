"""What waits to be written: a row of a small table, or a stretch of a tape with the rows of two large ones.

Chunks hold arrays and plain values, so they are never part of a cycle, and the collector of garbage need not look.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from numpy.typing import NDArray

from runnel.trace.audience import Numbers, Subscribers


class Recorded(Struct, gc=False):
    """What was recorded in one go: how many rows, the bytes that they take, and the latest time among them."""

    time_ns: int
    rows: int
    size: int


class Row(Recorded):
    """One row of a small table; `values` are its columns after time and broker."""

    broker: str
    table: str
    values: tuple[Any, ...]

    def tables(self) -> Iterator[tuple[str, int]]:
        """The one table."""
        yield self.table, 1


class Sealed(Recorded):
    """A stretch of a tape, all in one hour.

    `records` are its publications (tape.py), `frames` are of those among them that clients published, and `places` are
    those of the subscriptions that each was delivered to, one publication after the other.
    """

    publications: int
    deliveries: int
    records: NDArray[Any]
    places: Numbers
    frames: tuple[bytes, ...]
    subscribers: Subscribers
    brokers: list[str]  # by number

    def tables(self) -> Iterator[tuple[str, int]]:
        """Publications and deliveries, if there are any."""
        if self.publications:
            yield "publications", self.publications
        if self.deliveries:
            yield "deliveries", self.deliveries


Chunk = Row | Sealed
"""Either; `tables` names the tables that it has rows of, and how many."""
