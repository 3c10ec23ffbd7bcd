"""Links: what makes a broken connection lose nothing while both processes live.

A link is the lasting tie to a peer (a neighbour broker, a client, or a session's broker); connections come
and go under it. Rules:

- Frames are counted, per lane and direction, not numbered: both sides agree on "the 57th data frame".
  What was sent is kept until the peer has acknowledged it; an acknowledgement says how many frames
  `handle` has returned from.
- A handshake is one Hello each way, carrying a token for this run of the link, the peer's token as far as
  known, and how much has arrived. The side that was dialled decides: both tokens fit → *resumed*, each
  replays what the other has not got; otherwise → *fresh*, with a new token: counts start at 0, nothing is
  replayed, and whoever holds routes over the link must purge and exchange them again.
- At most `window_bytes` are sent and unacknowledged, so that a queue builds up here, where it can be seen
  and bounded, and not in the socket. Monitoring traffic overtakes data in that queue.
- Beyond `queue_bytes_max` the oldest waiting publications go, counted; nothing else is ever dropped. If
  what may not be dropped overflows, the link is dead.
- An acknowledgement may carry a watermark (broker/watermarks.py). It overtakes data, so it says behind how many data
  frames it holds, and counts when these have been received.

The link does no I/O and no routing; it only says what to write. It keeps its counters itself: others read its
fields and change them by calling it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runnel.broker.kinds import kind_of
from runnel.quantities import SECOND
from runnel.wire import PROTOCOL, Ack, Hello, Lane, Message, Missed, encode, lane_of
from runnel.wire.header import PUBLICATION, PUBLICATION_TAG
from runnel.wire.messages import LOSS_IDS_MAX

if TYPE_CHECKING:
    from runnel.broker.access import PeerStanding

TAG_AT = 4  # where a frame has its tag
_ADVERTISEMENT, _TIME = 7, 9  # where `PUBLICATION` has them


@dataclass(frozen=True, slots=True)
class LinkConfig:
    """The limits of one link."""

    heartbeat_ns: int = SECOND
    resume_timeout_ns: int = 10 * SECOND  # how long a broken link is kept for its peer to come back
    window_bytes: int = 1 << 20
    queue_bytes_max: int = 64 << 20
    ack_every: int = 16  # frames; fewer wait for the next tick, or for a quarter of a window


@dataclass(slots=True)
class Drops:
    """Publications that were dropped, or discarded: how many, from when to when, whose."""

    count: int = 0
    since_ns: int = 0
    until_ns: int = 0
    counts: dict[int, int] = field(default_factory=dict)  # by advertisement

    def add(self, frame: bytes) -> None:
        """Note a publication."""
        header = PUBLICATION.unpack_from(frame)
        self._add(header[_ADVERTISEMENT], 1, header[_TIME], header[_TIME])

    def merge(self, other: Drops) -> None:
        """Add publications that were dropped before or after."""
        for advertisement, count in other.counts.items():
            self._add(advertisement, count, other.since_ns, other.until_ns)

    def parts(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """How many there are of which publishers, as many publishers at a time as fit into a message."""
        every = tuple(self.counts)
        for start in range(0, len(every), LOSS_IDS_MAX):
            ids = every[start : start + LOSS_IDS_MAX]
            yield sum(map(self.counts.__getitem__, ids)), ids

    def _add(self, advertisement: int, count: int, since_ns: int, until_ns: int) -> None:
        self.since_ns = min(self.since_ns, since_ns) if self.count else since_ns
        self.until_ns = max(self.until_ns, until_ns)
        self.count += count
        self.counts[advertisement] = self.counts.get(advertisement, 0) + count


class LaneQueue:
    """One lane of one direction: what waits, and what was sent but not acknowledged."""

    __slots__ = ("acknowledged", "received", "unacknowledged", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[bytes] = deque()
        self.unacknowledged: deque[bytes] = deque()
        self.acknowledged = 0  # frames of ours that the peer has
        self.received = 0  # frames of the peer that we have

    @property
    def count(self) -> int:
        """How many frames of ours there have been in this run of the link, but for those that were dropped."""
        return self.acknowledged + len(self.unacknowledged) + len(self.waiting)


class Link:
    """One side of a link.

    `kind` (its name) and `name` are the peer's; `number` is the small int that routing tables use for it; `outbox` is
    where the link enters itself when it has something to write.
    """

    # A simulated world has tens of thousands of links, and beyond thirty attributes a dict would cost each of them.
    __slots__ = (
        "_acked_data",
        "_acked_monitor",
        "_announced",
        "_bytes_to_ack",
        "_handed_due",
        "_handed_mark",
        "_peer_has_acked",
        "_unproven",
        "ack_due",
        "acked_at",
        "address",
        "config",
        "congested",
        "congested_here",
        "conn",
        "credit",
        "data",
        "down_since",
        "dropped",
        "dropped_uncounted",
        "dropped_untold",
        "drops",
        "established",
        "flying_bytes",
        "handed_ns",
        "heard_at",
        "holding",
        "is_client",
        "is_neighbour",
        "is_routed",
        "kind",
        "monitor",
        "name",
        "number",
        "outbox",
        "peer_token",
        "promised_ns",
        "publications_in",
        "publications_out",
        "standing",
        "taken_bytes",
        "token",
        "waiting_bytes",
        "watermark_ns",
    )

    def __init__(
        self,
        name: str,
        kind: str,
        number: int,
        token: int,
        config: LinkConfig,
        now: int,
        outbox: dict[Link, None],
    ) -> None:
        self.name = name
        self.kind = kind
        self.is_client = kind_of(kind).is_client
        self.is_neighbour = kind_of(kind).is_neighbour
        self.is_routed = kind_of(kind).is_routed
        self.number = number
        self.config = config
        self.outbox = outbox
        self.address = ""  # where the peer listens, if it is a broker and has said so
        self.token = token
        self.peer_token = 0  # 0: no run of the link is known that could be resumed
        self.conn = 0  # the connection it runs on; 0 while it is down
        self.established = False  # both Hellos are through
        self.down_since = now
        self.heard_at = now
        self.acked_at = now
        self.congested = False  # the peer says that it is
        self.congested_here = False  # what we say to the peer; see `say_congested`
        self.credit = 0  # publications the peer may have outstanding (we are the edge) or we may
        self.dropped_uncounted = 0  # publications dropped, and not yet in the broker's meter
        self.taken_bytes = 0  # by the last `take`
        self.ack_due = False
        self.holding = False  # what arrives is not acknowledged, so that the peer's window fills
        self.standing: PeerStanding | None = None  # what the peer may do; None: what its kind may
        self.publications_in = 0  # since the link was made
        self.publications_out = 0
        self._reset()

    def _reset(self) -> None:
        self.monitor = LaneQueue()
        self.data = LaneQueue()
        self.waiting_bytes = 0
        self.flying_bytes = 0  # sent and not acknowledged
        self._bytes_to_ack = 0
        self.dropped = 0  # publications dropped for want of room in this run of the link
        self.dropped_untold = 0  # … of which the peer has not been told
        self.drops = Drops()  # the same, in detail; only for neighbours
        self.watermark_ns = 0  # the peer's; 0: none yet in this run of the link
        self.promised_ns = 0  # ours, as the peer was told last
        self._announced = 0  # ours, for the next acknowledgement; 0: the peer knows it
        self.handed_ns = 0  # what we sent that was published before is where it belongs; 0: unknown
        self._handed_due = 0  # the same of what the peer sent, for the next acknowledgement
        # How many data frames have what was published before a time: when a client has acknowledged them, it has that.
        self._handed_mark: tuple[int, int] | None = None
        # How many data frames come before a watermark of the peer, that watermark, and what it has handed on; these
        # count when the frames are here.
        self._unproven: tuple[int, int, int] | None = None
        self._acked_data = 0  # frames of the peer that we have acknowledged
        self._acked_monitor = 0
        self._peer_has_acked = False

    # -- handshake ------------------------------------------------------------------------------------

    def hello(self, kind: str, name: str, *, resume: bool = True, generation: int = 0) -> bytes:
        """Our Hello. `resume=False` refuses what the peer might remember."""
        return encode(
            Hello(
                protocol=PROTOCOL,
                kind=kind,
                name=name,
                token=self.token,
                peer_token=self.peer_token if resume else 0,
                received_data=self.data.received,
                received_monitor=self.monitor.received,
                credit=self.credit,
                generation=generation,
            )
        )

    def fits(self, hello: Hello) -> bool:
        """Whether both sides mean the same run of the link."""
        return hello.token == self.peer_token != 0 and hello.peer_token == self.token

    @property
    def may_resume(self) -> bool:
        """Whether the peer may still know this run of the link, so that nothing is lost if it comes back."""
        return self.peer_token != 0

    def has_outgrown(self, hello: Hello) -> bool:
        """Whether a client's Hello was written before this run of the link began, and was under way since.

        It is from the client that we know, who has spoken to us in this run, but the Hello knows nothing of the run:
        it comes by a connection that the client has given up. To start anew for it would cost what the link has.
        """
        has_spoken = self.data.received > 0 or self._peer_has_acked
        return (
            self.is_client
            and has_spoken
            and hello.token == self.peer_token
            and not self.fits(hello)
        )

    @property
    def in_doubt(self) -> int:
        """How many publications were sent and not acknowledged: the peer may have had them."""
        return sum(frame[TAG_AT] == PUBLICATION_TAG for frame in self.data.unacknowledged)

    def unsent(self) -> Drops:
        """The publications that were never sent to the peer: if it does not come back, they are lost."""
        unsent = Drops()
        for frame in self.data.waiting:
            if frame[TAG_AT] == PUBLICATION_TAG:
                unsent.add(frame)
        return unsent

    def unacknowledged(self) -> Drops:
        """The publications that were sent to the peer, which may or may not have had them."""
        sent = Drops()
        for frame in self.data.unacknowledged:
            if frame[TAG_AT] == PUBLICATION_TAG:
                sent.add(frame)
        return sent

    def start_fresh(self, peer_token: int, token: int | None = None) -> None:
        """A new run of the link: nothing of the old one is replayed."""
        self._reset()
        self.peer_token = peer_token
        if token is not None:
            self.token = token

    def resume(self, hello: Hello) -> None:
        """Continue: what the peer has not received goes out again, in order, before anything else."""
        self._acknowledge(self.data, hello.received_data)
        self._acknowledge(self.monitor, hello.received_monitor)
        for lane in (self.data, self.monitor):
            lane.waiting.extendleft(reversed(lane.unacknowledged))
            lane.unacknowledged.clear()
        self.waiting_bytes += self.flying_bytes
        self.flying_bytes = 0
        self._drop_oldest_publications()  # what was under way may be too much on top of what waits

    def begin_handshake(self, now: int) -> None:
        """A connection was made, and our Hello goes out: the peer has as long to answer as it may be silent."""
        self.heard_at = now

    def forget_peer(self) -> None:
        """The peer has left: this run of the link cannot be resumed."""
        self.peer_token = 0

    def up(self, conn: int, now: int) -> None:
        """The handshake is through."""
        self.conn = conn
        self.established = True
        self.heard_at = self.acked_at = now

    def down(self, now: int) -> None:
        """The connection is gone; the link waits for another."""
        if self.established:  # or it was down all along, and the connection came to nothing
            self.down_since = now
        self.conn = 0
        self.established = False

    # -- sending --------------------------------------------------------------------------------------

    def send(self, frame: bytes, lane: Lane = Lane.DATA) -> None:
        """Queue a frame; `take` says what to write when."""
        self.outbox[self] = None
        self.waiting_bytes += len(frame)
        (self.data if lane is Lane.DATA else self.monitor).waiting.append(frame)
        if self.waiting_bytes > self.config.queue_bytes_max:
            self._drop_oldest_publications()

    def send_publications(self, frames: list[bytes]) -> None:
        """Queue a run of publications; the same as `send` for each, in one go."""
        self.outbox[self] = None
        self.publications_out += len(frames)
        self.waiting_bytes += sum(map(len, frames))
        self.data.waiting.extend(frames)
        if self.waiting_bytes > self.config.queue_bytes_max:
            self._drop_oldest_publications()

    def send_at_once(self, frame: bytes) -> bool:
        """Take a publication past the queue, if nothing is in its way; then the caller writes it now.

        The same as `send_publications` and then `take`, for a link that is idle: most are, most of the time.
        """
        flying = self.flying_bytes + len(frame)
        if (
            self.waiting_bytes
            or self.ack_due
            or not self.established
            or self.congested
            or flying > self.config.window_bytes
            or self.dropped_untold
        ):
            return False
        self.flying_bytes = flying
        self.publications_out += 1
        self.data.unacknowledged.append(frame)
        return True

    def send_first(self, frame: bytes) -> None:
        """Queue a frame before the data that waits."""
        self.outbox[self] = None
        self.waiting_bytes += len(frame)
        self.data.waiting.appendleft(frame)
        if self.waiting_bytes > self.config.queue_bytes_max:
            self._drop_oldest_publications()

    def tell_missed(self) -> None:
        """Say how many publications the peer missed since it was last told.

        Before what waits: a client that moves is gone when it has the fence that stands there.
        """
        count, self.dropped_untold = self.dropped_untold, 0
        self.send_first(encode(Missed(count)))

    def take_untold_drops(self) -> Drops:
        """The publications that were dropped and that the peer, a neighbour, has not been told of: it is told now."""
        drops, self.drops = self.drops, Drops()
        self.dropped_untold = 0
        return drops

    def take_drops(self) -> int:
        """How many publications were dropped since this was last asked."""
        count, self.dropped_uncounted = self.dropped_uncounted, 0
        return count

    def send_message(self, message: Message) -> None:
        """Queue a message in the lane that its kind belongs to."""
        self.send(encode(message), lane_of(message))

    @property
    def overflowed(self) -> bool:
        """Even without publications there is too much: the link is dead."""
        return self.waiting_bytes > self.config.queue_bytes_max

    @property
    def has_room(self) -> bool:
        """Something can be sent at once."""
        return self.established and self.flying_bytes < self.config.window_bytes

    @property
    def is_half_full(self) -> bool:
        """Half of what may wait does: a publisher should pause, so that nothing need be dropped."""
        return self.waiting_bytes > self.config.queue_bytes_max // 2

    def _drop_oldest_publications(self) -> None:
        waiting, kept = self.data.waiting, []
        while waiting and self.waiting_bytes > self.config.queue_bytes_max:
            frame = waiting.popleft()
            if frame[TAG_AT] == PUBLICATION_TAG:
                self.waiting_bytes -= len(frame)
                self.dropped += 1
                self.dropped_untold += 1
                self.dropped_uncounted += 1
                if self.is_neighbour:
                    self.drops.add(frame)
            else:
                kept.append(frame)
        waiting.extendleft(reversed(kept))

    def take(self, now: int) -> list[bytes]:
        """The frames to write now: what the window admits, then an acknowledgement that is due."""
        frames: list[bytes] = []
        if not self.established:
            return frames
        flying_before = self.flying_bytes
        if self.waiting_bytes:
            if self.monitor.waiting:
                self._take_lane(self.monitor, frames)
            if self.data.waiting:
                self._take_lane(self.data, frames)
        self.taken_bytes = self.flying_bytes - flying_before
        if self.ack_due:
            self.ack_due = False
            self.acked_at = now
            frames.append(self._ack())
            self.taken_bytes += len(frames[-1])
        return frames

    def _take_lane(self, lane: LaneQueue, frames: list[bytes]) -> None:
        waiting = lane.waiting
        room = self.config.window_bytes - self.flying_bytes
        size = 0
        if self.waiting_bytes <= room:  # the usual case: everything goes
            size = sum(map(len, waiting)) if self.monitor.waiting else self.waiting_bytes
            frames += waiting
            lane.unacknowledged += waiting
            waiting.clear()
        else:
            # The last frame may exceed the room, or one larger than the window would never go out.
            while waiting and size < room:
                frame = waiting.popleft()
                size += len(frame)
                frames.append(frame)
                lane.unacknowledged.append(frame)
        self.waiting_bytes -= size
        self.flying_bytes += size

    def grant(self, credit: int) -> None:
        """So many publications the peer may have outstanding; the next acknowledgement says so."""
        self.credit = credit

    def accept_credit(self, credit: int) -> None:
        """So many publications we may have outstanding: the peer's Hello or acknowledgement has said so."""
        self.credit = credit

    def say_congested(self, congested: bool) -> None:
        """Whether the next acknowledgement says that it is congested here."""
        self.congested_here = congested

    def _ack(self) -> bytes:
        if not self.holding:
            self._bytes_to_ack = 0
            self._acked_data, self._acked_monitor = self.data.received, self.monitor.received
        watermark_ns, self._announced = self._announced, 0
        # Of what the peer may still send nothing has been handed on.
        handed_ns, self._handed_due = min(self._handed_due, self.watermark_ns), 0
        return encode(
            Ack(
                data=self._acked_data,
                monitor=self._acked_monitor,
                credit=self.credit,
                congested=self.congested_here,
                watermark_ns=watermark_ns,
                sent=self.data.count + self._frames_to_tell if watermark_ns else 0,
                handed_ns=handed_ns if watermark_ns else 0,
            )
        )

    @property
    def _frames_to_tell(self) -> int:
        """How many frames will tell the peer what was dropped; they go before what waits, and before a watermark."""
        return max(1, len([*self.drops.parts()])) if self.dropped_untold else 0

    def expect_watermark(self, watermark_ns: int) -> None:
        """The peer has published nothing in this run of the link before this time; it will say more."""
        self.watermark_ns = watermark_ns

    def promise_watermark(self, watermark_ns: int) -> None:
        """All that was published before this time and goes over this link has been queued: the peer is told.

        0: nothing new can be promised; what was promised stands.
        """
        if watermark_ns:
            self._announced = self.promised_ns = watermark_ns
            self.handed_ns = min(self.handed_ns, watermark_ns)

    def report_handed(self, handed_ns: int) -> None:
        """What came over this link, and was published before this time, is where it belongs: the peer is told."""
        self._handed_due = handed_ns

    def note_handed(self, watermark_ns: int) -> None:
        """All that was published before this time has been queued for this client; it is handed on when it has that."""
        data = self.data
        if not (data.waiting or data.unacknowledged):
            self.handed_ns, self._handed_mark = watermark_ns, None
            return
        if self._handed_mark is not None and data.acknowledged >= self._handed_mark[0]:
            self.handed_ns, self._handed_mark = self._handed_mark[1], None
        if self._handed_mark is None:
            self._handed_mark = data.count, watermark_ns

    def hold(self, holding: bool) -> None:
        """Acknowledge nothing that arrives, so that the peer's window fills; or go on."""
        self.holding = holding

    def heartbeat(self, now: int) -> None:
        """Acknowledge what has waited for more; say that we live, if nothing else said so lately."""
        owed = self._owed and not self.holding
        if self.established and (owed or now - self.acked_at >= self.config.heartbeat_ns):
            self.owe_ack()  # also if something else was sent lately: only this carries a watermark

    @property
    def _owed(self) -> int:
        """How many frames of the peer we have not acknowledged."""
        return self.data.received + self.monitor.received - self._acked_data - self._acked_monitor

    # -- receiving ------------------------------------------------------------------------------------

    def count(self, message: Message) -> None:
        """A message was received: its lane has one more to acknowledge."""
        lane = lane_of(message)
        if lane is Lane.DATA:
            self.data.received += 1
        elif lane is Lane.MONITOR:
            self.monitor.received += 1

    def count_publications(self, count: int) -> None:
        """So many publications were received."""
        self.data.received += count
        self.publications_in += count

    def count_refused(self, count: int) -> None:
        """So many publications were received, and are not taken."""
        self.data.received += count

    def heard(self, size: int, now: int) -> None:
        """A chunk was taken in. What is counted is acknowledged, when there is enough of it."""
        self.heard_at = now
        self._bytes_to_ack += size
        if self.holding:
            return
        # `_owed` and `owe_ack`, written out: this is for every chunk
        owed = self.data.received - self._acked_data + self.monitor.received - self._acked_monitor
        if owed >= self.config.ack_every or (
            owed and self._bytes_to_ack >= self.config.window_bytes // 4
        ):
            self.ack_due = True
            self.outbox[self] = None

    def owe_ack(self) -> None:
        """An acknowledgement goes out with the next frames."""
        self.ack_due = True
        self.outbox[self] = None

    def acknowledge(self, ack: Ack) -> bool:
        """The peer has this much; room for more. Returns whether its watermark is its first, or has fallen."""
        if self.waiting_bytes or self.congested != ack.congested:
            self.outbox[self] = None
        self.congested = ack.congested
        self._peer_has_acked = True
        self._acknowledge(self.data, ack.data)
        self._acknowledge(self.monitor, ack.monitor)
        if not ack.watermark_ns and self._unproven is None:
            return False
        before = self.watermark_ns
        self._take_watermark(ack)
        return self.watermark_ns < before or before == 0 < self.watermark_ns

    def _take_watermark(self, ack: Ack) -> None:
        """A watermark counts when all that it speaks of has been received; a lower one than before at once."""
        received, said = self.data.received, ack.watermark_ns
        if self._unproven is not None and received >= self._unproven[0]:
            _, self.watermark_ns, handed_ns = self._unproven
            self._unproven = None
            self._take_handed(handed_ns)
        if not said:
            return
        is_here = received >= ack.sent
        if is_here or ack.handed_ns < self.handed_ns:
            self._take_handed(ack.handed_ns)
        if is_here or said < self.watermark_ns:
            self.watermark_ns, self._unproven = said, None
        elif self._unproven is None or said < self._unproven[1]:
            self._unproven = ack.sent, said, ack.handed_ns

    def _take_handed(self, handed_ns: int) -> None:
        """What the peer says that it has handed on; it cannot mean what it was not promised yet."""
        if self.is_neighbour:  # a client says nothing of that
            self.handed_ns = min(handed_ns, self.promised_ns) or self.handed_ns

    def _acknowledge(self, lane: LaneQueue, count: int) -> None:
        newly = count - lane.acknowledged
        if newly <= 0:
            return
        sent = lane.unacknowledged
        if newly >= len(sent):  # the usual case: the peer has everything
            lane.acknowledged += len(sent)
            is_all = len(sent) == len(self.data.unacknowledged) + len(self.monitor.unacknowledged)
            self.flying_bytes -= self.flying_bytes if is_all else sum(map(len, sent))
            sent.clear()
        else:
            lane.acknowledged = count
            for _ in range(newly):
                self.flying_bytes -= len(sent.popleft())

    def has_been_silent(self, now: int) -> bool:
        """Nothing heard for three heartbeats: if it is connected, it is half-open."""
        return now - self.heard_at > 3 * self.config.heartbeat_ns

    def is_lost(self, now: int) -> bool:
        """Down for longer than a peer that lives takes to come back."""
        return self.conn == 0 and now - self.down_since > 2 * self.config.heartbeat_ns

    def is_expired(self, now: int) -> bool:
        """Down for so long that nobody waits for it any more."""
        return self.conn == 0 and now - self.down_since > self.config.resume_timeout_ns
