"""The broker: one door, `handle(event, now)`, that returns what is to be done.

It does no I/O and reads no clock. Its parts: links (what was sent and received), a routing strategy with its
tables (where things go), barriers (when they are there), modules (everything else). A publication's way through
this file: `handle` → `_frames_arrived` → `_publish` → the strategy → `Link.send` → `_flush` → `SendMany`.

State changes only inside `handle` and `start`, and every change ends in `_flush`, so a driver never sees half of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from runnel.broker.barriers import Barriers
from runnel.broker.config import BrokerConfig
from runnel.broker.connections import OVERFLOW, TICK, Connections
from runnel.broker.effects import Effect, Exit, SendMany, SendSame, SetTimer
from runnel.broker.events import (
    Connected,
    Disconnected,
    Event,
    FramesArrived,
    StopAsked,
    TimerFired,
)
from runnel.broker.links import Link
from runnel.broker.module import Module
from runnel.broker.story import Story
from runnel.broker.tables import Matcher, Tables
from runnel.errors import BugError, PeerError
from runnel.routing.strategy import Strategy
from runnel.wire import (
    Ack,
    Advertise,
    Barrier,
    Bye,
    Fence,
    Lane,
    Message,
    Missed,
    Publication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    encode,
    lane_of,
)


def _ignore(link: Link, message: Message) -> None:
    """Do nothing."""


class Broker(Connections):
    """A broker without a network around it; see `handle`."""

    def __init__(
        self,
        config: BrokerConfig,
        incarnation: int,
        matcher: Matcher,
        make_strategy: Callable[[Tables], Strategy],
        modules: Iterable[Module] = (),
        clock: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(config, incarnation)
        self.tables = Tables(matcher)
        self.strategy = make_strategy(self.tables)
        self.barriers = Barriers(self.strategy.barrier_links)
        self.story = Story(config.name) if config.tell_stories else None
        self._congested_bytes = config.congested_bytes
        self._stopping = False
        self._over = False
        self._clock = clock
        self._modules = {module.name: module for module in modules}
        self._markers = [m for m in self._modules.values() if m.marks_publications]
        self._watchers = [m for m in self._modules.values() if m.watches_publications]
        self._mark_watchers = [
            m for m in self._modules.values() if m.watches_publications or m.watches_marked
        ]
        self._table_watchers = [m for m in self._modules.values() if m.watches_tables]
        if self._table_watchers:
            self.tables.on_change = self._table_changed
        self._handlers: dict[type[Message], Callable[[Link, Any], None]] = {
            Ack: self._ack,
            Advertise: self._advertise,
            Unadvertise: lambda link, m: self.strategy.unadvertise(link, m.id),
            Subscribe: self._subscribe,
            Unsubscribe: lambda link, m: self.strategy.unsubscribe(link, m.id),
            Barrier: self.barriers.barrier,
            Fence: self.barriers.fence,
            Bye: self._bye,
        }
        for module in self._modules.values():
            for kind in module.messages:
                self._handlers[kind] = self._to_module(module)

    # -- the door -------------------------------------------------------------------------------------

    def start(self, now: int) -> list[Effect]:
        """Dial the neighbours and start the clockwork."""
        self._now = now
        for module in self._modules.values():
            module.start(self, now)
        self._tick()
        return self._flush()

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Take in one thing that happened; what is to be done about it."""
        if self._over:
            return []
        self._now = now
        match event:
            case FramesArrived():
                self._frames_arrived(event.conn, event.chunk)
            case Connected():
                self._connected(event.conn, event.peer)
            case Disconnected():
                self._disconnected(event.conn, event.peer)
            case TimerFired(timer=timer):
                if timer == TICK:
                    self._tick()
                else:
                    self._modules[timer.partition(":")[0]].timer(self, timer, now)
            case StopAsked():
                self._stop_publishers()
        return self._flush()

    def _flush(self) -> list[Effect]:
        """Turn what is queued on links into effects, and hand all effects over."""
        outbox, effects, meter = self._outbox, self._effects, self.meter
        while outbox:
            link = next(iter(outbox))
            if link.overflowed:
                meter.links_dead += 1
                self._forget(link, OVERFLOW)
                continue
            if self._congested or link.congested or link.waiting_bytes > self._congested_bytes:
                self._note_congestion(link)
            else:
                link.congested_here = False
            if link.dropped_uncounted:
                self._count_drops(link)
            if link.is_client:
                self._look_after_client(link)
            del outbox[link]
            if frames := link.take(self._now):
                meter.frames_out += len(frames)
                meter.bytes_out += link.taken_bytes
                effects.append(SendMany(link.conn, frames))
        if self._stopping:
            self._leave_when_dry()
        self._effects = []
        return effects

    def _note_congestion(self, link: Link) -> None:
        if link.kind == "broker" and (link.congested or link.waiting_bytes > self._congested_bytes):
            self._congested[link] = None
        else:
            self._congested.pop(link, None)
        link.congested_here = len(self._congested) > (link in self._congested)

    def _count_drops(self, link: Link) -> None:
        count, link.dropped_uncounted = link.dropped_uncounted, 0
        self.meter.dropped += count
        self.trace("dropped", {"peer": link.name, "count": count})

    def _look_after_client(self, link: Link) -> None:
        """Tell a slow client what it missed; give publishers credit while there is room ahead of them.

        It is told once something can be sent again: a notice for every drop would fill the queue with notices. And
        before what waits: a client that moves is gone when it has the fence that stands there.
        """
        if link.dropped_untold and link.has_room:
            count, link.dropped_untold = link.dropped_untold, 0
            link.send_first(encode(Missed(count)))
        if self._stopping:
            link.credit = 0
        elif link.congested_here:
            link.credit = max(self.config.credit_min, link.credit // 2)
        elif link.credit < self.config.credit_max:
            link.credit = min(self.config.credit_max, max(1, link.credit * 2))

    def _stop_publishers(self) -> None:
        """From now on no publisher has credit; what they have sent is taken in and handed on."""
        self._stopping = True
        for link in self.links.values():
            link.owe_ack()

    def _leave_when_dry(self) -> None:
        """Everything was acknowledged by whoever it was for: say farewell to all."""
        if any(
            (link.waiting_bytes or link.flying_bytes) and not link.is_lost(self._now)
            for link in self.links.values()
        ):
            return
        self._stopping, self._over = False, True
        for link in list(self.links.values()):
            if link.established:
                frames = [encode(Bye("the broker leaves"))]
                self._effects.append(SendMany(link.conn, frames))
            self._forget(link, "the broker leaves")
        self._effects.append(Exit())

    # -- frames ---------------------------------------------------------------------------------------

    def _frames_arrived(self, conn: int, chunk: bytes) -> None:
        connection = self._connections.get(conn)
        if connection is None:
            return  # closed by us; what was under way no longer counts
        self.meter.bytes_in += len(chunk)
        link = connection.link
        run: list[Publication] = []  # publications that came one after the other
        try:
            for frame in connection.decoder.feed(chunk):
                if link is None:
                    link = self._hello(conn, frame)
                elif type(frame) is Publication:
                    run.append(frame)
                else:
                    if run:
                        self._publish(link, run)
                        run = []
                    self._message(link, frame)  # type: ignore[arg-type]
                    if conn not in self._connections:
                        return
            if run and link is not None:
                if len(run) == 1:
                    self._publish_one(link, run[0])
                else:
                    self._publish(link, run)
        except PeerError as error:
            self._peer_broke_the_rules(conn, link, error)
            return
        if link is not None:
            link.heard(len(chunk), self._now)

    def _peer_broke_the_rules(self, conn: int, link: Link | None, error: PeerError) -> None:
        """Nothing that such a peer set up is trusted; nobody else is disturbed."""
        self.trace("peer-error", {"peer": link.name if link else "", "error": str(error)})
        if link is not None:
            self._forget(link, str(error))
        else:
            self._close(conn, str(error))

    def _message(self, link: Link, message: Message) -> None:
        kind = type(message)
        handler = self._handlers.get(kind)
        if handler is None:
            if lane_of(message) is not Lane.MONITOR:
                raise PeerError(f"{link.name} sent a {kind.__name__}, which has no place here")
            handler = _ignore  # monitoring that nobody here takes part in
        link.count(message)
        if kind is not Ack:
            self.meter.control_in += 1
            self.meter.messages_in[kind.__name__] += 1
        handler(link, message)

    # -- what links mean for routes -------------------------------------------------------------------

    def _link_is_fresh(self, link: Link) -> None:
        self.strategy.link_up(link)
        for module in self._modules.values():
            module.link_up(self, link, self._now)

    def _lose_routes(self, link: Link) -> None:
        self.barriers.link_lost(link)
        self.strategy.link_lost(link)
        for module in self._modules.values():
            module.link_lost(self, link, self._now)

    # -- what the frames say --------------------------------------------------------------------------

    def _publish(self, link: Link, run: list[Publication]) -> None:
        """Route a run of publications: each is matched by itself, but each link is written to once."""
        meter, clock, by_number = self.meter, self._clock, self._by_number
        next_hops = self.strategy.next_hops
        began = clock() if clock is not None else 0
        outs: dict[int, list[bytes]] = {}
        if self._markers and link.is_client:
            self._mark(link, run)
        watchers = self._watching(run)
        is_watched = bool(watchers) or self.story is not None
        all_hops: list[list[int]] = []
        link.data.received += len(run)
        link.publications_in += len(run)
        for publication in run:
            hops = next_hops(link, publication)
            onward = b""
            for number in hops:
                target = by_number[number]
                if target is None:
                    raise BugError(f"{self.name} routes to link {number}, which is gone")
                if target.is_client:
                    frame = publication.raw
                elif publication.ttl:
                    frame = onward = onward or publication.forwarded()
                else:
                    continue
                if number in outs:
                    outs[number].append(frame)
                else:
                    outs[number] = [frame]
            if is_watched:
                all_hops.append(hops)
        for number, frames in outs.items():
            by_number[number].send_publications(frames)  # type: ignore[union-attr]
            meter.publications_out += len(frames)
        meter.publications_in += len(run)
        if clock is not None:
            meter.matching_ns += clock() - began
        if is_watched:
            self._tell(link, run, all_hops, watchers)

    def _publish_one(self, link: Link, publication: Publication) -> None:
        """The same for a run of one, as most are where there is little to do: all links share its frames."""
        meter, clock, by_number, now = self.meter, self._clock, self._by_number, self._now
        effects, credit_max, is_free = self._effects, self.config.credit_max, not self._congested
        began = clock() if clock is not None else 0
        if self._markers and link.is_client:
            self._mark(link, [publication])
        link.data.received += 1
        link.publications_in += 1
        hops = self.strategy.next_hops(link, publication)
        delivered = [publication.raw]
        forwarded: list[bytes] = []
        conns: list[int] = []  # what was sent last, and where to
        same: list[bytes] = []
        at_once = queued = 0
        for number in hops:
            target = by_number[number]
            if target is None:
                raise BugError(f"{self.name} routes to link {number}, which is gone")
            if target.is_client:
                frames = delivered
            elif publication.ttl:
                frames = forwarded = forwarded or [publication.forwarded()]
            else:
                continue
            if is_free and target.credit == credit_max and target.send_at_once(frames[0], now):
                at_once += 1
                if frames is same:
                    conns.append(target.conn)
                else:
                    conns, same = [target.conn], frames
                    effects.append(SendSame(conns, frames))
            else:
                queued += 1
                target.send_publications(frames)
        meter.publications_in += 1
        meter.publications_out += at_once + queued
        meter.frames_out += at_once
        meter.bytes_out += at_once * len(publication.raw)
        if clock is not None:
            meter.matching_ns += clock() - began
        watchers = self._mark_watchers if publication.flags else self._watchers
        if self.story is not None:
            self._tell(link, [publication], [hops], watchers)
        else:
            for module in watchers:
                module.routed_one(self, link, publication, hops, now)

    def _mark(self, link: Link, run: list[Publication]) -> None:
        for module in self._markers:
            module.entering(self, link, run, self._now)

    def _watching(self, run: list[Publication]) -> list[Module]:
        """The modules that are told of a run: where nothing is marked, not those that only watch what is."""
        if len(self._mark_watchers) > len(self._watchers):
            for publication in run:
                if publication.flags:
                    return self._mark_watchers
        return self._watchers

    def _tell(
        self,
        link: Link,
        run: list[Publication],
        all_hops: list[list[int]],
        watchers: list[Module],
    ) -> None:
        """Let the story and the modules that watch know of publications."""
        if self.story is not None:
            for publication, hops in zip(run, all_hops, strict=True):
                names = [target.name for n in hops if (target := self._by_number[n])]
                what = f"{link.name} published, for {names}"
                self.story.tell(self._now, what, publication.identity)
        for module in watchers:
            module.routed(self, link, run, all_hops, self._now)

    def _table_changed(self, what: str, row: Any) -> None:
        for module in self._table_watchers:
            getattr(module, what)(self, row.link, row, self._now)

    def _advertise(self, link: Link, message: Advertise) -> None:
        if self.story is not None:
            self.story.tell(
                self._now, f"advertised by {link.name} for {message.publisher}", message.id
            )
        self.strategy.advertise(link, message)

    def _subscribe(self, link: Link, message: Subscribe) -> None:
        if self.story is not None:
            self.story.tell(self._now, f"subscribed by {link.name}", message.id)
        self.strategy.subscribe(link, message)

    def _ack(self, link: Link, ack: Ack) -> None:
        link.acknowledge(ack)

    def _bye(self, link: Link, bye: Bye) -> None:
        self._forget(link, f"{link.name} left: {bye.reason}")

    # -- for modules ----------------------------------------------------------------------------------

    def _to_module(self, module: Module) -> Callable[[Link, Any], None]:
        return lambda link, message: module.message(self, link, message, self._now)

    def send(self, link: Link, message: Message) -> None:
        """Send a message to a peer, in the lane its kind belongs to."""
        link.send_message(message)

    def set_timer(self, timer: str, at: int) -> None:
        """Ask for `Module.timer` at a time; `timer` starts with the module's name and a colon."""
        self._effects.append(SetTimer(timer, at))
