"""CBC, the back-end component of CROC: green §III, in every broker, as a module.

    always             answers a BIR with what this broker is, and hands on what those behind it have to say
    where it is on     keeps profiles: which publications each local subscription got, how much each local
                       publisher sends; and how long matching takes

Rules:
- It looks and changes nothing: a broker routes the same with and without it.
- A broker that keeps no profiles pays nothing: publications and tables are not watched.
- Profiles go by the ids on the wire. A publisher that migrates keeps its id: the broker that it leaves still tells how
  much it sent, until the one that it came to knows it as well. A client that comes back with new ids begins anew.
- Nothing is kept for ever. A request has a deadline; whoever has not answered by then is named.
- An answer does not fill up a link: a few pieces are on their way, the others are made when there is room for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from runnel.allocation.config import ProfilesConfig
from runnel.allocation.messages import (
    DEPTH_MAX,
    MISSING_MAX,
    Bia,
    BiaEnd,
    Bir,
    BrokerTold,
    Piece,
    PublisherTold,
    SubscriptionTold,
    VectorTold,
)
from runnel.allocation.rates import PERIOD_NS, Matching, Publishing
from runnel.broker.links import SECOND, Link
from runnel.broker.module import Context, Module
from runnel.broker.tables import Advertisement, Subscription
from runnel.placement.placing import Deadlines
from runnel.wire import Message, Publication

if TYPE_CHECKING:
    from runnel.allocation.recording import Recording

PERIOD = "cbc:period"
PUMP = "cbc:pump"
DEADLINE = "cbc:deadline"

REQUESTS_MAX = 16
"""How many requests are answered at a time; more are told that this broker does not answer."""

TIMEOUT_NS_MAX = 600 * SECOND
GONE_MAX = 100
GONE_KEPT_NS = 3_600 * SECOND
"""How many neighbours that were lost are remembered, and for how long: a network that fell apart is not whole."""

PIECE_BYTES = 1 << 16
AHEAD_MAX = 4
"""So many pieces may wait on a link: data must not stand behind megabytes of profiles."""

PUMP_NS = SECOND // 100
_ROWS = 250  # clients or publishers in a piece: however long their names, they fit
_VECTOR_BYTES = 32  # a vector without its bits, at most


@dataclass(slots=True, eq=False)
class Request:
    """A BIR, who is to answer it, and what is to be said."""

    token: int
    upstream: Link
    pieces: Iterator[Piece]  # what this broker says
    waiting: dict[Link, None] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    handed_on: deque[Bia] = field(default_factory=deque)


class Cbc(Module):
    """The module "cbc". `address` is where this broker listens; `limit` its output in bytes per second, 0 for none."""

    name = "cbc"
    messages = (Bir, Bia, BiaEnd)

    def __init__(
        self, config: ProfilesConfig | None = None, address: str = "", limit: int = 0
    ) -> None:
        self.config = config or ProfilesConfig()
        self.address = address
        self._output = self.config.output_bytes_per_s or limit
        self._matching = Matching()
        self._publishers: dict[int, Publishing] = {}
        self._requests: dict[int, Request] = {}
        self._deadlines = Deadlines(DEADLINE)
        self._is_pumping = False
        self._gone: dict[str, int] = {}
        self._recording: Recording | None = None
        if self.config.enabled:
            # NumPy takes a while to load: only where it is used.
            from runnel.allocation.recording import Recording

            self._recording = Recording(self.config.bits)
            self.watches_publications = self.watches_tables = True

    # -- profiles -------------------------------------------------------------------------------------

    def start(self, context: Context, now: int) -> None:
        """The broker starts."""
        if self._recording is not None:
            context.set_timer(PERIOD, now + PERIOD_NS)

    def routed(
        self,
        context: Context,
        link: Link,
        run: list[Publication],
        hops: list[list[int]],
        now: int,
    ) -> None:
        """A run of publications was routed, each to the hops in the same place."""
        recording, from_client = self._recording, link.is_client
        if recording is not None and (from_client or not recording.is_empty):
            recording.add(context.tables, run, hops, from_client)

    def routed_one(
        self, context: Context, link: Link, publication: Publication, hops: list[int], now: int
    ) -> None:
        """The same for one alone."""
        recording, from_client = self._recording, link.is_client
        if recording is not None and (from_client or not recording.is_empty):
            recording.add_one(context.tables, publication, hops, from_client)

    def subscribed(self, context: Context, link: Link, row: Subscription, now: int) -> None:
        """A subscription; those of clients count."""
        if self._recording is not None and link.is_client:
            self._recording.subscribed(link.number, row.id)

    def unsubscribed(self, context: Context, link: Link, row: Subscription, now: int) -> None:
        """It was withdrawn, or its client is gone."""
        if self._recording is not None and link.is_client:
            self._recording.unsubscribed(link.number, row.id)

    def advertised(self, context: Context, link: Link, row: Advertisement, now: int) -> None:
        """A publisher; those of clients count."""
        if link.is_client:
            self._publishers[row.id] = Publishing(now, now)

    def unadvertised(self, context: Context, link: Link, row: Advertisement, now: int) -> None:
        """Nothing more comes from a publisher, here or elsewhere."""
        self._publishers.pop(row.id, None)
        if self._recording is not None:
            self._recording.forget_publisher(row.id)

    def turned(self, context: Context, link: Link, row: Advertisement, now: int) -> None:
        """A publisher has migrated: to a client's link here, or from one."""
        self._count()
        known = self._publishers.get(row.id)
        if link.is_client:
            if known is None or known.left_at is not None:
                self._publishers[row.id] = Publishing(now, now)
        elif known is not None and known.left_at is None:
            known.left_at = now

    def _count(self) -> None:
        """What publishers have sent meanwhile."""
        if self._recording is not None:
            for id, sent in self._recording.take_sent().items():
                if id in self._publishers:
                    self._publishers[id].add(*sent)

    def _roll(self, context: Context, now: int) -> None:
        """A period is over."""
        assert self._recording is not None
        self._count()
        for id, one in list(self._publishers.items()):
            if one.left_at is None:
                one.roll(now)
            elif now - one.left_at > 2 * PERIOD_NS:
                del self._publishers[id]  # by now its new broker knows it as well
        for id in self._recording.publishers:
            if id not in context.tables.srt:
                self._recording.forget_publisher(id)  # it was under way when its publisher left
        self._matching.read(context.meter, len(context.tables.prt))
        context.set_timer(PERIOD, now + PERIOD_NS)

    # -- links, timers and messages -------------------------------------------------------------------

    def link_up(self, context: Context, link: Link, now: int) -> None:
        """A link starts fresh."""
        self._gone.pop(link.name, None)

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """A neighbour has nothing to say any more, or nobody is there to be told."""
        if link.kind == "broker" and link.is_expired(now):
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
            self._roll(context, now)
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
        """A request, or what somebody behind this broker has to say."""
        if isinstance(message, Bir):
            self._requested(context, link, message, now)
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

    def _requested(self, context: Context, link: Link, bir: Bir, now: int) -> None:
        if bir.token in self._requests or len(self._requests) >= REQUESTS_MAX:
            context.send(link, BiaEnd(bir.token, (context.name,)))
            return
        request = Request(bir.token, link, self._pieces(context, now))
        self._requests[bir.token] = request
        for name, since in list(self._gone.items()):
            if now - since < GONE_KEPT_NS:
                request.missing[name] = None
        others = [one for one in context.links.values() if one.kind == "broker" and one is not link]
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
        """Say what there is to say, as long as there is room on the link; in the end, that this was all."""
        link = request.upstream
        while len(link.monitor.waiting) < AHEAD_MAX:
            message = self._next(context, request)
            if message is None:
                return
            context.send(link, message)
            if isinstance(message, BiaEnd):
                self._drop(request)
                return
        if not self._is_pumping:
            self._is_pumping = True
            context.set_timer(PUMP, now + PUMP_NS)

    def _next(self, context: Context, request: Request) -> Message | None:
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
        """All of it, each piece made when it is wanted; what has gone by then is left out."""
        self._count()
        self._matching.read(context.meter, len(context.tables.prt))
        yield Piece(self._broker(context))
        clients = [link.name for link in context.links.values() if link.is_client]
        for start in range(0, len(clients), _ROWS):
            yield Piece(clients=tuple(clients[start : start + _ROWS]))
        if self._recording is None:
            return
        publishers = self._publishers_told(context, now)
        for start in range(0, len(publishers), _ROWS):
            yield Piece(publishers=tuple(publishers[start : start + _ROWS]))
        yield from self._subscriptions(context, self._recording)

    def _broker(self, context: Context) -> BrokerTold:
        base_ns, each_ns = self.config.matching_ns or self._matching.function()
        return BrokerTold(
            self.address,
            tuple(link.name for link in context.links.values() if link.kind == "broker"),
            self._recording is not None,
            self.config.bits,
            self._output,
            base_ns,
            each_ns,
            self._recording.left_out if self._recording is not None else 0,
        )

    def _publishers_told(self, context: Context, now: int) -> list[PublisherTold]:
        found = []
        for id, one in self._publishers.items():
            row = context.tables.srt.get(id)
            if row is not None:
                client = row.link.name if row.link.is_client else ""
                until = now if one.left_at is None else one.left_at
                sent = (one.publications, one.bytes, until - one.began, one.last)
                found.append(PublisherTold(id, row.publisher, client, row.epoch, *sent))
        return found

    def _subscriptions(self, context: Context, recording: Recording) -> Iterator[Piece]:
        told: list[SubscriptionTold] = []
        size = 0
        for id in recording.subscriptions:
            row = context.tables.prt.get(id)
            if row is None:
                continue
            name = row.link.name
            vectors: list[VectorTold] = []
            for vector in list(recording.vectors(id)):
                bits = vector.bits.to_bytes((vector.bits.bit_length() + 7) // 8, "little")
                vectors.append(VectorTold(vector.advertisement, vector.first, bits))
                size += _VECTOR_BYTES + len(bits)
                if size >= PIECE_BYTES:
                    yield Piece(subscriptions=(*told, SubscriptionTold(id, name, tuple(vectors))))
                    told, vectors, size = [], [], 0
            told.append(SubscriptionTold(id, name, tuple(vectors)))
            size += _VECTOR_BYTES + len(name.encode())
            if size >= PIECE_BYTES:
                yield Piece(subscriptions=tuple(told))
                told, size = [], 0
        if told:
            yield Piece(subscriptions=tuple(told))
