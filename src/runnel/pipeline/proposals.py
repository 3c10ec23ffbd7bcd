"""Proposed subscriptions, for a backtest: read from a file, parsed on all cores.

    FILTER              a text file has a filter per line, named by its line …
    NAME<tab>FILTER     … or by the name before a tab; empty lines and those that begin with # are skipped
    *.parquet           or columns `subscription` and `filter`

Parsing takes the most time (some ten seconds of one core for 100,000 filters), so Spark's tasks do it. The parsed
selections are pickled for further tasks.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runnel.errors import InputError
from runnel.language import NOTHING, parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARSED_SCHEMA = "place bigint, selection binary, contradicts boolean, error string"
PER_TASK = 5_000
"""Filters per task."""

_EMPTY = "the filter is empty: to want everything, write TRUE"


class Proposals(NamedTuple):
    """Proposed subscriptions, in the order of the file."""

    names: list[str]
    filters: list[str]


class ParsedProposals(NamedTuple):
    """The selections of proposals, pickled, and how many of them can never match."""

    selections: list[bytes]
    contradictions: int


def read_proposals(path: Path) -> Proposals:
    """Read a file; an InputError if it cannot be read, has no filter, or has a name twice."""
    if not path.exists():
        raise InputError(f"{path}: there is no such file: name a file with a filter per line")
    found = _from_parquet(path) if path.suffix == ".parquet" else _from_text(path)
    if not found.names:
        raise InputError(f"{path}: there is no filter in it: write one per line")
    seen: set[str] = set()
    for name in found.names:
        if name in seen:
            raise InputError(f"{path}: the name {name!r} is there twice: give each its own")
        seen.add(name)
    return found


def _from_text(path: Path) -> Proposals:
    names, filters = [], []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            name, tab, text = line.partition("\t")
            names.append(name.strip() if tab else str(number))
            filters.append(text if tab else line)
    return Proposals(names, filters)


def _from_parquet(path: Path) -> Proposals:
    try:
        table = pq.read_table(path, columns=["subscription", "filter"])
        columns = [table[name].cast(pa.string()) for name in ("subscription", "filter")]
    except (pa.ArrowException, KeyError, OSError) as error:
        raise InputError(
            f"{path}: cannot be read: {error}; it must have the columns subscription and filter"
        ) from None
    if any(column.null_count for column in columns):
        raise InputError(f"{path}: a subscription or a filter is null: fill it in")
    return Proposals(*(column.to_pylist() for column in columns))


def parse_proposals(spark: SparkSession, proposals: Proposals) -> ParsedProposals:
    """Parse all filters, equal ones once; an InputError names the first that cannot be parsed."""
    encoded = pa.array(proposals.filters, pa.string()).dictionary_encode()
    texts = pa.table({"place": range(len(encoded.dictionary)), "text": encoded.dictionary})
    tasks = 1 + len(encoded.dictionary) // PER_TASK
    spread = spark.createDataFrame(texts).repartition(tasks, "place")
    parsed = (
        spread.mapInArrow(_parse_batches, PARSED_SCHEMA)
        .toArrow()
        .sort_by("place")
        .take(encoded.indices)
    )
    wrong = pc.indices_nonzero(pc.is_valid(parsed["error"])).slice(0, 1).to_pylist()
    if wrong:
        why = parsed["error"][wrong[0]].as_py()
        raise InputError(f"subscription {proposals.names[wrong[0]]!r}: {why}")
    contradictions = pc.sum(parsed["contradicts"]).as_py() or 0
    return ParsedProposals(parsed["selection"].to_pylist(), contradictions)


def _parse_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [_parse_one(text) for text in batch["text"].to_pylist()]
        columns = zip(*rows, strict=True) if rows else ((), (), ())
        kinds = (pa.binary(), pa.bool_(), pa.string())
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        names = ["place", "selection", "contradicts", "error"]
        yield pa.record_batch([batch["place"], *arrays], names=names)


def _parse_one(text: str) -> tuple[bytes | None, bool, str | None]:
    if not text.strip():
        return None, False, _EMPTY
    try:
        selection = parse(text)
    except InputError as error:
        return None, False, str(error)
    return pickle.dumps(selection), selection == NOTHING, None
