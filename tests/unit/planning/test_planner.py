"""From a network to a plan: the document, the errors, and that the seed is the only source of randomness."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runnel.errors import InputError
from runnel.planning.algorithms.cram.clustering import CramOptions
from runnel.planning.algorithms.packing import DoesNotFit
from runnel.planning.documents.plan import BrokerLoad, to_json
from runnel.planning.load import Capacity, Delay
from runnel.planning.network import network_from_profiles
from runnel.planning.planner import ALGORITHMS, PlanOptions, make_plan
from runnel.planning.profiles import PublisherProfile, SubscriptionProfile
from support.planning_small import BROKERS, SPAN, small_network

HERE = Path(__file__).parent


def test_a_plan_says_what_is_needed_to_decide() -> None:
    network = small_network()
    plan = make_plan(network)
    assert plan.algorithm == "CRAM-IOU" and plan.version == 1
    # 3 × (20 + 10 + 10 + 3) bytes a second in all: two brokers of 100.
    assert plan.brokers == plan.brokers_at_least == 2
    assert sorted(plan.freed) == sorted(set(BROKERS) - set(plan.overlay))
    assert set(plan.after) == set(plan.overlay) and set(plan.before) == set(BROKERS)
    assert sum(load.subscriptions for load in plan.after.values()) == 12 + 1
    assert all(load.output_ratio < 1 for load in plan.after.values())
    total = sum(load.messages_per_s for load in plan.after.values())
    assert total < sum(load.messages_per_s for load in plan.before.values())
    assert 0 < len(plan.moved) < 15
    assert plan.estimated_s == pytest.approx(len(plan.moved) / 50)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_has_a_plan(algorithm: str) -> None:
    plan = make_plan(small_network(), PlanOptions(algorithm, seed=7))
    assert list(plan.subscriptions) == [f"s{n}" for n in range(12)]
    assert make_plan(small_network(), PlanOptions(algorithm, seed=7)) == plan


def test_an_unknown_algorithm_is_named_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"no algorithm 'CRAM'.*CRAM-IOU"):
        make_plan(small_network(), PlanOptions("CRAM"))


def test_without_grape_the_publishers_stay_at_the_root() -> None:
    plan = make_plan(small_network(), PlanOptions(relocate=False))
    (root,) = (broker for broker, parent in plan.overlay.items() if parent is None)
    assert set(plan.publishers.values()) == {root}


def test_publishers_go_where_their_subscribers_are() -> None:
    plan = make_plan(small_network(output=45.0))
    by_publisher = [{plan.subscriptions[f"s{n}"] for n in range(p, 12, 3)} for p in range(3)]
    for publisher, homes in enumerate(by_publisher):
        if len(homes) == 1:
            assert {plan.publishers[f"P{publisher}"]} == homes
    assert any(len(homes) == 1 for homes in by_publisher)


def test_subscriptions_without_traffic_are_placed_and_told() -> None:
    quiet = small_network(profiles=({0: 1}, {}, {}))
    plan = make_plan(quiet)
    assert set(plan.subscriptions) == {"s0", "s1", "s2"} and plan.brokers == 1
    assert plan.notes == ["2 subscriptions without traffic need no output"]


def test_nothing_but_subscriptions_without_traffic() -> None:
    assert make_plan(small_network(profiles=({}, {}))).brokers == 1


def test_pairwise_k_places_subscriptions_without_traffic_too() -> None:
    found = make_plan(small_network(profiles=({}, {}, {})), PlanOptions("PAIRWISE-K"))
    assert list(found.subscriptions) == ["s0", "s1", "s2"]


def test_several_publishers_for_one_subscription() -> None:
    both = {0: (1 << SPAN) - 1, 1: (1 << SPAN) - 1}
    plan = make_plan(small_network(output=41.0, profiles=(both, {0: 1}, {2: 1})))
    assert plan.after[plan.subscriptions["s0"]].output_bytes_per_s >= 40


def test_brokers_that_are_too_small_for_anything() -> None:
    with pytest.raises(
        DoesNotFit,
        match="s0, s1, s2 and 6 more because one alone needs more output than the largest broker has",
    ) as e:
        make_plan(small_network(output=3.5))
    assert sorted(e.value.reasons) == list(range(9)), "those of more than 3 bytes"


def test_brokers_that_cannot_match_anything() -> None:
    with pytest.raises(DoesNotFit, match="more messages than any broker can match"):
        make_plan(small_network(delay=Delay(base_ns=200_000_000)))


@pytest.mark.parametrize("algorithm", ["CRAM-IOU", "BIN PACKING", "FBF"])
def test_brokers_that_are_full_without_an_overlay_are_filled_less(algorithm: str) -> None:
    """Two subscriptions to 20 B/s fill a broker of 50 so far that none can send on what the others want."""
    everything = {0: (1 << SPAN) - 1}
    plan = make_plan(small_network(50.0, profiles=(everything,) * 4), PlanOptions(algorithm))
    assert plan.brokers == 3 and all(load.output_ratio <= 1 for load in plan.after.values())


def test_no_broker_and_no_subscription() -> None:
    with pytest.raises(InputError, match="nothing to plan"):
        make_plan(small_network(profiles=()))


def test_slow_matching_takes_more_brokers() -> None:
    """10 msg/s of one publisher, and 1 / (20 + 8 n) ms: a broker has at most ten subscriptions to one of them."""
    fast = make_plan(small_network(output=1_000.0))
    slow = make_plan(small_network(output=1_000.0, delay=Delay(20_000_000, 8_000_000)))
    assert fast.brokers == 1 < slow.brokers
    assert slow.brokers_at_least <= slow.brokers
    assert all(load.input_ratio <= 1 for load in slow.after.values())


def test_a_network_from_the_profiles_of_brokers() -> None:
    profiles = [SubscriptionProfile("a"), SubscriptionProfile("b")]
    for id in range(100, 200):
        profiles[0].record("P", id)
        if id % 10 == 0:
            profiles[1].record("P", id)
    publisher = PublisherProfile("P", 50.0, 50_000.0, 199)
    network = network_from_profiles([Capacity("B", 60_000.0)], [publisher], profiles)
    plan = make_plan(network)
    assert plan.after["B"].output_bytes_per_s == pytest.approx(55_000)
    assert plan.before == {} and plan.moved == [], "nobody said where anybody is"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subscription_homes": ("B9",) * 12}, "B9, which is not among the brokers"),
        ({"links": (("B0", "B9"),) * 5}, "B9, which is not among the brokers"),
    ],
)
def test_a_network_that_contradicts_itself(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_plan(small_network(**change))


def test_the_same_plan_whatever_the_hash_seed() -> None:
    program = (
        "from support.planning_small import small_network\n"
        "from runnel.planning.planner import *\n"
        "from runnel.planning.documents.plan import to_json\n"
        "for a in ALGORITHMS: print(to_json(make_plan(small_network(), PlanOptions(a))).decode())\n"
    )
    plans = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(HERE.parents[1])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    (only,) = plans
    assert to_json(make_plan(small_network(), PlanOptions("PAIRWISE-N"))).decode() in only


def test_splitting_needs_no_more_brokers_and_a_lower_rate() -> None:
    """Three clusters of 43 bytes: two brokers of 70 can only be had by splitting one, or without clusters."""
    network = small_network(output=70.0)
    plain = make_plan(network, PlanOptions(cram=CramOptions(judge_every=1)))
    split = make_plan(network, PlanOptions("CRAM-SPLIT", cram=CramOptions(judge_every=1)))
    assert split.brokers <= plain.brokers
    assert total(split.after) <= total(plain.after)


def total(loads: dict[str, BrokerLoad]) -> float:
    return sum(load.messages_per_s for load in loads.values())
