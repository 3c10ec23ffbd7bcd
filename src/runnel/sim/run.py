"""Carrying out a plan: rounds of churn under faults, then healing, rest and convergence; at last all leave.

    start ─▶ rest ─▶ ( churn and faults ─▶ heal ─▶ rest ─▶ all ready, all publish ─▶ rest )ⁿ ─▶ all leave ─▶ rest

While faults strike, the checkers see to safety; at rest they demand that what was owed has come, that routing is
what the model computes from scratch, and in the end that nothing is left over.
"""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from runnel.broker.broker import Broker
from runnel.broker.invariants import check_broker
from runnel.broker.module import Context, Module
from runnel.generations.module import Generations
from runnel.placement.grape_module import Grape
from runnel.placement.migration import Migration
from runnel.placement.pop_module import Pop
from runnel.routing.tree import TreeRouting
from runnel.sim.campaign import HEARTBEAT_NS, RESUME_TIMEOUT_NS, Plan, Round
from runnel.sim.checkers import Checker, Violation, check_memory
from runnel.sim.clients import Clients
from runnel.sim.faults import Faults
from runnel.sim.model import generation_of
from runnel.sim.probes import Probes
from runnel.sim.rest import check_empty, check_routing, unrest
from runnel.sim.switching import Process, Switching
from runnel.sim.world import Host, World

REST_TIMEOUT_NS = 60_000_000_000
RESTLESS_MAX = 20  # times the timeout: what gets on for longer goes round in circles
STEP_NS = 50_000_000


@dataclass(slots=True)
class Outcome:
    """What came of a run."""

    seed: int
    violation: str = ""
    about: tuple[object, ...] = ()
    log_hash: str = ""
    fired: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    checked: int = 0
    handlings: int = 0
    events: int = 0
    virtual_ns: int = 0


class Run:
    """One plan in one world."""

    def __init__(self, plan: Plan, *, tell_stories: bool = False) -> None:
        self.plan = plan
        self.checker = Checker(plan.tree, RESUME_TIMEOUT_NS)
        self.world = World(plan.seed, self.checker)
        self.checker.world = self.world
        self.faults = Faults(self.world, self.checker, lambda name: self.switching.restart(name))
        self.clients = Clients(self.world, self.checker, plan, self.faults)
        self._tell_stories = tell_stories
        self._incarnations = 1 << 20
        self._random = Random(plan.seed)
        dials: dict[str, list[str]] = {broker: [] for broker in plan.brokers}
        for one, other in plan.edges:
            dials[one].append(other)
        self.switching = Switching(
            self.world, self.checker, dials, self.clients.sessions, self._start_broker
        )
        self.switching.faults = self.faults
        self.switching.on_stranded = self.clients.stranded
        self.switching.on_step = self.clients.burst
        self.clients.brokers = lambda: self.switching.names
        self.checker.on_exit = self.world.retire

    def go(self) -> Outcome:
        """Carry the plan out; what is found does not escape, it is in the outcome."""
        outcome = Outcome(self.plan.seed)
        try:
            self._go()
        except Violation as violation:
            outcome.violation, outcome.about = str(violation), violation.about
        except Exception as bug:  # whatever it is, it is found, and other seeds go on
            where = traceback.extract_tb(bug.__traceback__)[-1]
            outcome.violation = f"{type(bug).__name__} in {where.name}, line {where.lineno}: {bug}"
        self._report(outcome)
        return outcome

    def _go(self) -> None:
        network, settings = self.world.network, self.plan.settings
        network.latency_ns_max = settings.latency_ns_max
        network.bytes_per_second = settings.bytes_per_second
        for process in self.switching.processes.values():
            process.start(1)
        self._rest()
        for round in self.plan.rounds:
            self._churn(round)
            self._rest()
            self._converge()
        self.clients.close_all()
        self._rest()
        check_empty(self.world, self.checker.tree)

    def _start_broker(
        self, host: Host, process: Process, dials: tuple[str, ...], standby: str
    ) -> None:
        self._incarnations += 1
        settings = self.plan.settings
        host.resources = settings.resources
        generation = generation_of(host.name)
        config = settings.broker(host.name, dials, generation, tell_stories=self._tell_stories)
        module = Generations(generation, process, process.name, standby)
        self.switching.modules[host.name] = module
        broker = Broker(
            config,
            self._incarnations,
            self.world.matcher,
            lambda tables: TreeRouting(settings.tree, tables),
            [Probes(3 * HEARTBEAT_NS // 2), module, *self._placement(host)],
        )
        self.world.start(host, broker)

    def _placement(self, host: Host) -> tuple[Module, ...]:
        """What moves publishers; where it is off nobody traces anything, as in a network without it."""
        migration, config = Migration(), self.plan.settings.placement

        def migrate(context: Context, id: int, to: str, address: str, now: int) -> bool:
            self.checker.seen["relocations"] += 1
            return migration.relocate(context, id, to, address)

        if config.algorithm == "off":
            return (migration,)
        chance = Random(f"{self.plan.seed} {host.name} {self._incarnations}").random
        return migration, Pop(config, migrate, "", chance), Grape(config, migrate)

    def _churn(self, round: Round) -> None:
        begin = self.world.now
        for operation in round.operations:
            self.world.at(begin + operation.at, self.clients.do, operation)
        for fault in round.faults:
            self.world.at(begin + fault.at, self.faults.strike, fault)
        if round.switch is not None:
            self.world.at(begin + round.switch.at, self.switching.begin, round.switch)
        last = max((fault.at + fault.length_ns for fault in round.faults), default=0)
        self.world.run(begin + max(round.length_ns, last) + 1)

    def _rest(self) -> None:
        """Wait until nothing is under way, then check what must hold.

        A narrow link with much to carry takes its time. But it must get on: the least that was ever left to carry must
        become less within the timeout. A switch brings new traffic with every step, so it begins anew with each.
        """
        deadline, least, step = self.world.now + REST_TIMEOUT_NS, 1 << 62, self.switching.unrest
        last = self.world.now + RESTLESS_MAX * REST_TIMEOUT_NS
        sessions = self.clients.sessions
        while why := (
            self.switching.unrest
            or self.clients.migrants.unrest
            or unrest(self.world, self.checker.tree, sessions)
        ):
            links = [link for broker in self.world.brokers for link in broker.links.values()]
            links += [session.home.link for session in sessions.values() if session.home]
            left = sum(link.waiting_bytes + link.flying_bytes for link in links)
            if step != self.switching.unrest:
                step, least = self.switching.unrest, 1 << 62
            if left < least:
                deadline, least = self.world.now + REST_TIMEOUT_NS, left
            if self.world.now > min(deadline, last):
                raise Violation(f"does not come to rest: {why}")
            self.world.run(self.world.now + STEP_NS)
            self._check_brokers()
        self.checker.at_rest(sessions)
        check_routing(self.world, self.checker, sessions, self._random)

    def _check_brokers(self) -> None:
        for host in self.world.hosts.values():
            if isinstance(host.machine, Broker):
                check_broker(host.machine)
                check_memory(host, host.machine)

    def _converge(self) -> None:
        """Everybody asks for readiness; when all are ready, all publish; all of it must arrive."""
        self.clients.ask_ready_all()
        self._rest()
        self.clients.publish_all(self._random)
        self._rest()

    def _report(self, outcome: Outcome) -> None:
        outcome.log_hash = self.world.log_hash
        outcome.fired = self.faults.fired
        outcome.seen = self.checker.seen
        outcome.checked = self.checker.checked
        outcome.events = self.world.events
        outcome.virtual_ns = self.world.now
        outcome.handlings = self.world.handlings + sum(
            broker.meter.publications_in + broker.meter.control_in for broker in self.world.brokers
        )

    def story(self, about: tuple[object, ...]) -> list[str]:
        """What all brokers know about some ids, in the order it happened."""
        lines = [
            line
            for broker in self.world.brokers
            if broker.story is not None
            for id in about
            for line in broker.story.of(id)
        ]
        lines.sort(key=lambda line: line.at)
        return [str(line) for line in lines]


def simulate(plan: Plan, *, tell_stories: bool = False) -> Outcome:
    """Run a plan."""
    return Run(plan, tell_stories=tell_stories).go()
