"""Who is connected: connections, handshakes, the links they carry, dialling and heartbeats.

The half of the broker that has nothing to do with what messages say. It changes links and asks for effects; what
a link that comes or goes means for routes is for `Broker` to say (`_link_is_fresh`, `_lose_routes`).

Two brokers may dial each other, and end with one connection. The side that is dialled decides, and a Hello that comes
from a broker which this one dials too may have to wait before it is taken:

- Of two dials that cross, the one of the broker with the smaller name wins: while its own is open and not yet answered,
  the other's Hello waits. The broker with the larger name takes the Hello and closes its own connection.
- While the link is up, a Hello that the peer may have written before it came up waits: such a connection was given up
  by the peer, who closes it. Tokens tell: they rise, so one above the token of this run is from a later one.
- What waits is taken when the connection it waits for is gone, and after `PRECEDENCE_BEATS` in any case: a dead
  connection must not be kept for the sake of its rank. Whoever dialled is more patient than that.
- Once a connection carries the link, all others with that peer are closed. They have carried nothing but a Hello.

Two brokers of one name must not displace each other for ever. A Hello that comes from another process than that of the
peer, while the link is up, waits as well, and is refused if the peer shows meanwhile that it lives: the one that was
there first stays. A broker that starts again is not refused: its old connection is dead. Where it says that it listens
counts for nothing, since anybody can say that. Whoever is refused gets a Bye in place of a Hello, and `Refusals` keeps
it for `status`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

from runnel.broker.access import Access
from runnel.broker.arbiter import Arbiter
from runnel.broker.config import BrokerConfig
from runnel.broker.effects import Close, Connect, Effect, SendMany, SetTimer, WriteTrace
from runnel.broker.ids import is_of_one_source
from runnel.broker.kinds import KINDS, kind_of
from runnel.broker.links import Link, LinkConfig
from runnel.broker.meter import Meter
from runnel.broker.permits import Permit
from runnel.broker.refusals import Refusal, Refusals
from runnel.errors import PeerError
from runnel.wire import Bye, Decoder, Denied, Hello, Listens, encode
from runnel.wire.header import FIRST_FRAMES_BYTES_MAX, FRAME_BYTES_MAX
from runnel.wire.messages import REASON_CHARACTERS_MAX

TICK = "tick"
BROKER = "broker"  # what this side is, in its Hello
EXPIRED = "down for too long"
OVERFLOW = "its queue overflowed"
PRECEDENCE_BEATS = 2  # heartbeats for which a Hello waits for another connection to its peer
PATIENCE_BEATS = 3  # heartbeats after which a connection without a Hello is closed


@dataclass(slots=True, eq=False)
class Connection:
    """One connection: who it was dialled for, what its peer may do, and the link it carries once that said Hello."""

    decoder: Decoder
    since: int
    permit: Permit | None = None
    dialled: Link | None = None
    link: Link | None = None
    address: str = ""  # where the peer listens, if it has said so before its Hello was answered


class Farewell(NamedTuple):
    """How a link is to end."""

    reason: str
    drained: bool  # only when the peer has acknowledged all there is for it


class Connections(ABC):
    """The connections and links of a broker."""

    # Beyond thirty attributes Python looks them up in a dict, and everything that a broker does takes longer.
    __slots__ = (
        "_by_number",
        "_congested",
        "_connections",
        "_dialling",
        "_effects",
        "_free_numbers",
        "_hung_up",
        "_leaving",
        "_now",
        "_outbox",
        "_tokens",
        "_waiting",
        "access",
        "arbiter",
        "config",
        "dials",
        "generation",
        "links",
        "meter",
        "name",
        "refusals",
    )

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        self.config = config
        self.name = config.name
        self.generation = config.generation
        self.arbiter = Arbiter(config.lease_ns, config.rest_ns)
        self.meter = Meter()
        self.access = Access(config, self.meter)
        self.links: dict[str, Link] = {}
        self._by_number: list[Link | None] = []
        self._free_numbers: list[int] = []
        self._tokens = incarnation << 20
        self._connections: dict[int, Connection] = {}
        self.dials = dict.fromkeys(config.dials, "")  # the neighbours to dial, with their addresses
        self._leaving: dict[str, Farewell] = {}  # by peer
        self._hung_up: dict[str, tuple[int, str]] = {}  # by peer: the run of the link, and why
        self._waiting: dict[int, Hello] = {}  # by connection; see the top of the file
        self.refusals = Refusals(config.link.heartbeat_ns)
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

    @abstractmethod
    def _has_left(self, name: str, *, is_final: bool) -> None:
        """A link ended with a farewell, and is forgotten."""

    # -- connections ----------------------------------------------------------------------------------

    def _connected(self, conn: int, peer: str | None, permit: Permit | None) -> None:
        # Whom this side has dialled may say anything behind its Hello; all others wait for the answer to theirs.
        decoder = Decoder(FIRST_FRAMES_BYTES_MAX if peer is None else FRAME_BYTES_MAX)
        connection = Connection(decoder, self._now, permit)
        if peer is None:
            self._connections[conn] = connection
            return
        self._dialling.pop(peer, None)
        if peer not in self.dials:
            self._effects.append(Close(conn, "it is not wanted any more"))
            return
        link = self.links.get(peer) or self._new_link(peer, BROKER)
        if link.conn:
            self._effects.append(Close(conn, "the peer's connection was there first"))
            return
        self._connections[conn] = connection
        connection.dialled = link
        self._effects.append(SendMany(conn, self._hello_to(link)))

    def _disconnected(self, conn: int, peer: str | None) -> None:
        if peer is not None:
            self._dialling.pop(peer, None)
        self._drop(conn)
        self._take_waiting()

    def _close(self, conn: int, reason: str) -> None:
        self._effects.append(Close(conn, reason))
        self._drop(conn)

    def _drop(self, conn: int) -> None:
        """A connection is no more; its link, if it has come that far, is down."""
        self._waiting.pop(conn, None)
        connection = self._connections.pop(conn, None)
        link = connection.link if connection is not None else None
        if link is not None and link.conn == conn:
            link.down(self._now)

    # -- handshake ------------------------------------------------------------------------------------

    def _hello(self, conn: int, frame: Any) -> Link | None:
        """The first frame of a connection: the link that it carries from now on, if any."""
        connection = self._connections[conn]
        if conn in self._waiting:
            self._hear_from_waiting(connection, frame)
            return connection.link
        if isinstance(frame, Bye) and connection.dialled is not None:
            self._take_refusal(conn, connection.dialled, frame)
            return None
        if not isinstance(frame, Hello):
            raise PeerError("the first frame of a connection must be Hello")
        if reason := self.access.why_denied(frame, connection.permit):
            self._deny(conn, frame.name, reason)
            return None
        try:
            self._check_hello(connection, frame)
        except PeerError as error:
            kind = KINDS.get(frame.kind)
            if connection.dialled is None and kind is not None and kind.is_neighbour:
                self._refuse(conn, frame, str(error))
                return None
            raise
        if connection.dialled is None and self._must_wait(connection, frame):
            self._close_waiting(frame.name)  # the peer has one dial at a time: this is the last
            self._waiting[conn] = frame
            return None
        return self._take_hello(conn, connection, frame)

    def _deny(self, conn: int, peer: str, reason: str) -> None:
        """Tell a client or an operator that it may not be here, and why."""
        self.trace("denied", {"peer": peer, "reason": reason})
        self._effects.append(SendMany(conn, [encode(Denied(reason))]))
        self._close(conn, reason)

    def _check_hello(self, connection: Connection, hello: Hello) -> None:
        dialled = connection.dialled
        if dialled is not None and dialled.name != hello.name:
            raise PeerError(
                f"dialled {dialled.name} but {hello.name} answered: check the addresses"
            )
        if kind_of(hello.kind).is_neighbour and hello.generation not in (0, self.generation):
            raise PeerError(
                f"{hello.name} belongs to generation {hello.generation} of the network, "
                f"{self.name} to {self.generation}: it has missed a switch"
            )
        self._check_name(hello)
        link = self.links.get(hello.name)
        if link is None or link.kind == hello.kind:
            return
        if not link.is_routed:  # an operator's name is of no account
            self._forget(link, f"a {hello.kind} is called so")
            return
        raise PeerError(f"{hello.name} is a {link.kind} here, not a {hello.kind}")

    def _check_name(self, hello: Hello) -> None:
        """Names of neighbours are configured: no other broker is taken in, and nobody else takes such a name."""
        name, config = hello.name, self.config
        if not name or not name.isprintable():
            raise PeerError(f"a peer called {name!r}: a name has printable characters")
        is_known = name in config.accepts or name in config.dials or name in self.dials
        if not kind_of(hello.kind).is_neighbour:
            if is_known:
                raise PeerError(f"a {hello.kind} called {name}, which is a broker's name here")
        elif name == self.name:
            raise PeerError(
                f"the name {name} is taken: the broker that was dialled"
                f"{f', at {config.address},' if config.address else ''} is called so itself; "
                "give each broker a name of its own"
            )
        elif not (is_known or config.accepts_any):
            raise PeerError(
                f"broker {name} is no neighbour of {self.name}: if it is to be one, add it to `accept` in the "
                f"configuration of {self.name}"
            )

    def _take_hello(self, conn: int, connection: Connection, hello: Hello) -> Link | None:
        """Begin or resume the link, unless the peer or this side has given the connection up."""
        dialled, connection.dialled = connection.dialled, None
        link = self.links.get(hello.name)
        if link is not None and link.is_client and self._is_of_another_age(link, hello):
            self._close(conn, "the client is here, and asks for a generation that is not")
            return None
        if dialled is not None and dialled is not link:
            # Given up while the peer answered, who now knows a run of the link that we do not: dial again.
            self._close(conn, "the link was given up meanwhile")
            return None
        if self._has_missed_farewell(hello):
            self._repeat_farewell(conn, hello)
            return None
        if link is None:
            link = self._new_link(hello.name, hello.kind)
        elif link.has_outgrown(hello):
            self._close(conn, "the client has given this connection up")
            return None
        self._begin_run(conn, link, hello, is_dialled=dialled is not None)
        return link

    def _begin_run(self, conn: int, link: Link, hello: Hello, *, is_dialled: bool) -> None:
        """The connection carries the link from now on: a new run of it, or the one that both sides know."""
        permit = self._connections[conn].permit
        fresh = not link.fits(hello) or not self._is_same_user(link, permit)
        if link.conn:
            # Somebody else of that name: two would displace each other for ever.
            if fresh and link.is_client and hello.token != link.peer_token:
                bye = Bye(f"another client called {link.name} has connected here", is_final=True)
                self._effects.append(SendMany(link.conn, [encode(bye)]))
                self.trace("client-displaced", {"peer": link.name})
            self._close(link.conn, "the peer opened another connection")
        if fresh:
            self._discard(link)
            self._lose_routes(link)
            link.start_fresh(hello.token, None if is_dialled else self._new_token())
            self.access.enter(link, permit, self._now)
        elif permit is not None:
            self.access.renew(link, permit, self._now)
        if not is_dialled:
            self._effects.append(SendMany(conn, self._hello_to(link, resume=not fresh)))
        if not fresh:
            link.resume(hello)
        link.up(conn, self._now)
        connection = self._connections[conn]
        connection.decoder.frame_bytes_max = FRAME_BYTES_MAX
        connection.link, link.address = link, connection.address or link.address
        if link.is_neighbour:
            self.refusals.forget(link.name, link.address)
            self._close_waiting(link.name)
        if link.name in self.dials:
            self._close_dials(link.name, "the peer's connection is the one that stays")
        self._outbox[link] = None
        self.trace("link-up", {"peer": link.name, "fresh": fresh})
        if fresh:
            self._link_is_fresh(link)

    @staticmethod
    def _is_same_user(link: Link, permit: Permit | None) -> bool:
        """Whether who comes back is who was here: nobody goes on with what another user has set up."""
        user = link.standing.permit.user if link.standing is not None else None
        return user == (permit.user if permit is not None else None)

    # -- two that dial each other -----------------------------------------------------------------------

    def _must_wait(self, connection: Connection, hello: Hello) -> bool:
        """Whether another connection to a broker of that name goes before that of this Hello."""
        if not kind_of(hello.kind).is_neighbour:
            return False
        is_dialled = hello.name in self.dials
        link = self.links.get(hello.name)
        if link is not None and link.conn:
            is_given_up = is_dialled and hello.token <= link.peer_token
            return is_given_up or _is_namesake(link, hello)
        return is_dialled and self.name < hello.name and bool(self._open_dials(hello.name))

    def _hear_from_waiting(self, connection: Connection, frame: Any) -> None:
        """Whoever waits for the answer to its Hello says nothing but where it listens."""
        if not isinstance(frame, Listens):
            raise PeerError("the peer did not wait for the answer to its Hello")
        connection.address = frame.address
        self._take_waiting()

    def _take_waiting(self) -> None:
        """Take what need not wait any more, or has waited long enough."""
        longest_ns = PRECEDENCE_BEATS * self.config.link.heartbeat_ns
        for conn, hello in list(self._waiting.items()):
            connection = self._connections[conn]
            if self._must_wait(connection, hello) and self._now - connection.since <= longest_ns:
                continue
            del self._waiting[conn]
            link = self.links.get(hello.name)
            if link is not None and self._has_living_namesake(link, connection, hello):
                self._refuse(conn, hello, _name_is_taken(self.name, link, connection.address))
                continue
            try:
                self._check_hello(connection, hello)
            except PeerError as error:  # meanwhile somebody else has taken the name
                self._refuse(conn, hello, str(error))
            else:
                self._take_hello(conn, connection, hello)

    def _close_waiting(self, peer: str) -> None:
        for conn in [conn for conn, hello in self._waiting.items() if hello.name == peer]:
            self._close(conn, "another connection to the peer is the one that stays")

    def _open_dials(self, peer: str) -> list[int]:
        """The connections that were dialled to a peer who has not answered yet."""
        return [
            conn
            for conn, connection in self._connections.items()
            if connection.dialled is not None and connection.dialled.name == peer
        ]

    def _close_dials(self, peer: str, reason: str) -> None:
        for conn in self._open_dials(peer):
            self._close(conn, reason)

    # -- refusals ---------------------------------------------------------------------------------------

    def _has_living_namesake(self, link: Link, connection: Connection, hello: Hello) -> bool:
        """Whether a link is held by another process than the one of this Hello, and has shown a sign of life since."""
        is_alive = link.heard_at - connection.since >= self.config.link.heartbeat_ns
        return link.conn > 0 and is_alive and _is_namesake(link, hello)

    def _refuse(self, conn: int, hello: Hello, reason: str) -> None:
        """Tell a broker that it is not taken in, and why."""
        reason = reason[:REASON_CHARACTERS_MAX]
        refusal = Refusal(hello.name, self._connections[conn].address, reason)
        self.refusals.give(refusal, self._now)
        self.trace("broker-refused", {"peer": hello.name, "reason": reason})
        self._effects.append(SendMany(conn, [encode(Bye(reason, is_final=True))]))
        self._close(conn, reason)

    def _take_refusal(self, conn: int, link: Link, bye: Bye) -> None:
        """A broker that was dialled refuses this one, which says so once, and goes on dialling."""
        if self.refusals.get(Refusal(link.name, link.address, bye.reason), self._now):
            self.trace("refused-by", {"peer": link.name, "reason": bye.reason})
        self._close(conn, bye.reason)

    # -- dialling and hanging up ------------------------------------------------------------------------

    def dial(self, name: str, address: str = "") -> None:
        """Have a link to a broker from now on: it is dialled until it answers, and again when it is gone.

        Without an address it must be one whom the configuration names, or who had an address before.
        """
        self._leaving.pop(name, None)
        self._hung_up.pop(name, None)
        self.dials[name] = address or self.dials.get(name, "")
        self._connect_to(name)

    def hang_up(self, name: str, reason: str, *, drained: bool = False) -> None:
        """End the link to a broker for good, with a farewell, when what happens now has been dealt with.

        What the peer has not acknowledged by then is discarded, and counted. With `drained` the link ends only when
        there is nothing left to acknowledge, or it is lost: until then it is as it was, so whoever hangs up first
        sees to it that nothing new is routed over it. The peer does not dial again by itself, unless its
        configuration names this broker.
        """
        self._leaving[name] = Farewell(reason, drained)

    def _say_farewells(self) -> None:
        """Hang up where that was asked for, and nothing is waited for."""
        for name, (reason, drained) in list(self._leaving.items()):
            link = self.links.get(name)
            if drained and link is not None and (link.waiting_bytes or link.flying_bytes):
                continue
            del self._leaving[name]
            self.dials.pop(name, None)
            self._close_dials(name, reason)
            self._close_waiting(name)
            if link is None:
                continue
            self._hung_up[name] = link.peer_token, reason
            if link.established:
                frames = link.take(self._now)
                self.meter.frames_out += len(frames)
                self.meter.bytes_out += link.taken_bytes
                frames.append(encode(Bye(reason, is_final=True)))
                self._effects.append(SendMany(link.conn, frames))
            self._forget(link, reason)
            self._has_left(name, is_final=True)

    def _has_missed_farewell(self, hello: Hello) -> bool:
        """Whether a peer comes back for a run of the link that was hung up: it was not connected then."""
        if hello.name not in self._hung_up:
            return False
        token, _ = self._hung_up[hello.name]
        if token != hello.token:
            del self._hung_up[hello.name]  # it has heard, or begun anew
        return token == hello.token

    def _repeat_farewell(self, conn: int, hello: Hello) -> None:
        _, reason = self._hung_up[hello.name]
        link = self._new_link(hello.name, hello.kind)
        frames = [*self._hello_to(link, resume=False), encode(Bye(reason, is_final=True))]
        self._effects.append(SendMany(conn, frames))
        self._close(conn, reason)
        self._remove(link)

    def _farewell(self, link: Link, bye: Bye) -> None:
        """The peer leaves, or does not want this broker as a neighbour: then it is not dialled any more."""
        if bye.is_final and link.name not in self.config.dials:
            self.dials.pop(link.name, None)
        self._forget(link, f"{link.name} left: {bye.reason}")
        self._has_left(link.name, is_final=bye.is_final)

    # -- links ------------------------------------------------------------------------------------------

    def _is_of_another_age(self, link: Link, hello: Hello) -> bool:
        """Whether a client that crosses dials a generation that has ended, and is in this one too."""
        is_another = hello.generation not in (0, self.generation)
        return is_another and link.conn > 0 and hello.token != link.peer_token

    def _hello_to(self, link: Link, *, resume: bool = True) -> list[bytes]:
        """Our Hello, and, for other brokers, where we listen."""
        hello = link.hello(BROKER, self.name, resume=resume, generation=self.generation)
        if not (link.is_neighbour and self.config.address):
            return [hello]
        return [hello, encode(Listens(self.config.address))]

    def _new_link(self, name: str, kind: str) -> Link:
        number = self._free_numbers.pop() if self._free_numbers else len(self._by_number)
        config: LinkConfig = getattr(self.config, kind_of(kind).limits)
        link = self.links[name] = Link(
            name, kind, number, self._new_token(), config, self._now, self._outbox
        )
        link.grant(self.config.credit_max)
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
        self._remove(link)

    def _remove(self, link: Link) -> None:
        self.access.leave(link)
        self.meter.received_from_gone[link.kind] += link.publications_in
        self.meter.sent_to_gone[link.kind] += link.publications_out
        del self.links[link.name]
        self._by_number[link.number] = None
        self._free_numbers.append(link.number)

    def _discard(self, link: Link) -> None:
        """A peer has lost its memory, or does not come back: say how much of what it was to have is lost.

        What was never sent is lost for certain. What was sent and not acknowledged it may have had before.
        """
        count, in_doubt = link.unsent().count, link.in_doubt
        if count or in_doubt:
            self.meter.discarded += count
            self.meter.in_doubt += in_doubt
            self.meter.lost_at = self._now
            self.trace("discarded", {"peer": link.name, "count": count, "in_doubt": in_doubt})

    def _tick(self) -> None:
        """Twice per heartbeat: show that we live, notice who does not, dial who is missing."""
        for link in list(self.links.values()):
            link.heartbeat(self._now)
            if link.conn and link.has_been_silent(self._now):
                self._close(link.conn, "nothing heard for three heartbeats")
            if link.is_expired(self._now):
                self._forget(link, EXPIRED)
            elif not (link.conn or kind_of(link.kind).resumes):
                self._forget(link, "it does not come back")
        self._take_waiting()
        patience_ns = PATIENCE_BEATS * self.config.link.heartbeat_ns
        for conn, connection in list(self._connections.items()):
            if connection.link is None and self._now - connection.since > patience_ns:
                self._close(conn, "no Hello within three heartbeats")
        for peer in self.dials:
            self._connect_to(peer)
        self.arbiter.forget_expired(self._now)
        self.access.tick(self._now)
        self._effects.append(SetTimer(TICK, self._now + self.config.link.heartbeat_ns // 2))

    def _connect_to(self, peer: str) -> None:
        """Dial a neighbour, unless it is connected or about to be."""
        known = self.links.get(peer)
        if (known is None or not known.conn) and not (
            peer in self._dialling or self._open_dials(peer)
        ):
            self._dialling[peer] = None
            self._effects.append(Connect(peer, self.dials[peer]))

    def trace(self, kind: str, data: dict[str, Any]) -> None:
        """Record something."""
        self._effects.append(WriteTrace(kind, data))


def _is_namesake(link: Link, hello: Hello) -> bool:
    """Whether a Hello is from another process than the peer of a link. Where it says that it listens proves nothing."""
    return not is_of_one_source(hello.token, link.peer_token)


def _name_is_taken(here: str, link: Link, address: str) -> str:
    return (
        f"the name {link.name} is taken: the broker at {link.address or 'another place'} has the link to {here}, "
        f"so the one at {address or 'another place'} is refused; give each broker a name of its own"
    )
