"""Two generations of a small network in memory, for tests of sessions that cross from one to the other.

Processes A and B; the brokers of generation 1 are `A#1` and `B#1`, those of generation 2 `A#2` and `B#2`. A session
dials processes: `at://A#2` is led to `A#2`, and to whichever A has if there is no such generation, as a node would do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from harness import Network
from runnel.broker.events import Disconnected
from runnel.client.session import Session
from runnel.generations.module import Generations
from runnel.inspection.questions import OpenGeneration, SetGoal
from runnel.language import parse

LINKS = {"A": (), "B": ("A",)}
"""Who dials whom, in both generations."""


class Process:
    """What brokers of one process share; nothing happens in it by itself."""

    settled = 1

    def open(self, order: OpenGeneration) -> None:
        """Not here: tests start brokers."""

    def close(self, generation: int) -> None:
        """Not here."""

    def receive_in(self, generation: int) -> None:
        """Not here: `at://A` is led to the first there is."""


class Crossed(Network):
    """Both generations, and a publisher `p` at A and a subscriber `s` at B, if they are wanted."""

    def __init__(self, generations: Iterable[int] = (1, 2)) -> None:
        super().__init__()
        self.modules: dict[str, Generations] = {}
        self.version = 0
        for generation in generations:
            for process in LINKS:
                self.start(process, generation)
        self.settle()

    def start(self, process: str, generation: int, standby: str = "") -> None:
        """Start a broker, or start it again without memory."""
        name = f"{process}#{generation}"
        module = self.modules[name] = Generations(generation, Process(), f"at://{process}", standby)
        dials = [f"{other}#{generation}" for other in LINKS[process]]
        self.broker(name, *dials, modules=(module,), generation=generation)

    def _connect(self, name: str, peer: str) -> None:
        super()._connect(name, self._led_to(peer))
        owner, event = self.queue.pop()  # who dialled knows the one that it dialled
        self.queue.append((owner, msgspec.structs.replace(event, peer=peer)))  # type: ignore[type-var]

    def _led_to(self, peer: str) -> str:
        place = peer.removeprefix("at://")
        process = place.partition("#")[0]
        there = [name for name in self.nodes if name.startswith(f"{process}#")]
        return place if place in self.nodes or not there else min(there)

    def goal(
        self, stage: int, *brokers: str, to: dict[str, str] | None = None, **named: int
    ) -> None:
        """All brokers, or these, are told how far clients are to go; p to B, s to A, unless told otherwise."""
        self.version += 1
        addresses = {"p": "at://B", "s": "at://A"} | (to or {})
        order = SetGoal(2, self.version, stage, "at://A", named, addresses)
        for name in brokers or [name for name in self.nodes if name in self.modules]:
            self.modules[name].set_goal(self.nodes[name], order)
            self.event(name, Disconnected(0))  # what it has to send
        self.settle()

    def pair(self) -> tuple[Session, int, Session, int]:
        """A publisher p at A, and a subscriber s at B to everything that it publishes."""
        publisher, published = self.publisher("p", "at://A", "a > 0")
        subscriber, subscribed = self.subscriber("s", "at://B", "a > 0")
        return publisher, published, subscriber, subscribed

    def newcomer(self, name: str, home: str) -> Session:
        """A session with a subscription and an advertisement, for what `p` has nothing to do with."""
        session = self.session(name, home)
        session.subscribe(parse("b > 0"))
        session.advertise(name, parse("b > 0"))
        self.settle()
        return session

    def reported(self, broker: str, client: str) -> Any:
        """What a broker would report of a client."""
        return self.modules[broker].report(self.nodes[broker]).clients[client]


def publish(session: Session, id: int, *values: int) -> None:
    """Publish the values of `a`, one after the other."""
    for value in values:
        session.publish(id, {"a": value})
