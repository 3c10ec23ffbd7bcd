"""The workload of a scenario: every client has a broker, and the scenario's changes are part of it.

The result is an ordinary workload, so the code that runs it (the simulator, real processes) need not know about
scenarios: it contains the changes of rates, and when subscribers join and leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from random import Random
from typing import TypeVar

from msgspec import to_builtins
from msgspec.structs import asdict as asdict_of

from runnel.errors import InputError
from runnel.lab.planned_network import PlannedNetwork
from runnel.lab.scenario import Scenario, ScenarioChange, errors_at
from runnel.lab.shapes import Shape
from runnel.language import to_sql
from runnel.network.topology import BrokerPlan, ClientPlan, PublishPlan, Topology, WrittenFilter
from runnel.quantities import SECOND
from runnel.workload.registry import make_workload
from runnel.workload.shape import Loop, RateChange, Subscriber, Workload, WorkloadPublisher

_Client = TypeVar("_Client", WorkloadPublisher, Subscriber)


def make_scenario_workload(scenario: Scenario, shape: Shape, seed: int) -> Workload:
    """The workload of a scenario, with a broker for every client."""
    named = scenario.workload
    with errors_at("workload"):
        workload = make_workload(named.name, named.parameters, seed, scenario.folder)
    if scenario.planned is not None:
        workload = _place_by_plan(workload, scenario.planned)
    if scenario.clients.placement == "workload" and workload.brokers > len(shape.brokers):
        raise InputError(
            f"workload: speaks of {workload.brokers} brokers, the topology has {len(shape.brokers)}: "
            'make them agree, or set clients.placement to "random"'
        )
    placed = _assign_brokers(workload, scenario.clients.placement, len(shape.brokers), seed)
    for number, change in enumerate(scenario.changes):
        with errors_at(f"changes[{number}]"):
            placed = _apply_change(placed, change, f"{seed}/changes/{number}")
    return placed


def due_times(publisher: WorkloadPublisher, place: int, count: int) -> Iterator[int]:
    """The times at which publisher number `place` of `count` publishes, counted from time zero, without end.

    Their first publications are spread over one interval, so that they do not all publish at once.
    """
    at_ns = round(place / count / publisher.rate_per_s * SECOND)
    if not publisher.rate_changes:
        gap = round(SECOND / publisher.rate_per_s)
        while True:
            yield at_ns
            at_ns += gap
    while True:
        yield at_ns
        at_ns += round(SECOND / publisher.rate_at(at_ns))


def as_topology(scenario: Scenario, seed: int | None = None, trace: Path | None = None) -> Topology:
    """The same scenario as a topology for real processes (`runnel up`): the same events in the same order.

    Real brokers have their own speed, so only the bandwidth of the resources is kept. Clients that leave and other
    changes are refused, because only the simulator can make them. If `trace` is a directory, the brokers write a
    trace there, with the scenario's settings.
    """
    seed = scenario.seed if seed is None else seed
    if scenario.changes:
        raise InputError("changes: only the simulator can make them: leave them out")
    shape = scenario.shape(seed)
    workload = make_scenario_workload(scenario, shape, seed)
    if any(one.rate_changes for one in workload.publishers):
        raise InputError("workload: rates that change can only be simulated")
    if any(one.leaves_ns is not None for one in workload.subscribers):
        raise InputError("workload: subscribers that leave can only be simulated")
    brokers = {
        name: BrokerPlan(name, settings=_settings(scenario, has.output_bytes_per_second, trace))
        for name, has in scenario.resources(shape).items()
    }
    names = shape.brokers
    subscribers = [
        ClientPlan(
            one.name,
            names[one.broker or 0],
            one.joins_ns / SECOND,
            (WrittenFilter(to_sql(one.selection), one.selection),),
        )
        for one in workload.subscribers
    ]
    publishers = [
        ClientPlan(one.name, names[one.broker or 0], publish=_publish(scenario, workload, place))
        for place, one in enumerate(workload.publishers)
    ]
    return Topology(brokers, shape.links, (*publishers, *subscribers), scenario.folder)


def _settings(scenario: Scenario, output_bytes_per_s: int, trace: Path | None) -> dict[str, object]:
    routing = {"strategy": scenario.strategy} | to_builtins(scenario.routing)
    settings: dict[str, object] = {"routing": routing}
    settings |= {name: to_builtins(table) for name, table in scenario.modules.items()}
    if output_bytes_per_s:
        settings["limits"] = {"output_bytes_per_s": output_bytes_per_s}
    if trace is not None:
        settings["trace"] = {"dir": str(trace.absolute())} | asdict_of(scenario.trace)
    return settings


def _publish(scenario: Scenario, workload: Workload, place: int) -> PublishPlan:
    publisher = workload.publishers[place]
    total = len(workload.publishers)
    end_ns = round((scenario.time.warm_up_s + scenario.time.measure_s) * SECOND)
    count = 0
    for at_ns in due_times(publisher, place, total):
        if at_ns >= end_ns:
            break
        count += 1
    if isinstance(publisher.events, Loop):
        events = tuple(publisher.events.events)
    else:
        events = tuple(islice(publisher.events, count))
        count = len(events)
    return PublishPlan(
        WrittenFilter(to_sql(publisher.advertisement), publisher.advertisement),
        events,
        publisher.rate_per_s,
        count,
        scenario.clients.payload_bytes,
    )


def _assign_brokers(workload: Workload, placement: str, brokers: int, seed: int) -> Workload:
    random = Random(f"{seed}/placement")

    def place(number: int, wished: int | None) -> int:
        if placement == "workload" and wished is not None:
            return wished
        return number % brokers if placement == "round-robin" else random.randrange(brokers)

    return replace(
        workload,
        publishers=tuple(
            replace(one, broker=place(number, one.broker))
            for number, one in enumerate(workload.publishers)
        ),
        subscribers=tuple(
            replace(one, broker=place(number, one.broker))
            for number, one in enumerate(workload.subscribers)
        ),
    )


def _place_by_plan(workload: Workload, planned: PlannedNetwork) -> Workload:
    """Put every client at the broker that the plan gives it."""
    number = {name: place for place, name in enumerate(planned.shape.brokers)}

    def home(one: _Client) -> _Client:
        if one.name not in planned.homes:
            raise InputError(f"the plan has no broker for {one.name}: plan the same workload")
        return replace(one, broker=number[planned.homes[one.name]])

    return replace(
        workload,
        publishers=tuple(home(one) for one in workload.publishers),
        subscribers=tuple(home(one) for one in workload.subscribers),
    )


def _apply_change(workload: Workload, change: ScenarioChange, seed: str) -> Workload:
    at_ns = round(change.at_s * SECOND)
    match change.kind:
        case "rate":
            chosen = _choose_clients(workload.publishers, change, seed)
            publishers = tuple(
                _with_rate(one, change, at_ns) if one.name in chosen else one
                for one in workload.publishers
            )
            return replace(workload, publishers=publishers)
        case "join" | "leave":
            chosen = _choose_clients(workload.subscribers, change, seed)
            key = "joins_ns" if change.kind == "join" else "leaves_ns"
            subscribers = tuple(
                replace(one, **{key: at_ns}) if one.name in chosen else one  # type: ignore[arg-type]
                for one in workload.subscribers
            )
            return replace(workload, subscribers=subscribers)
        case _:
            return workload


def _choose_clients(clients: tuple[_Client, ...], change: ScenarioChange, seed: str) -> set[str]:
    names = [one.name for one in clients if fnmatchcase(one.name, change.clients)]
    if not names:
        raise InputError(
            f"clients: no client that this change applies to is called {change.clients!r}; "
            f"there are {', '.join(one.name for one in clients[:3])} …"
        )
    return set(Random(seed).sample(names, round(change.share * len(names))))


def _with_rate(one: WorkloadPublisher, change: ScenarioChange, at_ns: int) -> WorkloadPublisher:
    rate = change.rate_per_s or one.rate_at(at_ns) * (change.factor or 1.0)
    changes = sorted([*one.rate_changes, RateChange(at_ns, rate)])
    return replace(one, rate_changes=tuple(changes))
