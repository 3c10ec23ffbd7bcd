"""What an experiment is, and what it works with.

An experiment is a file in `experiments/` that registers itself:

    @experiment("routing", "Plain routing …", steps)
    def run(desk: Desk) -> Findings: …

`steps` names what it will do at a scale, with how long each takes, roughly: that is what the progress bar is made of.
The function runs scenarios through its desk, takes metrics of their traces, and returns findings.

Rules:
- Findings follow from the scale and the seed alone. What a clock on the wall said goes through `Desk.timed`.
- An experiment writes nowhere but into its own folder.
"""

from __future__ import annotations

import os
import pkgutil
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from runnel.errors import BugError, InputError
from runnel.lab.report import Findings
from runnel.lab.run import Run, run_scenario
from runnel.lab.scenario import Scenario

Scale = Literal["quick", "paper"]
SCALES: tuple[Scale, ...] = ("quick", "paper")
Tell = Callable[[float, str], None]
"""Told how much is done, from 0 to 1, and what is being done."""

Timing = dict[str, Any]
"""What a step took, by the clock on the wall."""

_Measured = TypeVar("_Measured")
_Job = TypeVar("_Job")


class Step(NamedTuple):
    """A part of an experiment that takes a while: about so many seconds."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment, as it registered itself."""

    name: str
    title: str
    steps: Callable[[Scale], Sequence[Step]]
    run: Callable[[Desk], Findings]

    def seconds(self, scale: Scale) -> float:
        """About how long it takes."""
        return sum(step.seconds for step in self.steps(scale))


@dataclass(slots=True)
class Desk:
    """What an experiment works with: its scale, seed and folder, and somebody who listens how far it is."""

    experiment: Experiment
    scale: Scale
    seed: int
    folder: Path
    tell: Tell = lambda share, what: None
    timings: dict[str, Timing] = field(default_factory=dict)
    _done_s: float = 0.0

    def simulate(self, step: str, scenario: Scenario) -> Run:
        """Run a scenario as one of the steps; its trace stays in the experiment's folder."""
        place = self._place(step)
        with self.step(step) as tell:
            run = run_scenario(scenario, place, self.seed, lambda share, what: tell(share))
        self.timings[step] |= _speed(run)
        return run

    def simulate_all(
        self, scenarios: Mapping[str, Scenario], measure: Callable[[Run], _Measured]
    ) -> dict[str, _Measured]:
        """Run scenarios, each as the step of its name, as many at once as there are processors.

        Every run is measured in the process that ran it, so `measure` must be a function that others can find.
        """
        return self.work_all(
            {step: (scenario, measure) for step, scenario in scenarios.items()}, _simulate
        )

    def work_all(
        self, jobs: Mapping[str, _Job], work: Callable[[_Job, Path, int], tuple[_Measured, Timing]]
    ) -> dict[str, _Measured]:
        """Do jobs, each as the step of its name, as many at once as there are processors, in their order.

        `work` is given a job, a place for its trace and the seed; it says what it found, and what that took.
        """
        found: dict[str, _Measured] = {}
        with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
            under_way = {
                pool.submit(work, job, self._place(step), self.seed): step
                for step, job in jobs.items()
            }
            try:
                for done in as_completed(under_way):
                    step = under_way[done]
                    with self.step(step):
                        found[step], timing = done.result()
                    self.timings[step] = timing
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return {step: found[step] for step in jobs}

    def _place(self, step: str) -> Path:
        """Where the trace of a step goes."""
        place = self.folder / "runs" / step.replace(" ", "-").replace(",", "")
        _make_room(place)
        return place

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[float], None]]:
        """Do one of the steps; what it yields is told how much of it is done."""
        weights = dict(self.experiment.steps(self.scale))
        if name not in weights:
            raise BugError(f"experiment {self.experiment.name} has no step {name!r}")
        total = sum(weights.values())

        def tell(share: float) -> None:
            self.tell(min(1.0, (self._done_s + share * weights[name]) / total), name)

        tell(0.0)
        began = time.perf_counter()
        yield tell
        self.timings[name] = {"seconds": round(time.perf_counter() - began, 3)}
        tell(1.0)
        self._done_s += weights[name]


_EXPERIMENTS: dict[str, Experiment] = {}


def experiment(
    name: str, title: str, steps: Callable[[Scale], Sequence[Step]]
) -> Callable[[Callable[[Desk], Findings]], Callable[[Desk], Findings]]:
    """Register a function as an experiment."""

    def register(run: Callable[[Desk], Findings]) -> Callable[[Desk], Findings]:
        if name in _EXPERIMENTS:
            raise BugError(f"there are two experiments called {name}")
        _EXPERIMENTS[name] = Experiment(name, title, steps, run)
        return run

    return register


def experiments() -> dict[str, Experiment]:
    """All experiments by name, in the order of their names."""
    from runnel.lab import experiments as folder

    for module in pkgutil.iter_modules(folder.__path__):
        import_module(f"{folder.__name__}.{module.name}")
    return dict(sorted(_EXPERIMENTS.items()))


def find_experiment(name: str) -> Experiment:
    """An experiment, or an InputError that names those there are.

    >>> find_experiment("rooting")
    Traceback (most recent call last):
    runnel.errors.InputError: there is no experiment 'rooting'; there are green, placement, routing
    """
    known = experiments()
    if name not in known:
        raise InputError(f"there is no experiment {name!r}; there are {', '.join(known)}")
    return known[name]


def _simulate(
    job: tuple[Scenario, Callable[[Run], _Measured]], place: Path, seed: int
) -> tuple[_Measured, Timing]:
    """One run in a process of its own: what was measured, and what it took."""
    scenario, measure = job
    began = time.perf_counter()
    run = run_scenario(scenario, place, seed)
    found = measure(run)
    return found, {"seconds": round(time.perf_counter() - began, 3)} | _speed(run)


def _speed(run: Run) -> Timing:
    per_s = round(run.window_handlings / run.window_s) if run.window_s else None
    return {"handlings": run.handlings, "handlings_per_s": per_s}


def _make_room(place: Path) -> None:
    """Remove what an earlier run left here, and nothing that is not such a thing."""
    trace = place / "trace"
    if (trace / "trace.json").exists():
        shutil.rmtree(trace)
