"""A strategy of one's own under the whole campaign, by its own rules; and bugs in it that these rules find."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runnel.broker.links import Link
from runnel.sim.campaign import SimulationPlan, draw_plan
from runnel.sim.run import simulate
from runnel.wire import Publication
from support.flooding import FLOOD, FloodRouting

CHUNKS, SEEDS_PER_CHUNK = 12, 25


def flooded(seed: int) -> SimulationPlan:
    """What happens under a seed, but that brokers flood."""
    plan = draw_plan(seed)
    return replace(plan, settings=replace(plan.settings, strategy=FLOOD.name))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_flooding_is_clean_in_the_campaign(chunk: int) -> None:
    seeds = range(chunk * SEEDS_PER_CHUNK, (chunk + 1) * SEEDS_PER_CHUNK)
    outcomes = [simulate(flooded(seed)) for seed in seeds]
    assert not [f"seed {one.seed}: {one.violation}" for one in outcomes if one.violation]
    assert sum(one.checked for one in outcomes) > 50 * SEEDS_PER_CHUNK
    assert sum(one.fired["crash"] for one in outcomes)


def test_a_flood_that_leaves_a_neighbour_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    true = FloodRouting.next_hops

    def next_hops(self: FloodRouting, link: Link, publication: Publication) -> list[int]:
        hops = true(self, link, publication)
        return hops[1:] if link.is_client else hops

    monkeypatch.setattr(FloodRouting, "next_hops", next_hops)
    assert any(simulate(flooded(seed)).violation for seed in range(5))


def test_a_flood_that_goes_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    true = FloodRouting.next_hops

    def next_hops(self: FloodRouting, link: Link, publication: Publication) -> list[int]:
        hops = true(self, link, publication)
        return hops if link.is_client else [link.number, *hops]

    monkeypatch.setattr(FloodRouting, "next_hops", next_hops)
    assert any(simulate(flooded(seed)).violation for seed in range(5))
