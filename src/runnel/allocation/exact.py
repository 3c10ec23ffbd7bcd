"""The best allocation of Phase 2 for small instances, by a solver: what the heuristics are judged by.

Fewest brokers, then the lowest total rate, as an integer program. Variables: whether broker b is used; whether it has
item i; whether it takes in atom a (bits that exactly the same items want are one atom, so there are few); and, where
matching takes time, how many subscriptions it has. A few dozen items are feasible, not more.

The solver is SciPy's (HiGHS), imported only here and only when asked for: pip install 'runnel[solver]'.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from runnel.allocation.load import UNLIMITED, Bin, Item, Traffic
from runnel.allocation.packing import Scheme
from runnel.allocation.profiles import union
from runnel.errors import BugError, InputError

SECONDS = 30.0


def atoms_of(items: Sequence[Item], traffic: Traffic) -> list[tuple[tuple[int, ...], int]]:
    """Which items want the same publications, and the rate of those.

    >>> from runnel.allocation.profiles import PublisherProfile
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


def exact(
    items: Sequence[Item], bins: Sequence[Bin], traffic: Traffic, seconds: float = SECONDS
) -> Scheme | None:
    """The best scheme, or None if there is none; an error if the solver needs longer than this."""
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped]
    except ImportError as error:
        raise InputError("the exact packing needs SciPy: pip install 'runnel[solver]'") from error
    if any(one.base for one in bins):
        raise InputError("the exact packing knows no pinned clients: leave them out")
    model = _Model(items, bins, traffic)
    rows, lows, highs = model.constraints()
    result = milp(
        model.costs(),
        constraints=LinearConstraint(rows, lows, highs),
        integrality=model.integrality(),
        bounds=Bounds(0, model.upper()),
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
    """Columns: brokers used, then (broker, item), then (broker, atom), then (broker, number of items)."""

    def __init__(self, items: Sequence[Item], bins: Sequence[Bin], traffic: Traffic) -> None:
        self.items, self.bins, self.traffic = items, bins, traffic
        self.atoms = atoms_of(items, traffic)
        self.limited = any(one.delay.limits for one in bins)
        b, n, a = len(bins), len(items), len(self.atoms)
        self.total = max(1, sum(rate for _, rate in self.atoms))
        self.x, self.z, self.t = b, b + b * n, b + b * n + b * a
        self.columns = self.t + (b * (n + 1) if self.limited else 0)

    def costs(self) -> Any:
        costs = np.zeros(self.columns)
        costs[: self.x] = 1.0
        # All rates together stay below one broker.
        weights = [rate / self.total / (len(self.bins) + 1) for _, rate in self.atoms]
        costs[self.z : self.t] = weights * len(self.bins)
        return costs

    def integrality(self) -> Any:
        kinds = np.ones(self.columns)
        kinds[self.z : self.t] = 0  # an atom is in as soon as an item is
        return kinds

    def upper(self) -> Any:
        return np.ones(self.columns)

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
                # In units that all needs are multiples of, so that the solver's tolerance does no harm.
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
        """How many items a broker has decides which rate it can match."""
        n, a = len(self.items), len(self.atoms)
        x, z, t = self.x + b * n, self.z + b * a, self.t + b * (n + 1)
        add({t + k: 1.0 for k in range(n + 1)}, 1.0, 1.0)
        counts = {x + i: float(item.count) for i, item in enumerate(self.items)}
        add({**counts, **{t + k: -float(k) for k in range(n + 1)}}, 0.0, 0.0)
        rates = {z + k: rate / self.total for k, (_, rate) in enumerate(self.atoms)}
        limits = [min(1.0, one.delay.rate(k) / self.total) for k in range(n + 1)]
        add({**rates, **{t + k: -limit for k, limit in enumerate(limits)}}, -np.inf, 0.0)

    def scheme(self, found: Any) -> Scheme:
        n = len(self.items)
        placed, rate = {}, 0
        for b, one in enumerate(self.bins):
            here = [self.items[i] for i in range(n) if found[self.x + b * n + i] > 0.5]
            if here:
                placed[one.name] = tuple(member for item in here for member in item.members)
                rate += self.traffic.rate(union(item.profile for item in here))
        return Scheme(placed, rate)
