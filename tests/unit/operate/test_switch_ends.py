"""The coordinator against a small model of processes and clients that obey when they like and crash when they like.

Whatever happens, and whoever coordinates: nobody is told to leave before all there have crossed, no generation ends
that has clients, and when the crashes are over it ends, with one generation everywhere and everybody in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from runnel.modules.generations.module import ClientReport, GenerationReport
from runnel.modules.generations.questions import CloseGeneration, OpenGeneration, SetGoal
from runnel.operate.switch import Intent, Phase, Place, Reports, Switch, SwitchOrder
from runnel.wire import Stage
from support.effort import examples

OLD, BOTH, AHEAD, NEW = Stage
BROKERS = ("A", "B", "C", "D")
INTENT = Intent(
    1, 2, {b: b for b in BROKERS}, {"A": (), "B": ("A",), "C": ("B",)}, {"c0": "B", "c1": "C"}, "A"
)
CHAOS, PATIENCE = 60, 400  # steps


@dataclass
class ModelProcess:
    """A process: the orders of each generation that it hosts."""

    settled: int = 1
    cores: dict[int, SetGoal | None] = field(default_factory=lambda: {1: None})
    down_for: int = 0

    def crash(self, steps: int) -> None:
        self.cores, self.down_for = {self.settled: None}, steps

    def obey(self, generation: int, command: object) -> None:
        if self.down_for or generation not in self.cores:
            return
        match command:
            case OpenGeneration():
                self.cores.setdefault(command.generation, None)
            case SetGoal():
                known = self.cores[generation]
                if known is None or command.version >= known.version:
                    self.cores[generation] = command
            case CloseGeneration() if len(self.cores) > 1:
                self.cores.pop(command.generation, None)
                (self.settled,) = self.cores


@dataclass
class ModelClient:
    """A client: how far it is, where it lives, and the last goal that it heard of."""

    name: str
    publishes: bool
    at: dict[int, str]  # generation → broker
    stage: Stage = OLD
    heard: tuple[int, Stage] = (0, OLD)  # version and stage
    here: set[int] = field(default_factory=set)  # the generations that it is connected to

    @property
    def reached(self) -> int:
        """The version that it is through with; 0 while it is under way."""
        version, stage = self.heard
        return version if self.stage == stage else 0

    def live_in(self, generation: int, broker: str) -> None:
        """Only there, and connected."""
        self.at, self.here = {generation: broker}, {generation}
        self.stage, self.heard = (NEW if generation == 2 else OLD), (0, OLD)


class SwitchModel:
    """The processes, the clients and whoever coordinates."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.processes = {broker: ModelProcess() for broker in BROKERS}
        self.clients = [
            ModelClient(f"c{n}", random.random() < 0.6, {1: random.choice(BROKERS)})
            for n in range(random.randint(0, 6))
        ]
        self.switch = Switch(INTENT, random.choice((1, 2, 10)))
        self.is_calm = True  # nothing went wrong so far

    # -- what the coordinator sees and says -----------------------------------------------------------

    def report(self, place: Place) -> GenerationReport | None:
        process = self.processes[place.broker]
        if process.down_for or place.generation not in process.cores:
            return None
        goal = process.cores[place.generation]
        clients = {}
        for client in self.clients:
            if client.at.get(place.generation) == place.broker and place.generation in client.here:
                clients[client.name] = self.client_report(client, goal)
        links = [b for b in INTENT.dials.get(place.broker, ()) if 2 in self.processes[b].cores]
        known = (2, goal.version, goal.stage) if goal is not None else (0, 0, OLD)
        return GenerationReport(
            place.broker, place.broker, place.generation, *known, links, clients
        )

    @staticmethod
    def client_report(client: ModelClient, goal: SetGoal | None) -> ClientReport:
        if goal is None:
            return ClientReport(True, client.publishes, OLD, False)
        told = goal.stages.get(client.name, goal.stage)
        is_settled = client.stage == told and client.reached >= goal.version
        return ClientReport(True, client.publishes, client.stage, is_settled)

    def poll(self) -> None:
        reports = {place: self.report(place) for place in self.switch.places}
        for order in self.switch.next_orders(reports):
            self.check(order, reports)
            if self.random.random() < 0.9:  # else it does not arrive
                self.processes[order.to.broker].obey(order.to.generation, order.command)

    def check(self, order: SwitchOrder, reports: Reports) -> None:
        seen = [(place, report) for place, report in reports.items() if report is not None]
        match order.command:
            case SetGoal(stage=stage) if stage == NEW:
                if all(report.stage < NEW for _, report in seen):
                    stages = [
                        client.stage
                        for place, report in seen
                        for client in report.clients.values()
                        if place.generation == 1
                    ]
                    assert all(stage >= AHEAD for stage in stages), "nobody leaves before all cross"
            case SetGoal(stages=stages) if self.is_calm:
                crossing = [c for c in self.clients if c.name in stages and c.stage < AHEAD]
                assert len(crossing) <= self.switch.wave
            case CloseGeneration(generation=generation):
                there = [r.clients for place, r in seen if place.generation == generation]
                assert not any(there), "nobody is there any more"

    # -- what happens ---------------------------------------------------------------------------------

    def step(self) -> None:
        """Clients act, or not; the coordinator asks, or not."""
        for process in self.processes.values():
            process.down_for = max(0, process.down_for - 1)
        for client in self.clients:
            if self.random.random() < 0.5:
                self.act(client)
        if self.random.random() < 0.6:
            self.poll()

    def act(self, client: ModelClient) -> None:
        for generation, broker in list(client.at.items()):
            process = self.processes[broker]
            if generation in process.cores and not process.down_for:
                client.here.add(generation)
            elif not process.down_for:  # another generation answers
                client.live_in(next(iter(process.cores)), broker)
                return
        for generation in client.here:
            goal = self.processes[client.at[generation]].cores[generation]
            if goal is not None and goal.version > client.heard[0]:
                client.heard = goal.version, goal.stages.get(client.name, goal.stage)
        self.go(client)

    def go(self, client: ModelClient) -> None:
        """One step towards the goal."""
        version, stage = client.heard
        if client.stage == stage == OLD:
            client.at.pop(2, None)
            client.here.discard(2)
        if client.stage == stage or client.stage == NEW or not version:
            return
        if client.here != set(client.at):
            return  # it waits for whoever is away
        client.stage = Stage(client.stage + (1 if client.stage < stage else -1))
        if client.stage >= BOTH and 2 not in client.at:
            client.at[2] = INTENT.homes.get(client.name, INTENT.default)
            client.stage = OLD  # until it is connected there
            if self.is_up(client.at[2], 2):
                client.here.add(2)
                client.stage = BOTH
        elif client.stage == OLD:
            client.at.pop(2)
            client.here.discard(2)
        elif client.stage == NEW:
            client.at.pop(1)
            client.here.discard(1)

    def is_up(self, broker: str, generation: int) -> bool:
        process = self.processes[broker]
        return not process.down_for and generation in process.cores

    def strike(self) -> None:
        """Now and then a process crashes, the coordinator is lost, or it is told to turn back."""
        chance = self.random.random()
        if chance < 0.08:
            self.is_calm = False
            broker = self.random.choice(BROKERS)
            self.processes[broker].crash(self.random.choice((0, 1, 5)))
            for client in self.clients:
                client.here -= {g for g, at in client.at.items() if at == broker}
        elif chance < 0.11:
            self.is_calm = False
            self.switch = Switch(INTENT, self.random.choice((1, 2, 10)))
        elif chance < 0.13:
            self.switch.turn_back()


@examples(300)
@given(st.integers(0, 1 << 32))
def test_it_always_ends_and_never_too_early(seed: int) -> None:
    world = SwitchModel(Random(seed))
    for _ in range(CHAOS):
        world.strike()
        world.step()
        if world.switch.phase is Phase.DONE:
            break
    for _ in range(PATIENCE):
        if world.switch.phase is Phase.DONE:
            break
        world.step()
    assert world.switch.phase is Phase.DONE, world.switch.waits_for
    (generation,) = {g for process in world.processes.values() for g in process.cores}
    for _ in range(20):
        for client in world.clients:
            world.act(client)
    assert {g for client in world.clients for g in client.at} <= {generation}
