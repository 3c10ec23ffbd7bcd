"""The optimal allocation of Phase 2 for small instances, by a solver: the heuristics are compared with it.

An integer program minimises the number of brokers, then the total rate. Variables: whether broker b is used; whether
it has item i; whether it receives atom a (the bits that exactly the same items have are one atom, so there are few);
and, if matching takes time, how many subscriptions it has. It can solve a few dozen items, not more.

A broker with something pinned to it is used, and has the subscriptions that are pinned. A pinned publisher needs
nothing here: the best plan, where it sends something, has no fewer brokers than the best packing.

The solver is SciPy's (HiGHS), imported only when `pack_exactly` is called: pip install 'runnel[solver]'.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from runnel.errors import BugError, InputError
from runnel.planning.algorithms.packing import Scheme
from runnel.planning.load import UNLIMITED, Bin, Item, Traffic
from runnel.planning.profiles import union

SECONDS = 30.0


def atoms_of(items: Sequence[Item], traffic: Traffic) -> list[tuple[tuple[int, ...], int]]:
    """The atoms: for each set of items, the rate of the publications that exactly these items want.

    >>> from runnel.planning.profiles import PublisherProfile
    >>> traffic = Traffic((PublisherProfile("P", 4.0, 10.0, 3),), (4,))
    >>> atoms_of([Item({0: 0b0011}, 1, (0,)), Item({0: 0b0110}, 1, (1,))], traffic)
    [((0,), 1000000), ((0, 1), 1000000), ((1,), 1000000)]
    """
    found: dict[tuple[tuple[int, ...], int], int] = {}
    for publisher, span in enumerate(traffic.spans):
        for place in range(span):
            who = tuple(
                n for n, one in enumerate(items) if one.profile.get(publisher, 0) >> place & 1
            )
            if who:
                found[who, publisher] = found.get((who, publisher), 0) | 1 << place
    return [(who, traffic.rate({publisher: bits})) for (who, publisher), bits in found.items()]


def pack_exactly(
    items: Sequence[Item], bins: Sequence[Bin], traffic: Traffic, seconds: float = SECONDS
) -> Scheme | None:
    """The best scheme, or None if the items do not fit; an error if the solver needs longer than `seconds`.

    `items` are all subscriptions, the pinned ones too.
    """
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped]
    except ImportError as error:
        raise InputError("the exact packing needs SciPy: pip install 'runnel[solver]'") from error
    model = _Model(items, bins, traffic)
    rows, lows, highs = model.constraints()
    result = milp(
        model.costs(),
        constraints=LinearConstraint(rows, lows, highs),
        integrality=model.integrality(),
        bounds=Bounds(model.lower(), np.ones(model.columns)),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if result.status == 2:
        return None
    if result.status == 1:
        raise InputError(f"the solver found no proof within {seconds} s: give it fewer items")
    if result.status != 0:
        raise BugError(f"the solver says: {result.message}")
    return model.scheme(result.x)


class _Model:
    """Columns: brokers used, then (broker, item), then (broker, atom), then (broker, number of subscriptions)."""

    def __init__(self, items: Sequence[Item], bins: Sequence[Bin], traffic: Traffic) -> None:
        self.items, self.bins, self.traffic = items, bins, traffic
        self.atoms = atoms_of(items, traffic)
        self.limited = any(one.delay.takes_time for one in bins)
        b, n, a = len(bins), len(items), len(self.atoms)
        self.counts = range(sum(one.count for one in items) + 1)
        self.total = max(1, sum(rate for _, rate in self.atoms))
        self.x, self.z, self.t = b, b + b * n, b + b * n + b * a
        self.columns = self.t + (b * len(self.counts) if self.limited else 0)

    def costs(self) -> Any:
        costs = np.zeros(self.columns)
        costs[: self.x] = 1.0
        # All rates together cost less than one broker.
        weights = [rate / self.total / (len(self.bins) + 1) for _, rate in self.atoms]
        costs[self.z : self.t] = weights * len(self.bins)
        return costs

    def integrality(self) -> Any:
        kinds = np.ones(self.columns)
        kinds[self.z : self.t] = 0  # a broker receives an atom as soon as it has an item with it
        return kinds

    def lower(self) -> Any:
        """What is pinned is 1 from the start, and so are the brokers that have it."""
        found = np.zeros(self.columns)
        places = {member: i for i, item in enumerate(self.items) for member in item.members}
        for b, one in enumerate(self.bins):
            if one.base:
                found[b] = 1.0
                for member in one.base.members:
                    found[self.x + b * len(self.items) + places[member]] = 1.0
        return found

    def constraints(self) -> tuple[Any, list[float], list[float]]:
        rows: list[dict[int, float]] = []
        lows: list[float] = []
        highs: list[float] = []

        def add(row: dict[int, float], low: float, high: float) -> None:
            rows.append(row)
            lows.append(low)
            highs.append(high)

        n, a = len(self.items), len(self.atoms)
        for i in range(n):
            add({self.x + b * n + i: 1.0 for b in range(len(self.bins))}, 1.0, 1.0)
        for b, one in enumerate(self.bins):
            x, z = self.x + b * n, self.z + b * a
            if one.room < UNLIMITED:
                # In units of which all needs are multiples, so that the solver's tolerance does no harm.
                unit = max(1, math.gcd(*(item.need for item in self.items)))
                needs = {x + i: float(item.need // unit) for i, item in enumerate(self.items)}
                add({**needs, b: -float(max(one.room, 0) // unit)}, -np.inf, 0.0)
            for i in range(n):
                add({x + i: 1.0, b: -1.0}, -np.inf, 0.0)
            for k, (who, _) in enumerate(self.atoms):
                for i in who:
                    add({x + i: 1.0, z + k: -1.0}, -np.inf, 0.0)
            if self.limited:
                self._matching(b, one, add)
        matrix = np.zeros((len(rows), self.columns))
        for at, row in enumerate(rows):
            matrix[at, list(row)] = list(row.values())
        return matrix, lows, highs

    def _matching(self, b: int, one: Bin, add: Any) -> None:
        """The rate that a broker can match depends on how many subscriptions it has."""
        n, a = len(self.items), len(self.atoms)
        x, z, t = self.x + b * n, self.z + b * a, self.t + b * len(self.counts)
        add({t + k: 1.0 for k in self.counts}, 1.0, 1.0)
        counts = {x + i: float(item.count) for i, item in enumerate(self.items)}
        add({**counts, **{t + k: -float(k) for k in self.counts}}, 0.0, 0.0)
        rates = {z + k: rate / self.total for k, (_, rate) in enumerate(self.atoms)}
        limits = [min(1.0, one.delay.rate(k) / self.total) for k in self.counts]
        add({**rates, **{t + k: -limit for k, limit in enumerate(limits)}}, -np.inf, 0.0)

    def scheme(self, found: Any) -> Scheme:
        n = len(self.items)
        placed, rate = {}, 0
        for b, one in enumerate(self.bins):
            here = [self.items[i] for i in range(n) if found[self.x + b * n + i] > 0.5]
            if here or one.base:
                placed[one.name] = tuple(member for item in here for member in item.members)
                rate += self.traffic.rate(union(item.profile for item in here))
        return Scheme(placed, rate)
