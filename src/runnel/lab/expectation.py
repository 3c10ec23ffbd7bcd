"""Checks deliveries: matches every publication of a trace once more, and compares with what was delivered.

The subscriptions and publications of a trace say which client should have got what; the deliveries say which did. They
are compared with the matching engine alone: no routing table, no link, no broker is involved.

Routes take a while to grow and to go. So a subscription is *owed* a publication only if it existed from `grace_ns`
before to `grace_ns` after it; every other matching delivery is *allowed*. A subscription that moves from broker to
broker exists all the time, because its stays at the two overlap.

    lost         owed and not delivered
    duplicates   delivered again
    stray        delivered and not allowed: it does not match, or the subscription was not there

`count_differences` compares two runs of one workload by what their clients got.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runnel.lab.metrics import Ints, Window, require_complete
from runnel.matching import make_engine
from runnel.quantities import SECOND
from runnel.trace.reader import Trace, attributes_of
from runnel.wire import decode_selection

GRACE_NS = 5 * SECOND
_FOREVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class DeliveryCheck:
    """How the deliveries of a window's publications compare with what was owed."""

    publications: int
    owed: int
    delivered: int  # rows, so duplicates count
    lost: int
    duplicates: int
    stray: int

    @property
    def is_exact(self) -> bool:
        """Whether every client got what it was owed, once, and nothing else."""
        return not (self.lost or self.duplicates or self.stray)


class _Stays:
    """From when to when each subscription existed. One that was withdrawn and made again has two stays."""

    def __init__(self, trace: Trace) -> None:
        # At one time, what is made comes first: a subscription that moves is never nowhere.
        order = [("time_ns", "ascending"), ("event", "ascending")]
        rows = trace.read("subscriptions").sort_by(order)
        self.ids: list[int] = []
        self.selections: list[bytes] = []
        made: list[int] = []
        gone: list[int] = []
        standing: dict[int, int] = {}  # id → at how many brokers: two, while it moves
        latest: dict[int, int] = {}  # id → its latest stay
        names = ("subscription", "time_ns", "event", "selection")
        for id, time_ns, event, raw in zip(*(rows[n].to_pylist() for n in names), strict=True):
            if event != "made":
                standing[id] -= 1
                if not standing[id]:
                    gone[latest[id]] = time_ns
                continue
            standing[id] = standing.get(id, 0) + 1
            if standing[id] == 1:
                latest[id] = len(self.ids)
                self.ids.append(id)
                self.selections.append(raw)
                made.append(time_ns)
                gone.append(_FOREVER)
        self.made: Ints = np.array(made, dtype=np.int64)
        self.gone: Ints = np.array(gone, dtype=np.int64)


def check_deliveries(trace: Trace, window: Window, grace_ns: int = GRACE_NS) -> DeliveryCheck:
    """Compare what was delivered of a window's publications, whenever it was, with what should have been."""
    for table in ("publications", "deliveries"):
        require_complete(trace, table)
    published = trace.read(
        "publications",
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        columns=["time_ns", "advertisement", "counter", "attributes"],
    )
    rows = _deliveries_of(trace, window, published)
    stays = _Stays(trace)
    subscriptions: Ints = rows["subscription"].to_numpy()
    # A pair of publication and subscription as one number: place × count of ids + number of the id.
    ids = np.unique(np.concatenate([np.array(stays.ids, dtype=np.int64), subscriptions]))
    owed, allowed = _expected_pairs(published, stays, ids, grace_ns)
    got = rows["place"].to_numpy() * len(ids) + np.searchsorted(ids, subscriptions)
    distinct = np.unique(got)
    return DeliveryCheck(
        publications=published.num_rows,
        owed=len(owed),
        delivered=len(got),
        lost=len(np.setdiff1d(owed, distinct, assume_unique=True)),
        duplicates=len(got) - len(distinct),
        stray=len(np.setdiff1d(distinct, allowed, assume_unique=True)),
    )


def _deliveries_of(trace: Trace, window: Window, published: pa.Table) -> pa.Table:
    """Deliveries of these publications: the subscription, and the publication's place among them."""
    rows = trace.read(
        "deliveries", start_ns=window.start_ns, columns=["subscription", "advertisement", "counter"]
    )
    names = published.select(["advertisement", "counter"])
    names = names.append_column("place", pa.array(np.arange(names.num_rows)))
    return rows.join(names, ["advertisement", "counter"], join_type="inner")


def _expected_pairs(
    published: pa.Table, stays: _Stays, ids: Ints, grace_ns: int
) -> tuple[Ints, Ints]:
    """Which pairs are owed, and which are allowed."""
    engine = make_engine()
    for stay, raw in enumerate(stays.selections):
        engine.add(stay, decode_selection(raw))
    number = np.searchsorted(ids, np.array(stays.ids, dtype=np.int64))
    sure_from = stays.made + grace_ns
    sure_to = np.where(stays.gone == _FOREVER, _FOREVER, stays.gone - grace_ns)
    maybe_from = stays.made - grace_ns
    maybe_to = np.where(stays.gone == _FOREVER, _FOREVER, stays.gone + grace_ns)
    owed, allowed = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    columns = (published["time_ns"].to_pylist(), published["attributes"].to_pylist())
    for place, (time_ns, raw) in enumerate(zip(*columns, strict=True)):
        found = np.frombuffer(engine.match(attributes_of(raw)).ids(), dtype=np.int64)
        pairs = place * len(ids) + number[found]
        owed.append(pairs[(sure_from[found] <= time_ns) & (time_ns <= sure_to[found])])
        allowed.append(pairs[(maybe_from[found] <= time_ns) & (time_ns <= maybe_to[found])])
    return np.unique(np.concatenate(owed)), np.unique(np.concatenate(allowed))


def count_differences(one: tuple[Trace, Window], other: tuple[Trace, Window]) -> int:
    """How many deliveries of one run the other does not have, and the other way round.

    Compared is who got what: client, publisher and the publication's number, for what was published in each
    run's window. Ids, brokers, ways and times may differ.
    """
    both = pa.concat_tables(
        [_clients_with_publications(*one, 1), _clients_with_publications(*other, -1)]
    )
    names = ["client", "publisher", "counter"]
    balance = both.group_by(names).aggregate([("side", "sum")])["side_sum"].to_numpy()
    return int(np.abs(balance).sum())


def _clients_with_publications(trace: Trace, window: Window, side: int) -> pa.Table:
    for table in ("publications", "deliveries"):
        require_complete(trace, table)
    published = trace.read(
        "publications",
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        columns=["advertisement", "counter", "publisher"],
    )
    rows = trace.read(
        "deliveries", start_ns=window.start_ns, columns=["client", "advertisement", "counter"]
    )
    found = rows.join(published, ["advertisement", "counter"], join_type="inner")
    sides = pa.array(np.full(found.num_rows, side))
    return found.select(["client", "publisher", "counter"]).append_column("side", sides)
