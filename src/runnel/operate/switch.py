"""The coordinator of a switch: makes orders for brokers from their reports.

It keeps no state that it could not learn from the reports, so another coordinator can take over at any time, and
continue or turn back. Its orders depend on what is reported, not on earlier orders: a broker that lost its memory
gets them again. It has no I/O and no clock: its driver asks all brokers, passes the reports in, carries the orders
out, and repeats that until the phase is `DONE`.

    OPENING    every process has a broker of the new generation, and its links are up
    JOINING    all clients live in both generations
    CROSSING   publishers cross over, `wave` of them at a time; then all other clients
    LEAVING    all clients leave the old generation; from here on there is no way back
    CLOSING    the old generation ends
    DONE

    RETURNING  publishers cross back
    PARTING    all clients leave the new generation
    CLEARING   the new generation ends; then DONE
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import msgspec

from runnel.broker.questions import Command
from runnel.modules.generations.module import GenerationReport
from runnel.modules.generations.questions import CloseGeneration, OpenGeneration, SetGoal
from runnel.wire import Stage


class Phase(Enum):
    """How far a switch is; see the top of the file."""

    OPENING = "opening"
    JOINING = "joining"
    CROSSING = "crossing"
    LEAVING = "leaving"
    CLOSING = "closing"
    RETURNING = "returning"
    PARTING = "parting"
    CLEARING = "clearing"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Intent:
    """The network that a switch leads to. `addresses` has every broker, allocated or not."""

    old: int  # generations
    new: int
    addresses: Mapping[str, str]
    dials: Mapping[str, tuple[str, ...]]  # allocated broker → the neighbours that it dials
    homes: Mapping[str, str] = field(default_factory=dict)  # client → its broker
    default: str = ""  # the broker of clients that are not in `homes`

    @property
    def freed(self) -> list[str]:
        """The brokers that the new network does not use."""
        return [broker for broker in self.addresses if broker not in self.dials]

    def open(self, broker: str) -> OpenGeneration:
        """The command that opens the new generation at a broker."""
        reserve = {name: self.addresses[name] for name in self.freed}
        if broker not in self.dials:
            standby = self.addresses[self.default]
            return OpenGeneration(self.new, standby=standby, reserve=reserve, accepts=())
        dials = {name: self.addresses[name] for name in self.dials[broker]}
        accepts = tuple(name for name, dialled in self.dials.items() if broker in dialled)
        return OpenGeneration(self.new, dials, reserve=reserve, accepts=accepts)

    def address_of(self, client: str) -> str:
        """Where a client is to live."""
        return self.addresses[self.homes.get(client, self.default)]


class Place(NamedTuple):
    """The broker of one generation in one process."""

    broker: str
    generation: int


Reports = Mapping[Place, GenerationReport | None]


class SwitchOrder(NamedTuple):
    """A command, and the broker that it is for."""

    to: Place
    command: Command


class Switch:
    """One switch; see the top of the file. `wave`: how many publishers cross at the same time."""

    def __init__(self, intent: Intent, wave: int = 10) -> None:
        self.intent = intent
        self.phase = Phase.OPENING
        self.wave = wave
        self.waits_for: list[str] = []  # what keeps it in its phase, as text for people
        self._back = self._has_turned = False
        self._goal = SetGoal(intent.new, 0, Stage.OLD, intent.addresses[intent.default])
        self._crossing: dict[str, None] = {}  # clients that were ordered to cross

    @property
    def places(self) -> list[Place]:
        """The brokers to ask for a report, in both generations."""
        generations = (self.intent.old, self.intent.new)
        return [Place(broker, g) for broker in self.intent.addresses for g in generations]

    def turn_back(self) -> bool:
        """Begin to take everything back; returns False if it is too late."""
        if self._goal.stage == Stage.NEW:
            return False
        self._back = True
        return True

    def next_orders(self, reports: Reports) -> list[SwitchOrder]:
        """The orders to give now."""
        self.waits_for = []
        self._catch_up(reports)
        # It may have been too late: another coordinator had come further.
        self._back = self._back and self._goal.stage < Stage.NEW
        return list(self._backward(reports) if self._back else self._forward(reports))

    def _catch_up(self, reports: Reports) -> None:
        """Take over the state of another coordinator that has been here before."""
        for report in reports.values():
            if report is None or report.about != self.intent.new:
                continue
            if report.generation == self.intent.old and not self._back:
                far = [
                    name for name, client in report.clients.items() if client.stage >= Stage.AHEAD
                ]
                self._crossing.update(dict.fromkeys(far))
            if report.version > self._goal.version:
                self._set_goal(report.stage, version=report.version)

    def _set_goal(self, stage: Stage, version: int = 0) -> None:
        default = self.intent.addresses[self.intent.default]
        version = version or self._goal.version + 1
        stages: dict[str, Stage] = {}
        if stage == Stage.BOTH and not self._back:
            stages = dict.fromkeys(self._crossing, Stage.AHEAD)
        self._goal = SetGoal(self.intent.new, version, stage, default, stages)

    # -- forward --------------------------------------------------------------------------------------

    def _forward(self, reports: Reports) -> Iterator[SwitchOrder]:
        if self._goal.stage == Stage.NEW and self._all_have_left(reports, self.intent.old):
            self.phase = Phase.CLOSING
            yield from self._open_missing(reports)
            yield from self._close(reports, self.intent.old)
            return
        yield from self._open_missing(reports)
        if self._goal.stage == Stage.OLD:
            self.phase = Phase.OPENING
            if self.waits_for or not self._links_are_up(reports):
                return
            if not self._goal.version:
                # First of all, brokers learn where each client is to live.
                self._set_goal(Stage.OLD)
            elif self._all_have_goal(reports):
                self._set_goal(Stage.BOTH)
        if self._goal.stage == Stage.BOTH:
            if self._all_have_goal(reports) and self._all_have_reached(reports, Stage.BOTH):
                self._cross_more(reports)
            else:
                self.phase = Phase.JOINING if not self._crossing else Phase.CROSSING
        elif self._goal.stage == Stage.AHEAD:
            self.phase = Phase.CROSSING
            if self._all_have_goal(reports) and self._all_have_reached(reports, Stage.AHEAD):
                self._set_goal(Stage.NEW)
        if self._goal.stage == Stage.NEW:
            self.phase = Phase.LEAVING
        yield from self._send_goals(reports)

    def _cross_more(self, reports: Reports) -> None:
        """Let the next publishers cross when earlier ones have."""
        self.phase = Phase.CROSSING
        publishing = {
            name: client
            for report in self._reports_of(reports, self.intent.old)
            for name, client in report.clients.items()
            if client.publishes and client.stage < Stage.AHEAD
        }
        # A client that got its order from a coordinator that turned back is settled: it needs the order again.
        under_way = [n for n in self._crossing if n in publishing and not publishing[n].is_settled]
        more = [name for name in publishing if name not in under_way]
        if not publishing:
            self._set_goal(Stage.AHEAD)
        elif more and len(under_way) < self.wave:
            self._crossing.update(dict.fromkeys(more[: self.wave - len(under_way)]))
            self._set_goal(Stage.BOTH)
        self.waits_for += [f"{name} is to cross" for name in publishing]

    def _links_are_up(self, reports: Reports) -> bool:
        for broker, dialled in self.intent.dials.items():
            report = reports[Place(broker, self.intent.new)]
            for neighbour in dialled:
                if report is None or neighbour not in report.links:
                    self.waits_for.append(f"{broker} has no link to {neighbour} yet")
        return not self.waits_for

    # -- backward -------------------------------------------------------------------------------------

    def _backward(self, reports: Reports) -> Iterator[SwitchOrder]:
        if self._goal.stage == Stage.OLD:
            if self._goal.version and not self._all_have_goal(reports):
                self.phase = Phase.PARTING
                yield from self._send_goals(reports)
            elif self._goal.version and not self._all_have_left(reports, self.intent.new):
                self.phase = Phase.PARTING
            else:
                self.phase = Phase.CLEARING
                yield from self._close(reports, self.intent.new)
            return
        self.phase = Phase.RETURNING
        if not self._has_turned:  # earlier orders for single clients no longer count
            self._has_turned = True
            self._crossing.clear()
            self._set_goal(Stage.BOTH)
        elif self._all_have_goal(reports) and self._all_have_returned(reports):
            self._set_goal(Stage.OLD)
            self.phase = Phase.PARTING
        yield from self._send_goals(reports)

    def _all_have_returned(self, reports: Reports) -> bool:
        for generation in (self.intent.old, self.intent.new):
            for report in self._reports_of(reports, generation):
                for name, client in report.clients.items():
                    is_crossing = client.stage == Stage.BOTH and not client.is_settled
                    if client.stage > Stage.BOTH or is_crossing:
                        self.waits_for.append(f"{name} is to return from {report.broker}")
        return not self.waits_for

    # -- both -----------------------------------------------------------------------------------------

    def _open_missing(self, reports: Reports) -> Iterator[SwitchOrder]:
        """Open the new generation in every process that has no broker of it, or has lost it."""
        for broker in self.intent.addresses:
            if reports[Place(broker, self.intent.new)] is None:
                self.waits_for.append(f"{broker} has no generation {self.intent.new} yet")
                if reports[Place(broker, self.intent.old)] is not None:
                    yield SwitchOrder(Place(broker, self.intent.old), self.intent.open(broker))

    def _send_goals(self, reports: Reports) -> Iterator[SwitchOrder]:
        goal = self._goal
        for place, report in reports.items():
            if report is None or (report.about, report.version) == (goal.generation, goal.version):
                continue
            addresses = {name: self.intent.address_of(name) for name in report.clients}
            yield SwitchOrder(place, msgspec.structs.replace(goal, addresses=addresses))

    def _close(self, reports: Reports, generation: int) -> Iterator[SwitchOrder]:
        other = self.intent.old if generation == self.intent.new else self.intent.new
        still_there = False
        for broker in self.intent.addresses:
            if reports[Place(broker, generation)] is not None:
                still_there = True
                self.waits_for.append(f"{broker} still has generation {generation}")
                if reports[Place(broker, other)] is not None:
                    yield SwitchOrder(Place(broker, other), CloseGeneration(generation))
            elif reports[Place(broker, other)] is None:
                still_there = True
                self.waits_for.append(f"{broker} does not answer")
        if not still_there:
            self.phase = Phase.DONE

    def _reports_of(self, reports: Reports, generation: int) -> list[GenerationReport]:
        return [r for p, r in reports.items() if p.generation == generation and r is not None]

    def _all_have_goal(self, reports: Reports) -> bool:
        for place, report in reports.items():
            if report is None:
                is_over = self._back and place.generation == self.intent.new
                if not is_over or reports[Place(place.broker, self.intent.old)] is None:
                    self.waits_for.append(f"{place.broker} does not answer")
            elif report.about != self._goal.generation or report.version < self._goal.version:
                self.waits_for.append(f"{place.broker} is to be told")
        return not self.waits_for

    def _all_have_reached(self, reports: Reports, stage: Stage) -> bool:
        for report in self._reports_of(reports, self.intent.old):
            for name, client in report.clients.items():
                if client.stage < stage:
                    self.waits_for.append(f"{name} at {report.broker} has not got so far")
        return not self.waits_for

    def _all_have_left(self, reports: Reports, generation: int) -> bool:
        for place, report in reports.items():
            if place.generation == generation and report is not None:
                self.waits_for += [f"{name} is still at {place.broker}" for name in report.clients]
        return not self.waits_for


__all__ = ["Intent", "Phase", "Place", "Reports", "Switch", "SwitchOrder"]
