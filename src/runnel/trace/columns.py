"""What was recorded, as Arrow tables.

This is the expensive half of tracing, so it is done in columns: a run of frames becomes one Arrow array, and
numbers are cut out of all its elements at once, at the places that the wire gives them. Most of it happens outside
the interpreter, so that a writer's thread takes little time from the broker's.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.trace.recorder import Chunk
from runnel.trace.schemas import SCHEMAS
from runnel.wire.header import PUBLICATION, TIME_AT, TTL_AT

# Where the fields of a publication's header lie: first byte, and the one after the last.
_HOPS = (TTL_AT + 1, TTL_AT + 2)
_ADVERTISEMENT = (9, 17)
_COUNTER = (17, 25)
_TIME = (TIME_AT, TIME_AT + 8)
_NAME_LENGTH = (33, 34)
_ATTRIBUTES_LENGTH = (34, 38)
_BODY_AT = PUBLICATION.size
_PIECES = 4  # of a frame: header, attributes, name, payload


def to_table(name: str, chunks: Sequence[Chunk]) -> pa.Table:
    """The rows of these chunks, which all belong to one table, in the order in which they were recorded."""
    times: list[int] = []
    for chunk in chunks:
        times += repeat(chunk.time_ns, chunk.rows)
    if name == "publications":
        columns = _publications(chunks)
    elif name == "deliveries":
        columns = _deliveries(chunks)
    else:
        values = zip(*(chunk.row for chunk in chunks), strict=True)
        columns = dict(zip(SCHEMAS[name].names[2:], values, strict=True))
    schema = SCHEMAS[name]
    found = {"time_ns": times, "broker": _brokers(chunks, len(times)), **columns}
    arrays = [_column(found[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _brokers(chunks: Sequence[Chunk], rows: int) -> Any:
    """The broker of every row; on a node it is always the same."""
    first = chunks[0].broker
    if all(chunk.broker == first for chunk in chunks):
        return pa.repeat(pa.scalar(first, pa.string()), rows)
    return list(chain.from_iterable(repeat(chunk.broker, chunk.rows) for chunk in chunks))


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def _publications(chunks: Sequence[Chunk]) -> dict[str, Any]:
    frames = _frames(chunks)
    pieces = _pieces(frames)
    return {
        "advertisement": _numbers(frames, _ADVERTISEMENT),
        "counter": _numbers(frames, _COUNTER),
        "published_ns": _numbers(frames, _TIME),
        "size_bytes": pc.binary_length(frames).cast(pa.int64()),
        "attributes": _every(pieces, 1),
        "publisher": _text(_every(pieces, 2)),
    }


def _deliveries(chunks: Sequence[Chunk]) -> dict[str, Any]:
    frames = _frames(chunks)
    flat = list(chain.from_iterable(chunk.wanted for chunk in chunks))
    subscriptions, clients = zip(*flat, strict=True)
    numbers = {
        "advertisement": _numbers(frames, _ADVERTISEMENT),
        "counter": _numbers(frames, _COUNTER),
        "published_ns": _numbers(frames, _TIME),
        "hops": _numbers(frames, _HOPS, pa.uint8()),
    }
    if len(flat) != len(frames):  # some were wanted more than once
        # Which frame each row is about: the first as often as it was wanted, then the second …
        counts = list(chain.from_iterable(chunk.counts for chunk in chunks))
        rows = chain.from_iterable(map(repeat, range(len(counts)), counts))
        about = pa.array(list(rows), pa.int64())
        numbers = {name: column.take(about) for name, column in numbers.items()}
    return {"subscription": subscriptions, "client": clients, **numbers}


def _frames(chunks: Sequence[Chunk]) -> pa.Array:
    return pa.array(list(chain.from_iterable(chunk.frames for chunk in chunks)), pa.binary())


def _numbers(frames: pa.Array, place: tuple[int, int], kind: pa.DataType | None = None) -> pa.Array:
    """The number that every frame has in this place, as int64.

    The wire is big-endian and Arrow is not: the bytes of each are turned round, and then simply are the numbers.
    """
    digits = pc.binary_reverse(pc.binary_slice(frames, *place))
    numbers = pa.Array.from_buffers(
        kind or pa.int64(), len(digits), [None, digits.buffers()[2]], offset=digits.offset
    )
    return numbers.cast(pa.int64())


def _pieces(frames: pa.Array) -> pa.Array:
    """Every frame cut into header, attributes, name and payload, one after the other; nothing is copied.

    The pieces lie side by side as the frames do, so all there is to make is a longer list of where each begins.
    """
    count = len(frames)
    _, offsets, data = frames.buffers()
    bounds = pa.Array.from_buffers(pa.int32(), count + 1, [None, offsets])
    attributes_at = pc.add(bounds[:-1], pa.scalar(_BODY_AT, pa.int32()))
    name_at = pc.add(attributes_at, _length(frames, _ATTRIBUTES_LENGTH, pa.uint32()))
    payload_at = pc.add(name_at, _length(frames, _NAME_LENGTH, pa.uint8()))
    starts = array("i", bytes(4 * (_PIECES * count + 1)))
    for place, column in enumerate((bounds, attributes_at, name_at, payload_at)):
        starts[place::_PIECES] = _as_array(column)
    return pa.Array.from_buffers(pa.binary(), _PIECES * count, [None, pa.py_buffer(starts), data])


def _length(frames: pa.Array, place: tuple[int, int], kind: pa.DataType) -> pa.Array:
    return _numbers(frames, place, kind).cast(pa.int32())


def _as_array(column: pa.Array) -> array[int]:
    numbers = array("i")
    numbers.frombytes(memoryview(column.buffers()[1])[: 4 * len(column)])
    return numbers


def _every(pieces: pa.Array, place: int) -> pa.Array:
    """The pieces in one place of every frame."""
    places = array("q", range(place, len(pieces), _PIECES))
    return pieces.take(pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(places)]))


def _text(names: pa.Array) -> pa.Array:
    """Names as text; what is no UTF-8, which brokers do not check, becomes readable somehow."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="replace") for name in _plain(names)], pa.string())


def _plain(names: pa.Array) -> Iterable[bytes]:
    found: list[bytes] = names.to_pylist()
    return found
