"""The bit vectors of a broker: which publications each local subscription got.

    receive    takes a sealed tape (modules/recording/tape.py) and sets the bits of thousands of publications at once
    vectors    the bit vectors of a subscription

Rules:
- A vector is a row of a matrix of words. Its key is the slot of its subscription and the number of its publisher; the
  row is found by binary search among the sorted keys.
- The vectors of one publisher are shifted together, when its newest publication lies beyond their end: by whole words.
  A row has twice the room that is needed, so this is rare. `vectors` cuts off what exceeds the paper's length.
- The tape is sealed before a publisher is forgotten; the recording seals it when subscriptions change. Slots, numbers
  and rows are reused once nothing refers to them (`_purge`); the number of vectors is bounded.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from runnel.bits import WORD, words_for
from runnel.modules.recording.audience import NOBODY, Numbers, Subscribers
from runnel.modules.recording.module import Recording
from runnel.modules.recording.tape import NEVER, Stretch
from runnel.wire.header import LENGTH_BYTES

VECTORS_MAX = 1 << 18
"""How many bit vectors there may be: of the default length, some 80 megabytes."""

_SHIFT = 32  # in a key, the slot stands above the number
_NUMBER = (1 << _SHIFT) - 1
_ROWS_MIN = 64

_NONE = np.zeros(0, np.int64)


class Vector(NamedTuple):
    """A bit vector: bit i is the publication `first` + i."""

    advertisement: int
    first: int
    bits: int


class SentCounts(NamedTuple):
    """What a local publisher published since it was last asked for."""

    publications: int
    bytes: int
    last: int


@dataclass(slots=True)
class Stream:
    """A publisher of which a local subscription got something; its vectors begin with the publication `base`."""

    number: int
    advertisement: int
    base: int
    newest: int


class Vectors:
    """The bit vectors of one broker's subscriptions, and what its publishers sent; a consumer of its recording."""

    sample = 1
    wants_frames = False
    wants_deliveries = True

    def __init__(self, recording: Recording, bits: int, vectors_max: int = VECTORS_MAX) -> None:
        self.bits = bits
        self.left_out = 0  # how often there was no room for a vector
        self._recording = recording
        recording.add_consumer(self)
        self._sent: dict[int, SentCounts] = {}
        # Subscriptions
        self._slots: dict[int, int] = {}
        self._free_slots: list[int] = []
        self._dead_slots: list[int] = []
        self._subscribers = Subscribers()  # the table whose places `_slot_at` maps
        # By place; NOBODY for a subscription that is gone or not this broker's.
        self._slot_at = array("q")
        # Publishers
        self._streams: dict[int, Stream] = {}
        self._by_number: dict[int, Stream] = {}
        self._free_numbers: list[int] = []
        self._dead_numbers: list[int] = []
        # Vectors
        self._vectors_max = vectors_max
        self._width = 2 * words_for(bits)
        self._keys, self._rows = _NONE, _NONE
        self._free_rows: list[int] = []
        self._words = np.zeros((0, self._width), np.uint64)
        self._firsts = _NONE

    # -- who is there ---------------------------------------------------------------------------------

    @property
    def subscriptions(self) -> list[int]:
        """The subscriptions of local clients."""
        return list(self._slots)

    @property
    def publishers(self) -> list[int]:
        """The publishers of which local subscriptions got something."""
        return list(self._streams)

    def add_subscription(self, id: int) -> None:
        """A client subscribed."""
        taken = len(self._slots) + len(self._dead_slots)
        self._slots[id] = self._free_slots.pop() if self._free_slots else taken

    def forget_subscription(self, id: int) -> None:
        """A client's subscription is gone, and its vectors with it."""
        self._dead_slots.append(self._slots.pop(id))

    def forget_publisher(self, advertisement: int) -> None:
        """A publisher is gone: its vectors are dropped."""
        self._recording.seal()
        self._sent.pop(advertisement, None)
        stream = self._streams.pop(advertisement, None)
        if stream is not None:
            del self._by_number[stream.number]
            self._dead_numbers.append(stream.number)

    # -- what is delivered ----------------------------------------------------------------------------

    def keep_until(self, time_ns: int) -> int:
        """A tape may be of any age: it is sealed before vectors are read."""
        return NEVER

    def receive(self, stretch: Stretch) -> None:
        """Take a sealed tape; only this broker's publications matter."""
        if len(stretch.brokers) > 1:
            stretch = stretch.select(stretch.records["broker"] == self._recording.number)
        records = stretch.records
        if not len(records):
            return
        self._purge()
        counters = records["counter"].astype(np.int64)  # the wire is big-endian, NumPy is not
        distinct, which = np.unique(records["advertisement"].astype(np.int64), return_inverse=True)
        self._count_sent(records, distinct, which, counters)
        if len(stretch.places):
            counts = records["count"]
            got = counts > 0
            if not got.all():
                which, counters, counts = which[got], counters[got], counts[got]
            self._deliver(self._slots_of(stretch), distinct, which, counters, counts)

    def _slots_of(self, stretch: Stretch) -> Numbers:
        """The slots of the subscriptions that got something, by their places in the audience."""
        subscribers = stretch.subscribers
        if subscribers is not self._subscribers:  # all subscriptions have new places
            self._subscribers, self._slot_at = subscribers, array("q")
        for id in subscribers.ids[len(self._slot_at) :]:
            self._slot_at.append(self._slots.get(id, NOBODY))
        slots: Numbers = np.frombuffer(self._slot_at, np.int64)[stretch.places]
        return slots

    def take_sent(self) -> dict[int, SentCounts]:
        """What local publishers have sent since the last call."""
        self._recording.seal()
        sent, self._sent = self._sent, {}
        return sent

    def _count_sent(
        self, records: Any, distinct: Numbers, which: Numbers, counters: Numbers
    ) -> None:
        """Count what local publishers have sent."""
        mine = records["from_client"]
        if not mine.any():
            return
        counts = np.bincount(which[mine], minlength=len(distinct))
        sizes, newest = np.zeros((2, len(distinct)), np.int64)
        np.add.at(sizes, which[mine], records["length"][mine].astype(np.int64) + LENGTH_BYTES)
        np.maximum.at(newest, which[mine], counters[mine])
        for at in np.flatnonzero(counts).tolist():
            id = int(distinct[at])
            before = self._sent.get(id, SentCounts(0, 0, 0))
            self._sent[id] = SentCounts(
                before.publications + int(counts[at]),
                before.bytes + int(sizes[at]),
                max(before.last, int(newest[at])),
            )

    def _deliver(
        self, slots: Numbers, distinct: Numbers, which: Numbers, ids: Numbers, counts: Numbers
    ) -> None:
        """Set bits: publication `ids[i]` of publisher `distinct[which[i]]` went to `counts[i]` of the slots."""
        newest = np.full(len(distinct), NOBODY, np.int64)
        np.maximum.at(newest, which, ids)
        oldest = newest.copy()
        np.minimum.at(oldest, which, ids)
        bases, numbers = np.zeros((2, len(distinct)), np.int64)
        for at in np.flatnonzero(newest != NOBODY).tolist():
            stream = self._advance_stream(int(distinct[at]), int(oldest[at]), int(newest[at]))
            bases[at], numbers[at] = stream.base, stream.number
        columns = np.repeat(ids - bases[which], counts)
        keys = slots << _SHIFT | np.repeat(numbers[which], counts)
        rows = self._rows_of(keys, np.repeat(ids, counts))
        counted = (rows != NOBODY) & (columns >= 0)  # not those that are too old, or have no row
        if not counted.all():
            rows, columns = rows[counted], columns[counted]
        bits = np.left_shift(np.uint64(1), (columns % WORD).astype(np.uint64))
        np.bitwise_or.at(self._words.reshape(-1), rows * self._width + columns // WORD, bits)

    def _advance_stream(self, advertisement: int, oldest: int, newest: int) -> Stream:
        """A publisher's stream, shifted if need be to have room for its newest publication."""
        stream = self._streams.get(advertisement)
        if stream is None:
            taken = len(self._streams) + len(self._dead_numbers)
            number = self._free_numbers.pop() if self._free_numbers else taken
            stream = Stream(number, advertisement, oldest, newest)
            self._streams[advertisement] = self._by_number[number] = stream
        stream.newest = max(stream.newest, newest)
        if stream.newest - stream.base >= self._width * WORD:
            words = (stream.newest - self.bits + 1 - stream.base) // WORD
            stream.base += words * WORD
            rows = self._rows[self._keys & _NUMBER == stream.number]
            if words < self._width:
                self._words[rows, :-words] = self._words[rows, words:]
            self._words[rows, max(0, self._width - words) :] = 0
        return stream

    # -- rows -----------------------------------------------------------------------------------------

    def _rows_of(self, keys: Numbers, ids: Numbers) -> Numbers:
        """The rows of these keys; NOBODY where there is no room for one."""
        rows = self._find_rows(keys)
        unknown = np.flatnonzero(rows == NOBODY)
        if len(unknown):
            new, first = np.unique(keys[unknown], return_index=True)
            taken = self._take_rows(len(new))
            new, first = new[: len(taken)], first[: len(taken)]
            self._firsts[taken] = ids[unknown[first]]
            at = np.searchsorted(self._keys, new)
            self._keys = np.insert(self._keys, at, new)
            self._rows = np.insert(self._rows, at, taken)
            rows[unknown] = self._find_rows(keys[unknown])
        return rows

    def _find_rows(self, keys: Numbers) -> Numbers:
        if not len(self._keys):
            return np.full(len(keys), NOBODY, np.int64)
        at = np.searchsorted(self._keys, keys)
        at[at == len(self._keys)] = 0
        return np.where(self._keys[at] == keys, self._rows[at], NOBODY)

    def _take_rows(self, count: int) -> list[int]:
        """Take free rows; fewer than asked for if the limit is reached."""
        more = min(count - len(self._free_rows), self._vectors_max - len(self._words))
        if more > 0:
            begin = len(self._words)
            room = min(max(more, begin, _ROWS_MIN), self._vectors_max - begin)
            self._words = np.concatenate([self._words, np.zeros((room, self._width), np.uint64)])
            self._firsts = np.concatenate([self._firsts, np.zeros(room, np.int64)])
            self._free_rows += reversed(range(begin, begin + room))
        taken = [self._free_rows.pop() for _ in range(min(count, len(self._free_rows)))]
        self.left_out += count - len(taken)
        return taken

    def _purge(self) -> None:
        """Free the slots, numbers and rows of subscriptions and publishers that are gone."""
        if not (self._dead_slots or self._dead_numbers):
            return
        dead = np.isin(self._keys >> _SHIFT, self._dead_slots)
        dead |= np.isin(self._keys & _NUMBER, self._dead_numbers)
        rows = self._rows[dead]
        self._words[rows] = 0
        self._free_rows += rows.tolist()
        self._keys, self._rows = self._keys[~dead], self._rows[~dead]
        self._free_slots += self._dead_slots
        self._free_numbers += self._dead_numbers
        self._dead_slots, self._dead_numbers = [], []

    def vectors(self, id: int) -> Iterator[Vector]:
        """The bit vectors of a subscription; none if it is gone."""
        slot = self._slots.get(id)
        if slot is None:
            return
        begin, end = np.searchsorted(self._keys, [slot << _SHIFT, slot + 1 << _SHIFT]).tolist()
        numbers = (self._keys[begin:end] & _NUMBER).tolist()
        for number, row in zip(numbers, self._rows[begin:end].tolist(), strict=True):
            stream = self._by_number.get(number)
            if stream is not None:
                # The first that came may have been older than what is kept by then.
                first = max(int(self._firsts[row]), stream.newest - self.bits + 1, stream.base)
                words = self._words[row].astype("<u8").tobytes()
                bits = int.from_bytes(words, "little") >> first - stream.base
                yield Vector(stream.advertisement, first, bits)
