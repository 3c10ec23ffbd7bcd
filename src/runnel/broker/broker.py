"""The broker: one door, `handle(event, now)`, that returns what is to be done.

It does no I/O and reads no clock. The bytes of a socket come to it from `net/driver.py::Driver.received`; a simulated
world calls it in the same way. Its parts: links (what was sent and received), a routing strategy with its tables (where
things go), a router (which sends publications there), barriers (whether routes are complete, and whether everything on
a path has arrived), losses (which subscribers are told that something may be missing), access (what a permit allows),
modules (everything else).

A broker is one object in two files. `Connections` (connections.py), which `Broker` inherits from, has everything about
peers: `links`, connections and handshakes, dials, the `_outbox` of links with something to write, the `_effects` of the
present call and its time `_now`. This file has what messages mean, and the parts named above. A link's own counts and
queues are in the link (links.py).

A publication's way: `handle` → `_frames_arrived` → `Router.route`. One alone leaves from there: past the queues of idle
links it becomes a `SendSame` among the effects, and `_flush` adds no more than the acknowledgement for its sender.
Others are queued, and `_flush` turns what is queued into `SendMany`.

State changes only inside `handle` and `start`, and every change ends in `_flush`, so a driver never sees half of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from runnel.broker.absences import Absences
from runnel.broker.barriers import Barriers
from runnel.broker.config import BrokerConfig
from runnel.broker.connections import OVERFLOW, TICK, Connections
from runnel.broker.effects import Effect, Exit, SendMany, SetTimer
from runnel.broker.events import (
    AccessChanged,
    Connected,
    Disconnected,
    Event,
    FramesArrived,
    StopAsked,
    TimerFired,
)
from runnel.broker.gauges import Gauges, ReadGauges
from runnel.broker.ids import IdConflict, IdSource, prefix_of
from runnel.broker.links import Link
from runnel.broker.losses import Losses
from runnel.broker.module import Module, modules_by_name
from runnel.broker.namesakes import Namesakes
from runnel.broker.permissions import may
from runnel.broker.permits import Permit
from runnel.broker.router import Router
from runnel.broker.story import Story
from runnel.broker.tables import Matcher, Tables
from runnel.broker.watchers import Watchers
from runnel.broker.watermarks import Watermarks
from runnel.errors import BugError, FilterRefused, PeerError
from runnel.routing.strategy import Strategy
from runnel.wire import (
    Ack,
    Advertise,
    Barrier,
    Bye,
    ClientHere,
    Credentials,
    Denied,
    Fence,
    Handover,
    Lane,
    Listens,
    Loss,
    Mcm,
    Message,
    MissingLinks,
    Mum,
    Publication,
    Refused,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    decode_selection,
    encode,
    lane_of,
)
from runnel.wire.messages import REASON_CHARACTERS_MAX

REVOKED = "access was revoked, or its credentials have changed or expired"


def _why_unreadable(link: Link, message: Advertise | Subscribe | Barrier) -> str:
    """Why a client's selection cannot be read; empty if it can, or if a broker sent it, which has read it before."""
    if link.is_client:
        try:
            decode_selection(message.selection)
        except FilterRefused as error:
            return error.reason[:REASON_CHARACTERS_MAX]
    return ""


def _ignore(link: Link, message: Message) -> None:
    """The handler of messages that mean nothing here."""


class Broker(Connections):
    """A broker without a network around it; see `handle`."""

    __slots__ = (  # see `Connections`
        "_congested_bytes",
        "_handlers",
        "_over",
        "_stopping",
        "_table_watchers",
        "_timers",
        "absences",
        "barriers",
        "gauges",
        "losses",
        "modules",
        "namesakes",
        "router",
        "story",
        "strategy",
        "tables",
        "watchers",
        "watermarks",
    )

    def __init__(
        self,
        config: BrokerConfig,
        incarnation: int,
        matcher: Matcher,
        make_strategy: Callable[[Tables], Strategy],
        modules: Iterable[Module] = (),
        clock: Callable[[], int] | None = None,
        gauges: ReadGauges = Gauges,
        time_of_day: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(config, incarnation)
        time_of_day = time_of_day or (lambda: self._now)
        self.gauges = gauges
        self.modules = modules_by_name(modules)
        self._table_watchers = [m for m in self.modules.values() if m.watches_tables]
        self.tables = Tables(matcher, self._table_changed if self._table_watchers else None)
        self.strategy = make_strategy(self.tables)
        self.absences = Absences(self.name, self.links, self.dials.keys(), config.accepts)
        self.namesakes = Namesakes(self.name, self.links, self._displace)
        self.barriers = Barriers(
            self.name,
            self.links,
            self.strategy.barrier_links,
            missing=lambda: self.absences.missing(self._now),
            tell_missing=lambda: self.absences.update(self._now),
            is_lost=lambda link: link.is_lost(self._now),
        )
        self.watermarks = Watermarks(self.links, time_of_day)
        self.losses = Losses(
            self.name,
            self.links,
            self.tables,
            self.absences,
            IdSource(prefix_of(self.name, incarnation)),
            time_of_day,
            self.strategy.publishers_over,
        )
        self.story = Story(config.name) if config.tell_stories else None
        self._congested_bytes = config.congested_bytes
        self._stopping = False
        self._over = False
        self._timers = {timer: m for m in self.modules.values() for timer in m.timers}
        self.watchers = Watchers(self.modules.values())
        self.router = Router(
            self,
            self.watchers,
            self._by_number,
            self._congested,
            config.credit_max,
            clock,
            admit=self.access.admit,
        )
        self._handlers = self._make_handlers()

    def _make_handlers(self) -> dict[type[Message], Callable[[Link, Any], None]]:
        """Who takes which message: the broker's own parts, and its modules."""
        handlers: dict[type[Message], Callable[[Link, Any], None]] = {
            Ack: self._ack,
            Listens: self._listens,
            ClientHere: self.namesakes.heard,
            Advertise: self._advertise,
            Credentials: _ignore,  # the driver has read them
            Unadvertise: self._unadvertise,
            Subscribe: self._subscribe,
            Unsubscribe: self._unsubscribe,
            Barrier: self._barrier,
            Handover: self._handover,
            Fence: self._fence,
            MissingLinks: self._missing_links,
            Loss: self.losses.heard,
            Bye: self._farewell,
        }
        for module in self.modules.values():
            for kind in module.messages:
                handlers[kind] = self._to_module(module)
        return handlers

    # -- the door -------------------------------------------------------------------------------------

    def start(self, now: int) -> list[Effect]:
        """Dial the neighbours and start the clockwork."""
        self._now = now
        for module in self.modules.values():
            module.start(self, now)
        self._tick()
        return self._flush()

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Take in one thing that happened; what is to be done about it."""
        if self._over:
            return []
        self._now = now
        if type(event) is FramesArrived:  # nearly all of them, and faster than a case
            self._frames_arrived(event.conn, event.chunk)
            return self._flush()
        match event:
            case Connected():
                self._connected(event.conn, event.peer, event.permit)
            case Disconnected():
                self._disconnected(event.conn, event.peer)
            case TimerFired(timer=timer):
                if timer == TICK:
                    self.watermarks.rise()
                    self._tick()
                    self.losses.tick()
                    self.namesakes.tick()
                    self.absences.tick(now)  # before fences are answered that a lost link owed
                    self.barriers.tick()
                else:
                    self._timers[timer].timer(self, timer, now)
            case StopAsked():
                self._stop_publishers()
            case AccessChanged():
                self._review_access(event.renew)
        return self._flush()

    def _flush(self) -> list[Effect]:
        """Turn what is queued on links into effects, and hand all effects over.

        A publication that the router has sent past a queue is among the effects already, and its link is not in the
        outbox for it.
        """
        if self._leaving:
            self._say_farewells()
        outbox, effects, meter = self._outbox, self._effects, self.meter
        while outbox:
            link = next(iter(outbox))
            waiting_bytes = link.waiting_bytes
            if waiting_bytes and link.overflowed:
                meter.links_dead += 1
                self._forget(link, OVERFLOW)
                continue
            if self._congested or link.congested or waiting_bytes > self._congested_bytes:
                self._note_congestion(link)
            elif link.congested_here:
                link.say_congested(False)
            if link.dropped_uncounted:
                self._count_drops(link)
            if link.dropped_untold and link.is_neighbour and link.has_room:
                self.losses.tell_drops(link)
            if link.is_client and (
                link.credit != self.config.credit_max
                or link.dropped_untold
                or link.congested_here
                or self._stopping
            ):
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
        if link.is_neighbour and (link.congested or link.waiting_bytes > self._congested_bytes):
            self._congested[link] = None
        else:
            self._congested.pop(link, None)
        link.say_congested(len(self._congested) > (link in self._congested))

    def _count_drops(self, link: Link) -> None:
        count = link.take_drops()
        self.meter.dropped += count
        self.meter.lost_at = self._now
        self.trace("dropped", {"peer": link.name, "count": count})

    def _look_after_client(self, link: Link) -> None:
        """Tell a slow client what it missed; give publishers credit while there is room ahead of them.

        It is told once something can be sent again: a notice for every drop would fill the queue with notices.
        """
        if link.dropped_untold and link.has_room:
            link.tell_missed()
        if self._stopping:
            link.grant(0)
        elif link.congested_here:
            link.grant(max(self.config.credit_min, link.credit // 2))
        else:
            standing, most = link.standing, self.config.credit_max
            if standing is not None:
                most = standing.permit.quota.credit(most)
            if link.credit < most:
                link.grant(min(most, max(1, link.credit * 2)))

    def _stop_publishers(self) -> None:
        """From now on no publisher has credit; what they have sent is taken in and handed on."""
        self._stopping = True
        self.access.release()
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
                    if conn not in self._connections:
                        return
                elif type(frame) is Publication:
                    run.append(frame)
                else:
                    if run:
                        self.router.route(link, run, self._effects, self._now, False)
                        run = []
                    self._message(link, frame)  # type: ignore[arg-type]
                    if conn not in self._connections:
                        return
            if run and link is not None:
                self.router.route(link, run, self._effects, self._now, True)
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
        if not may(link, message):
            raise PeerError(
                f"{link.name} is here as {link.kind} and may not send a {kind.__name__}"
            )
        handler = self._handlers.get(kind)
        if handler is None:
            if lane_of(message) is not Lane.MONITOR:
                raise PeerError(f"{link.name} sent a {kind.__name__}, which has no place here")
            handler = _ignore  # monitoring that nobody here takes part in
        if kind is not Ack:  # which no lane counts
            link.count(message)
            if kind is Mum and link.standing is not None and self._turn_back_migrant(link, message):  # type: ignore[arg-type]
                return
            self.meter.control_in += 1
            self.meter.messages_in[kind.__name__] += 1
        try:
            handler(link, message)
        except IdConflict as conflict:
            if link.is_neighbour:
                # Some client elsewhere took an id that is not its own: its broker only handed that on.
                self.trace("id-conflict", {"peer": link.name, "error": str(conflict)})
            elif isinstance(message, (Advertise, Subscribe)) and self._is_anothers(link, message):
                # Who has guessed the next id of a client, and was there first, must not be able to keep it out.
                self._refuse_message(link, message, "its id is in use: try again")
            else:
                raise

    # -- what links mean for routes -------------------------------------------------------------------

    def _link_is_fresh(self, link: Link) -> None:
        self.strategy.link_up(link)
        if link.is_client:
            self.namesakes.client_came(link)
        self.absences.link_up(link, self._now)
        self.losses.link_up(link)
        self.watermarks.link_up(link)
        for module in self.modules.values():
            module.link_up(self, link, self._now)

    def _displace(self, link: Link, broker: str) -> None:
        """Another client of that name has connected at another broker."""
        reason = f"another client called {link.name} has connected at {broker}"
        if link.established:
            self._effects.append(SendMany(link.conn, [encode(Bye(reason, is_final=True))]))
        self.trace("client-displaced", {"peer": link.name, "by": broker})
        self._forget(link, reason)

    def _has_left(self, name: str, *, is_final: bool) -> None:
        self.absences.left(name, self._now, is_final=is_final)
        if is_final:
            self.losses.left(name)

    def _lose_routes(self, link: Link) -> None:
        self.losses.link_lost(link)  # before the routes are gone that say who is concerned
        self.absences.link_lost(link, self._now)  # before fences are answered that this link owed
        self.barriers.link_lost(link)
        self.strategy.link_lost(link)
        for module in self.modules.values():
            module.link_lost(self, link, self._now)

    # -- what the frames say --------------------------------------------------------------------------

    def _table_changed(self, what: str, row: Any) -> None:
        for module in self._table_watchers:
            getattr(module, what)(self, row.link, row, self._now)

    def _turn_down(self, link: Link, message: Advertise | Subscribe) -> bool:
        """Tell a client if what it asks for cannot be taken; whether that was done. Everything else of it stands."""
        reason = _why_unreadable(link, message) or self.access.why_refused(link, message)
        if reason:
            self._refuse_message(link, message, reason)
        return bool(reason)

    def _is_anothers(self, link: Link, message: Advertise | Subscribe) -> bool:
        rows = self.tables.prt if isinstance(message, Subscribe) else self.tables.srt
        row = rows.get(message.id)
        return row is not None and row.link is not link

    def _refuse_message(self, link: Link, message: Advertise | Subscribe, reason: str) -> None:
        link.send_message(Refused(message.id, reason))
        self.trace("refused", {"peer": link.name, "id": message.id, "reason": reason})

    def _fence(self, link: Link, fence: Fence) -> None:
        if not self.losses.take_fence(link, fence.token):
            self.barriers.fence(link, fence)

    def _missing_links(self, link: Link, message: MissingLinks) -> None:
        # Before neighbours are told what is there again.
        self.losses.tell_of_new_publishers(link, message.links)
        self.absences.heard(link, message, self._now)
        self.losses.check_whole()

    def _barrier(self, link: Link, barrier: Barrier) -> None:
        if _why_unreadable(link, barrier):
            link.send_message(Fence(barrier.token))  # behind the refusal of what it is about
            return
        self.barriers.barrier(link, barrier)

    def _advertise(self, link: Link, message: Advertise) -> None:
        if self._turn_down(link, message):
            return
        if self.story is not None:
            self.story.tell(
                self._now, f"advertised by {link.name} for {message.publisher}", message.id
            )
        self.strategy.advertise(link, message)
        row = self.tables.srt.get(message.id)
        if (
            row is not None and row.link is link
        ):  # not of somebody else, who has it under another epoch
            self.access.note_advertised(link, message.id, message.publisher)

    def _unadvertise(self, link: Link, message: Unadvertise) -> None:
        self.strategy.unadvertise(link, message.id)
        self.access.note_unadvertised(link, message.id)

    def _subscribe(self, link: Link, message: Subscribe) -> None:
        if self._turn_down(link, message):
            return
        if self.story is not None:
            self.story.tell(self._now, f"subscribed by {link.name}", message.id)
        self.strategy.subscribe(link, message)
        if self.losses.open and link.is_client:
            self.losses.subscribed(self.tables.prt[message.id])
        self.access.note_subscribed(link, message.id)

    def _unsubscribe(self, link: Link, message: Unsubscribe) -> None:
        self.strategy.unsubscribe(link, message.id)
        self.access.note_unsubscribed(link, message.id)

    def _handover(self, link: Link, message: Handover) -> None:
        if link.is_client and message.client != link.name:
            raise PeerError(f"{link.name} wants to hand over {message.client}")
        self.barriers.handover(link, message)

    def _listens(self, link: Link, message: Listens) -> None:
        link.address = message.address

    def _ack(self, link: Link, ack: Ack) -> None:
        if link.acknowledge(ack):
            self.watermarks.fall(link)

    # -- access ---------------------------------------------------------------------------------------

    def _turn_back_migrant(self, link: Link, mum: Mum) -> bool:
        """Send a publisher back to where it was if it may not come here; whether that was done.

        Nobody takes another's publisher.
        """
        known = self.tables.srt.get(mum.id)
        reason = self.access.why_refused(link, mum)
        if not reason and known is not None and known.publisher != mum.publisher:
            reason = f"the advertisement is that of {known.publisher}"
        if reason:
            link.send_message(Mcm(mum.id, mum.epoch, broken=True))
            self.trace("refused", {"peer": link.name, "id": mum.id, "reason": reason})
        elif known is not None:
            self.access.note_advertised(link, mum.id, mum.publisher)
        return bool(reason)

    def _review_access(self, renew: Callable[[Permit], Permit | None]) -> None:
        """The rules have changed: who may not be here any more goes, and so does what nobody may have any more."""
        for link in list(self.links.values()):
            if link.standing is None:
                continue
            permit = renew(link.standing.permit)
            reason = REVOKED if permit is None else self._why_gone(link, permit)
            if permit is None or reason:
                self.trace("denied", {"peer": link.name, "reason": reason})
                if link.established:
                    self._effects.append(SendMany(link.conn, [encode(Denied(reason))]))
                self._forget(link, reason)
                continue
            self.access.renew(link, permit, self._now)
            self._withdraw_forbidden(link, permit)

    @staticmethod
    def _why_gone(link: Link, permit: Permit) -> str:
        """Why a peer may not stay under another permit; empty if it may."""
        if not link.is_routed:
            return (
                "" if permit.may_operate("read") else f"{permit.user} is no operator here any more"
            )
        return permit.why_not_named(link.name)

    def _withdraw_forbidden(self, link: Link, permit: Permit) -> None:
        """Withdraw subscriptions and advertisements that a permit does not allow, and tell the client."""
        assert link.standing is not None
        found: list[tuple[int, str]] = []
        for id in sorted(link.standing.subscriptions):
            if reason := permit.why_not_subscribe(self.tables.prt[id].selection):
                found.append((id, reason))
                self._unsubscribe(link, Unsubscribe(id))
        for id, name in sorted(link.standing.publishers.items()):
            row = self.tables.srt.get(id)
            if row is None or row.link is not link:
                continue
            reason = permit.why_not_named(name.decode()) or permit.why_not_advertise(row.selection)
            if reason:
                found.append((id, reason))
                self._unadvertise(link, Unadvertise(id))
        for id, reason in found:
            link.send_message(Refused(id, reason[:REASON_CHARACTERS_MAX]))
            self.trace("refused", {"peer": link.name, "id": id, "reason": reason})

    # -- for modules ----------------------------------------------------------------------------------

    def _to_module(self, module: Module) -> Callable[[Link, Any], None]:
        return lambda link, message: module.message(self, link, message, self._now)

    def send(self, link: Link, message: Message) -> None:
        """Send a message to a peer, in the lane its kind belongs to."""
        link.send_message(message)

    def set_timer(self, timer: str, at: int) -> None:
        """Ask for `Module.timer` at a time; `timer` is one that a module has declared."""
        if timer not in self._timers:
            raise BugError(f"no module of {self.name} has declared the timer {timer!r}")
        self._effects.append(SetTimer(timer, at))

    def watch(
        self,
        module: Module,
        *,
        publications: bool | None = None,
        marked: bool | None = None,
        marks: bool | None = None,
    ) -> None:
        """Switch what a module is called for; see `Context.watch`."""
        self.watchers.watch(module, publications=publications, marked=marked, marks=marks)
