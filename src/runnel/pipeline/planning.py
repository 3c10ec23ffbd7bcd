"""From profiles to a plan document, of the same kind as a plan from live brokers (operate/croc.py).

    observe_brokers  what a trace has about brokers: addresses and capacities
    make_picture     the planner's input, and what else a plan needs to be applied
    plan_network     the plan

The brokers and constraints come from an inventory. Spark counts the observations behind the profiles, which become the
evidence in the plan. With little evidence there is a plan nevertheless, and the scorecard calls it sparse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.errors import InputError
from runnel.pipeline.brokers import measure_brokers
from runnel.pipeline.inventory import Fleet, Inventory, ObservedBroker
from runnel.pipeline.jobs import NETWORK_TABLES, Job
from runnel.pipeline.network import network_from_tables
from runnel.pipeline.scale import outline_network, plan_parts
from runnel.pipeline.tables import TraceTables
from runnel.planning.algorithms.cram.sharding import SHARDABLE
from runnel.planning.documents.completion import Picture, complete_plan, translate_constraints
from runnel.planning.documents.evidence import FEW, Evidence, evidence_of
from runnel.planning.documents.plan import Owner, Plan
from runnel.planning.network import Network
from runnel.planning.planner import PlanOptions, make_plan
from runnel.quantities import SECOND
from runnel.trace.window import utc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ONE_PROCESS = 2_000
"""The most subscriptions that one process plans."""

HEADER_BYTES = 40
"""The size of a frame without its selection, roughly."""

NAMED_MAX = 5
"""The most brokers that an error names."""

Row = dict[str, Any]


def plan_network(job: Job, inventory: Inventory, options: PlanOptions | None = None) -> Plan:
    """Plan the network whose profiles a job has made; `options` replace those of the inventory.

    It is planned in parts (scale.py) if the algorithm supports that and there are more than `ONE_PROCESS`
    subscriptions. For fewer, one process with all profiles is faster; and only one process can limit the moves.
    """
    options = options or inventory.options
    _require_clients(job)
    fleet = fleet_of(job, inventory)
    may_part = options.algorithm in SHARDABLE and inventory.constraints.max_moves is None
    in_parts = may_part and job.frame("subscriptions").count() > ONE_PROCESS
    there = outline_network(job, fleet.capacities) if in_parts else None
    picture = make_picture(job, fleet, there.network if there else _full_network(job, fleet))
    job.tell(f"planning {len(picture.homes):,} clients on {len(fleet.capacities):,} brokers")
    constraints = translate_constraints(inventory.constraints, picture)
    plan = (
        plan_parts(job, there, options, constraints)
        if there
        else make_plan(picture.network, options, constraints)
    )
    plan = complete_plan(plan, picture, fleet.addresses)
    # Readers of the plan must know how irregular input was treated.
    return replace(plan, notes=[*plan.notes, *job.decisions.lines])


# -- brokers ------------------------------------------------------------------------------------------


def observe_brokers(job: Job) -> list[ObservedBroker]:
    """What a trace has about brokers, without making profiles."""
    tables = job.open()
    job.decisions = tables.decisions
    job.tell("measuring brokers")
    frames = (tables.frame(job.spark, name) for name in ("brokers", "intervals"))
    return brokers_from_rows(measure_brokers(*frames))


def brokers_from_rows(brokers: DataFrame) -> list[ObservedBroker]:
    """The brokers in rows of `measure_brokers`, by name; stated capacities win over measured ones."""
    rows = sorted(brokers.toArrow().to_pylist(), key=lambda row: str(row["broker"]))
    return [
        ObservedBroker(
            row["broker"],
            row["address"].removeprefix("runnel://") if row["address"] else None,
            row["told_output_bytes_per_s"] or row["output_bytes_per_s"],
            *_delay(row),
        )
        for row in rows
    ]


def _delay(row: Row) -> tuple[int | None, int | None]:
    """The matching delay; a broker states both figures or none."""
    if row["told_base_ns"] or row["told_each_ns"]:
        return row["told_base_ns"] or 0, row["told_each_ns"] or 0
    return row["base_ns"], row["each_ns"]


def fleet_of(job: Job, inventory: Inventory) -> Fleet:
    """The brokers to plan with. An error if a broker that is not in the inventory serves clients or neighbours."""
    brokers = job.frame("brokers")
    # A broker that has stopped counts only if it is in the inventory.
    listed = [*inventory.brokers, *inventory.constraints.excluded]
    left = F.col("stopped") & ~F.col("broker").isin(listed)
    job.decisions.count(
        "brokers had stopped by the end, and are planned without", brokers.where(left).count()
    )
    known = brokers_from_rows(brokers.where(~left))
    unlisted = inventory.unlisted_brokers(known)
    if unlisted:
        busy = _brokers_in_use(job, unlisted)
        if busy:
            raise InputError(_unlisted_message(inventory.origin, busy))
        job.decisions.count(
            f"brokers were traced that are not in {inventory.origin}: planned without",
            len(unlisted),
        )
    fleet = inventory.make_fleet(known)
    job.decisions.count(
        "brokers have neither a limit of their output nor a measured one, and count as unlimited",
        fleet.unknown,
    )
    return fleet


def _unlisted_message(origin: str, names: list[str]) -> str:
    """The error message for a file without these brokers, which served when the trace ended.

    >>> print(_unlisted_message("brokers.toml", ["B4"]))
    brokers.toml: B4 served when the trace ended, but is not in it: write [brokers.B4]; or excluded = ["B4"], \
if it is to be given up
    >>> print(_unlisted_message("brokers.toml", [f"B{n}" for n in range(1, 8)]))
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


def _brokers_in_use(job: Job, names: list[str]) -> list[str]:
    """The brokers, out of these, that had a client or a neighbour when the trace ended."""
    links = job.frame("links")
    there = links.select(F.col("one").alias("broker")).union(links.select("other"))
    for table in ("publishers", "subscriptions"):
        there = there.union(job.frame(table).where("present").select("broker"))
    found = there.where(F.col("broker").isin(names)).distinct().toArrow().to_pylist()
    return sorted(row["broker"] for row in found)


# -- clients ------------------------------------------------------------------------------------------


def _require_clients(job: Job) -> None:
    """An InputError if all clients had left by the end, as when a network is shut down while it is traced."""
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


def _full_network(job: Job, fleet: Fleet) -> Network:
    """The planner's input with all profiles."""
    tables = {name: job.frame(name) for name in NETWORK_TABLES}
    return network_from_tables(tables, job.length, job.decisions, fleet.capacities)


def make_picture(job: Job, fleet: Fleet, network: Network) -> Picture:
    """The planner's input, with one item for each client, and what else a plan needs to be applied."""
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
    """The evidence for the plan. Spark counts it, since there may be many subscriptions."""
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
    found = evidence_of("traces", _traced_seconds(job), windows, ())
    subscriptions, few, none = counts or (0, 0, 0)
    sizes = _frame_bytes(job, tables)
    return replace(
        found, subscriptions=int(subscriptions), with_few=int(few), with_none=int(none), **sizes
    )


def _traced_seconds(job: Job) -> float:
    """The seconds from the first publication to the last."""
    assert job.streams is not None, "profiles come first"
    span = job.streams.select(F.min("first_ns"), F.max("last_ns"))
    first, last = span.first() or (0, 0)
    return ((last or 0) - (first or 0)) / SECOND


def _frame_bytes(job: Job, tables: TraceTables) -> dict[str, float]:
    """The mean sizes of the frames of subscriptions and advertisements."""
    frames = [
        tables.frame(job.spark, f"{kind}s").select(F.lit(kind).alias("kind"), "selection")
        for kind in ("subscription", "advertisement")
    ]
    means = frames[0].union(frames[1]).groupBy("kind").agg(F.avg(F.length("selection")))
    return {f"{kind}_bytes": round(mean + HEADER_BYTES, 1) for kind, mean in means.collect()}
