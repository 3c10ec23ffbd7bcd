"""Carries out a plan on a running network: the I/O of the coordinator; operate/switch.py decides what to do.

Over connections that stay open it asks all brokers repeatedly how far they and their clients are, and sends the next
orders. No state is kept here: if this process dies, both generations keep running side by side, and another `apply` of
the same plan continues, or `rollback` takes it back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from runnel.broker.questions import Question
from runnel.errors import InputError, NetworkError
from runnel.modules.generations.module import GenerationReport
from runnel.modules.generations.questions import Generation
from runnel.net.addresses import parse_address
from runnel.operate.ask import Asker, AskError
from runnel.operate.switch import Intent, Phase, Place, Switch
from runnel.planning.documents.plan import Plan

POLL_S = 0.1
PATIENCE_S = 30.0
"""How long a phase may make no progress before everything is taken back."""

BACK = (Phase.RETURNING, Phase.PARTING, Phase.CLEARING)
NO_RETURN = (Phase.LEAVING, Phase.CLOSING)


class Askers:
    """Open connections to the brokers of both generations, one to each."""

    def __init__(self, addresses: dict[str, str], timeout_s: float = 5.0) -> None:
        self._addresses = {name: parse_address(text) for name, text in addresses.items()}
        self._timeout_s = timeout_s
        self._open: dict[Place, Asker] = {}

    def ask(self, place: Place, question: Question) -> dict[str, object] | None:
        """Ask a broker; None if it does not answer, or if the process has no broker of that generation."""
        asker = self._open.get(place)
        try:
            if asker is None:
                asker = Asker(self._addresses[place.broker], self._timeout_s, place.generation)
                if asker.generation != place.generation:
                    asker.close()
                    return None
                if asker.broker != place.broker:
                    asker.close()
                    raise InputError(
                        f"{self._addresses[place.broker]} is {asker.broker}, not {place.broker}: "
                        "the plan is of another network"
                    )
                self._open[place] = asker
            return asker.ask(question)
        except AskError:
            self._open.pop(place, None)
            if asker is not None:
                asker.close()
            return None

    def report(self, place: Place) -> GenerationReport | None:
        """The report of the broker of a generation."""
        answer = self.ask(place, Generation())
        return None if answer is None else msgspec.convert(answer, GenerationReport)

    def close(self) -> None:
        """Close all connections."""
        for asker in self._open.values():
            asker.close()
        self._open.clear()


@dataclass(slots=True)
class RunningGenerations:
    """The generations that a network has, and reports of its brokers."""

    # Of the generation that new connections get.
    reports: dict[str, GenerationReport] = field(default_factory=dict)
    generations: set[int] = field(default_factory=set)  # all that exist

    @property
    def current(self) -> int:
        """The present generation of the network."""
        return max(report.generation for report in self.reports.values())


def look(addresses: dict[str, str]) -> RunningGenerations:
    """Ask all brokers of a plan which generations there are; all must answer."""
    state = RunningGenerations()
    askers = Askers(addresses)
    try:
        for broker, text in addresses.items():
            try:
                with Asker(parse_address(text)) as asker:
                    report = msgspec.convert(asker.ask(Generation()), GenerationReport)
            except AskError as error:
                raise NetworkError(f"{error}\nNothing was changed.") from None
            if report.broker != broker:
                raise InputError(
                    f"at {text} there is {report.broker}, not {broker}: the plan is of another network"
                )
            state.reports[broker] = report
            state.generations.add(report.generation)
            if report.about and report.about != report.generation:
                other = askers.report(Place(broker, report.about))
                state.generations |= {report.about} if other is not None else set()
        # A generation that was just opened may not be known to the present one's brokers yet.
        ahead = max(state.generations) + 1
        if any(askers.report(Place(broker, ahead)) for broker in addresses):
            state.generations.add(ahead)
    finally:
        askers.close()
    return state


def make_intent(plan: Plan, old: int, new: int) -> Intent:
    """Make the intent of a switch from a plan."""
    if not plan.addresses:
        raise InputError(
            "the plan does not say where brokers are: it was not made from a running network"
        )
    homes = dict(plan.publishers)  # a publisher that has left its client has a session of that name
    for key, owner in plan.owners.items():
        homes.setdefault(owner.client, plan.publishers[key])
    homes |= plan.subscriptions
    root = next(broker for broker, parent in plan.overlay.items() if parent is None)
    dials = {broker: (parent,) if parent else () for broker, parent in plan.overlay.items()}
    addresses = {broker: str(parse_address(text)) for broker, text in plan.addresses.items()}
    return Intent(old, new, addresses, dials, homes, root)


def present_plan(state: RunningGenerations, plan: Plan) -> Plan:
    """Describe the present network as a plan, for a later rollback."""
    parents: dict[str, str | None] = {}
    allocated = [name for name, report in state.reports.items() if report.links]
    allocated = allocated or [name for name, report in state.reports.items() if report.clients]
    for root in allocated[:1] or list(state.reports)[:1]:
        parents[root], waiting = None, [root]
        for here in waiting:
            for neighbour in state.reports[here].links:
                if neighbour not in parents:
                    parents[neighbour] = here
                    waiting.append(neighbour)
    clients = {
        client: broker
        for broker, report in state.reports.items()
        for client in report.clients
        if broker in parents
    }
    return Plan(
        algorithm="AS IT WAS",
        overlay=parents,
        subscriptions=clients,
        publishers={},
        freed=[broker for broker in plan.addresses if broker not in parents],
        addresses=plan.addresses,
    )


class Applying:
    """A switch on real brokers; `run` carries it out."""

    def __init__(
        self,
        intent: Intent,
        wave: int = 10,
        every_s: float = POLL_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.switch = Switch(intent, wave)
        self.why_back = ""
        self._askers = Askers(dict(intent.addresses))
        self._every_s = every_s
        self._patience_s = patience_s

    def turn_back(self, why: str) -> bool:
        """Begin to take everything back; returns False if it is too late."""
        if self.switch.turn_back():
            self.why_back = self.why_back or why
            return True
        return False

    def run(self, checkpoint: Callable[[], None] = lambda: None) -> Iterator[Phase]:
        """Carry out the switch; yields the phase after each round of questions."""
        last: object = None
        since = time.monotonic()
        try:
            while self.switch.phase is not Phase.DONE:
                checkpoint()
                began = time.monotonic()
                reports = {place: self._askers.report(place) for place in self.switch.places}
                for order in self.switch.next_orders(reports):
                    self._askers.ask(order.to, order.command)
                now = (self.switch.phase, len(self.switch.waits_for), self.switch.waits_for[:1])
                if now != last:
                    last, since = now, time.monotonic()
                yield self.switch.phase
                self._watch(time.monotonic() - since)
                time.sleep(max(0.0, self._every_s - (time.monotonic() - began)))
        finally:
            self._askers.close()

    def _watch(self, stands_still_s: float) -> None:
        """Without progress for too long, take the switch back; if that is impossible, raise an error that says so."""
        if stands_still_s < self._patience_s:
            return
        waits = "; ".join(self.switch.waits_for[:3])
        if self.switch.phase in (*BACK, *NO_RETURN):
            if stands_still_s > 2 * self._patience_s:
                raise NetworkError(
                    f"the switch stands still while {self.switch.phase.value}: {waits}. Nothing is lost, "
                    "both generations go on; see to that, and give the same command again"
                )
        else:
            self.turn_back(f"it did not get on for {self._patience_s:g} s: {waits}")
