"""Switches in a run: the generations of the network, their processes, and the coordinator.

A broker of a later generation runs on a host of its own, `B1#2`, and dies with its process, as `B1` does. A process
that starts anew has the generation that it had settled for; the coordinator opens the other one again. The
coordinator may be lost too; another one then continues the switch or takes it back. A broker crashes in a phase that
the seed draws.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from runnel.broker.broker import Broker
from runnel.broker.events import Disconnected, StopAsked
from runnel.client.session import Session
from runnel.modules.generations.module import GENERATIONS, GenerationReport, Generations
from runnel.modules.generations.questions import OpenGeneration, SetGoal
from runnel.operate.switch import Intent, Phase, Place, Reports, Switch, SwitchOrder
from runnel.quantities import MILLISECOND
from runnel.sim.campaign import RESUME_TIMEOUT_NS, Replan
from runnel.sim.checkers import Checker, Violation
from runnel.sim.faults import Faults
from runnel.sim.model import Tree, generation_of, host_name, process_of
from runnel.sim.world import Host, World
from runnel.wire import Stage

FORWARD = (Phase.OPENING, Phase.JOINING, Phase.CROSSING, Phase.LEAVING, Phase.CLOSING)

Starter = Callable[[Host, "SimulatedProcess", OpenGeneration], None]
"""Starts a broker: where, for which process, and its place in the network, by the names of hosts."""


class SimulatedProcess:
    """A process: it hosts the brokers of one or two generations, each on a host of the world."""

    def __init__(
        self, name: str, place: OpenGeneration, world: World, checker: Checker, start: Starter
    ) -> None:
        self.name = name
        self.settled = 1  # the generation that it starts with
        self.receives_in = 1
        self.orders = {place.generation: place}
        self._world = world
        self._checker = checker
        self._start_broker = start

    def start(self, generation: int) -> None:
        """Start the broker of a generation, if it does not run."""
        order = self.orders[generation]
        host = self._world.host(host_name(self.name, generation))
        if host.machine is None:
            self._checker.excuse(host.name)
            dials = {host_name(peer, generation): "" for peer in order.dials}
            accepts = tuple(host_name(peer, generation) for peer in order.accepts)
            place = msgspec.structs.replace(order, dials=dials, accepts=accepts)
            self._start_broker(host, self, place)

    def open(self, order: OpenGeneration) -> None:
        """Begin a generation."""
        self.orders[order.generation] = order
        self.start(order.generation)

    def close(self, generation: int) -> None:
        """End one of two generations."""
        host = self._world.hosts[host_name(self.name, generation)]
        if isinstance(host.machine, Broker):
            if self.settled == generation:
                self.settled = max(self.orders)
            self._checker.excuse(host.name)
            self._world.perform(host, host.machine.handle(StopAsked(), self._world.now))
        self.orders.pop(generation, None)

    def receive_in(self, generation: int) -> None:
        """New clients get the broker of this generation."""
        self.receives_in = generation


class SimulatedSwitches:
    """The generations of a run; see the top of the file."""

    def __init__(
        self,
        world: World,
        checker: Checker,
        dials: dict[str, list[str]],
        sessions: dict[str, Session],
        start: Starter,
    ) -> None:
        self.faults: Faults
        self.processes = {
            name: SimulatedProcess(name, _first_place(name, dials), world, checker, start)
            for name in dials
        }
        self.on_stranded: Callable[[str], None] = lambda client: None
        self.on_step: Callable[[Random], None] = lambda random: None  # the switch gets on
        self._world = world
        self._checker = checker
        self._sessions = sessions
        self._last = 1
        self._switch: Switch | None = None
        self._random = Random(0)
        self._crash_at: tuple[Phase, str] | None = None
        self._back_at: Phase | None = None
        self._lost_at: Phase | None = None
        self._every_ns = 0
        self._told = 0  # the version of the last goal

    @property
    def why_unsettled(self) -> str:
        """Why the world is not at rest; empty if no switch is under way."""
        if self._switch is None:
            return ""
        return f"the switch is {self._switch.phase.value}: {self._switch.waits_for[:3]}"

    @property
    def names(self) -> list[str]:
        """The hosts of the brokers that accept new clients."""
        processes = [one for one in self.processes.values() if one.name not in self._checker.gone]
        return [host_name(one.name, one.receives_in) for one in processes]

    # -- a switch -------------------------------------------------------------------------------------

    def begin(self, replan: Replan) -> None:
        """Begin a switch to another network, unless one is under way."""
        if self._switch is not None:
            return
        random = self._random = Random(replan.pick)
        all_brokers = list(self.processes)
        allocated = random.sample(all_brokers, random.randint(1, len(all_brokers)))
        old, self._last = self._checker.generation, self._last + 1
        new = self._last
        dials: dict[str, tuple[str, ...]] = {allocated[0]: ()}
        for number, broker in enumerate(allocated[1:], 1):
            dials[broker] = (random.choice(allocated[:number]),)
        self._checker.trees[new] = Tree(
            [(host_name(a, new), host_name(b, new)) for a, bs in dials.items() for b in bs],
            [host_name(broker, new) for broker in allocated],
        )
        homes = {client: random.choice(allocated) for client in self._sessions}
        addresses = {broker: broker for broker in all_brokers}
        intent = Intent(old, new, addresses, dials, homes, random.choice(allocated))
        self._switch, self._told = Switch(intent, random.choice((1, 2, 10))), 0
        self._every_ns = random.choice((20, 80, 250)) * MILLISECOND
        victim, phase = random.choice(all_brokers), random.choice(FORWARD)
        self._crash_at = (phase, victim) if random.random() < 0.6 else None
        self._back_at = random.choice(FORWARD) if random.random() < 0.4 else None
        self._lost_at = random.choice(FORWARD) if random.random() < 0.3 else None
        self._checker.seen["switches"] += 1
        self._poll()

    def _poll(self) -> None:
        """Ask all brokers for reports, and send them the next orders."""
        switch = self._switch
        if switch is None:
            return
        before = switch.phase
        reports = {place: self._report(place) for place in switch.places}
        self._check_newcomers(switch.intent.new, reports)
        orders = switch.next_orders(reports)
        for order in orders:
            delay = self._random.randrange(20 * MILLISECOND)
            self._world.at(self._world.now + delay, self._carry_out, order)
        goals = [order.command for order in orders if isinstance(order.command, SetGoal)]
        if any(goal.version > self._told for goal in goals):
            self._told = goals[0].version
            for after in (0, 20, 60):
                random = Random(self._random.getrandbits(48))
                self._world.at(self._world.now + after * MILLISECOND, self.on_step, random)
        if switch.phase is Phase.DONE:
            self._finish(switch)
            return
        if switch.phase is not before or before is Phase.OPENING:
            self._strike(switch)
        self._world.at(self._world.now + self._every_ns, self._poll)

    def _check_newcomers(self, new: int, reports: Reports) -> None:
        """Where all clients leave the old generation, newcomers belong to the new one.

        No delivery shows it: the old generation sends them on, but they keep it from ending.
        """
        for place, report in reports.items():
            if report is None or place.generation != new:
                continue
            process, is_there = self.processes[place.broker], report.about == new
            if is_there and report.stage == Stage.NEW and process.receives_in != new:
                raise Violation(
                    f"newcomers at {place.broker} get generation {process.receives_in}, which ends"
                )

    def _strike(self, switch: Switch) -> None:
        """Begin what the seed has drawn for this phase: a crash, a turn back, the loss of the coordinator."""
        soon = self._world.now + self._random.randrange(200 * MILLISECOND)
        if self._crash_at is not None and self._crash_at[0] is switch.phase:
            length = self._random.choice((1, RESUME_TIMEOUT_NS // 4, 2 * RESUME_TIMEOUT_NS))
            self._world.at(soon, self.faults.crash, self._crash_at[1], length)
            self._crash_at = None
            self._checker.seen["crashes in switches"] += 1
            self._checker.seen[f"crashes while {switch.phase.value}"] += 1
        if self._back_at is switch.phase:
            self._world.at(soon, self._turn_back, switch)
            self._back_at = None
        if self._lost_at is switch.phase:
            self._switch = Switch(switch.intent, switch.wave)
            self._lost_at = None
            self._checker.seen["coordinators lost"] += 1
            if self._random.random() < 0.4:
                self._world.at(soon, self._turn_back, self._switch)

    def _turn_back(self, switch: Switch) -> None:
        switch.turn_back()

    def _finish(self, switch: Switch) -> None:
        self._switch = None
        new, old = switch.intent.new, switch.intent.old
        is_there = all(process.settled == new for process in self.processes.values())
        self._checker.seen["switched" if is_there else "switched back"] += 1
        for process in self.processes.values():
            process.receives_in = process.settled
        if is_there:
            self._checker.generation = new
        gone = old if is_there else new
        for client, session in list(self._sessions.items()):
            home = session.home
            if home is not None and generation_of(home.broker) == gone:
                self.on_stranded(client)

    # -- brokers --------------------------------------------------------------------------------------

    def _broker(self, place: Place) -> tuple[Host, Broker] | None:
        host = self._world.hosts.get(host_name(place.broker, place.generation))
        if host is None or not isinstance(host.machine, Broker):
            return None
        return host, host.machine

    def _report(self, place: Place) -> GenerationReport | None:
        found = self._broker(place)
        if found is None:
            return None
        report = generations_of(found[1]).report(found[1])
        return msgspec.structs.replace(report, links=[process_of(name) for name in report.links])

    def _carry_out(self, order: SwitchOrder) -> None:
        found = self._broker(order.to)
        if found is None:
            return  # the broker has crashed meanwhile
        (host, broker), now = found, self._world.now
        answer = generations_of(broker).answers()[type(order.command)]
        answer(broker, order.command, now)
        self._world.perform(host, broker.handle(Disconnected(0), now))  # what it has to send

    def restart(self, process: str) -> None:
        """A process that crashed starts anew."""
        one = self.processes[process]
        one.orders = {one.settled: one.orders[one.settled]}
        one.receives_in = one.settled
        one.start(one.settled)


def generations_of(broker: Broker) -> Generations:
    """The module that takes part in switches."""
    module = broker.modules[GENERATIONS.name]
    assert isinstance(module, Generations)
    return module


def _first_place(broker: str, dials: dict[str, list[str]]) -> OpenGeneration:
    """The place of a broker in the first generation, by who dials whom."""
    accepts = tuple(one for one, dialled in dials.items() if broker in dialled)
    return OpenGeneration(1, dict.fromkeys(dials[broker], ""), accepts=accepts)
