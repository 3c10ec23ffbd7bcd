"""What an experiment is, and what it works with.

An experiment is a folder in `experiments/` whose `experiment.py` registers itself:

    @experiment("routing", "Plain routing …", steps, Path(__file__).with_name("claims.toml"))
    def run(context: ExperimentContext) -> Findings: …

`steps` lists the steps of a run at a scale with their rough durations; the progress bar is made of them. The file
declares the rows and what they are judged by (criteria.py). The function runs scenarios through its context, takes
metrics of their traces, and returns findings: a value for each row. It judges nothing.

A context may ask for some rows only. Then `run_jobs` runs a job when its result is first looked up, so that a row costs
no more than the runs that it needs.

Rules:
- Findings follow from the scale and the seed alone. What the wall clock measured goes
  to `ExperimentContext.timings`, and into rows that are declared as times by the clock.
- An experiment writes nowhere but into its own folder.
"""

from __future__ import annotations

import os
import pkgutil
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from runnel.errors import BugError, InputError
from runnel.lab.claims import RowValue
from runnel.lab.criteria import Criteria, read_criteria
from runnel.lab.done_jobs import DoneJobs
from runnel.lab.report import Findings
from runnel.lab.results import Expected
from runnel.lab.run import ScenarioRun, run_scenario
from runnel.lab.scenario import Scenario

Scale = Literal["quick", "paper"]
SCALES: tuple[Scale, ...] = ("quick", "paper")
Tell = Callable[[float, str], None]
"""Called with how much is done, from 0 to 1, and what is being done."""

Timing = dict[str, Any]
"""How long a step took by the wall clock, and how fast it was."""

_Measured = TypeVar("_Measured")
_Job = TypeVar("_Job")
_Runs = TypeVar("_Runs")
_Case = TypeVar("_Case")


class Jobs(NamedTuple):
    """Jobs by the name of their step, and the function that does one: see `ExperimentContext.run_jobs`."""

    jobs: Mapping[str, Any]
    work: Callable[[Any, Path, int], tuple[Any, Timing]]


class ExperimentStep(NamedTuple):
    """A step of an experiment, and roughly how many seconds it takes."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment, as it registered itself."""

    name: str
    title: str
    steps: Callable[[Scale], Sequence[ExperimentStep]]
    run: Callable[[ExperimentContext], Findings]
    criteria_file: Path
    setting: Callable[[Scale], str] | None = None  # what is run at a scale, in a few words
    measured: Callable[[], Collection[str]] | None = None  # the ids of rows that it measures
    jobs: Callable[[Scale], Jobs] | None = None  # its runs, where they do not depend on each other

    def expected(self, scale: Scale) -> Expected:
        """What results of it are held against."""
        return Expected(
            self.criteria(),
            self.title,
            None if self.setting is None else self.setting(scale),
            None if self.measured is None else frozenset(self.measured()),
        )

    def criteria(self) -> Criteria:
        """What it is judged by."""
        return read_criteria(self.criteria_file)

    def seconds(self, scale: Scale) -> float:
        """About how long it takes."""
        return sum(step.seconds for step in self.steps(scale))


@dataclass(slots=True)
class ExperimentContext:
    """What an experiment works with: its scale, seed and folder, and a callback for progress.

    `rows`: the only ones that are wanted; None: all.
    """

    experiment: Experiment
    scale: Scale
    seed: int
    folder: Path
    tell: Tell = lambda share, what: None
    rows: frozenset[str] | None = None
    timings: dict[str, Timing] = field(default_factory=dict)
    done: DoneJobs | None = None  # where results of jobs are kept until all is written
    _done_s: float = 0.0

    def simulate(self, step: str, scenario: Scenario) -> ScenarioRun:
        """Run a scenario as one of the steps; its trace stays in the experiment's folder."""
        place = self.trace_folder(step)
        with self.step(step) as tell:
            run = run_scenario(scenario, place, self.seed, lambda share, what: tell(share))
        self.timings[step] |= _speed(run)
        return run

    def simulate_all(
        self, scenarios: Mapping[str, Scenario], measure: Callable[[ScenarioRun], _Measured]
    ) -> Mapping[str, _Measured]:
        """Run scenarios, each as the step of its name, as many at once as there are processors.

        Every run is measured in the process that ran it, so `measure` must be a function that others can find.
        """
        return self.run_jobs(*measured_runs(scenarios, measure))

    def run_jobs(
        self, jobs: Mapping[str, _Job], work: Callable[[_Job, Path, int], tuple[_Measured, Timing]]
    ) -> Mapping[str, _Measured]:
        """Do jobs, each as the step of its name, as many at once as there are processors, in their order.

        `work` is given a job, a place for its trace and the seed; it says what it found, and what that took. If only
        some rows are wanted, a job is done when its result is looked up. What has been done already, with other seeds
        or before an interruption, is taken from `done`.
        """
        if self.rows is not None:
            return JobsOnDemand(self, jobs, work)
        found: dict[str, _Measured] = {}
        for step, (result, timing) in do_jobs([self], jobs, work):
            with self.step(step):
                found[step] = result
            self.timings[step] = timing
        return {step: found[step] for step in jobs}

    def measure_rows(
        self, measures: Mapping[str, Callable[[_Runs], RowValue]], runs: _Runs
    ) -> dict[str, RowValue]:
        """The values of all rows that are wanted."""
        return {
            id: measure(runs)
            for id, measure in measures.items()
            if self.rows is None or id in self.rows
        }

    def trace_folder(self, step: str) -> Path:
        """Where the trace of a step goes."""
        runs = self.folder / "runs"
        place = (runs if self.done is None else runs / f"seed-{self.seed}") / step.replace(
            " ", "-"
        ).replace(",", "")
        _remove_old_trace(place)
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


def measured_runs(scenarios: Mapping[str, Scenario], measure: Callable[[ScenarioRun], Any]) -> Jobs:
    """Scenarios to run, each as the step of its name, and what is measured of every run."""
    return Jobs({step: (scenario, measure) for step, scenario in scenarios.items()}, _simulate)


def do_jobs(
    contexts: Sequence[ExperimentContext],
    jobs: Mapping[str, Any],
    work: Callable[[Any, Path, int], tuple[Any, Timing]],
) -> Iterator[tuple[str, tuple[Any, Timing]]]:
    """Do jobs with the seeds of all contexts in one pool; each step and its result when it is done.

    Every result is kept by its context at once. If one fails, those under way are waited for, and kept too.
    """
    todo: list[tuple[ExperimentContext, str]] = []
    for context in contexts:
        for step, job in jobs.items():
            kept = None if context.done is None else context.done.find(step, job, context.seed)
            if kept is None:
                todo.append((context, step))
            else:
                yield step, kept
    if not todo:
        return
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        under_way = {
            pool.submit(work, jobs[step], context.trace_folder(step), context.seed): (context, step)
            for context, step in todo
        }
        known: set[Future[tuple[Any, Timing]]] = set()

        def keep(done: Future[tuple[Any, Timing]]) -> None:
            context, step = under_way[done]
            result = done.result()
            if context.done is not None and done not in known:
                context.done.keep(step, jobs[step], context.seed, result)
            known.add(done)

        try:
            for done in as_completed(under_way):
                keep(done)
                yield under_way[done][1], done.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            for done in under_way:
                if done.done() and not done.cancelled() and done.exception() is None:
                    keep(done)
            raise


class JobsOnDemand(Mapping[str, _Measured]):
    """Results of jobs by name; each job is done when its result is first looked up."""

    def __init__(
        self,
        context: ExperimentContext,
        jobs: Mapping[str, _Job],
        work: Callable[[_Job, Path, int], tuple[_Measured, Timing]],
    ) -> None:
        self._context, self._jobs, self._work = context, jobs, work
        self._found: dict[str, _Measured] = {}

    def __getitem__(self, step: str) -> _Measured:
        if step not in self._found:
            context = self._context
            with context.step(step):
                self._found[step], timing = self._work(
                    self._jobs[step], context.trace_folder(step), context.seed
                )
            context.timings[step] = timing
        return self._found[step]

    def __iter__(self) -> Iterator[str]:
        return iter(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)


class ByCase(Mapping[_Case, _Measured]):
    """Results by case instead of by name."""

    def __init__(self, names: Mapping[_Case, str], found: Mapping[str, _Measured]) -> None:
        self._names, self._found = names, found

    def __getitem__(self, case: _Case) -> _Measured:
        return self._found[self._names[case]]

    def __iter__(self) -> Iterator[_Case]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


_EXPERIMENTS: dict[str, Experiment] = {}


def experiment(
    name: str,
    title: str,
    steps: Callable[[Scale], Sequence[ExperimentStep]],
    criteria: Path,
    *,
    setting: Callable[[Scale], str] | None = None,
    measured: Callable[[], Collection[str]] | None = None,
    jobs: Callable[[Scale], Jobs] | None = None,
) -> Callable[[Callable[[ExperimentContext], Findings]], Callable[[ExperimentContext], Findings]]:
    """Register a function as an experiment; `criteria` is the file of its rows.

    The rest is for experiments whose results are committed: their results are held against `setting` and `measured`,
    and `jobs` of all seeds share the processors.
    """

    def register(
        run: Callable[[ExperimentContext], Findings],
    ) -> Callable[[ExperimentContext], Findings]:
        if name in _EXPERIMENTS:
            raise BugError(f"there are two experiments called {name}")
        _EXPERIMENTS[name] = Experiment(
            *(name, title, steps, run, criteria), setting=setting, measured=measured, jobs=jobs
        )
        return run

    return register


def experiments() -> dict[str, Experiment]:
    """All experiments by name, in the order of their names."""
    from runnel.lab import experiments as folder

    for module in pkgutil.iter_modules(folder.__path__):
        import_module(f"{folder.__name__}.{module.name}.experiment")
    return dict(sorted(_EXPERIMENTS.items()))


def find_experiment(name: str) -> Experiment:
    """An experiment, or an InputError that names those there are.

    >>> find_experiment("routing").name
    'routing'
    >>> find_experiment("rooting")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    runnel.errors.InputError: there is no experiment 'rooting'; there are ...routing...
    """
    known = experiments()
    if name not in known:
        raise InputError(f"there is no experiment {name!r}; there are {', '.join(known)}")
    return known[name]


def _simulate(
    job: tuple[Scenario, Callable[[ScenarioRun], _Measured]], place: Path, seed: int
) -> tuple[_Measured, Timing]:
    """One run in a process of its own: what was measured, and what it took."""
    scenario, measure = job
    began = time.perf_counter()
    run = run_scenario(scenario, place, seed)
    found = measure(run)
    return found, {"seconds": round(time.perf_counter() - began, 3)} | _speed(run)


def _speed(run: ScenarioRun) -> Timing:
    per_s = round(run.window_handlings / run.window_s) if run.window_s else None
    return {"handlings": run.handlings, "handlings_per_s": per_s}


def _remove_old_trace(place: Path) -> None:
    """Remove what an earlier run left here, and nothing that is not such a thing."""
    trace = place / "trace"
    if (trace / "trace.json").exists():
        shutil.rmtree(trace)
