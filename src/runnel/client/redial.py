"""Redialling: which broker a client dials next, and when; and the driver that does it.

A session asks for a connection to its home and waits. The driver here dials the home first, because a link that
comes back loses nothing; then the others of the list in turn; after a whole round it pauses, longer each time. The
session is told of another broker only once one has answered: until then the old home may come back. One address
is sought at a time; what else was dialled (for a move that was given up, or from a home that was left) and answers
late is turned away, so that nobody leaves a home that lives.

A broker that takes the connection but does not greet counts as one that cannot be reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from random import Random
from time import monotonic, monotonic_ns
from typing import Any, Protocol

from runnel.broker.effects import Close, Connect
from runnel.broker.events import Event, TimerFired
from runnel.client.effects import Deliver
from runnel.client.move import Move
from runnel.client.session import TICK, Session
from runnel.net.driver import Connection, Dialler, Driver
from runnel.wire import Publication

PAUSE_MIN_S = 0.1
PAUSE_MAX_S = 10.0
STABLE_S = (
    1.0  # a home that was up for less is not dialled again at once: two clients may share a name
)


class Rounds:
    """The order in which addresses are tried; pure policy.

    >>> rounds = Rounds(["a", "b"], Random(1))
    >>> rounds.next()
    ('a', 0.0)
    >>> rounds.failed("a", "refused")
    >>> rounds.next()
    ('b', 0.0)
    >>> rounds.failed("b", "refused")
    >>> address, pause_s = rounds.next()
    >>> address, PAUSE_MIN_S / 2 <= pause_s <= PAUSE_MIN_S
    ('a', True)
    """

    def __init__(self, addresses: Sequence[str], random: Random) -> None:
        self._addresses = list(addresses)
        self._order = list(addresses)
        self._random = random
        self._failures = 0  # since one was up
        self.reasons: dict[str, str] = {}  # why each address failed last

    def also(self, other: Rounds) -> None:
        """From now on try the addresses of another, too."""
        self._addresses = list(dict.fromkeys((*self._addresses, *other._addresses)))
        self._order = list(dict.fromkeys((*self._order, *self._addresses)))

    def next(self) -> tuple[str, float]:
        """The address to dial, and how long to wait before."""
        rounds, place = divmod(self._failures, len(self._order))
        if place or not rounds:
            return self._order[place], 0.0
        longest = min(PAUSE_MAX_S, PAUSE_MIN_S * 2 ** min(rounds - 1, 20))
        return self._order[place], longest * self._random.uniform(0.5, 1)

    def failed(self, address: str, reason: str) -> None:
        """An address did not answer, or not as a broker does."""
        self._failures += 1
        self.reasons[address] = reason

    def up(self, address: str) -> None:
        """The client lives there now: the next round begins with it, and goes on in the order of the list.

        >>> rounds = Rounds(["a", "b", "c"], Random(1))
        >>> rounds.up("b")
        >>> rounds.failed("b", "gone")
        >>> rounds.next()
        ('c', 0.0)
        >>> rounds.up("c#2")
        >>> [rounds.next()[0] for _ in range(3) if not rounds.failed(rounds.next()[0], "gone")]
        ['a', 'b', 'c#2']
        """
        self._failures = 0
        self.reasons.clear()
        listed = self._addresses
        place = address.partition("#")[0]  # whatever the generation
        at = listed.index(place) if place in listed else 0
        others = [other for other in listed[at:] + listed[:at] if other != place]
        self._order = [address, *others]


class Listener(Protocol):
    """Who is told what the session says."""

    def deliver(self, publication: Publication, subscriptions: tuple[int, ...]) -> None:
        """A publication came for these."""
        ...

    def told(self, effect: Any) -> None:
        """Anything else that is no I/O."""
        ...

    def after(self) -> None:
        """A batch of effects was carried out."""
        ...

    def broke(self, error: Exception) -> None:
        """The session raised what it must never raise."""
        ...


class ClientDriver(Driver):
    """Runs a session, and finds it a broker."""

    machine: Session

    def __init__(
        self, session: Session, dialler: Dialler, listener: Listener, rounds: Rounds
    ) -> None:
        super().__init__(session, dialler, listener.told)
        self.rounds = rounds
        self._listener = listener
        self._up_since: float | None = None
        self._reason = ""  # why the session closed a connection last
        self._adopting = False
        self._sought: str | None = None  # dialled, or about to be, for the home
        self._pause: asyncio.TimerHandle | None = None
        self._stopped = False
        self._real: dict[int, None] = {}  # connections that are not closed to the last
        self._all_closed: asyncio.Future[None] | None = None

    # -- effects --------------------------------------------------------------------------------------

    def perform(self, effects: Iterable[Any]) -> None:
        """Carry out effects, then let the listener know."""
        deliver = self._listener.deliver
        for effect in effects:
            kind = type(effect)
            if kind is Deliver:
                deliver(effect.publication, effect.subscriptions)
            elif kind is Connect:
                self._dial(effect.peer)
            else:
                if kind is Close:
                    self._reason = effect.reason
                super().perform((effect,))
        self._listener.after()

    def handle(self, event: Event) -> None:
        """As every driver; an error in the session is told, not left to the event loop."""
        try:
            super().handle(event)
        except Exception as error:
            self._listener.broke(error)

    def received(self, conn: int, chunk: bytes) -> None:
        """As every driver; an error in the session is told, not left to the event loop."""
        try:
            super().received(conn, chunk)
        except Exception as error:
            self._listener.broke(error)

    def flush(self) -> None:
        """Carry out what the session was asked for."""
        try:
            self.perform(self.machine.flush(monotonic_ns()))
        except Exception as error:
            self._listener.broke(error)

    # -- dialling -------------------------------------------------------------------------------------

    def _dial(self, peer: str) -> None:
        if self._adopting:
            return  # the connection is there already
        if self._is_target(peer):
            self._dialler.dial(self, peer)
        else:
            self._dial_next()

    def _is_target(self, peer: str) -> bool:
        """Whether it is where the session is moving or crossing to."""
        return any(
            home is not None and home.broker == peer
            for home in (self.machine.next, self.machine.ahead)
        )

    def _dial_next(self) -> None:
        home = self.machine.home
        if self._stopped or home is None:
            return
        address, pause_s = self.rounds.next()
        if self.machine.move is not Move.STEADY:
            address = home.broker  # a move is from there, or it is none
        self._sought = address
        self._pause = self._loop.call_later(pause_s, self._dialler.dial, self, address)

    def _stop_seeking(self) -> None:
        self._sought = None
        if self._pause is not None:
            self._pause.cancel()

    def failed(self, peer: str, reason: str = "") -> None:
        """An address could not be reached: on to the next."""
        if self._is_target(peer):
            self.rounds.reasons[peer] = reason
            super().failed(peer)
        elif peer == self._sought:
            self.rounds.failed(peer, reason)
            self._dial_next()

    def opened(self, connection: Connection, peer: str | None = None) -> int:
        """A broker took the connection. If it is not the one the session lives at, it is from now on."""
        session = self.machine
        home = session.home
        if peer is None or home is None or self._stopped:
            connection.close("the client was closed meanwhile")
            return -1
        if not self._is_target(peer):
            if peer != self._sought:
                connection.close("the client has a broker meanwhile")
                return -1
            self._stop_seeking()
            if peer != home.broker:
                self._adopting = True
                session.connect(peer, monotonic_ns())
                self.flush()
                self._adopting = False
        conn = super().opened(connection, peer)
        self._real[conn] = None
        return conn

    def closed(self, conn: int) -> None:
        """A connection is gone; also one that was closed here, once the last byte is out."""
        super().closed(conn)
        self._real.pop(conn, None)
        if not self._real and self._all_closed is not None and not self._all_closed.done():
            self._all_closed.set_result(None)

    def home_up(self, address: str) -> None:
        """The home greeted."""
        self._stop_seeking()  # one that was left for another may still be sought
        self._up_since = monotonic()
        self.rounds.up(address)

    def moved(self, address: str) -> None:
        """Where the session was moving to is its home; if it is just being dialled again, that is for the home."""
        self.home_up(address)
        if self.machine.home is not None and self.machine.home.dialling:
            self._sought = address

    def home_down(self, address: str) -> None:
        """The home's connection is gone; dial again at once, unless it never was there for long."""
        since, self._up_since = self._up_since, None
        if since is None:
            self.rounds.failed(address, self._why())
        self._reason = ""
        if since is None or monotonic() - since >= STABLE_S:
            self._loop.call_soon(self._tick)

    def target_down(self, address: str) -> None:
        """Where the session was moving to hung up; it dials again by itself."""
        self.rounds.reasons[address] = self._why()
        self._reason = ""

    def _why(self) -> str:
        return self._reason or "it closed the connection without a word"

    def _tick(self) -> None:
        if not self._stopped:
            self.handle(TimerFired(TICK))

    # -- the end --------------------------------------------------------------------------------------

    def stop(self) -> None:
        """No more events, no more dialling."""
        self._stopped = True
        self._stop_seeking()
        super().stop()

    async def all_closed(self) -> None:
        """Every connection is gone, with everything that was written to it."""
        if self._real:
            if self._all_closed is None:
                self._all_closed = self._loop.create_future()
            await asyncio.shield(self._all_closed)  # several may wait, and each may be cancelled
