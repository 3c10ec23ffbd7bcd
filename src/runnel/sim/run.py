"""Carries out a plan: rounds of churn under faults, then healing, rest and convergence; at the end all clients leave.

    start ─▶ rest ─▶ ( churn and faults ─▶ heal ─▶ rest ─▶ all ready, all publish ─▶ rest )ⁿ ─▶ all leave ─▶ rest

During faults the checkers verify safety, and in some runs what must hold for a broker between any two calls. At rest
they also verify that every publication that must be delivered has been, that routing is what the model computes from
scratch, and at the end that nothing is left over.
"""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from runnel.broker.broker import Broker
from runnel.broker.invariants import check_broker
from runnel.broker.module import Surroundings
from runnel.compose import make_broker, strategy_kind
from runnel.modules.generations.questions import OpenGeneration
from runnel.quantities import MILLISECOND, SECOND
from runnel.sim.campaign import HEARTBEAT_NS, RESUME_TIMEOUT_NS, SimulationPlan, SimulationRound
from runnel.sim.checkers import Checker, Violation, check_memory
from runnel.sim.clients import Clients
from runnel.sim.faults import Faults
from runnel.sim.probes import Probes
from runnel.sim.rest import check_empty, check_routing, why_unsettled
from runnel.sim.switching import SimulatedProcess, SimulatedSwitches
from runnel.sim.world import Host, World

REST_TIMEOUT_NS = 60 * SECOND
RESTLESS_MAX = 20  # times the timeout: progress for longer than this is taken for an endless loop
CHECKED_AFTER_EVERY_EVENT = 0.05  # of all runs, since these take half as long again
STEP_NS = 50 * MILLISECOND


@dataclass(slots=True)
class SimulationOutcome:
    """What came of a run."""

    seed: int
    violation: str = ""
    error: str = ""  # the type of the exception that ended the run
    about: tuple[object, ...] = ()
    log_hash: str = ""
    fired: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    checked: int = 0
    handlings: int = 0
    events: int = 0
    virtual_ns: int = 0


class SimulationRun:
    """One plan in one world."""

    def __init__(self, plan: SimulationPlan, *, tell_stories: bool = False) -> None:
        self.plan = plan
        self.checker = Checker(plan.tree, RESUME_TIMEOUT_NS)
        self.world = World(plan.seed, self.checker)
        self.checker.world = self.world
        chance = Random(f"{plan.seed}/invariants").random()
        self.checker.checks_every_event = chance < CHECKED_AFTER_EVERY_EVENT
        self.faults = Faults(self.world, self.checker, lambda name: self.switching.restart(name))
        self.clients = Clients(self.world, self.checker, plan, self.faults)
        self._tell_stories = tell_stories
        self._incarnations = 1 << 20
        self._at_rest = strategy_kind(plan.settings.strategy).at_rest(plan.settings.routing)
        self._random = Random(plan.seed)
        dials: dict[str, list[str]] = {broker: [] for broker in plan.brokers}
        for one, other in plan.edges:
            dials[one].append(other)
        self.switching = SimulatedSwitches(
            self.world, self.checker, dials, self.clients.sessions, self._start_broker
        )
        self.switching.faults = self.faults
        self.switching.on_stranded = self.clients.reconnect_stranded
        self.switching.on_step = self.clients.burst
        self.clients.brokers = lambda: self.switching.names
        self.faults.on_gone = lambda: self.world.at(
            self.world.now + RESUME_TIMEOUT_NS // 2, self.clients.leave_gone_brokers
        )
        self.checker.on_exit = self.world.retire

    def go(self) -> SimulationOutcome:
        """Carry the plan out; violations and exceptions are put into the outcome instead of being raised."""
        outcome = SimulationOutcome(self.plan.seed)
        try:
            self._go()
        except Violation as violation:
            outcome.violation, outcome.about = str(violation), violation.about
            outcome.error = type(violation).__name__
        except Exception as bug:  # a bug was found; other seeds can still run
            where = traceback.extract_tb(bug.__traceback__)[-1]
            outcome.error = type(bug).__name__
            outcome.violation = f"{outcome.error} in {where.name}, line {where.lineno}: {bug}"
        self._report(outcome)
        return outcome

    def _go(self) -> None:
        network, settings = self.world.network, self.plan.settings
        network.latency_ns_max = settings.latency_ns_max
        network.bytes_per_second = settings.bytes_per_second
        if settings.lopsided:
            network.latency_of = self._one_way
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

    def _one_way(self, one: str, other: str) -> int:
        """The latency from one host to another, drawn for each direction by itself."""
        chance = Random(f"{self.plan.seed} {one} {other}")
        return chance.randrange(MILLISECOND // 10, self.plan.settings.latency_ns_max)

    def _start_broker(self, host: Host, process: SimulatedProcess, place: OpenGeneration) -> None:
        self._incarnations += 1
        settings = self.plan.settings
        host.resources = settings.resources
        around = Surroundings(
            host.name,
            place.generation,
            chance=Random(f"{self.plan.seed} {host.name} {self._incarnations}").random,
            services={"hosting": process, "place": place},
        )
        broker = make_broker(
            settings.broker(
                host.name,
                tuple(place.dials),
                place.accepts,
                place.generation,
                tell_stories=self._tell_stories,
            ),
            self._incarnations,
            around,
            matcher=self.world.matcher,
            gauges=host.gauges,
            added=[Probes(3 * HEARTBEAT_NS // 2)],
        )
        self.world.start(host, broker)

    def _churn(self, round: SimulationRound) -> None:
        begin = self.world.now
        for operation in round.operations:
            self.world.at(begin + operation.at, self.clients.do, operation)
        for fault in round.faults:
            self.world.at(begin + fault.at, self.faults.begin, fault)
        if round.switch is not None:
            self.world.at(begin + round.switch.at, self.switching.begin, round.switch)
        last = max((fault.at + fault.length_ns for fault in round.faults), default=0)
        self.world.run(begin + max(round.length_ns, last) + 1)

    def _rest(self) -> None:
        """Wait until nothing is under way, then check what must hold.

        A slow link with much to carry may take long, but there must be progress: the smallest amount that was ever
        left to carry must become smaller within the timeout. Each step of a switch brings new traffic, so the measure
        starts anew with it.
        """
        deadline, least, step = (
            self.world.now + REST_TIMEOUT_NS,
            1 << 62,
            self.switching.why_unsettled,
        )
        last = self.world.now + RESTLESS_MAX * REST_TIMEOUT_NS
        sessions = self.clients.sessions
        while why := (
            self.switching.why_unsettled
            or self.clients.migrants.why_unsettled
            or why_unsettled(self.world, self.checker.tree, sessions)
        ):
            links = [link for broker in self.world.brokers for link in broker.links.values()]
            links += [session.home.link for session in sessions.values() if session.home]
            left = sum(link.waiting_bytes + link.flying_bytes for link in links)
            if step != self.switching.why_unsettled:
                step, least = self.switching.why_unsettled, 1 << 62
            if left < least:
                deadline, least = self.world.now + REST_TIMEOUT_NS, left
            if self.world.now > min(deadline, last):
                raise Violation(f"does not come to rest: {why}")
            self.world.run(self.world.now + STEP_NS)
            self._check_brokers()
        self.checker.at_rest(sessions)
        check_routing(self.world, self.checker, self._at_rest, sessions, self._random)

    def _check_brokers(self) -> None:
        for host in self.world.hosts.values():
            if isinstance(host.machine, Broker):
                check_broker(host.machine)
                check_memory(host, host.machine)

    def _converge(self) -> None:
        """All clients ask for readiness; then all publish, and all of that must arrive."""
        self.clients.ask_ready_all()
        self._rest()
        self.clients.publish_all(self._random)
        self._rest()

    def _report(self, outcome: SimulationOutcome) -> None:
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
        """What all brokers have noted about some ids, in the order in which it happened."""
        lines = [
            line
            for broker in self.world.brokers
            if broker.story is not None
            for id in about
            for line in broker.story.of(id)
        ]
        lines.sort(key=lambda line: line.at)
        return [str(line) for line in lines]


def simulate(plan: SimulationPlan, *, tell_stories: bool = False) -> SimulationOutcome:
    """Run a plan."""
    return SimulationRun(plan, tell_stories=tell_stories).go()
