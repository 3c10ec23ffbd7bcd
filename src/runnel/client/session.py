"""The session: a client without I/O, the counterpart of the broker's door.

The application makes calls (`subscribe`, `publish`, …), and the driver passes in events (`handle`). In both cases
`flush` returns the effects: what the driver has to do, and what the application has to know. Promises:

- Deliveries come in order per publisher, each once, through every reconnection and move (receiving.py).
- A broken connection to a living broker loses nothing: the link replays. If the broker lost its memory, or another
  takes its place (`connect`), everything is set up anew, and publications it had not confirmed are reported as
  unconfirmed rather than sent twice.
- `move_to` changes brokers without loss (move.py).
- `Goal` takes the session to another generation of the network, with nothing lost (crossing.py).
- A publisher migrates from one session to another, and keeps the id and the counter that brokers know it by
  (migration.py).

The work is done by parts with a file each. A part gets the other parts that it needs when it is made, and changes
their state only by calling them. The session itself only passes calls, events and messages to the right part:

    homes        connections, handshakes, farewells                          homes.py
    fences       what the fences under way are for                           fences.py
    receiver     subscriptions, deliveries, duplicates                       receiving.py
    advertiser   advertisements, publications, confirmations                 publishing.py
    mover        the lossless move to another broker                         move.py
    crossing     the way to another generation of the network                crossing.py
    gaps         what may have been missed                                   gaps.py
    order        what is held back during a crossing                         order.py
"""

from __future__ import annotations

from collections.abc import Callable

from runnel.broker.effects import SendMany, SetTimer
from runnel.broker.events import Connected, Disconnected, Event, FramesArrived, TimerFired
from runnel.broker.ids import IdSource
from runnel.client.config import SessionConfig
from runnel.client.crossing import Crossing
from runnel.client.effects import (
    AccessRefused,
    BrokerErred,
    Dismissed,
    HomeUp,
    MissedSome,
    Moved,
    PingsAsked,
    Ready,
    RelocateAsked,
    SelectionRefused,
    SessionEffect,
)
from runnel.client.fences import AwaitedFence, Fences, Purpose, ready_fences
from runnel.client.gaps import GapKeeper
from runnel.client.home import Home
from runnel.client.homes import Homes, begins_with_hello
from runnel.client.move import Move, Mover
from runnel.client.order import OrderKeeper
from runnel.client.publishing import Advertised, Advertiser
from runnel.client.receiving import Receiver
from runnel.errors import InputError, PeerError
from runnel.language import Attributes, Selection
from runnel.wire import (
    Ack,
    Bye,
    Denied,
    Fence,
    Frame,
    Goal,
    Loss,
    Mcm,
    Missed,
    PingAnswer,
    PingRequest,
    Publication,
    Refused,
    RefusedPublications,
    Relocate,
    Stage,
)
from runnel.wire.header import PROTOCOL_MARK
from runnel.wire.messages import About

TICK = "tick"


class Session:
    """A client; see the top of the file."""

    def __init__(
        self,
        config: SessionConfig,
        incarnation: int,
        ids: IdSource,
        time_of_day: Callable[[], int],
    ) -> None:
        self.config = config
        self._time_of_day = time_of_day
        effects: list[SessionEffect] = []  # every part adds to it
        self._effects = effects
        self.homes = Homes(config, incarnation, effects)
        self.fences = Fences(ids, self._selection_of)
        self.receiver = Receiver(config, ids, self.homes, effects)
        self.advertiser = Advertiser(config, ids, self.homes, self.fences, effects)
        self.gaps = GapKeeper(config, self.homes, self.fences, effects, time_of_day)
        self.mover = Mover(
            config,
            self.homes,
            self.fences,
            self.advertiser,
            self.receiver,
            self.gaps,
            effects,
            arrived=self._arrived,
        )
        self.order = OrderKeeper(config, self.homes, self.fences, self.receiver)
        self.crossing = Crossing(
            config,
            self.homes,
            self.fences,
            self.advertiser,
            self.order,
            self.gaps,
            effects,
            is_moving=lambda: self.move is not Move.STEADY,
        )

    # -- properties -----------------------------------------------------------------------------------

    @property
    def home(self) -> Home | None:
        """Where the session lives."""
        return self.homes.home

    @property
    def next(self) -> Home | None:
        """Where it is moving to."""
        return self.homes.next

    @property
    def ahead(self) -> Home | None:
        """Its home in the generation that it is crossing to."""
        return self.homes.ahead

    @property
    def outlet(self) -> Home | None:
        """The home that it publishes at."""
        return self.crossing.outlet

    @property
    def move(self) -> Move:
        """Where a move stands."""
        return self.mover.state

    @property
    def stage(self) -> Stage:
        """How far a crossing has come."""
        return self.crossing.stage

    @property
    def is_settled(self) -> bool:
        """Whether no move or crossing is under way or about to begin."""
        return self.move is Move.STEADY and self.crossing.is_idle

    @property
    def subscriptions(self) -> dict[int, Selection]:
        """What it subscribed to, by id."""
        return self.receiver.subscriptions

    @property
    def publishers(self) -> dict[int, Advertised]:
        """What it advertised, by id."""
        return self.advertiser.publishers

    @property
    def doubles(self) -> int:
        """How many publications were dropped as duplicates."""
        return self.receiver.doubles

    def _selection_of(self, id: int) -> tuple[About, Selection] | None:
        if id in self.subscriptions:
            return "subscription", self.subscriptions[id]
        if id in self.publishers:
            return "advertisement", self.publishers[id].selection
        return None

    # -- the application's calls ----------------------------------------------------------------------

    def connect(self, broker: str, now: int, generation: int = 0) -> None:
        """Make this broker the home from now on. An earlier home is given up, and everything is set up anew here."""
        old = self.home
        left = self.homes.set_home(broker, now, generation)
        self.mover.end()
        assert self.home is not None
        for home in left:
            self.fences.ask_again(self.home, ready_fences(home))  # once the new home is up
        if old is not None:
            self.gaps.home_left(old, self.home, lost=old.registered)
            self.crossing.home_lost(old)
        self._tick(now)

    def move_to(self, broker: str, now: int, timeout_ns: int | None = None) -> None:
        """Change brokers with nothing lost and nothing delivered twice; the effect `Moved` says when it is done."""
        if self.home is None or self.move is not Move.STEADY:
            raise InputError("a session moves from where it is connected, one move at a time")
        if not self.is_settled:
            raise InputError(
                "the network is being switched to another plan: wait for the end of it"
            )
        if broker == self.home.broker:
            raise InputError(f"the session is at {broker} already")
        self.mover.begin(
            broker, now, self.config.move_timeout_ns if timeout_ns is None else timeout_ns
        )
        self._tick(now)

    def subscribe(self, selection: Selection) -> int:
        """Subscribe to what a selection describes; returns the id that deliveries will name."""
        return self.receiver.subscribe(selection)

    def unsubscribe(self, id: int) -> None:
        """Stop: from now on nothing more is delivered for this id."""
        self.receiver.unsubscribe(id)

    def advertise(self, name: str, selection: Selection) -> int:
        """Advertise what the publisher of this name will publish; returns the id to publish with."""
        return self.advertiser.advertise(name, selection)

    def unadvertise(self, id: int) -> None:
        """Nothing more will be published with this id."""
        self.advertiser.unadvertise(id)

    @property
    def credit(self) -> int:
        """How many publications may be sent now."""
        return self._credit_at(self.crossing.outlet)

    def _credit_at(self, home: Home | None) -> int:
        if home is None or not home.registered or home.link.is_half_full:
            return 0
        if self.mover.pausing or self.crossing.pausing or self.gaps.is_pausing(home):
            return 0  # what was published before must be everywhere before a shorter way opens
        credit = home.link.credit - len(home.outstanding)
        return credit if credit > 0 else 0

    def publish(
        self, id: int, attributes: Attributes, payload: bytes = b"", time_ns: int = 0
    ) -> Publication:
        """Publish with an advertisement of ours. The caller has to wait for `credit` first."""
        home = self.crossing.outlet
        if home is None or not self._credit_at(home):
            raise InputError("no credit to publish: wait until the broker has taken what was sent")
        return self.advertiser.publish(home, id, attributes, payload, time_ns)

    def may_publish(self, id: int) -> bool:
        """Whether an advertisement of ours may be published with now."""
        return not self.publishers[id].paused and self.credit > 0

    def ready(self, id: int) -> None:
        """Ask for the effect `Ready(id)`: the routes of a subscription or advertisement are complete."""
        home = self.next if self.move is Move.DRYING else self.home
        if home is None or not home.registered:
            raise InputError("not connected yet: ask when the home is up")
        if not self.advertiser.defer_ready(id):
            self.fences.ask_ready(home, id)

    def hold(self, holding: bool) -> None:
        """Stop acknowledging deliveries, so that the broker sends no more than a window; or start again."""
        self.homes.hold(holding)

    def close(self) -> None:
        """Leave: everything is withdrawn."""
        self.homes.close()
        self.mover.end()
        self.crossing.close()

    # -- the driver's calls ---------------------------------------------------------------------------

    def handle(self, event: Event, now: int) -> list[SessionEffect]:
        """Take in one event; returns the effects."""
        match event:
            case FramesArrived(conn=conn, chunk=chunk):
                self._frames_arrived(conn, chunk, now)
            case Connected(conn=conn, peer=peer):
                self.homes.connected(conn, peer, now)
            case Disconnected(conn=conn, peer=peer):
                self.homes.disconnected(conn, peer, now)
            case TimerFired():
                self._tick(now)
        return self.flush(now)

    def flush(self, now: int) -> list[SessionEffect]:
        """Return the effects of calls made since the last flush; `handle` does it by itself."""
        for home in self.homes.all():
            if frames := home.link.take(now):
                self._effects.append(SendMany(home.conn, frames))
        effects = self._effects.copy()
        self._effects.clear()  # the parts know this list, and no other
        return effects

    def _tick(self, now: int) -> None:
        """What depends on time: time limits, heartbeats, dialling."""
        self.mover.tick(now)
        self.crossing.tick(now)
        self.gaps.tick(now)
        self._promise_watermark()
        self.homes.tick(now)
        self._effects.append(SetTimer(TICK, now + self.config.link.heartbeat_ns // 2))

    def _promise_watermark(self) -> None:
        """All that was published up to now has been handed to the links."""
        for home in self.homes.all():
            home.link.promise_watermark(self._time_of_day())

    # -- messages from brokers ------------------------------------------------------------------------

    def _frames_arrived(self, conn: int, chunk: bytes, now: int) -> None:
        home = self.homes.with_connection(conn)
        if home is None:
            return
        try:
            for frame in home.decoder.feed(chunk):
                if type(frame) is Publication and home.link.established:
                    home.link.count_publications(1)
                    self._take_publication(home, frame)
                else:
                    self._take_frame(home, frame, now)
                if home.conn != conn:
                    return
        except PeerError as error:
            self._broker_erred(home, str(error), chunk, now)
            return
        home.link.heard(len(chunk), now)

    def _broker_erred(self, home: Home, reason: str, chunk: bytes, now: int) -> None:
        """Do not come back for more of the same. Whoever has not said Hello may be no broker: try another address."""
        has_greeted = home.link.established or begins_with_hello(chunk)
        if not has_greeted and PROTOCOL_MARK not in chunk:
            reason = "it answered, but does not speak Runnel"
        self.homes.drop_connection(home, reason, now)
        if has_greeted and home is self.next:
            self.mover.give_up()
        elif has_greeted:
            self.close()
            self._effects.append(BrokerErred(home.broker, reason))

    def _take_publication(self, home: Home, publication: Publication) -> None:
        """Deliver a publication, unless it has to be held back during a move or a crossing."""
        homes = self.homes
        if home is homes.next:
            self.mover.hold_back(publication)
        elif homes.ahead is None or not self.order.hold_back(home, publication):
            self.receiver.deliver(publication)

    def _take_frame(self, home: Home, frame: Frame, now: int) -> None:
        if isinstance(frame, Denied):
            self._denied(home, frame.reason, now)
            return
        if not home.link.established:
            if isinstance(frame, Bye):
                self.homes.drop_connection(home, f"it refuses this client: {frame.reason}", now)
            else:
                self._take_hello(home, frame, now)
            return
        assert not isinstance(frame, Publication)
        home.link.count(frame)
        match frame:
            case Ack():
                home.link.accept_credit(frame.credit)
                home.link.acknowledge(frame)
                self.advertiser.confirm_acknowledged(home)
            case Fence():
                self._take_fence(home, frame, now)
            case Bye():
                home.link.forget_peer()
                self.homes.drop_connection(home, "the broker leaves", now)
                if frame.is_final:
                    self._dismissed(home, frame.reason)
            case Refused():
                self._drop_refused(home, frame)
            case RefusedPublications():
                self.advertiser.report_refused(home, frame)
            case Missed():
                self._effects.append(MissedSome(frame.count))
            case Loss():
                self.gaps.take_loss(home, frame)
            case Mcm():
                self.advertiser.report_migrated(home, frame)
            case Relocate():
                for id in self.advertiser.publishers_by_wire_id(home, frame.id):
                    self._effects.append(RelocateAsked(id, frame.broker, frame.address))
            case PingRequest():
                if self.advertiser.publishers_by_wire_id(home, frame.id):
                    self._effects.append(
                        PingsAsked(
                            home.broker, frame.id, frame.number, frame.brokers, frame.samples
                        )
                    )
            case Goal():
                self._take_goal(home, frame)
            case _:
                raise PeerError(f"{home.broker} sent a {type(frame).__name__} to a client")

    def answer_pings(self, asked: PingsAsked, times_ns: tuple[int, ...]) -> None:
        """Tell the broker that has asked, if we are still there, the mean round trip to each of the brokers."""
        for home in self.homes.all():
            if home.broker == asked.broker and home.link.established:
                home.send(PingAnswer(asked.id, asked.number, times_ns))

    def _take_hello(self, home: Home, frame: Frame, now: int) -> None:
        was_registered, watermark_ns = home.registered, home.link.watermark_ns
        is_fresh = self.homes.take_hello(home, frame, now)
        if is_fresh:
            if was_registered:
                self.gaps.memory_lost(home, watermark_ns, is_next=home is self.next)
            self._register(home)
        else:
            self.advertiser.confirm_acknowledged(home)
        if home in self.homes.all():  # it may have been given up meanwhile
            self._effects.append(HomeUp(home.broker, is_fresh))

    def _register(self, home: Home) -> None:
        """Tell a broker that does not know us all our advertisements and subscriptions."""
        here = self.home
        if home is self.next and here and here.generation not in (0, home.generation):
            self.mover.give_up()  # a handover works only within one generation
            return
        home.registered = True
        asked = self.fences.reset(home)
        for id in self.publishers:
            self.advertiser.register(home, id)
        for id in self.subscriptions:
            self.receiver.register(home, id)
        self.fences.ask_again(home, asked)
        self.gaps.home_registered(home)
        self._promise_watermark()
        home.link.owe_ack()
        if home is here:
            self.advertiser.resume_returning()
        self.mover.home_registered(home)
        self.crossing.home_registered(home)

    def _take_fence(self, home: Home, fence: Fence, now: int) -> None:
        """Give a fence to the part that waits for it: everything before its barrier has arrived."""
        token = fence.token
        awaited = self.fences.take(home, token)
        if awaited is None:
            return
        match awaited.purpose:
            case Purpose.JOINED:
                self.mover.take_joined(home, has_reached=fence.reached, missing=fence.missing)
            case Purpose.DRY:
                self.mover.take_dry(home)
            case Purpose.STEP:
                self.crossing.take_step_fence(home, token, fence.missing)
            case Purpose.LINK_DRAINED:
                self.crossing.link_drained(home, token)
            case Purpose.RETURNED:
                self.advertiser.finish_return(awaited.id)
            case Purpose.WHOLE:
                self.gaps.take_fence(home, fence.missing, now)
            case Purpose.READY:
                self._report_ready(home, fence, awaited)

    def _report_ready(self, home: Home, fence: Fence, awaited: AwaitedFence) -> None:
        missing = tuple(sorted({*awaited.missing, *fence.missing}))
        if home is self.home and self.ahead is not None:  # ready means ready in both
            asked = AwaitedFence(Purpose.READY, awaited.id, missing)
            self.fences.ask_again(self.ahead, {fence.token: asked})
        else:
            self._effects.append(Ready(awaited.id, missing))

    def _drop_refused(self, home: Home, refused: Refused) -> None:
        """A broker does not take something of ours: it is withdrawn at all homes, and everything else stands."""
        dropped = self.receiver.drop_refused(home, refused.id)
        dropped += self.advertiser.drop_refused(home, refused.id)
        for id in dropped:
            self._effects.append(SelectionRefused(id, refused.reason))

    def _take_goal(self, home: Home, goal: Goal) -> None:
        """Take in a goal: which generation to be in, or, from a broker on standby, which broker to go to instead."""
        home.goal = goal
        is_redirect = goal.generation == home.generation and goal.address != ""
        if home is self.next:  # any other goal is handled on arrival
            if is_redirect:
                self.mover.give_up()
        elif not is_redirect:
            self.crossing.take_goal(goal)
        elif home is self.home and not self.crossing.take_redirect(goal):
            broker = f"{goal.address}#{goal.generation}"
            self._effects.append(Moved(broker))
            self.connect(broker, home.latest_time, goal.generation)

    def _arrived(self, home: Home) -> None:
        """A move has succeeded: the goal that the new home has sent meanwhile counts now."""
        self.crossing.forget_last_goal()
        if home.goal is not None:
            self._take_goal(home, home.goal)

    def _denied(self, home: Home, reason: str, now: int) -> None:
        """A broker does not let us in; if it is the target of a move, the session stays where it is."""
        home.link.forget_peer()
        self.homes.drop_connection(home, reason, now)
        if home is self.next:
            self.mover.give_up()
            return
        self.close()
        self._effects.append(AccessRefused(home.broker, reason))

    def _dismissed(self, home: Home, reason: str) -> None:
        if home is self.next:
            self.mover.give_up()
            return
        self.close()
        self._effects.append(Dismissed(reason))
