"""What would these filters have received, and what would it have cost? Matches proposed subscriptions against a trace.

    number_publishers   a number for each publisher, the same for all its advertisements
    match_proposals     per task and subscription: what it would have received; by the compiled engine, in Arrow batches
    sum_over_tasks      per subscription: publications, bytes, number of publishers, first and last time

Each Python worker of Spark builds the engine once and keeps it for its next task. The engine counts slices of its
index rather than matches (matching/tally.py): a publication that thousands match costs little more than one for one.

Duplicate publications count once (doubles.py).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.matching import Engine, make_engine
from runnel.matching.tally import PackedEvents
from runnel.pipeline.clients import resolve_owners, state_at_end
from runnel.pipeline.doubles import count_by_word, drop_doubles
from runnel.pipeline.proposals import Proposals, parse_proposals
from runnel.quantities import SECOND
from runnel.trace.reader import attributes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from runnel.pipeline.jobs import Job

ROWS = 1 << 18
"""How many publications are matched together, publisher by publisher."""

MATCH_SCHEMA = (
    "place bigint, publications bigint, bytes bigint, first_ns bigint, last_ns bigint, "
    "publishers array<bigint>"
)
UNREADABLE = -1
"""The place of the row that counts publications whose attributes cannot be decoded."""

_NO_ATTRIBUTES = b"\x80"
Ints = npt.NDArray[np.int64]
_engines: dict[bytes, Engine] = {}


def number_publishers(advertisements: DataFrame, clients: DataFrame) -> DataFrame:
    """(advertisement, number): a number for each CLIENT/PUBLISHER, the same for all its incarnations."""
    stand = resolve_owners(state_at_end(advertisements, "advertisement", "publisher"), clients)
    name = F.concat_ws("/", "client", "publisher")
    number = F.dense_rank().over(Window.orderBy(name)).cast("long")
    return stand.select("advertisement", number.alias("number"))


# -- matching -------------------------------------------------------------------------------------------


def match_proposals(
    publications: DataFrame, publishers: DataFrame, selections: list[bytes]
) -> DataFrame:
    """What each subscription would have received, task by task; there is no row if it would have received nothing."""
    # An advertisement from before the trace began counts as a publisher of its own.
    number = F.coalesce("number", F.lit(-1) - F.col("advertisement")).alias("publisher")
    rows = publications.join(F.broadcast(publishers), "advertisement", "left").select(
        number, "time_ns", "size_bytes", "attributes"
    )
    return rows.mapInArrow(_make_matcher(selections), MATCH_SCHEMA)


def _make_matcher(
    selections: list[bytes],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    digest = sha256(b"".join(selections)).digest()

    def match(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sums = MatchSums(_engine_for(digest, selections), len(selections))
        for chunk in _group_batches(batches):
            sums.add(chunk)
        yield sums.to_batch()

    return match


def _engine_for(digest: bytes, selections: list[bytes]) -> Engine:
    """The engine for these subscriptions; it is cached for further tasks in this process."""
    if digest not in _engines:
        _engines.clear()
        engine = make_engine()
        for place, selection in enumerate(selections):
            engine.add(place, pickle.loads(selection))
        _engines[digest] = engine
    return _engines[digest]


def _group_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= ROWS:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


class MatchSums:
    """Sums what the subscriptions of an engine would have received, over chunks of publications."""

    def __init__(self, engine: Engine, subscriptions: int) -> None:
        self._tally = engine.tally()
        self._counts = np.zeros(subscriptions, np.int64)
        self._bytes = np.zeros(subscriptions, np.int64)
        self._firsts = np.full(subscriptions, np.iinfo(np.int64).max)
        self._lasts = np.full(subscriptions, np.iinfo(np.int64).min)
        self._pairs: list[tuple[Ints, int]] = []  # subscriptions, and a publisher of theirs
        self._unreadable = 0

    def add(self, chunk: pa.Table) -> None:
        """Match further publications."""
        publishers = chunk["publisher"].to_numpy()
        order = np.argsort(publishers, kind="stable")
        edges = np.flatnonzero(np.diff(publishers[order])) + 1
        raw = chunk["attributes"].combine_chunks()
        sizes, times = (chunk[name].to_numpy() for name in ("size_bytes", "time_ns"))
        events = PackedEvents(*_bytes_and_offsets(raw), sizes, times)
        for group in np.split(order, edges):
            for place in self._tally.add_packed(events, group):
                self._add_one(raw[place].as_py(), int(sizes[place]), int(times[place]))
            if len(group):
                self._take_publisher(int(publishers[group[0]]))

    def _add_one(self, raw: bytes, size: int, time_ns: int) -> None:
        attributes = attributes_of(raw)
        if attributes or raw == _NO_ATTRIBUTES:
            self._tally.add(attributes, size, time_ns)
        else:
            self._unreadable += 1

    def _take_publisher(self, publisher: int) -> None:
        ids, counts, amounts, firsts, lasts = (
            np.frombuffer(column, np.int64) for column in self._tally.take()
        )
        self._counts[ids] += counts
        self._bytes[ids] += amounts
        self._firsts[ids] = np.minimum(self._firsts[ids], firsts)
        self._lasts[ids] = np.maximum(self._lasts[ids], lasts)
        self._pairs.append((ids, publisher))

    def to_batch(self) -> pa.RecordBatch:
        """A row for each subscription that would have received anything, and one for unreadable publications."""
        found = np.flatnonzero(self._counts)
        columns = [found, *(all[found] for all in (self._counts, self._bytes))]
        columns += [self._firsts[found], self._lasts[found]]
        arrays: list[Any] = [pa.array(column) for column in columns]
        rows = pa.record_batch([*arrays, self._publishers(found)], schema=_ARROW)
        nothing = [[UNREADABLE], [self._unreadable], [0], [None], [None], [[]]]
        last = pa.record_batch(
            [pa.array(one, kind) for one, kind in zip(nothing, _ARROW.types, strict=True)],
            schema=_ARROW,
        )
        return pa.concat_batches([rows, last])

    def _publishers(self, found: Ints) -> pa.ListArray:
        """The distinct publishers of each subscription with matches."""
        names, numbers = np.unique([one for _, one in self._pairs], return_inverse=True)
        many = max(len(names), 1)
        pairs = [ids * many + number for (ids, _), number in zip(self._pairs, numbers, strict=True)]
        each = np.unique(np.concatenate([np.zeros(0, np.int64), *pairs]))
        starts = np.append(np.searchsorted(each, found * many), len(each))
        return pa.ListArray.from_arrays(starts.astype(np.int32), names[each % many])


def _bytes_and_offsets(column: pa.BinaryArray) -> tuple[npt.NDArray[np.uint8], Ints]:
    """The bytes of a column, and the offsets of its values; the last offset is the end of the last value."""
    wide = column.cast(pa.large_binary())
    _, offsets, data = wide.buffers()
    edges = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    return np.frombuffer(data or b"", np.uint8), edges


_ARROW = pa.schema(
    [
        *((name, pa.int64()) for name in ("place", "publications", "bytes", "first_ns", "last_ns")),
        ("publishers", pa.list_(pa.int64())),
    ]
)


def sum_over_tasks(matched: DataFrame) -> DataFrame:
    """(place, publications, bytes, publishers, first_ns, last_ns): the sums over all tasks."""
    every = F.array_distinct(F.flatten(F.collect_list("publishers")))
    found = matched.groupBy("place").agg(
        F.sum("publications").alias("publications"),
        F.sum("bytes").alias("bytes"),
        F.size(every).alias("publishers"),
        F.min("first_ns").alias("first_ns"),
        F.max("last_ns").alias("last_ns"),
    )
    return found.select("place", "publications", "bytes", "publishers", "first_ns", "last_ns")


def add_names(outcome: DataFrame, proposals: DataFrame, seconds: float) -> DataFrame:
    """The outcome of every proposal, also if it would have received nothing; `proposals` has places and names."""
    return (
        proposals.join(outcome, "place", "left")
        .na.fill(0, ["publications", "bytes", "publishers"])
        .select(
            "subscription",
            "filter",
            "publications",
            (F.col("publications") / seconds).alias("rate"),
            "bytes",
            (F.col("bytes") / seconds).alias("bandwidth"),
            "publishers",
            "first_ns",
            "last_ns",
        )
    )


# -- the job --------------------------------------------------------------------------------------------


def backtest(job: Job, proposals: Proposals) -> dict[str, int]:
    """Match a trace against proposals, write the table `backtest`, and return counts."""
    job.tell("looking at the files")
    tables = job.open()
    job.decisions = tables.decisions
    tables.require("publications", "trace for longer, with publications = true")
    spark, count = job.spark, job.decisions.count
    job.tell(f"parsing {len(proposals.filters):,} filters")
    selections, contradictions = parse_proposals(spark, proposals)
    count("filters contradict themselves: no publication can ever match", contradictions)

    job.tell("looking for publications that are there twice")
    published = tables.frame(spark, "publications")
    events = {name: tables.frame(spark, name) for name in ("subscriptions", "advertisements")}
    clients = (
        events["subscriptions"].select("client").union(events["advertisements"].select("client"))
    )
    known = number_publishers(events["advertisements"], clients)
    all_words = count_by_word(published, "advertisement").persist()
    strangers = all_words.join(known, "advertisement", "left_anti")
    rows, publications, first_ns, last_ns = all_words.select(
        F.sum("rows"), F.sum("different"), F.min("first_ns"), F.max("last_ns")
    ).collect()[0]
    count("publications are there twice, and count once", rows - publications)
    count(
        "advertisements were made before the trace began: each counts as a publisher",
        strangers.select("advertisement").distinct().count(),
    )
    if rows > publications:
        columns = ("advertisement", "counter", "time_ns", "size_bytes", "attributes")
        published = drop_doubles(published.select(*columns), all_words, "advertisement")

    job.tell(f"matching {publications:,} publications")
    found = sum_over_tasks(match_proposals(published, known, selections)).persist()
    places = pa.array(range(len(selections)))
    names = pa.table(
        {"place": places, "subscription": proposals.names, "filter": proposals.filters}
    )
    seconds = max(last_ns - first_ns, SECOND) / SECOND
    job.write(add_names(found, spark.createDataFrame(names), seconds), "backtest")
    unreadable = found.where(F.col("place") == UNREADABLE).select("publications").first()
    count(
        "publications have attributes that make no sense: they match nothing",
        int((unreadable or (0,))[0]),
    )
    for frame in (all_words, found):
        frame.unpersist()
    matches, silent = (
        job.frame("backtest")
        .select(F.sum("publications"), F.count_if(F.col("publications") == 0))
        .collect()[0]
    )
    count("subscriptions would have got nothing", silent)
    return {
        "subscriptions": len(selections),
        "publications": publications,
        "matches": matches,
        "seconds": round(seconds),
    }
