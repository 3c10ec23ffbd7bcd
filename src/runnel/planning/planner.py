"""From a network to a plan: the algorithms by name, all three phases, constraints, prediction.

    FBF · BIN PACKING · CRAM-INTERSECT · CRAM-XOR · CRAM-IOS · CRAM-IOU       respect the capacities of brokers
    CRAM-SPLIT                                                                as CRAM-IOU, and clusters may be split
    MANUAL · AUTOMATIC · PAIRWISE-K · PAIRWISE-N                              ignore them; brokers may be overloaded

CRAM hands several schemes to Phase 3: the scheme with the fewest brokers for subscriptions does not always lead to the
fewest brokers in total, since the overlay forwards more if the rate is higher. Phase 3 is carried out for each of
them, and for BIN PACKING's scheme. The plan is the network with the fewest brokers, then the lowest rate; so CRAM
never plans more brokers than BIN PACKING.

Phase 2 may fill brokers so far that none has the capacity left that the overlay needs, and so may the optimisations of
Phase 3 that save brokers. The paper does not say what to do then. Here Phase 3 is carried out again without these, then
Phase 2 with a smaller share of every broker (`SHARES`), until an overlay fits or the subscriptions do not fit any more.
If CRAM comes to nothing and the network is small, all plans are tried (algorithms/small.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec.structs import replace as changed

from runnel.errors import BugError, InputError
from runnel.planning.algorithms.baselines import (
    automatic_layout,
    layout_on_random_tree,
    manual_layout,
)
from runnel.planning.algorithms.bound import lower_bound
from runnel.planning.algorithms.cram.closeness import Metric
from runnel.planning.algorithms.cram.clustering import CramOptions
from runnel.planning.algorithms.cram.cram import CramResult, cram
from runnel.planning.algorithms.overlay import (
    Allocate,
    OverlayOptions,
    build_overlay,
    drop_idle_brokers,
    place_publishers,
)
from runnel.planning.algorithms.packing import DoesNotFit, Scheme, bin_packing, fbf
from runnel.planning.algorithms.pairwise import pairwise_scheme
from runnel.planning.algorithms.quiet import deal_quiet
from runnel.planning.algorithms.small import search_small
from runnel.planning.documents.constraints import (
    Constraints,
    Task,
    assign_roles,
    constraints_for_few_moves,
    task_of,
)
from runnel.planning.documents.plan import MOVES_PER_S, BrokerLoad, Plan, RequestedConstraints
from runnel.planning.layout import (
    Layout,
    PredictedLoad,
    input_ratio,
    output_ratio,
    overloaded_brokers,
    predict_loads,
)
from runnel.planning.load import MICRO, Bin, Item, Traffic
from runnel.planning.network import Network

METRICS: dict[str, Metric] = {
    "CRAM-INTERSECT": "INTERSECT",
    "CRAM-XOR": "XOR",
    "CRAM-IOS": "IOS",
    "CRAM-IOU": "IOU",
    "CRAM-SPLIT": "IOU",
}
CAPACITY_AWARE = ("FBF", "BIN PACKING", *METRICS)
CAPACITY_UNAWARE = ("MANUAL", "AUTOMATIC", "PAIRWISE-K", "PAIRWISE-N")
ALGORITHMS = (*CAPACITY_AWARE, *CAPACITY_UNAWARE)
NAMES = {name.lower().replace(" ", "-"): name for name in ALGORITHMS}
"""The algorithms by the names that users write."""


SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
"""The shares of every broker that Phase 2 may fill, one after the other, until an overlay fits."""


class NoOverlayFits(InputError):  # noqa: N818 - named for what it reports
    """All subscriptions have a broker, but no overlay between these brokers has the capacity for the traffic."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How to plan. `relocate`: whether GRAPE places the publishers; otherwise they stay at the root."""

    algorithm: str = "CRAM-IOU"
    seed: int = 0
    cram: CramOptions = field(default_factory=CramOptions)  # its metric is the algorithm's
    overlay: OverlayOptions = field(default_factory=OverlayOptions)
    relocate: bool = True
    moves_per_s: float = MOVES_PER_S


@dataclass(frozen=True, slots=True)
class Outcome:
    """A layout, and the result of CRAM if that was run."""

    layout: Layout
    cram: CramResult | None = None


def make_plan(
    network: Network,
    options: PlanOptions | None = None,
    constraints: Constraints | None = None,
) -> Plan:
    """Plan a network; an error says what cannot be served, and why.

    >>> from runnel.planning.load import Capacity
    >>> from runnel.planning.profiles import PublisherProfile
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
    network = replace(network, foresight=constraints.foresight)
    return changed(
        _plan_within_moves(network, options, constraints), asked=requested_constraints(constraints)
    )


def requested_constraints(constraints: Constraints) -> RequestedConstraints:
    """The constraints in the form in which the document has them."""
    return RequestedConstraints(
        constraints.headroom_percent,
        constraints.max_moves,
        list(constraints.excluded),
        dict(constraints.pinned),
        constraints.foresight.deviations if constraints.foresight else None,
    )


def _plan_within_moves(network: Network, options: PlanOptions, constraints: Constraints) -> Plan:
    """A plan within `max_moves`, if the constraints have that; otherwise any plan."""
    plan = _plan_once(network, options, constraints)
    most = constraints.max_moves
    if most is None or len(plan.moved) <= most:
        return plan
    # They come with the most emptied brokers first, so the first that works is the plan.
    for narrower in constraints_for_few_moves(network, constraints, most):
        try:
            plan = _plan_once(network, options, narrower)
        except InputError:
            continue
        if len(plan.moved) <= most:
            return plan
    return _unchanged_plan(network, options, constraints)


def _unchanged_plan(network: Network, options: PlanOptions, constraints: Constraints) -> Plan:
    """A plan that leaves the network as it is, if it meets the constraints: for when so few moves gain nothing."""
    items, layout = network.items(), network.layout()
    task = task_of(network, constraints, items)
    bins = {one.name: one for one in task.bins}
    if layout and all(broker in bins for broker in layout.parents):
        loads = predict_loads(layout, items, network.traffic())
        homes = {network.subscriptions[n]: home for n, home in layout.homes.items()}
        homes |= {network.publishers[n].name: home for n, home in layout.publishers.items()}
        stays = all(homes[client] == broker for client, broker in constraints.pinned.items())
        if stays and not overloaded_brokers(loads, bins):
            return _assess_and_document(network, layout, task, items, options)
    raise InputError(
        f"no plan was found with at most {constraints.max_moves} moves: allow more, or exclude fewer brokers"
    )


def _plan_once(network: Network, options: PlanOptions, constraints: Constraints) -> Plan:
    items = network.items()
    task = task_of(network, constraints, items)
    try:
        layout = lay_out(task, items, network.traffic(), options).layout
    except DoesNotFit as error:
        raise error.with_names(network.subscriptions) from None
    if options.algorithm in CAPACITY_AWARE:
        layout = layout.rename_brokers(assign_roles(layout, network, task.bins))
    return _assess_and_document(network, layout, task, items, options)


def lay_out(task: Task, items: Sequence[Item], traffic: Traffic, options: PlanOptions) -> Outcome:
    """The layout that an algorithm makes, with the publishers placed."""
    if options.algorithm not in ALGORITHMS:
        raise InputError(
            f"there is no algorithm {options.algorithm!r}; there are {', '.join(ALGORITHMS)}"
        )
    if options.algorithm in CAPACITY_UNAWARE:
        return _lay_out_unaware(task, traffic, options)
    try:
        return _lay_out_in_shares(task, items, traffic, options)
    except (DoesNotFit, NoOverlayFits):
        if task.publishers:
            try:
                return _lay_out_in_shares(task.without_reserve(items), items, traffic, options)
            except (DoesNotFit, NoOverlayFits):
                pass
        found = None
        if options.algorithm in METRICS:
            found = search_small(items, task.bins, task.publishers, traffic, options.relocate)
        if found is None:
            raise
    return Outcome(_improve_homes(found, task, items, traffic, options))


def _improve_homes(
    layout: Layout, task: Task, items: Sequence[Item], traffic: Traffic, options: PlanOptions
) -> Layout:
    """The same tree with publishers where they cause less load, if nothing is overloaded by it."""
    better = _finish_layout(layout, task, items, traffic, options)
    bins = {one.name: one for one in task.bins}
    return layout if overloaded_brokers(predict_loads(better, items, traffic), bins) else better


def _lay_out_in_shares(
    task: Task, items: Sequence[Item], traffic: Traffic, options: PlanOptions
) -> Outcome:
    """Phases 2 and 3, with ever smaller shares of brokers for Phase 2 until an overlay fits."""
    sparing = replace(options, overlay=replace(options.overlay, take_over=False, best_fit=False))
    error: NoOverlayFits | None = None
    for share in SHARES:
        smaller = replace(task, bins=tuple(one.shrink(share) for one in task.bins))
        try:
            candidates, result = _candidate_schemes(smaller, traffic, options)
        except DoesNotFit as found:
            raise error or found from None
        for attempt in (options, sparing):
            try:
                return Outcome(best_layout(candidates, task, items, traffic, attempt), result)
            except NoOverlayFits as found:
                error = error or found
    raise error or BugError("Phase 3 was carried out for no share of the brokers")


def best_layout(
    candidates: Sequence[tuple[Scheme, Allocate]],
    task: Task,
    items: Sequence[Item],
    traffic: Traffic,
    options: PlanOptions,
) -> Layout:
    """Phase 3 for every scheme, with the algorithm of that scheme; the fewest brokers win, then the lowest rate."""
    bins = {one.name: one for one in task.bins}
    best: tuple[int, int, Layout] | None = None
    over: list[str] = []
    for scheme, allocate in candidates:
        layout = build_overlay(scheme, items, task.bins, traffic, allocate, options.overlay)
        layout = _finish_layout(layout, task, items, traffic, options)
        layout = deal_quiet(layout, task.quiet, items, traffic, bins)
        loads = predict_loads(layout, items, traffic)
        over = overloaded_brokers(loads, bins)
        rank = (len(loads), sum(load.input for load in loads.values()))
        if not over and (best is None or rank < best[:2]):
            best = (*rank, layout)
    if best is None:
        raise NoOverlayFits(
            f"the subscriptions fit, but no overlay carries the traffic between them: {over[0]} would "
            "be overloaded. Add stronger brokers, pin fewer clients, or ask for less head-room"
        )
    return best[2]


def _finish_layout(
    layout: Layout, task: Task, items: Sequence[Item], traffic: Traffic, options: PlanOptions
) -> Layout:
    """Place the publishers in a tree, and drop the brokers through which nothing flows any more."""
    bins = {one.name: one for one in task.bins}
    if not options.relocate:
        return replace(layout, publishers={**layout.publishers, **task.publishers})
    layout = place_publishers(layout, items, traffic, bins, task.publishers)
    return drop_idle_brokers(layout, items, traffic, bins) if options.overlay.drop_idle else layout


def _candidate_schemes(
    task: Task, traffic: Traffic, options: PlanOptions
) -> tuple[list[tuple[Scheme, Allocate]], CramResult | None]:
    """Phase 2: the schemes of a capacity-aware algorithm, each with the algorithm that allocates in Phase 3."""
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


def _lay_out_unaware(task: Task, traffic: Traffic, options: PlanOptions) -> Outcome:
    """The layout of a baseline or of the related work, which ignore capacities."""
    seed, publishers = options.seed, len(traffic.publishers)
    if any(one.base for one in task.bins) or task.publishers:
        raise InputError(
            f"{options.algorithm} cannot keep clients pinned: take CRAM-IOU or BIN PACKING"
        )
    if traffic.foresight:
        raise InputError(
            f"{options.algorithm} ignores what brokers can do, so it leaves no head-room: take CRAM-IOU"
        )
    if not task.bins:
        raise InputError("there is no broker that may be used: exclude fewer")
    if options.algorithm in ("MANUAL", "AUTOMATIC"):
        make = manual_layout if options.algorithm == "MANUAL" else automatic_layout
        return Outcome(make(task.bins, len(task.items), publishers, seed))
    names = [one.name for one in task.bins]
    result = None
    clusters = None
    if options.algorithm == "PAIRWISE-K":
        result = cram(task.items, task.bins, traffic, replace(options.cram, metric="XOR"))
        clusters = max(1, result.units)
    scheme = pairwise_scheme(task.items, names, traffic, clusters, seed)
    return Outcome(layout_on_random_tree(scheme, publishers, seed), result)


def _assess_and_document(
    network: Network, layout: Layout, task: Task, items: Sequence[Item], options: PlanOptions
) -> Plan:
    """The document; `items` are as they were packed, while its loads are those of the profiles' window."""
    as_it_was, old = replace(network, foresight=None), network.layout()
    traffic, was = as_it_was.traffic(), as_it_was.items()
    peaks = predict_loads(layout, items, network.traffic()) if network.foresight else {}
    judged = Assessment(
        predict_loads(old, was, traffic) if old else {},
        predict_loads(layout, was, traffic),
        lower_bound(was, task.bins, traffic),
        sum(1 for one in items if not one.profile),
        peaks,
    )
    return make_document(network, layout, judged, options)


@dataclass(frozen=True, slots=True)
class Assessment:
    """The loads of brokers now and as planned, the lower bound, and how many subscriptions have no traffic.

    `peaks` are the loads to be reckoned with, where head-room is learned.
    """

    before: Mapping[str, PredictedLoad]
    after: Mapping[str, PredictedLoad]
    at_least: int
    quiet: int
    peaks: Mapping[str, PredictedLoad] = field(default_factory=dict)


def make_document(
    network: Network, layout: Layout, judged: Assessment, options: PlanOptions
) -> Plan:
    """The plan document of a layout."""
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
    over = overloaded_brokers(judged.peaks or after, plain)
    notes += [f"{len(over)} brokers would be overloaded: {', '.join(over[:5])}"] if over else []
    return Plan(
        algorithm=options.algorithm,
        seed=options.seed,
        overlay=dict(layout.parents),
        subscriptions=subscriptions,
        publishers=publishers,
        before={
            broker: _broker_load(load, plain[broker]) for broker, load in judged.before.items()
        },
        after={
            broker: _broker_load(load, plain[broker], judged.peaks.get(broker))
            for broker, load in after.items()
        },
        freed=[one.name for one in network.brokers if one.name not in layout.parents],
        moved=moved,
        estimated_s=round(len(moved) / options.moves_per_s, 3),
        brokers_at_least=judged.at_least,
        notes=notes,
    )


def _broker_load(load: PredictedLoad, one: Bin, peak: PredictedLoad | None = None) -> BrokerLoad:
    return BrokerLoad(
        round(load.input / MICRO, 6),
        round(load.output / MICRO, 3),
        load.subscriptions,
        round(input_ratio(load, one), 6),
        round(output_ratio(load, one), 6),
        round(output_ratio(peak, one), 6) if peak else None,
    )
