"""Who is connected: connections, handshakes, the links they carry, dialling and heartbeats.

The half of the broker that has nothing to do with what messages say. It changes links and asks for effects; what
a link that comes or goes means for routes is for `Broker` to say (`_link_is_fresh`, `_lose_routes`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from runnel.broker.arbiter import Arbiter
from runnel.broker.config import BrokerConfig
from runnel.broker.effects import Close, Connect, Effect, SendMany, SetTimer, Trace
from runnel.broker.links import Link
from runnel.broker.meter import Meter
from runnel.errors import PeerError
from runnel.wire import Bye, Decoder, Hello, PeerKind, encode

TICK = "tick"
EXPIRED = "down for too long"
OVERFLOW = "its queue overflowed"


@dataclass(slots=True, eq=False)
class Connection:
    """One connection: who it was dialled for, and the link it carries once the peer said Hello."""

    decoder: Decoder
    since: int
    dialled: Link | None = None
    link: Link | None = None


class Connections(ABC):
    """The connections and links of a broker."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        self.config = config
        self.name = config.name
        self.generation = config.generation
        self.arbiter = Arbiter(config.lease_ns, config.rest_ns)
        self.meter = Meter()
        self.links: dict[str, Link] = {}
        self._by_number: list[Link | None] = []
        self._free_numbers: list[int] = []
        self._tokens = incarnation << 20
        self._connections: dict[int, Connection] = {}
        self._dialling: dict[str, None] = {}
        self._outbox: dict[Link, None] = {}  # links with something to write
        self._congested: dict[Link, None] = {}
        self._effects: list[Effect] = []
        self._now = 0

    @abstractmethod
    def _link_is_fresh(self, link: Link) -> None:
        """A link begins anew: its peer knows nothing yet."""

    @abstractmethod
    def _lose_routes(self, link: Link) -> None:
        """What came over a link holds no more."""

    # -- connections ----------------------------------------------------------------------------------

    def _connected(self, conn: int, peer: str | None) -> None:
        connection = self._connections[conn] = Connection(Decoder(), self._now)
        if peer is None:
            return
        self._dialling.pop(peer, None)
        link = connection.dialled = self.links.get(peer) or self._new_link(peer, "broker")
        self._effects.append(SendMany(conn, [self._hello_to(link)]))

    def _disconnected(self, conn: int, peer: str | None) -> None:
        if peer is not None:
            self._dialling.pop(peer, None)
        connection = self._connections.pop(conn, None)
        link = connection.link if connection is not None else None
        if link is not None and link.conn == conn:
            link.down(self._now)

    def _close(self, conn: int, reason: str) -> None:
        self._effects.append(Close(conn, reason))
        self._disconnected(conn, None)

    # -- handshake ------------------------------------------------------------------------------------

    def _hello(self, conn: int, frame: Any) -> Link | None:
        if not isinstance(frame, Hello):
            raise PeerError("the first frame of a connection must be Hello")
        connection = self._connections[conn]
        dialled, connection.dialled = connection.dialled, None
        if dialled is not None and dialled.name != frame.name:
            raise PeerError(
                f"dialled {dialled.name} but {frame.name} answered: check the addresses"
            )
        if frame.kind == "broker" and frame.generation not in (0, self.generation):
            raise PeerError(
                f"{frame.name} belongs to generation {frame.generation} of the network, "
                f"{self.name} to {self.generation}: it has missed a switch"
            )
        link = self.links.get(frame.name)
        if link is not None and link.kind != frame.kind:
            raise PeerError(f"{frame.name} is a {link.kind} here, not a {frame.kind}")
        if link is not None and link.is_client and self._is_of_another_age(link, frame):
            self._close(conn, "the client is here, and asks for a generation that is not")
            return None
        if dialled is not None and dialled is not link:
            # Given up while the peer answered, who now knows a run of the link that we do not: dial again.
            self._close(conn, "the link was given up meanwhile")
            return None
        if link is None:
            link = self._new_link(frame.name, frame.kind)
        elif link.has_outgrown(frame):
            self._close(conn, "the client has given this connection up")
            return None
        fresh = not link.fits(frame)
        if link.conn:
            # Somebody else of that name: two would displace each other for ever.
            if fresh and link.is_client and frame.token != link.peer_token:
                bye = Bye(f"another client called {link.name} has connected here", is_final=True)
                self._effects.append(SendMany(link.conn, [encode(bye)]))
                self.trace("client-displaced", {"peer": link.name})
            self._close(link.conn, "the peer opened another connection")
        if fresh:
            self._discard(link)
            self._lose_routes(link)
            link.start_fresh(frame.token, None if dialled else self._new_token())
        if dialled is None:
            self._effects.append(SendMany(conn, [self._hello_to(link, resume=not fresh)]))
        if not fresh:
            link.resume(frame)
        link.up(conn, self._now)
        connection.link = link
        self._outbox[link] = None
        self.trace("link-up", {"peer": link.name, "fresh": fresh})
        if fresh:
            self._link_is_fresh(link)
        return link

    def _is_of_another_age(self, link: Link, hello: Hello) -> bool:
        """Whether a client that crosses dials a generation that has ended, and is in this one too."""
        is_another = hello.generation not in (0, self.generation)
        return is_another and link.conn > 0 and hello.token != link.peer_token

    def _hello_to(self, link: Link, *, resume: bool = True) -> bytes:
        return link.hello("broker", self.name, resume=resume, generation=self.generation)

    def _new_link(self, name: str, kind: PeerKind) -> Link:
        number = self._free_numbers.pop() if self._free_numbers else len(self._by_number)
        config = self.config.link if kind == "broker" else self.config.client_link
        link = self.links[name] = Link(
            name, kind, number, self._new_token(), config, self._now, self._outbox
        )
        link.credit = self.config.credit_max
        if number == len(self._by_number):
            self._by_number.append(link)
        else:
            self._by_number[number] = link
        return link

    def _new_token(self) -> int:
        self._tokens += 1
        return self._tokens

    def _forget(self, link: Link, reason: str) -> None:
        """The link is over: its routes go, and its peer must start fresh."""
        if link.conn:
            self._close(link.conn, reason)
        self.trace("link-lost", {"peer": link.name, "reason": reason})
        self._discard(link)
        self._lose_routes(link)
        self._congested.pop(link, None)
        self._outbox.pop(link, None)
        del self.links[link.name]
        self._by_number[link.number] = None
        self._free_numbers.append(link.number)

    def _discard(self, link: Link) -> None:
        """What a peer that lost its memory, or does not come back, had not acknowledged is lost; say how much."""
        if count := link.publications_owed:
            self.meter.discarded += count
            self.trace("discarded", {"peer": link.name, "count": count})

    def _tick(self) -> None:
        """Twice per heartbeat: show that we live, notice who does not, dial who is missing."""
        for link in list(self.links.values()):
            link.heartbeat(self._now)
            if link.conn and link.has_been_silent(self._now):
                self._close(link.conn, "nothing heard for three heartbeats")
            if link.is_expired(self._now):
                self._forget(link, EXPIRED)
        patience_ns = 3 * self.config.link.heartbeat_ns
        for conn, connection in list(self._connections.items()):
            if connection.link is None and self._now - connection.since > patience_ns:
                self._close(conn, "no Hello within three heartbeats")
        for peer in self.config.dials:
            known = self.links.get(peer)
            under_way = peer in self._dialling or any(
                connection.dialled is not None and connection.dialled.name == peer
                for connection in self._connections.values()
            )
            if not under_way and (known is None or not known.conn):
                self._dialling[peer] = None
                self._effects.append(Connect(peer))
        self.arbiter.forget_expired(self._now)
        self._effects.append(SetTimer(TICK, self._now + self.config.link.heartbeat_ns // 2))

    def trace(self, kind: str, data: dict[str, Any]) -> None:
        """Record something."""
        self._effects.append(Trace(kind, data))
