"""Which goals a plan meets, and what it costs to carry out: what an operator needs to decide on a plan.

    goals_of             capacity, head-room, balance, moves, brokers: each now, as planned, and its limit
    resent_messages_of   what clients send again: the new network sets up every subscription and advertisement anew

Theory of what is sent again: an advertisement goes to every broker. A subscription goes towards the publishers that it
intersects. The plan does not have these, so the estimate is the mean way to a publisher. Covering makes it less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runnel.planning.documents.plan import BrokerLoad, Plan

BALANCED = 1.5
"""The goal for the balance: the load of the most loaded broker over the mean load is at most this."""

FRAME_BYTES = 100.0
"""The assumed size of a subscription or advertisement, if it was not measured."""


@dataclass(frozen=True, slots=True)
class PlanGoal:
    """One goal: it is met if the value is at most `most`. `now` is None if there is no present value."""

    name: str
    now: float | None
    then: float
    most: float

    @property
    def was_met(self) -> bool | None:
        """Whether the present network meets it."""
        return None if self.now is None else self.now <= self.most

    @property
    def is_met(self) -> bool:
        """Whether the plan meets it."""
        return self.then <= self.most


@dataclass(frozen=True, slots=True)
class ResentMessages:
    """What is sent again to carry out a plan; `bytes` are over all links together."""

    subscriptions: int
    advertisements: int
    bytes: int


def goals_of(plan: Plan) -> list[PlanGoal]:
    """The goals, the most important first.

    >>> busy, idle = BrokerLoad(9.0, 90.0, 2, 0.1, 0.9), BrokerLoad(1.0, 10.0, 1, 0.1, 0.1)
    >>> plan = Plan(
    ...     algorithm="FBF", overlay={"A": None}, subscriptions={"s": "A"}, publishers={},
    ...     before={"A": busy, "B": idle}, after={"A": busy}, brokers_at_least=1,
    ... )
    >>> [(goal.name, goal.was_met, goal.is_met) for goal in goals_of(plan)]
    [('capacity', True, True), ('balance', False, True), ('brokers', False, True)]
    """
    now, then = (_most_loaded(loads) for loads in (plan.before, plan.after))
    found = [PlanGoal("capacity", now, then or 0.0, 1.0)]
    asked = plan.asked
    if asked is not None and asked.headroom_percent:
        found.append(PlanGoal("head-room", now, then or 0.0, 1.0 - asked.headroom_percent / 100))
    peaks = [load.peak_output_ratio for load in plan.after.values() if load.peak_output_ratio]
    if peaks:
        found.append(PlanGoal("peaks", None, max(peaks), 1.0))
    found.append(
        PlanGoal("balance", _imbalance(plan.before), _imbalance(plan.after) or 0.0, BALANCED)
    )
    if asked is not None and asked.max_moves is not None:
        found.append(PlanGoal("moves", None, len(plan.moved), asked.max_moves))
    was = len(plan.before) or None
    found.append(PlanGoal("brokers", was, plan.brokers, max(1, plan.brokers_at_least)))
    return found


def _utilisation(load: BrokerLoad) -> float:
    return max(load.output_ratio, load.input_ratio)


def _most_loaded(loads: Mapping[str, BrokerLoad]) -> float | None:
    return max(map(_utilisation, loads.values()), default=None)


def _imbalance(loads: Mapping[str, BrokerLoad]) -> float | None:
    """The load of the most loaded broker over the mean load; 1 if no broker has any load."""
    most = _most_loaded(loads)
    if most is None:
        return None
    average = sum(map(_utilisation, loads.values())) / len(loads)
    return most / average if average else 1.0


def resent_messages_of(plan: Plan) -> ResentMessages:
    """What clients send again when the plan is carried out.

    >>> load = BrokerLoad(1.0, 1.0, 4, 0.0, 0.0)
    >>> plan = Plan(
    ...     algorithm="FBF", overlay={"A": None, "B": "A"}, subscriptions={"s": "A"}, publishers={"p": "B"},
    ...     after={"A": load, "B": load},
    ... )
    >>> resent_messages_of(plan)   # eight to their brokers, four of them on to B; the advertisement to B and on to A
    ResentMessages(subscriptions=8, advertisements=1, bytes=1400)
    """
    local = {broker: load.subscriptions for broker, load in plan.after.items()}
    publishing = dict.fromkeys(plan.overlay, 0)
    for broker in plan.publishers.values():
        publishing[broker] += 1
    publishers, evidence = len(plan.publishers), plan.evidence
    # Loads count a child broker as one subscription, so the evidence is more accurate where there is any.
    subscriptions = evidence.subscriptions if evidence else sum(local.values())
    crossings = _count_links_crossed(plan.overlay, local, publishing) / max(1, publishers)
    sizes = (evidence.subscription_bytes, evidence.advertisement_bytes) if evidence else (0, 0)
    each, every = (size or FRAME_BYTES for size in sizes)
    total = each * (subscriptions + crossings) + every * publishers * plan.brokers
    return ResentMessages(subscriptions, publishers, round(total))


def _count_links_crossed(
    overlay: Mapping[str, str | None], local: Mapping[str, int], publishing: Mapping[str, int]
) -> int:
    """How many links all subscriptions cross in total, if each goes to every publisher."""
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
