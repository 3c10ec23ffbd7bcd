"""The tape: what was routed lately, until it is sealed.

All brokers that share a recorder share its tape: what many write to by turns is in the processor's cache, what each
keeps for itself is not. For the same reason little is kept alive that brokers would throw away: numbers are copied.

Rules:
- A publication is one record of fixed size: its header as it is on the wire, and what the broker knows of it. Hops lie
  beside it, and the frames of those that entered here. Nothing is looked up.
- Frames are kept, not publications: those hold their decoded attributes, which take several times the room.
- `seal` makes a chunk of it, and finds out who got what. Whoever changes an audience seals before.
- A tape is short, in bytes and in time; whoever would add something from `old_at` on seals it before.
"""

from __future__ import annotations

from array import array
from itertools import chain
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runnel.trace.audience import NOBODY, Audiences
from runnel.trace.chunks import Sealed
from runnel.wire import Publication
from runnel.wire.header import PUBLICATION

_HEADER_BYTES = PUBLICATION.size
_RECORD = Struct(f"={_HEADER_BYTES}sqi?q")  # packing takes of a frame as much as there is room for
pack_record = _RECORD.pack
_HEADER = "length tag ttl hops flags advertisement counter published_ns name_bytes attributes_bytes"
_KNOWN = "time_ns broker from_client count"
RECORD = np.dtype(
    [
        *zip(_HEADER.split(), (f">{code}" for code in PUBLICATION.format[1:]), strict=True),
        *zip(_KNOWN.split(), ("i8", "i4", "?", "i8"), strict=True),
    ]
)
"""A record, with a publication's header as in wire/header.py; `count` is first of its hops, then of its deliveries."""

_HEADERS = np.dtype((np.void, _HEADER_BYTES))
_OPAQUE = np.dtype((np.void, RECORD.itemsize))

PUBLICATIONS_MAX = 4_096
HOPS_MAX = 4 * PUBLICATIONS_MAX
_FRAMES_BYTES_MAX = 1 << 20
_MANY = 16  # publications in a run: from there on it pays to do things for all of them at once


class Tape:
    """What was routed since it was last sealed.

    >>> from runnel.wire import make_publication
    >>> tape = Tape()
    >>> broker = tape.audiences.join("B1")
    >>> tape.add(broker.number, [make_publication(7, n, {"a": n}) for n in (1, 2)], [[], []], 5, True)
    >>> list(tape.seal().tables())
    [('publications', 2)]
    """

    def __init__(self, rows_max: int = HOPS_MAX) -> None:
        self.audiences = Audiences()
        self.old_at = (
            0  # nothing of this time or later belongs on it; 0 when there is no room either
        )
        self.hops_max = min(rows_max, HOPS_MAX)
        self.records_max = min(rows_max, PUBLICATIONS_MAX) * RECORD.itemsize
        self._clear()

    def _clear(self) -> None:
        self.records = bytearray()
        self.hops = array("q")  # those of the first publication, then those of the second …
        self._frames: list[bytes] = []  # of those that a client published
        self._frame_bytes = 0
        self._counts: list[int] = []  # of hops, for the records that are blank so far

    def add(
        self,
        broker: int,
        run: list[Publication],
        hops: list[list[int]],
        time_ns: int,
        from_client: bool,
    ) -> None:
        """A broker routed a run of publications, each to the hops in the same place."""
        if (
            from_client and len(run) >= _MANY
        ):  # their frames are kept: what they say is copied later
            self.records += pack_record(b"", time_ns, broker, True, 0) * len(run)
            self._counts += map(len, hops)
        else:
            self.records += b"".join(
                [
                    pack_record(publication.raw, time_ns, broker, from_client, len(each))
                    for publication, each in zip(run, hops)  # noqa: B905 - `strict` takes its time
                ]
            )
        self.hops.fromlist(list(chain.from_iterable(hops)))
        if from_client:  # of the others nobody is told what they say
            frames = [publication.raw for publication in run]
            self._frames += frames
            self._frame_bytes += sum(map(len, frames))
        if (
            len(self.records) >= self.records_max
            or len(self.hops) >= self.hops_max
            or self._frame_bytes >= _FRAMES_BYTES_MAX
        ):
            self.old_at = 0

    def seal(self) -> Sealed | None:
        """What the tape holds, if that makes any rows; it is empty again."""
        self.old_at = 0
        if not self.records:
            return None
        records = np.frombuffer(self.records, RECORD)
        if self._counts:
            _fill(records, self._frames, self._counts)
        hops = np.array(self.hops, np.int64)
        # Not a list: the collector of garbage would look after it for as long as it waits.
        frames, frame_bytes = tuple(self._frames), self._frame_bytes
        self._clear()
        places = self.audiences.places(hops, np.repeat(records["broker"], records["count"]))
        wanted = places != NOBODY
        if not wanted.all():
            places = places[wanted]
            about = np.repeat(np.arange(len(records)), records["count"])[wanted]
            records["count"] = np.bincount(about, minlength=len(records))
        kept = records["from_client"] | (records["count"] > 0)
        records = pick(records, kept)
        entered, left = int(np.count_nonzero(records["from_client"])), len(places)
        if not len(records):
            return None
        size = records.nbytes + places.nbytes + frame_bytes
        return Sealed(
            *(int(records["time_ns"][-1]), entered + left, size, entered, left),
            *(records, places, frames, self.audiences.subscribers, self.audiences.brokers),
        )


def _fill(records: NDArray[Any], frames: list[bytes], counts: list[int]) -> None:
    """Copy the headers of many frames at once into the records that are blank."""
    blank = records["length"] == 0
    theirs = blank[records["from_client"]]
    lengths = np.fromiter(map(len, frames), np.int64, len(frames))
    starts = np.cumsum(lengths) - lengths
    content = b"".join(frames)
    every = np.ndarray(len(content) - _HEADER_BYTES + 1, _HEADERS, content, strides=(1,))
    headers = np.ndarray(len(records), _HEADERS, records, strides=(RECORD.itemsize,))
    headers[blank] = every[starts[theirs]]
    records["count"][blank] = counts


def pick(records: NDArray[Any], wanted: NDArray[np.bool_]) -> NDArray[Any]:
    """Some of the records; each in one piece, as it takes NumPy much longer to go through their fields."""
    return records if wanted.all() else records.view(_OPAQUE)[wanted].view(RECORD)
