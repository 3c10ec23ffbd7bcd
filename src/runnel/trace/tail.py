"""The newest rows of a trace, over all tables, and those that are added later.

Only files that can hold one of the newest rows are read: their footers tell the times in them. A program that follows
a trace calls `more` repeatedly; each file is read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import nlargest
from pathlib import Path

import pyarrow as pa

from runnel.errors import InputError
from runnel.trace.folder import Part
from runnel.trace.reader import Row, Trace, dataset_of, plain_rows
from runnel.trace.schemas import TABLES, schema_of
from runnel.trace.summary import measure

TableAndRow = tuple[str, Row]
"""A table and one of its rows."""


class Tail:
    """The end of a trace: call `last` first, then `more` repeatedly."""

    def __init__(
        self,
        trace: Trace,
        tables: Sequence[str] = TABLES,
        brokers: Sequence[str] | None = None,
    ) -> None:
        for table in tables:
            schema_of(table)
        self._trace = trace
        self._tables = tables
        self._brokers = brokers
        self._seen: set[Path] = set()

    def last(self, count: int) -> list[TableAndRow]:
        """The newest rows, at most `count`, oldest first."""
        found: list[TableAndRow] = []
        parts = [(self._latest(part), part) for part in self._new_parts()]
        for latest_ns, part in sorted(parts, key=lambda pair: pair[0], reverse=True):
            if len(found) >= count and latest_ns < min(row["time_ns"] for _, row in found):
                break
            rows = self._rows(part)
            # Of equal times the later in a file are the newer; `nlargest` keeps the first of equals.
            found = nlargest(count, [*reversed(rows), *found], key=lambda told: told[1]["time_ns"])
        return sorted(found, key=_order)

    def read_new_rows(self) -> list[TableAndRow]:
        """The rows of files that were added since the last call, oldest first."""
        return sorted((told for part in self._new_parts() for told in self._rows(part)), key=_order)

    def _new_parts(self) -> list[Part]:
        parts = [
            part
            for table in self._tables
            for part in self._trace.folder.parts(table)
            if part.path not in self._seen
        ]
        self._seen.update(part.path for part in parts)
        return parts

    def _latest(self, part: Part) -> int:
        with _name_errors(part):
            _, _, last_ns = measure(part)
        return last_ns if last_ns is not None else 0

    def _rows(self, part: Part) -> list[TableAndRow]:
        with _name_errors(part):
            whole = dataset_of([part], schema_of(part.table)).to_table()
        return [
            (part.table, row)
            for batch in whole.to_batches()
            for row in plain_rows(batch)
            if self._brokers is None or row["broker"] in self._brokers
        ]


@contextmanager
def _name_errors(part: Part) -> Iterator[None]:
    """Turn Arrow's error about a file into an InputError that names it."""
    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{part.path}: cannot be read: {error}") from None


def _order(told: TableAndRow) -> tuple[int, int]:
    table, row = told
    return row["time_ns"], TABLES.index(table)
