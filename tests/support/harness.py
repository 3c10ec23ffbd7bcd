"""A network in memory for tests: real brokers and sessions, one queue, one event at a time.

What is sent arrives in the order in which it was sent, at once and without a clock; a test moves the clock
itself (`advance`). Every frame is decoded as it is sent and kept by who sent it to whom, so a test can say what
went over a link and in which order. Links can be cut, held up and refused. It is not the simulator: nothing
happens here that a test did not ask for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from runnel.broker.broker import Broker
from runnel.broker.config import BrokerConfig
from runnel.broker.effects import Close, Connect, SendMany, SendSame, SetTimer, WriteTrace
from runnel.broker.events import Connected, Disconnected, Event, FramesArrived, TimerFired
from runnel.broker.gauges import Gauges, ReadGauges
from runnel.broker.ids import IdSource
from runnel.broker.invariants import check_broker
from runnel.broker.module import Module
from runnel.broker.permits import Permit
from runnel.client.config import SessionConfig
from runnel.client.effects import Deliver, SessionEffect
from runnel.client.session import Session
from runnel.compose import BrokerSpec, make_broker
from runnel.language import parse
from runnel.routing.tree import TreeConfig
from runnel.wire import Ack, Decoder, Frame, Hello, Lane, Message, MissingLinks, Way, register
from runnel.wire.messages import Id

_T = TypeVar("_T")


class MonitorProbe(Message, frozen=True):
    """A module's message for tests: monitoring, so it overtakes data."""

    token: Id


ABOUT_LINKS = (Hello, Ack, MissingLinks)

register(251, MonitorProbe, Lane.MONITOR, Way.ALL)


@dataclass(frozen=True, slots=True)
class ConnectionEnd:
    """One end of a connection: whose it is, and where the other one is."""

    owner: str
    peer: str
    peer_conn: int


@dataclass(slots=True)
class StepNetwork:
    """Brokers and sessions by name, joined."""

    tree: TreeConfig = field(default_factory=TreeConfig)
    now: int = 0
    nodes: dict[str, Any] = field(default_factory=dict)
    sent: list[tuple[str, str, Frame]] = field(default_factory=list)
    told: dict[str, list[Any]] = field(default_factory=dict)
    traces: list[tuple[str, WriteTrace]] = field(default_factory=list)
    closed: list[tuple[str, str, str]] = field(default_factory=list)
    unreachable: dict[str, None] = field(default_factory=dict)
    queue: deque[tuple[str, Event]] = field(default_factory=deque)
    timers: dict[tuple[str, str], int] = field(default_factory=dict)
    permits: dict[str, Permit] = field(default_factory=dict)  # of sessions, by name
    _ends: dict[int, ConnectionEnd] = field(default_factory=dict)
    _held: dict[tuple[str, str], list[tuple[str, Event]]] = field(default_factory=dict)
    _decoders: dict[int, Decoder] = field(default_factory=dict)
    _conns: int = 0
    _incarnations: int = 0

    # -- who is there ---------------------------------------------------------------------------------

    def broker(
        self,
        name: str,
        *dials: str,
        modules: tuple[Module, ...] = (),
        gauges: ReadGauges = Gauges,
        **config: Any,
    ) -> Broker:
        """Start a broker; one of the same name that was there before is dead and forgotten."""
        self._incarnations += 1
        spec = BrokerSpec(BrokerConfig(name, dials, **config), routing=self.tree)
        broker = make_broker(spec, self._incarnations, gauges=gauges, added=modules)
        self.nodes[name] = broker
        self.told[name] = []
        self._carry_out(name, broker.start(self.now))
        return broker

    def session(
        self,
        name: str,
        home: str | None = None,
        client: str = "",
        behind_ns: int = 0,
        **config: Any,
    ) -> Session:
        """Start a session and connect it; brokers know it as `client`, if not by its name here.

        Its clock is behind by `behind_ns`.
        """
        self._incarnations += 1
        session = Session(
            SessionConfig(client or name, **config),
            self._incarnations,
            IdSource(self._incarnations),
            lambda: self.now - behind_ns,
        )
        self.nodes[name] = session
        self.told[name] = []
        if home is not None:
            session.connect(home, self.now)
            self.settle()
        return session

    def subscriber(self, name: str, home: str, selection: str) -> tuple[Session, int]:
        """A session with one subscription."""
        session = self.session(name, home)
        id = session.subscribe(parse(selection))
        self.settle()
        return session, id

    def publisher(self, name: str, home: str, selection: str) -> tuple[Session, int]:
        """A session with one advertisement."""
        session = self.session(name, home)
        id = session.advertise(name, parse(selection))
        self.settle()
        return session, id

    # -- what happens ---------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everything that was asked for and sent arrive."""
        self.flush()
        while self.step():
            pass

    def flush(self) -> None:
        """Carry out what sessions were asked for; nothing arrives yet."""
        for name, node in list(self.nodes.items()):
            if isinstance(node, Session):
                self._carry_out(name, node.flush(self.now))

    def event(self, name: str, event: Event) -> None:
        """Let something happen to a broker or a session; what comes of it waits."""
        self._carry_out(name, self.nodes[name].handle(event, self.now))

    def step(self) -> bool:
        """Let the next thing happen; False if there is none."""
        while self.queue:
            name, event = self.queue.popleft()
            if isinstance(event, FramesArrived):
                end = self._ends.get(event.conn)
                if end is None:
                    continue  # the connection went meanwhile
                if (held := self._held.get((end.peer, name))) is not None:
                    held.append((name, event))
                    continue
            elif isinstance(event, Disconnected):
                self._ends.pop(event.conn, None)
            if name in self.nodes:
                self._carry_out(name, self.nodes[name].handle(event, self.now))
                return True
        return False

    def advance(self, ns: int) -> None:
        """Let time pass; timers go off when they are due, and what comes of it arrives at once."""
        until = self.now + ns
        while due := [(at, key) for key, at in self.timers.items() if at <= until]:
            at, (name, timer) = min(due)
            del self.timers[name, timer]
            self.now = max(self.now, at)
            if name in self.nodes:
                self.queue.append((name, TimerFired(timer)))
            self.settle()
        self.now = until

    def cut(self, one: str, other: str) -> None:
        """Break the connections between two; what was under way is lost."""
        for conn, end in list(self._ends.items()):
            if {end.owner, end.peer} == {one, other}:
                del self._ends[conn]
                self.queue.append((end.owner, Disconnected(conn)))

    def hold(self, source: str, target: str) -> None:
        """Hold up what one sends to the other, until `release`."""
        self._held[source, target] = []

    def release(self, source: str, target: str) -> None:
        """Let what was held up arrive, in order."""
        self.queue.extendleft(reversed(self._held.pop((source, target))))

    def release_one(self, source: str, target: str) -> list[Frame]:
        """Let the first write that was held up arrive; what was in it."""
        name, event = self._held[source, target].pop(0)
        assert isinstance(event, FramesArrived)
        self.event(name, event)
        return Decoder().feed(event.chunk)

    def crash(self, name: str) -> None:
        """A node is gone without a word; its timers with it."""
        del self.nodes[name]
        self.timers = {key: at for key, at in self.timers.items() if key[0] != name}
        for end in list(self._ends.values()):
            if end.owner == name:
                self.cut(name, end.peer)

    # -- what there is to see -------------------------------------------------------------------------

    def between(self, source: str, target: str) -> list[Frame]:
        """What one sent to the other, in order; but for what is about the link itself."""
        return [
            frame
            for sender, receiver, frame in self.sent
            if (sender, receiver) == (source, target) and not isinstance(frame, ABOUT_LINKS)
        ]

    def of_kind(self, source: str, target: str, kind: type[_T]) -> list[_T]:
        """What one sent to the other, of one kind only."""
        return [
            frame
            for sender, receiver, frame in self.sent
            if (sender, receiver) == (source, target) and isinstance(frame, kind)
        ]

    def forget_sent(self) -> None:
        """What was sent so far is of no interest."""
        self.sent.clear()

    def effects(self, name: str, kind: type[_T]) -> list[_T]:
        """What a session told its application, of one kind."""
        return [effect for effect in self.told[name] if isinstance(effect, kind)]

    def delivered(self, name: str, attribute: str = "a") -> list[Any]:
        """One attribute of everything that was delivered to a session, in order."""
        return [d.publication.attributes.get(attribute) for d in self.effects(name, Deliver)]

    # -- inside ---------------------------------------------------------------------------------------

    def _carry_out(self, name: str, effects: Sequence[SessionEffect]) -> None:
        if isinstance(self.nodes[name], Broker):
            check_broker(self.nodes[name])
        for effect in effects:
            match effect:
                case SendMany(conn=conn, frames=frames):
                    self._send(conn, frames)
                case SendSame(conns=conns, frames=frames):
                    for conn in conns:
                        self._send(conn, frames)
                case Connect(peer=peer):
                    self._connect(name, peer)
                case Close(conn=conn, reason=reason):
                    self._close(name, conn, reason)
                case SetTimer(timer=timer, at=at):
                    self.timers[name, timer] = at
                case WriteTrace():
                    self.traces.append((name, effect))
                case _:
                    self.told[name].append(effect)

    def _send(self, conn: int, frames: list[bytes]) -> None:
        assert frames, "nothing to send is not worth an effect"
        end = self._ends.get(conn)
        if end is None:
            return
        decoder = self._decoders.setdefault(conn, Decoder())
        self.sent += [(end.owner, end.peer, frame) for frame in decoder.feed(b"".join(frames))]
        self.queue.append((end.peer, FramesArrived(end.peer_conn, b"".join(frames))))

    def _connect(self, name: str, peer: str) -> None:
        if peer not in self.nodes or peer in self.unreachable:
            self.queue.append((name, Disconnected(0, peer)))
            return
        mine, theirs = self._conns + 1, self._conns + 2
        self._conns = theirs
        self._ends[mine] = ConnectionEnd(name, peer, theirs)
        self._ends[theirs] = ConnectionEnd(peer, name, mine)
        self.queue.append((peer, Connected(theirs, None, self._permit_of(name, peer))))
        self.queue.append((name, Connected(mine, peer)))

    def _permit_of(self, name: str, broker: str) -> Permit | None:
        """What a node gives its broker for a peer: here a peer is whom it says it is."""
        return self.permits.get(name)

    def _close(self, name: str, conn: int, reason: str) -> None:
        end = self._ends.pop(conn, None)
        if end is not None:
            self.closed.append((name, end.peer, reason))
            self.queue.append((end.peer, Disconnected(end.peer_conn)))
