"""Reading a trace: its tables as Arrow datasets, with the schema of today, by time and broker.

Rules:
- A dataset has the files that existed when it was made.
- A trace of an unsupported version is refused with a message that says so. Columns that an older file lacks are null.
- What cannot be read is an InputError that names the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from runnel.errors import InputError
from runnel.language import Selection, Value
from runnel.quantities import HOUR
from runnel.trace.folder import Folder, Part, open_folder
from runnel.trace.schemas import TABLES, schema_of
from runnel.wire.publication import decode_attributes

Row = dict[str, Any]

_BATCH_ROWS = 8_192
_PARQUET = ds.ParquetFileFormat()


class Trace:
    """A trace directory; see `open_trace`."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.clock = folder.about.clock
        self.tables = TABLES

    def dataset(
        self, table: str, *, start_ns: int | None = None, end_ns: int | None = None
    ) -> ds.Dataset:
        """A table as an Arrow dataset: of the hours that a time range touches, or of all."""
        first = None if start_ns is None else start_ns // HOUR
        last = None if end_ns is None else (end_ns - 1) // HOUR
        schema = schema_of(table)
        parts = [
            part
            for part in self.folder.parts(table)
            if (first is None or part.hour >= first) and (last is None or part.hour <= last)
        ]
        return dataset_of(parts, schema)

    def scan(
        self,
        table: str,
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
        brokers: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows with start_ns <= time_ns < end_ns of these brokers, in batches, file by file."""
        schema = schema_of(table)
        for column in columns or ():
            if column not in schema.names:
                raise InputError(
                    f"{table} has no column {column!r}: take one of {', '.join(schema.names)}"
                )
        found = self.dataset(table, start_ns=start_ns, end_ns=end_ns)
        wanted = condition_of(start_ns, end_ns, brokers)
        names = list(columns) if columns is not None else None
        scanner = found.scanner(columns=names, filter=wanted, batch_size=_BATCH_ROWS)
        return _name_errors(self.folder.path, scanner.to_batches())

    def read(self, table: str, **wanted: Any) -> pa.Table:
        """The rows of `scan` as one table."""
        columns = wanted.get("columns")
        schema = schema_of(table)
        batches = list(self.scan(table, **wanted))
        names = list(columns) if columns is not None else schema.names
        return pa.Table.from_batches(batches, pa.schema([schema.field(name) for name in names]))

    def rows(self, table: str, *, where: Selection | None = None, **wanted: Any) -> Iterator[Row]:
        """The rows as dicts, in the order of the files; a publication's attributes are decoded.

        `where` is an ordinary filter. It sees the columns, and the attributes of publications unless a column has the
        same name.
        """
        for batch in self.scan(table, **wanted):
            for row in plain_rows(batch):
                if where is None or where.matches(filter_view(row)):
                    yield row


def open_trace(path: Path | str) -> Trace:
    """Open a trace directory, or raise an InputError that says why it is none.

    >>> open_trace("nowhere")
    Traceback (most recent call last):
    runnel.errors.InputError: nowhere: this is no trace: there is no such directory; name the directory of a trace
    """
    return Trace(open_folder(Path(path)))


def dataset_of(parts: Sequence[Part], schema: pa.Schema) -> ds.Dataset:
    """These files as one dataset."""
    if not parts:
        return ds.dataset(schema.empty_table())
    # The files are named one by one, so Arrow does not list directories or read other files in them.
    return ds.dataset([str(part.path) for part in parts], schema=schema, format=_PARQUET)


def plain_rows(batch: pa.RecordBatch) -> Iterator[Row]:
    """The rows of a batch as dicts; attributes and counts by class are dicts themselves."""
    for row in batch.to_pylist():
        if "attributes" in row:
            row["attributes"] = attributes_of(row["attributes"])
        if "messages_in" in row:
            row["messages_in"] = dict(row["messages_in"])
        yield row


def attributes_of(raw: bytes) -> dict[str, Value]:
    """A publication's attributes from the column of that name; empty if they are malformed.

    >>> attributes_of(b"\\x81\\xa1a\\x05")
    {'a': 5}
    """
    try:
        return decode_attributes(raw)
    except ValueError:
        return {}


def filter_view(row: Mapping[str, Any]) -> dict[str, Value]:
    """A row as the attributes that a filter is matched against."""
    found: dict[str, Value] = dict(row.get("attributes", {}))
    for name, value in row.items():
        if isinstance(value, (str, int, float, bool)):
            found[name] = value
    return found


def condition_of(
    start_ns: int | None, end_ns: int | None, brokers: Sequence[str] | None
) -> pc.Expression | None:
    """Rows with start_ns <= time_ns < end_ns of these brokers, as Arrow understands it; None: all rows."""
    conditions = []
    if start_ns is not None:
        conditions.append(pc.field("time_ns") >= start_ns)
    if end_ns is not None:
        conditions.append(pc.field("time_ns") < end_ns)
    if brokers is not None:
        conditions.append(pc.field("broker").isin(list(brokers)))
    whole = None
    for condition in conditions:
        whole = condition if whole is None else whole & condition
    return whole


def _name_errors(path: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn Arrow's error about an unreadable file into an InputError."""
    try:
        yield from batches
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
