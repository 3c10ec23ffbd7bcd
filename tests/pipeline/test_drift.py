"""When a plan no longer fits, and when another is proposed: decisions computed batch by batch, without Spark."""

from __future__ import annotations

import pytest

from runnel.errors import InputError
from runnel.pipeline.drift import (
    DriftLimits,
    Fit,
    Memory,
    Times,
    decide,
    fit_of,
    is_behind,
    plan_digest,
    saving_of,
)
from runnel.planning.documents.plan import BrokerLoad, Plan
from runnel.planning.load import Capacity
from runnel.planning.network import Network
from runnel.planning.planner import PlanOptions, make_plan
from runnel.planning.profiles import PublisherProfile

LIMITS = DriftLimits(drift_percent=20.0, saving_percent=10.0, hold=3, rest=4)


def network(rate: float = 10.0, output: float = 1_000.0, clients: int = 4) -> Network:
    """One publisher, from which all clients receive everything; brokers A, B and C."""
    return Network(
        tuple(Capacity(name, output) for name in "ABC"),
        (PublisherProfile("P", rate, 10 * rate, last=9),),
        tuple(f"c{n}" for n in range(clients)),
        tuple({0: (1 << 10) - 1} for _ in range(clients)),
        (10,),
        publisher_homes=("A",),
        subscription_homes=tuple("ABC"[n % 3] for n in range(clients)),
    )


def plan(brokers: str, rate: float = 10.0, clients: int = 4) -> Plan:
    """A chain of brokers with clients in turn; each broker receives everything."""
    load = BrokerLoad(rate, 1.0, 1, 0.0, 0.0)
    return Plan(
        algorithm="FBF",
        overlay={name: brokers[n - 1] if n else None for n, name in enumerate(brokers)},
        subscriptions={f"c{n}": brokers[n % len(brokers)] for n in range(clients)},
        publishers={"P": brokers[0]},
        after=dict.fromkeys(brokers, load),
    )


# -- what is still to be read -----------------------------------------------------------------------------

DAY = 24
MONTHS = tuple((hour, hour + 1) for hour in range(60 * DAY))
YOUNG = tuple((at, at + 1) for at in range(40))


@pytest.mark.parametrize(
    ("came", "there", "behind"),
    [
        (MONTHS[:-DAY], MONTHS, True),  # a day is little of two months, but half of the rates
        (MONTHS[:-3], MONTHS, True),
        (MONTHS[:-2], MONTHS, False),  # a 24th of two days
        (MONTHS[-1:], MONTHS, False),
        (YOUNG[:-3], YOUNG, True),
        (YOUNG[:-2], YOUNG, False),  # a 20th of all
        ((), MONTHS, False),  # all was read before
        ((None,), MONTHS, True),
        ((None, MONTHS[-1]), MONTHS, False),
        (MONTHS[:1], (*MONTHS[:1], None), False),
        ((None,), (None, None), False),
        ((None,), (), False),
    ],
)
def test_what_is_still_to_be_read(
    came: tuple[Times | None, ...], there: tuple[Times | None, ...], behind: bool
) -> None:
    assert is_behind(came, there, 2 * DAY) == behind


# -- the plan against the traffic -------------------------------------------------------------------------


def test_a_plan_fits_the_network_that_it_is_of() -> None:
    planned = make_plan(network(), PlanOptions("BIN PACKING"))
    fit = fit_of(planned, network())
    assert fit.messages_per_s == pytest.approx(fit.planned_per_s) and not fit.has_drifted(LIMITS)
    assert (fit.newcomers, fit.homeless, fit.overloaded) == (0, 0, ())
    assert saving_of(fit, planned).percent == 0.0


def test_rates_that_are_off_are_a_drift_up_and_down() -> None:
    for rate, off, drifted in ((10, 0, False), (11.9, 19, False), (12.1, 21, True), (5, 50, True)):
        fit = fit_of(plan("AB"), network(rate))
        assert (round(fit.off_percent), fit.has_drifted(LIMITS)) == (off, drifted)
        assert fit.messages_per_s == pytest.approx(2 * rate)
    assert Fit(1, 0.0, 0.0).off_percent == 0.0 and Fit(1, 1.0, 0.0).off_percent == 100.0


def test_a_broker_that_is_overloaded_is_a_drift() -> None:
    fit = fit_of(plan("AB"), network(10.0, output=250.0))
    assert fit.overloaded == ("A",), "two clients and a neighbour, 100 bytes a second each"
    assert fit.has_drifted(LIMITS) and saving_of(fit, plan("ABC")).is_reason(10.0)


def test_newcomers_are_where_they_are_or_nowhere() -> None:
    fit = fit_of(plan("AB"), network(clients=7))
    assert (fit.newcomers, fit.homeless) == (3, 1), (
        "c4 is at B, c5 at C, which the plan has not, c6 at A"
    )


def test_a_broker_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(InputError, match="the plan has broker D, which is not in the trace"):
        fit_of(plan("AD"), network())


def test_what_saves_nothing() -> None:
    fit = Fit(2, 20.0, 20.0)
    assert saving_of(fit, plan("ABC", rate=1.0)).percent == 0.0, "it takes more brokers"
    assert saving_of(fit, plan("AB", rate=9.0)).percent == 10.0
    assert saving_of(fit, plan("A", rate=30.0)).percent == 50.0
    assert saving_of(Fit(2, 0.0, 20.0), plan("AB")).percent == 0.0


# -- hysteresis -------------------------------------------------------------------------------------------

DRIFTED = Fit(3, 30.0, 20.0)
GOOD = plan("AB")  # a third less


def batches(memory: Memory, *others: Plan | None, fit: Fit = DRIFTED) -> tuple[Memory, list[bool]]:
    said = []
    for other in others:
        memory, due = decide(memory, fit, other, LIMITS)
        said.append(due)
    return memory, said


def test_a_reason_must_hold() -> None:
    _, said = batches(Memory(), GOOD, GOOD, None, GOOD, GOOD, GOOD)
    assert said == [False, False, False, False, False, True]
    poor = plan("ABC", rate=9.5)  # saves 5%
    _, said = batches(Memory(), GOOD, GOOD, poor, GOOD, GOOD, GOOD)
    assert said == [False, False, False, False, False, True]


def test_after_a_proposal_the_reason_must_have_been_away() -> None:
    memory, _ = batches(Memory(), GOOD, GOOD, GOOD)
    assert (memory.armed, memory.resting, memory.proposed) == (False, 4, (plan_digest(GOOD),))
    other = plan("A")
    memory, said = batches(memory, *[other] * 8)
    assert not any(said) and memory.resting == 0, "it rests, and then it waits"
    half = plan("ABC", rate=9.4)  # saves 6%: below the threshold, but not by half
    assert not batches(memory, half, *[other] * 4)[1][-1]
    for away in (None, plan("ABC", rate=9.6)):
        assert batches(memory, away, other, other, other)[1] == [False, False, False, True]


def test_it_rests_even_if_the_reason_was_away() -> None:
    memory, _ = batches(Memory(), GOOD, GOOD, GOOD)
    _, said = batches(memory, None, *[plan("A")] * 5)
    assert said == [False, False, False, False, True, False]


def test_nothing_is_proposed_twice() -> None:
    memory, _ = batches(Memory(), GOOD, GOOD, GOOD)
    memory, _ = batches(memory, *[None] * 5)
    assert memory.armed and not memory.resting
    same = plan("AB", rate=1.0)  # the same network, though today it saves even more
    memory, said = batches(memory, *[same] * 6)
    assert not any(said) and memory.proposed == (plan_digest(GOOD),)
    assert batches(memory, plan("A"))[1] == [True], "it holds for long enough"


def test_another_plan_in_force_starts_anew() -> None:
    memory, _ = batches(Memory(plan_digest(plan("ABC"))), GOOD, GOOD, GOOD)
    assert memory.for_plan(plan("ABC", rate=3.0)) == memory
    assert memory.for_plan(GOOD) == Memory(plan_digest(GOOD))


def test_who_is_overloaded_is_a_reason_whatever_it_saves() -> None:
    over = Fit(2, 20.0, 20.0, ("A",))
    assert batches(Memory(), *[plan("ABC")] * 3, fit=over)[1] == [False, False, True]


@pytest.mark.parametrize(
    "limits", [{"drift_percent": 0}, {"saving_percent": 100}, {"hold": 0}, {"rest": -1}]
)
def test_limits_that_make_no_sense(limits: dict[str, float]) -> None:
    with pytest.raises(InputError):
        DriftLimits(**limits)  # type: ignore[arg-type]
