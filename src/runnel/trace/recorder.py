"""The recorder: a queue of records for the writer. Nothing is converted here, and nothing blocks.

A chunk is what was recorded at once: a row of a small table, or the content of a sealed tape
(modules/recording/tape.py) with rows of the two large ones. `columns.py` makes tables of chunks, in the writer's
thread.

Rules:
- One thread records and one thread takes, through a deque, whose two ends may be used at the same time. Each counter
  is changed by one thread only.
- The queue is bounded in rows and bytes. A chunk without room is dropped and counted by table; recording never waits.
- Sampling goes by the publication's counter, so all brokers record the same publications, with all their deliveries.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import astuple, replace

from runnel.errors import InputError
from runnel.modules.recording.tape import HOPS_MAX, NEVER, PUBLICATIONS_MAX, Stretch, Tape
from runnel.quantities import HOUR, SECOND
from runnel.trace.chunks import Chunk, SealedTape, SmallRow
from runnel.trace.schemas import ControlRow, TableRow

ROW_BYTES = 160  # what a row of a small table takes besides its text, roughly
# What waits may become one column, and Arrow counts the bytes of that in 31 bits.
BYTES_MAX = 1 << 30


_AT_LEAST_ONE = "rows_max bytes_max batch_rows batch_bytes tape_ns sample".split()


@dataclass(frozen=True, slots=True)
class RecorderConfig:
    """The limits of a recorder."""

    rows_max: int = 1_000_000
    bytes_max: int = 256 << 20
    batch_rows: int = 250_000  # with this much waiting, the writer is woken
    batch_bytes: int = 32 << 20
    tape_ns: int = SECOND // 2  # how old what is on the tape may become
    sample: int = 1  # one publication of so many
    publications: bool = True  # whether publications are recorded,
    deliveries: bool = True  # and who got them

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise InputError(f"trace: {name} must be at least 1, not {getattr(self, name)}")
        if self.bytes_max > BYTES_MAX:
            raise InputError(
                f"trace: bytes_max must be at most {BYTES_MAX}, not {self.bytes_max}: "
                "let the writer flush more often"
            )


def _do_nothing() -> None:
    """Wake no writer: the default."""


class Recorder:
    """What waits to be written.

    >>> recorder = Recorder()
    >>> recorder.control("B1", 5, "moved", {"client": "alice"})
    >>> [(chunk.row.kind, chunk.row.entity) for chunk in recorder.take()]
    [('moved', 'alice')]
    """

    def __init__(self, config: RecorderConfig | None = None) -> None:
        config = config or RecorderConfig()
        self.config = config
        self.sample = config.sample
        self.wants_frames, self.wants_deliveries = config.publications, config.deliveries
        tape_rows = config.rows_max // 8  # it comes as one chunk: there is to be room for some
        self.tape = Tape(min(tape_rows, PUBLICATIONS_MAX), min(tape_rows, HOPS_MAX))
        self.dropped: Counter[str] = Counter()  # rows, by table
        self.call_on_batch(_do_nothing)
        self._chunks: deque[Chunk] = deque()
        self._rows_in = self._bytes_in = 0  # changed by the side that records
        self._rows_out = self._bytes_out = 0  # this and the following by the side that takes
        self._make_room()
        self.tape.add_consumer(self)

    def call_on_batch(self, on_batch: Callable[[], None], at: int = NEVER) -> None:
        """Set the function to call when a batch is full, or when something is recorded at this time or later."""
        self._on_batch = on_batch
        self.batch_at = at

    def _make_room(self) -> None:
        """Compute the limits of the recording thread: where the queue is full, and where a batch is."""
        rows, size, config = self._rows_out, self._bytes_out, self.config
        self._rows_limit, self._bytes_limit = rows + config.rows_max, size + config.bytes_max
        self._rows_batch = min(rows + config.batch_rows, self._rows_limit)
        self._bytes_batch = min(size + config.batch_bytes, self._bytes_limit)

    # -- recording ------------------------------------------------------------------------------------

    def add(self, row: TableRow) -> None:
        """Record a row of one of the small tables."""
        self._put(SmallRow(row.time_ns, 1, ROW_BYTES + _text_length(row), row))

    def control(self, broker: str, time_ns: int, kind: str, data: Mapping[str, Any]) -> None:
        """Record a row of the table `control`: something that a broker reported, with its data as JSON."""
        entity = next((str(data[key]) for key in _ENTITIES if key in data), "")
        detail = json.dumps(data, default=str, ensure_ascii=False, separators=(",", ":"))
        self.add(
            ControlRow(time_ns=time_ns, broker=broker, kind=kind, entity=entity, detail=detail)
        )

    def keep_until(self, time_ns: int) -> int:
        """When a tape that begins at this time is sealed: soon, and before the hour ends, since files are by hour."""
        return time_ns + min(self.config.tape_ns, HOUR - time_ns % HOUR)

    def receive(self, stretch: Stretch) -> None:
        """Take a sealed tape, and queue what is to be traced of it."""
        stretch = self._select_traced(stretch)
        records, deliveries = stretch.records, len(stretch.places)
        if not len(records):
            return
        publications = int(np.count_nonzero(records["from_client"]))
        size = records.nbytes + stretch.places.nbytes + stretch.frame_bytes
        rows, last = publications + deliveries, int(records["time_ns"][-1])
        self._put(SealedTape(last, rows, size, publications, deliveries, stretch))

    def _select_traced(self, stretch: Stretch) -> Stretch:
        """The part to be traced: a tape may hold more, for other consumers."""
        if self.sample != 1:
            stretch = stretch.select(stretch.records["counter"] % self.sample == 0)
        if self.wants_frames and self.wants_deliveries:
            return stretch
        stretch, records = replace(stretch), stretch.records.copy()
        stretch.records = records
        if not self.wants_frames:
            records["from_client"], stretch.frames, stretch.frame_bytes = False, (), 0
        if not self.wants_deliveries:
            records["count"], stretch.places = 0, stretch.places[:0]
        return stretch.select(records["from_client"] | (records["count"] > 0))

    def seal(self) -> None:
        """Seal the tape, so that its content is queued."""
        self.tape.seal()

    def _put(self, chunk: Chunk) -> None:
        rows_in, bytes_in = self._rows_in + chunk.rows, self._bytes_in + chunk.size
        # The limits of a batch are at most those of the queue, so within a batch there is room.
        if (
            rows_in < self._rows_batch
            and bytes_in < self._bytes_batch
            and chunk.time_ns < self.batch_at
        ):
            self._rows_in, self._bytes_in = rows_in, bytes_in
            self._chunks.append(chunk)
            return
        if rows_in > self._rows_limit or bytes_in > self._bytes_limit:
            self.dropped.update(dict(chunk.tables()))
        else:
            self._rows_in, self._bytes_in = rows_in, bytes_in
            self._chunks.append(chunk)
        self._on_batch()

    # -- taking ---------------------------------------------------------------------------------------

    @property
    def waiting_rows(self) -> int:
        """How many rows are queued."""
        return self._rows_in - self._rows_out

    @property
    def waiting_bytes(self) -> int:
        """How many bytes they take, roughly."""
        return self._bytes_in - self._bytes_out

    def take(self) -> Sequence[Chunk]:
        """Remove and return all queued chunks; the caller writes them."""
        chunks = self._chunks
        taken = [chunks.popleft() for _ in range(len(chunks))]
        self._rows_out += sum(chunk.rows for chunk in taken)
        self._bytes_out += sum(chunk.size for chunk in taken)
        self._make_room()
        return taken


# The keys of a report's data that may name its entity, the most specific first.
_ENTITIES = ("entity", "id", "client", "subscription", "advertisement", "peer")


def _text_length(row: TableRow) -> int:
    """Of all columns but time and broker."""
    return sum(len(value) for value in astuple(row)[2:] if isinstance(value, (str, bytes)))
