"""The workload of green §VI: per publisher, 40% of the subscriptions to the whole stock, 60% with an inequality more.

Printed: 40 publishers at 70 msg/min on 80 brokers (72 and 100 publishers on 400 and 1,000 brokers with 225
subscribers each) · homogeneous: N_s subscriptions per publisher, 50 to 200 · 40%
`[class,=,'STOCK'],[symbol,=,'YHOO']`, 60% the same with "an additional inequality attribute, such as
[low,<,REPLACE_LOW]", the value drawn from the same field of the stock's publication set · a broker that sinks
everything sinks 46.7 msg/s · publishers and subscribers at random brokers; heterogeneous (15 brokers at 100%,
25 at 50%, 40 at 25% of the capacity): subscribers in proportion to the capacity.

Inferred: "N_s ÷ i" subscriptions for the i-th publisher contradicts the totals 4,100 (from 5 to 200) at N_s =
200 and 1,025 at 50; the linear series N_s·(41 − i)/40 has both · which inequalities beside `low <` there are:
those of balance (`high >`, `low <`, `volume >`), each as often (`inequality = "low"` keeps to the printed one)
· broker 0 is the strongest.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Literal

from runnel.language import Op, Predicate
from runnel.workload.draw import apportion, deal
from runnel.workload.market import StockParameters, open_market, publishers_of, whole_symbol
from runnel.workload.parameters import Count, Rate
from runnel.workload.shape import Subscriber, Workload

WHOLE_PERCENT = 40
INEQUALITIES = (("high", Op.GT), ("low", Op.LT), ("volume", Op.GT))
CAPACITIES = ((15, 1.0), (25, 0.5), (40, 0.25))
"""Of 80 brokers, how many have which part of the full capacity."""


class GreenParameters(StockParameters, frozen=True):
    """`per_publisher` is the paper's N_s."""

    rate_per_min: Rate = 70.0
    per_publisher: Count = 200
    scenario: Literal["homogeneous", "heterogeneous"] = "homogeneous"
    inequality: Literal["mixed", "low"] = "mixed"
    brokers: Count = 80


def make_green(parameters: GreenParameters, seed: int, folder: Path) -> Workload:
    """Make the workload of green §VI."""
    market = open_market(parameters, seed, folder)
    random = Random(f"{seed}/green")
    counts = subscriptions_by_publisher(parameters)
    total = sum(counts)
    if parameters.scenario == "homogeneous":
        places = [random.randrange(parameters.brokers) for _ in range(total)]
    else:
        capacity = capacities(parameters.brokers)
        places = deal(range(parameters.brokers), total, capacity, random)
    choices = INEQUALITIES if parameters.inequality == "mixed" else (("low", Op.LT),)
    subscribers: list[Subscriber] = []
    for (symbol, quotes), count in zip(market.items(), counts, strict=True):
        shares = (WHOLE_PERCENT, 100 - WHOLE_PERCENT)
        for kind in deal(("whole", "inequality"), count, shares, random):
            more: tuple[Predicate, ...] = ()
            if kind == "inequality":
                attribute, op = random.choice(choices)
                more = (Predicate(attribute, op, random.choice(quotes)[attribute]),)
            number = len(subscribers)
            subscribers.append(
                Subscriber(f"sub-{number + 1}", whole_symbol(symbol, *more), places[number], kind)
            )
    homes = [random.randrange(parameters.brokers) for _ in market]
    publishers = publishers_of(market, parameters.rate_per_min, homes)
    return Workload("stocks", tuple(publishers), tuple(subscribers))


def subscriptions_by_publisher(parameters: GreenParameters) -> list[int]:
    """How many subscriptions each publisher has, the most popular first.

    >>> counts = subscriptions_by_publisher(GreenParameters(scenario="heterogeneous"))
    >>> sum(counts), counts[0], counts[-1]
    (4100, 200, 5)
    >>> sum(subscriptions_by_publisher(GreenParameters(scenario="heterogeneous", per_publisher=50)))
    1025
    """
    count, most = parameters.publishers, parameters.per_publisher
    if parameters.scenario == "homogeneous":
        return [most] * count
    # Rounding the running sum instead of every term keeps the total.
    ends = [most * rank * (2 * count + 1 - rank) // (2 * count) for rank in range(count + 1)]
    return [end - start for start, end in pairwise(ends)]


def capacities(brokers: int) -> list[float]:
    """The capacity of each broker of the heterogeneous scenario, the strongest first.

    >>> found = capacities(80)
    >>> found.count(1.0), found.count(0.5), found.count(0.25)
    (15, 25, 40)
    """
    counts = apportion(brokers, [count for count, _ in CAPACITIES])
    return [
        capacity
        for (_, capacity), count in zip(CAPACITIES, counts, strict=True)
        for _ in range(count)
    ]
