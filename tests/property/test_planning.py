"""Properties of every plan, for random networks: a simulation of single publications checks the plan.

The simulation shares no code with the planner's own prediction: it sends every publication of every window through the
tree, one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from runnel.errors import InputError
from runnel.planning.algorithms.bound import lower_bound
from runnel.planning.algorithms.cram.closeness import closeness
from runnel.planning.algorithms.cram.clustering import CramOptions
from runnel.planning.algorithms.cram.cram import cram
from runnel.planning.algorithms.cram.exhaustive import ExhaustiveSearch
from runnel.planning.algorithms.cram.gifs import Gif, group_by_profile
from runnel.planning.algorithms.cram.poset import GifPoset
from runnel.planning.algorithms.exact import pack_exactly
from runnel.planning.algorithms.packing import DoesNotFit, Order, Packer, Scheme, bin_packing, fbf
from runnel.planning.documents.constraints import Constraints, Task, task_of
from runnel.planning.documents.plan import Plan, from_json, to_json
from runnel.planning.layout import Layout, predict_loads
from runnel.planning.load import MICRO, Bin, Capacity, Delay, Item, Traffic
from runnel.planning.network import Network
from runnel.planning.planner import ALGORITHMS, CAPACITY_AWARE, PlanOptions, lay_out, make_plan
from runnel.planning.profiles import Profile, PublisherProfile
from support.effort import bounded_plans, examples

SPAN = 12


@st.composite
def profiles(draw: st.DrawFn, publishers: int) -> Profile:
    """Nothing, one publisher (mostly) or several; thresholds, so that covering is common, or any bits."""
    found = {}
    for number in draw(st.sets(st.integers(0, publishers - 1), max_size=2)):
        shape = draw(st.sampled_from(["all", "low", "high", "any"]))
        cut = draw(st.integers(1, SPAN))
        some = (1 << cut) - 1
        found[number] = {
            "all": (1 << SPAN) - 1,
            "low": some,
            "high": some << (SPAN - cut),
            "any": draw(st.integers(1, (1 << SPAN) - 1)),
        }[shape]
    return found


@st.composite
def networks(draw: st.DrawFn, subscriptions: int = 16, brokers: int = 7) -> Network:
    """A small network on a chain, with clients anywhere."""
    count = draw(st.integers(2, brokers))
    delay = draw(st.sampled_from([Delay(), Delay(60_000_000, 10_000_000)]))
    capacities = [
        Capacity(f"B{n}", draw(st.sampled_from([30.0, 60.0, 100.0, 200.0])), delay)
        for n in range(count)
    ]
    publishers = [
        PublisherProfile(f"P{n}", draw(st.sampled_from([1.0, 3.5])), 24.0, SPAN - 1)
        for n in range(draw(st.integers(1, 3)))
    ]
    least = draw(st.sampled_from([1, subscriptions // 2]))
    wanted = draw(st.lists(profiles(len(publishers)), min_size=least, max_size=subscriptions))
    homes = st.sampled_from([one.name for one in capacities])
    return Network(
        tuple(capacities),
        tuple(publishers),
        tuple(f"s{n}" for n in range(len(wanted))),
        tuple(wanted),
        (SPAN,) * len(publishers),
        tuple((f"B{n}", f"B{n + 1}") for n in range(count - 1)),
        tuple(draw(homes) for _ in publishers),
        tuple(draw(homes) for _ in wanted),
    )


def simulate(
    network: Network, plan: Plan
) -> tuple[dict[str, float], dict[str, float], set[tuple[str, str, int]]]:
    """Send every publication of every window: messages in and bytes out per second of each broker, and deliveries."""
    neighbours: dict[str, list[str]] = {broker: [] for broker in plan.overlay}
    for broker, parent in plan.overlay.items():
        if parent is not None:
            neighbours[broker].append(parent)
            neighbours[parent].append(broker)
    incoming = dict.fromkeys(plan.overlay, 0.0)
    outgoing = dict.fromkeys(plan.overlay, 0.0)
    delivered: set[tuple[str, str, int]] = set()

    def wanted_beyond(broker: str, before: str | None, publisher: int, place: int) -> bool:
        here = any(
            plan.subscriptions[name] == broker and profile.get(publisher, 0) >> place & 1
            for name, profile in zip(network.subscriptions, network.profiles, strict=True)
        )
        return here or any(
            wanted_beyond(other, broker, publisher, place)
            for other in neighbours[broker]
            if other != before
        )

    def arrive(broker: str, before: str | None, publisher: int, place: int) -> None:
        about = network.publishers[publisher]
        size = about.bandwidth / SPAN
        incoming[broker] += about.rate / SPAN
        for name, profile in zip(network.subscriptions, network.profiles, strict=True):
            if plan.subscriptions[name] == broker and profile.get(publisher, 0) >> place & 1:
                assert (name, about.name, place) not in delivered, "delivered twice"
                delivered.add((name, about.name, place))
                outgoing[broker] += size
        for other in neighbours[broker]:
            if other != before and wanted_beyond(other, broker, publisher, place):
                outgoing[broker] += size
                arrive(other, broker, publisher, place)

    for number, one in enumerate(network.publishers):
        for place in range(SPAN):
            arrive(plan.publishers[one.name], None, number, place)
    return incoming, outgoing, delivered


def check_plan(network: Network, plan: Plan, capacities: bool) -> None:
    assert list(plan.subscriptions) == list(network.subscriptions), "each is placed exactly once"
    assert set(plan.overlay) <= {one.name for one in network.brokers}
    assert from_json(to_json(plan)) == plan, "also: one tree, everybody at a broker of it"
    incoming, outgoing, delivered = simulate(network, plan)
    wanted = {
        (name, one.name, place)
        for name, profile in zip(network.subscriptions, network.profiles, strict=True)
        for number, one in enumerate(network.publishers)
        for place in range(SPAN)
        if profile.get(number, 0) >> place & 1
    }
    assert delivered == wanted
    children = [parent for parent in plan.overlay.values() if parent is not None]
    for one in network.brokers:
        if one.name in plan.overlay:
            predicted = plan.after[one.name]
            assert predicted.messages_per_s == pytest.approx(incoming[one.name], abs=1e-4)
            assert predicted.output_bytes_per_s == pytest.approx(outgoing[one.name], abs=1e-2)
            if capacities:
                assert one.output is not None and outgoing[one.name] < one.output + 1e-4
                count = list(plan.subscriptions.values()).count(one.name) + children.count(one.name)
                assert incoming[one.name] * MICRO <= one.delay.rate(count) + 100


@examples(250)
@given(network=networks(), algorithm=st.sampled_from(ALGORITHMS), seed=st.integers(0, 3))
def test_every_plan_delivers_everything_within_what_brokers_can_take(
    network: Network, algorithm: str, seed: int
) -> None:
    options = PlanOptions(algorithm, seed)
    event(f"matching limits: {network.brokers[0].delay.takes_time}")
    try:
        plan = make_plan(network, options)
    except InputError as error:
        event(f"{algorithm}: {str(error)[:24]}")
        assume(False)
    event(f"{algorithm}: planned")
    check_plan(network, plan, capacities=algorithm in CAPACITY_AWARE)
    assert make_plan(network, options) == plan, "one seed, one plan"
    if algorithm in CAPACITY_AWARE:
        assert plan.brokers >= plan.brokers_at_least


@examples(150)
@given(network=networks(), data=st.data())
def test_every_plan_keeps_to_its_constraints(network: Network, data: st.DataObject) -> None:
    names = [one.name for one in network.brokers]
    clients = [*network.subscriptions, *(one.name for one in network.publishers)]
    excluded = tuple(data.draw(st.sets(st.sampled_from(names), max_size=len(names) // 2)))
    left = [name for name in names if name not in excluded]
    pins = data.draw(st.dictionaries(st.sampled_from(clients), st.sampled_from(left), max_size=3))
    headroom = data.draw(st.sampled_from([0.0, 10.0, 40.0]))
    most = data.draw(st.none() | st.integers(0, len(clients)))
    constraints = Constraints(pins, tuple(sorted(excluded)), headroom, most)
    try:
        plan = make_plan(network, PlanOptions("CRAM-IOU"), constraints)
    except InputError as error:
        event(str(error)[:24])
        assume(False)
    event(f"planned, moves limited: {most is not None}")
    check_plan(network, plan, capacities=True)
    homes = {**plan.publishers, **plan.subscriptions}
    assert all(homes[client] == broker for client, broker in pins.items())
    assert not set(excluded) & set(plan.overlay)
    assert all(load.output_ratio <= 1 - headroom / 100 + 1e-6 for load in plan.after.values())
    was = dict(zip(network.subscriptions, network.subscription_homes, strict=True))
    was |= zip([one.name for one in network.publishers], network.publisher_homes, strict=True)
    assert plan.moved == [name for name in homes_in_order(plan) if homes[name] != was[name]]
    assert most is None or len(plan.moved) <= most


def homes_in_order(plan: Plan) -> list[str]:
    return [*plan.subscriptions, *plan.publishers]


@examples(150)
@given(
    network=networks(),
    metric=st.sampled_from(["INTERSECT", "XOR", "IOS", "IOU"]),
    switches=st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()),
)
def test_cram_is_never_worse_than_bin_packing(
    network: Network, metric: str, switches: tuple[bool, bool, bool, bool]
) -> None:
    items, bins, traffic = network.items(), network.bins(), network.traffic()
    options = CramOptions(metric, *switches, judge_every=1)  # type: ignore[arg-type]
    try:
        packed = bin_packing(items, bins, traffic)
    except DoesNotFit:
        with pytest.raises(DoesNotFit) as caught:
            cram(items, bins, traffic, options)
        assert caught.value.reasons, "somebody does not fit"
        return
    result = cram(items, bins, traffic, options)
    assert (result.best.brokers, result.best.rate) <= (packed.brokers, packed.rate)
    for scheme in result.schemes:
        check_scheme(scheme, items, bins, traffic)
    pairs = [(scheme.brokers, -scheme.rate) for scheme in result.schemes]
    assert pairs == sorted(pairs), "more brokers only for a lower rate"


def check_scheme(
    scheme: Scheme, items: Sequence[Item], bins: Sequence[Bin], traffic: Traffic
) -> None:
    """Every item is placed once, every broker is within both limits, and the rate is right."""
    placed = sorted(number for numbers in scheme.placed.values() for number in numbers)
    assert placed == list(range(len(items)))
    total = 0
    for one in bins:
        there = [items[number] for number in scheme.placed.get(one.name, ())]
        taken: Profile = {}
        for item in there:
            for publisher, bits in item.profile.items():
                taken[publisher] = taken.get(publisher, 0) | bits
        assert sum(item.need for item in there) <= one.room
        assert traffic.rate(taken) <= one.delay.rate(len(there))
        total += traffic.rate(taken)
    assert scheme.rate == total


def slow_first_fit(
    order: Sequence[int], items: Sequence[Item], bins: Sequence[Bin], traffic: Traffic
) -> list[list[int]] | None:
    """First fit as the paper describes it: item by item."""
    inside: list[list[int]] = [[] for _ in bins]
    for number in order:
        for place, one in enumerate(bins):
            then = [items[n] for n in [*inside[place], number]]
            taken: Profile = {}
            for item in then:
                for publisher, bits in item.profile.items():
                    taken[publisher] = taken.get(publisher, 0) | bits
            need = sum(item.need for item in then)
            if need <= one.room and traffic.rate(taken) <= one.delay.rate(len(then)):
                inside[place].append(number)
                break
        else:
            return None
    return inside


@examples(200)
@given(network=networks(subscriptions=25), seed=st.integers(0, 5))
def test_packing_broker_by_broker_is_first_fit_item_by_item(network: Network, seed: int) -> None:
    items, traffic = network.items(), network.traffic()
    bins = sorted(network.bins(), key=lambda one: -one.room)
    order = sorted(range(len(items)), key=lambda number: (-items[number].need, number))
    expected = slow_first_fit(order, items, bins, traffic)
    packer = Packer(bins, list(items), traffic)
    sorted_items = Order((number, one.need) for number, one in enumerate(items))
    assert sorted_items.numbers() == order
    runs = packer.pack_sorted(sorted_items)
    assert (runs is None) == (expected is None)
    if runs is not None and expected is not None:
        found = [[order[at] for start, end in run for at in range(start, end)] for run in runs]
        assert found == expected[: len(found)] and not any(expected[len(found) :])
    Random(f"{seed}/fbf").shuffle(shuffled := list(range(len(items))))
    drawn = slow_first_fit(shuffled, items, bins, traffic)
    if drawn is not None:
        placed = fbf(items, bins, traffic, seed).placed
        assert [list(placed.get(one.name, ())) for one in bins] == drawn


@examples(200)
@given(network=networks(subscriptions=30), drops=st.lists(st.integers(0, 29), max_size=10))
def test_the_poset_holds_and_the_search_by_matrix_is_exact(
    network: Network, drops: list[int]
) -> None:
    gifs = group_by_profile(network.items())
    poset, matrix = GifPoset("IOU"), ExhaustiveSearch("IOU", network.spans)
    poset.add_all(gifs[::2])
    matrix.add_all(gifs[::2])
    for gif in gifs[1::2]:
        poset.add(gif)
        matrix.add(gif)
    alive = dict(enumerate(gifs))
    for drop in drops:
        if drop in alive:
            gif = alive.pop(drop)
            poset.remove(gif)
            matrix.remove(gif)
    check_poset(list(alive.values()))
    for gif in alive.values():
        values = [
            closeness("IOU", gif.profile, other.profile)
            for other in alive.values()
            if other is not gif
        ]
        best = max(values, default=0.0)
        exact = matrix.closest(gif, lambda one, other: True)
        assert (exact[0] if exact else 0.0) == pytest.approx(best)
        pruned = poset.closest(gif, lambda one, other: True)
        assert (pruned is None) == (exact is None), "who has anybody finds somebody"
        if pruned and exact:
            event(f"pruning misses the closest: {not math.isclose(pruned[0], exact[0])}")
            assert pruned[0] <= exact[0] + 1e-9


def check_poset(gifs: Sequence[Gif]) -> None:
    """The parents of a group are the groups that cover it with no other such group in between."""

    def inside(one: Gif, other: Gif) -> bool:
        return one is not other and all(
            bits | other.profile.get(publisher, 0) == other.profile.get(publisher, 0)
            for publisher, bits in one.profile.items()
        )

    for gif in gifs:
        above = [other for other in gifs if inside(gif, other)]
        nearest = {o.number for o in above if not any(inside(other, o) for other in above)}
        assert set(gif.parents) == nearest
        assert all(gif.number in parent.children for parent in gif.parents.values())


@examples(40)
@given(network=networks(subscriptions=8, brokers=4))
def test_heuristics_against_the_exact_packing(network: Network) -> None:
    """The gap is reported (`--hypothesis-show-statistics`), and no heuristic is better than the proven optimum."""
    pytest.importorskip("scipy")
    items, bins, traffic = network.items(), network.bins(), network.traffic()
    assume(items)
    best = pack_exactly(items, bins, traffic)
    try:
        packed = bin_packing(items, bins, traffic)
    except DoesNotFit:
        event(f"BIN PACKING fails, and there is a packing: {best is not None}")
        return
    assert best is not None
    check_scheme(best, items, bins, traffic)
    found = cram(items, bins, traffic, CramOptions(judge_every=1, split=True)).best
    assert lower_bound(items, bins, traffic) <= best.brokers <= found.brokers <= packed.brokers
    if found.brokers == best.brokers:
        assert best.rate <= found.rate + 10
    event(f"brokers over the best: BIN PACKING {packed.brokers - best.brokers}")
    event(f"brokers over the best: CRAM {found.brokers - best.brokers}")


@settings(examples(100), max_examples=bounded_plans(examples(100).max_examples))
@given(network=networks(subscriptions=8, brokers=4), data=st.data())
def test_no_packing_has_fewer_brokers_than_the_bound(network: Network, data: st.DataObject) -> None:
    """A plan has at least the brokers of the best packing, which has its pins and forwards nothing.

    Instances without a packing are not counted. `make test-bounds` is a whole run.
    """
    pytest.importorskip("scipy")
    clients = [*network.subscriptions, *(one.name for one in network.publishers)]
    brokers = st.sampled_from([one.name for one in network.brokers])
    least = data.draw(st.sampled_from([0, 1]))
    pinned = st.dictionaries(st.sampled_from(clients), brokers, min_size=least, max_size=3 * least)
    pins, counts = data.draw(pinned), data.draw(st.sampled_from([1, 1, 2, 3]))
    network = replace(network, counts=(counts,) * len(network.subscriptions))
    items, traffic = network.items(), network.traffic()
    try:
        task = task_of(network, Constraints(pins), items)
    except InputError as error:
        event(str(error)[:24])
        assume(False)
    best = pack_exactly(items, task.bins, traffic)
    bound = lower_bound(items, task.bins, traffic)
    if best is None:
        event(f"pins: {bool(pins)}, no packing")
        assume(False)
        return
    event(f"pins: {bool(pins)}, brokers: {best.brokers}, above the bound: {best.brokers - bound}")
    assert bound <= best.brokers
    try:
        plan = make_plan(network, PlanOptions("CRAM-SPLIT"), Constraints(pins))
    except InputError:
        return
    assert plan.brokers_at_least == bound and best.brokers <= plan.brokers


@examples(60)
@given(network=networks())
def test_no_plan_of_cram_has_more_brokers_than_bin_packings(network: Network) -> None:
    items, traffic = network.items(), network.traffic()
    task: Task = task_of(network, Constraints(), items)
    try:
        packed: Layout = lay_out(task, items, traffic, PlanOptions("BIN PACKING")).layout
    except InputError:
        assume(False)
    found = lay_out(task, items, traffic, PlanOptions("CRAM-IOU")).layout
    assert len(found.parents) <= len(packed.parents)
    assert set(predict_loads(found, items, traffic)) == set(found.parents)
