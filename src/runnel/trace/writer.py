"""The writer: takes chunks from a recorder and writes them to files.

    Writer         flushes when it is called; in the simulator by the recorder, so one history gives one set of files
    WriterThread   the same in a thread of its own, for a node: at every interval, and when a batch is ready

Rules:
- A reader never sees half a file: written under a hidden name, brought to disk, renamed.
- A flush writes files first, then the statement that counts them. So a statement never counts a file that is not there.
- A statement is written at every interval, even if there are no rows. So the loss of a killed writer is bounded by the
  interval and the time that a tape may wait, and a reader can tell how much that is.
- A full disk costs rows, which are counted, and nothing else.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import pyarrow as pa
import pyarrow.parquet as pq

from runnel.errors import InputError
from runnel.modules.recording.tape import NEVER
from runnel.quantities import HOUR, SECOND
from runnel.trace.chunks import Chunk
from runnel.trace.columns import to_table
from runnel.trace.folder import (
    Clock,
    Folder,
    Part,
    Statement,
    TableCount,
    make_folder,
    sync_file,
    take_lock,
)
from runnel.trace.recorder import Recorder
from runnel.trace.schemas import SCHEMAS, VERSION

# Rows that are converted in one go: more would keep the broker waiting, and outgrow the cache.
PIECE_ROWS = 4_096
GROUP_ROWS = 8 * PIECE_ROWS  # that are written in one go, as a row group of the file
Counted = tuple[Chunk, int]
"""A chunk, and how many rows it has of the table in question."""

# The columns in which few values come back again and again; the others are not worth a dictionary inside the file.
_REPETITIVE = frozenset("broker client peer publisher kind event entity messages_in".split())
_INT = pa.int64()  # most of these differ little from row to row, and are written as differences
_NEVER_SOUGHT = frozenset("attributes selection filter detail".split())


@dataclass(frozen=True, slots=True)
class WriterConfig:
    """Where a writer writes, and how often."""

    directory: Path
    name: str  # of the writer: one that no other writer of this directory has or had
    clock: Clock
    flush_interval_ns: int = 5 * SECOND
    # Bring files to disk before they are seen, so that even a power cut tears none.
    sync: bool = True

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("trace: a writer needs a name")
        if self.flush_interval_ns < 1:
            raise InputError(
                f"trace: flush_interval_ns must be at least 1, not {self.flush_interval_ns}"
            )


class Writer:
    """Writes when `flush` is called; `close` states that nothing is missing.

    `now` is the trace's clock. `complain` is called when files cannot be written; without it, InputError is raised.
    """

    def __init__(
        self,
        config: WriterConfig,
        recorder: Recorder,
        now: Callable[[], int],
        complain: Callable[[str], None] | None = None,
    ) -> None:
        self.config = config
        self.recorder = recorder
        self.complain = complain
        self._now = now
        self.folder: Folder = make_folder(config.directory, config.clock)
        self._lock = take_lock(self.folder, config.name)
        self.folder.remove_leftovers()
        self.statement = Statement(
            writer=config.name,
            sample=recorder.sample,
            flush_interval_ns=config.flush_interval_ns,
            opened_ns=now(),
            flushed_ns=now(),
            lag_ns=recorder.config.tape_ns,
            tables={},
        )
        self._write_statement()

    def flush_when_due(self) -> None:
        """Let the recorder call `flush`: at every interval, and when a batch is full."""
        self.recorder.call_on_batch(self.flush, self._now() + self.config.flush_interval_ns)

    def flush(self) -> None:
        """Write what was recorded so far."""
        began = self._now()
        if self.recorder.batch_at != NEVER:
            self.recorder.call_on_batch(self.flush, began + self.config.flush_interval_ns)
        by_place: dict[tuple[str, int], list[Counted]] = {}
        for chunk in self.recorder.take():
            for table, rows in chunk.tables():
                place = by_place.setdefault((table, chunk.time_ns // HOUR), [])
                place.append((chunk, rows))
        for (table, hour), found in sorted(by_place.items(), key=lambda item: item[0]):
            self._write_or_count(table, hour, found)
        statement = self.statement
        statement.flushed_ns = began - statement.lag_ns
        for table, dropped in sorted(self.recorder.dropped.items()):
            self._count(table).dropped = dropped
        self._write_statement()
        statement.flush_took_ns = max(statement.flush_took_ns, self._now() - began)

    def close(self) -> None:
        """Write what is left, and state that nothing is missing."""
        if self._lock.closed:
            return
        self.recorder.call_on_batch(lambda: None)
        self.statement.lag_ns = 0  # everything recorded has been queued
        self.flush()
        self.statement.farewell = True
        self._write_statement()
        self._lock.close()

    # -- inside ---------------------------------------------------------------------------------------

    def _count(self, table: str) -> TableCount:
        return self.statement.tables.setdefault(table, TableCount())

    def _write_or_count(self, table: str, hour: int, chunks: list[Counted]) -> None:
        rows = sum(rows for _, rows in chunks)
        part = self.folder.part(table, hour, self.config.name, self.statement.parts + 1)
        temporary = part.path.with_name(f".{part.path.name}.tmp")
        try:
            self._write(part, temporary, (to_table(table, piece) for piece in _pieces(chunks)))
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            self._count(table).failed += rows
            self._report_failure(f"{rows:,} rows of {table} are lost: {_reason(error)}")
        else:
            self.statement.parts = part.number
            self._count(table).rows += rows

    def _write(self, part: Part, temporary: Path, pieces: Iterator[pa.Table]) -> None:
        """Write each piece before the next is made, while it is in the processor's cache."""
        part.path.parent.mkdir(parents=True, exist_ok=True)
        about = {
            "runnel.version": str(VERSION),
            "runnel.table": part.table,
            "runnel.writer": part.writer,
            "runnel.part": str(part.number),
        }
        schema = SCHEMAS[part.table].with_metadata(about)
        with pq.ParquetWriter(
            temporary,
            schema,
            compression="snappy",  # a quarter larger than with zstd, for two thirds of the time
            use_dictionary=[name for name in schema.names if name in _REPETITIVE],
            column_encoding={f.name: "DELTA_BINARY_PACKED" for f in schema if f.type == _INT},
            write_statistics=[name for name in schema.names if name not in _NEVER_SOUGHT],
        ) as file:
            for piece in pieces:
                file.write_table(piece)
        if self.config.sync:
            sync_file(temporary)
        temporary.rename(part.path)

    def _write_statement(self) -> None:
        try:
            self.folder.write_statement(self.statement, sync=self.config.sync)
        except OSError as error:
            self._report_failure(
                f"the statement of {self.config.name} cannot be renewed: {_reason(error)}"
            )

    def _report_failure(self, what: str) -> None:
        self.statement.error = what
        message = f"trace: {self.config.directory}: {what}"
        if self.complain is None:
            raise InputError(f"{message}: make room there, or choose another directory")
        self.complain(message)


class WriterThread:
    """A writer in a thread of its own. The thread ends with `stop`, or with the process."""

    def __init__(self, writer: Writer) -> None:
        if writer.complain is None:
            raise InputError("trace: a writer in a thread must be told where to complain")
        self.writer = writer
        self._complain = writer.complain
        self._wake = Event()
        self._stopping = False
        self._thread = Thread(target=self._run, name=f"trace {writer.config.name}", daemon=True)
        writer.recorder.call_on_batch(self._batch_ready)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self, within_s: float = 10.0) -> bool:
        """Write what is left and end the thread; False if that took too long."""
        self._stopping = True
        self._wake.set()
        self._thread.join(within_s)
        return self.writer.statement.farewell

    def _batch_ready(self) -> None:
        if not self._wake.is_set():
            self._wake.set()

    def _run(self) -> None:
        interval_s = self.writer.config.flush_interval_ns / SECOND
        try:
            began = monotonic()
            while not self._stopping:
                self._wake.wait(max(0.0, began + interval_s - monotonic()))
                self._wake.clear()
                began = monotonic()
                if not self._stopping:
                    self.writer.flush()
            self.writer.close()
        except Exception:
            # The broker lives on without a trace: the recorder counts what is dropped.
            self._complain(f"trace: the writer ended by a bug:\n{traceback.format_exc()}")


def _pieces(chunks: list[Counted]) -> Iterator[list[Chunk]]:
    """Chunks in groups of about PIECE_ROWS rows."""
    piece: list[Chunk] = []
    size = 0
    for chunk, rows in chunks:
        piece.append(chunk)
        size += rows
        if size >= PIECE_ROWS:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
