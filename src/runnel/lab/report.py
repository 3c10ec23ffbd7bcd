"""The results of experiments (tables, figures, claims), written as files for people and for programs.

    results.json             one row per claim, and what was run where (results.py)
    timings.json             how long each step took by the wall clock
    report.md                the same to be read, made of results.json alone
    figures.md               figures and tables of all runs, to be looked at; those of the first seed
    <experiment>/*.svg|png   figures
    <experiment>/*.csv|md    tables

Rules:
- Numbers are rounded in one place (`format_number` for people, `claims.round_digits` for programs).
- A file appears whole or not at all: it is written under a temporary name and renamed.
- Nothing but `timings.json`, and rows that are declared as times by the clock, holds a duration of this run.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runnel.errors import InputError
from runnel.lab.claims import (
    Row,
    RowValue,
    count_outcomes,
    describe_counts,
    judge_rows,
    round_digits,
)
from runnel.lab.criteria import Criteria, Kind
from runnel.lab.figures import Chart, draw
from runnel.lab.results import FILE, ExperimentResults, Results, encode_results, make_command, seal
from runnel.version import __version__

Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `name` becomes the files' name. A column's unit is part of its name: `delay (ms)`."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InputError(
                    f"table {self.name!r}: a row has {len(row)} cells, there are {len(self.columns)} columns"
                )

    def as_csv(self) -> str:
        """The table for programs, with all significant digits."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            writer.writerow(
                [round_digits(cell) if isinstance(cell, float) else cell for cell in row]
            )
        return out.getvalue()

    def as_markdown(self) -> str:
        """The table for people, with rounded numbers.

        >>> print(Table("t", "", ["broker", "rate"], [["B1", 1234.5], ["B2", None]]).as_markdown(), end="")
        | broker | rate |
        |:--|--:|
        | B1 | 1,234.5 |
        | B2 |  |
        """
        numeric = [
            all(isinstance(row[n], (int, float)) or row[n] is None for row in self.rows)
            for n in range(len(self.columns))
        ]
        lines = [
            _markdown_line(self.columns),
            "|" + "|".join("--:" if right else ":--" for right in numeric) + "|",
            *(_markdown_line([_format_cell(cell) for cell in row]) for row in self.rows),
        ]
        return "\n".join(lines) + "\n"


@dataclass(slots=True)
class Findings:
    """What one run of an experiment found: values by the ids of rows. `setting` says in a few words what was run."""

    experiment: str
    title: str
    setting: str = ""
    values: Mapping[str, RowValue] = field(default_factory=dict)
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True, slots=True)
class Setup:
    """Which experiments were run, at which scale, with which seeds. The same setup gives the same results."""

    names: Sequence[str]
    scale: str
    seed: int
    seeds: int = 1

    @property
    def command(self) -> str:
        """The command that gives the same results again."""
        return make_command(self.names, self.scale, self.all_seeds)

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """The seeds, one after the other."""
        return tuple(range(self.seed, self.seed + self.seeds))


def make_results(
    setup: Setup, found: Sequence[tuple[Criteria, Sequence[Findings]]], machine: str
) -> Results:
    """Join what is declared with what the seeds of each experiment found."""
    experiments, rows = [], []
    for criteria, by_seed in found:
        one = by_seed[0]
        experiments.append(
            ExperimentResults(
                *(one.experiment, one.title, one.setting, criteria.workload, criteria.digest),
                *(criteria.seeds, criteria.constants, criteria.file_id),
            )
        )
        rows += judge_rows(one.experiment, criteria, [findings.values for findings in by_seed])
    results = Results(
        *(__version__, setup.command, setup.scale, setup.all_seeds, machine),
        *(tuple(experiments), tuple(rows)),
    )
    return seal(results)


def write_report(results: Results, found: Sequence[Findings], out: Path) -> None:
    """Write results, report, and the figures and tables of these findings."""
    for findings in found:
        folder = out / findings.experiment
        for chart in findings.charts:
            draw(chart, folder)
        for table in findings.tables:
            write_text(folder / f"{table.name}.csv", table.as_csv())
            write_text(folder / f"{table.name}.md", table.as_markdown())
    write_text(out / FILE, encode_results(results))
    write_text(out / "report.md", report_markdown(results))
    write_text(out / "figures.md", figures_markdown(found))


def report_markdown(results: Results) -> str:
    """The report for people, made of `results.json` alone."""
    seeds = ", ".join(map(str, results.seeds))
    parts = [
        "# Reproduced\n",
        f"Made by Runnel {results.runnel} on {results.machine}, with\n",
        f"    {results.command}\n",
        f"{'Seeds' if len(results.seeds) > 1 else 'Seed'} {seeds}. The same command gives the same numbers, except for "
        "times by the clock. *Ours* was measured in simulated time on the broker that ships; with several seeds it is "
        "their median, with the least and the greatest in brackets, and notes, curves and figures are those of the "
        "first. Claims are the paper's; rows by which a constant was chosen are no evidence; what no paper says is our "
        "own. The three are not added up. Figures and all runs: figures.md.\n",
    ]
    for one in results.experiments:
        parts += _describe_experiment(one, results)
    return "\n".join(parts)


def _describe_experiment(one: ExperimentResults, results: Results) -> Iterable[str]:
    rows = results.rows_of(one.name)
    yield f"## {one.name}: {one.title}\n"
    yield "\n".join(f"- {line}" for line in describe_counts(count_outcomes(rows))) + "\n"
    if len(results.seeds) < one.seeds_declared:
        yield (
            f"Seeds: {len(results.seeds)}; {one.seeds_declared} are declared to decide. "
            "What is near its bound here is decided by chance.\n"
        )
    yield f"{one.setting}\n"
    yield f"Criteria {one.criteria}, declared before the run. {one.workload}\n"
    for kind, title in TITLES.items():
        some = [row for row in rows if row.kind == kind]
        if some:
            yield f"### {title}\n"
            yield claims_table(some).as_markdown()
    yield from _describe_constants(one, rows)


def figures_markdown(found: Sequence[Findings]) -> str:
    """The figures and tables of a run, for people."""
    parts = ["# Figures\n"]
    for findings in found:
        parts.append(f"## {findings.experiment}: {findings.title}\n")
        for chart in findings.charts:
            parts.append(f"### {chart.title}\n")
            parts.append(f"![{chart.title}]({findings.experiment}/{chart.name}.svg)\n")
            parts.append(f"{chart.caption}\n")
        for table in findings.tables:
            parts += [f"### {table.title}\n", table.as_markdown()]
    return "\n".join(parts)


def _describe_constants(one: ExperimentResults, rows: Sequence[Row]) -> Iterable[str]:
    """Each setting that the paper does not print, and how rows hang on it."""
    if not one.constants:
        return
    yield "### What the paper does not print\n"
    for name, constant in one.constants.items():
        yield f"**{name}**: {constant.what}. Used: {constant.used}. {constant.why}\n"
        if constant.tried:
            yield f"Tried: {'; '.join(constant.tried)}.\n"
        lines = [_describe_curve(row, name) for row in rows if name in row.curves]
        if lines:
            yield "\n".join(lines) + "\n"


def _describe_curve(row: Row, constant: str) -> str:
    points = [
        f"{x if isinstance(x, str) else format_number(x)}: {'—' if y is None else format_number(y)}"
        for x, y in row.curves[constant]
    ]
    unit = f" in {row.declared.unit}" if row.declared.unit else ""
    return f"- {row.declared.claim} ({row.bounds}){unit}: {', '.join(points)}"


TITLES: Mapping[Kind, str] = {
    "claim": "Claims of the paper",
    "calibrated": "Calibrated: a constant was chosen by these",
    "ours": "Our own",
}


def claims_table(rows: Sequence[Row]) -> Table:
    """Rows, side by side with the paper's words."""
    lines: list[list[Cell]] = []
    for row in rows:
        declared = row.declared
        said = [f"“{declared.quote}” ({declared.source})"] if declared.quote else []
        said += [f"but: {declared.but}"] if declared.but else []
        ours = "not measured" if row.ours is None else _with_unit(row.ours, declared.unit)
        known = [value for value in row.values if value is not None]
        if 0 < len(known) < len(row.values):
            ours += f", measured with {len(known)} of {len(row.values)} seeds"
        if len(set(known)) > 1:
            ours += f" ({format_number(min(known))} to {format_number(max(known))})"
        clock = ", by the clock" if declared.by_clock else ""
        outcome = row.outcome if row.outcome == "holds" else f"**{row.outcome}**"
        word = f"{declared.word}: {row.bounds}" if declared.word else row.bounds
        lines.append([declared.claim, "; ".join(said), word, ours + clock, outcome, row.note])
    return Table(
        "claims", "Claims", ["claim", "the paper", "judged by", "ours", "outcome", "note"], lines
    )


def write_timings(path: Path, setup: Setup, seconds: Mapping[str, Mapping[str, Any]]) -> None:
    """Write how long every step of every experiment took."""
    write_text(path, as_json({"command": setup.command, "experiments": seconds}))


def as_json(whole: Any) -> str:
    """Indented JSON. NaN and infinity, which JSON does not have, become null."""
    return (
        json.dumps(_replace_non_finite(whole), ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    )


def write_text(path: Path, text: str) -> None:
    """Write a text into a file, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written: {error.strerror}: choose another place with --out"
        ) from None


def format_number(value: float) -> str:
    """A number for people: four significant digits, or all digits of a whole number.

    >>> [format_number(value) for value in (46.66666, 12345, 0.000123456, 98765.4, float("nan"))]
    ['46.67', '12,345', '0.0001235', '98,765', 'not measured']
    """
    value = round_digits(value)
    if value != value:
        return "not measured"
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= 1_000:
        return f"{value:,.1f}".removesuffix(".0") if abs(value) < 10_000 else f"{value:,.0f}"
    return f"{value:.4g}"


def _with_unit(value: float | str | None, unit: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return (
        f"{format_number(value)}{unit}"
        if unit == "%"
        else f"{format_number(value)} {unit}".rstrip()
    )


def _format_cell(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return format_number(value)
    return value.replace("|", "\\|").replace("\n", " ")


def _markdown_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _replace_non_finite(value: Any) -> Any:
    if isinstance(value, float) and value - value != 0.0:
        return None
    if isinstance(value, Mapping):
        return {key: _replace_non_finite(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace_non_finite(held) for held in value]
    return value
