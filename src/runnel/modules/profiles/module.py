"""CBC, the back-end component of CROC: green §III, in every broker, as a module.

    always             answers a BIR with a description of this broker, and hands on the answers of brokers behind it
    if enabled         keeps profiles: which publications each local subscription got, how much each local
                       publisher sends, and how long matching takes

Rules:
- It only observes: a broker routes the same with and without it.
- A broker that keeps no profiles pays nothing: publications and tables are not watched. With profiles, publications are
  watched by the module `recording`, which is shared with the trace if there is one.
- Profiles are kept by the ids on the wire. A publisher that migrates keeps its id: its old broker reports how much it
  sent, until the new one has measured it as well. A client that comes back with new ids gets new profiles.
- All state is bounded. A request has a deadline; brokers that have not answered by then are named.
- An answer does not fill a link: a few pieces wait on it, the others are made when there is room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from runnel.broker.links import Link
from runnel.broker.module import Context, Module, ModuleKind, Surroundings
from runnel.broker.tables import AdvertisementRow, SubscriptionRow
from runnel.modules.deadlines import Deadlines
from runnel.modules.profiles.config import ProfilesConfig
from runnel.modules.profiles.messages import (
    DEPTH_MAX,
    MISSING_MAX,
    Bia,
    BiaEnd,
    Bir,
    BrokerInfo,
    Piece,
    PublisherInfo,
    SubscriptionInfo,
    VectorInfo,
)
from runnel.modules.profiles.rates import PERIOD_NS, MatchingDelay, PublisherRate
from runnel.quantities import SECOND
from runnel.wire import Message

if TYPE_CHECKING:
    from runnel.modules.profiles.vectors import Vectors
    from runnel.modules.recording.module import Recording

PERIOD = "cbc:period"
PUMP = "cbc:pump"
DEADLINE = "cbc:deadline"

REQUESTS_MAX = 16
"""How many requests are answered at a time; others get the answer that this broker is missing."""

TIMEOUT_NS_MAX = 600 * SECOND
GONE_MAX = 100
GONE_KEPT_NS = 3_600 * SECOND
"""How many lost neighbours are reported as missing, and for how long."""

PIECE_BYTES = 1 << 16
AHEAD_MAX = 4
"""How many pieces may wait on a link: data must not wait behind megabytes of profiles."""

PUMP_NS = SECOND // 100
_ROWS = 250  # clients or publishers in a piece: however long their names, they fit
_VECTOR_BYTES = 32  # a vector without its bits, at most


@dataclass(slots=True, eq=False)
class Request:
    """A pending BIR: who has not answered yet, and what is still to be sent."""

    token: int
    upstream: Link
    pieces: Iterator[Piece]  # this broker's own answer
    waiting: dict[Link, None] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    handed_on: deque[Bia] = field(default_factory=deque)


class Cbc(Module):
    """The module "cbc". `address` is where this broker listens; `limit` its output in bytes per second, 0 for none.

    `recording` is the broker's recording, if it has one already.
    """

    name = "cbc"
    messages = (Bir, Bia, BiaEnd)
    timers = (PERIOD, PUMP, DEADLINE)

    def __init__(
        self,
        config: ProfilesConfig | None = None,
        address: str = "",
        limit: int = 0,
        recording: Recording | None = None,
    ) -> None:
        self.config = config or ProfilesConfig()
        self.address = address
        self._output = self.config.output_bytes_per_s or limit
        self._matching = MatchingDelay()
        self._publishers: dict[int, PublisherRate] = {}
        self._requests: dict[int, Request] = {}
        self._deadlines = Deadlines(DEADLINE)
        self._is_pumping = False
        self._gone: dict[str, int] = {}
        self._vectors: Vectors | None = None
        if self.config.enabled:
            # NumPy is slow to load, so only where it is used.
            from runnel.modules.profiles.vectors import Vectors
            from runnel.modules.recording.module import Recording
            from runnel.modules.recording.tape import HOPS_MAX, Tape

            recording = recording or Recording(Tape(hops_max=2 * HOPS_MAX))
            self._vectors = Vectors(recording, self.config.bits)
            self.uses = (recording,)
            self.watches_tables = True

    # -- profiles -------------------------------------------------------------------------------------

    def start(self, context: Context, now: int) -> None:
        """The broker starts."""
        if self._vectors is not None:
            context.set_timer(PERIOD, now + PERIOD_NS)

    def subscribed(self, context: Context, link: Link, row: SubscriptionRow, now: int) -> None:
        """A subscription came into the PRT; only clients' subscriptions matter here."""
        if self._vectors is not None and link.is_client:
            self._vectors.add_subscription(row.id)

    def unsubscribed(self, context: Context, link: Link, row: SubscriptionRow, now: int) -> None:
        """It was withdrawn, or its client is gone."""
        if self._vectors is not None and link.is_client:
            self._vectors.forget_subscription(row.id)

    def advertised(self, context: Context, link: Link, row: AdvertisementRow, now: int) -> None:
        """An advertisement came into the SRT; only clients' advertisements matter here."""
        if link.is_client:
            self._publishers[row.id] = PublisherRate(now, now)

    def unadvertised(self, context: Context, link: Link, row: AdvertisementRow, now: int) -> None:
        """An advertisement left the SRT."""
        self._publishers.pop(row.id, None)
        if self._vectors is not None:
            self._vectors.forget_publisher(row.id)

    def turned(self, context: Context, link: Link, row: AdvertisementRow, now: int) -> None:
        """A publisher has migrated: to a client's link here, or from one."""
        self._count_sent()
        known = self._publishers.get(row.id)
        if link.is_client:
            if known is None or known.left_at is not None:
                self._publishers[row.id] = PublisherRate(now, now)
        elif known is not None and known.left_at is None:
            known.left_at = now

    def _count_sent(self) -> None:
        """Add what publishers have sent meanwhile to their rates."""
        if self._vectors is not None:
            for id, sent in self._vectors.take_sent().items():
                if id in self._publishers:
                    self._publishers[id].add(*sent)

    def _end_period(self, context: Context, now: int) -> None:
        """A period is over."""
        assert self._vectors is not None
        self._count_sent()
        for id, one in list(self._publishers.items()):
            if one.left_at is None:
                one.roll(now)
            elif now - one.left_at > 2 * PERIOD_NS:
                del self._publishers[id]  # by now its new broker has measured it
        for id in self._vectors.publishers:
            if id not in context.tables.srt:
                self._vectors.forget_publisher(id)  # it was under way when its publisher left
        self._matching.read(context.meter, len(context.tables.prt))
        context.set_timer(PERIOD, now + PERIOD_NS)

    # -- links, timers and messages -------------------------------------------------------------------

    def link_up(self, context: Context, link: Link, now: int) -> None:
        """A link starts fresh."""
        self._gone.pop(link.name, None)

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """A lost neighbour will not answer, or does not wait for an answer any more."""
        if link.is_neighbour and link.is_expired(now):
            self._gone[link.name] = now
            while len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]
        for request in list(self._requests.values()):
            if request.upstream is link:
                self._drop(request)
            elif link in request.waiting:
                del request.waiting[link]
                request.missing[link.name] = None
                self._pump(context, request, now)

    def timer(self, context: Context, timer: str, now: int) -> None:
        """A period is over, there may be room on a link, or somebody has not answered."""
        if timer == PERIOD:
            self._end_period(context, now)
        elif timer == PUMP:
            self._is_pumping = False
            for request in list(self._requests.values()):
                self._pump(context, request, now)
        else:
            for token in self._deadlines.due(context, now):
                request = self._requests[token]
                request.missing |= {link.name: None for link in request.waiting}
                request.waiting.clear()
                self._pump(context, request, now)

    def message(self, context: Context, link: Link, message: Any, now: int) -> None:
        """A request, or an answer from a neighbour."""
        if isinstance(message, Bir):
            self._handle_request(context, link, message, now)
            return
        request = self._requests.get(message.token)
        if request is None or link not in request.waiting:
            return
        if isinstance(message, Bia):
            request.handed_on.append(message)
        else:
            del request.waiting[link]
            request.missing |= dict.fromkeys(message.missing)
        self._pump(context, request, now)

    # -- a request ------------------------------------------------------------------------------------

    def _handle_request(self, context: Context, link: Link, bir: Bir, now: int) -> None:
        if bir.token in self._requests or len(self._requests) >= REQUESTS_MAX:
            context.send(link, BiaEnd(bir.token, (context.name,)))
            return
        request = Request(bir.token, link, self._pieces(context, now))
        self._requests[bir.token] = request
        for name, since in list(self._gone.items()):
            if now - since < GONE_KEPT_NS:
                request.missing[name] = None
        others = [one for one in context.links.values() if one.is_neighbour and one is not link]
        if bir.depth + 1 < DEPTH_MAX:
            request.waiting = dict.fromkeys(others)
            for one in others:
                context.send(one, Bir(bir.token, bir.timeout_ns, bir.depth + 1))
        else:
            request.missing |= {one.name: None for one in others}
        if request.waiting:
            patience_ns = min(bir.patience_ns(), TIMEOUT_NS_MAX)
            self._deadlines.set(context, bir.token, now + patience_ns)
        self._pump(context, request, now)

    def _pump(self, context: Context, request: Request, now: int) -> None:
        """Send what is ready, as long as there is room on the link; in the end, a BiaEnd."""
        link = request.upstream
        while len(link.monitor.waiting) < AHEAD_MAX:
            message = self._next_message(context, request)
            if message is None:
                return
            context.send(link, message)
            if isinstance(message, BiaEnd):
                self._drop(request)
                return
        if not self._is_pumping:
            self._is_pumping = True
            context.set_timer(PUMP, now + PUMP_NS)

    def _next_message(self, context: Context, request: Request) -> Message | None:
        if request.handed_on:
            return request.handed_on.popleft()
        piece = next(request.pieces, None)
        if piece is not None:
            return Bia(request.token, context.name, msgspec.msgpack.encode(piece))
        if request.waiting:
            return None
        return BiaEnd(request.token, tuple(request.missing)[:MISSING_MAX])

    def _drop(self, request: Request) -> None:
        del self._requests[request.token]
        self._deadlines.drop(request.token)

    # -- what this broker says ------------------------------------------------------------------------

    def _pieces(self, context: Context, now: int) -> Iterator[Piece]:
        """This broker's answer. Pieces are made when they are sent; what is gone by then is left out."""
        self._count_sent()
        self._matching.read(context.meter, len(context.tables.prt))
        yield Piece(self._broker(context))
        clients = [link.name for link in context.links.values() if link.is_client]
        for start in range(0, len(clients), _ROWS):
            yield Piece(clients=tuple(clients[start : start + _ROWS]))
        if self._vectors is None:
            return
        publishers = self._publisher_profiles(context, now)
        for start in range(0, len(publishers), _ROWS):
            yield Piece(publishers=tuple(publishers[start : start + _ROWS]))
        yield from self._subscriptions(context, self._vectors)

    def _broker(self, context: Context) -> BrokerInfo:
        base_ns, each_ns = self.config.matching_ns or self._matching.function()
        return BrokerInfo(
            self.address,
            tuple(link.name for link in context.links.values() if link.is_neighbour),
            self._vectors is not None,
            self.config.bits,
            self._output,
            base_ns,
            each_ns,
            self._vectors.left_out if self._vectors is not None else 0,
        )

    def _publisher_profiles(self, context: Context, now: int) -> list[PublisherInfo]:
        found = []
        for id, one in self._publishers.items():
            row = context.tables.srt.get(id)
            if row is not None:
                client = row.link.name if row.link.is_client else ""
                until = now if one.left_at is None else one.left_at
                sent = (one.publications, one.bytes, until - one.began, one.last)
                found.append(PublisherInfo(id, row.publisher, client, row.epoch, *sent))
        return found

    def _subscriptions(self, context: Context, kept: Vectors) -> Iterator[Piece]:
        told: list[SubscriptionInfo] = []
        size = 0
        for id in kept.subscriptions:
            row = context.tables.prt.get(id)
            if row is None:
                continue
            name = row.link.name
            vectors: list[VectorInfo] = []
            for vector in list(kept.vectors(id)):
                bits = vector.bits.to_bytes((vector.bits.bit_length() + 7) // 8, "little")
                vectors.append(VectorInfo(vector.advertisement, vector.first, bits))
                size += _VECTOR_BYTES + len(bits)
                if size >= PIECE_BYTES:
                    yield Piece(subscriptions=(*told, SubscriptionInfo(id, name, tuple(vectors))))
                    told, vectors, size = [], [], 0
            told.append(SubscriptionInfo(id, name, tuple(vectors)))
            size += _VECTOR_BYTES + len(name.encode())
            if size >= PIECE_BYTES:
                yield Piece(subscriptions=tuple(told))
                told, size = [], 0
        if told:
            yield Piece(subscriptions=tuple(told))


def _make(around: Surroundings, settings: ProfilesConfig) -> tuple[Module, ...]:
    recording = around.services.get("recording")  # that of a trace, if there is one
    return (Cbc(settings, around.address, around.output_bytes_per_s, recording),)


PROFILES = ModuleKind(
    name="profiles",
    purpose="remembers what clients get and send, and tells planners (CBC)",
    make=_make,
    settings=ProfilesConfig,
)
