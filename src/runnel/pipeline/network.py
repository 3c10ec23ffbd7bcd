"""The planner's input, from the tables of the job `profiles`, with one item for each client.

operate/picture.py does the same with the answers of live brokers: a client's subscriptions move together, and it
receives the OR of their publications. Publishers and subscriptions that had left by the end of the trace are left out
and counted.

This collects everything on the driver, so it is for networks that one process plans. Names are sorted, so that the same
traces give the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from runnel.bits import unpack
from runnel.errors import InputError
from runnel.pipeline.tables import Decisions
from runnel.planning.load import Capacity, Delay, scaling_for
from runnel.planning.network import Network
from runnel.planning.profiles import Profile, PublisherProfile, union

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = dict[str, Any]


def network_from_tables(
    tables: dict[str, DataFrame],
    length: int,
    decisions: Decisions,
    brokers: Sequence[Capacity] | None = None,
) -> Network:
    """Make a network from the tables publishers, subscriptions, vectors, brokers and links.

    `brokers` default to those that were traced, with their measured capacities.
    """
    publishers = list_present(
        tables["publishers"], "name", decisions, "publishers had left by the end"
    )
    subscriptions = list_present(
        tables["subscriptions"],
        "subscription",
        decisions,
        "subscriptions were withdrawn by the end",
    )
    places = {row["number"]: place for place, row in enumerate(publishers)}
    profiles = _profiles(tables["vectors"], places)
    by_client: dict[str, list[Profile]] = {}
    homes: dict[str, str] = {}
    for row in subscriptions:
        by_client.setdefault(row["client"], []).append(profiles.get(row["subscription"], {}))
        homes[row["client"]] = row["broker"]
    clients = sorted(by_client)
    capacities = _capacities(tables["brokers"], decisions) if brokers is None else tuple(brokers)
    if not capacities:
        raise InputError("the trace has no broker: list them in the file for --brokers")
    known = {one.name for one in capacities}
    return Network(
        capacities,
        tuple(
            PublisherProfile(row["name"], row["rate"], row["bandwidth"], row["last"])
            for row in publishers
        ),
        tuple(clients),
        tuple(union(by_client[client]) for client in clients),
        tuple(row["span"] for row in publishers),
        links_between(tables["links"], known),
        tuple(home_of(row["broker"], known) for row in publishers),
        tuple(home_of(homes[client], known) for client in clients),
        scaling_for(length),
        tuple(len(by_client[client]) for client in clients),
    )


def list_present(frame: DataFrame, key: str, decisions: Decisions, gone: str) -> list[Row]:
    """The rows that are present at the end, in order; the others are counted."""
    rows: list[Row] = sorted(frame.toArrow().to_pylist(), key=lambda row: row[key])
    there = [row for row in rows if row["present"]]
    decisions.count(f"{gone}, and are not planned for", len(rows) - len(there))
    return there


def _profiles(vectors: DataFrame, places: dict[int, int]) -> dict[int, Profile]:
    """The profiles of subscriptions, restricted to the publishers that have a place."""
    found: dict[int, Profile] = {}
    for batch in vectors.select("subscription", "publisher", "words").toArrow().to_batches():
        columns = (batch[name].to_pylist() for name in ("subscription", "publisher"))
        bits_of_rows = bits_of(batch["words"], batch.num_rows)
        for subscription, publisher, bits in zip(*columns, bits_of_rows, strict=True):
            if publisher in places:
                found.setdefault(subscription, {})[places[publisher]] = bits
    # In the order of publishers, whatever the order of rows.
    return {key: dict(sorted(profile.items())) for key, profile in found.items()}


def bits_of(words: pa.Array | pa.ChunkedArray, count: int) -> list[int]:
    """`count` vectors, from a column in which each row has the words of one vector, or of several after each other.

    >>> bits_of(pa.array([[5, -1], [0, 1]]), 2) == [5 | ((1 << 64) - 1 << 64), 1 << 64]
    True
    """
    if not count:
        return []
    whole = words.combine_chunks() if isinstance(words, pa.ChunkedArray) else words
    flat = whole.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    return unpack(flat.view(np.uint64).reshape(count, -1))


def _capacities(brokers: DataFrame, decisions: Decisions) -> tuple[Capacity, ...]:
    rows = sorted(brokers.toArrow().to_pylist(), key=lambda row: str(row["broker"]))
    unlimited = sum(row["output_bytes_per_s"] is None for row in rows)
    decisions.count("brokers have no measured output, and count as unlimited", unlimited)
    return tuple(
        Capacity(
            row["broker"],
            row["output_bytes_per_s"],
            Delay(row["base_ns"] or 0, row["each_ns"] or 0),
        )
        for row in rows
    )


def links_between(links: DataFrame, known: set[str]) -> tuple[tuple[str, str], ...]:
    """The links between known brokers, in order."""
    pairs = sorted((row["one"], row["other"]) for row in links.toArrow().to_pylist())
    return tuple(pair for pair in pairs if known.issuperset(pair))


def home_of(broker: str | None, known: set[str]) -> str | None:
    """The broker, if it is known."""
    return broker if broker in known else None
