"""What a trace holds, who wrote it, and what is missing: read from the footers of the files, not from the rows.

Rule: everything missing is reported. A killed writer, a missing or unreadable file, rows that were dropped: each is a
line of `complaints`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from runnel.quantities import SECOND
from runnel.trace.folder import Clock, Part, Statement
from runnel.trace.reader import Trace
from runnel.trace.schemas import TABLES

State = Literal["running", "ended", "killed"]


@dataclass(slots=True)
class TableSummary:
    """One table."""

    rows: int = 0
    files: int = 0
    bytes: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    dropped: int = 0  # rows for which there was no room
    failed: int = 0  # rows that could not be written

    def add(self, part: Part, rows: int, first_ns: int | None, last_ns: int | None) -> None:
        """Add one file."""
        self.rows += rows
        self.files += 1
        self.bytes += part.path.stat().st_size
        if first_ns is not None and last_ns is not None:
            self.first_ns = first_ns if self.first_ns is None else min(self.first_ns, first_ns)
            self.last_ns = last_ns if self.last_ns is None else max(self.last_ns, last_ns)


@dataclass(frozen=True, slots=True)
class WriterSummary:
    """One writer."""

    name: str
    state: State
    sample: int
    opened_ns: int
    flushed_ns: int
    files: int
    files_missing: int
    missing_s: float  # if killed: how much of its last time may be lost
    error: str


@dataclass(slots=True)
class Summary:
    """A summary of a whole trace."""

    clock: Clock
    tables: dict[str, TableSummary]
    writers: list[WriterSummary]
    unreadable: dict[str, str] = field(default_factory=dict)  # file → why
    complaints: list[str] = field(default_factory=list)


def summarise(trace: Trace) -> Summary:
    """Look at every file and every writer's statement."""
    # Statements first: a file that appears meanwhile is then one more than stated, never one missing.
    statements = trace.folder.statements()
    states = {statement.writer: _state(trace, statement) for statement in statements}
    summary = Summary(trace.clock, {table: TableSummary() for table in TABLES}, [])
    numbers: dict[str, set[int]] = {}
    for part in trace.folder.parts():
        numbers.setdefault(part.writer, set()).add(part.number)
        try:
            rows, first_ns, last_ns = measure(part)
        except (pa.ArrowInvalid, OSError) as error:
            summary.unreadable[str(part.path)] = str(error)
        else:
            summary.tables[part.table].add(part, rows, first_ns, last_ns)
    for statement in statements:
        seen = numbers.get(statement.writer, set())
        missing = sum(number not in seen for number in range(1, statement.parts + 1))
        state = states[statement.writer]
        summary.writers.append(
            WriterSummary(
                statement.writer,
                state,
                statement.sample,
                statement.opened_ns,
                statement.flushed_ns,
                len(seen),
                missing,
                statement.missing_ns / SECOND if state == "killed" else 0.0,
                statement.error,
            )
        )
        for table, count in statement.tables.items():
            if table in summary.tables:
                summary.tables[table].dropped += count.dropped
                summary.tables[table].failed += count.failed
    summary.complaints = _complaints(summary)
    return summary


def measure(part: Part) -> tuple[int, int | None, int | None]:
    """A file's rows and its first and last time, from its footer."""
    metadata = pq.read_metadata(part.path)
    return metadata.num_rows, *(times_of(metadata) or (None, None))


def times_of(metadata: pq.FileMetaData) -> tuple[int, int] | None:
    """The first and the last time of a file's rows; None if it has none, or its footer lacks statistics."""
    place = metadata.schema.names.index("time_ns")
    groups = [
        metadata.row_group(n).column(place).statistics for n in range(metadata.num_row_groups)
    ]
    if not groups or not all(known is not None and known.has_min_max for known in groups):
        return None
    return min(known.min for known in groups), max(known.max for known in groups)


def _state(trace: Trace, statement: Statement) -> State:
    if statement.farewell:
        return "ended"
    return "running" if trace.folder.is_alive(statement.writer) else "killed"


def _complaints(summary: Summary) -> list[str]:
    found = []
    for writer in summary.writers:
        if writer.state == "killed":
            found.append(
                f"writer {writer.name} ended without a farewell: at most {writer.missing_s:.1f} s are missing "
                f"after {writer.flushed_ns / SECOND:.3f} s"
            )
        if writer.files_missing:
            found.append(f"writer {writer.name}: {writer.files_missing:,} of its files are gone")
        if writer.error:
            found.append(f"writer {writer.name}: {writer.error}")
    for name, table in summary.tables.items():
        if table.dropped:
            found.append(f"{name}: {table.dropped:,} rows were dropped for want of room")
        if table.failed:
            found.append(f"{name}: {table.failed:,} rows could not be written")
    found += [f"{path} cannot be read: {why}" for path, why in summary.unreadable.items()]
    return found
