"""Whole worlds, drawn from seeds: all clean, every fault fired, one seed one history."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from runnel.sim import checkers
from runnel.sim.campaign import FAULTS, draw_plan
from runnel.sim.run import SimulationRun
from runnel.sim.shrink import shrink
from runnel.sim.summary import CampaignSummary, run_seed

CHUNKS, SEEDS_PER_CHUNK = 40, 25  # 1,000 seeds, in pieces that workers can share


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_seeds_are_clean_and_every_fault_fired(chunk: int) -> None:
    summary = CampaignSummary()
    for seed in range(chunk * SEEDS_PER_CHUNK, (chunk + 1) * SEEDS_PER_CHUNK):
        summary.add(run_seed(seed))
    failed = [f"runnel simulate --seed {o.seed}: {o.violation}" for o in summary.failed]
    assert not failed
    assert all(summary.fired[kind] for kind in FAULTS), summary.fired
    assert summary.seen["resumed"] and summary.seen["expired"]
    assert summary.seen["migrated"] and summary.seen["undone"] and summary.seen["relocations"]
    assert summary.seen["switched"] and summary.seen["switched back"]
    assert summary.seen["crashes in switches"]
    # Or it would say nothing that none was silent.
    assert summary.seen["losses"] and summary.seen["gaps"] and summary.seen["gaps to publishers"]
    assert summary.checked > 50 * SEEDS_PER_CHUNK, "too little happened to prove anything"


def test_publishers_are_placed_by_both_algorithms_in_many_seeds() -> None:
    drawn = [draw_plan(s).settings.placement.algorithm for s in range(CHUNKS * SEEDS_PER_CHUNK)]
    assert min(drawn.count("pop"), drawn.count("grape")) >= 150
    assert drawn.count("pop") + drawn.count("grape") >= 300


def test_the_network_is_switched_to_another_generation_in_many_seeds() -> None:
    plans = [draw_plan(seed) for seed in range(CHUNKS * SEEDS_PER_CHUNK)]
    assert sum(any(round.switch for round in plan.rounds) for plan in plans) >= 300


def test_invariants_are_checked_after_every_event_in_some_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = [SimulationRun(draw_plan(seed)) for seed in range(200)]
    run = next(run for run in runs if run.checker.checks_every_event)
    assert 5 <= sum(run.checker.checks_every_event for run in runs) <= 20
    during: list[int] = []
    monkeypatch.setattr(checkers, "check_broker", lambda broker: during.append(run.world.now))
    assert not run.go().violation
    assert len(during) > run.checker.checked / 10
    first, last = run.plan.rounds[0].length_ns // 4, run.plan.rounds[0].length_ns // 2
    assert any(first < at < last for at in during), "not while clients come and go"


def test_queues_overflow_in_some_seeds_and_drops_are_counted() -> None:
    assert any(run_seed(seed).seen["dropped"] for seed in range(50))


def test_losses_are_told_with_numbers_and_to_publishers_in_some_seeds() -> None:
    seen = sum((run_seed(seed).seen for seed in range(1, 40)), Counter[str]())
    assert seen["losses counted"] and seen["losses to publishers"]


@pytest.mark.parametrize("seed", [1, 7, 23])
def test_one_seed_is_one_history(seed: int) -> None:
    first, second = run_seed(seed), run_seed(seed)
    assert first.log_hash == second.log_hash
    assert first == second
    assert run_seed(seed + 1).log_hash != first.log_hash


def test_stories_do_not_change_history() -> None:
    told = SimulationRun(draw_plan(5), tell_stories=True).go()
    assert told.log_hash == run_seed(5).log_hash


def test_history_does_not_depend_on_the_hash_seed() -> None:
    program = (
        "from runnel.sim.summary import run_seed; print([run_seed(s).log_hash for s in (2, 3, 4)])"
    )
    hashes = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert hashes[0] == hashes[1] == f"{[run_seed(s).log_hash for s in (2, 3, 4)]}\n"


def test_a_failing_plan_shrinks() -> None:
    plan = draw_plan(3)
    wanted = next(o for o in plan.rounds[0].operations if o.kind == "move")
    smaller = shrink(plan, lambda p: any(wanted in r.operations for r in p.rounds), runs_max=2_000)
    assert smaller.size == 1
