"""A small simulated world for tests of profiles: brokers with CBC, clients that subscribe and publish, and CROC.

It is the world for tests of placement with another module in its brokers.
"""

from __future__ import annotations

from collections.abc import Iterable

from runnel.broker.effects import Connect
from runnel.broker.module import Module
from runnel.client.session import Session
from runnel.lab.croc_client import CrocClient
from runnel.modules.placement.config import PlacementConfig
from runnel.modules.profiles.config import ProfilesConfig
from runnel.modules.profiles.module import Cbc
from runnel.operate.picture import Answers
from runnel.quantities import MILLISECOND, SECOND
from support.placed import PlacementWorld

ON = ProfilesConfig(enabled=True)


class ProfilesWorld(PlacementWorld):
    """Brokers on the given links, each with CBC; the first of a link dials the second."""

    def __init__(
        self, links: Iterable[tuple[str, str]], config: ProfilesConfig = ON, seed: int = 1
    ) -> None:
        self.profiles = config
        self.cbcs: dict[str, Cbc] = {}
        self._asked = 0
        super().__init__(links, PlacementConfig(), seed=seed)

    def make_modules(self, name: str) -> tuple[Module, ...]:
        cbc = self.cbcs[name] = Cbc(self.profiles, f"runnel://{name}:1")
        return (cbc,)

    def ask(self, broker: str, timeout_s: float = 5.0) -> CrocClient:
        """CROC asks, and has time until all have answered or it is too late."""
        asking = self.begin_to_ask(broker, timeout_s)
        self.run(timeout_s + 1)
        return asking

    def begin_to_ask(self, broker: str, timeout_s: float = 5.0) -> CrocClient:
        """CROC asks; nothing has come of it yet."""
        self._asked += 1
        asking = CrocClient(timeout_s, token=self._asked)
        host = self.world.host(f"croc{self._asked}")
        self.world.start(host, asking)
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


__all__ = ["MILLISECOND", "ON", "SECOND", "ProfilesWorld"]
