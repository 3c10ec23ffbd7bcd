"""When a plan no longer fits, and when another is worth proposing: pure functions, without Spark, files or clocks.

    is_behind   whether too much of the trace is still to be read
    fit_of      the plan's network under the present traffic: overloaded brokers, the difference from the planned rates
    saving_of   what another plan saves, compared with that
    decide      whether to propose it now, and what to remember until the next batch

Hysteresis prevents proposals for temporary changes, and repeated proposals:

    A reason is a drift together with a plan that saves enough or relieves overloaded brokers. It must hold for `hold`
    batches in a row.
    After a proposal there is none for `rest` batches, and none before a batch without a reason by half of the threshold
    (because the proposal was applied, or the change has passed).
    A network that was proposed before is not proposed again. If another plan comes into force, everything starts anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from runnel.errors import InputError
from runnel.planning.documents.plan import Plan
from runnel.planning.layout import Layout, overloaded_brokers, predict_loads
from runnel.planning.load import MICRO
from runnel.planning.network import Network

LAG = 0.05
"""Nothing is judged while more than this share of the recent time is still to be read."""

Times = tuple[int, int]
"""The times of the first and of the last row of a file, in nanoseconds."""


class DriftLimits(msgspec.Struct, frozen=True):
    """The thresholds: the drift is relative to the planned message rate, the saving relative to the present network."""

    drift_percent: float = 20.0
    saving_percent: float = 10.0
    hold: int = 3
    rest: int = 10

    def __post_init__(self) -> None:
        if self.drift_percent <= 0 or not 0 < self.saving_percent < 100:
            raise InputError("the drift is above 0%, and the saving between 0% and 100%")
        if self.hold < 1 or self.rest < 0:
            raise InputError("a reason holds for 1 batch or more, and 0 batches or more are a rest")


def is_behind(came: Sequence[Times | None], there: Sequence[Times | None], recent_ns: int) -> bool:
    """Whether much of a table is still to be read, given the times of the files in the batch and of all files.

    A batch without files means that there was nothing else to read. Files without times count as old.

    >>> day = 100
    >>> is_behind([(0, 89)], [(0, 89), (90, 100)], 2 * day), is_behind([(0, 96)], [(0, 96), (97, 100)], 2 * day)
    (True, False)
    """
    known = [times for times in there if times]
    if not came or not known:
        return False
    oldest, newest = min(first for first, _ in known), max(last for _, last in known)
    read = max((times[1] for times in came if times), default=oldest)
    return newest - read > LAG * min(newest - oldest, recent_ns)


@dataclass(frozen=True, slots=True)
class Fit:
    """A plan's network under the present traffic. `homeless` clients are at no broker of it, and are left out."""

    brokers: int
    messages_per_s: float
    planned_per_s: float
    overloaded: tuple[str, ...] = ()
    newcomers: int = 0  # clients and publishers that are not in the plan
    homeless: int = 0

    @property
    def off_percent(self) -> float:
        """How far the message rate of all brokers is above or below the planned one.

        >>> Fit(2, messages_per_s=75.0, planned_per_s=100.0).off_percent
        25.0
        """
        if not self.planned_per_s:
            return 100.0 if self.messages_per_s else 0.0
        return 100.0 * abs(self.messages_per_s - self.planned_per_s) / self.planned_per_s

    def has_drifted(self, limits: DriftLimits) -> bool:
        """Whether the workload no longer fits the plan."""
        return bool(self.overloaded) or self.off_percent > limits.drift_percent


def fit_of(plan: Plan, network: Network) -> Fit:
    """Compare a plan with the present traffic. Clients that are not in the plan stay where they are."""
    layout, newcomers, homeless = layout_of(plan, network)
    loads = predict_loads(layout, network.items(), network.traffic())
    bins = {one.name: one for one in network.bins()}
    missing = sorted(plan.overlay.keys() - bins.keys())
    if missing:
        raise InputError(f"the plan has broker {missing[0]}, which is not in the trace")
    return Fit(
        len(plan.overlay),
        sum(load.input for load in loads.values()) / MICRO,
        sum(load.messages_per_s for load in plan.after.values()),
        tuple(overloaded_brokers(loads, bins)),
        newcomers,
        homeless,
    )


def layout_of(plan: Plan, network: Network) -> tuple[Layout, int, int]:
    """The layout of a plan with the present clients; how many of these are not in the plan, and how many homeless."""
    known: dict[str, list[int]] = {broker: [] for broker in plan.overlay}
    publishers: dict[int, str] = {}
    newcomers = homeless = 0

    def home(name: str, planned: Mapping[str, str], traced: str | None) -> str | None:
        nonlocal newcomers, homeless
        newcomers += name not in planned
        found = planned.get(name, traced)
        homeless += found not in known
        return found if found in known else None

    for number, name in enumerate(network.subscriptions):
        if broker := home(name, plan.subscriptions, network.subscription_homes[number]):
            known[broker].append(number)
    for number, one in enumerate(network.publishers):
        if broker := home(one.name, plan.publishers, network.publisher_homes[number]):
            publishers[number] = broker
    places = {broker: tuple(found) for broker, found in known.items()}
    return Layout(plan.overlay, places, publishers), newcomers, homeless


@dataclass(frozen=True, slots=True)
class Saving:
    """What another plan saves; `relieves`: whether brokers would be overloaded without it."""

    brokers: int
    messages_per_s: float
    percent: float
    relieves: bool

    def is_reason(self, percent_min: float) -> bool:
        """Whether it is a reason for a proposal."""
        return self.relieves or self.percent >= percent_min


def saving_of(fit: Fit, other: Plan) -> Saving:
    """What another plan saves: the share of brokers or of messages, whichever is larger; 0 if it takes more brokers.

    >>> from runnel.planning.documents.plan import BrokerLoad
    >>> other = Plan(algorithm="FBF", overlay={"A": None}, subscriptions={}, publishers={},
    ...              after={"A": BrokerLoad(60.0, 0.0, 1, 0.0, 0.0)})
    >>> saving_of(Fit(2, 100.0, 100.0), other).percent, saving_of(Fit(1, 100.0, 90.0), other).percent
    (50.0, 40.0)
    """
    messages = sum(load.messages_per_s for load in other.after.values())
    fewer = 100.0 * (1 - other.brokers / fit.brokers)
    less = 100.0 * (1 - messages / fit.messages_per_s) if fit.messages_per_s else 0.0
    percent = max(0.0, fewer, less) if other.brokers <= fit.brokers else 0.0
    return Saving(other.brokers, messages, round(percent, 9), bool(fit.overloaded))


class Memory(msgspec.Struct, frozen=True):
    """What is remembered from batch to batch."""

    plan: str = ""  # the network in force, by its digest
    streak: int = 0  # batches in a row with a reason
    armed: bool = True  # there was a batch without a reason since the last proposal
    resting: int = 0  # number of further batches without proposals
    proposed: tuple[str, ...] = ()  # networks that were proposed under this plan, by their digests

    def for_plan(self, plan: Plan) -> Memory:
        """The same, or a new one if another plan is in force."""
        return self if self.plan == plan_digest(plan) else Memory(plan_digest(plan))


def decide(
    memory: Memory, fit: Fit, other: Plan | None, limits: DriftLimits
) -> tuple[Memory, bool]:
    """Whether to propose another plan now, and what to remember. `other` is given if the workload has drifted."""
    saving = saving_of(fit, other) if other else None
    threshold = limits.saving_percent if memory.armed else limits.saving_percent / 2
    is_reason = saving is not None and saving.is_reason(threshold)
    streak = memory.streak + 1 if is_reason else 0
    armed = memory.armed or not is_reason
    due = memory.armed and not memory.resting and streak >= limits.hold
    resting = max(0, memory.resting - 1)
    if not due or other is None or plan_digest(other) in memory.proposed:
        return Memory(memory.plan, streak, armed, resting, memory.proposed), False
    return Memory(memory.plan, 0, False, limits.rest, (*memory.proposed, plan_digest(other))), True


def plan_digest(plan: Plan) -> str:
    """A digest of the network of a plan. It is the same for the same tree, whichever broker is the root.

    >>> one = Plan(algorithm="FBF", overlay={"A": None, "B": "A"}, subscriptions={}, publishers={})
    >>> two = Plan(algorithm="CRAM-IOU", overlay={"B": None, "A": "B"}, subscriptions={}, publishers={}, seed=3)
    >>> plan_digest(one) == plan_digest(two)
    True
    """
    links = sorted(sorted(pair) for pair in plan.links)
    asked = (sorted(plan.overlay), links, sorted(plan.subscriptions.items()))
    text = msgspec.json.encode((*asked, sorted(plan.publishers.items())))
    return hashlib.sha256(text).hexdigest()[:16]
