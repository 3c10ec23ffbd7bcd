"""Subscribers that come and go (balance §6.3): another workload whose subscribers join and leave all the time.

Printed: 60 subscribers join per minute, continuously; each stays 7 to 14 minutes, chosen at random, then
unsubscribes and disconnects; grouped-random: all subscribers of one minute join the same random edge broker;
individually-random: each joins a random edge broker.

Inferred: joins are spread evenly over their minute, and the stay is uniform. So after 14 minutes 60 × 10.5 =
630 are there on average. Those who join are drawn from the other workload without replacement; when all have joined,
from all again.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, Literal

from msgspec import field

from runnel.errors import InputError
from runnel.quantities import MINUTE, SECOND
from runnel.workload.parameters import Count, Index, Parameters, Rate, Seconds
from runnel.workload.shape import Subscriber, Workload


class ChurnParameters(Parameters, frozen=True):
    """`of` names the workload whose subscribers join, `parameters` are that one's.

    The edge brokers are `edge_brokers` many, from `first_edge_broker` on.
    """

    of: str = "stocks"
    parameters: dict[str, Any] = field(default_factory=dict)
    pattern: Literal["grouped", "individual"] = "grouped"
    joins_per_min: Rate = 60.0
    stay_min_s: Seconds = 420.0
    stay_max_s: Seconds = 840.0
    duration_s: Seconds = 3_600.0
    edge_brokers: Count = 4
    first_edge_broker: Index = 1


def make_churn(parameters: ChurnParameters, base: Workload, seed: int) -> Workload:
    """Let the subscribers of a workload come and go; its publishers stay as they are."""
    if parameters.stay_min_s > parameters.stay_max_s:
        raise InputError(
            f"stay_min_s: must be at most stay_max_s ({parameters.stay_max_s}), got {parameters.stay_min_s}"
        )
    if not base.subscribers:
        raise InputError(f"of: the workload {parameters.of!r} has no subscribers who could join")
    random = Random(f"{seed}/churn")
    edges = range(
        parameters.first_edge_broker, parameters.first_edge_broker + parameters.edge_brokers
    )
    gap_ns = MINUTE / parameters.joins_per_min
    count = int(parameters.duration_s * SECOND / gap_ns)
    subscribers: list[Subscriber] = []
    everybody = list(base.subscribers)
    random.shuffle(everybody)
    minute, broker = -1, edges[0]
    for number in range(count):
        joins_ns = round(number * gap_ns)
        if parameters.pattern == "individual" or joins_ns // MINUTE != minute:
            minute, broker = joins_ns // MINUTE, random.choice(edges)
        stay_s = random.uniform(parameters.stay_min_s, parameters.stay_max_s)
        one = everybody[number % len(everybody)]
        subscribers.append(
            replace(
                one,
                name=f"churn-{number + 1}",
                broker=broker,
                joins_ns=joins_ns,
                leaves_ns=joins_ns + round(stay_s * SECOND),
            )
        )
    return Workload("churn", base.publishers, tuple(subscribers))
