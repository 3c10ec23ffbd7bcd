"""Reads events and filters from files: JSON Lines, CSV and Parquet, told apart by suffix.

Rules:
- A row comes with its number, so that an error can name the place: the line of a text file, the row of
  a Parquet file (both from 1).
- Values come out as the language has them. Dates and times become ISO 8601 text, which sorts by time;
  an empty cell and a JSON null mean that the attribute is absent.
- Every mistake in a file is an InputError that starts with the file's name.

It will not guess: an unknown suffix or a nested value is an error that says what to do.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from runnel.errors import FilterSyntaxError, InputError
from runnel.language import Selection, Value, check_attributes, parse

Event = dict[str, Value]

ROWS_PER_BATCH = 4096
_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_TEXT_SUFFIXES = (".txt", ".filters", ".sql")
# Neither filter language can start with a word and a colon, so this is never part of a filter.
_NAMED_FILTER = re.compile(r"\s*([\w.$@/-]+)\s*:")


class NamedFilter(NamedTuple):
    """A filter as a file holds it: its name, its text, and what the text means."""

    name: str
    text: str
    selection: Selection


def read_events(path: Path) -> Iterator[tuple[int, Event]]:
    """Yield (number, event) for every row of a JSON Lines, CSV or Parquet file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "events.csv")
    ...     _ = file.write_text("symbol,close,date\\nYHOO,18.37,1996-09-05\\nMSFT,,1996-09-06\\n")
    ...     for number, event in read_events(file):
    ...         print(number, event)
    2 {'symbol': 'YHOO', 'close': 18.37, 'date': '1996-09-05'}
    3 {'symbol': 'MSFT', 'date': '1996-09-06'}
    """
    for number, row in _rows(path):
        event: Event = {}
        for attribute, value in row.items():
            if value is not None:
                event[attribute] = _value(path, number, attribute, value)
        try:
            check_attributes(event)
        except InputError as error:
            raise InputError(f"{path}, line {number}: {error}") from None
        yield number, event


def count_events(path: Path) -> int | None:
    """Tell how many events a file holds where that costs nothing (Parquet), otherwise None."""
    if _suffix(path) != ".parquet":
        return None
    with _name_file_in_errors(path):
        return int(pa_parquet.read_metadata(path).num_rows)


def read_filters(path: Path) -> list[NamedFilter]:
    """Read the filters of a file: a table with columns id and filter, or text with one per line.

    A line of text is `name: filter` or only a filter, which is then named after its line. Blank lines
    and lines that start with # are left out.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "filters.txt")
    ...     _ = file.write_text("# prices\\nhigh: close > 100\\n[symbol,eq,'YHOO']\\n")
    ...     [(found.name, found.text) for found in read_filters(file)]
    [('high', 'close > 100'), ('3', "[symbol,eq,'YHOO']")]
    """
    rows = _text_filters(path) if _suffix(path) in _TEXT_SUFFIXES else _table_filters(path)
    filters: list[NamedFilter] = []
    seen: dict[str, int] = {}
    for number, name, text, column in rows:
        if name in seen:
            raise InputError(
                f"{path}, line {number}: the name {name!r} was used in line {seen[name]}: "
                "give every filter its own name"
            )
        seen[name] = number
        filters.append(NamedFilter(name, text, _parse(path, number, text, column)))
    if not filters:
        raise InputError(f"{path}: there is no filter in this file: write one per line")
    return filters


def write_events(path: Path, events: Iterable[Event]) -> int:
    """Write events to a Parquet or JSON Lines file, and return how many there were."""
    rows = list(events)
    path.parent.mkdir(parents=True, exist_ok=True)
    if _suffix(path) == ".parquet":
        pa_parquet.write_table(pa.Table.from_pylist(rows), path, compression="zstd")
    else:
        with _open_text(path, "wt") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return len(rows)


def _parse(path: Path, number: int, text: str, column: int) -> Selection:
    """Parse one filter; an error names its place in the file, not in the filter."""
    try:
        return parse(text)
    except FilterSyntaxError as error:
        place = f"{path}, line {number}, column {error.column + column}"
        # The first line of the message says where in the filter; the file's own place replaces it.
        _, _, caret = str(error).partition("\n")
        wanted = " or ".join(error.expected) or "the end of the filter"
        raise InputError(f"{place}: expected {wanted}\n{caret}") from None
    except InputError as error:
        raise InputError(f"{path}, line {number}: {error}") from None


def _text_filters(path: Path) -> Iterator[tuple[int, str, str, int]]:
    """Yield (line, name, filter, column where the filter starts, from 0)."""
    for number, line in _lines(path):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        named = _NAMED_FILTER.match(line)
        rest = line[named.end() :] if named else line
        text = rest.strip()
        column = len(line) - len(rest.lstrip()) if text else len(line)
        yield number, named.group(1) if named else str(number), text, column


def _table_filters(path: Path) -> Iterator[tuple[int, str, str, int]]:
    """Yield (line, name, filter, 0) from a table; its rows must have a filter and may have an id."""
    for number, row in _rows(path, as_text=("id", "filter")):
        text = row.get("filter")
        if not isinstance(text, str):
            raise InputError(
                f"{path}, line {number}: there is no text under 'filter': "
                "a table of filters has the columns id and filter"
            )
        name = row.get("id")
        yield number, str(number) if name is None else str(name), text, 0


def _rows(path: Path, as_text: Iterable[str] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (number, row) from a table in any of the formats."""
    suffix = _suffix(path)
    if suffix in _JSON_SUFFIXES:
        return _json_rows(path)
    if suffix == ".csv":
        return _csv_rows(path, as_text)
    if suffix == ".parquet":
        return _parquet_rows(path)
    raise InputError(
        f"{path}: cannot tell the format from the suffix {suffix or '(none)'!r}: "
        "use .jsonl, .csv or .parquet (text formats also with .gz), for filters also .txt"
    )


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}, line {number}: this is not JSON ({error}): write one object per line"
            ) from None
        if not isinstance(row, dict):
            raise InputError(
                f"{path}, line {number}: expected an object such as "
                f'{{"symbol": "YHOO", "close": 18.37}}, got {type(row).__name__}'
            )
        yield number, row


def _csv_rows(path: Path, as_text: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    with _name_file_in_errors(path):
        table = _read_csv(path, dict.fromkeys(as_text, pa.string()))
        # Arrow would turn dates into numbers of its own; they are to stay as they are written.
        dates = [field.name for field in table.schema if pa.types.is_temporal(field.type)]
        if dates:
            table = _read_csv(path, dict.fromkeys((*as_text, *dates), pa.string()))
    number = 1
    for batch in table.to_batches(max_chunksize=ROWS_PER_BATCH):
        for row in batch.to_pylist():
            number += 1
            yield number, row


def _read_csv(path: Path, types: dict[str, Any]) -> Any:
    convert = pa_csv.ConvertOptions(
        column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    return pa_csv.read_csv(path, convert_options=convert)


def _parquet_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    with _name_file_in_errors(path), pa_parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=ROWS_PER_BATCH):
            for row in batch.to_pylist():
                number += 1
                yield number, row


def _value(path: Path, number: int, attribute: str, value: object) -> Value:
    """Turn what a file holds into a value of the language."""
    if isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    raise InputError(
        f"{path}, line {number}: {attribute!r} holds a {type(value).__name__}; a value is text, a "
        "number or true/false: give nested values a column of their own, or leave them out"
    )


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number, line) of a text file, without the line's end."""
    with _name_file_in_errors(path), _open_text(path, "rt") as file:
        for number, line in enumerate(file, start=1):
            yield number, line.rstrip("\r\n")


def _open_text(path: Path, mode: str) -> IO[str]:
    # A byte-order mark, as some spreadsheets write it, would otherwise become part of the first name.
    encoding = "utf-8-sig" if mode == "rt" else "utf-8"
    if path.suffix == ".gz":
        return gzip.open(path, mode, encoding=encoding)  # type: ignore[return-value]
    return open(path, mode, encoding=encoding)


def _suffix(path: Path) -> str:
    """The suffix that names the format, without .gz."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


class _name_file_in_errors:  # noqa: N801 - reads as a word in `with _name_file_in_errors(path):`
    """Turns what the operating system and Arrow say about a file into an error that names the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UnicodeDecodeError):
            raise InputError(f"{self.path}: this is not UTF-8 text: convert it first") from None
        if isinstance(error, (pa.ArrowInvalid, pa.ArrowTypeError, gzip.BadGzipFile, EOFError)):
            raise InputError(f"{self.path}: cannot be read: {error}") from None
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise InputError(f"{self.path}: cannot be opened: {reason}") from None
