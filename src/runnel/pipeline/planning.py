"""From profiles to a plan document: as brokers' own answers give it (allocation/croc.py), and to be applied like that.

    measure, traced  what a trace tells of brokers: where they listen, what they can do
    picture_of       everything that the planner is told, and what goes along with its plan
    plan_network     the plan

What brokers there are, and what the plan must keep to, says an inventory. How much the profiles rest on is counted by
Spark, and stands in the plan as its evidence. Sparse data is planned with, and said to be sparse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.allocation.completion import Picture, completed, translated
from runnel.allocation.evidence import FEW, Evidence, evidence_of
from runnel.allocation.network import Network
from runnel.allocation.plan import Owner, Plan
from runnel.allocation.planner import PlanOptions, make_plan
from runnel.allocation.sharding import AT_SCALE
from runnel.errors import InputError
from runnel.pipeline.brokers import measured
from runnel.pipeline.inventory import Fleet, Inventory, Traced
from runnel.pipeline.jobs import NETWORK_TABLES, Job
from runnel.pipeline.network import to_network
from runnel.pipeline.scale import known, plan_parts
from runnel.pipeline.tables import Tables
from runnel.trace.window import utc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SECOND = 1_000_000_000
ONE_PROCESS = 2_000
"""So many subscriptions, at most, are planned by one process."""

HEADER_BYTES = 40
"""What a frame takes besides the selection in it, roughly."""

NAMED_MAX = 5
"""An error names so many brokers."""

Row = dict[str, Any]


def plan_network(job: Job, inventory: Inventory, options: PlanOptions | None = None) -> Plan:
    """Plan the network whose profiles a job has made; `options` in place of the inventory's.

    In parts (scale.py), if the algorithm has any and there are more than `ONE_PROCESS` clients. One process, which has
    all profiles then, is quicker for few; and only it can limit the moves.
    """
    options = options or inventory.options
    _require_clients(job)
    fleet = fleet_of(job, inventory)
    may_part = options.algorithm in AT_SCALE and inventory.constraints.max_moves is None
    in_parts = may_part and job.frame("subscriptions").count() > ONE_PROCESS
    there = known(job, fleet.capacities) if in_parts else None
    picture = picture_of(job, fleet, there.network if there else _in_full(job, fleet))
    job.tell(f"planning {len(picture.homes):,} clients on {len(fleet.capacities):,} brokers")
    constraints = translated(inventory.constraints, picture)
    plan = (
        plan_parts(job, there, options, constraints)
        if there
        else make_plan(picture.network, options, constraints)
    )
    plan = completed(plan, picture, fleet.addresses)
    # Whoever reads the plan is to know what was decided on the way.
    return replace(plan, notes=[*plan.notes, *job.reading.lines])


# -- brokers ------------------------------------------------------------------------------------------


def measure(job: Job) -> list[Traced]:
    """What a trace tells of brokers, without making profiles."""
    tables = job.open()
    job.reading = tables.reading
    job.tell("measuring brokers")
    frames = (tables.frame(job.spark, name) for name in ("brokers", "intervals"))
    return traced(measured(*frames))


def traced(brokers: DataFrame) -> list[Traced]:
    """What was traced of brokers, by name: what one says of itself counts more than what it was measured to do."""
    rows = sorted(brokers.toArrow().to_pylist(), key=lambda row: str(row["broker"]))
    return [
        Traced(
            row["broker"],
            row["address"].removeprefix("runnel://") if row["address"] else None,
            row["told_output_bytes_per_s"] or row["output_bytes_per_s"],
            *_delay(row),
        )
        for row in rows
    ]


def _delay(row: Row) -> tuple[int | None, int | None]:
    """The matching delay; told are both figures, or none."""
    if row["told_base_ns"] or row["told_each_ns"]:
        return row["told_base_ns"] or 0, row["told_each_ns"] or 0
    return row["base_ns"], row["each_ns"]


def fleet_of(job: Job, inventory: Inventory) -> Fleet:
    """The brokers to plan with. One that serves, but that the inventory does not know, is a mistake."""
    brokers = job.frame("brokers")
    # One that has stopped is there if the inventory says so.
    listed = [*inventory.brokers, *inventory.constraints.excluded]
    left = F.col("stopped") & ~F.col("broker").isin(listed)
    job.reading.count(
        "brokers had stopped by the end, and are planned without", brokers.where(left).count()
    )
    known = traced(brokers.where(~left))
    strangers = inventory.strangers(known)
    if strangers:
        busy = _busy(job, strangers)
        if busy:
            raise InputError(_unlisted(inventory.origin, busy))
        job.reading.count(
            f"brokers were traced that are not in {inventory.origin}: planned without",
            len(strangers),
        )
    fleet = inventory.fleet(known)
    job.reading.count(
        "brokers have neither a limit of their output nor a measured one, and count as unlimited",
        fleet.unknown,
    )
    return fleet


def _unlisted(origin: str, names: list[str]) -> str:
    """What is wrong with a file that does not have these brokers, which serve.

    >>> print(_unlisted("brokers.toml", ["B4"]))
    brokers.toml: B4 served when the trace ended, but is not in it: write [brokers.B4]; or excluded = ["B4"], \
if it is to be given up
    >>> print(_unlisted("brokers.toml", [f"B{n}" for n in range(1, 8)]))
    brokers.toml: B1, B2, B3, B4, B5 and 2 more served when the trace ended, but are not in it: \
write [brokers.B1] and so on for each; or excluded = ["B1", …] for those that are to be given up
    """
    more = len(names) - NAMED_MAX
    listed = ", ".join(names[:NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")
    if len(names) == 1:
        is_not = "is not in it"
        write, given_up = f"[brokers.{names[0]}]", f'["{names[0]}"], if it is to be given up'
    else:
        is_not, write = "are not in it", f"[brokers.{names[0]}] and so on for each"
        given_up = f'["{names[0]}", …] for those that are to be given up'
    return (
        f"{origin}: {listed} served when the trace ended, but {is_not}: "
        f"write {write}; or excluded = {given_up}"
    )


def _busy(job: Job, names: list[str]) -> list[str]:
    """Those of these brokers that had a client or a neighbour when the trace ended."""
    links = job.frame("links")
    there = links.select(F.col("one").alias("broker")).union(links.select("other"))
    for table in ("publishers", "subscriptions"):
        there = there.union(job.frame(table).where("present").select("broker"))
    found = there.where(F.col("broker").isin(names)).distinct().toArrow().to_pylist()
    return sorted(row["broker"] for row in found)


# -- clients ------------------------------------------------------------------------------------------


def _require_clients(job: Job) -> None:
    """An InputError if everybody had left by the end, as when a network is shut down while it is traced."""
    subscriptions = job.frame("subscriptions")
    every, present = subscriptions.select(F.count("*"), F.count_if("present")).first() or (0, 0)
    if present or not every:
        return
    assert job.streams is not None, "profiles come first"
    (last,) = job.streams.select(F.max("last_ns")).first() or (None,)
    when = f", such as {utc(last)}, when the last publication was" if last else ""
    raise InputError(
        f"{job.traces}: all {every:,} subscriptions were withdrawn by the end of the trace, so there is nobody "
        f"to plan for: plan as of an earlier time with --to TIME{when}"
    )


def _in_full(job: Job, fleet: Fleet) -> Network:
    """The network with all profiles."""
    tables = {name: job.frame(name) for name in NETWORK_TABLES}
    return to_network(tables, job.length, job.reading, fleet.capacities)


def picture_of(job: Job, fleet: Fleet, network: Network) -> Picture:
    """What the planner is told, one item for each client; and who goes along."""
    rows = job.frame("publishers").where("present").toArrow().to_pylist()
    publishers = sorted(rows, key=lambda row: str(row["name"]))
    owners = {
        row["name"]: Owner(row["client"] or "", row["publisher"] or "", f"{row['advertisement']:x}")
        for row in publishers
    }
    homes = {row["client"]: row["broker"] for row in publishers if row["client"]}
    subscribed = zip(network.subscriptions, network.subscription_homes, strict=True)
    homes |= {client: home or "" for client, home in subscribed}
    return Picture(
        network,
        owners,
        dict(sorted(homes.items())),
        _notes(publishers, fleet),
        _evidence(job, publishers),
    )


def _notes(publishers: list[Row], fleet: Fleet) -> list[str]:
    notes = []
    unknown = sum(1 for row in publishers if not row["client"])
    if unknown:
        one = unknown == 1
        notes.append(
            f"{unknown:,} {'publisher' if one else 'publishers'} advertised before the trace began, so nobody knows "
            + ("whose it is: its client goes" if one else "whose they are: their clients go")
            + " to the top of the tree"
        )
    if not fleet.addresses:
        notes.append("nobody says where brokers listen: this plan cannot be applied")
    if all(one.output is None for one in fleet.capacities):
        notes.append(
            "no broker has a limit for its output, so one may get everything: "
            "set output_bytes_per_s in [profiles] of brokers, or in the file that --brokers names"
        )
    return notes


def _evidence(job: Job, publishers: list[Row]) -> Evidence:
    """What the plan rests on: counted by Spark, since there may be many subscriptions."""
    there = [row["number"] for row in publishers]
    vectors = job.frame("vectors").where(F.col("publisher").isin(there))
    got = vectors.groupBy("subscription").agg(F.sum("ones").alias("got"))
    counts = (
        job.frame("subscriptions")
        .where("present")
        .join(got, "subscription", "left")
        .select(F.count("*"), F.count_if(F.col("got") < FEW), F.count_if(F.col("got").isNull()))
        .first()
    )
    wanted = {row["publisher"] for row in vectors.select("publisher").distinct().collect()}
    windows = [(row["span"], row["bandwidth"]) for row in publishers if row["number"] in wanted]
    tables = job.tables or job.open()
    found = evidence_of("traces", _seconds(job), windows, ())
    subscriptions, few, none = counts or (0, 0, 0)
    sizes = _frame_bytes(job, tables)
    return replace(
        found, subscriptions=int(subscriptions), with_few=int(few), with_none=int(none), **sizes
    )


def _seconds(job: Job) -> float:
    """From the first publication to the last."""
    assert job.streams is not None, "profiles come first"
    span = job.streams.select(F.min("first_ns"), F.max("last_ns"))
    first, last = span.first() or (0, 0)
    return ((last or 0) - (first or 0)) / SECOND


def _frame_bytes(job: Job, tables: Tables) -> dict[str, float]:
    """How large frames of subscriptions and advertisements are, on average."""
    frames = [
        tables.frame(job.spark, f"{kind}s").select(F.lit(kind).alias("kind"), "selection")
        for kind in ("subscription", "advertisement")
    ]
    means = frames[0].union(frames[1]).groupBy("kind").agg(F.avg(F.length("selection")))
    return {f"{kind}_bytes": round(mean + HEADER_BYTES, 1) for kind, mean in means.collect()}
