"""The tape: a buffer of the publications that were routed lately, which is sealed and handed to its consumers.

    Tape       what was routed since it was last sealed
    Stretch    the content of a sealed tape: publications, and the subscriptions that got each
    Consumer   gets sealed tapes: the recorder of a trace, the bit vectors of profiles

All brokers of a process that share a recorder share its tape: one buffer stays in the processor's cache, many do not.
For the same reason numbers are copied instead of keeping the broker's objects alive.

Rules:
- A publication is one record of fixed size: its header as it is on the wire, and what the broker adds to it. Hops are
  kept beside the records, and, if a consumer wants them, the frames of publications from clients. Nothing is looked up.
- Frames are kept, not `Publication` objects: those hold decoded attributes, which take several times the memory.
- `seal` looks up once which subscriptions got what, and every consumer gets the same stretch. Consumers must not change
  it, because they share its arrays. The tape must be sealed before an audience changes.
- A tape holds what at least one consumer wants; each consumer leaves out what it does not want.
- A tape is short, in bytes and in time; it must be sealed before anything is added at `old_at` or later.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain, compress
from math import gcd
from struct import Struct as Layout
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from runnel.modules.recording.audience import NOBODY, Audiences, Numbers, Subscribers
from runnel.wire import Publication
from runnel.wire.header import PUBLICATION

_HEADER_BYTES = PUBLICATION.size
# Packing a whole frame keeps its first bytes: the header.
_RECORD = Layout(f"={_HEADER_BYTES}sqi?q")
pack_record = _RECORD.pack
_HEADER = (
    "length tag options ttl hops scope flags"
    " advertisement counter published_ns name_bytes attributes_bytes"
)
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
NEVER = 2**63 - 1
_FRAMES_BYTES_MAX = 1 << 20
_MANY = 16  # from runs of this length on, NumPy is faster than a loop

Mask = NDArray[np.bool_]


class Stretch(Struct, gc=False):
    """The content of a sealed tape: publications that a client sent, or that went to clients.

    `frames` are the frames of those that clients sent, if a consumer of the tape wants frames. `places` are the places
    (`Subscribers`) of the subscriptions that got each publication, one publication after the other.
    """

    records: NDArray[Any]
    places: Numbers
    frames: tuple[bytes, ...]
    frame_bytes: int
    subscribers: Subscribers
    brokers: list[str]  # by number

    def select(self, wanted: Mask) -> Stretch:
        """The stretch with only these of its publications."""
        if wanted.all():
            return self
        frames = self.frames
        if frames:
            frames = tuple(compress(frames, wanted[self.records["from_client"]]))
        return Stretch(
            pick(self.records, wanted),
            self.places[np.repeat(wanted, self.records["count"])],
            frames,
            sum(map(len, frames)),
            self.subscribers,
            self.brokers,
        )


class Consumer(Protocol):
    """Gets sealed tapes. What it wants does not change."""

    sample: int  # it wants every n-th publication, by counter
    wants_frames: bool  # of the publications that clients sent
    wants_deliveries: bool

    def keep_until(self, time_ns: int) -> int:
        """When a tape that begins at this time must be sealed; NEVER if at any time."""
        ...

    def receive(self, stretch: Stretch) -> None:
        """Take the content of a sealed tape."""
        ...


class Tape:
    """See the top of the file. `sample` and `wants_…` are what its consumers want together."""

    def __init__(self, publications_max: int = PUBLICATIONS_MAX, hops_max: int = HOPS_MAX) -> None:
        self.audiences = Audiences()
        self.sample = 0
        self.wants_frames = self.wants_deliveries = False
        # It must be sealed before anything of this time or later is added; 0 if it is full.
        self.old_at = 0
        self.hops_max = hops_max
        self.records_max = publications_max * RECORD.itemsize
        self._consumers: list[Consumer] = []
        self._clear()

    def _clear(self) -> None:
        self.records = bytearray()
        self.hops = array("q")  # of the first publication, then of the second …
        self._frames: list[bytes] = []  # of publications from clients
        self._frame_bytes = 0
        self._counts: list[int] = []  # numbers of hops, for records that `_fill_headers` is to fill

    def add_consumer(self, consumer: Consumer) -> None:
        """Add a consumer, which gets the tape whenever it is sealed."""
        self.seal()
        self._consumers.append(consumer)
        self.sample = gcd(self.sample, consumer.sample)
        self.wants_frames |= consumer.wants_frames
        self.wants_deliveries |= consumer.wants_deliveries

    def begin(self, time_ns: int) -> None:
        """Seal the tape, and begin one that holds what is routed from this time on."""
        self.seal()
        self.old_at = min([consumer.keep_until(time_ns) for consumer in self._consumers])

    def add(
        self,
        broker: int,
        run: Sequence[Publication],
        hops: Sequence[list[int]],
        time_ns: int,
        from_client: bool,
    ) -> None:
        """Add a run of publications; `hops` has the next hops of each, in the same order."""
        keeps_frames = from_client and self.wants_frames
        if keeps_frames and len(run) >= _MANY:  # `_fill_headers` copies their headers later
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
        if keeps_frames:
            frames = [publication.raw for publication in run]
            self._frames += frames
            self._frame_bytes += sum(map(len, frames))
            if self._frame_bytes >= _FRAMES_BYTES_MAX:
                self.old_at = 0
        if len(self.records) >= self.records_max or len(self.hops) >= self.hops_max:
            self.old_at = 0

    def add_frame(self, frame: bytes) -> None:
        """Add the frame of a client's publication whose record was added without it."""
        self._frames.append(frame)
        self._frame_bytes += len(frame)
        if self._frame_bytes >= _FRAMES_BYTES_MAX:
            self.old_at = 0

    def seal(self) -> None:
        """Hand the content to all consumers, and empty the tape."""
        self.old_at = 0
        if self.records and (stretch := self._make_stretch()) is not None:
            for consumer in self._consumers:
                consumer.receive(stretch)

    def _make_stretch(self) -> Stretch | None:
        """The content of the tape, or None if none of it matters to consumers."""
        records = np.frombuffer(self.records, RECORD)
        if self._counts:
            _fill_headers(records, self._frames, self._counts)
        hops = np.array(self.hops, np.int64)
        # A tuple: the garbage collector would visit a list for as long as it waits.
        frames, frame_bytes = tuple(self._frames), self._frame_bytes
        self._clear()
        places = self.audiences.places(hops, records["broker"], records["count"])
        wanted = places != NOBODY
        if not wanted.all():
            places = places[wanted]
            about = np.repeat(np.arange(len(records)), records["count"])[wanted]
            records["count"] = np.bincount(about, minlength=len(records))
        records = pick(records, records["from_client"] | (records["count"] > 0))
        if not len(records):
            return None
        audiences = self.audiences
        return Stretch(
            records, places, frames, frame_bytes, audiences.subscribers, audiences.brokers
        )


def _fill_headers(records: NDArray[Any], frames: list[bytes], counts: list[int]) -> None:
    """Copy the headers of many frames at once into the blank records."""
    blank = records["length"] == 0
    theirs = blank[records["from_client"]]
    lengths = np.fromiter(map(len, frames), np.int64, len(frames))
    starts = np.cumsum(lengths) - lengths
    content = b"".join(frames)
    every = np.ndarray(len(content) - _HEADER_BYTES + 1, _HEADERS, content, strides=(1,))
    headers = np.ndarray(len(records), _HEADERS, records, strides=(RECORD.itemsize,))
    headers[blank] = every[starts[theirs]]
    records["count"][blank] = counts


def pick(records: NDArray[Any], wanted: Mask) -> NDArray[Any]:
    """Some of the records, copied as opaque bytes: NumPy is much slower field by field."""
    return records if wanted.all() else records.view(_OPAQUE)[wanted].view(RECORD)
