"""What an experiment hands over: tables, figures and claims, as files that people and programs can read.

    results.json             one row per claim; the same seed gives the same bytes
    timings.json             what took how long by the clock on the wall, apart from everything else
    report.md                claims, figures and tables of all experiments, to be read
    <experiment>/*.svg|png   figures
    <experiment>/*.csv|md    tables

Rules:
- Numbers are rounded in one place (`number` for people, `claims.rounded` for programs).
- A file appears whole or not at all: it is written beside its place and renamed.
- Nothing but `timings.json` holds a time of day or a duration of this run.
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
from runnel.lab.claims import Claim, all_hold, rounded
from runnel.lab.figures import Chart, draw
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
        """For programs: all digits that count."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            writer.writerow([rounded(cell) if isinstance(cell, float) else cell for cell in row])
        return out.getvalue()

    def as_markdown(self) -> str:
        """For people.

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
            _line(self.columns),
            "|" + "|".join("--:" if right else ":--" for right in numeric) + "|",
            *(_line([_cell(cell) for cell in row]) for row in self.rows),
        ]
        return "\n".join(lines) + "\n"


@dataclass(slots=True)
class Findings:
    """What one experiment found. `setting` says in a few words what was run, assumptions included."""

    experiment: str
    title: str
    setting: str = ""
    claims: list[Claim] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether every claim does."""
        return all_hold(self.claims)


@dataclass(frozen=True, slots=True)
class Setup:
    """What was asked for; the same setup gives the same results."""

    names: Sequence[str]
    scale: str
    seed: int

    @property
    def command(self) -> str:
        """How to get the same again."""
        return f"runnel reproduce {' '.join(self.names)} --scale {self.scale} --seed {self.seed}"


def write_report(setup: Setup, found: Sequence[Findings], out: Path) -> None:
    """Write results, report, figures and tables."""
    for findings in found:
        folder = out / findings.experiment
        for chart in findings.charts:
            draw(chart, folder)
        for table in findings.tables:
            write_text(folder / f"{table.name}.csv", table.as_csv())
            write_text(folder / f"{table.name}.md", table.as_markdown())
    write_text(out / "results.json", results_json(setup, found))
    write_text(out / "report.md", report_markdown(setup, found))


def results_json(setup: Setup, found: Sequence[Findings]) -> str:
    """The claims of all experiments, one row each."""
    claims = [
        {"experiment": findings.experiment, **claim.as_row()}
        for findings in found
        for claim in findings.claims
    ]
    whole = {"runnel": __version__, "scale": setup.scale, "seed": setup.seed, "claims": claims}
    return as_json(whole)


def report_markdown(setup: Setup, found: Sequence[Findings]) -> str:
    """The report for people."""
    total = sum(len(findings.claims) for findings in found)
    holding = sum(claim.holds for findings in found for claim in findings.claims)
    parts = [
        "# Reproduced\n",
        f"{holding} of {total} claims hold. Made by Runnel {__version__} with\n",
        f"    {setup.command}\n",
        "The same command gives the same numbers. *Ours* was measured in simulated time on the broker that ships. A "
        "claim marked *calibrated* had a constant chosen by it and is no evidence. Where no paper prints a "
        "value, the claim is Runnel's own.\n",
    ]
    for findings in found:
        parts += _chapter(findings)
    return "\n".join(parts)


def _chapter(findings: Findings) -> Iterable[str]:
    yield f"## {findings.experiment}: {findings.title}\n"
    if findings.setting:
        yield f"{findings.setting}\n"
    yield "### Claims\n"
    yield claims_table(findings).as_markdown()
    for chart in findings.charts:
        yield f"### {chart.title}\n"
        yield f"![{chart.title}]({findings.experiment}/{chart.name}.svg)\n"
        yield f"{chart.caption}\n"
    for table in findings.tables:
        yield f"### {table.title}\n"
        yield table.as_markdown()


def claims_table(findings: Findings) -> Table:
    """The claims of an experiment, side by side with the paper's."""
    rows: list[list[Cell]] = []
    for claim in findings.claims:
        paper = claim.paper if isinstance(claim.paper, str) else _with_unit(claim.paper, claim.unit)
        holds = ("yes" if claim.holds else "**no**") + (", calibrated" if claim.calibrated else "")
        text = f"{claim.claim} ({claim.source})" if claim.source else claim.claim
        ours = _with_unit(claim.ours, claim.unit)
        rows.append([text, paper, ours, claim.tolerance, holds, claim.note])
    columns = ["claim", "paper", "ours", "tolerance", "holds", "note"]
    return Table("claims", "Claims", columns, rows)


def write_timings(path: Path, setup: Setup, seconds: Mapping[str, Mapping[str, Any]]) -> None:
    """What took how long, by experiment and step."""
    write_text(path, as_json({"command": setup.command, "experiments": seconds}))


def as_json(whole: Any) -> str:
    """JSON that people can read too; NaN and infinity, which JSON does not have, are null."""
    return json.dumps(_finite(whole), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """A text as a file, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written: {error.strerror}: choose another place with --out"
        ) from None


def number(value: float) -> str:
    """A number for people: four digits that count, or all of a whole number.

    >>> number(46.66666), number(12345), number(0.000123456), number(98765.4), number(float("nan"))
    ('46.67', '12,345', '0.0001235', '98,765', 'not measured')
    """
    value = rounded(value)
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
    return f"{number(value)}{unit}" if unit == "%" else f"{number(value)} {unit}".rstrip()


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return number(value)
    return value.replace("|", "\\|").replace("\n", " ")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and value - value != 0.0:
        return None
    if isinstance(value, Mapping):
        return {key: _finite(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(held) for held in value]
    return value
