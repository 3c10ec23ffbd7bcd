"""A plan for any number of clients: Spark clusters the parts, one process packs the clusters and builds the overlay.

    NetworkOutline   the network with the names and homes of clients, but without their profiles
    plan_parts       the plan

The memory of the one process grows with brokers and publishers (pieces, flows). For each client it has only what the
plan has, too: the name and the broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace as changed
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from runnel.pipeline import shards
from runnel.pipeline.jobs import Job
from runnel.pipeline.network import bits_of, home_of, links_between, list_present
from runnel.planning.algorithms.bound import lower_bound
from runnel.planning.algorithms.cram.sharding import (
    Parts,
    clustering_options,
    lay_out_parts,
    reference_bin,
)
from runnel.planning.algorithms.packing import DoesNotFit
from runnel.planning.documents.constraints import Constraints, assign_roles, task_of
from runnel.planning.documents.plan import Plan
from runnel.planning.layout import Layout, PredictedLoad, predict_loads
from runnel.planning.load import MICRO, Capacity, Delay, Item, Traffic, scaling_for
from runnel.planning.network import Network
from runnel.planning.planner import Assessment, PlanOptions, make_document, requested_constraints
from runnel.planning.profiles import Profile, PublisherProfile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NetworkOutline:
    """The network, its clients in the order of their names; the profiles in it are empty."""

    network: Network
    ids: Longs  # of clients, as pieces have them
    clients: DataFrame
    wanted: DataFrame
    places: DataFrame  # of publishers, with what Spark needs of them
    length: int

    def numbers(self, ids: Longs) -> Longs:
        """The numbers of clients with these ids."""
        order = np.argsort(self.ids)
        return order[np.searchsorted(self.ids, ids, sorter=order)]


def outline_network(job: Job, brokers: Sequence[Capacity]) -> NetworkOutline:
    """Make the outline from the tables of the job `profiles`."""
    publishers = list_present(
        job.frame("publishers"), "name", job.decisions, "publishers had left by the end"
    )
    scaling = scaling_for(job.length)
    # As in network_from_tables (network.py), but without the profiles.
    known_publishers = tuple(
        PublisherProfile(row["name"], row["rate"], row["bandwidth"], row["last"])
        for row in publishers
    )
    traffic = Traffic(known_publishers, tuple(row["span"] for row in publishers), scaling)
    rows = [
        (row["number"], place, weight, row["span"], MICRO * row["bandwidth"] / max(1, row["span"]))
        for place, (row, weight) in enumerate(zip(publishers, traffic.weights, strict=True))
    ]
    schema = "publisher int, place int, weight long, span long, bytes double"
    places = job.spark.createDataFrame(rows, schema)
    subscriptions = job.frame("subscriptions")
    gone = subscriptions.where("not present").count()
    job.decisions.count("subscriptions were withdrawn by the end, and are not planned for", gone)
    job.write(shards.list_clients(subscriptions), "clients")
    clients = job.frame("clients")
    vectors = job.frame("vectors")
    job.write(shards.client_vectors(vectors, subscriptions, clients, places, job.length), "wanted")
    listed = clients.toArrow().sort_by("client")
    names = {one.name for one in brokers}
    network = Network(
        tuple(brokers),
        known_publishers,
        tuple(listed["client"].to_pylist()),
        (_NOTHING,) * listed.num_rows,
        traffic.spans,
        links_between(job.frame("links"), names),
        tuple(home_of(row["broker"], names) for row in publishers),
        tuple(home_of(home, names) for home in listed["home"].to_pylist()),
        scaling,
        tuple(listed["count"].to_pylist()),
    )
    ids = listed["id"].to_numpy()
    return NetworkOutline(network, ids, clients, job.frame("wanted"), places, job.length)


_NOTHING: Profile = {}


def plan_parts(
    job: Job, there: NetworkOutline, options: PlanOptions, constraints: Constraints
) -> Plan:
    """Plan a network part by part; an error says what cannot be served, and why."""
    network = replace(there.network, foresight=constraints.foresight)
    there = replace(there, network=network)
    traffic = network.traffic()
    chosen = clustering_options(options)
    pinned = _pinned_clients(there, constraints)
    rest = there.clients.where(~F.col("id").isin([int(there.ids[n]) for n in pinned]))
    free = task_of(network, replace(constraints, pinned={}), ())
    job.tell("clustering the clients of every publisher")
    groups = shards.group_clients(there.wanted, rest, there.places)
    found = shards.cluster_groups(groups, reference_bin(free.bins), traffic, chosen)
    job.write(found.unionByName(shards.quiet_pieces(rest, there.wanted)), "pieces")
    pieces = job.frame("pieces").toArrow().sort_by([(name, "ascending") for name in KEY])
    parts = parts_of(pieces)
    if constraints.foresight:  # those without traffic are dealt out in the end
        parts = parts.without_quiet()
    job.tell(f"packing {len(parts.pieces):,} pieces of {len(parts.clusters):,} clusters")
    names = [f"{PIECE}{number}" for number in range(len(parts.pieces))]
    parts.pieces.extend(_pinned_items(there, pinned, len(names)))
    names += [network.subscriptions[number] for number in pinned]
    coarse = replace(
        network,
        subscriptions=tuple(names),
        profiles=tuple(one.profile for one in parts.pieces),
        subscription_homes=(),
        counts=(),
    )
    task = task_of(coarse, constraints, parts.pieces)
    try:
        layout = lay_out_parts(parts, task, traffic, options)
    except DoesNotFit as error:
        raise error.with_names(_describe_pieces(names, parts, there, pieces)) from None
    job.tell("writing who goes where")
    in_full = replace(layout, subscriptions=_clients_of_brokers(layout, there, pieces, pinned))
    roles = assign_roles(in_full, network, task.bins)
    # A plan may take pieces apart, so only their output counts for the bound: the rates of their clients are lower.
    by_output = [replace(one, delay=Delay()) for one in task.bins]
    layout = layout.rename_brokers(roles)
    as_it_was = replace(coarse, foresight=None)
    measured = _measured_pieces(parts.pieces, pieces, as_it_was.traffic())
    judged = Assessment(
        loads_before(there),
        predict_loads(layout, measured, as_it_was.traffic()),
        lower_bound(measured, by_output, as_it_was.traffic()),
        int(pc.sum(pc.if_else(pc.equal(pieces["need"], 0), pieces["count"], 0)).as_py() or 0),
        predict_loads(layout, parts.pieces, traffic) if constraints.foresight else {},
    )
    plan = make_document(network, in_full.rename_brokers(roles), judged, options)
    return changed(plan, asked=requested_constraints(constraints))


PIECE = "piece "
KEY = ("part", "block", "cluster", "piece")


def _pinned_clients(there: NetworkOutline, constraints: Constraints) -> list[int]:
    """The numbers of the clients that are pinned."""
    if not constraints.pinned:
        return []
    names = there.network.subscriptions
    return [number for number, name in enumerate(names) if name in constraints.pinned]


def _pinned_items(there: NetworkOutline, pinned: Sequence[int], first: int) -> list[Item]:
    """An item for each pinned client."""
    if not pinned:
        return []
    ids = [int(there.ids[number]) for number in pinned]
    rows = there.wanted.where(F.col("id").isin(ids)).toArrow().to_pylist()
    profiles: dict[int, Profile] = {id: {} for id in ids}
    for row in sorted(rows, key=lambda row: (row["id"], row["place"])):
        (profiles[row["id"]][row["place"]],) = bits_of(pa.array([row["words"]]), 1)
    traffic, counts = there.network.traffic(), there.network.counts
    return [
        Item(profiles[id], traffic.need(profiles[id]), (first + at,), counts[number])
        for at, (id, number) in enumerate(zip(ids, pinned, strict=True))
    ]


def _measured_pieces(items: Sequence[Item], pieces: pa.Table, as_it_was: Traffic) -> list[Item]:
    """The pieces, and the pinned clients behind them, with what they needed in the window of their bits."""
    needs = pieces["measured"].to_pylist()
    needs += [as_it_was.need(one.profile) for one in items[len(needs) :]]
    return [replace(one, need=need) for one, need in zip(items, needs, strict=True)]


def _clients_of_brokers(
    layout: Layout, there: NetworkOutline, pieces: pa.Table, pinned: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    """The numbers of the clients of every broker, from its pieces."""
    members = pieces["members"].combine_chunks()
    numbers = there.numbers(members.flatten().to_numpy())
    ends = np.cumsum(members.value_lengths().to_numpy())
    of_piece = [*np.split(numbers, ends[:-1])][: pieces.num_rows]
    of_piece += [np.array([number]) for number in pinned]
    return {
        broker: tuple(int(n) for piece in found for n in of_piece[piece])
        for broker, found in layout.subscriptions.items()
    }


def _describe_pieces(
    names: Sequence[str], parts: Parts, there: NetworkOutline, pieces: pa.Table
) -> list[str]:
    """Names of pieces for an error message: the first client, and the number of further ones."""
    firsts = there.numbers(pc.list_element(pieces["members"], 0).to_numpy())
    clients = there.network.subscriptions
    described = [
        clients[first] + (f" (and {one.count - 1:,} like it)" if one.count > 1 else "")
        for first, one in zip(firsts.tolist(), parts.pieces, strict=False)
    ]
    return [*described, *names[len(described) :]]


def parts_of(pieces: pa.Table) -> Parts:
    """The pieces, in their order, and the clusters that they form."""
    found: list[Item] = []
    clusters: dict[tuple[int, int, int], list[int]] = {}
    columns = [pieces[name].to_pylist() for name in ("part", "block", "cluster", "need", "count")]
    profiles = _profiles(pieces)
    for number, (part, block, cluster, need, count) in enumerate(zip(*columns, strict=True)):
        found.append(Item(profiles[number], need, (number,), count))
        clusters.setdefault((part, block, cluster), []).append(number)
    return Parts(found, list(clusters.values()))


def _profiles(rows: pa.Table) -> list[Profile]:
    """The profiles of rows with the columns `publishers` and `words`."""
    publishers = rows["publishers"].combine_chunks()
    who = publishers.flatten().to_pylist()
    bits = bits_of(rows["words"], len(who))
    ends = np.cumsum(publishers.value_lengths().to_numpy()).tolist()
    starts = [0, *ends[:-1]] if ends else []
    return [
        dict(zip(who[start:end], bits[start:end], strict=True))
        for start, end in zip(starts, ends, strict=True)
    ]


def loads_before(there: NetworkOutline) -> dict[str, PredictedLoad]:
    """The present load of every broker; empty if the network is not a single tree or if a client has no broker."""
    network = there.network
    old = network.layout()
    if old is None:
        return {}
    vectors, sums = shards.merge_by_home(
        there.wanted, there.clients, there.places, network.scaling, there.length
    )
    profiles: dict[str, Profile] = {}
    rows = vectors.select("home", "place", "words").toArrow()
    columns = (rows[name].to_pylist() for name in ("home", "place"))
    for home, place, bits in zip(*columns, bits_of(rows["words"], rows.num_rows), strict=True):
        profiles.setdefault(home, {})[place] = bits
    by_home = {row["home"]: row for row in sums.toArrow().to_pylist()}
    items, places = [], {}
    for number, broker in enumerate(old.parents):
        row = by_home.get(broker, {"need": 0, "count": 0})
        items.append(Item(profiles.get(broker, {}), row["need"], (number,), row["count"]))
        places[broker] = (number,)
    whole = Layout(old.parents, places, old.publishers)
    return predict_loads(whole, items, network.traffic())
