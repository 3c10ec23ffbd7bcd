"""Runs experiments one after the other, each with all seeds, and writes their results.

First the runs of all seeds share the processors; each result is kept on disk at once (`done_jobs.py`), so that a
reproduction that was interrupted goes on where it stopped. Then rows are measured, seed by seed, with nothing else at
work: some are times by the clock. When all is written, what was kept is removed.

Everything but `timings.json`, and rows that are times by the clock, follows from the names, the scale and the seeds.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runnel.errors import InputError
from runnel.lab.claims import RowValue
from runnel.lab.criteria import Criteria
from runnel.lab.done_jobs import DoneJobs
from runnel.lab.experiment import (
    Experiment,
    ExperimentContext,
    Scale,
    Tell,
    do_jobs,
    find_experiment,
)
from runnel.lab.report import Findings, Setup, make_results, write_report, write_timings
from runnel.lab.results import Results, describe_machine


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The results of all experiments; `out` is the folder that they were written to."""

    results: Results
    out: Path
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether no row differs."""
        return all(row.outcome != "differs" for row in self.results.rows)


def reproduce(
    names: Sequence[str],
    scale: Scale,
    seed: int,
    out: Path,
    tell: Tell | None = None,
    seeds: int = 1,
) -> Reproduction:
    """Run experiments by name; `tell` is called with how much of all of them is done."""
    chosen = [find_experiment(name) for name in dict.fromkeys(names)]
    if not chosen:
        raise InputError("name at least one experiment")
    try:  # now, not after an hour
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{out}: results cannot be written here: {error.strerror}: choose another place with --out"
        ) from None
    setup = Setup([one.name for one in chosen], scale, seed, seeds)
    began = time.perf_counter()
    found: list[tuple[Criteria, list[Findings]]] = []
    timings: dict[str, dict[str, Any]] = {}
    kept: list[DoneJobs] = []
    weights = [one.seconds(scale) for one in chosen]
    for place, one in enumerate(chosen):
        report = _Progress(tell, sum(weights[:place]), weights[place], sum(weights), one.name)
        done = DoneJobs(out / one.name / "done")
        kept.append(done)
        by_seed = []
        for number, context in _do_jobs(one, scale, setup, out / one.name, done, report):
            started = time.perf_counter()
            by_seed.append(one.run(context))
            took = round(time.perf_counter() - started, 3)
            what_seed = f" (seed {number})" if seeds > 1 else ""
            timings[one.name + what_seed] = {"seconds": took, "steps": context.timings}
        found.append((one.criteria(), by_seed))
    results = make_results(setup, found, describe_machine())
    write_report(results, [by_seed[0] for _, by_seed in found], out)
    write_timings(out / "timings.json", setup, timings)
    for done in kept:
        done.remove()
    return Reproduction(results, out, time.perf_counter() - began)


@dataclass(slots=True)
class _Progress:
    """Tells how much of everything is done, of one experiment of several."""

    tell: Tell | None
    before_s: float
    own_s: float
    all_s: float
    name: str

    def __call__(self, share: float, what: str) -> None:
        if self.tell is not None:
            self.tell((self.before_s + share * self.own_s) / self.all_s, f"{self.name}{what}")


def _do_jobs(
    one: Experiment, scale: Scale, setup: Setup, folder: Path, done: DoneJobs, report: _Progress
) -> Iterator[tuple[int, ExperimentContext]]:
    """The runs of all seeds in one pool, if they do not depend on each other; then a context for each seed."""
    count = setup.seeds
    jobs = one.jobs(scale) if one.jobs is not None else None

    def tell_of(place: int) -> Tell:
        suffix = f" (seed {setup.all_seeds[place]})" if count > 1 else ""
        if jobs is not None:  # what is left is quick
            return lambda share, what: None
        return lambda share, what: report((place + share) / count, f"{suffix}: {what}")

    contexts = [
        ExperimentContext(one, scale, number, folder, tell_of(place), done=done)
        for place, number in enumerate(setup.all_seeds)
    ]
    if jobs is not None:
        seconds = {step.name: step.seconds for step in one.steps(scale)}
        total, passed = count * sum(seconds.values()), 0.0
        report(0.0, ": runs")
        for step, _ in do_jobs(contexts, *jobs):
            passed += seconds[step]
            report(min(1.0, passed / total), f": {step}")
    yield from zip(setup.all_seeds, contexts, strict=True)


def measure_again(
    name: str, rows: Collection[str], scale: Scale, seed: int, folder: Path
) -> dict[str, RowValue]:
    """The values of some rows, with no more runs than they need."""
    one = find_experiment(name)
    context = ExperimentContext(one, scale, seed, folder, rows=frozenset(rows))
    values = one.run(context).values
    if missing := set(rows) - set(values) - {row.id for row in one.criteria().row}:
        raise InputError(f"{name} has no row {', '.join(sorted(missing))}")
    return dict(values)
