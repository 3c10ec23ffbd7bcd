"""The session: a client without I/O, the counterpart of the broker's door.

The application calls (`subscribe`, `publish`, …), the driver brings events (`handle`); either way `flush` says
what is to be done and what the application is to be told. Promises:

- Deliveries come in order per publisher, each once, through every reconnection and move. The high-water mark of
  each advertisement drops what was seen already.
- A broken connection to a living broker loses nothing: the link replays. If the broker lost its memory, or another
  takes its place (`connect`), everything is set up anew, and publications it had not confirmed are reported as
  unconfirmed rather than sent twice.
- `move_to` changes brokers without loss: make before break. The state machine is `Move`.
- `Goal` takes the session to another generation of the network, with nothing lost (`Crossing`).
- A publisher migrates from one session to another (`pause`, `adopt`, `release`, `take_back`), and keeps the id and the
  count that brokers know it by. The state machine is `Migration`.
"""

from __future__ import annotations

from runnel.broker.effects import Connect, SendMany, SetTimer
from runnel.broker.events import Connected, Disconnected, Event, FramesArrived, TimerFired
from runnel.broker.ids import IdSource
from runnel.client.config import SessionConfig
from runnel.client.crossing import Crossing, Stage
from runnel.client.effects import (
    Deliver,
    Dismissed,
    MissedSome,
    Moved,
    MoveGivenUp,
    Ready,
    RelocateAsked,
    SessionEffect,
)
from runnel.client.home import CROSSED, DRY, HELD, JOINED, Home, is_return, return_of
from runnel.client.move import Move
from runnel.errors import InputError, PeerError
from runnel.language import EVERYTHING, Selection
from runnel.matching import make_engine
from runnel.wire import (
    Ack,
    Barrier,
    Bye,
    Fence,
    Frame,
    Goal,
    Mcm,
    Missed,
    Publication,
    Relocate,
    Subscribe,
    Unsubscribe,
    raw_selection,
)

TICK = "tick"


class Session(Crossing):
    """A client; see the top of the file."""

    def __init__(self, config: SessionConfig, incarnation: int, ids: IdSource) -> None:
        super().__init__(config, incarnation, ids)
        self.subscriptions: dict[int, Selection] = {}
        self.doubles = 0  # publications dropped because they were seen
        self._engine = make_engine()
        self._moving_since = 0

    # -- the application's calls ----------------------------------------------------------------------

    def connect(self, broker: str, now: int, generation: int = 0) -> None:
        """Live at this broker from now on. An earlier home is given up; what it had is set up anew here."""
        left = [home for home in (self.home, self.next) if home is not None]
        for home in left:
            self._leave(home)
        self.move, self.next = Move.STEADY, None
        old = self.home
        self.home = self._new_home(broker, now)
        self.home.generation = generation or (old.generation if old and self.ahead else 0)
        for home in left:
            self.home.waits |= home.asked_ready  # asked for again once the new home is up
        if old is not None:
            self._home_is_lost(old)
        self._tick(now)

    def move_to(self, broker: str, now: int) -> None:
        """Change brokers with nothing lost and nothing doubled; `Moved` tells when it is done."""
        if self.home is None or self.move is not Move.STEADY:
            raise InputError("a session moves from where it is connected, one move at a time")
        if not self.is_settled:
            raise InputError(
                "the network is being switched to another plan: wait for the end of it"
            )
        if broker == self.home.broker:
            raise InputError(f"the session is at {broker} already")
        self.move, self._moving_since = Move.JOINING, now
        self.next = self._new_home(broker, now)
        self.next.generation = self.home.generation
        self._tick(now)

    def subscribe(self, selection: Selection) -> int:
        """Ask for what a selection describes; the id that deliveries will name."""
        id = self._ids.next()
        self.subscriptions[id] = selection
        self._engine.add(id, selection)
        for home in self._homes():
            if home.registered:
                self._register_subscription(home, id)
        return id

    def unsubscribe(self, id: int) -> None:
        """Stop: from now on nothing more is delivered for this id."""
        del self.subscriptions[id]
        self._engine.remove(id)
        for home in self._homes():
            if id in home.subscriptions:
                self._send(home, Unsubscribe(home.subscriptions.pop(id)))

    def ready(self, id: int) -> None:
        """Ask for `Ready(id)`: the routes of a subscription or advertisement are complete."""
        home = self.next if self.move is Move.DRYING else self.home
        if home is None or not home.registered:
            raise InputError("not connected yet: ask when the home is up")
        advertised = self.publishers.get(id)
        if advertised is not None and advertised.paused:
            advertised.asks += 1  # asked where it goes on
        else:
            self._ask_ready(home, id)

    def _ask_ready(self, home: Home, id: int) -> None:
        about = "subscription" if id in self.subscriptions else "advertisement"
        selection = (
            self.subscriptions[id] if id in self.subscriptions else self.publishers[id].selection
        )
        token = self._ids.next()
        home.waits[token] = id
        self._send(home, Barrier(token, raw_selection(selection), about))  # type: ignore[arg-type]

    def hold(self, holding: bool) -> None:
        """Stop acknowledging what is delivered, so that the broker sends no more than a window; or go on."""
        self.holding = holding
        for home in self._homes():
            home.link.holding = holding
            home.link.owe_ack()

    def close(self) -> None:
        """Leave: everything is withdrawn."""
        for home in self._homes():
            self._leave(home)
        self.home = self.next = self.ahead = None
        self.move, self.stage, self.pausing = Move.STEADY, Stage.OLD, False
        self._goal, self._step = None, None

    # -- the driver's door ----------------------------------------------------------------------------

    def handle(self, event: Event, now: int) -> list[SessionEffect]:
        """Take in one thing that happened; what is to be done and told."""
        match event:
            case FramesArrived(conn=conn, chunk=chunk):
                self._frames_arrived(conn, chunk, now)
            case Connected(conn=conn, peer=peer):
                self._connected(conn, peer, now)
            case Disconnected(conn=conn, peer=peer):
                self._disconnected(conn, peer, now)
            case TimerFired():
                self._tick(now)
        return self.flush(now)

    def flush(self, now: int) -> list[SessionEffect]:
        """What is to be done and told after calls; `handle` does it by itself."""
        for home in self._homes():
            if frames := home.link.take(now):
                self._effects.append(SendMany(home.conn, frames))
        effects, self._effects = self._effects, []
        return effects

    def _frames_arrived(self, conn: int, chunk: bytes, now: int) -> None:
        home = self._home_of(conn)
        if home is None:
            return
        try:
            for frame in home.decoder.feed(chunk):
                if type(frame) is Publication and home.link.established:
                    home.link.data.received += 1
                    self._publication(home, frame)
                else:
                    self._frame(home, frame, now)
                if home.conn != conn:
                    return
        except PeerError as error:
            self._drop_connection(home, str(error), now)
            return
        home.link.heard(len(chunk), now)

    def _frame(self, home: Home, frame: Frame, now: int) -> None:
        if not home.link.established:
            self._hello(home, frame, now)
            return
        assert not isinstance(frame, Publication)
        home.link.count(frame)
        match frame:
            case Ack():
                home.link.credit = frame.credit
                home.link.acknowledge(frame)
                self._acknowledged(home)
            case Fence():
                self._fence(home, frame.token, now)
            case Bye():
                home.link.peer_token = 0  # there is nothing to come back to
                self._drop_connection(home, "the broker leaves", now)
                if frame.is_final:
                    self._dismissed(home, frame.reason)
            case Missed():
                self._effects.append(MissedSome(frame.count))
            case Mcm():
                self._complete(home, frame)
            case Relocate():
                for id in self._known_by(home, frame.id):
                    self._effects.append(RelocateAsked(id, frame.broker, frame.address))
            case Goal():
                self._goal_came(home, frame)
            case _:
                raise PeerError(f"{home.broker} sent a {type(frame).__name__} to a client")

    def _publication(self, home: Home, publication: Publication) -> None:
        if home is not self.next:
            if self.ahead is None or not self._must_wait(home, publication):
                self._deliver(publication)
            return
        home.held.append(publication)
        home.held_bytes += len(publication.body)
        if home.held_bytes > self.config.held_bytes_max:
            self._give_up_move()

    def _deliver(self, publication: Publication) -> None:
        if not self._marks.rise(publication.advertisement, publication.counter):
            self.doubles += 1
            return
        wanted_by = self._engine.match(publication.attributes)
        if wanted_by:
            self._effects.append(Deliver(publication, tuple(sorted(wanted_by))))

    def _fence(self, home: Home, token: int, now: int) -> None:
        what = home.waits.pop(token, None)
        if what == JOINED and home is self.next and self.home is not None:
            self.move = Move.DRYING
            if self.home.registered:
                self._ask(self.home, DRY)
            else:
                self._arrive(gap=True)
        elif what == DRY and home is self.home and self.move is Move.DRYING:
            self._confirm(home, len(home.outstanding))  # all were published before the barrier
            self._arrive()
        elif what == CROSSED:
            self._crossed(home, token)
        elif what == HELD:
            self._brought(home, token)
        elif what is not None and is_return(what):
            if return_of(what) in self.publishers:
                self.go_on(return_of(what))
        elif what is not None and what > 0:
            if home is self.home and self.ahead is not None:
                self._ask_again(self.ahead, {token: what})  # it is ready when it is in both
            else:
                self._effects.append(Ready(what))

    def _dismissed(self, home: Home, reason: str) -> None:
        if home is self.next:
            self._give_up_move()
            return
        self.close()
        self._effects.append(Dismissed(reason))

    # -- moving ---------------------------------------------------------------------------------------

    def _arrive(self, *, gap: bool = False) -> None:
        """The old path is dry, or lost with what was on it: what was held goes out, and the old home is left."""
        old, new = self.home, self.next
        assert old is not None and new is not None
        self.home, self.next, self.move = new, None, Move.STEADY
        self._leave(old)
        self._let_go_on()
        self._ask_again(new, old.asked_ready)
        for publication in new.held:
            self._deliver(publication)
        new.held, new.held_bytes = [], 0
        self._effects.append(Moved(new.broker, gap))
        self._heard_of = (0, 0)
        if new.goal is not None:
            self._goal_came(new, new.goal)

    def _give_up_move(self) -> None:
        given_up, self.next, self.move = self.next, None, Move.STEADY
        if given_up is not None and self.home is not None:
            self._leave(given_up)
            self.home.forget_fences()  # or a later move takes this one's for its own
            self._ask_again(self.home, given_up.asked_ready)
            self._effects.append(MoveGivenUp(given_up.broker))

    def _ask(self, home: Home, what: int) -> None:
        """A barrier over all routes of this home."""
        token = self._ids.next()
        home.waits[token] = what
        self._send(home, Barrier(token, raw_selection(EVERYTHING), "advertisement"))

    def _ask_again(self, home: Home, waits: dict[int, int]) -> None:
        """Whoever waits for readiness still does, though what was asked is gone."""
        if not home.registered:
            home.waits |= waits
            return
        for id in waits.values():
            if id in self.subscriptions or id in self.publishers:
                self._ask_ready(home, id)

    # -- a home that does not know us -----------------------------------------------------------------

    def _register(self, home: Home) -> None:
        """Tell a broker that does not know us everything."""
        if home is self.next and self.home and self.home.generation not in (0, home.generation):
            self._give_up_move()  # one generation cannot take over from the other like that
            return
        home.registered = True
        waits, home.waits = home.asked_ready, {}
        for id in self.publishers:
            self._register_publisher(home, id)
        for id in self.subscriptions:
            self._register_subscription(home, id)
        self._ask_again(home, waits)
        if home is self.home:
            self._let_go_on()
        if home is self.next and self.home is not None:
            self.move = Move.JOINING
            self.home.forget_fences()  # if it joins anew, what was dry before was so too early
            self._ask(home, JOINED)
        elif self.move is Move.DRYING:  # nothing can come by an old path that is gone
            self._arrive(gap=True)
        self._is_known(home)

    def _register_subscription(self, home: Home, id: int) -> None:
        home.subscriptions[id] = self._ids.next()
        raw = raw_selection(self.subscriptions[id])
        self._send(home, Subscribe(home.subscriptions[id], raw, self.config.ttl))

    # -- the clockwork --------------------------------------------------------------------------------

    def _tick(self, now: int) -> None:
        """Show that we live, notice a silent broker, dial who is missing, end a move that does not come off."""
        if self.move is Move.JOINING and now - self._moving_since > self.config.move_timeout_ns:
            self._give_up_move()
        if self.move is Move.DRYING and self.home is not None and self.home.link.is_expired(now):
            self._arrive(gap=True)  # the old home is gone for good: nothing more comes by its path
        if self._goal is not None or self.ahead is not None:
            self._look_for_lost(now)
        for home in self._homes():
            home.link.heartbeat(now)
            if home.conn and home.link.has_been_silent(now):
                self._drop_connection(home, "nothing heard for three heartbeats", now)
            if not home.conn and not home.dialling:
                home.dialling = True
                self._effects.append(Connect(home.broker))
        self._effects.append(SetTimer(TICK, now + self.config.link.heartbeat_ns // 2))
