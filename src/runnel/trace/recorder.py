"""The recorder: where the hot path leaves what is to be traced. Nothing is converted here, and nothing blocks.

A chunk holds what one run of publications left behind: references to frames, and one time for all. `columns.py` makes
tables of chunks, on the writer's side.

Rules:
- One thread records and one thread takes; both sides meet in a deque, whose two ends may be used at once. Each
  counter is changed by one side alone.
- Bounded in rows and in bytes. What has no room is dropped whole and counted, by table; recording never waits.
- Sampling goes by the publication's counter, so all brokers keep the same publications, with all their deliveries.
- Frames are kept, not publications: those hold their decoded attributes, which take several times the room. And
  they are kept in tuples, not lists: the garbage collector soon finds that there is nothing to look after in a
  tuple of bytes, but looks after every list for ever.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from runnel.errors import InputError

Wanted = tuple[int, str]
"""Who wants a publication: a subscription and its client."""

ROW_BYTES = (
    160  # what a row takes besides the frame, roughly; also what a row of the smaller tables takes
)


NEVER = 2**63 - 1
BYTES_MAX = (
    1 << 30
)  # what waits may become one column, and Arrow counts the bytes of that in 31 bits


# Without the garbage collector's care: it holds frames and plain values, so it is never part of a cycle.
class Chunk(Struct, gc=False):
    """What was recorded in one go: rows of one table, of one broker, at one time.

    `frames` are publications as they were on the wire; for deliveries, `counts` says how often each was wanted, and
    `wanted` by whom. `row` is a row of a smaller table, without its time and broker.
    """

    table: str
    broker: str
    time_ns: int
    rows: int
    size: int
    frames: tuple[bytes, ...] = ()
    counts: tuple[int, ...] = ()
    wanted: tuple[Wanted, ...] = ()
    row: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class RecorderConfig:
    """The limits of a recorder."""

    rows_max: int = 1_000_000
    bytes_max: int = 256 << 20
    batch_rows: int = 100_000  # with this much waiting, the writer is woken
    batch_bytes: int = 32 << 20
    sample: int = 1  # one publication of so many

    def __post_init__(self) -> None:
        for name in ("rows_max", "bytes_max", "batch_rows", "batch_bytes", "sample"):
            if getattr(self, name) < 1:
                raise InputError(f"trace: {name} must be at least 1, not {getattr(self, name)}")
        if self.bytes_max > BYTES_MAX:
            raise InputError(
                f"trace: bytes_max must be at most {BYTES_MAX}, not {self.bytes_max}: "
                "let the writer flush more often"
            )


def _nobody() -> None:
    """Nobody is woken: somebody looks often enough."""


class Recorder:
    """What waits to be written.

    >>> recorder = Recorder()
    >>> recorder.add("control", "B1", 5, ("moved", "alice", "{}"))
    >>> [chunk.row for chunk in recorder.take()]
    [('moved', 'alice', '{}')]
    """

    def __init__(self, config: RecorderConfig | None = None) -> None:
        config = config or RecorderConfig()
        self.config = config
        self.sample = config.sample
        self.dropped: Counter[str] = Counter()  # rows, by table
        self.on_batch: Callable[[], None] = _nobody  # called when enough waits for a batch,
        self.batch_at = NEVER  # or when something is recorded at this time or later
        self._chunks: deque[Chunk] = deque()
        self._rows_in = self._bytes_in = 0  # changed by the side that records
        self._rows_out = self._bytes_out = 0  # this and the following by the side that takes
        self._make_room()

    def _make_room(self) -> None:
        """How far the side that records may go from here, and where a batch is full."""
        rows, size, config = self._rows_out, self._bytes_out, self.config
        self._rows_limit, self._bytes_limit = rows + config.rows_max, size + config.bytes_max
        self._rows_batch = min(rows + config.batch_rows, self._rows_limit)
        self._bytes_batch = min(size + config.batch_bytes, self._bytes_limit)

    # -- recording ------------------------------------------------------------------------------------

    def publications(self, broker: str, time_ns: int, frames: tuple[bytes, ...]) -> None:
        """A run of publications came in; the caller has sampled them."""
        rows = len(frames)
        size = (len(frames[0]) if rows == 1 else sum(map(len, frames))) + ROW_BYTES * rows
        self._put(Chunk("publications", broker, time_ns, rows, size, frames))

    def deliveries(
        self,
        broker: str,
        time_ns: int,
        frames: tuple[bytes, ...],
        counts: tuple[int, ...],
        wanted: tuple[Wanted, ...],
    ) -> None:
        """Publications went to clients: the first of `frames` to as many of `wanted` as the first of `counts` says …"""
        rows = len(wanted)
        size = len(frames[0]) if len(frames) == 1 else sum(map(len, frames))
        size += ROW_BYTES * rows
        self._put(Chunk("deliveries", broker, time_ns, rows, size, frames, counts, wanted))

    def add(self, table: str, broker: str, time_ns: int, row: tuple[Any, ...]) -> None:
        """A row of one of the smaller tables: its columns after time and broker."""
        self._put(Chunk(table, broker, time_ns, 1, ROW_BYTES + _weight(row), row=row))

    def control(self, broker: str, time_ns: int, kind: str, data: Mapping[str, Any]) -> None:
        """Something that a broker found worth telling, with whatever it says about it."""
        entity = next((str(data[key]) for key in _ENTITIES if key in data), "")
        detail = json.dumps(data, default=str, ensure_ascii=False, separators=(",", ":"))
        self.add("control", broker, time_ns, (kind, entity, detail))

    def _put(self, chunk: Chunk) -> None:
        rows_in, bytes_in = self._rows_in + chunk.rows, self._bytes_in + chunk.size
        # A batch is never larger than what there is room for, so within a batch there is room.
        if (
            rows_in < self._rows_batch
            and bytes_in < self._bytes_batch
            and chunk.time_ns < self.batch_at
        ):
            self._rows_in, self._bytes_in = rows_in, bytes_in
            self._chunks.append(chunk)
            return
        if rows_in > self._rows_limit or bytes_in > self._bytes_limit:
            self.dropped[chunk.table] += chunk.rows
        else:
            self._rows_in, self._bytes_in = rows_in, bytes_in
            self._chunks.append(chunk)
        self.on_batch()

    # -- taking ---------------------------------------------------------------------------------------

    @property
    def waiting_rows(self) -> int:
        """How many rows nobody has taken yet."""
        return self._rows_in - self._rows_out

    @property
    def waiting_bytes(self) -> int:
        """How much room they take, roughly."""
        return self._bytes_in - self._bytes_out

    def take(self) -> Sequence[Chunk]:
        """What waits now, to be written by the caller; it waits no more."""
        chunks = self._chunks
        taken = [chunks.popleft() for _ in range(len(chunks))]
        self._rows_out += sum(chunk.rows for chunk in taken)
        self._bytes_out += sum(chunk.size for chunk in taken)
        self._make_room()
        return taken


# Under which name a broker's notes say what they are about, the most telling first.
_ENTITIES = ("entity", "id", "client", "subscription", "advertisement", "peer")


def _weight(row: tuple[Any, ...]) -> int:
    return sum(len(value) for value in row if isinstance(value, (str, bytes)))
