"""One broker behind its door, and peers that are nothing but bytes: for tests of the broker itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from runnel.broker.config import BrokerConfig
from runnel.broker.effects import Close, Connect, SendMany, SendSame, SetTimer, WriteTrace
from runnel.broker.events import Connected, FramesArrived, TimerFired
from runnel.broker.gauges import Gauges, ReadGauges
from runnel.broker.module import Module
from runnel.broker.permits import Permit
from runnel.compose import BrokerSpec, make_broker
from runnel.language import EVERYTHING
from runnel.net.driver import Machine
from runnel.routing.strategy import StrategyKind
from runnel.wire import (
    PROTOCOL,
    Ack,
    Advertise,
    Decoder,
    Frame,
    Hello,
    Message,
    MissingLinks,
    Publication,
    Subscribe,
    encode,
    raw_selection,
)

ALL = raw_selection(EVERYTHING)


class Door:
    """One broker, and peers that are nothing but bytes."""

    def __init__(
        self,
        *dials: str,
        modules: tuple[Module, ...] = (),
        gauges: ReadGauges = Gauges,
        strategy: str | StrategyKind = "tree",
        clock: Callable[[], int] | None = None,
        **config: Any,
    ) -> None:
        self.now = 0
        self.closed: dict[int, str] = {}
        self.timers: dict[str, int] = {}
        self.dialled: list[str] = []
        self.traces: list[WriteTrace] = []
        self.got: dict[int, list[Frame]] = {}
        self._decoders: dict[int, Decoder] = {}
        self._counted: dict[int, int] = {}
        self._token = 1_000
        spec = BrokerSpec(BrokerConfig("B", dials, **config), strategy)
        self.broker = make_broker(spec, 1, clock=clock, gauges=gauges, added=modules)
        self.machine: Machine = self.broker  # whatever stands in the door
        self.take(self.broker.start(0))

    def take(self, effects: Iterable[Any]) -> None:
        for effect in effects:
            match effect:
                case SendSame(conns=conns, frames=frames):
                    self.take([SendMany(conn, frames) for conn in conns])
                case SendMany(conn=conn, frames=frames):
                    decoder = self._decoders.setdefault(conn, Decoder())
                    found = decoder.feed(b"".join(frames))
                    self.got.setdefault(conn, []).extend(found)
                    counted = sum(not isinstance(f, (Hello, Ack)) for f in found)
                    self._counted[conn] = self._counted.get(conn, 0) + counted
                case Close(conn=conn, reason=reason):
                    self.closed[conn] = reason
                case SetTimer(timer=timer, at=at):
                    self.timers[timer] = at
                case Connect(peer=peer):
                    self.dialled.append(peer)
                case WriteTrace():
                    self.traces.append(effect)

    def event(self, event: Any) -> None:
        self.take(self.machine.handle(event, self.now))

    def arrive(self, conn: int, *frames: Message | Publication | bytes) -> None:
        chunk = b"".join(
            f if isinstance(f, bytes) else f.frame() if isinstance(f, Publication) else encode(f)
            for f in frames
        )
        self.event(FramesArrived(conn, chunk))

    def connect(
        self, conn: int, name: str, kind: Any = "client", permit: Permit | None = None
    ) -> None:
        self._token += 1
        self.event(Connected(conn, None, permit))
        self.arrive(conn, Hello(PROTOCOL, kind, name, self._token, 0, 0, 0, 0))
        if kind == "broker":
            self.arrive(conn, MissingLinks(()))  # it has said all that it had to say

    def received(self, conn: int) -> list[Frame]:
        """What a peer has got since it was last asked; but for what is about the link."""
        frames = self.got.pop(conn, [])
        return [frame for frame in frames if not isinstance(frame, (Hello, Ack, MissingLinks))]

    def acknowledge(self, conn: int, *, congested: bool = False) -> None:
        """The peer has everything that it was sent."""
        self.arrive(conn, Ack(self._counted.get(conn, 0), 0, 0, congested))

    def pass_time(self, ns: int) -> None:
        self.now += ns
        self.event(TimerFired("tick"))

    def credit(self, conn: int) -> int:
        """The last credit that a client was given."""
        return [f for f in self.got[conn] if isinstance(f, (Hello, Ack))][-1].credit


def busy_door() -> Door:
    """A broker with a publisher on 1, a subscriber to everything on 2, and a neighbour on 3."""
    door = Door()
    door.connect(1, "pub")
    door.connect(2, "sub")
    door.connect(3, "N", "broker")
    door.arrive(3, Advertise(8, ALL, "far", 9))
    door.arrive(1, Advertise(7, ALL, "near", 9))
    door.arrive(2, Subscribe(20, ALL, 9))
    door.arrive(3, Subscribe(30, ALL, 9))
    door.got.clear()
    door.traces.clear()
    return door
