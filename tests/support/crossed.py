"""Two generations of a small network in memory, for tests of sessions that cross from one to the other.

Processes A and B; the brokers of generation 1 are `A#1` and `B#1`, those of generation 2 `A#2` and `B#2`. A session
dials processes: a dial of `at://A#2` goes to `A#2`, or to the broker that A has if there is no such generation, as with
a real node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from runnel.broker.events import Disconnected
from runnel.client.session import Session
from runnel.language import parse
from runnel.modules.generations.module import Generations
from runnel.modules.generations.questions import SetGoal
from runnel.wire import Stage
from support.harness import StepNetwork
from support.hosting import FakeProcess

LINKS = {"A": (), "B": ("A",)}
"""Who dials whom, in both generations."""


class TwoGenerations(StepNetwork):
    """The brokers of both generations; `pair` adds a publisher `p` at A and a subscriber `s` at B."""

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
        module = self.modules[name] = Generations(
            generation, FakeProcess(), f"at://{process}", standby
        )
        dials = [f"{other}#{generation}" for other in LINKS[process]]
        self.broker(name, *dials, modules=(module,), generation=generation)

    def _connect(self, name: str, peer: str) -> None:
        super()._connect(name, self._resolve(peer))
        owner, event = self.queue.pop()  # the dialling side knows the address that it dialled
        self.queue.append((owner, msgspec.structs.replace(event, peer=peer)))

    def _resolve(self, peer: str) -> str:
        place = peer.removeprefix("at://")
        process = place.partition("#")[0]
        there = [name for name in self.nodes if name.startswith(f"{process}#")]
        return place if place in self.nodes or not there else min(there)

    def goal(
        self, stage: Stage, *brokers: str, to: dict[str, str] | None = None, **named: Stage
    ) -> None:
        """Send a goal to all brokers, or to some; `p` is to live at B and `s` at A, unless `to` says otherwise."""
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
        """A session with a subscription and an advertisement, that do not intersect those of `p`."""
        session = self.session(name, home)
        session.subscribe(parse("b > 0"))
        session.advertise(name, parse("b > 0"))
        self.settle()
        return session

    def report_of(self, broker: str, client: str) -> Any:
        """What a broker would report of a client."""
        return self.modules[broker].report(self.nodes[broker]).clients[client]


def publish(session: Session, id: int, *values: int) -> None:
    """Publish the values of `a`, one after the other."""
    for value in values:
        session.publish(id, {"a": value})
