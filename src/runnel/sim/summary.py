"""Runs many seeds, on several processes if wanted, and adds up their outcomes."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Generator, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from runnel.sim.campaign import FAULTS, draw_plan
from runnel.sim.checkers import SILENT
from runnel.sim.run import SimulationOutcome, simulate

SEEDS_PER_TASK = 3


def run_seed(seed: int) -> SimulationOutcome:
    """Run one seed."""
    return simulate(draw_plan(seed))


def run_seeds(seeds: Iterable[int]) -> list[SimulationOutcome]:
    """Run some seeds, one after the other."""
    return [run_seed(seed) for seed in seeds]


def outcomes(seeds: range, jobs: int) -> Generator[SimulationOutcome, None, None]:
    """Run many seeds; their outcomes in order."""
    if jobs <= 1:
        yield from map(run_seed, seeds)
        return
    tasks = [
        seeds[start : start + SEEDS_PER_TASK] for start in range(0, len(seeds), SEEDS_PER_TASK)
    ]
    pool = ProcessPoolExecutor(jobs, initializer=_leave_interrupts_to_the_parent)
    try:
        for some in pool.map(run_seeds, tasks):
            yield from some
    finally:  # also when the caller stops early: tasks that have not begun are cancelled
        pool.shutdown(cancel_futures=True)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@dataclass(slots=True)
class CampaignSummary:
    """The outcomes of many runs, added up."""

    seeds: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    checked: int = 0
    handlings: int = 0
    failed: list[SimulationOutcome] = field(default_factory=list)

    def add(self, outcome: SimulationOutcome) -> None:
        """Count one more."""
        self.seeds += 1
        self.fired += outcome.fired
        self.seen += outcome.seen
        self.checked += outcome.checked
        self.handlings += outcome.handlings
        if outcome.violation:
            self.failed.append(outcome)

    @property
    def silent_losses(self) -> int:
        """In how many runs a subscriber lost something and was not told; such a run ends there."""
        return sum(SILENT in outcome.violation for outcome in self.failed)

    def as_dict(self, seconds: float) -> dict[str, Any]:
        """For programs."""
        return {
            "seeds": self.seeds,
            "failed": [{"seed": o.seed, "violation": o.violation} for o in self.failed],
            "seeds_per_s": round(self.seeds / seconds, 2),
            "handlings_per_s": round(self.handlings / seconds),
            "messages_checked": self.checked,
            "silent_losses": self.silent_losses,
            "faults_fired": {kind: self.fired[kind] for kind in FAULTS},
            "links": dict(sorted(self.seen.items())),
        }

    def line(self, seconds: float) -> str:
        """For people.

        >>> CampaignSummary(seeds=3, checked=5).line(2.0).startswith("3 seeds clean, 1.5 seeds/s")
        True
        """
        state = f"{len(self.failed)} FAILED" if self.failed else "clean"
        faults = ", ".join(f"{kind} {self.fired[kind]:,}" for kind in FAULTS)
        return (
            f"{self.seeds:,} seeds {state}, {self.seeds / seconds:.1f} seeds/s, "
            f"{self.checked:,} messages checked, {self.handlings / seconds:,.0f} handlings/s; "
            f"publishers migrated {self.seen['migrated']:,}, undone {self.seen['undone']:,}; "
            f"networks switched {self.seen['switched']:,}, back {self.seen['switched back']:,}, "
            f"brokers crashed meanwhile {self.seen['crashes in switches']:,}; "
            f"gaps told {self.seen['gaps']:,}, losses announced {self.seen['losses']:,}, "
            f"silent losses {self.silent_losses:,}; "
            f"faults fired: {faults}"
        )
