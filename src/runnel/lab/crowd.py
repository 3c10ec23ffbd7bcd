"""The clients of a scenario: its workload, with everybody at a broker and with the scenario's changes in it.

What comes out is a workload again, so that whoever runs it (the simulator, real processes) need not know what a
scenario is: rates change, subscribers come and go, all in one place.
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
from runnel.lab.laid import Laid
from runnel.lab.scenario import Change, Scenario, at
from runnel.lab.shapes import Shape
from runnel.language import to_sql
from runnel.topology.plan import BrokerPlan, ClientPlan, PublishPlan, Topology, Wanted
from runnel.workload.registry import make_workload
from runnel.workload.shape import SECOND, Loop, Publisher, RateChange, Subscriber, Workload

_Client = TypeVar("_Client", Publisher, Subscriber)


def make_crowd(scenario: Scenario, shape: Shape, seed: int) -> Workload:
    """The workload of a scenario; every client has a broker."""
    named = scenario.workload
    with at("workload"):
        workload = make_workload(named.name, named.parameters, seed, scenario.folder)
    if scenario.laid is not None:
        workload = _at_homes(workload, scenario.laid)
    if scenario.clients.placement == "workload" and workload.brokers > len(shape.brokers):
        raise InputError(
            f"workload: speaks of {workload.brokers} brokers, the topology has {len(shape.brokers)}: "
            'make them agree, or set clients.placement to "random"'
        )
    placed = _placed(workload, scenario.clients.placement, len(shape.brokers), seed)
    for number, change in enumerate(scenario.changes):
        with at(f"changes[{number}]"):
            placed = _changed(placed, change, f"{seed}/changes/{number}")
    return placed


def due_times(publisher: Publisher, place: int, count: int) -> Iterator[int]:
    """When the publisher in this place of so many publishes, from time zero on, without end.

    All begin within their first interval, one after the other, so that they do not all speak at once.
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
    """The same scenario for real processes (`runnel up`): the same events, as many of them, in the same order.

    Real brokers are as fast as they are, so of resources only the bandwidth is kept. Nobody can be made to leave there,
    and nothing to change. With a directory for it the brokers write a trace, as the scenario wants it.
    """
    seed = scenario.seed if seed is None else seed
    if scenario.changes:
        raise InputError("changes: only the simulator can make them: leave them out")
    shape = scenario.shape(seed)
    workload = make_crowd(scenario, shape, seed)
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
            (Wanted(to_sql(one.selection), one.selection),),
        )
        for one in workload.subscribers
    ]
    publishers = [
        ClientPlan(one.name, names[one.broker or 0], publish=_publish(scenario, workload, place))
        for place, one in enumerate(workload.publishers)
    ]
    return Topology(brokers, shape.links, (*publishers, *subscribers), scenario.folder)


def _settings(scenario: Scenario, output_bytes_per_s: int, trace: Path | None) -> dict[str, object]:
    routing = scenario.routing
    settings: dict[str, object] = {
        "routing": {"covering": routing.covering, "advertisements": routing.advertisements}
    }
    if scenario.placement is not None:
        settings["placement"] = to_builtins(scenario.placement)
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
        Wanted(to_sql(publisher.advertisement), publisher.advertisement),
        events,
        publisher.rate_per_s,
        count,
        scenario.clients.payload_bytes,
    )


def _placed(workload: Workload, placement: str, brokers: int, seed: int) -> Workload:
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


def _at_homes(workload: Workload, laid: Laid) -> Workload:
    """Every client at the broker that a plan has given it."""
    number = {name: place for place, name in enumerate(laid.shape.brokers)}

    def home(one: _Client) -> _Client:
        if one.name not in laid.homes:
            raise InputError(f"the plan has no broker for {one.name}: plan the same workload")
        return replace(one, broker=number[laid.homes[one.name]])

    return replace(
        workload,
        publishers=tuple(home(one) for one in workload.publishers),
        subscribers=tuple(home(one) for one in workload.subscribers),
    )


def _changed(workload: Workload, change: Change, seed: str) -> Workload:
    at_ns = round(change.at_s * SECOND)
    match change.kind:
        case "rate":
            chosen = _chosen(workload.publishers, change, seed)
            publishers = tuple(
                _with_rate(one, change, at_ns) if one.name in chosen else one
                for one in workload.publishers
            )
            return replace(workload, publishers=publishers)
        case "join" | "leave":
            chosen = _chosen(workload.subscribers, change, seed)
            key = "joins_ns" if change.kind == "join" else "leaves_ns"
            subscribers = tuple(
                replace(one, **{key: at_ns}) if one.name in chosen else one  # type: ignore[arg-type]
                for one in workload.subscribers
            )
            return replace(workload, subscribers=subscribers)
        case _:
            return workload


def _chosen(clients: tuple[_Client, ...], change: Change, seed: str) -> set[str]:
    names = [one.name for one in clients if fnmatchcase(one.name, change.clients)]
    if not names:
        raise InputError(
            f"clients: nobody of whom this could be said is called {change.clients!r}; "
            f"there are {', '.join(one.name for one in clients[:3])} …"
        )
    return set(Random(seed).sample(names, round(change.share * len(names))))


def _with_rate(one: Publisher, change: Change, at_ns: int) -> Publisher:
    rate = change.rate_per_s or one.rate_at(at_ns) * (change.factor or 1.0)
    changes = sorted([*one.rate_changes, RateChange(at_ns, rate)])
    return replace(one, rate_changes=tuple(changes))
