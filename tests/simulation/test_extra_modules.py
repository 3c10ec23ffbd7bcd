"""A module of one's own in a broker and under the campaign, and that what it says must hold is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runnel.broker.links import Link
from runnel.broker.module import Context
from runnel.compose import MODULES
from runnel.errors import BugError
from runnel.quantities import SECOND
from runnel.sim.campaign import SimulationPlan, draw_plan
from runnel.sim.run import simulate
from support.harness import StepNetwork
from support.tallying import TALLY, TallyConfig, TallyModule

SEEDS = range(10)

MODULES.pop(TALLY.name, None)  # importing it has registered it, which no other test is to notice


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODULES, TALLY.name, TALLY)


def make_pair() -> tuple[StepNetwork, dict[str, TallyModule]]:
    """Two brokers that have told each other how many publications have come."""
    network = StepNetwork()
    modules = {name: TallyModule(TallyConfig(every_s=1.0)) for name in ("A", "B")}
    network.broker("A", "B", modules=(modules["A"],))
    network.broker("B", modules=(modules["B"],))
    network.settle()
    network.advance(SECOND)
    assert modules["A"].counts == {"B": 0}
    return network, modules


def test_an_invariant_of_a_module_is_checked_after_each_event() -> None:
    network, modules = make_pair()
    network.advance(SECOND)  # all is well
    modules["A"].counts["B"] = -1
    with pytest.raises(BugError, match="B has taken in -1 publications"):
        network.subscriber("s", "A", "a > 0")


def test_a_broker_without_the_module_is_not_concerned() -> None:
    network, modules = make_pair()
    network.broker("C", modules=())
    modules["A"].counts["B"] = -1
    network.settle()  # nothing reaches A, so only C was looked at


def make_plan(seed: int) -> SimulationPlan:
    """What happens under a seed, with the module in every broker."""
    plan = draw_plan(seed)
    # Less often than a message takes to the neighbour and back, or a link never empties and no generation can end.
    modules = ((TALLY.name, TallyConfig(every_s=0.5)),)
    return replace(plan, settings=replace(plan.settings, more_modules=modules))


def test_the_module_is_clean_in_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    true, heard = TallyModule.message, []

    def message(self: TallyModule, context: Context, link: Link, message: Any, now: int) -> None:
        true(self, context, link, message, now)
        heard.append(self.counts[link.name])

    monkeypatch.setattr(TallyModule, "message", message)
    outcomes = [simulate(make_plan(seed)) for seed in SEEDS]
    assert not [f"seed {one.seed}: {one.violation}" for one in outcomes if one.violation]
    assert max(heard) > 10, "brokers heard of no publications"


def test_a_module_with_a_bug_is_found_by_its_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    def message(self: TallyModule, context: Context, link: Link, message: Any, now: int) -> None:
        self.counts[link.name] = message.count - 3

    monkeypatch.setattr(TallyModule, "message", message)
    violations = [simulate(make_plan(seed)).violation for seed in SEEDS[:3]]
    assert all(
        "publications" in violation and "has taken in -" in violation for violation in violations
    )
