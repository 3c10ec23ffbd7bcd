"""A trace as a source of Spark's: `spark.read.format("runnel-trace").load(DIR)`.

    .option("table", "publications")     which table; without it, the deliveries
    .where("broker = 'B1' AND time_ns >= 60000000000")     is asked of the files, not of the rows

Rules:
- What is read is what trace/reader.py reads, with its checks: versions, columns that older files do not have.
- Conditions on `time_ns` and `broker` are carried out while files are read, and files of other hours are not opened.
  All conditions are also left to Spark, so that none can be missed.

One task reads one file. The pipeline's own jobs read the files with Spark's reader, which is faster (tables.py); this
is for people who want to look at a trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from runnel.errors import InputError
from runnel.pipeline.tables import check_part, spark_schema
from runnel.trace.folder import Part
from runnel.trace.reader import condition_of, dataset_of, open_trace
from runnel.trace.schemas import HOUR_NS, schema_of

NAME = "runnel-trace"
DEFAULT_TABLE = "deliveries"


@dataclass
class Wanted:
    """Which rows are wanted: from `start_ns` on, before `end_ns`, of these brokers; None: no matter."""

    start_ns: int | None = None
    end_ns: int | None = None
    brokers: tuple[str, ...] | None = None

    def narrow(self, condition: Filter) -> None:
        """One more condition; those that are not about time or broker change nothing.

        >>> wanted = Wanted(); wanted.narrow(GreaterThan(("time_ns",), 5)); wanted.narrow(In(("broker",), ("B1",)))
        >>> wanted
        Wanted(start_ns=6, end_ns=None, brokers=('B1',))
        """
        match condition:
            case EqualTo(("time_ns",), int(value)):
                self._between(value, value + 1)
            case GreaterThan(("time_ns",), int(value)):
                self._between(value + 1, None)
            case GreaterThanOrEqual(("time_ns",), int(value)):
                self._between(value, None)
            case LessThan(("time_ns",), int(value)):
                self._between(None, value)
            case LessThanOrEqual(("time_ns",), int(value)):
                self._between(None, value + 1)
            case EqualTo(("broker",), str(name)):
                self._among([name])
            case In(("broker",), names):
                self._among([name for name in names if isinstance(name, str)])

    def _between(self, start_ns: int | None, end_ns: int | None) -> None:
        if start_ns is not None:
            self.start_ns = start_ns if self.start_ns is None else max(self.start_ns, start_ns)
        if end_ns is not None:
            self.end_ns = end_ns if self.end_ns is None else min(self.end_ns, end_ns)

    def _among(self, names: Sequence[str]) -> None:
        known = self.brokers
        self.brokers = tuple(name for name in names if known is None or name in known)

    def touches(self, part: Part) -> bool:
        """Whether a file may have such rows."""
        starts, ends = part.hour * HOUR_NS, (part.hour + 1) * HOUR_NS
        return (self.start_ns is None or self.start_ns < ends) and (
            self.end_ns is None or self.end_ns > starts
        )


class TraceSource(DataSource):
    """The source; Spark makes one for every `load`."""

    @classmethod
    def name(cls) -> str:
        """What it is called in `format`."""
        return NAME

    def schema(self) -> StructType:
        """The table's."""
        return spark_schema(self._table)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Who reads it."""
        path = self.options.get("path")
        if not path:
            raise InputError(f'name the directory: spark.read.format("{NAME}").load(DIR)')
        return TraceReader(Path(path), self._table)

    @property
    def _table(self) -> str:
        return str(self.options.get("table", DEFAULT_TABLE))


@dataclass
class OneFile(InputPartition):
    """What one task reads."""

    part: Part


@dataclass
class TraceReader(DataSourceReader):
    """Reads one table."""

    directory: Path
    table: str
    wanted: Wanted = field(default_factory=Wanted)

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        """Take notice of the conditions; Spark checks all of them again."""
        for condition in filters:
            self.wanted.narrow(condition)
            yield condition

    def partitions(self) -> Sequence[InputPartition]:
        """The files that may have such rows."""
        parts = open_trace(self.directory).folder.parts(self.table)
        return [OneFile(part) for part in parts if self.wanted.touches(part)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one file."""
        assert isinstance(partition, OneFile)
        check_part(partition.part)
        wanted = self.wanted
        condition = condition_of(wanted.start_ns, wanted.end_ns, wanted.brokers)
        found = dataset_of([partition.part], schema_of(self.table))
        try:
            yield from found.scanner(filter=condition).to_batches()
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{partition.part.path}: cannot be read: {error}") from None
