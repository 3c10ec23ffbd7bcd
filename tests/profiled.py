"""A small simulated world for tests of profiles: brokers with CBC, clients that subscribe and publish, and CROC.

The brokers, modules and sessions are those that ship. Beside them the test keeps books: who published what, when, and
who subscribed to what, from which `expected` finds by direct matching what profiles must say.
"""

from __future__ import annotations

from collections.abc import Iterable

from asking import Asking
from placed import MILLISECOND, SECOND, Placed
from runnel.allocation.cbc import Cbc
from runnel.allocation.config import ProfilesConfig
from runnel.allocation.picture import Answers
from runnel.broker.broker import Broker
from runnel.broker.config import BrokerConfig
from runnel.broker.effects import Connect
from runnel.client.session import Session
from runnel.placement.config import PlacementConfig
from runnel.placement.migration import Migration
from runnel.routing.tree import TreeRouting

ON = ProfilesConfig(enabled=True)


class Profiled(Placed):
    """Brokers on the given links, each with CBC; the first of a link dials the second."""

    def __init__(
        self, links: Iterable[tuple[str, str]], config: ProfilesConfig = ON, seed: int = 1
    ) -> None:
        self.profiles = config
        self.cbcs: dict[str, Cbc] = {}
        self.migrations: dict[str, Migration] = {}
        self._asked = 0
        super().__init__(links, PlacementConfig(), seed=seed)

    def start(self, name: str) -> None:
        host = self.world.host(name)
        dials = tuple(b for a, b in self.links if a == name)
        cbc = self.cbcs[name] = Cbc(self.profiles, f"runnel://{name}:1")
        migration = self.migrations[name] = Migration()
        self._made += 1
        broker = Broker(
            BrokerConfig(name, dials),
            self._made,
            self.world.matcher,
            lambda tables: TreeRouting(self.tree, tables),
            (cbc, migration),
        )
        self.world.start(host, broker)

    def ask(self, broker: str, timeout_s: float = 5.0) -> Asking:
        """CROC asks, and has time until all have answered or it is too late."""
        asking = self.begin_to_ask(broker, timeout_s)
        self.run(timeout_s + 1)
        return asking

    def begin_to_ask(self, broker: str, timeout_s: float = 5.0) -> Asking:
        """CROC asks; nothing has come of it yet."""
        self._asked += 1
        asking = Asking(timeout_s, token=self._asked)
        host = self.world.host(f"croc{self._asked}")
        self.world.start(host, asking)  # type: ignore[arg-type]
        self.world.perform(host, [Connect(broker)])
        return asking

    def answers(self, broker: str) -> Answers:
        """What all brokers answer."""
        asking = self.ask(broker)
        assert asking.over_at is not None
        return asking.answers

    def client(self, name: str) -> Session:
        """A client's session."""
        machine = self.world.hosts[name].machine
        assert isinstance(machine, Session)
        return machine

    def do(self, name: str, seconds: float = 1.0) -> None:
        """Carry out what a session was asked for."""
        self.world.flush(self.world.hosts[name])
        self.run(seconds)


__all__ = ["MILLISECOND", "ON", "SECOND", "Profiled"]
