"""What every plan must keep to, whatever the network: judged by a simulation of single publications.

The simulation shares nothing with the planner's own prediction: it sends every publication of every window through the
tree, one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from runnel.allocation.closeness import closeness
from runnel.allocation.clustering import CramOptions
from runnel.allocation.constraints import Constraints, Task, task_of
from runnel.allocation.cram import cram
from runnel.allocation.exhaustive import Exhaustive
from runnel.allocation.gifs import Gif, grouped
from runnel.allocation.layout import Layout, predicted
from runnel.allocation.load import MICRO, Bin, Capacity, Delay, Item, Traffic
from runnel.allocation.network import Network
from runnel.allocation.packing import DoesNotFit, Order, Packer, Scheme, bin_packing, fbf
from runnel.allocation.plan import Plan, from_json, to_json
from runnel.allocation.planner import ALGORITHMS, AWARE, PlanOptions, lay_out, make_plan
from runnel.allocation.poset import Poset
from runnel.allocation.profiles import Profile, PublisherProfile
from runnel.errors import InputError

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
    """Send every publication of every window: messages in and bytes out per second and broker, and who got what."""
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
            told = plan.after[one.name]
            assert told.messages_per_s == pytest.approx(incoming[one.name], abs=1e-4)
            assert told.output_bytes_per_s == pytest.approx(outgoing[one.name], abs=1e-2)
            if capacities:
                assert one.output is not None and outgoing[one.name] < one.output + 1e-4
                count = list(plan.subscriptions.values()).count(one.name) + children.count(one.name)
                assert incoming[one.name] * MICRO <= one.delay.rate(count) + 100


@settings(max_examples=250, deadline=None)
@given(network=networks(), algorithm=st.sampled_from(ALGORITHMS), seed=st.integers(0, 3))
def test_every_plan_delivers_everything_within_what_brokers_can_take(
    network: Network, algorithm: str, seed: int
) -> None:
    options = PlanOptions(algorithm, seed)
    event(f"matching limits: {network.brokers[0].delay.limits}")
    try:
        plan = make_plan(network, options)
    except InputError as error:
        event(f"{algorithm}: {str(error)[:24]}")
        assume(False)
    event(f"{algorithm}: planned")
    check_plan(network, plan, capacities=algorithm in AWARE)
    assert make_plan(network, options) == plan, "one seed, one plan"
    if algorithm in AWARE:
        assert plan.brokers >= plan.brokers_at_least


@settings(max_examples=150, deadline=None)
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


@settings(max_examples=150, deadline=None)
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
    """Everything once, every broker within both limits, the rate as it is."""
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
    """First fit as the paper says it: item by item."""
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


@settings(max_examples=200, deadline=None)
@given(network=networks(subscriptions=25), seed=st.integers(0, 5))
def test_packing_broker_by_broker_is_first_fit_item_by_item(network: Network, seed: int) -> None:
    items, traffic = network.items(), network.traffic()
    bins = sorted(network.bins(), key=lambda one: -one.room)
    order = sorted(range(len(items)), key=lambda number: (-items[number].need, number))
    expected = slow_first_fit(order, items, bins, traffic)
    packer = Packer(bins, list(items), traffic)
    sorted_items = Order((number, one.need) for number, one in enumerate(items))
    assert sorted_items.numbers() == order
    runs = packer.sorted_fit(sorted_items)
    assert (runs is None) == (expected is None)
    if runs is not None and expected is not None:
        found = [[order[at] for start, end in run for at in range(start, end)] for run in runs]
        assert found == expected[: len(found)] and not any(expected[len(found) :])
    Random(f"{seed}/fbf").shuffle(shuffled := list(range(len(items))))
    drawn = slow_first_fit(shuffled, items, bins, traffic)
    if drawn is not None:
        placed = fbf(items, bins, traffic, seed).placed
        assert [list(placed.get(one.name, ())) for one in bins] == drawn


@settings(max_examples=200, deadline=None)
@given(network=networks(subscriptions=30), drops=st.lists(st.integers(0, 29), max_size=10))
def test_the_poset_holds_and_the_search_by_matrix_is_exact(
    network: Network, drops: list[int]
) -> None:
    gifs = grouped(network.items())
    poset, matrix = Poset("IOU"), Exhaustive("IOU", network.spans)
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
    """Parents are exactly the coverers with no other coverer in between."""

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


@settings(max_examples=40, deadline=None)
@given(network=networks(subscriptions=8, brokers=4))
def test_heuristics_against_the_exact_packing(network: Network) -> None:
    """The gap is reported (`--hypothesis-show-statistics`), and nobody beats what is proven to be best."""
    pytest.importorskip("scipy")
    from runnel.allocation.bound import lower_bound
    from runnel.allocation.exact import exact

    items, bins, traffic = network.items(), network.bins(), network.traffic()
    assume(items)
    best = exact(items, bins, traffic)
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


@settings(max_examples=60, deadline=None)
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
    assert set(predicted(found, items, traffic)) == set(found.parents)
