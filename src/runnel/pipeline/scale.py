"""A plan for any number of clients: parts are clustered by Spark, packed and joined by one process.

    Known        what is known of the network, with a line for each client, but no profile of any
    plan_parts   the plan

What the one process holds grows with brokers and publishers (pieces, flows), and with clients only as far as the plan
itself does: their names and where they are.
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

from runnel.allocation.bound import lower_bound
from runnel.allocation.constraints import Constraints, fewest_moves, task_of
from runnel.allocation.layout import Layout, Load, predicted
from runnel.allocation.load import MICRO, Capacity, Item, Traffic, scaling_for
from runnel.allocation.network import Network
from runnel.allocation.packing import DoesNotFit
from runnel.allocation.plan import Plan
from runnel.allocation.planner import Judged, PlanOptions, asked_of, document
from runnel.allocation.profiles import Profile, PublisherProfile
from runnel.allocation.sharding import Parts, lay_out_parts, options_of, reference
from runnel.pipeline import shards
from runnel.pipeline.jobs import Job
from runnel.pipeline.network import bits_of, home_of, joined, present

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Known:
    """The network, its clients in the order of their names; `profiles` of the network are empty."""

    network: Network
    ids: Longs  # of clients, as pieces have them
    clients: DataFrame
    wanted: DataFrame
    places: DataFrame  # what Spark needs to know of publishers
    length: int

    def numbers(self, ids: Longs) -> Longs:
        """The numbers of clients with these ids."""
        order = np.argsort(self.ids)
        return order[np.searchsorted(self.ids, ids, sorter=order)]


def known(job: Job, brokers: Sequence[Capacity]) -> Known:
    """Look at what the job `profiles` has written."""
    publishers = present(
        job.frame("publishers"), "name", job.reading, "publishers had left by the end"
    )
    scaling = scaling_for(job.length)
    # As to_network has it (network.py), but for the profiles.
    told = tuple(
        PublisherProfile(row["name"], row["rate"], row["bandwidth"], row["last"])
        for row in publishers
    )
    traffic = Traffic(told, tuple(row["span"] for row in publishers), scaling)
    rows = [
        (row["number"], place, weight, row["span"], MICRO * row["bandwidth"] / max(1, row["span"]))
        for place, (row, weight) in enumerate(zip(publishers, traffic.weights, strict=True))
    ]
    schema = "publisher int, place int, weight long, span long, bytes double"
    places = job.spark.createDataFrame(rows, schema)
    subscriptions = job.frame("subscriptions")
    gone = subscriptions.where("not present").count()
    job.reading.count("subscriptions were withdrawn by the end, and are not planned for", gone)
    job.write(shards.clients(subscriptions), "clients")
    clients = job.frame("clients")
    vectors = job.frame("vectors")
    job.write(shards.wanted(vectors, subscriptions, clients, places, job.length), "wanted")
    listed = clients.toArrow().sort_by("client")
    names = {one.name for one in brokers}
    network = Network(
        tuple(brokers),
        told,
        tuple(listed["client"].to_pylist()),
        (_NOTHING,) * listed.num_rows,
        traffic.spans,
        joined(job.frame("links"), names),
        tuple(home_of(row["broker"], names) for row in publishers),
        tuple(home_of(home, names) for home in listed["home"].to_pylist()),
        scaling,
        tuple(listed["count"].to_pylist()),
    )
    ids = listed["id"].to_numpy()
    return Known(network, ids, clients, job.frame("wanted"), places, job.length)


_NOTHING: Profile = {}


def plan_parts(job: Job, there: Known, options: PlanOptions, constraints: Constraints) -> Plan:
    """Plan a network part by part; an error says what cannot be served, and why."""
    network, traffic = there.network, there.network.traffic()
    chosen = options_of(options)
    pinned = _pinned(there, constraints)
    rest = there.clients.where(~F.col("id").isin([int(there.ids[n]) for n in pinned]))
    free = task_of(network, replace(constraints, pinned={}), ())
    job.tell("clustering the clients of every publisher")
    groups = shards.groups(there.wanted, rest, there.places)
    found = shards.pieces(groups, reference(free.bins), traffic, chosen)
    job.write(found.unionByName(shards.quiet(rest, there.wanted)), "pieces")
    pieces = job.frame("pieces").toArrow().sort_by([(name, "ascending") for name in KEY])
    parts = parts_of(pieces)
    job.tell(f"packing {len(parts.pieces):,} pieces of {len(parts.clusters):,} clusters")
    names = [f"{PIECE}{number}" for number in range(len(parts.pieces))]
    parts.pieces.extend(_items(there, pinned, len(names)))
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
        raise error.named(_described(names, parts, there, pieces)) from None
    job.tell("writing who goes where")
    in_full = replace(layout, subscriptions=_in_full(layout, there, pieces, pinned))
    roles = fewest_moves(in_full, network, task.bins)
    movable = [*task.items, *(one.base for one in task.bins if one.base)]
    judged = Judged(
        before(there),
        predicted(layout.renamed(roles), parts.pieces, traffic),
        lower_bound(movable, task.bins, traffic),
        int(pc.sum(pc.if_else(pc.equal(pieces["need"], 0), pieces["count"], 0)).as_py() or 0),
    )
    plan = document(network, in_full.renamed(roles), judged, options)
    return changed(plan, asked=asked_of(constraints))


PIECE = "piece "
KEY = ("part", "block", "cluster", "piece")


def _pinned(there: Known, constraints: Constraints) -> list[int]:
    """The clients, by number, that are to stay at a broker."""
    if not constraints.pinned:
        return []
    names = there.network.subscriptions
    return [number for number, name in enumerate(names) if name in constraints.pinned]


def _items(there: Known, pinned: Sequence[int], first: int) -> list[Item]:
    """Clients that are pinned, each by itself."""
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


def _in_full(
    layout: Layout, there: Known, pieces: pa.Table, pinned: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    """The clients of every broker, by number, from its pieces."""
    members = pieces["members"].combine_chunks()
    numbers = there.numbers(members.flatten().to_numpy())
    ends = np.cumsum(members.value_lengths().to_numpy())
    of_piece = [*np.split(numbers, ends[:-1])][: pieces.num_rows]
    of_piece += [np.array([number]) for number in pinned]
    return {
        broker: tuple(int(n) for piece in found for n in of_piece[piece])
        for broker, found in layout.subscriptions.items()
    }


def _described(names: Sequence[str], parts: Parts, there: Known, pieces: pa.Table) -> list[str]:
    """Pieces in words, for an error: the first client, and how many more."""
    firsts = there.numbers(pc.list_element(pieces["members"], 0).to_numpy())
    clients = there.network.subscriptions
    told = [
        clients[first] + (f" (and {one.count - 1:,} like it)" if one.count > 1 else "")
        for first, one in zip(firsts.tolist(), parts.pieces, strict=False)
    ]
    return [*told, *names[len(told) :]]


def parts_of(pieces: pa.Table) -> Parts:
    """The pieces, in their order, and the clusters that they make."""
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


def before(there: Known) -> dict[str, Load]:
    """What every broker has to do now; nothing if the network is not one tree with everybody somewhere."""
    network = there.network
    old = network.layout()
    if old is None:
        return {}
    vectors, sums = shards.homes(
        there.wanted, there.clients, there.places, network.scaling, there.length
    )
    profiles: dict[str, Profile] = {}
    rows = vectors.select("home", "place", "words").toArrow()
    columns = (rows[name].to_pylist() for name in ("home", "place"))
    for home, place, bits in zip(*columns, bits_of(rows["words"], rows.num_rows), strict=True):
        profiles.setdefault(home, {})[place] = bits
    told = {row["home"]: row for row in sums.toArrow().to_pylist()}
    items, places = [], {}
    for number, broker in enumerate(old.parents):
        row = told.get(broker, {"need": 0, "count": 0})
        items.append(Item(profiles.get(broker, {}), row["need"], (number,), row["count"]))
        places[broker] = (number,)
    whole = Layout(old.parents, places, old.publishers)
    return predicted(whole, items, network.traffic())
