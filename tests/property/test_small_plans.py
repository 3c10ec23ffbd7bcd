"""Of small networks the planner refuses only those for which there is no plan, as brute force shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from runnel.errors import InputError
from runnel.planning.algorithms import small
from runnel.planning.documents.constraints import Constraints
from runnel.planning.layout import overloaded_brokers, predict_loads
from runnel.planning.network import Network
from runnel.planning.planner import PlanOptions, make_plan
from support.brute_plans import all_trees, plan_exists, random_network
from support.effort import share, small_plans

METRICS = ("CRAM-IOU", "CRAM-XOR", "CRAM-SPLIT")
SEARCHED = (11, 35, 157, 226, 252, 271)
"""Seeds of networks that only the search finds a plan for."""


def pins_of(network: Network, seed: int) -> dict[str, str]:
    """One or two clients at any broker."""
    draw = Random(f"{seed}/pins")
    clients = [*network.subscriptions, *(one.name for one in network.publishers)]
    brokers = [one.name for one in network.brokers]
    return {draw.choice(clients): draw.choice(brokers) for _ in range(draw.randint(1, 2))}


@pytest.mark.parametrize("are_pinned", [False, True])
def test_it_refuses_only_what_is_infeasible(are_pinned: bool) -> None:
    """`make test-bounds` compares more networks."""
    found: Counter[str] = Counter()
    for seed in range(small_plans(share(300))):
        network = random_network(seed)
        pins = pins_of(network, seed) if are_pinned else {}
        options = PlanOptions(METRICS[seed % len(METRICS)])
        try:
            plan = make_plan(network, options, Constraints(pins))
        except InputError:
            found["refused"] += 1
            if plan_exists(network, pins):
                found[f"refused, and there is a plan: seed {seed}"] += 1
            continue
        homes = {**plan.subscriptions, **plan.publishers}
        assert all(homes[client] == broker for client, broker in pins.items())
        assert all(load.output_ratio < 1 for load in plan.after.values())
        found["planned"] += 1
    assert set(found) == {"planned", "refused"}


def test_without_the_search_plans_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """These were refused until there was a search of small networks: the test above can fail."""
    monkeypatch.setattr(small, "STEPS", 0)
    for seed in SEARCHED:
        assert plan_exists(random_network(seed))
        with pytest.raises(InputError):
            make_plan(random_network(seed), PlanOptions("CRAM-IOU"))


@pytest.mark.parametrize("seed", SEARCHED)
@pytest.mark.parametrize("relocate", [True, False])
def test_a_plan_that_is_searched_overloads_nobody(seed: int, relocate: bool) -> None:
    network = random_network(seed)
    items, bins, traffic = network.items(), network.bins(), network.traffic()
    layout = small.search_small(items, bins, {}, traffic, relocate)
    if layout is None:
        assert not relocate
        return
    assert sorted(layout.homes) == list(range(len(items)))
    loads = predict_loads(layout, items, traffic)
    assert not overloaded_brokers(loads, {one.name: one for one in bins})
    if not relocate:
        assert set(layout.publishers.values()) == {layout.root}


def test_a_network_that_is_not_small_is_not_searched() -> None:
    network = random_network(SEARCHED[0])
    more = replace(
        network,
        subscriptions=tuple(f"s{n}" for n in range(small.ITEMS_MAX + 1)),
        profiles=({},) * (small.ITEMS_MAX + 1),
    )
    assert small.search_small(more.items(), more.bins(), {}, more.traffic()) is None


def test_brute_force_knows_all_trees() -> None:
    """Cayley: there are n to the power of n − 1 trees with a root over n brokers."""
    counts = [len(list(all_trees([f"B{n}" for n in range(size)]))) for size in (1, 2, 3, 4)]
    assert counts == [1, 2, 9, 64]
