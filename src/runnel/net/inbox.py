"""The inbox of a broker whose matcher is busy: data wait their turn, everything else is passed on at once.

A broker handles what it is given at once. So code that imitates a slow matcher must hold back what arrives meanwhile:
`node/slow.py` on real nodes, and the simulated world. Both use this inbox, so they agree on what overtakes.

Rules:
- Data (publications, and what must stay in order with them: the lane DATA) wait in the order in which they arrived,
  over all connections. Monitoring, handshakes and acknowledgements do not wait, as they do not on links.
- The broker is told at once that a peer has sent something, even if all of it waits: otherwise the peer would be taken
  for dead.
- A chunk may hold frames of both kinds, so the inbox cuts it into frames and waits for the end of an incomplete one.
- A disconnection waits behind what the peer sent. If the broker itself closes a connection, what waits of it is
  forgotten: it was not acknowledged, so the peer still has it.
- The windows of links and the credit of clients bound how much may wait.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from struct import Struct

from runnel.broker.events import Disconnected, Event, FramesArrived
from runnel.wire.header import FRAME, FRAME_BYTES_MAX, LENGTH_BYTES, PUBLICATION_TAG
from runnel.wire.registry import REGISTRY, Lane

_LENGTH = Struct(">I")


@dataclass(slots=True)
class Waiting:
    """A waiting event; arrived bytes are kept as frames, so that they can be taken one by one."""

    conn: int
    event: Event
    frames: deque[bytes] = field(default_factory=deque)


class Inbox:
    """See the top of the file."""

    def __init__(self) -> None:
        self.publications = 0  # that wait
        self.waiting_bytes = 0
        self._waiting: deque[Waiting] = deque()
        self._waiting_of: Counter[int] = Counter()  # by connection
        self._begun: dict[int, bytes] = {}  # connection → the beginning of a frame

    def __bool__(self) -> bool:
        """Whether something waits."""
        return bool(self._waiting)

    @property
    def begins_with_publication(self) -> bool:
        """Whether the next event is, or soon holds, a publication."""
        return bool(self._waiting) and any(map(_is_publication, self._waiting[0].frames))

    def lets_pass(self, event: Event) -> bool:
        """Whether an event may be passed on as it is: nothing waits, and it ends where a frame ends."""
        if self._waiting:
            return False
        return type(event) is not FramesArrived or (
            event.conn not in self._begun and _is_whole(event.chunk)
        )

    def put(self, event: Event) -> Event | None:
        """Put an event in; returns the part of it that the broker must handle at once, if any."""
        if type(event) is FramesArrived:
            return FramesArrived(event.conn, self._put_frames(event.conn, event.chunk))
        if type(event) is Disconnected:
            self._begun.pop(event.conn, None)
            if self._waiting_of[event.conn]:
                self._wait(Waiting(event.conn, event))
                return None
        return event

    def put_last(self, event: Event) -> None:
        """Let an event wait behind everything that waits now."""
        self._wait(Waiting(0, event))

    def take(self, publications_max: int = 1 << 30) -> tuple[Event, int]:
        """Take the next event, with at most so many publications, and return it with their number."""
        first = self._waiting[0]
        count, taken = 0, []
        while first.frames and count < publications_max:
            taken.append(first.frames.popleft())
            count += _is_publication(taken[-1])
        if not first.frames:
            self._waiting.popleft()
            self._waiting_of[first.conn] -= 1
        if not taken:
            return first.event, 0
        self.publications -= count
        chunk = taken[0] if len(taken) == 1 else b"".join(taken)
        self.waiting_bytes -= len(chunk)
        return FramesArrived(first.conn, chunk), count

    def forget(self, conn: int) -> None:
        """Forget what waits of a connection that the broker has closed."""
        self._begun.pop(conn, None)
        if not self._waiting_of.pop(conn, 0):
            return
        for one in self._waiting:
            if one.conn == conn:
                self.publications -= sum(map(_is_publication, one.frames))
                self.waiting_bytes -= sum(map(len, one.frames))
        self._waiting = deque(one for one in self._waiting if one.conn != conn)

    # -- inside ---------------------------------------------------------------------------------------

    def _wait(self, one: Waiting) -> None:
        self._waiting.append(one)
        self._waiting_of[one.conn] += 1

    def _put_frames(self, conn: int, chunk: bytes) -> bytes:
        """Let the data frames of a chunk wait, and return the other frames."""
        chunk = self._begun.pop(conn, b"") + chunk
        at_once: list[bytes] = []
        data: deque[bytes] = deque()
        start, end = 0, len(chunk)
        while end - start >= FRAME.size:
            length, tag = FRAME.unpack_from(chunk, start)
            stop = start + LENGTH_BYTES + length
            if not 0 < length <= FRAME_BYTES_MAX - LENGTH_BYTES:
                stop = end  # malformed: the broker will report it in its turn
            elif stop > end:
                break
            is_data = REGISTRY.lane_of_tag(tag) is Lane.DATA
            (data if is_data else at_once).append(chunk[start:stop])
            start = stop
        if start < end:
            self._begun[conn] = chunk[start:]
        if data:
            self.publications += sum(map(_is_publication, data))
            self.waiting_bytes += sum(map(len, data))
            self._wait(Waiting(conn, FramesArrived(conn, b""), data))
        return b"".join(at_once)


def _is_publication(frame: bytes) -> bool:
    return frame[LENGTH_BYTES] == PUBLICATION_TAG


def _is_whole(chunk: bytes) -> bool:
    """Whether a chunk that begins with a frame ends with one."""
    start, end, length_at = 0, len(chunk), _LENGTH.unpack_from
    while end - start >= LENGTH_BYTES:
        start += LENGTH_BYTES + length_at(chunk, start)[0]
    return start == end
