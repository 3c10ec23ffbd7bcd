"""The elements of the recorder's queue: a row of a small table, or a sealed tape with rows of the two large ones.

Chunks hold arrays and plain values, so they are never part of a cycle, and the garbage collector may ignore them.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from runnel.modules.recording.tape import Stretch
from runnel.trace.schemas import TableRow


class RecordedChunk(Struct, gc=False):
    """What was recorded at once: the number of rows, their size in bytes, and the latest time among them."""

    time_ns: int
    rows: int
    size: int


class SmallRow(RecordedChunk):
    """One row of a small table."""

    row: TableRow

    def tables(self) -> Iterator[tuple[str, int]]:
        """The one table."""
        yield self.row.table, 1


class SealedTape(RecordedChunk):
    """The content of a tape (modules/recording/tape.py), all in one hour; it gives rows of two tables."""

    publications: int
    deliveries: int
    stretch: Stretch

    def tables(self) -> Iterator[tuple[str, int]]:
        """Publications and deliveries, if there are any."""
        if self.publications:
            yield "publications", self.publications
        if self.deliveries:
            yield "deliveries", self.deliveries


Chunk = SmallRow | SealedTape
"""Either; `tables` names the tables that it has rows of, and how many."""
