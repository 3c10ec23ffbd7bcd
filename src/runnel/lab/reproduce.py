"""Runs experiments one after the other, each with all seeds, and writes their results.

Everything but `timings.json`, and rows that are times by the clock, follows from the names, the scale and the seeds.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runnel.errors import InputError
from runnel.lab.claims import RowValue
from runnel.lab.criteria import Criteria
from runnel.lab.experiment import ExperimentContext, Scale, Tell, find_experiment
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
    runs = [(one, number) for one in chosen for number in setup.all_seeds]
    weights = [one.seconds(scale) for one, _ in runs]
    began = time.perf_counter()
    found: dict[str, tuple[Criteria, list[Findings]]] = {
        one.name: (one.criteria(), []) for one in chosen
    }
    timings: dict[str, dict[str, Any]] = {}
    for place, (one, number) in enumerate(runs):
        what_seed = f" (seed {number})" if seeds > 1 else ""

        def report_progress(
            share: float, what: str, place: int = place, suffix: str = what_seed
        ) -> None:
            if tell is not None:
                done = (sum(weights[:place]) + share * weights[place]) / sum(weights)
                tell(done, f"{runs[place][0].name}{suffix}: {what}")

        context = ExperimentContext(one, scale, number, out / one.name, report_progress)
        started = time.perf_counter()
        found[one.name][1].append(one.run(context))
        took = round(time.perf_counter() - started, 3)
        timings[one.name + what_seed] = {"seconds": took, "steps": context.timings}
    results = make_results(setup, list(found.values()), describe_machine())
    write_report(results, [by_seed[0] for _, by_seed in found.values()], out)
    write_timings(out / "timings.json", setup, timings)
    return Reproduction(results, out, time.perf_counter() - began)


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
