"""Where every publisher should be: GRAPE for all publishers, over a given overlay.

    BrokerTree           the overlay of the trace or of a plan; it must be a tree
    wanted_at_brokers    what the subscriptions at each broker received from each publisher: bits and deliveries
    stations             the rest of GRAPE's reports, for every broker: neighbours and delays (delays.py)
    choose_placements    placement.grape.choose for each publisher, in Arrow batches; all brokers are candidates

If brokers are equal in the primary metric, GRAPE chooses among them by the other one, also at 100%. The table has that
choice; but at 100%, where only the primary metric counts, `moves` is true only if that metric improves.

The trace session of the paper is the window of the profile. With a plan, clients and publishers are at the brokers of
the plan; those that are not in the plan are where they were traced. Publishers at brokers that are not in the overlay
are not placed, subscriptions there do not count; both are counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.bits import words_for
from runnel.errors import InputError
from runnel.modules.placement.grape import CLIENT, BrokerReport, Metric, choose
from runnel.pipeline.delays import (
    BrokerDelays,
    delays_of_brokers,
    link_crossings,
    link_times,
    newest_publications,
    sum_broker_times,
)
from runnel.pipeline.profiles import RECENT_DAYS
from runnel.planning.documents.plan import Plan
from runnel.planning.layout import Layout, downstream
from runnel.planning.load import MICRO
from runnel.quantities import SECOND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from runnel.pipeline.jobs import Job

SAMPLE = 256
"""The times of links are measured with this many publications of each advertisement."""

SCHEMA = (
    "publisher string, home string, broker string, publications bigint, "
    "load_now bigint, load_after bigint, messages_now double, messages_after double, "
    "delay_now_s double, delay_after_s double, gain_percent double, gain_in string, moves boolean, candidates bigint"
)
_PRIORITY = re.compile(r"(?P<metric>\w+) +(?P<percent>\d+(\.\d*)?) *%?")
Neighbours = Mapping[str, list[str]]
Stations = Mapping[str, BrokerReport]


class Priority(NamedTuple):
    """The primary metric, and its weight: the paper's `load P%` and `delay P%`."""

    metric: Metric = "load"
    percent: float = 100.0

    @property
    def text(self) -> str:
        """As users write it."""
        return f"{self.metric} {self.percent:g}%"


def parse_priority(text: str) -> Priority:
    """Parse a priority as users write it.

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
class BrokerTree:
    """A tree of brokers; and the brokers of clients and publishers, if there is a plan."""

    neighbours: Neighbours
    clients: Mapping[str, str] = field(default_factory=dict)
    publishers: Mapping[str, str] = field(default_factory=dict)


def tree_of_plan(plan: Plan) -> BrokerTree:
    """The overlay of a plan."""
    layout = Layout(plan.overlay, {}, {})
    neighbours = {broker: sorted(found) for broker, found in layout.neighbours().items()}
    return BrokerTree(dict(sorted(neighbours.items())), plan.subscriptions, plan.publishers)


def tree_of_trace(brokers: DataFrame, links: DataFrame) -> BrokerTree:
    """The overlay at the end of a trace. Its links must form trees; a broker without links is a tree of its own."""
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
    return BrokerTree(tree)


# -- transforms -------------------------------------------------------------------------------------------


def assign_brokers(rows: DataFrame, key: str, places: DataFrame, brokers: DataFrame) -> DataFrame:
    """Rows of `subscriptions` or `publishers` with their broker in the plan, and whether the overlay has that broker.

    `places` (name_planned, place) has the brokers of the plan; names are compared with the column `key`.
    """
    moved = rows.join(places, rows[key] == places["name_planned"], "left")
    there = F.coalesce("place", "broker")
    named = moved.withColumn("broker", there).join(
        F.broadcast(brokers.withColumn("in_overlay", F.lit(True))), "broker", "left"
    )
    return named.select(*rows.columns, F.coalesce("in_overlay", F.lit(False)).alias("in_overlay"))


def wanted_at_brokers(vectors: DataFrame, seats: DataFrame, length: int) -> DataFrame:
    """(publisher, broker, deliveries, words): what the subscriptions at each broker received from each publisher."""
    there = vectors.join(seats.select("subscription", "broker"), "subscription")
    names = [f"word{number}" for number in range(words_for(length))]
    bits = [F.bit_or(F.get("words", F.lit(n))).alias(name) for n, name in enumerate(names)]
    found = there.groupBy("publisher", "broker").agg(*bits, F.sum("ones").alias("deliveries"))
    return found.select("publisher", "broker", "deliveries", F.array(*names).alias("words"))


def choose_placements(
    publishers: DataFrame, wanted: DataFrame, stations: Stations, priority: Priority
) -> DataFrame:
    """GRAPE's choice for every publisher; publishers without subscribers stay where they are."""
    asked = publishers.select("number", "name", "broker", "rate", "span")
    return (
        asked.groupBy("number")
        .cogroup(wanted.groupBy("publisher"))
        .applyInArrow(_make_placer(stations, priority), SCHEMA)
        .select(*(one.split()[0] for one in SCHEMA.split(", ")))
    )


def _make_placer(
    stations: Stations, priority: Priority
) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """The function that places one publisher, given its row and its rows of `wanted_at_brokers`."""

    def place_one(publisher: pa.Table, wanted: pa.Table) -> pa.Table:
        rows = [
            place_publisher(row, wanted.to_pylist(), stations, priority)
            for row in publisher.to_pylist()
        ]
        return pa.Table.from_pylist(rows, _ARROW)

    return place_one


def place_publisher(
    publisher: Mapping[str, Any],
    wanted: list[dict[str, Any]],
    stations: Stations,
    priority: Priority,
) -> dict[str, Any]:
    """Place one publisher by GRAPE; the result is a row of `placements`."""
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
    if choice.broker != home:  # as in Choice.gain_percent: the metric for which it would not stay
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
    neighbours: Neighbours,
    brokers: Mapping[str, BrokerDelays],
    links: Mapping[tuple[str, str], int],
) -> dict[str, BrokerReport]:
    """GRAPE's report of every broker, without deliveries; what was not measured takes no time."""
    found = {}
    for broker, beside in neighbours.items():
        took = brokers.get(broker, BrokerDelays())
        found[broker] = BrokerReport(
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


def measure_stations(job: Job, neighbours: Neighbours) -> dict[str, BrokerReport]:
    """Measure the brokers of an overlay over the last days of the trace."""
    tables = job.tables or job.open()
    days = range(tables.days[-1] - RECENT_DAYS + 1, tables.days[-1] + 1)
    recent = {
        name: tables.frame(job.spark, name, days)
        for name in ("intervals", "publications", "deliveries")
    }
    known = job.frame("incarnations")
    brokers = delays_of_brokers(sum_broker_times(recent["intervals"]))
    published, delivered = (
        newest_publications(recent[name], known, SAMPLE) for name in ("publications", "deliveries")
    )
    links = link_times(link_crossings(published, delivered, job.frame("links")), brokers)
    pairs = [(one, other) for one, found in neighbours.items() for other in found if one < other]
    count = job.decisions.count
    count(
        "brokers were not measured: messages take no time there", len(neighbours.keys() - brokers)
    )
    count(
        "links have no measured time, and count as taking none",
        sum(pair not in links for pair in pairs),
    )
    return make_stations(neighbours, brokers, links)


def place_all(job: Job, priority: Priority, plan: Plan | None = None) -> dict[str, int]:
    """Place all publishers of the trace, write `placements`, and return counts. Profiles must be up to date."""
    overlay = (
        tree_of_plan(plan) if plan else tree_of_trace(job.frame("brokers"), job.frame("links"))
    )
    job.tell("measuring brokers and links")
    stations = measure_stations(job, overlay.neighbours)
    brokers = job.spark.createDataFrame([(name,) for name in overlay.neighbours], "broker string")

    def seats(name: str, key: str, places: Mapping[str, str], gone: str, lost: str) -> DataFrame:
        frame = job.frame(name)
        elsewhere = job.spark.createDataFrame(
            sorted(places.items()), "name_planned string, place string"
        )
        here = assign_brokers(frame.where("present"), key, elsewhere, brokers)
        job.decisions.count(gone, frame.where("not present").count())
        job.decisions.count(lost, here.where("not in_overlay").count())
        return here.where("in_overlay")

    listening = seats(
        "subscriptions",
        "client",
        overlay.clients,
        "subscriptions were withdrawn by the end, and do not count",
        "subscriptions are at brokers that are not in the overlay, and do not count",
    )
    speaking = seats(
        "publishers",
        "name",
        overlay.publishers,
        "publishers had left by the end, and are not placed",
        "publishers are at brokers that are not in the overlay, and are not placed",
    )
    job.tell(f"placing publishers, {priority.text}, among {len(stations):,} brokers")
    needed = wanted_at_brokers(job.frame("vectors"), listening, job.length)
    job.write(choose_placements(speaking, needed, stations, priority), "placements")
    counts = job.frame("placements").select(F.count("*"), F.count_if("moves")).first()
    count, moves = counts or (0, 0)
    return {"publishers": int(count), "would move": int(moves), "brokers": len(stations)}


def top_moves(placements: DataFrame, count: int) -> DataFrame:
    """The moves that save the most messages; among equals those that save the most time."""
    saved = F.col("messages_now") - F.col("messages_after")
    faster = F.col("delay_now_s") - F.col("delay_after_s")
    moves = placements.where("moves")
    return moves.orderBy(saved.desc(), faster.desc(), "publisher").limit(count).select("*")


def total_messages(placements: DataFrame) -> DataFrame:
    """(messages_now, messages_after): messages per second into all brokers together, before and after the moves."""
    # Whole millionths, so that the sum does not depend on its order.
    then = F.when(F.col("moves"), F.col("messages_after")).otherwise(F.col("messages_now"))
    now, after = (
        F.sum(F.round(rate * MICRO).cast("long")) for rate in (F.col("messages_now"), then)
    )
    return placements.select(
        (F.coalesce(now, F.lit(0)) / MICRO).alias("messages_now"),
        (F.coalesce(after, F.lit(0)) / MICRO).alias("messages_after"),
    )
