"""`results.json`: every row of a run with all that is needed to judge it again, and what was run where.

The report is made of this file alone. `find_mistakes` judges it once more by what is declared now: that catches a
criterion that was changed after the run, and a file that was edited. Only a run shows whether the values are true:
`compare_values` sets some of them beside those of another run.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from runnel.errors import InputError
from runnel.lab.claims import Row, RowValue, judge, median, outcome_of
from runnel.lab.criteria import Constant, Criteria

FILE = "results.json"


class ExperimentResults(Struct, frozen=True):
    """What was run of one experiment; `criteria` is the digest of what it was judged by."""

    name: str
    title: str
    setting: str
    workload: str
    criteria: str
    seeds_declared: int
    constants: Mapping[str, Constant]


class Results(Struct, frozen=True):
    """One run of experiments."""

    runnel: str
    command: str
    scale: str
    seeds: tuple[int, ...]
    machine: str
    experiments: tuple[ExperimentResults, ...]
    rows: tuple[Row, ...]

    def rows_of(self, experiment: str) -> list[Row]:
        """The rows of one experiment."""
        return [row for row in self.rows if row.experiment == experiment]


def encode_results(results: Results) -> str:
    """The file's text."""
    return msgspec.json.format(msgspec.json.encode(results), indent=2).decode() + "\n"


def read_results(file: Path) -> Results:
    """Read `results.json`."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Results)
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from None


def find_mistakes(results: Results, criteria: Mapping[str, Criteria]) -> list[str]:
    """What in a file does not follow from its own values and from what is declared now."""
    found = []
    for one in results.experiments:
        declared = criteria[one.name]
        if one.criteria != declared.digest:
            found.append(
                f"{one.name}: was judged by criteria {one.criteria}, declared are {declared.digest}: "
                f"run it again ({results.command})"
            )
        rows = {row.id: row for row in results.rows_of(one.name)}
        for criterion in declared.row:
            row = rows.pop(criterion.id, None)
            if row is None:
                found.append(f"{criterion.id}: is declared, and not among the results")
            elif row.declared != criterion or row.bounds != str(criterion.bounds):
                found.append(f"{criterion.id}: is not what is declared")
            elif row.values and len(row.values) != len(results.seeds):
                found.append(f"{criterion.id}: has {len(row.values)} values of {results.seeds}")
            elif (row.ours, row.outcome) != (
                ours := median(row.values),
                outcome_of(criterion, ours),
            ):
                found.append(
                    f"{criterion.id}: {row.ours} {row.outcome} does not follow from its values"
                )
        found += [f"{id}: is among the results, and not declared" for id in rows]
    return found


def compare_values(
    results: Results, seed: int, measured: Mapping[str, Mapping[str, RowValue]]
) -> list[str]:
    """Where another run of a seed gave other values; times by the clock are left out."""
    place = results.seeds.index(seed)
    found = []
    for row in results.rows:
        if row.declared.by_clock or row.id not in measured.get(row.experiment, {}):
            continue
        again = judge(row.experiment, row.declared, [measured[row.experiment][row.id]])
        was = row.values[place] if row.values else None
        if (now := again.ours) != was:
            found.append(
                f"{row.experiment} {row.id}, seed {seed}: results have {was}, now it is {now}"
            )
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
