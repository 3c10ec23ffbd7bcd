"""The lossless move: a session changes brokers, nothing is lost and nothing is delivered twice.

This is for a whole client, which goes to another broker of its network. A single publisher goes by a migration
(migration.py), and all clients go to the next generation of the network by crossings (crossing.py).

The session connects to the new home before it leaves the old one, and the old home hands it over (broker/barriers.py):

    session                        old home          new home
      │  move_to: dial; nothing else changes             │    DIALLING  the new home must come up in time
      │── advertisements, subscriptions, handover ─────▶ │    DRYING    the new home's deliveries are held back,
      │── fence: all is sent ───────▶│                   │              nothing is published
      │                              │◀── … handover ────│
      │◀─ all that was under way ────│── … fence ───────▶│
      │◀─ fence: the old path is dry ┤                   │
      │◀──────────────── fence: all routes are complete ─│
      │── Bye ──────────────────────▶│                   │    STEADY    what was held back is delivered,
      │                                                  │              except what was delivered already

When the new home is up and does not know the session, `client/session.py::Session._register` queues for it all
advertisements and subscriptions, and then `Mover.home_registered` begins the handover at once: it waits for no answer,
since what it sends comes behind them. It sends two messages with one token (`client/fences.py::Fences.send_handover`):

- to the new home the Handover, behind the advertisements and subscriptions; it goes on to the old home;
- to the old home a Fence, behind everything that the session has sent there.

When the old home has both, it answers twice: to the session with a Fence behind everything that it has for it
(`Mover.take_dry`), and back the way of the Handover, at the end of which the new home answers the session with another
Fence (`Mover.take_joined`).

While DRYING both homes deliver the same: the old one's deliveries go to the application, the new one's are held back.
All that a publisher sent before the handover reached its route comes by the old path, before the old home's fence; what
it sent later comes by the new path. `client/session.py::Session._take_publication` decides by the home that a
publication came from, and gives those of the new home to `Mover.hold_back`. The high-water marks (receiving.py) drop
what came by both. The application's own publications pause while DRYING: all of them must have arrived everywhere
before later ones can take a shorter way. A session that publishes nothing needs only the old home's fence.

While DRYING the session waits for the old home and the brokers between the two, for as long as they take; only DIALLING
has a time limit.

What can go wrong: if the new home is late, is lost for good or sends more than can be held back, the move is given up
and nothing is lost. A new home that lost its memory is joined anew. If the old home is lost, with what it had for us,
the move ends with a gap. If there is no path between the two homes, the old home gets a barrier of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from runnel.client.config import SessionConfig
from runnel.client.effects import Moved, MoveGivenUp, SessionEffect
from runnel.client.fences import AwaitedFence, Fences, Purpose, ready_fences
from runnel.client.gaps import GapKeeper
from runnel.client.home import Home
from runnel.client.homes import Homes
from runnel.client.publishing import Advertiser
from runnel.client.receiving import Receiver
from runnel.states import StateMachine, Transitions
from runnel.wire import Publication


class Move(Enum):
    """Where a move stands."""

    STEADY = "steady"  # no move is on
    DIALLING = "dialling"  # the new home is being dialled, until it has answered our Hello
    # Subscribed at both; the new home's deliveries are held back, and nothing is published.
    DRYING = "drying"


class MoveEvent(Enum):
    """The events of a move."""

    ASKED = "move_to"
    REGISTERED = "all advertisements and subscriptions are queued for the new home"
    JOINED = "the new home's routes are complete"
    DRY = "the old path is dry"
    ARRIVED = "all fences that it waits for have come"
    OLD_LOST = "the old home is lost, or has lost its memory"
    GIVEN_UP = "the new home is late, lost, refuses us or sends too much"
    ENDED = "the session connects elsewhere, or closes"


TRANSITIONS: Transitions[Move, MoveEvent] = Transitions(
    Move.STEADY,
    {
        (Move.STEADY, MoveEvent.ASKED): Move.DIALLING,
        (Move.DIALLING, MoveEvent.REGISTERED): Move.DRYING,
        (Move.DRYING, MoveEvent.REGISTERED): Move.DRYING,
        # Each of the two fences is noted, in either order; when those that it waits for are here, the move has ARRIVED.
        (Move.DRYING, MoveEvent.JOINED): Move.DRYING,
        (Move.DRYING, MoveEvent.DRY): Move.DRYING,
        (Move.DRYING, MoveEvent.ARRIVED): Move.STEADY,
        (Move.DRYING, MoveEvent.OLD_LOST): Move.STEADY,
        (Move.DIALLING, MoveEvent.GIVEN_UP): Move.STEADY,
        (Move.DRYING, MoveEvent.GIVEN_UP): Move.STEADY,
        (Move.DIALLING, MoveEvent.ENDED): Move.STEADY,
        (Move.DRYING, MoveEvent.ENDED): Move.STEADY,
    },
)
"""Every transition there is; the diagram in docs/moving.md is made from it."""


class Mover:
    """The moves of one session.

    `arrived` is called at the end of a move to the new home, also of one that ends because the old home is lost.
    """

    def __init__(
        self,
        config: SessionConfig,
        homes: Homes,
        fences: Fences,
        advertiser: Advertiser,
        receiver: Receiver,
        gaps: GapKeeper,
        effects: list[SessionEffect],
        arrived: Callable[[Home], None],
    ) -> None:
        self._homes = homes
        self._fences = fences
        self._advertiser = advertiser
        self._receiver = receiver
        self._gaps = gaps
        self._effects = effects
        self._arrived = arrived
        self.pausing = False  # nothing is published: for as long as the state is DRYING
        self._name = config.name
        self._is_joined = self._is_dry = False  # which of the two fences have come
        self._missing: tuple[str, ...] = ()  # links, as the new home says
        self._machine = StateMachine(TRANSITIONS, f"the move of {config.name}")
        self._began = self._timeout_ns = 0
        self._held: list[Publication] = []  # came from the new home while the old path was not dry
        self._held_bytes = 0
        self._held_bytes_max = config.held_bytes_max

    @property
    def state(self) -> Move:
        """Where the move stands."""
        return self._machine.state

    def _take(self, event: MoveEvent, detail: str = "") -> None:
        self.pausing = self._machine.take(event, detail) is Move.DRYING

    # -- from the beginning to the end ----------------------------------------------------------------

    def begin(self, broker: str, now: int, timeout_ns: int) -> None:
        """Begin to move to another broker; the move is given up if that broker is not up in time."""
        self._take(MoveEvent.ASKED, broker)
        self._began, self._timeout_ns = now, timeout_ns
        self._homes.move_to(broker, now)

    def home_registered(self, home: Home) -> None:
        """All that we have set up is queued for a home that did not know us; if it is the new one, hand over."""
        old = self._homes.home
        if home is self._homes.next and old is not None:
            self._take(MoveEvent.REGISTERED)
            self._is_joined = self._is_dry = False
            self._missing = ()
            # If it joins anew, an earlier fence of the old path says nothing.
            self._fences.forget_steps(old)
            self._fences.send_handover(old, home, self._name)
        elif self.state is Move.DRYING:
            # The old home was set up anew: nothing more comes by the old path.
            self._arrive_if_complete()

    def hold_back(self, publication: Publication) -> None:
        """Hold back a publication that came from the new home; if there are too many, the move is given up.

        `client/session.py::Session._take_publication` calls it for every publication of `Homes.next`, the new home, and
        for no other.
        """
        self._held.append(publication)
        self._held_bytes += len(publication.body)
        if self._held_bytes > self._held_bytes_max:
            self.give_up()

    def take_joined(self, home: Home, *, has_reached: bool, missing: tuple[str, ...]) -> None:
        """The new home's fence: its routes are complete, but for links that are missing.

        If no path led to the old home, ask that one by itself. The state stays DRYING until `_arrive_if_complete` has
        all that it needs; the two fences come in either order.
        """
        old = self._homes.home
        if home is not self._homes.next or old is None:
            return
        self._take(MoveEvent.JOINED)
        self._is_joined, self._missing = True, missing
        if not has_reached and old.registered and not self._is_dry:
            self._fences.forget_steps(old)
            self._ask_whether_dry(old)
        self._arrive_if_complete()

    def _ask_whether_dry(self, old: Home) -> None:
        """Send the dry barrier: its fence comes after everything that is under way to us by the old path."""
        self._fences.send_barrier(old, AwaitedFence(Purpose.DRY))

    def take_dry(self, home: Home) -> None:
        """The old path is dry, and everything that we published has reached its subscribers' brokers."""
        if home is self._homes.home and self.state is Move.DRYING:
            self._advertiser.confirm_all(home)
            self._take(MoveEvent.DRY)
            self._is_dry = True
            self._arrive_if_complete()

    def _arrive_if_complete(self) -> None:
        """End the move if nothing is left to wait for. A session that publishes needs both fences.

        The dry fence was asked for when the move began. If it is neither here nor waited for any more, the old home
        has started anew since (`client/fences.py::Fences.reset`): it has lost its memory, and its fence cannot come.
        """
        old = self._homes.home
        assert old is not None
        if self._is_dry and (self._is_joined or not self._advertiser.publishers):
            self._arrive(MoveEvent.ARRIVED)
        elif self._is_joined and not self._fences.is_waiting(old, Purpose.DRY):
            self._arrive(MoveEvent.OLD_LOST)

    def old_home_lost(self) -> None:
        """The old home is lost, with everything on the old path: end the move."""
        self._arrive(MoveEvent.OLD_LOST)

    def _arrive(self, event: MoveEvent) -> None:
        """Leave the old home, and deliver what was held back."""
        self._take(event)
        old, new = self._homes.arrive()
        self._advertiser.resume_returning()
        self._fences.ask_again(new, ready_fences(old))
        held = self._forget_held()
        for publication in held:
            self._receiver.deliver(publication)
        self._gaps.home_left(old, new, lost=event is MoveEvent.OLD_LOST, missing=self._missing)
        self._effects.append(Moved(new.broker))
        self._arrived(new)

    # -- what can go wrong ----------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        """Stop waiting for a new home that is late or lost, and for an old one that is lost."""
        if self.state is Move.DIALLING and now - self._began > self._timeout_ns:
            self.give_up()
        old, new = self._homes.home, self._homes.next
        if self.state is Move.DRYING and old is not None and new is not None:
            if self._is_joined and old.link.is_expired(now):
                self.old_home_lost()
            elif new.link.is_expired(now):
                self.give_up()

    def give_up(self) -> None:
        """Stay at the old home, which has delivered without interruption."""
        self._take(MoveEvent.GIVEN_UP)
        self._forget_held()
        given_up, home = self._homes.stay(), self._homes.home
        if given_up is not None and home is not None:
            # Otherwise a later move would take this one's fences for its own.
            self._fences.forget_steps(home)
            self._fences.ask_again(home, ready_fences(given_up))
            self._effects.append(MoveGivenUp(given_up.broker))

    def end(self) -> None:
        """The session connects elsewhere or closes: a move that is under way ends."""
        if self.state is not Move.STEADY:
            self._take(MoveEvent.ENDED)
            self._forget_held()

    def _forget_held(self) -> list[Publication]:
        held, self._held, self._held_bytes = self._held, [], 0
        return held
