"""Every table of a trace and every column of it: the one place where they are written down.

Each table is a class of rows. Its fields are the columns, with their types; Arrow's schema is made from them, and code
that records a row names every column. So a column is added here and where its value is known; if the second is
forgotten, mypy reports it.

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
| control | a decision, move, lease, migration, or anything else that a broker reports |
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, ClassVar, get_args, get_type_hints

import pyarrow as pa
from msgspec import Struct

from runnel.errors import InputError

VERSION = 1
"""The version that is written."""

OLDEST = 1
"""The oldest version that can still be read."""


Counts = list[tuple[str, int]]
"""How many of each: what a map holds."""

_TYPES = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    Counts: pa.map_(pa.string(), pa.int64()),
}


class TableRow(Struct, kw_only=True, gc=False):
    """A row of a table; its fields are the table's columns, and a field that may be None is a nullable column.

    Rows hold plain values, so they are never part of a cycle, and the garbage collector may ignore them.
    """

    table: ClassVar[str]
    time_ns: int
    broker: str


class BrokersRow(TableRow, kw_only=True):
    """A broker starts or stops."""

    table: ClassVar[str] = "brokers"
    event: str  # started, stopped
    detail: str  # JSON


class LinksRow(TableRow, kw_only=True):
    """What passed a link."""

    table: ClassVar[str] = "links"
    peer: str
    kind: str  # broker, client, operator
    event: str  # up, counted, lost
    publications_in: int  # this and the following: since the link was made
    publications_out: int
    dropped: int
    waiting_bytes: int  # at this moment


class SubscriptionsRow(TableRow, kw_only=True):
    """A client's subscription."""

    table: ClassVar[str] = "subscriptions"
    client: str
    event: str  # made, withdrawn
    subscription: int
    filter: str  # as SQL
    selection: bytes  # as on the wire


class AdvertisementsRow(TableRow, kw_only=True):
    """A client's advertisement."""

    table: ClassVar[str] = "advertisements"
    client: str
    event: str  # made, withdrawn
    advertisement: int
    publisher: str
    filter: str
    selection: bytes


class PublicationsRow(TableRow, kw_only=True):
    """A publication, when its first broker took it in. Never made one by one: columns.py makes whole columns."""

    table: ClassVar[str] = "publications"
    advertisement: int
    counter: int
    publisher: str
    published_ns: int
    size_bytes: int  # the whole frame
    attributes: bytes  # MessagePack, as on the wire


class DeliveriesRow(TableRow, kw_only=True):
    """A publication, when it was put into a client's queue. Made as columns, like `PublicationsRow`."""

    table: ClassVar[str] = "deliveries"
    client: str
    subscription: int
    advertisement: int
    counter: int
    published_ns: int
    hops: int  # links between brokers that it has passed


class IntervalsRow(TableRow, kw_only=True):
    """The load of a broker over the interval that ends at this time."""

    table: ClassVar[str] = "intervals"
    window_ns: int
    input_ratio: float  # Ir
    output_ratio: float | None  # Or; null where the output is not measured
    matching_delay_s: float  # per publication
    input_rate: float  # publications per second
    output_rate: float
    publications_in: int  # this and the following: within the interval
    publications_out: int
    control_in: int
    frames_out: int
    bytes_in: int
    bytes_out: int
    dropped: int
    messages_in: Counts  # by class
    queue_frames: int  # at the end of the interval, over all links
    queue_bytes: int
    queue_bytes_largest: int  # of one link
    subscriptions: int  # rows of the PRT
    advertisements: int  # rows of the SRT
    clients: int
    memory_bytes: int | None  # null where it is not measured


class ControlRow(TableRow, kw_only=True):
    """Something that a broker reports, such as a decision."""

    table: ClassVar[str] = "control"
    kind: str
    entity: str  # what it is about: an id, a client, a peer; "" for the broker itself
    detail: str  # JSON


ROWS: dict[str, type[TableRow]] = {
    row.table: row
    for row in (
        *(BrokersRow, LinksRow, SubscriptionsRow, AdvertisementsRow),
        *(PublicationsRow, DeliveriesRow, IntervalsRow, ControlRow),
    )
}
"""Every table, by name."""


def _column(name: str, kind: Any) -> pa.Field:
    nullable = isinstance(kind, UnionType)
    if nullable:
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    return pa.field(name, _TYPES[kind], nullable=nullable)


def _schema(row: type[TableRow]) -> pa.Schema:
    kinds = get_type_hints(row)
    return pa.schema([_column(name, kinds[name]) for name in row.__struct_fields__])


SCHEMAS = {table: _schema(row) for table, row in ROWS.items()}
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
