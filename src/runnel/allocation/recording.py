"""What a broker remembers of deliveries: which publications each local subscription got, as bits.

    add        per run of publications: numbers are copied on a tape, nothing is looked up
    settle     per thousands of them: who got what, and the bits of all of them at once
    vectors    the bit vectors of a subscription, as profiles.py has them

Rules:
- A client with one subscription, which most are, is known to want what it gets, so its link's number is enough. Only
  for clients with several the table is asked, at once.
- A vector is a row of words; which one is found by its key, the place of its subscription and the number of its
  publisher, among the sorted keys of all.
- The vectors of one publisher shift together, when the newest of its publications that came by goes beyond their end:
  by whole words, and with as much room again behind them, so that it is rarely done. `vectors` cuts off what is
  beyond the paper's length. Once synchronised, they are those of profiles.py.
- Whoever changes what a link means settles before. Places, numbers and rows are used again, once nothing that is kept
  speaks of them (`_purge`); how many vectors there are is bounded.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runnel.allocation.bits import WORD, words_for
from runnel.broker.tables import Tables
from runnel.wire import Publication

TAPE_MAX = 4_096
HOPS_MAX = 8 * TAPE_MAX
VECTORS_MAX = 1 << 18
"""How many bit vectors there may be: of the default length, some 80 megabytes."""

NOBODY = -1
_RECORD = Struct("=qqqq")
_pack = _RECORD.pack
_FIELDS = np.dtype([(name, "i8") for name in ("advertisement", "counter", "hops", "size")])
_TAPE_BYTES_MAX = TAPE_MAX * _RECORD.size
_SHIFT = 32  # in a key, the place stands above the number
_NUMBER = (1 << _SHIFT) - 1
_ROWS_MIN = 64

Numbers = NDArray[np.int64]
_NONE = np.zeros(0, np.int64)


class Vector(NamedTuple):
    """A bit vector: bit i is the publication `first` + i."""

    advertisement: int
    first: int
    bits: int


class Sent(NamedTuple):
    """What a local publisher published since it was last asked for."""

    publications: int
    bytes: int
    last: int


@dataclass(slots=True)
class Stream:
    """A publisher that somebody here got something from; its vectors begin with the publication `base`."""

    number: int
    advertisement: int
    base: int
    newest: int


class Recording:
    """The profiles of one broker's subscriptions, in numbers."""

    def __init__(self, bits: int, vectors_max: int = VECTORS_MAX) -> None:
        self.bits = bits
        self.left_out = 0  # vectors for which there was no room, as often as they were wanted
        self._clear_tape()
        self._sent: dict[int, Sent] = {}
        # Subscriptions
        self._clients: dict[int, dict[int, int]] = {}  # link number → subscription → its place
        self._with_many = 0  # how many clients have several
        self._place_of_link = array("q")
        self._places: dict[int, int] = {}
        self._free_places: list[int] = []
        self._dead_places: list[int] = []
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

    def _clear_tape(self) -> None:
        self._records = bytearray()
        self._hops = array("q")

    # -- who is there ---------------------------------------------------------------------------------

    @property
    def subscriptions(self) -> list[int]:
        """Those of local clients."""
        return list(self._places)

    @property
    def publishers(self) -> list[int]:
        """Those that something was got from."""
        return list(self._streams)

    @property
    def is_empty(self) -> bool:
        """Whether there is no subscription."""
        return not self._places

    def subscribed(self, link: int, id: int) -> None:
        """A client subscribed."""
        self.settle()
        taken = len(self._places) + len(self._dead_places)
        place = self._free_places.pop() if self._free_places else taken
        self._places[id] = place
        mine = self._clients.setdefault(link, {})
        mine[id] = place
        self._with_many += len(mine) == 2
        self._point(link, mine)

    def unsubscribed(self, link: int, id: int) -> None:
        """A client's subscription is gone, and its profile with it."""
        self.settle()
        mine = self._clients[link]
        del mine[id]
        self._with_many -= len(mine) == 1
        if not mine:
            del self._clients[link]
        self._point(link, mine)
        self._dead_places.append(self._places.pop(id))

    def _point(self, link: int, mine: dict[int, int]) -> None:
        if link >= len(self._place_of_link):
            self._place_of_link.extend([NOBODY] * (link + 1 - len(self._place_of_link)))
        self._place_of_link[link] = next(iter(mine.values())) if len(mine) == 1 else NOBODY

    def forget_publisher(self, advertisement: int) -> None:
        """A publisher is gone, and what was got from it counts no more."""
        self.settle()
        self._sent.pop(advertisement, None)
        stream = self._streams.pop(advertisement, None)
        if stream is not None:
            del self._by_number[stream.number]
            self._dead_numbers.append(stream.number)

    # -- what is routed -------------------------------------------------------------------------------

    def add(
        self, tables: Tables, run: list[Publication], hops: list[list[int]], from_client: bool
    ) -> None:
        """A run of publications was routed, each to the hops in the same place."""
        if self._with_many:
            hops = [self._wanted(tables, *each) for each in zip(run, hops, strict=True)]
        sizes = [len(p.raw) for p in run] if from_client else repeat(0)
        self._records += b"".join(
            [
                _pack(p.advertisement, p.counter, len(to), size)
                for p, to, size in zip(run, hops, sizes)  # noqa: B905 - `strict` takes its time
            ]
        )
        self._hops.fromlist(list(chain.from_iterable(hops)))
        if len(self._records) >= _TAPE_BYTES_MAX or len(self._hops) >= HOPS_MAX:
            self.settle()

    def add_one(
        self, tables: Tables, publication: Publication, hops: list[int], from_client: bool
    ) -> None:
        """The same for one alone."""
        if self._with_many:
            hops = self._wanted(tables, publication, hops)
        size = len(publication.raw) if from_client else 0
        self._records += _pack(publication.advertisement, publication.counter, len(hops), size)
        self._hops.fromlist(hops)
        if len(self._records) >= _TAPE_BYTES_MAX or len(self._hops) >= HOPS_MAX:
            self.settle()

    def _wanted(self, tables: Tables, publication: Publication, hops: list[int]) -> list[int]:
        """Who of a publication's hops wants it, as places turned over."""
        known = [self._clients[hop] for hop in hops if hop in self._clients]
        found = [~place for mine in known if len(mine) == 1 for place in mine.values()]
        several: dict[int, int] = {}
        for mine in known:
            if len(mine) > 1:
                several |= mine
        if several:
            rows = tables.local_subscriptions(publication)
            found += [~several[row.id] for row in rows if row.id in several]
        return found

    # -- what comes of it -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Make bits of what is on the tape."""
        if not self._records:
            return
        records = np.frombuffer(self._records, _FIELDS)
        hops = np.array(self._hops, np.int64)
        self._clear_tape()
        self._purge()
        distinct, which = np.unique(records["advertisement"], return_inverse=True)
        self._count(records, distinct, which)
        places = np.where(hops < 0, ~hops, NOBODY)
        if len(self._place_of_link):
            links = np.frombuffer(self._place_of_link, np.int64)
            known = (hops >= 0) & (hops < len(links))
            places[known] = links[hops[known]]
        wanted = places != NOBODY
        if wanted.any():
            about = np.repeat(np.arange(len(records)), records["hops"])[wanted]
            self._deliver(places[wanted], distinct, which[about], records["counter"][about])

    def take_sent(self) -> dict[int, Sent]:
        """What local publishers have sent since this was last asked."""
        self.settle()
        sent, self._sent = self._sent, {}
        return sent

    def _count(self, records: Any, distinct: Numbers, which: Numbers) -> None:
        """What local publishers have sent."""
        mine = records["size"] > 0
        if not mine.any():
            return
        counts = np.bincount(which[mine], minlength=len(distinct))
        sizes, newest = np.zeros((2, len(distinct)), np.int64)
        np.add.at(sizes, which[mine], records["size"][mine])
        np.maximum.at(newest, which[mine], records["counter"][mine])
        for at in np.flatnonzero(counts).tolist():
            id = int(distinct[at])
            before = self._sent.get(id, Sent(0, 0, 0))
            self._sent[id] = Sent(
                before.publications + int(counts[at]),
                before.bytes + int(sizes[at]),
                max(before.last, int(newest[at])),
            )

    def _deliver(self, places: Numbers, distinct: Numbers, which: Numbers, ids: Numbers) -> None:
        """These subscriptions got these publications, each of the publisher that `which` says."""
        newest = np.full(len(distinct), NOBODY, np.int64)
        np.maximum.at(newest, which, ids)
        oldest = newest.copy()
        np.minimum.at(oldest, which, ids)
        bases, numbers = np.zeros((2, len(distinct)), np.int64)
        for at in np.flatnonzero(newest != NOBODY).tolist():
            stream = self._reached(int(distinct[at]), int(oldest[at]), int(newest[at]))
            bases[at], numbers[at] = stream.base, stream.number
        columns = ids - bases[which]
        keys = places << _SHIFT | numbers[which]
        rows = self._rows_of(keys, ids)
        counted = (rows != NOBODY) & (columns >= 0)  # not what is too old, or has no row
        if not counted.all():
            rows, columns = rows[counted], columns[counted]
        bits = np.left_shift(np.uint64(1), (columns % WORD).astype(np.uint64))
        np.bitwise_or.at(self._words.reshape(-1), rows * self._width + columns // WORD, bits)

    def _reached(self, advertisement: int, oldest: int, newest: int) -> Stream:
        """A publisher's stream, with room for its newest publication."""
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
        rows = self._found(keys)
        unknown = np.flatnonzero(rows == NOBODY)
        if len(unknown):
            new, first = np.unique(keys[unknown], return_index=True)
            taken = self._take_rows(len(new))
            new, first = new[: len(taken)], first[: len(taken)]
            self._firsts[taken] = ids[unknown[first]]
            at = np.searchsorted(self._keys, new)
            self._keys = np.insert(self._keys, at, new)
            self._rows = np.insert(self._rows, at, taken)
            rows[unknown] = self._found(keys[unknown])
        return rows

    def _found(self, keys: Numbers) -> Numbers:
        if not len(self._keys):
            return np.full(len(keys), NOBODY, np.int64)
        at = np.searchsorted(self._keys, keys)
        at[at == len(self._keys)] = 0
        return np.where(self._keys[at] == keys, self._rows[at], NOBODY)

    def _take_rows(self, count: int) -> list[int]:
        """Rows that are free; fewer, if there would be too many."""
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
        """What belongs to subscriptions and publishers that are gone is free again."""
        if not (self._dead_places or self._dead_numbers):
            return
        dead = np.isin(self._keys >> _SHIFT, self._dead_places)
        dead |= np.isin(self._keys & _NUMBER, self._dead_numbers)
        rows = self._rows[dead]
        self._words[rows] = 0
        self._free_rows += rows.tolist()
        self._keys, self._rows = self._keys[~dead], self._rows[~dead]
        self._free_places += self._dead_places
        self._free_numbers += self._dead_numbers
        self._dead_places, self._dead_numbers = [], []

    def vectors(self, id: int) -> Iterator[Vector]:
        """The bit vectors of a subscription; none if it is gone."""
        place = self._places.get(id)
        if place is None:
            return
        begin, end = np.searchsorted(self._keys, [place << _SHIFT, place + 1 << _SHIFT]).tolist()
        numbers = (self._keys[begin:end] & _NUMBER).tolist()
        for number, row in zip(numbers, self._rows[begin:end].tolist(), strict=True):
            stream = self._by_number.get(number)
            if stream is not None:
                first = max(int(self._firsts[row]), stream.newest - self.bits + 1)
                words = self._words[row].astype("<u8").tobytes()
                bits = int.from_bytes(words, "little") >> first - stream.base
                yield Vector(stream.advertisement, first, bits)
