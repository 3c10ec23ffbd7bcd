"""Which goals a plan meets, and what it costs to get there: what somebody wants to know before saying yes.

    goals_of      capacity, head-room, balance, moves, brokers: each as it is now, as it will be, and what is allowed
    resent_of     what clients send again: in the new network every subscription and advertisement is set up anew

Theory, of what is sent again: an advertisement goes to every broker. A subscription goes towards the publishers that it
intersects, and who that is the plan does not say; so it is taken to go the way to an average publisher. Covering
makes it less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runnel.allocation.plan import BrokerLoad, Plan

BALANCED = 1.5
"""The most loaded broker may have so many times the load of the average one."""

FRAME_BYTES = 100.0
"""How large a subscription or advertisement is taken to be, if nobody has measured it."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal: met if the value is no more than `most`. None: there is nothing to compare with."""

    name: str
    now: float | None
    then: float
    most: float

    @property
    def was_met(self) -> bool | None:
        """Whether it is met as things are."""
        return None if self.now is None else self.now <= self.most

    @property
    def is_met(self) -> bool:
        """Whether the plan meets it."""
        return self.then <= self.most


@dataclass(frozen=True, slots=True)
class Resent:
    """What is sent again, over all links together."""

    subscriptions: int
    advertisements: int
    bytes: int


def goals_of(plan: Plan) -> list[Goal]:
    """The goals, in the order of their weight.

    >>> busy, idle = BrokerLoad(9.0, 90.0, 2, 0.1, 0.9), BrokerLoad(1.0, 10.0, 1, 0.1, 0.1)
    >>> plan = Plan(
    ...     algorithm="FBF", overlay={"A": None}, subscriptions={"s": "A"}, publishers={},
    ...     before={"A": busy, "B": idle}, after={"A": busy}, brokers_at_least=1,
    ... )
    >>> [(goal.name, goal.was_met, goal.is_met) for goal in goals_of(plan)]
    [('capacity', True, True), ('balance', False, True), ('brokers', False, True)]
    """
    now, then = (_most_loaded(loads) for loads in (plan.before, plan.after))
    found = [Goal("capacity", now, then or 0.0, 1.0)]
    asked = plan.asked
    if asked is not None and asked.headroom_percent:
        found.append(Goal("head-room", now, then or 0.0, 1.0 - asked.headroom_percent / 100))
    found.append(Goal("balance", _spread(plan.before), _spread(plan.after) or 0.0, BALANCED))
    if asked is not None and asked.max_moves is not None:
        found.append(Goal("moves", None, len(plan.moved), asked.max_moves))
    was = len(plan.before) or None
    found.append(Goal("brokers", was, plan.brokers, max(1, plan.brokers_at_least)))
    return found


def _ratio(load: BrokerLoad) -> float:
    return max(load.output_ratio, load.input_ratio)


def _most_loaded(loads: Mapping[str, BrokerLoad]) -> float | None:
    return max(map(_ratio, loads.values()), default=None)


def _spread(loads: Mapping[str, BrokerLoad]) -> float | None:
    """How many times the average load the most loaded broker has; 1 if nobody has anything to do."""
    most = _most_loaded(loads)
    if most is None:
        return None
    average = sum(map(_ratio, loads.values())) / len(loads)
    return most / average if average else 1.0


def resent_of(plan: Plan) -> Resent:
    """What is sent again.

    >>> load = BrokerLoad(1.0, 1.0, 4, 0.0, 0.0)
    >>> plan = Plan(
    ...     algorithm="FBF", overlay={"A": None, "B": "A"}, subscriptions={"s": "A"}, publishers={"p": "B"},
    ...     after={"A": load, "B": load},
    ... )
    >>> resent_of(plan)   # eight to their brokers, four of them on to B; the advertisement to B and on to A
    Resent(subscriptions=8, advertisements=1, bytes=1400)
    """
    local = {broker: load.subscriptions for broker, load in plan.after.items()}
    publishing = dict.fromkeys(plan.overlay, 0)
    for broker in plan.publishers.values():
        publishing[broker] += 1
    publishers, evidence = len(plan.publishers), plan.evidence
    # A broker's neighbours count as subscriptions there, too, where it is known better.
    subscriptions = evidence.subscriptions if evidence else sum(local.values())
    crossings = _crossings(plan.overlay, local, publishing) / max(1, publishers)
    sizes = (evidence.subscription_bytes, evidence.advertisement_bytes) if evidence else (0, 0)
    each, every = (size or FRAME_BYTES for size in sizes)
    total = each * (subscriptions + crossings) + every * publishers * plan.brokers
    return Resent(subscriptions, publishers, round(total))


def _crossings(
    overlay: Mapping[str, str | None], local: Mapping[str, int], publishing: Mapping[str, int]
) -> int:
    """Over how many links all subscriptions go, together, if each goes to every publisher."""
    below = {broker: [local.get(broker, 0), publishing[broker]] for broker in overlay}
    all_of_it = [sum(one[kind] for one in below.values()) for kind in (0, 1)]
    found = 0
    for broker in _leaves_first(overlay):
        parent = overlay[broker]
        if parent is not None:
            (here, sent), (every, senders) = below[broker], all_of_it
            found += here * (senders - sent) + (every - here) * sent
            below[parent][0] += here
            below[parent][1] += sent
    return found


def _leaves_first(overlay: Mapping[str, str | None]) -> list[str]:
    children: dict[str | None, list[str]] = {}
    for broker, parent in overlay.items():
        children.setdefault(parent, []).append(broker)
    order = list(children.get(None, ()))
    for broker in order:
        order += children.get(broker, ())
    return order[::-1]
