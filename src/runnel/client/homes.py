"""The homes of a session: connections, handshakes, farewells.

The half of the session that has nothing to do with what messages say. What a home that comes up means for
subscriptions and publishers is for `Session` to say (`_register`, `_acknowledged`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from runnel.broker.effects import Close, SendMany
from runnel.broker.ids import IdSource
from runnel.broker.links import Link
from runnel.client.config import SessionConfig
from runnel.client.effects import HomeDown, HomeUp, SessionEffect, Unconfirmed
from runnel.client.home import Home
from runnel.errors import PeerError
from runnel.wire import Bye, Decoder, Frame, Hello, Message, encode


class Homes(ABC):
    """Where a session lives, and where it is moving to."""

    def __init__(self, config: SessionConfig, incarnation: int, ids: IdSource) -> None:
        self.config = config
        self.home: Home | None = None
        self.next: Home | None = None  # where we are moving to
        self.ahead: Home | None = None  # in another generation of the network
        self.holding = False  # the application does not keep up
        self._ids = ids
        self._tokens = incarnation << 20
        self._effects: list[SessionEffect] = []

    @abstractmethod
    def _register(self, home: Home) -> None:
        """Tell a broker that does not know us everything."""

    @abstractmethod
    def _acknowledged(self, home: Home) -> None:
        """A broker has taken in more of what was sent."""

    def _homes(self) -> tuple[Home, ...]:
        if self.home is None:
            return ()
        if self.next is None and self.ahead is None:
            return (self.home,)
        return tuple(home for home in (self.home, self.next, self.ahead) if home is not None)

    def _home_of(self, conn: int) -> Home | None:
        return next((home for home in self._homes() if home.conn == conn), None)

    def _new_home(self, broker: str, now: int) -> Home:
        self._tokens += 1
        link = Link(broker, "broker", 0, self._tokens, self.config.link, now, {})
        link.holding = self.holding
        return Home(broker, link)

    def _connected(self, conn: int, peer: str | None, now: int) -> None:
        home = next((home for home in self._homes() if home.broker == peer and home.dialling), None)
        if home is None:
            self._effects.append(Close(conn, "the session has left this broker"))
            return
        home.dialling = False
        home.conn = conn
        home.decoder = Decoder()
        home.link.heard_at = now
        self._effects.append(SendMany(conn, [self._hello_to(home)]))

    def _hello_to(self, home: Home) -> bytes:
        return home.link.hello("client", self.config.name, generation=home.generation)

    def _disconnected(self, conn: int, peer: str | None, now: int) -> None:
        for home in self._homes():
            if conn and home.conn == conn:
                home.conn = 0
                home.link.down(now)
                self._effects.append(HomeDown(home.broker))
            elif not conn and home.broker == peer:
                home.dialling = False

    def _drop_connection(self, home: Home, reason: str, now: int) -> None:
        conn = home.conn
        self._effects.append(Close(conn, reason))
        self._disconnected(conn, None, now)

    def _hello(self, home: Home, frame: Frame, now: int) -> None:
        is_address = "://" in home.broker  # says nothing about who is to be found there
        if (
            not isinstance(frame, Hello)
            or frame.kind != "broker"
            or not (is_address or frame.name == home.broker)
        ):
            raise PeerError(f"dialled {home.broker}, but it does not say that it is")
        home.name, home.generation = frame.name, frame.generation
        home.link.credit = frame.credit
        fresh = not home.link.fits(frame)
        if fresh:
            home.link.start_fresh(frame.token)
            if in_doubt := home.forget_run():
                self._effects.append(Unconfirmed(in_doubt))
        else:
            home.link.resume(frame)
            self._acknowledged(home)
        home.link.up(home.conn, now)
        if fresh:
            self._register(home)
        if home in self._homes():  # it may have turned out to be the wrong one
            self._effects.append(HomeUp(home.broker, fresh))

    def _leave(self, home: Home) -> None:
        """Say farewell past the window: whatever could not be sent by now is given up."""
        if home.outstanding:
            self._effects.append(Unconfirmed(len(home.outstanding)))
        if home.link.established:
            home.link.owe_ack()  # or what has come counts as lost there
            frames = home.link.take(home.link.heard_at)
            self._effects.append(SendMany(home.conn, [*frames, encode(Bye("the client leaves"))]))
        if home.conn:
            self._effects.append(Close(home.conn, "the client leaves"))
        home.conn = 0  # what still comes from there is not ours any more

    def _send(self, home: Home, message: Message) -> None:
        home.link.send_message(message)
        home.data_sent += 1

    def _send_frame(self, home: Home, frame: bytes) -> None:
        home.link.send(frame)
        home.data_sent += 1
