"""The tables of a trace as DataFrames, after validation of all files.

    open_tables(DIR)          reads the footer of every file and validates it
    tables.frame(…)           a table, or some days of it
    tables.frame_around(…)    the files of a table that have rows of a window
    tables.decisions          how irregular input was treated, with counts, for the user to see

Rules:
- The schema is that of trace/schemas.py and is given to Spark; nothing is inferred from files.
- An InputError: no trace; no such table; a column that is missing or of another type; a version that cannot be read; a
  trace that was sampled; a file that cannot be read, unless such files are skipped.
- Counted: files that were skipped; rows that writers dropped; writers that were killed; older files without a column
  that was added later, which is null there. Jobs add their own decisions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from runnel.errors import InputError
from runnel.quantities import HOUR
from runnel.trace.folder import Folder, Part
from runnel.trace.reader import open_trace
from runnel.trace.schemas import TABLES, check_version, schema_of
from runnel.trace.summary import times_of
from runnel.trace.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_HOURS = 24
DAY_NS = DAY_HOURS * HOUR
_AT_ONCE = 8  # files that are inspected concurrently


def spark_schema(table: str) -> StructType:
    """The schema of a table as Spark's type.

    >>> spark_schema("deliveries")["counter"]
    StructField('counter', LongType(), False)
    """
    return from_arrow_schema(schema_of(table))


@dataclass(slots=True)
class Decisions:
    """How irregular input was treated: a text for each decision, and how often it was made."""

    counts: dict[str, int] = field(default_factory=dict)

    def count(self, decision: str, times: int) -> None:
        """Add to the count of a decision; nothing is recorded for 0.

        >>> decisions = Decisions()
        >>> decisions.count("files skipped", 2); decisions.count("rows dropped", 0); decisions.lines
        ['2 files skipped']
        """
        if times:
            self.counts[decision] = self.counts.get(decision, 0) + times

    @property
    def lines(self) -> list[str]:
        """The decisions with their counts, as text."""
        return [f"{times:,} {decision}" for decision, times in self.counts.items()]


@dataclass(frozen=True, slots=True)
class TraceTables:
    """The tables of a trace, with the files that it had when it was opened."""

    folder: Folder
    parts: dict[str, list[Part]]
    footers: dict[Path, Footer]
    decisions: Decisions
    until_ns: int | None = None  # rows from then on are left out

    @property
    def days(self) -> list[int]:
        """The days, counted from the clock's zero, in which anything was published or delivered."""
        busy = (*self.parts["publications"], *self.parts["deliveries"])
        return sorted({part.hour // DAY_HOURS for part in busy})

    def parts_of_days(self, table: str, days: Collection[int]) -> list[Part]:
        """The files of some days."""
        return [part for part in self.parts[table] if part.hour // DAY_HOURS in days]

    def parts_in_window(self, table: str, window: Window) -> list[Part]:
        """The files that may have rows between these times, both of them included."""

        def touches(part: Part) -> bool:
            first_ns, last_ns = self.footers[part.path].times or window
            return first_ns <= window.end_ns and window.start_ns <= last_ns

        return [part for part in self.parts[table] if touches(part)]

    def frame(
        self, spark: SparkSession, table: str, days: Collection[int] | None = None
    ) -> DataFrame:
        """A table, or some days of it."""
        parts = self.parts[table] if days is None else self.parts_of_days(table, days)
        return self._frame(spark, table, parts)

    def frame_around(self, spark: SparkSession, table: str, window: Window) -> DataFrame:
        """The rows of a window, and further rows of the same files; other files are not read."""
        return self._frame(spark, table, self.parts_in_window(table, window))

    def _frame(self, spark: SparkSession, table: str, parts: Sequence[Part]) -> DataFrame:
        schema = spark_schema(table)
        if not parts:
            return spark.createDataFrame([], schema)
        # The files are named one by one, so that no other file in these directories is read.
        found = spark.read.schema(schema).parquet(*(escape_path(part.path) for part in parts))
        return found if self.until_ns is None else found.where(F.col("time_ns") < self.until_ns)

    def require(self, table: str, why: str) -> None:
        """An InputError if a table has no rows."""
        if not self.parts[table]:
            raise InputError(f"{self.folder.path}: there are no {table} in it: {why}")


def escape_path(path: Path) -> str:
    """A path in which the characters that Spark treats as wildcards are escaped.

    >>> escape_path(Path("q[1]/part"))
    'q\\\\[1\\\\]/part'
    """
    return re.sub(r"([\\[\]{}*?])", r"\\\1", str(path))


def open_tables(
    path: Path | str,
    *,
    skip_unreadable: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
    before: TraceTables | None = None,
    until_ns: int | None = None,
) -> TraceTables:
    """Open a trace and inspect its files, except those that were inspected `before`, since files never change.

    `on_progress` is called with the number of files inspected and of all files. Rows from `until_ns` on are left out.
    """
    folder = open_trace(path).folder
    decisions = Decisions()
    _check_writers(folder, decisions)
    parts = list(folder.parts())
    found: dict[str, list[Part]] = {table: [] for table in TABLES}
    known, seen = before.footers if before else {}, {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        looked = pool.map(
            lambda part: known.get(part.path) or _read_or_skip(part, skip_unreadable), parts
        )
        for number, (part, one) in enumerate(zip(parts, looked, strict=True), 1):
            seen[part.path] = one
            if one.unreadable:
                decisions.count(
                    "files cannot be read, and were skipped: what they held is missing", 1
                )
            elif one.rows and not _begins_after(one, until_ns):
                found[part.table].append(part)
            decisions.count(
                "files are older than a column, which is null for their rows", one.older
            )
            if on_progress:
                on_progress(number, len(parts))
    decisions.count(
        "files are not named as brokers name them, and were not read",
        len(folder.unexpected_files()),
    )
    return TraceTables(folder, found, seen, decisions, until_ns)


def _begins_after(one: Footer, until_ns: int | None) -> bool:
    return until_ns is not None and one.times is not None and one.times[0] >= until_ns


@dataclass(frozen=True, slots=True)
class Footer:
    """The metadata of a file that the pipeline needs."""

    rows: int = 0
    older: bool = False  # it lacks a column that was added later
    times: tuple[int, int] | None = None  # of its first and its last row
    unreadable: bool = False


def read_footer(part: Part) -> Footer:
    """Read and validate the metadata of a file; an InputError says what is wrong with it."""
    try:
        about = pq.read_metadata(part.path)
        columns = about.schema.to_arrow_schema()
    except (pa.ArrowInvalid, OSError) as error:
        raise _UnreadableFile(f"{part.path}: cannot be read: {error}") from None
    version = (about.metadata or {}).get(b"runnel.version", b"?").decode()
    check_version(int(version) if version.isdigit() else version, str(part.path))
    older = False
    for wanted in schema_of(part.table):
        place = columns.get_field_index(wanted.name)
        if place < 0 and not wanted.nullable:
            raise InputError(f"{part.path}: has no column {wanted.name}: it is no file of a trace")
        if place >= 0 and columns.field(place).type != wanted.type:
            raise InputError(
                f"{part.path}: column {wanted.name} holds {columns.field(place).type}, not {wanted.type}: "
                "it is no file of a trace"
            )
        older = older or place < 0
    return Footer(about.num_rows, older, times_of(about))


class _UnreadableFile(InputError):  # noqa: N818 - named for what it reports
    """A file that cannot be read at all, such as a torn one."""


def _read_or_skip(part: Part, skip_unreadable: bool) -> Footer:
    try:
        return read_footer(part)
    except _UnreadableFile as error:
        if skip_unreadable:
            return Footer(unreadable=True)
        raise InputError(
            f"{error}; remove it, or go on without such files: --skip-unreadable"
        ) from None


def _check_writers(folder: Folder, decisions: Decisions) -> None:
    """Check the writers' own statements for sampling, dropped rows and missing ends."""
    for statement in folder.statements():
        if statement.sample != 1:
            raise InputError(
                f"{folder.path}: writer {statement.writer} kept one publication in {statement.sample}: "
                "profiles need all of them; trace without sampling"
            )
        for table, count in sorted(statement.tables.items()):
            lost = count.dropped + count.failed
            decisions.count(f"rows of {table} were never written, for want of room", lost)
        killed = not statement.farewell and not folder.is_alive(statement.writer)
        decisions.count("writers were killed: what they recorded last is missing", killed)


def file_fingerprints(parts: Sequence[Part]) -> list[str]:
    """The names, sizes and times of files, which show whether they have changed."""
    return sorted(
        f"{part.table}/{part.hour}/{part.path.name}:{about.st_size}:{about.st_mtime_ns}"
        for part, about in ((part, part.path.stat()) for part in parts)
    )
