"""Makes Arrow tables of what was recorded.

This is the expensive half of tracing, so it works on columns: several chunks become one table, and every operation is
applied to all rows at once. Most of it runs outside the interpreter's lock, so a writer's thread takes little time
from the broker's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute  # `take` would import it when it is first called
from numpy.typing import NDArray

from runnel.modules.recording.audience import Numbers
from runnel.modules.recording.tape import RECORD, Stretch, pick
from runnel.trace.chunks import Chunk, SealedTape, SmallRow
from runnel.trace.schemas import SCHEMAS
from runnel.wire.header import LENGTH_BYTES, PUBLICATION

Columns = dict[str, Any]
_IDENTITY = ("advertisement", "counter", "published_ns")


def to_table(name: str, chunks: Sequence[Chunk]) -> pa.Table:
    """The rows that these chunks have of a table, in the order in which they were recorded."""
    tapes = [chunk.stretch for chunk in chunks if isinstance(chunk, SealedTape)]
    if name == "publications":
        columns = _publications(tapes)
    elif name == "deliveries":
        columns = _deliveries(tapes)
    else:
        columns = _rows(name, [chunk for chunk in chunks if isinstance(chunk, SmallRow)])
    schema = SCHEMAS[name]
    arrays = [_column(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def _rows(name: str, rows: Sequence[SmallRow]) -> Columns:
    return {column: [getattr(each.row, column) for each in rows] for column in SCHEMAS[name].names}


def _publications(tapes: Sequence[Stretch]) -> Columns:
    records = _records(tapes)
    records = pick(records, records["from_client"])
    attributes, names = _split_bodies(
        list(chain.from_iterable(tape.frames for tape in tapes)), records
    )
    columns = {name: _numbers(records, name) for name in ("time_ns", *_IDENTITY)}
    return columns | {
        "broker": _brokers(tapes, records["broker"]),
        "size_bytes": _numbers(records, "length") + LENGTH_BYTES,
        "attributes": attributes,
        "publisher": _text(names),
    }


def _deliveries(tapes: Sequence[Stretch]) -> Columns:
    records = _records(tapes)
    counts = records["count"]
    ids, clients, places = _subscribers(tapes)
    names = ("time_ns", *_IDENTITY, "hops")
    columns = {name: np.repeat(_numbers(records, name), counts) for name in names}
    return columns | {
        "broker": _brokers(tapes, np.repeat(records["broker"], counts)),
        "client": clients.take(pa.array(places)),
        "subscription": ids[places],
    }


def _records(tapes: Sequence[Stretch]) -> NDArray[Any]:
    # As bytes: NumPy is much slower field by field.
    return np.frombuffer(b"".join([tape.records.data for tape in tapes]), RECORD)


def _join(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _numbers(records: NDArray[Any], field: str) -> Numbers:
    """A field of every record; the wire is big-endian, tables are not."""
    return records[field].astype(np.int64)


def _brokers(tapes: Sequence[Stretch], numbers: NDArray[Any]) -> pa.Array:
    """The names of brokers by number; the last tape of a recorder has all of them."""
    return pa.array(tapes[-1].brokers, pa.string()).take(pa.array(numbers))


def _subscribers(tapes: Sequence[Stretch]) -> tuple[Numbers, pa.Array, Numbers]:
    """The ids and clients of all subscriptions, and for every delivery the row in those."""
    begins: dict[int, int] = {}  # where those that some tapes share begin, by identity
    known: list[tuple[Numbers, pa.Array]] = []
    places, end = [], 0
    for tape in tapes:
        key = id(tape.subscribers)
        if key not in begins:
            begins[key] = end
            known.append(tape.subscribers.arrays())
            end += len(known[-1][0])
        begin = begins[key]
        places.append(tape.places + begin if begin else tape.places)
    ids, clients = zip(*known, strict=True)
    return _join(ids), pa.concat_arrays(clients), _join(places)


def _split_bodies(frames: list[bytes], records: NDArray[Any]) -> tuple[pa.Array, pa.Array]:
    """The attributes and the names in frames of which these are the records.

    The bytes from the first frame's attributes to the last frame's end are cut into attributes, names and the rest,
    which is not needed, by computing only the offsets of the pieces.
    """
    _, offsets, data = pa.array(frames, pa.binary()).buffers()
    bounds = np.empty(3 * len(frames) + 1, np.int32)
    bounds[:-1:3] = np.frombuffer(offsets, np.int32)[: len(frames)] + PUBLICATION.size
    bounds[1::3] = bounds[:-1:3] + records["attributes_bytes"]
    bounds[2::3] = bounds[1::3] + records["name_bytes"]
    bounds[-1] = len(data)
    buffers = [None, pa.py_buffer(bounds), data]
    pieces = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)
    every = np.arange(0, len(pieces), 3)
    return pieces.take(pa.array(every)), pieces.take(pa.array(every + 1))


def _text(names: pa.Array) -> pa.Array:
    """Names as text. Brokers do not check that they are UTF-8; invalid bytes are replaced."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        readable = [name.decode(errors="replace") for name in names.to_pylist()]
        return pa.array(readable, pa.string())
