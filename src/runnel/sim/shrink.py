"""Making a failing plan smaller: leave things out as long as it fails in the same way.

Rounds first, then clients, faults and operations, in ever smaller groups (delta debugging). A run takes a fraction
of a second, and the number of runs is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from runnel.sim.campaign import Fault, Operation, SimulationPlan
from runnel.sim.run import simulate

RUNS_MAX = 150


def kind_of(violation: str) -> str:
    """The kind of a violation: its sentence without names and numbers.

    >>> kind_of("c1 got (7, 1) twice") == kind_of("c22 got (9, 40) twice")
    True
    """
    return re.sub(r"[\w.]*\d[\w.]*(, )?", "", violation)


def shrink(
    plan: SimulationPlan,
    fails: Callable[[SimulationPlan], bool] | None = None,
    runs_max: int = RUNS_MAX,
) -> SimulationPlan:
    """The smallest plan found that fails in the same way."""
    if fails is None:
        kind = kind_of(simulate(plan).violation)

        def fails(plan: SimulationPlan) -> bool:
            return kind_of(simulate(plan).violation) == kind

    runs = 0
    shrunk = True
    while shrunk and runs < runs_max:
        shrunk = False
        for candidate in _smaller(plan):
            runs += 1
            if fails(candidate):
                plan, shrunk = candidate, True
                break
            if runs >= runs_max:
                break
    return plan


def _smaller(plan: SimulationPlan) -> Iterator[SimulationPlan]:
    """Plans with something left out, the largest parts first."""
    for number in range(len(plan.rounds)):
        yield replace(plan, rounds=plan.rounds[:number] + plan.rounds[number + 1 :])
    for number, round in enumerate(plan.rounds):
        if round.switch is not None:
            calmer = replace(round, switch=None)
            yield replace(plan, rounds=(*plan.rounds[:number], calmer, *plan.rounds[number + 1 :]))
    clients = dict.fromkeys(o.client for r in plan.rounds for o in r.operations)
    for client in clients:
        yield _without_client(plan, client)
    for size in (32, 8, 2, 1):
        for number, round in enumerate(plan.rounds):
            for items in (round.faults, round.operations):
                for start in range(0, len(items), size):
                    gone = items[start : start + size]
                    yield _without(plan, number, gone)


def _without_client(plan: SimulationPlan, client: str) -> SimulationPlan:
    rounds = [
        replace(r, operations=tuple(o for o in r.operations if o.client != client))
        for r in plan.rounds
    ]
    return replace(plan, rounds=tuple(rounds))


def _without(
    plan: SimulationPlan, number: int, gone: tuple[Operation | Fault, ...]
) -> SimulationPlan:
    """Without some operations and faults of one round."""
    rounds = list(plan.rounds)
    rounds[number] = replace(
        rounds[number],
        operations=tuple(o for o in rounds[number].operations if o not in gone),
        faults=tuple(f for f in rounds[number].faults if f not in gone),
    )
    return replace(plan, rounds=tuple(rounds))
