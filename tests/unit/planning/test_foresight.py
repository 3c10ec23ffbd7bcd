"""Learned head-room: forecasts and their errors, needs, what got nothing, plans with peaks; and windows not seen."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from pathlib import Path
from random import Random

import pytest

from runnel.errors import InputError
from runnel.lab.experiments.green.unseen import (
    Outlook,
    find_overloaded,
    make_stream,
    plan_layout,
)
from runnel.planning.documents.constraints import Constraints
from runnel.planning.documents.goals import goals_of
from runnel.planning.documents.plan import from_json, to_json
from runnel.planning.foresight import Foresight
from runnel.planning.load import Capacity
from runnel.planning.network import Network
from runnel.planning.planner import PlanOptions, make_plan
from runnel.planning.profiles import PublisherProfile
from runnel.workload.green import GreenParameters

SPAN = 100
ALWAYS = (1 << SPAN) - 1
HALF = sum(0b1111111111 << place for place in range(10, SPAN, 20))  # ten of twenty, ten times
LEARNED = Constraints(foresight=Foresight())


def expected_bits(vector: int, span: int, foresight: Foresight) -> float:
    """The definition, without any short cut."""
    length = span // foresight.parts
    shares = [
        sum(vector >> place & 1 for place in range(end - length, end)) / length
        for end in range(span, length - 1, -length)
    ][::-1]
    errors = [
        sum(shares[at + 1 : at + 1 + foresight.horizon]) / foresight.horizon - shares[at]
        for at in range(len(shares) - foresight.horizon)
    ]
    spread = sqrt(sum(error**2 for error in errors) / len(errors))
    lately = sum(shares[-foresight.horizon :]) / foresight.horizon
    return span * max(lately, min(1.0, shares[-1] + foresight.deviations * spread))


@pytest.mark.parametrize("seed", range(50))
def test_it_is_what_its_definition_says(seed: int) -> None:
    random = Random(seed)
    span, share = random.randrange(100, 1_400), random.random()
    vector = sum(1 << place for place in range(span) if random.random() < share)
    foresight = Foresight(random.uniform(0, 2), random.randrange(8, 26), random.randrange(1, 7))
    found = foresight.bits(vector, span)
    assert found == pytest.approx(expected_bits(vector, span, foresight), abs=1e-9)


def network(*profiles: int, output: float = 100.0, brokers: int = 6) -> Network:
    """One publisher of 10 msg/s and 10 B/s."""
    return Network(
        brokers=tuple(Capacity(f"B{number}", output) for number in range(brokers)),
        publishers=(PublisherProfile("P", 10.0, 10.0, last=SPAN - 1),),
        subscriptions=tuple(f"s{number}" for number in range(len(profiles))),
        profiles=tuple({0: bits} if bits else {} for bits in profiles),
        spans=(SPAN,),
    )


def test_what_never_varies_needs_no_head_room() -> None:
    steady = network(*[ALWAYS] * 9)  # 9 × 10 B/s: with 15% head-room they would need two brokers
    assert make_plan(steady, constraints=LEARNED).brokers == 1
    assert make_plan(steady, constraints=Constraints(headroom_percent=15)).brokers == 2


def test_what_varies_has_room_for_its_peaks_and_the_plan_shows_them() -> None:
    varying = network(*[HALF] * 18)  # on average one broker is enough
    mean = make_plan(varying)
    assert mean.brokers == 1 and mean.after["B0"].peak_output_ratio is None
    plan = make_plan(varying, constraints=LEARNED)
    assert plan.brokers > 1 and plan.asked is not None and plan.asked.deviations == 0.75
    for load in plan.after.values():
        assert load.peak_output_ratio is not None
        assert load.output_ratio < load.peak_output_ratio <= 1
    assert {goal.name: goal.is_met for goal in goals_of(plan)}["peaks"]
    assert "peaks" not in {goal.name for goal in goals_of(mean)}
    assert from_json(to_json(plan)) == plan


def test_what_got_nothing_goes_where_there_is_room() -> None:
    """First fit would put all of it into the fullest broker, and a subscription that begins would overload that."""
    mixed = network(*[ALWAYS] * 9, *[ALWAYS] * 5, *[0] * 5)
    piled = make_plan(mixed)
    dealt = make_plan(mixed, constraints=LEARNED)
    for plan, full_broker_gets in ((piled, 5), (dealt, 0)):
        assert len(plan.subscriptions) == 19
        full = max(plan.after, key=lambda broker: plan.after[broker].output_ratio)
        quiet = [plan.subscriptions[f"s{number}"] for number in range(14, 19)]
        assert quiet.count(full) == full_broker_gets


def test_a_network_where_nobody_got_anything_is_planned() -> None:
    assert make_plan(network(0, 0), constraints=LEARNED).brokers == 1


def test_algorithms_that_ignore_capacities_leave_no_head_room() -> None:
    with pytest.raises(InputError, match="MANUAL ignores what brokers can do"):
        make_plan(network(ALWAYS), PlanOptions("MANUAL"), LEARNED)


def test_in_windows_not_seen_fewer_brokers_are_overloaded_than_with_the_same_share_everywhere() -> (
    None
):
    parameters = GreenParameters(
        publishers=8, per_publisher=60, brokers=40, days=1_100, inequality="low"
    )
    stream = make_stream(parameters, 1, Path(), width=100, first=6)
    stream = replace(stream, network=_weaker(stream.network))
    learned = stream.judge(LEARNED)
    uniform = [stream.judge(Constraints(headroom_percent=percent)) for percent in (0, 3, 6)]
    best = stream.judge_clairvoyant()
    assert best.share == 0 and len(best.brokers) == len(stream.windows) == 5
    assert learned.share <= 0.03
    rivals = [one for one in uniform if sum(one.brokers) <= sum(learned.brokers)]
    assert rivals and all(_worse(one, learned) for one in rivals), (learned, uniform)


def _weaker(network: Network) -> Network:
    """Brokers of which such a small workload fills several."""
    return replace(
        network, brokers=tuple(Capacity(one.name, 7_000.0, one.delay) for one in network.brokers)
    )


def _worse(one: Outlook, other: Outlook) -> bool:
    return sum(one.overloaded) > sum(other.overloaded)


def test_a_clairvoyant_plan_overloads_nobody_and_one_of_the_past_may() -> None:
    """The judge does find what is overloaded."""
    past, present = network(*[0b11] * 9), network(*[ALWAYS] * 9, output=50.0)
    layout_of = make_plan(past).subscriptions
    assert set(layout_of.values()) == {"B0"}
    assert find_overloaded(plan_layout(past, Constraints(), "CRAM-IOU"), present) == ["B0"]
    assert not find_overloaded(plan_layout(present, Constraints(), "CRAM-IOU"), present)
