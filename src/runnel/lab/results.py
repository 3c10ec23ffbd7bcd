"""`results.json`: every row of a run with all that is needed to judge it again, and what was run where.

The report is made of this file alone. What keeps it honest:

- `find_mistakes` judges it once more by what is declared now: that catches a criterion that was changed after the run,
  seeds that were left out, a row that lost its values, and, by the seal over all of it, a file that was edited.
- `compare_values` sets some of its values, notes and curves beside those of another run: only a run shows whether
  they are true.
- `history.py` asks git whether the criteria were there before the results.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from runnel.errors import InputError
from runnel.lab.claims import Row, RowValue, judge, median, outcome_of
from runnel.lab.criteria import Constant, Criteria, Criterion

FILE = "results.json"
DECIDES_NOTHING = "quick"
"""The scale at which fewer seeds will do than are declared."""


class ExperimentResults(Struct, frozen=True):
    """What was run of one experiment; `criteria` is the digest of its criteria, `file` git's id of their file."""

    name: str
    title: str
    setting: str
    workload: str
    criteria: str
    seeds_declared: int
    constants: Mapping[str, Constant]
    file: str = ""


class Results(Struct, frozen=True):
    """One run of experiments. `sealed` is a digest of all the rest."""

    runnel: str
    command: str
    scale: str
    seeds: tuple[int, ...]
    machine: str
    experiments: tuple[ExperimentResults, ...]
    rows: tuple[Row, ...]
    sealed: str = ""

    def rows_of(self, experiment: str) -> list[Row]:
        """The rows of one experiment."""
        return [row for row in self.rows if row.experiment == experiment]


class Expected(NamedTuple):
    """What results of an experiment are held against. None: that is not known."""

    criteria: Criteria
    title: str | None = None
    setting: str | None = None
    measured: frozenset[str] | None = None  # the rows that the experiment measures


def seal(results: Results) -> Results:
    """The same results with a digest over all of them, as they are read from a file."""
    plain = msgspec.json.decode(
        msgspec.json.encode(msgspec.structs.replace(results, sealed="")), type=Results
    )
    digest = hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()[:16]
    return msgspec.structs.replace(results, sealed=digest)


def make_command(names: Iterable[str], scale: str, seeds: Sequence[int]) -> str:
    """The command that gives the same results again."""
    many = f" --seeds {len(seeds)}" if len(seeds) != 1 else ""
    return f"runnel reproduce {' '.join(names)} --scale {scale} --seed {seeds[0]}{many}"


def encode_results(results: Results) -> str:
    """The file's text."""
    return msgspec.json.format(msgspec.json.encode(results), indent=2).decode() + "\n"


def read_results(file: Path) -> Results:
    """Read `results.json`."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Results)
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from None


def find_mistakes(results: Results, expected: Mapping[str, Expected]) -> list[str]:
    """What in a file does not follow from its own values and from what is declared now."""
    found = list(_mistakes_of_run(results))
    for one in results.experiments:
        found += _mistakes_of_experiment(results, one, expected[one.name])
        found += _mistakes_of_rows(results, one.name, expected[one.name])
    return found


def _mistakes_of_run(results: Results) -> Iterator[str]:
    if seal(results).sealed != results.sealed:
        yield "results: were edited after the run: the seal does not fit them"
    if not results.seeds:
        yield "results: have no seeds"
        return
    names = [one.name for one in results.experiments]
    if results.command != make_command(names, results.scale, results.seeds):
        yield f"results: {results.command!r} does not give seeds {results.seeds} at this scale"
    if list(results.seeds) != list(range(results.seeds[0], results.seeds[0] + len(results.seeds))):
        yield f"results: seeds {results.seeds} do not follow each other: some are left out"


def _mistakes_of_experiment(
    results: Results, one: ExperimentResults, expected: Expected
) -> Iterator[str]:
    declared = expected.criteria
    if one.criteria != declared.digest:
        yield (
            f"{one.name}: was judged by criteria {one.criteria}, declared are {declared.digest}: "
            f"run it again ({results.command})"
        )
    for what, ours, theirs in (
        ("title", one.title, expected.title),
        ("setting", one.setting, expected.setting),
        ("workload", one.workload, declared.workload),
        ("constants", one.constants, declared.constants),
        ("seeds_declared", one.seeds_declared, declared.seeds),
    ):
        if theirs is not None and ours != theirs:
            yield f"{one.name}: {what} is not what is declared"
    if results.scale != DECIDES_NOTHING and len(results.seeds) < declared.seeds:
        yield f"{one.name}: has {len(results.seeds)} seeds, and {declared.seeds} are declared"


def _mistakes_of_rows(results: Results, experiment: str, expected: Expected) -> Iterator[str]:
    rows = {row.id: row for row in results.rows_of(experiment)}
    measured = expected.measured or frozenset()
    for criterion in expected.criteria.row:
        row = rows.pop(criterion.id, None)
        if row is None:
            yield f"{criterion.id}: is declared, and not among the results"
        else:
            mistake = _mistake_of_row(results, criterion, row, criterion.id in measured)
            if mistake:
                yield f"{criterion.id}: {mistake}"
    yield from (f"{id}: is among the results, and not declared" for id in rows)


def _mistake_of_row(
    results: Results, criterion: Criterion, row: Row, is_measured: bool
) -> str | None:
    if row.declared != criterion or row.bounds != str(criterion.bounds):
        return "is not what is declared"
    if is_measured and not row.values:
        return "is measured, and has no values"
    if row.values and len(row.values) != len(results.seeds):
        return f"has {len(row.values)} values of {results.seeds}"
    ours = median(row.values)
    if (row.ours, row.outcome) != (ours, outcome_of(criterion, ours)):
        return f"{row.ours} {row.outcome} does not follow from its values"
    if row.values and set(row.curves) != set(criterion.over):
        return f"has curves over {sorted(row.curves)}, declared are {sorted(criterion.over)}"
    return None


def compare_values(
    results: Results, seed: int, measured: Mapping[str, Mapping[str, RowValue]]
) -> list[str]:
    """Where another run of a seed gave another value, or of the first seed another note or curve.

    Times by the clock are left out.
    """
    place = results.seeds.index(seed)
    found = []
    for row in results.rows:
        if row.declared.by_clock or row.id not in measured.get(row.experiment, {}):
            continue
        again = judge(row.experiment, row.declared, [measured[row.experiment][row.id]])
        compared: list[tuple[str, object, object]] = [
            ("", row.values[place] if row.values else None, again.ours)
        ]
        if place == 0:
            compared += [("note ", row.note, again.note), ("curves ", row.curves, again.curves)]
        found += [
            f"{row.experiment} {row.id}, seed {seed}: {what}results have {was}, now it is {now}"
            for what, was, now in compared
            if was != now
        ]
    return found


def describe_machine() -> str:
    """Where it was run: system, processors, Python."""
    return (
        f"{platform.system()} on {platform.machine()}, {os.cpu_count()} processors"
        f"{_processor_model()}, Python {platform.python_version()}"
    )


def _processor_model() -> str:
    try:
        lines: Iterable[str] = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    models = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    return f" ({', '.join(sorted(models))})" if models else ""
