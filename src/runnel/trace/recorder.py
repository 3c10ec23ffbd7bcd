"""The recorder: where what is to be traced waits for the writer. Nothing is converted here, and nothing blocks.

A chunk is what was recorded in one go: a row of a small table, or a stretch of the tape (tape.py) with rows of the two
large ones. `columns.py` makes tables of chunks, on the writer's side.

Rules:
- One thread records and one thread takes; both sides meet in a deque, whose two ends may be used at once. Each
  counter is changed by one side alone.
- Bounded in rows and in bytes. What has no room is dropped whole and counted, by table; recording never waits.
- Sampling goes by the publication's counter, so all brokers keep the same publications, with all their deliveries.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runnel.errors import InputError
from runnel.trace.chunks import Chunk, Row
from runnel.trace.tape import Tape

ROW_BYTES = 160  # what a row of a small table takes besides its text, roughly
NEVER = 2**63 - 1
BYTES_MAX = (
    1 << 30
)  # what waits may become one column, and Arrow counts the bytes of that in 31 bits


_AT_LEAST_ONE = "rows_max bytes_max batch_rows batch_bytes tape_ns sample".split()


@dataclass(frozen=True, slots=True)
class RecorderConfig:
    """The limits of a recorder."""

    rows_max: int = 1_000_000
    bytes_max: int = 256 << 20
    batch_rows: int = 250_000  # with this much waiting, the writer is woken
    batch_bytes: int = 32 << 20
    tape_ns: int = 500_000_000  # how old what is on the tape may become
    sample: int = 1  # one publication of so many

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
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
    >>> [row.values for row in recorder.take()]
    [('moved', 'alice', '{}')]
    """

    def __init__(self, config: RecorderConfig | None = None) -> None:
        config = config or RecorderConfig()
        self.config = config
        self.sample = config.sample
        self.tape = Tape(
            config.rows_max // 8
        )  # it comes as one chunk: there is to be room for some
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

    def add(self, table: str, broker: str, time_ns: int, row: tuple[Any, ...]) -> None:
        """A row of one of the smaller tables: its columns after time and broker."""
        self._put(Row(time_ns, 1, ROW_BYTES + _weight(row), broker, table, row))

    def control(self, broker: str, time_ns: int, kind: str, data: Mapping[str, Any]) -> None:
        """Something that a broker found worth telling, with whatever it says about it."""
        entity = next((str(data[key]) for key in _ENTITIES if key in data), "")
        detail = json.dumps(data, default=str, ensure_ascii=False, separators=(",", ":"))
        self.add("control", broker, time_ns, (kind, entity, detail))

    def seal(self) -> None:
        """Let what is on the tape wait with the rest."""
        if (sealed := self.tape.seal()) is not None:
            self._put(sealed)

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
            self.dropped.update(dict(chunk.tables()))
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
