"""What every benchmark shares: timing, the machine, a table to read and a last line for programs.

Rules: a figure is the median of at least five repeats, with its spread beside it; the last line printed is
one JSON object {"bench": NAME, "rows": [{one figure with its parameters}], "machine": {...}}.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

Row = dict[str, Any]

REPEATS = 5
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Rate(NamedTuple):
    """How often something happens in a second: the median of the repeats, and how far they lie apart."""

    per_s: float
    spread: float
    """(largest − smallest) / median"""


class Target(NamedTuple):
    """A figure that rows are held against; `at_most` turns the comparison round."""

    figure: str
    bound: float
    at_most: bool = False

    def met(self, row: Row) -> bool:
        value = row[self.figure]
        return bool(value <= self.bound if self.at_most else value >= self.bound)


def measure(
    pass_once: Callable[[], int],
    *,
    min_s: float = 0.2,
    repeats: int = REPEATS,
    max_s: float = 20.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Rate:
    """Call `pass_once` (which returns how many things it did) for `min_s` per repeat, after a warm-up.

    A pass that is slow in itself is repeated less often, so that the whole stays near `max_s`. With
    `time.process_time` for a clock, what others do on the machine counts for less.
    """
    start = clock()
    pass_once()
    once = clock() - start
    if once * repeats > max_s:
        repeats = max(2, int(max_s / once))
    rates = []
    for _ in range(repeats):
        done, elapsed, start = 0, 0.0, clock()
        while elapsed < min_s:
            done += pass_once()
            elapsed = clock() - start
        rates.append(done / elapsed)
    return Rate(statistics.median(rates), (max(rates) - min(rates)) / statistics.median(rates))


def rss_bytes() -> int:
    """The memory this process holds right now."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * PAGE_BYTES
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def machine() -> Row:
    """What the figures were measured on."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def print_table(title: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Print the rows that people read; numbers to the right, thousands apart."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=180)
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for column in columns:
        is_text = any(isinstance(row.get(column), str) for row in rows)
        table.add_column(column, justify="left" if is_text else "right")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    console.print(table)


def judge(row: Row, targets: Sequence[Target]) -> Row:
    """Say in the row what was asked of it, and whether it came out."""
    if not targets:
        return row
    return row | {
        "targets": {target.figure: target.bound for target in targets},
        "met": all(target.met(row) for target in targets),
    }


def with_verdicts(rows: Sequence[Row]) -> list[Row]:
    """The rows as people read them: what was asked, and the verdict, in the columns "asked" and "" """
    return [
        row
        | {
            "asked": ", ".join(f"{bound:,}" for bound in row.get("targets", {}).values()),
            "": ("met" if row["met"] else "MISSED") if "met" in row else "",
        }
        for row in rows
    ]


def finish(bench: str, rows: Sequence[Row], about: Row) -> None:
    """Say what it was measured on, then print the last line: everything, for programs."""
    print(f"machine: {about}")
    after = about | {"load_average_after": machine()["load_average"]}
    print(json.dumps({"bench": bench, "rows": list(rows), "machine": after}))


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
