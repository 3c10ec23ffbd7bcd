"""Where every publisher should be: GRAPE for all of them at once, over an overlay that is given.

    overlay      as it was traced, or as a plan has it; it must be a tree
    wanted       what the subscriptions at each broker got of each publisher: bits OR-ed, deliveries added
    stations     what GRAPE is told of every broker besides: its neighbours, how long messages take (delays.py)
    placements   placement.grape.choose for each publisher, in Arrow batches; all brokers of the overlay are candidates

GRAPE settles brokers that are equal in the metric that goes first by the other one, also at 100%. Its choice stays
in the table; but at 100%, where the first metric is all that counts, it is no move unless that one gains (`moves`).

The trace session of the paper is the window of the profile. With a plan, clients and publishers are where it puts
them; those that it does not know are where they were traced. Who is at a broker that is not in the overlay cannot be
placed, or does not count, which is told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.allocation.bits import words_for
from runnel.allocation.layout import Layout, downstream
from runnel.allocation.load import MICRO
from runnel.allocation.plan import Plan
from runnel.errors import InputError
from runnel.pipeline.delays import Taken, crossings, link_times, newest, spent, taken
from runnel.pipeline.profiles import RECENT_DAYS
from runnel.placement.grape import CLIENT, Metric, Report, choose

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from runnel.pipeline.jobs import Job

SECOND = 1_000_000_000
SAMPLE = 256
"""Of so many publications of each advertisement it is looked at when they came by."""

SCHEMA = (
    "publisher string, home string, broker string, publications bigint, "
    "load_now bigint, load_after bigint, messages_now double, messages_after double, "
    "delay_now_s double, delay_after_s double, gain_percent double, gain_in string, moves boolean, candidates bigint"
)
_PRIORITY = re.compile(r"(?P<metric>\w+) +(?P<percent>\d+(\.\d*)?) *%?")
Neighbours = Mapping[str, list[str]]
Stations = Mapping[str, Report]


class Priority(NamedTuple):
    """What is minimised first, and how much that counts: the paper's `load P%` and `delay P%`."""

    metric: Metric = "load"
    percent: float = 100.0

    @property
    def text(self) -> str:
        """As people write it."""
        return f"{self.metric} {self.percent:g}%"


def parse_priority(text: str) -> Priority:
    """A priority as people write it.

    >>> parse_priority("delay 50%")
    Priority(metric='delay', percent=50.0)
    >>> parse_priority("speed")
    Traceback (most recent call last):
    runnel.errors.InputError: 'speed' is no priority: write 'load 100%' or 'delay 50%'
    """
    found = _PRIORITY.fullmatch(text.strip())
    for metric in get_args(Metric):
        if found and found["metric"] == metric and float(found["percent"]) <= 100:
            return Priority(metric, float(found["percent"]))
    raise InputError(f"{text!r} is no priority: write 'load 100%' or 'delay 50%'")


@dataclass(frozen=True, slots=True)
class Overlay:
    """A tree of brokers; and where clients and publishers are, as far as a plan says so."""

    neighbours: Neighbours
    clients: Mapping[str, str] = field(default_factory=dict)
    publishers: Mapping[str, str] = field(default_factory=dict)


def planned(plan: Plan) -> Overlay:
    """The overlay of a plan."""
    layout = Layout(plan.overlay, {}, {})
    neighbours = {broker: sorted(found) for broker, found in layout.neighbours().items()}
    return Overlay(dict(sorted(neighbours.items())), plan.subscriptions, plan.publishers)


def traced(brokers: DataFrame, links: DataFrame) -> Overlay:
    """The overlay as it was at the end of a trace.

    Brokers that are joined to nobody are overlays of their own; what is joined must be a tree.
    """
    neighbours: dict[str, list[str]] = {}
    for name in sorted(row["broker"] for row in brokers.select("broker").collect()):
        neighbours[name] = []
    pairs = sorted((row["one"], row["other"]) for row in links.collect())
    for one, other in pairs:
        neighbours.setdefault(one, []).append(other)
        neighbours.setdefault(other, []).append(one)
    tree = {broker: sorted(found) for broker, found in sorted(neighbours.items())}
    parts, seen = 0, set[str]()
    for broker in tree:
        if broker not in seen:
            parts += 1
            seen.update(name for name, _ in downstream(tree, broker))
    if len(pairs) != len(tree) - parts:
        raise InputError(
            f"the {len(pairs):,} links of {len(tree):,} brokers make no tree, and GRAPE needs one: "
            "name an overlay with --plan"
        )
    return Overlay(tree)


# -- transforms -------------------------------------------------------------------------------------------


def seated(rows: DataFrame, key: str, places: DataFrame, brokers: DataFrame) -> DataFrame:
    """Rows of `subscriptions` or `publishers` with the broker that counts, and whether the overlay has it.

    `places` (name, place) has who is elsewhere than traced, by the column `key`.
    """
    moved = rows.join(places, rows[key] == places["name_planned"], "left")
    there = F.coalesce("place", "broker")
    named = moved.withColumn("broker", there).join(
        F.broadcast(brokers.withColumn("in_overlay", F.lit(True))), "broker", "left"
    )
    return named.select(*rows.columns, F.coalesce("in_overlay", F.lit(False)).alias("in_overlay"))


def wanted(vectors: DataFrame, seats: DataFrame, length: int) -> DataFrame:
    """(publisher, broker, deliveries, words): what the subscriptions at each broker got of each publisher."""
    there = vectors.join(seats.select("subscription", "broker"), "subscription")
    names = [f"word{number}" for number in range(words_for(length))]
    bits = [F.bit_or(F.get("words", F.lit(n))).alias(name) for n, name in enumerate(names)]
    found = there.groupBy("publisher", "broker").agg(*bits, F.sum("ones").alias("deliveries"))
    return found.select("publisher", "broker", "deliveries", F.array(*names).alias("words"))


def placements(
    publishers: DataFrame, wanted: DataFrame, stations: Stations, priority: Priority
) -> DataFrame:
    """The choice for every publisher; those that nobody wants anything of stay where they are."""
    asked = publishers.select("number", "name", "broker", "rate", "span")
    return (
        asked.groupBy("number")
        .cogroup(wanted.groupBy("publisher"))
        .applyInArrow(placing(stations, priority), SCHEMA)
        .select(*(one.split()[0] for one in SCHEMA.split(", ")))
    )


def placing(stations: Stations, priority: Priority) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """What places one publisher, given its row and what is wanted of it."""

    def place_one(publisher: pa.Table, wanted: pa.Table) -> pa.Table:
        rows = [
            placement(row, wanted.to_pylist(), stations, priority) for row in publisher.to_pylist()
        ]
        return pa.Table.from_pylist(rows, _ARROW)

    return place_one


def placement(
    publisher: Mapping[str, Any],
    wanted: list[dict[str, Any]],
    stations: Stations,
    priority: Priority,
) -> dict[str, Any]:
    """One publisher, placed by GRAPE."""
    reports = dict(stations)
    for row in wanted:
        bits = b"".join((word % (1 << 64)).to_bytes(8, "little") for word in row["words"])
        reports[row["broker"]] = replace(
            stations[row["broker"]],
            bits=int.from_bytes(bits, "little"),
            deliveries=row["deliveries"],
        )
    home = publisher["broker"]
    choice = choose(reports, home, priority.metric, priority.percent)
    named = {one.broker: one for one in choice.candidates}
    now, then = named[home], named[choice.broker]
    gain_in = None
    if choice.broker != home:  # as in Choice.gain_percent: that for which it would not stay
        gain_in = _OTHER[priority.metric] if now.kept else priority.metric
    per_s = publisher["rate"] / max(1, publisher["span"])
    return {
        "publisher": publisher["name"],
        "home": home,
        "broker": choice.broker,
        "publications": publisher["span"],
        "load_now": now.load,
        "load_after": then.load,
        "messages_now": now.load * per_s,
        "messages_after": then.load * per_s,
        "delay_now_s": now.delay_s,
        "delay_after_s": then.delay_s,
        "gain_percent": choice.gain_percent(home, priority.metric),
        "gain_in": gain_in,
        "moves": gain_in is not None and (gain_in == priority.metric or priority.percent < 100),
        "candidates": len(choice.candidates),
    }


_OTHER: dict[Metric, Metric] = {"load": "delay", "delay": "load"}
_KINDS = {
    **{"string": pa.string(), "bigint": pa.int64()},
    **{"double": pa.float64(), "boolean": pa.bool_()},
}
_ARROW = pa.schema([(name, _KINDS[kind]) for name, kind in map(str.split, SCHEMA.split(", "))])


# -- the job ----------------------------------------------------------------------------------------------


def make_stations(
    neighbours: Neighbours, brokers: Mapping[str, Taken], links: Mapping[tuple[str, str], int]
) -> dict[str, Report]:
    """What GRAPE is told of every broker, but for what it delivered; what was not measured takes no time."""
    found = {}
    for broker, beside in neighbours.items():
        took = brokers.get(broker, Taken())
        found[broker] = Report(
            broker,
            tuple(beside),
            0,
            0,
            took.input_ns / SECOND,
            took.matching_ns / SECOND,
            dict.fromkeys((CLIENT, *beside), took.output_ns / SECOND),
            {other: links.get((broker, other), 0) / SECOND for other in beside},
        )
    return found


def stations_of(job: Job, neighbours: Neighbours) -> dict[str, Report]:
    """The brokers of an overlay, measured over the last days of the trace."""
    tables = job.tables or job.open()
    days = range(tables.days[-1] - RECENT_DAYS + 1, tables.days[-1] + 1)
    recent = {
        name: tables.frame(job.spark, name, days)
        for name in ("intervals", "publications", "deliveries")
    }
    known = job.frame("incarnations")
    brokers = taken(spent(recent["intervals"]))
    published, delivered = (
        newest(recent[name], known, SAMPLE) for name in ("publications", "deliveries")
    )
    links = link_times(crossings(published, delivered, job.frame("links")), brokers)
    pairs = [(one, other) for one, found in neighbours.items() for other in found if one < other]
    count = job.reading.count
    count(
        "brokers were not measured: messages take no time there", len(neighbours.keys() - brokers)
    )
    count(
        "links have no measured time, and count as taking none",
        sum(pair not in links for pair in pairs),
    )
    return make_stations(neighbours, brokers, links)


def place(job: Job, priority: Priority, plan: Plan | None = None) -> dict[str, int]:
    """Place all publishers of the trace; how many there are, and how many would move. Profiles must be up to date."""
    overlay = planned(plan) if plan else traced(job.frame("brokers"), job.frame("links"))
    job.tell("measuring brokers and links")
    stations = stations_of(job, overlay.neighbours)
    brokers = job.spark.createDataFrame([(name,) for name in overlay.neighbours], "broker string")

    def seats(name: str, key: str, places: Mapping[str, str], gone: str, lost: str) -> DataFrame:
        frame = job.frame(name)
        elsewhere = job.spark.createDataFrame(
            sorted(places.items()), "name_planned string, place string"
        )
        here = seated(frame.where("present"), key, elsewhere, brokers)
        job.reading.count(gone, frame.where("not present").count())
        job.reading.count(lost, here.where("not in_overlay").count())
        return here.where("in_overlay")

    listening = seats(
        *("subscriptions", "client", overlay.clients),
        "subscriptions were withdrawn by the end, and do not count",
        "subscriptions are at brokers that are not in the overlay, and do not count",
    )
    speaking = seats(
        *("publishers", "name", overlay.publishers),
        "publishers had left by the end, and are not placed",
        "publishers are at brokers that are not in the overlay, and are not placed",
    )
    job.tell(f"placing publishers, {priority.text}, among {len(stations):,} brokers")
    needed = wanted(job.frame("vectors"), listening, job.length)
    job.write(placements(speaking, needed, stations, priority), "placements")
    counts = job.frame("placements").select(F.count("*"), F.count_if("moves")).first()
    count, moves = counts or (0, 0)
    return {"publishers": int(count), "would move": int(moves), "brokers": len(stations)}


def top_moves(placements: DataFrame, count: int) -> DataFrame:
    """The moves that save the most messages, or else the most time."""
    saved = F.col("messages_now") - F.col("messages_after")
    faster = F.col("delay_now_s") - F.col("delay_after_s")
    moves = placements.where("moves")
    return moves.orderBy(saved.desc(), faster.desc(), "publisher").limit(count).select("*")


def totals(placements: DataFrame) -> DataFrame:
    """(messages_now, messages_after): what all brokers together take in per second, before the moves and after them."""
    # Whole millionths, so that the sum does not depend on its order.
    then = F.when(F.col("moves"), F.col("messages_after")).otherwise(F.col("messages_now"))
    now, after = (
        F.sum(F.round(rate * MICRO).cast("long")) for rate in (F.col("messages_now"), then)
    )
    return placements.select(
        (F.coalesce(now, F.lit(0)) / MICRO).alias("messages_now"),
        (F.coalesce(after, F.lit(0)) / MICRO).alias("messages_after"),
    )
