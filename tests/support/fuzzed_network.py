"""Two brokers with every module, traffic between two clients, and strangers that say anything; all of it in memory.

Strangers are bytes: clients, operators, a broker that the configuration names, and brokers that it does not. They know
the ids that the clients use, except where a broker takes whoever knows an id for its owner (`fuzzing.py::SPARED`).
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from runnel.broker import broker as broker_module
from runnel.broker.broker import Broker
from runnel.broker.effects import WriteTrace
from runnel.broker.events import Connected, Disconnected, FramesArrived
from runnel.broker.links import Link
from runnel.broker.module import Module, Surroundings
from runnel.broker.permissions import may
from runnel.broker.permits import Permit
from runnel.broker.router import Router
from runnel.client.effects import Confirmed, Deliver, Gap
from runnel.compose import MODULES
from runnel.language import EVERYTHING
from runnel.modules.generations.questions import OpenGeneration
from runnel.modules.placement.config import PlacementConfig
from runnel.modules.profiles.config import ProfilesConfig
from runnel.quantities import SECOND
from runnel.wire import Message, Publication
from support.fuzzing import FuzzedKind, StrangeVoice
from support.harness import ConnectionEnd, StepNetwork

FORGOTTEN = (Deliver, Confirmed, Gap)
"""What clients are told all the time: a configured broker is believed, also when it tells of losses."""

STRANGERS_MAX = 6  # at a time
CONFIGURED, UNKNOWN = ("F1", "F2"), ("X", "alice", "")


class LonelyHost:
    """A process that has one generation and never gets another."""

    settled = 1

    def open(self, order: OpenGeneration) -> None:
        """No other begins."""

    def close(self, generation: int) -> None:
        """Nor does this one end."""

    def receive_in(self, generation: int) -> None:
        """Everybody belongs here."""


def modules(broker: str, algorithm: Any) -> tuple[Module, ...]:
    """Every module that there is, at work."""
    around = Surroundings(
        broker,
        services={"hosting": LonelyHost(), "place": OpenGeneration(1)},
        address=f"at {broker}",
    )
    settings: dict[str, Any] = {
        "placement": PlacementConfig(algorithm, g_threshold=20, p_threshold=20),
        "profiles": ProfilesConfig(enabled=True),
    }
    own = [kind for kind in MODULES.values() if kind.make.__module__.startswith("runnel.")]
    return tuple(one for kind in own for one in kind.make(around, settings.get(kind.name)))


class FuzzStranger:
    """One connection of a stranger; it has said Hello, or has not."""

    def __init__(self, conn: int, broker: str, kind: str, name: str) -> None:
        self.conn = conn
        self.name = name
        self.broker = broker
        self.kind = kind


class FuzzedNetwork:
    """See the top of the file. `said` counts the frames of strangers, `refused` those whose connection was closed.

    `taken` counts what a broker has read and looked at, by kind of peer and kind of frame, whether it was allowed or
    not; what is spoilt, or was said before the Hello or behind something spoilt, is not among it.

    `is_guarded`: everybody has a permit; that of strangers allows everything but the names of others.
    """

    def __init__(self, seed: int, *, is_guarded: bool = False) -> None:
        self.random = Random(seed)
        self.said = self.refused = 0
        self.taken: Counter[tuple[str, FuzzedKind]] = Counter()
        self._is_stranger_heard = False
        net = self.net = StepNetwork()
        self._permit = may_all("stranger", "client *", "operator *") if is_guarded else None
        if is_guarded:
            net.permits = {name: may_all(name, name) for name in ("alice", "bob")}
        for name, dials, algorithm, accepts in (
            *(("B1", (), "grape", ("B2", "F1")), ("B2", ("B1",), "pop", ("F2",))),
        ):
            own = modules(name, algorithm)
            only: dict[str, Any] = {"accepts_any": False, "is_guarded": is_guarded}
            net.broker(name, *dials, modules=own, accepts=accepts, **only)
        net.settle()
        self._subscriber, self._wanted = net.subscriber("bob", "B1", "v >= 0")
        self._publisher, self._id = net.publisher("alice", "B2", "v >= 0")
        net.settle()
        self._published = self._read_up_to = 0
        self._strangers: list[FuzzStranger] = []
        home, outlet = self._subscriber.home, self._publisher.home
        assert home is not None and outlet is not None
        theirs = (*home.subscriptions.values(), *outlet.advertisements.values())
        self._voice = StrangeVoice(seed, theirs, is_guarded=is_guarded)

    def run(self, frames: int) -> None:
        """Let brokers take so many frames of strangers, and the clients go on all the while."""
        until = self.taken.total() + frames
        with pytest.MonkeyPatch.context() as patch:
            self._count_taken(patch)
            while self.taken.total() < until:
                self._come_or_go()
                for stranger in list(self._strangers):
                    self._say(stranger)
                self._publish()
                if self.random.random() < 0.2:
                    self.net.advance(self.random.choice((SECOND // 10, SECOND)))
                self.net.settle()
                self._forget()

    def check(self) -> None:
        """The clients have noticed nothing, and nothing is left of the strangers once they are gone."""
        net = self.net
        for stranger in list(self._strangers):
            self._leave(stranger)
        self._publish()
        net.advance(15 * SECOND)
        self._read()
        assert self._read_up_to == self._published
        for name in ("alice", "bob"):
            told = [type(effect).__name__ for effect in net.told[name]]
            assert told.count("HomeUp") == 1 and "HomeDown" not in told, told
        for name in ("B1", "B2"):
            broker = net.nodes[name]
            assert isinstance(broker, Broker)
            assert sorted(broker.links) == [("B2" if name == "B1" else "B1"), *_client_of(name)]
            assert len(broker.tables.srt) == len(broker.tables.prt) == 1
            assert not broker.barriers.pending
        assert not [trace for _, trace in net.traces if _is_lost_neighbour(trace)]

    # -- inside ---------------------------------------------------------------------------------------

    def _count_taken(self, patch: pytest.MonkeyPatch) -> None:
        """Count at the two places that everything passes behind the Hello: messages, and publications."""
        route = Router.route

        def counted_may(link: Link, what: Message) -> bool:
            if self._is_stranger_heard:
                self.taken[link.kind, type(what)] += 1
            return may(link, what)

        def counted_route(router: Router, link: Link, run: list[Publication], *rest: Any) -> None:
            if self._is_stranger_heard:
                self.taken[link.kind, Publication] += len(run)
            route(router, link, run, *rest)

        patch.setattr(broker_module, "may", counted_may)
        patch.setattr(Router, "route", counted_route)

    def _publish(self) -> None:
        self._publisher.publish(self._id, {"v": self._published})
        self._published += 1
        self.net.flush()

    def _read(self) -> None:
        """What the subscriber got is the next of what was published."""
        for effect in self.net.effects("bob", Deliver):
            assert effect.publication.attributes["v"] == self._read_up_to
            self._read_up_to += 1
        for name in ("alice", "bob"):
            told = self.net.told[name]
            told[:] = [effect for effect in told if not isinstance(effect, FORGOTTEN)]

    def _come_or_go(self) -> None:
        random = self.random
        if len(self._strangers) == STRANGERS_MAX or (self._strangers and random.random() < 0.3):
            self._leave(self._strangers[random.randrange(len(self._strangers))])
            return
        kind = random.choice(("client", "client", "operator", "broker", "broker"))
        broker = random.choice(("B1", "B2"))
        mine, conn = self.net._conns + 1, self.net._conns + 2
        self.net._conns = conn
        self.net._ends[conn] = ConnectionEnd(broker, f"stranger {conn}", mine)
        name = f"{kind} {random.randrange(9)}"
        if kind == "broker":
            name = random.choice((f"F{broker[1]}",) * 12 + CONFIGURED + UNKNOWN)
        stranger = FuzzStranger(conn, broker, kind, name)
        self._strangers.append(stranger)
        permit = self._permit if kind != "broker" else None
        self.net.event(broker, Connected(conn, None, permit))
        if random.random() < 0.95:
            self._arrive(stranger, self._voice.hello(kind, name))

    def _leave(self, stranger: FuzzStranger) -> None:
        """A stranger goes by itself."""
        self._strangers.remove(stranger)
        self.net._ends.pop(stranger.conn, None)
        self.net.event(stranger.broker, Disconnected(stranger.conn))

    def _say(self, stranger: FuzzStranger) -> None:
        """A chunk of a stranger: some frames, and perhaps a cut through the last one."""
        count = self.random.choice((1, 2, 5, 10))
        self.said += count
        words = [self._voice.word(stranger.kind, stranger.name).raw for _ in range(count)]
        chunk = b"".join(words)
        if self.random.random() < 0.01:
            chunk = chunk[: self.random.randrange(len(chunk))]
        self._arrive(stranger, chunk)

    def _arrive(self, stranger: FuzzStranger, chunk: bytes) -> None:
        self._is_stranger_heard = True
        self.net.event(stranger.broker, FramesArrived(stranger.conn, chunk))
        self._is_stranger_heard = False
        if stranger.conn not in self.net._ends:
            self.refused += 1
            self._strangers.remove(stranger)

    def _forget(self) -> None:
        """What nobody will ask for, so that memory tells of brokers and nothing else."""
        self._read()
        for conn in [conn for conn in self.net._decoders if conn not in self.net._ends]:
            del self.net._decoders[conn]
        self.net.forget_sent()
        self.net.closed.clear()
        self.net.traces = [one for one in self.net.traces if _is_lost_neighbour(one[1])]


def may_all(user: str, *names: str) -> Permit:
    """The permit of a user who may do everything under these names, but give commands."""
    return Permit(user, EVERYTHING, EVERYTHING, names, frozenset({"read"}))


def _client_of(broker: str) -> list[str]:
    return ["bob"] if broker == "B1" else ["alice"]


def _is_lost_neighbour(trace: WriteTrace) -> bool:
    return trace.kind == "link-lost" and trace.data["peer"] in ("B1", "B2")
