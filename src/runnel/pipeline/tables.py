"""The tables of a trace as DataFrames, and everything that may be wrong with them.

    open_tables(DIR)     looks at the end of every file, and says what is wrong
    tables.frame(…)      a table, or some days of it, or the files that have rows of a window
    tables.reading       what was decided, and how often: for the user to see

Rules:
- The schema is that of trace/schemas.py, stated to Spark: nothing is guessed from files.
- An InputError: no trace; no such table; a column that is missing or of another kind; a version that cannot be read; a
  trace that was sampled; a file that cannot be read, unless it is to be skipped.
- Counted, and told: files that were skipped; rows that writers dropped; writers that were killed; older files without a
  column that was added later, which is null there. Jobs add what they decide.
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
from runnel.trace.folder import Folder, Part
from runnel.trace.reader import open_trace
from runnel.trace.schemas import HOUR_NS, TABLES, check_version, schema_of
from runnel.trace.summary import times_of
from runnel.trace.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_HOURS = 24
DAY_NS = DAY_HOURS * HOUR_NS
_AT_ONCE = 8  # files that are looked at at once


def spark_schema(table: str) -> StructType:
    """The schema of a table, in Spark's words.

    >>> spark_schema("deliveries")["counter"]
    StructField('counter', LongType(), False)
    """
    return from_arrow_schema(schema_of(table))


@dataclass(slots=True)
class Reading:
    """What was decided about what is not as it should be: in words, and how often."""

    decisions: dict[str, int] = field(default_factory=dict)

    def count(self, decision: str, times: int) -> None:
        """Something was decided so often; never is not worth a word.

        >>> reading = Reading(); reading.count("files skipped", 2); reading.count("rows dropped", 0); reading.lines
        ['2 files skipped']
        """
        if times:
            self.decisions[decision] = self.decisions.get(decision, 0) + times

    @property
    def lines(self) -> list[str]:
        """For people."""
        return [f"{times:,} {decision}" for decision, times in self.decisions.items()]


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a trace, as they were when it was opened."""

    folder: Folder
    parts: dict[str, list[Part]]
    seen: dict[Path, Seen]  # what was found at the end of every file
    reading: Reading
    until_ns: int | None = None  # rows from then on are left out

    @property
    def days(self) -> list[int]:
        """The days, counted from the clock's zero, in which anything was published or delivered."""
        busy = (*self.parts["publications"], *self.parts["deliveries"])
        return sorted({part.hour // DAY_HOURS for part in busy})

    def of_days(self, table: str, days: Collection[int]) -> list[Part]:
        """The files of some days."""
        return [part for part in self.parts[table] if part.hour // DAY_HOURS in days]

    def of_window(self, table: str, window: Window) -> list[Part]:
        """The files that may have rows between these times, both of them included."""

        def touches(part: Part) -> bool:
            first_ns, last_ns = self.seen[part.path].times or window
            return first_ns <= window.end_ns and window.start_ns <= last_ns

        return [part for part in self.parts[table] if touches(part)]

    def frame(
        self, spark: SparkSession, table: str, days: Collection[int] | None = None
    ) -> DataFrame:
        """A table, or some days of it."""
        parts = self.parts[table] if days is None else self.of_days(table, days)
        return self._frame(spark, table, parts)

    def around(self, spark: SparkSession, table: str, window: Window) -> DataFrame:
        """The rows of a window, and others that are in the same files: what matters is that few files are read."""
        return self._frame(spark, table, self.of_window(table, window))

    def _frame(self, spark: SparkSession, table: str, parts: Sequence[Part]) -> DataFrame:
        schema = spark_schema(table)
        if not parts:
            return spark.createDataFrame([], schema)
        # Named one by one: nothing else in these directories is taken for rows.
        found = spark.read.schema(schema).parquet(*(plain(part.path) for part in parts))
        return found if self.until_ns is None else found.where(F.col("time_ns") < self.until_ns)

    def require(self, table: str, why: str) -> None:
        """An InputError if there is no row of a table."""
        if not self.parts[table]:
            raise InputError(f"{self.folder.path}: there are no {table} in it: {why}")


def plain(path: Path) -> str:
    """A path that Spark takes as it is: to it, some characters stand for others.

    >>> plain(Path("q[1]/part"))
    'q\\\\[1\\\\]/part'
    """
    return re.sub(r"([\\[\]{}*?])", r"\\\1", str(path))


def open_tables(
    path: Path | str,
    *,
    skip_unreadable: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
    before: Tables | None = None,
    until_ns: int | None = None,
) -> Tables:
    """Open a trace and look at all its files, but for those that were looked at `before`: files stay as they are.

    `on_progress` is told how many of how many were looked at. Rows from a time on may be left out.
    """
    folder = open_trace(path).folder
    reading = Reading()
    _ask_writers(folder, reading)
    parts = list(folder.parts())
    found: dict[str, list[Part]] = {table: [] for table in TABLES}
    known, seen = before.seen if before else {}, {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        looked = pool.map(lambda part: known.get(part.path) or _look(part, skip_unreadable), parts)
        for number, (part, one) in enumerate(zip(parts, looked, strict=True), 1):
            seen[part.path] = one
            if one.unreadable:
                reading.count(
                    "files cannot be read, and were skipped: what they held is missing", 1
                )
            elif one.rows and not _begins_after(one, until_ns):
                found[part.table].append(part)
            reading.count("files are older than a column, which is null for their rows", one.older)
            if on_progress:
                on_progress(number, len(parts))
    reading.count(
        "files are not named as brokers name them, and were not read", len(folder.strange())
    )
    return Tables(folder, found, seen, reading, until_ns)


def _begins_after(one: Seen, until_ns: int | None) -> bool:
    return until_ns is not None and one.times is not None and one.times[0] >= until_ns


@dataclass(frozen=True, slots=True)
class Seen:
    """What the end of a file says."""

    rows: int = 0
    older: bool = False  # than one of its columns
    times: tuple[int, int] | None = None  # of its first and last row
    unreadable: bool = False


def check_part(part: Part) -> Seen:
    """Look at the end of a file; an InputError if it is no good."""
    try:
        about = pq.read_metadata(part.path)
        columns = about.schema.to_arrow_schema()
    except (pa.ArrowInvalid, OSError) as error:
        raise _Torn(f"{part.path}: cannot be read: {error}") from None
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
    return Seen(about.num_rows, older, times_of(about))


class _Torn(InputError):  # noqa: N818 - named for what it reports
    """A file that cannot be read at all."""


def _look(part: Part, skip_unreadable: bool) -> Seen:
    try:
        return check_part(part)
    except _Torn as error:
        if skip_unreadable:
            return Seen(unreadable=True)
        raise InputError(
            f"{error}; remove it, or go on without such files: --skip-unreadable"
        ) from None


def _ask_writers(folder: Folder, reading: Reading) -> None:
    """What the writers say of themselves."""
    for statement in folder.statements():
        if statement.sample != 1:
            raise InputError(
                f"{folder.path}: writer {statement.writer} kept one publication in {statement.sample}: "
                "profiles need all of them; trace without sampling"
            )
        for table, count in sorted(statement.tables.items()):
            lost = count.dropped + count.failed
            reading.count(f"rows of {table} were never written, for want of room", lost)
        killed = not statement.farewell and not folder.is_alive(statement.writer)
        reading.count("writers were killed: what they recorded last is missing", killed)


def paths_of(parts: Sequence[Part]) -> list[str]:
    """What tells whether files are still as they were: their names, sizes and times."""
    return sorted(
        f"{part.table}/{part.hour}/{part.path.name}:{about.st_size}:{about.st_mtime_ns}"
        for part, about in ((part, part.path.stat()) for part in parts)
    )
