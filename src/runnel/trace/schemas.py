"""Every table of a trace and every column of it: the one place where they are written down.

Rules:
- Times are int64 nanoseconds of the trace's clock: virtual in the simulator, since 1970 on a node; the file
  `trace.json` of a trace says which. `published_ns` is by the publisher's clock. Durations in seconds are floats,
  and say so.
- Ids and counts are int64, names and kinds are strings, and nothing is unsigned, dictionary-encoded or a
  timestamp: such columns mean the same to Arrow, Spark and everybody else.
- (advertisement, counter) names a publication in every table.
- A table may get further nullable columns within a version: older files read as null there. Whatever else changes is a
  new `VERSION`.

| table | one row for |
|---|---|
| brokers | a broker that starts or stops |
| links | a link that comes up or is lost, with what passed it; those between brokers at every interval too |
| subscriptions | a client's subscription, made or withdrawn at its broker |
| advertisements | the same for advertisements |
| publications | a publication, where it enters the network |
| deliveries | a publication handed to a client, for each subscription of that client that wants it |
| intervals | a broker and a stretch of time: its load |
| control | a decision, move, lease, migration, or anything else that a broker found worth telling |
"""

from __future__ import annotations

import pyarrow as pa

from runnel.errors import InputError

VERSION = 1
"""The version that is written."""

OLDEST = 1
"""The oldest version that can still be read."""

HOUR_NS = 3_600_000_000_000

_INT, _FLOAT, _TEXT, _BYTES, _BOOL = pa.int64(), pa.float64(), pa.string(), pa.binary(), pa.bool_()


def _schema(*fields: tuple[str, pa.DataType], optional: tuple[str, ...] = ()) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=name in optional) for name, kind in fields])


_TIME = ("time_ns", _INT)
_BROKER = ("broker", _TEXT)

SCHEMAS: dict[str, pa.Schema] = {
    "brokers": _schema(
        _TIME,
        _BROKER,
        ("event", _TEXT),  # started, stopped
        ("detail", _TEXT),  # JSON
    ),
    "links": _schema(
        _TIME,
        _BROKER,
        ("peer", _TEXT),
        ("kind", _TEXT),  # broker, client
        ("event", _TEXT),  # up, counted, lost
        ("publications_in", _INT),  # this and the following: since the link was made
        ("publications_out", _INT),
        ("dropped", _INT),
        ("waiting_bytes", _INT),  # at this moment
    ),
    "subscriptions": _schema(
        _TIME,
        _BROKER,
        ("client", _TEXT),
        ("event", _TEXT),  # made, withdrawn
        ("subscription", _INT),
        ("filter", _TEXT),  # as SQL
        ("selection", _BYTES),  # as on the wire
    ),
    "advertisements": _schema(
        _TIME,
        _BROKER,
        ("client", _TEXT),
        ("event", _TEXT),  # made, withdrawn
        ("advertisement", _INT),
        ("publisher", _TEXT),
        ("filter", _TEXT),
        ("selection", _BYTES),
    ),
    "publications": _schema(
        _TIME,  # when the broker took it in
        _BROKER,
        ("advertisement", _INT),
        ("counter", _INT),
        ("publisher", _TEXT),
        ("published_ns", _INT),
        ("size_bytes", _INT),  # the whole frame
        ("attributes", _BYTES),  # MessagePack, as on the wire
    ),
    "deliveries": _schema(
        _TIME,  # when it was put into the client's queue
        _BROKER,
        ("client", _TEXT),
        ("subscription", _INT),
        ("advertisement", _INT),
        ("counter", _INT),
        ("published_ns", _INT),
        ("hops", _INT),  # links between brokers that it has passed
    ),
    "intervals": _schema(
        _TIME,  # the end of the interval
        _BROKER,
        ("window_ns", _INT),
        ("input_ratio", _FLOAT),  # Ir
        ("output_ratio", _FLOAT),  # Or; null where nobody measures the output
        ("matching_delay_s", _FLOAT),  # per publication
        ("input_rate", _FLOAT),  # publications per second
        ("output_rate", _FLOAT),
        ("publications_in", _INT),  # this and the following: within the interval
        ("publications_out", _INT),
        ("control_in", _INT),
        ("frames_out", _INT),
        ("bytes_in", _INT),
        ("bytes_out", _INT),
        ("dropped", _INT),
        ("messages_in", pa.map_(_TEXT, _INT)),  # by class
        ("queue_frames", _INT),  # at the end of the interval, over all links
        ("queue_bytes", _INT),
        ("queue_bytes_largest", _INT),  # of one link
        ("subscriptions", _INT),  # rows of the PRT
        ("advertisements", _INT),  # rows of the SRT
        ("clients", _INT),
        ("memory_bytes", _INT),  # null where nobody measures it
        optional=("output_ratio", "memory_bytes"),
    ),
    "control": _schema(
        _TIME,
        _BROKER,
        ("kind", _TEXT),
        ("entity", _TEXT),  # what it is about: an id, a client, a peer; "" for the broker itself
        ("detail", _TEXT),  # JSON
    ),
}

TABLES = tuple(SCHEMAS)


def schema_of(table: str) -> pa.Schema:
    """The schema of a table.

    >>> schema_of("publications").names[2:4]
    ['advertisement', 'counter']
    >>> schema_of("publication")
    Traceback (most recent call last):
    runnel.errors.InputError: there is no table 'publication': take one of brokers, links, subscriptions, \
advertisements, publications, deliveries, intervals, control
    """
    schema = SCHEMAS.get(table)
    if schema is None:
        raise InputError(f"there is no table {table!r}: take one of {', '.join(TABLES)}")
    return schema


def check_version(found: object, where: str) -> None:
    """Refuse what this version of Runnel cannot read, and say what to do.

    >>> check_version(VERSION, "here")
    >>> check_version(VERSION + 1, "trace.json")
    Traceback (most recent call last):
    runnel.errors.InputError: trace.json: written with version 2 of the tables, this Runnel reads 1 to 1: \
read it with a newer Runnel
    """
    if isinstance(found, int) and OLDEST <= found <= VERSION:
        return
    cure = (
        "read it with a newer Runnel"
        if isinstance(found, int) and found > VERSION
        else "read it with the Runnel that wrote it"
    )
    raise InputError(
        f"{where}: written with version {found} of the tables, this Runnel reads {OLDEST} to {VERSION}: {cure}"
    )
