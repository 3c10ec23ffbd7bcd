"""From a network to a plan: the algorithms by name, all three phases, constraints, prediction.

    FBF · BIN PACKING · CRAM-INTERSECT · CRAM-XOR · CRAM-IOS · CRAM-IOU       know what brokers can take
    CRAM-SPLIT                                                                as CRAM-IOU, and clusters may be split
    MANUAL · AUTOMATIC · PAIRWISE-K · PAIRWISE-N                              do not know; brokers may be overloaded

CRAM hands several schemes to Phase 3: the fewest brokers for subscriptions are not always the fewest in all, since
what the overlay has to forward depends on the rate. Each is built to the end, and BIN PACKING's network with them;
the plan is the one with the fewest brokers, then the lowest rate. So CRAM never plans more brokers than BIN PACKING.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec.structs import replace as changed

from runnel.allocation.baselines import automatic, automatic_overlay, manual
from runnel.allocation.bound import lower_bound
from runnel.allocation.closeness import Metric
from runnel.allocation.clustering import CramOptions
from runnel.allocation.constraints import Constraints, Task, few_moves, fewest_moves, task_of
from runnel.allocation.cram import CramResult, cram
from runnel.allocation.layout import Layout, Load, input_ratio, output_ratio, overloaded, predicted
from runnel.allocation.load import MICRO, Bin, Item, Traffic
from runnel.allocation.network import Network
from runnel.allocation.overlay import (
    Allocate,
    OverlayOptions,
    build_overlay,
    place_publishers,
    without_idle,
)
from runnel.allocation.packing import DoesNotFit, Scheme, bin_packing, fbf
from runnel.allocation.pairwise import pairwise_scheme
from runnel.allocation.plan import MOVES_PER_S, Asked, BrokerLoad, Plan
from runnel.errors import InputError

METRICS: dict[str, Metric] = {
    "CRAM-INTERSECT": "INTERSECT",
    "CRAM-XOR": "XOR",
    "CRAM-IOS": "IOS",
    "CRAM-IOU": "IOU",
    "CRAM-SPLIT": "IOU",
}
AWARE = ("FBF", "BIN PACKING", *METRICS)
UNAWARE = ("MANUAL", "AUTOMATIC", "PAIRWISE-K", "PAIRWISE-N")
ALGORITHMS = (*AWARE, *UNAWARE)
NAMES = {name.lower().replace(" ", "-"): name for name in ALGORITHMS}
"""The algorithms by the names that people write."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How to plan. `relocate`: whether GRAPE places the publishers, or they stay at the root."""

    algorithm: str = "CRAM-IOU"
    seed: int = 0
    cram: CramOptions = field(default_factory=CramOptions)  # its metric is the algorithm's
    overlay: OverlayOptions = field(default_factory=OverlayOptions)
    relocate: bool = True
    moves_per_s: float = MOVES_PER_S


@dataclass(frozen=True, slots=True)
class Outcome:
    """A layout, and how CRAM came to it."""

    layout: Layout
    cram: CramResult | None = None


def make_plan(
    network: Network,
    options: PlanOptions | None = None,
    constraints: Constraints | None = None,
) -> Plan:
    """Plan a network; an error says what cannot be served, and why.

    >>> from runnel.allocation.load import Capacity
    >>> from runnel.allocation.profiles import PublisherProfile
    >>> network = Network(
    ...     brokers=(Capacity("A", 100.0), Capacity("B", 100.0), Capacity("C", 100.0)),
    ...     publishers=tuple(PublisherProfile(name, 10.0, 60.0, last=9) for name in "PQ"),
    ...     subscriptions=("s", "t", "u"),
    ...     profiles=({0: 0b1111111111}, {1: 0b1111111111}, {0: 0b11}),
    ...     spans=(10, 10),
    ... )
    >>> plan = make_plan(network)
    >>> plan.subscriptions, plan.publishers, plan.brokers_at_least
    ({'s': 'A', 't': 'B', 'u': 'A'}, {'P': 'A', 'Q': 'B'}, 2)
    """
    options, constraints = options or PlanOptions(), constraints or Constraints()
    return changed(_kept(network, options, constraints), asked=asked_of(constraints))


def asked_of(constraints: Constraints) -> Asked:
    """The constraints, as the document has them."""
    return Asked(
        constraints.headroom_percent,
        constraints.max_moves,
        list(constraints.excluded),
        dict(constraints.pinned),
    )


def _kept(network: Network, options: PlanOptions, constraints: Constraints) -> Plan:
    """A plan that keeps to the most moves that there may be."""
    plan = _plan(network, options, constraints)
    most = constraints.max_moves
    if most is None or len(plan.moved) <= most:
        return plan
    # The more brokers are emptied the better: the first that works is the plan.
    for kept in few_moves(network, constraints, most):
        try:
            plan = _plan(network, options, kept)
        except InputError:
            continue
        if len(plan.moved) <= most:
            return plan
    return _as_it_is(network, options, constraints)


def _as_it_is(network: Network, options: PlanOptions, constraints: Constraints) -> Plan:
    """The network unchanged, if it keeps to the constraints: where few moves buy nothing better."""
    items, layout = network.items(), network.layout()
    task = task_of(network, constraints, items)
    bins = {one.name: one for one in task.bins}
    if layout and all(broker in bins for broker in layout.parents):
        loads = predicted(layout, items, network.traffic())
        homes = {network.subscriptions[n]: home for n, home in layout.homes.items()}
        homes |= {network.publishers[n].name: home for n, home in layout.publishers.items()}
        stays = all(homes[client] == broker for client, broker in constraints.pinned.items())
        if stays and not overloaded(loads, bins):
            return _document(network, layout, task, items, options)
    raise InputError(
        f"no plan was found with at most {constraints.max_moves} moves: allow more, or exclude fewer brokers"
    )


def _plan(network: Network, options: PlanOptions, constraints: Constraints) -> Plan:
    items = network.items()
    task = task_of(network, constraints, items)
    try:
        layout = lay_out(task, items, network.traffic(), options).layout
    except DoesNotFit as error:
        raise error.named(network.subscriptions) from None
    if options.algorithm in AWARE:
        layout = layout.renamed(fewest_moves(layout, network, task.bins))
    return _document(network, layout, task, items, options)


def lay_out(task: Task, items: Sequence[Item], traffic: Traffic, options: PlanOptions) -> Outcome:
    """The network that an algorithm makes, its publishers placed."""
    if options.algorithm not in ALGORITHMS:
        raise InputError(
            f"there is no algorithm {options.algorithm!r}; there are {', '.join(ALGORITHMS)}"
        )
    if options.algorithm in UNAWARE:
        return _unaware(task, traffic, options)
    candidates, result = _candidates(task, traffic, options)
    return Outcome(best_layout(candidates, task, items, traffic, options), result)


def best_layout(
    candidates: Sequence[tuple[Scheme, Allocate]],
    task: Task,
    items: Sequence[Item],
    traffic: Traffic,
    options: PlanOptions,
) -> Layout:
    """Phase 3 for every scheme, with the algorithm that it came from; the fewest brokers win, then the lowest rate."""
    bins = {one.name: one for one in task.bins}
    best: tuple[int, int, Layout] | None = None
    over: list[str] = []
    for scheme, allocate in candidates:
        layout = build_overlay(scheme, items, task.bins, traffic, allocate, options.overlay)
        layout = _finished(layout, task, items, traffic, options)
        loads = predicted(layout, items, traffic)
        over = overloaded(loads, bins)
        rank = (len(loads), sum(load.input for load in loads.values()))
        if not over and (best is None or rank < best[:2]):
            best = (*rank, layout)
    if best is None:
        raise InputError(
            f"the subscriptions fit, but no overlay carries the traffic between them: {over[0]} would "
            "be overloaded. Add stronger brokers, pin fewer clients, or ask for less head-room"
        )
    return best[2]


def _finished(
    layout: Layout, task: Task, items: Sequence[Item], traffic: Traffic, options: PlanOptions
) -> Layout:
    """A tree with its publishers placed, and without the brokers that are of no use then."""
    bins = {one.name: one for one in task.bins}
    if not options.relocate:
        return replace(layout, publishers={**layout.publishers, **task.publishers})
    layout = place_publishers(layout, items, traffic, bins, task.publishers)
    return without_idle(layout, items, traffic, bins) if options.overlay.drop_idle else layout


def _candidates(
    task: Task, traffic: Traffic, options: PlanOptions
) -> tuple[list[tuple[Scheme, Allocate]], CramResult | None]:
    """Phase 2: the schemes of an algorithm that knows what brokers can take, and how each goes on in Phase 3."""
    name = options.algorithm
    if name == "FBF":

        def by_fbf(some: Sequence[Item], bins: Sequence[Bin], traffic: Traffic) -> Scheme:
            return fbf(some, bins, traffic, options.seed)

        return [(by_fbf(task.items, task.bins, traffic), by_fbf)], None
    packed = (bin_packing(task.items, task.bins, traffic), bin_packing)
    if name == "BIN PACKING":
        return [packed], None
    split = options.cram.split or name == "CRAM-SPLIT"
    chosen = replace(options.cram, metric=METRICS[name], split=split)
    result = cram(task.items, task.bins, traffic, chosen)

    def by_cram(some: Sequence[Item], bins: Sequence[Bin], traffic: Traffic) -> Scheme:
        return cram(some, bins, traffic, chosen).best

    return [*((scheme, by_cram) for scheme in result.schemes), packed], result


def _unaware(task: Task, traffic: Traffic, options: PlanOptions) -> Outcome:
    """The baselines and the related work."""
    seed, publishers = options.seed, len(traffic.publishers)
    if any(one.base for one in task.bins) or task.publishers:
        raise InputError(
            f"{options.algorithm} knows no pinned clients: take CRAM-IOU or BIN PACKING"
        )
    if not task.bins:
        raise InputError("there is no broker that may be used: exclude fewer")
    if options.algorithm in ("MANUAL", "AUTOMATIC"):
        make = manual if options.algorithm == "MANUAL" else automatic
        return Outcome(make(task.bins, len(task.items), publishers, seed))
    names = [one.name for one in task.bins]
    result = None
    clusters = len(names)
    if options.algorithm == "PAIRWISE-K":
        result = cram(task.items, task.bins, traffic, replace(options.cram, metric="XOR"))
        clusters = result.units
    scheme = pairwise_scheme(task.items, names, traffic, clusters, seed)
    return Outcome(automatic_overlay(scheme, publishers, seed), result)


def _document(
    network: Network, layout: Layout, task: Task, items: Sequence[Item], options: PlanOptions
) -> Plan:
    traffic, old = network.traffic(), network.layout()
    movable = [*task.items, *(one.base for one in task.bins if one.base)]
    judged = Judged(
        predicted(old, items, traffic) if old else {},
        predicted(layout, items, traffic),
        lower_bound(movable, task.bins, traffic),
        sum(1 for one in items if not one.profile),
    )
    return document(network, layout, judged, options)


@dataclass(frozen=True, slots=True)
class Judged:
    """What brokers have to do now and then, the lower bound, and how many subscriptions are without traffic."""

    before: Mapping[str, Load]
    after: Mapping[str, Load]
    at_least: int
    quiet: int


def document(network: Network, layout: Layout, judged: Judged, options: PlanOptions) -> Plan:
    """The plan that has everybody where the layout has them."""
    plain = {one.name: one for one in network.bins()}
    subscriptions = {network.subscriptions[n]: broker for n, broker in sorted(layout.homes.items())}
    publishers = {
        network.publishers[n].name: broker for n, broker in sorted(layout.publishers.items())
    }
    was = dict(zip(network.subscriptions, network.subscription_homes, strict=False))
    was |= zip([one.name for one in network.publishers], network.publisher_homes, strict=False)
    will = {**subscriptions, **publishers}
    moved = [name for name, home in will.items() if was.get(name) not in (None, home)]
    quiet, after = judged.quiet, judged.after
    notes = [f"{quiet:,} subscriptions without traffic need no output"] if quiet else []
    over = overloaded(after, plain)
    notes += [f"{len(over)} brokers would be overloaded: {', '.join(over[:5])}"] if over else []
    return Plan(
        algorithm=options.algorithm,
        seed=options.seed,
        overlay=dict(layout.parents),
        subscriptions=subscriptions,
        publishers=publishers,
        before={broker: _told(load, plain[broker]) for broker, load in judged.before.items()},
        after={broker: _told(load, plain[broker]) for broker, load in after.items()},
        freed=[one.name for one in network.brokers if one.name not in layout.parents],
        moved=moved,
        estimated_s=round(len(moved) / options.moves_per_s, 3),
        brokers_at_least=judged.at_least,
        notes=notes,
    )


def _told(load: Load, one: Bin) -> BrokerLoad:
    return BrokerLoad(
        round(load.input / MICRO, 6),
        round(load.output / MICRO, 3),
        load.subscriptions,
        round(input_ratio(load, one), 6),
        round(output_ratio(load, one), 6),
    )
