"""A trace as a data source for Spark: `spark.read.format("runnel-trace").load(DIR)`.

    .option("table", "publications")     the table; the default is deliveries
    .where("broker = 'B1' AND time_ns >= 60000000000")     is evaluated while files are read

Rules:
- Files are read as in trace/reader.py, with its checks of versions and of columns that older files lack.
- Conditions on `time_ns` and `broker` are evaluated while files are read, and files of other hours are not opened.
  Spark evaluates all conditions again, so that none can be missed.

One task reads one file. This is for users who analyse a trace; the pipeline's own jobs read the files with Spark's
reader, which is faster (tables.py).
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
from runnel.pipeline.tables import read_footer, spark_schema
from runnel.quantities import HOUR
from runnel.trace.folder import Part
from runnel.trace.reader import condition_of, dataset_of, open_trace
from runnel.trace.schemas import schema_of

NAME = "runnel-trace"
DEFAULT_TABLE = "deliveries"


@dataclass
class RowFilter:
    """A condition for rows: from `start_ns` on, before `end_ns`, of these brokers; None: any."""

    start_ns: int | None = None
    end_ns: int | None = None
    brokers: tuple[str, ...] | None = None

    def narrow(self, condition: Filter) -> None:
        """Add a condition; one that is not about time or broker changes nothing.

        >>> wanted = RowFilter(); wanted.narrow(GreaterThan(("time_ns",), 5)); wanted.narrow(In(("broker",), ("B1",)))
        >>> wanted
        RowFilter(start_ns=6, end_ns=None, brokers=('B1',))
        """
        match condition:
            case EqualTo(("time_ns",), int(value)):
                self._narrow_times(value, value + 1)
            case GreaterThan(("time_ns",), int(value)):
                self._narrow_times(value + 1, None)
            case GreaterThanOrEqual(("time_ns",), int(value)):
                self._narrow_times(value, None)
            case LessThan(("time_ns",), int(value)):
                self._narrow_times(None, value)
            case LessThanOrEqual(("time_ns",), int(value)):
                self._narrow_times(None, value + 1)
            case EqualTo(("broker",), str(name)):
                self._narrow_brokers([name])
            case In(("broker",), names):
                self._narrow_brokers([name for name in names if isinstance(name, str)])

    def _narrow_times(self, start_ns: int | None, end_ns: int | None) -> None:
        if start_ns is not None:
            self.start_ns = start_ns if self.start_ns is None else max(self.start_ns, start_ns)
        if end_ns is not None:
            self.end_ns = end_ns if self.end_ns is None else min(self.end_ns, end_ns)

    def _narrow_brokers(self, names: Sequence[str]) -> None:
        known = self.brokers
        self.brokers = tuple(name for name in names if known is None or name in known)

    def may_match(self, part: Part) -> bool:
        """Whether a file may have matching rows."""
        starts, ends = part.hour * HOUR, (part.hour + 1) * HOUR
        return (self.start_ns is None or self.start_ns < ends) and (
            self.end_ns is None or self.end_ns > starts
        )


class TraceSource(DataSource):
    """The data source; Spark makes one for every `load`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return NAME

    def schema(self) -> StructType:
        """The schema of the table."""
        return spark_schema(self._table)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of the table."""
        path = self.options.get("path")
        if not path:
            raise InputError(f'name the directory: spark.read.format("{NAME}").load(DIR)')
        return TraceReader(Path(path), self._table)

    @property
    def _table(self) -> str:
        return str(self.options.get("table", DEFAULT_TABLE))


@dataclass
class FilePartition(InputPartition):
    """The file that one task reads."""

    part: Part


@dataclass
class TraceReader(DataSourceReader):
    """Reads one table."""

    directory: Path
    table: str
    wanted: RowFilter = field(default_factory=RowFilter)

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        """Use the conditions to read less; Spark evaluates all of them again."""
        for condition in filters:
            self.wanted.narrow(condition)
            yield condition

    def partitions(self) -> Sequence[InputPartition]:
        """The files that may have matching rows."""
        parts = open_trace(self.directory).folder.parts(self.table)
        return [FilePartition(part) for part in parts if self.wanted.may_match(part)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one file."""
        assert isinstance(partition, FilePartition)
        read_footer(partition.part)
        wanted = self.wanted
        condition = condition_of(wanted.start_ns, wanted.end_ns, wanted.brokers)
        found = dataset_of([partition.part], schema_of(self.table))
        try:
            yield from found.scanner(filter=condition).to_batches()
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{partition.part.path}: cannot be read: {error}") from None
