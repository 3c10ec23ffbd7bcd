"""The homes of a session: connections, handshakes, farewells.

This part of the session does not look into messages. It knows which home is which: the one where the session lives, the
one it is moving to, and the one in another generation of the network. `Mover` and `Crossing` decide when these change
and call the methods here.
"""

from __future__ import annotations

from runnel.broker.effects import Close, Connect, SendMany
from runnel.broker.links import Link
from runnel.client.config import SessionConfig
from runnel.client.effects import HomeDown, SessionEffect, Unconfirmed
from runnel.client.home import Home
from runnel.errors import PeerError
from runnel.wire import Bye, Decoder, Frame, Hello, encode
from runnel.wire.header import LENGTH_BYTES

NO_GREETING = "it took the connection, but says nothing: is it a Runnel broker?"


class Homes:
    """Where a session lives, and where it is going."""

    def __init__(
        self, config: SessionConfig, incarnation: int, effects: list[SessionEffect]
    ) -> None:
        self.home: Home | None = None
        self.next: Home | None = None  # where we are moving to
        self.ahead: Home | None = None  # in another generation of the network
        self.holding = False  # the application does not keep up, so nothing is acknowledged
        self._config = config
        self._tokens = incarnation << 20
        self._effects = effects

    def all(self) -> tuple[Home, ...]:
        """All homes that exist."""
        if self.home is None:
            return ()
        if self.next is None and self.ahead is None:
            return (self.home,)
        return tuple(home for home in (self.home, self.next, self.ahead) if home is not None)

    def with_connection(self, conn: int) -> Home | None:
        """The home with this connection, if any."""
        home = self.home
        if home is not None and home.conn == conn:
            return home
        return next((home for home in self.all() if home.conn == conn), None)

    def other(self, home: Home) -> Home | None:
        """The other of the two homes during a crossing; None if there is no other."""
        return self.home if home is self.ahead else self.ahead

    # -- which is which -------------------------------------------------------------------------------

    def set_home(self, broker: str, now: int, generation: int) -> list[Home]:
        """Make this broker the home; returns the homes that were left: the previous one, and the target of a move."""
        left = [home for home in (self.home, self.next) if home is not None]
        for home in left:
            self._leave(home)
        if not generation and self.home is not None and self.ahead is not None:
            generation = self.home.generation
        self.home, self.next = self._open(broker, now, generation), None
        return left

    def move_to(self, broker: str, now: int) -> None:
        """Open a second home to move to; `arrive` or `stay` ends that."""
        assert self.home is not None
        self.next = self._open(broker, now, self.home.generation)

    def arrive(self) -> tuple[Home, Home]:
        """Finish a move: returns the home that is left, and the new one."""
        old, new = self.home, self.next
        assert old is not None and new is not None
        self.home, self.next = new, None
        self._leave(old)
        return old, new

    def stay(self) -> Home | None:
        """Cancel a move; returns the home that was the target."""
        given_up, self.next = self.next, None
        if given_up is not None and self.home is not None:
            self._leave(given_up)
        return given_up

    def open_ahead(self, broker: str, now: int, generation: int) -> Home:
        """Open a second home in another generation of the network."""
        ahead = self.ahead = self._open(broker, now, generation)
        ahead.dialling = True
        self._effects.append(Connect(broker))
        return ahead

    def keep_only(self, home: Home) -> None:
        """Keep this one of the two homes of a crossing and leave the other."""
        left = self.other(home)
        assert left is not None
        self._leave(left)
        self.home, self.ahead = home, None

    def close(self) -> None:
        """Leave all homes."""
        for home in self.all():
            self._leave(home)
        self.home = self.next = self.ahead = None

    def _open(self, broker: str, now: int, generation: int) -> Home:
        self._tokens += 1
        link = Link(broker, "broker", 0, self._tokens, self._config.link, now, {})
        link.hold(self.holding)
        return Home(broker, link, generation=generation)

    def _leave(self, home: Home) -> None:
        """Send what is waiting and a Bye, regardless of the window, and close; anything else is given up."""
        if home.outstanding:
            self._effects.append(Unconfirmed(len(home.outstanding)))
        if home.link.established:
            home.link.owe_ack()  # otherwise the broker counts what it sent us as lost
            frames = home.link.take(home.link.heard_at)
            self._effects.append(SendMany(home.conn, [*frames, encode(Bye("the client leaves"))]))
        if home.conn:
            self._effects.append(Close(home.conn, "the client leaves"))
        home.conn = 0  # whatever still arrives on it is ignored

    # -- connections ----------------------------------------------------------------------------------

    def connected(self, conn: int, peer: str | None, now: int) -> None:
        """A broker that was dialled has accepted the connection."""
        home = next((home for home in self.all() if home.broker == peer and home.dialling), None)
        if home is None:
            self._effects.append(Close(conn, "the session has left this broker"))
            return
        home.dialling = False
        home.conn = conn
        home.decoder = Decoder()
        home.link.begin_handshake(now)
        frames = [home.link.hello("client", self._config.name, generation=home.generation)]
        if self._config.credentials is not None:
            frames.append(encode(self._config.credentials()))
        self._effects.append(SendMany(conn, frames))

    def disconnected(self, conn: int, peer: str | None, now: int) -> None:
        """A connection is gone, or could not be made."""
        for home in self.all():
            if conn and home.conn == conn:
                home.conn = 0
                home.link.down(now)
                self._effects.append(HomeDown(home.broker))
            elif not conn and home.broker == peer:
                home.dialling = False

    def drop_connection(self, home: Home, reason: str, now: int) -> None:
        """End a connection; the home is dialled again with the next tick."""
        conn = home.conn
        self._effects.append(Close(conn, reason))
        self.disconnected(conn, None, now)

    def take_hello(self, home: Home, frame: Frame, now: int) -> bool:
        """Take in the broker's Hello; returns whether the link starts fresh and everything has to be set up."""
        is_address = "://" in home.broker  # then we do not know the name of the broker there
        if (
            not isinstance(frame, Hello)
            or frame.kind != "broker"
            or not (is_address or frame.name == home.broker)
        ):
            raise PeerError(f"dialled {home.broker}, but it does not say that it is")
        home.name, home.generation = frame.name, frame.generation
        home.link.accept_credit(frame.credit)
        is_fresh = not home.link.fits(frame)
        if is_fresh:
            home.link.start_fresh(frame.token)
            if in_doubt := home.forget_run():
                self._effects.append(Unconfirmed(in_doubt))
        else:
            home.link.resume(frame)
        home.link.up(home.conn, now)
        return is_fresh

    # -- acknowledgements and time --------------------------------------------------------------------

    def hold(self, holding: bool) -> None:
        """Stop acknowledging deliveries, or start again."""
        self.holding = holding
        for home in self.all():
            home.link.hold(holding)
            home.link.owe_ack()

    def tick(self, now: int) -> None:
        """Send heartbeats, drop connections that are silent, and dial homes that have no connection."""
        for home in self.all():
            home.link.heartbeat(now)
            if home.conn and home.link.has_been_silent(now):
                is_up = home.link.established
                reason = "nothing heard for three heartbeats" if is_up else NO_GREETING
                self.drop_connection(home, reason, now)
            if not home.conn and not home.dialling:
                home.dialling = True
                self._effects.append(Connect(home.broker))


def begins_with_hello(chunk: bytes) -> bool:
    """Whether the first bytes of a connection are a broker's Hello, whatever comes behind it.

    >>> from runnel.wire import PROTOCOL
    >>> hello = encode(Hello(PROTOCOL, "broker", "B1", 5, 0, 0, 0, 0))
    >>> begins_with_hello(hello + b"nonsense"), begins_with_hello(b"HTTP/1.1 400"), begins_with_hello(b"")
    (True, False, False)
    """
    size = LENGTH_BYTES + int.from_bytes(chunk[:LENGTH_BYTES], "big")
    try:
        frames = Decoder().feed(chunk[:size])
    except PeerError:
        return False
    return bool(frames) and isinstance(frames[0], Hello) and frames[0].kind == "broker"
