"""Redialling: which broker a client dials next, and when, and the driver that does it.

A session asks for a connection to its home and waits. The driver dials the home first, because a link that comes back
loses nothing. As long as the home may still know the link, it dials no other address for `Rounds.patience_s`: one dial
that fails may be a blip, and to start anew elsewhere is a gap. Then it dials the other addresses of the list in turn.
After each round it pauses, longer each time. Only when
another broker has answered does the driver connect the session to it: until then the old home may come back. One
address is dialled at a time. An answer that comes late (for a move that was given up, or from a home that was left) is
turned away, so that the session does not leave a home that is alive.

A broker that takes the connection but does not greet counts as one that cannot be reached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from random import Random
from time import monotonic, monotonic_ns
from typing import Any, Protocol

from runnel.broker.effects import Close, Connect
from runnel.broker.events import Event, TimerFired
from runnel.broker.permits import Permit
from runnel.client.effects import Deliver
from runnel.client.homes import NO_GREETING
from runnel.client.move import Move
from runnel.client.session import TICK, Session
from runnel.net.driver import ByteStream, Dialler, Driver
from runnel.wire import Publication

log = logging.getLogger("runnel.client")
PAUSE_MIN_S = 0.1
PAUSE_MAX_S = 10.0
STAYING_PAUSE_MAX_S = 0.25  # between two dials of a home that may still know the client
PATIENCE_S = 2.0
# A home that was up for less is not redialled at once: two clients may displace each other.
STABLE_S = 1.0


class Rounds:
    """The order in which addresses are tried, without I/O or a clock.

    >>> rounds = Rounds(["a", "b"], Random(1))
    >>> rounds.next()
    ('a', 0.0)
    >>> rounds.note_failure("a", "refused")
    >>> rounds.next()
    ('b', 0.0)
    >>> rounds.note_failure("b", "refused")
    >>> address, pause_s = rounds.next()
    >>> address, PAUSE_MIN_S / 2 <= pause_s <= PAUSE_MIN_S
    ('a', True)

    Where the client lives comes first; while it is to stay there, nothing else comes:

    >>> rounds.note_up("b")
    >>> rounds.note_failure("b", "refused", stays=True)
    >>> rounds.next(stays=True)[0], rounds.next()[0]
    ('b', 'b')
    """

    def __init__(
        self, addresses: Sequence[str], random: Random, patience_s: float = PATIENCE_S
    ) -> None:
        self.patience_s = patience_s  # how long only a home that may know the client is dialled
        self._addresses = list(addresses)
        self._order = list(addresses)
        self._random = random
        self._failures = 0  # since one was up
        self._failures_staying = 0  # those while no other address came into question
        self.reasons: dict[str, str] = {}  # why each address failed last

    def add_addresses(self, other: Rounds) -> None:
        """Try the addresses of another as well from now on."""
        self._addresses = list(dict.fromkeys((*self._addresses, *other._addresses)))
        self._order = list(dict.fromkeys((*self._order, *self._addresses)))

    def next(self, *, stays: bool = False) -> tuple[str, float]:
        """The address to dial next, and how long to wait before. `stays`: it is the home, and no other."""
        if stays:
            longest = min(STAYING_PAUSE_MAX_S, PAUSE_MIN_S * self._failures_staying)
            return self._order[0], longest * self._random.uniform(0.5, 1)
        rounds, place = divmod(self._failures, len(self._order))
        if place or not rounds:
            return self._order[place], 0.0
        longest = min(PAUSE_MAX_S, PAUSE_MIN_S * 2 ** min(rounds - 1, 20))
        return self._order[place], longest * self._random.uniform(0.5, 1)

    def note_failure(self, address: str, reason: str, *, stays: bool = False) -> None:
        """An address did not answer, or not as a broker does."""
        if stays:
            self._failures_staying += 1
        else:
            self._failures += 1
        self.reasons[address] = reason
        log.debug("%s could not be reached: %s", address, reason)

    def note_up(self, address: str) -> None:
        """The client lives there now: the next round begins with it, and goes on in the order of the list.

        >>> rounds = Rounds(["a", "b", "c"], Random(1))
        >>> rounds.note_up("b")
        >>> rounds.note_failure("b", "gone")
        >>> rounds.next()
        ('c', 0.0)
        >>> rounds.note_up("c#2")
        >>> [rounds.next()[0] for _ in range(3) if not rounds.note_failure(rounds.next()[0], "gone")]
        ['a', 'b', 'c#2']
        """
        self._failures = self._failures_staying = 0
        self.reasons.clear()
        listed = self._addresses
        place = address.partition("#")[0]  # without the generation
        at = listed.index(place) if place in listed else 0
        others = [other for other in listed[at:] + listed[:at] if other != place]
        self._order = [address, *others]


class Listener(Protocol):
    """Takes the effects of a session that are not I/O."""

    def deliver(self, publication: Publication, subscriptions: tuple[int, ...]) -> None:
        """Deliver a publication to these subscriptions."""
        ...

    def handle_effect(self, effect: Any) -> None:
        """Handle any other effect that is not I/O."""
        ...

    def after_effects(self) -> None:
        """Called after each batch of effects."""
        ...

    def handle_bug(self, error: Exception) -> None:
        """The session has raised an unexpected error."""
        ...


class ClientDriver(Driver):
    """Runs a session, and finds it a broker."""

    machine: Session

    def __init__(
        self, session: Session, dialler: Dialler, listener: Listener, rounds: Rounds
    ) -> None:
        super().__init__(session, dialler, listener.handle_effect)
        self.rounds = rounds
        self._listener = listener
        self._up_since: float | None = None
        self._down_since = 0.0
        self._reason = ""  # why the session last closed a connection
        self._adopting = False
        self._sought: str | None = None  # the address being dialled for the home
        self._pause: asyncio.TimerHandle | None = None
        self._stopped = False
        self._real: dict[int, None] = {}  # connections that are not fully closed
        self._closing: asyncio.Future[None] | None = None

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
        self._listener.after_effects()

    def handle(self, event: Event) -> None:
        """As every driver; an error in the session is told, not left to the event loop."""
        try:
            super().handle(event)
        except Exception as error:
            self._listener.handle_bug(error)

    def received(self, conn: int, chunk: bytes) -> None:
        """As every driver; an error in the session is told, not left to the event loop."""
        try:
            super().received(conn, chunk)
        except Exception as error:
            self._listener.handle_bug(error)

    def flush(self) -> None:
        """Carry out what calls to the session want done."""
        try:
            self.perform(self.machine.flush(monotonic_ns()))
        except Exception as error:
            self._listener.handle_bug(error)

    # -- dialling -------------------------------------------------------------------------------------

    def _dial(self, peer: str) -> None:
        if self._adopting:
            return  # the connection is there already
        if self._is_target(peer):
            self._dialler.dial(self, peer)
        else:
            self._dial_next()

    def _is_target(self, peer: str) -> bool:
        """Whether this is the broker that the session is moving or crossing to."""
        return any(
            home is not None and home.broker == peer
            for home in (self.machine.next, self.machine.ahead)
        )

    def _dial_next(self) -> None:
        home = self.machine.home
        if self._stopped or home is None:
            return
        stays = self._stays
        address, pause_s = self.rounds.next(stays=stays)
        if stays or self.machine.move is not Move.STEADY:
            address = home.broker  # during a move the old home must not be replaced
        self._sought = address
        self._pause = self._loop.call_later(pause_s, self._dialler.dial, self, address)

    @property
    def _stays(self) -> bool:
        """Whether the home may still know the client, and has not been away for long: it loses nothing there."""
        home = self.machine.home
        is_known = home is not None and home.link.may_resume
        return is_known and monotonic() - self._down_since < self.rounds.patience_s

    def _stop_seeking(self) -> None:
        self._sought = None
        if self._pause is not None:
            self._pause.cancel()

    def failed(self, peer: str, reason: str = "") -> None:
        """An address could not be reached: dial the next one."""
        if self._is_target(peer):
            self.rounds.reasons[peer] = reason
            super().failed(peer)
        elif peer == self._sought:
            self.rounds.note_failure(peer, reason, stays=self._stays)
            self._dial_next()

    def opened(
        self, connection: ByteStream, peer: str | None = None, permit: Permit | None = None
    ) -> int:
        """A broker has accepted the connection; if it is not the session's home yet, it is from now on."""
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

    def closed(self, conn: int, reason: str = "") -> None:
        """A connection has ended; one that was closed here ends when its last byte is written."""
        self._reason = reason or self._reason
        super().closed(conn)
        self._real.pop(conn, None)
        if not self._real and self._closing is not None and not self._closing.done():
            self._closing.set_result(None)

    def home_up(self, address: str) -> None:
        """The home has sent its Hello."""
        self._stop_seeking()  # a home that was left may still be dialled
        self._up_since = monotonic()
        self.rounds.note_up(address)

    def moved(self, address: str) -> None:
        """A move has ended: its target is the home now, also if it is just being dialled again."""
        self.home_up(address)
        if self.machine.home is not None and self.machine.home.dialling:
            self._sought = address

    def home_down(self, address: str) -> None:
        """The home's connection has ended; dial again at once, unless it was up only briefly."""
        since, self._up_since = self._up_since, None
        if since is None:
            self.rounds.note_failure(address, self.close_reason(), stays=self._stays)
        else:
            self._down_since = monotonic()
        self._reason = ""
        if since is None or monotonic() - since >= STABLE_S:
            self._loop.call_soon(self._tick)

    def target_down(self, address: str) -> None:
        """The target of a move has closed the connection; the session asks for another by itself."""
        self.rounds.reasons[address] = self.close_reason()
        self._reason = ""

    def close_reason(self) -> str:
        """Why the connection that was lost last is gone."""
        return self._reason or "it closed the connection without a word"

    def reasons(self) -> dict[str, str]:
        """Why each address was of no use so far, as far as it is known."""
        home = self.machine.home
        is_silent = home is not None and home.conn and not home.link.established
        silent = {home.address: NO_GREETING} if home is not None and is_silent else {}
        return {**self.rounds.reasons, **silent}

    def _tick(self) -> None:
        if not self._stopped:
            self.handle(TimerFired(TICK))

    # -- the end --------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Take no more events and stop dialling."""
        self._stopped = True
        self._stop_seeking()
        super().stop()

    async def wait_closed(self) -> None:
        """Wait until every connection has ended, with everything that was written to it."""
        if self._real:
            if self._closing is None:
                self._closing = self._loop.create_future()
            await asyncio.shield(self._closing)  # several may wait, and each may be cancelled
