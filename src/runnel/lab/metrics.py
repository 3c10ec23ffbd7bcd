"""The papers' metrics, each a small function of a trace and a window of time.

    loads        the load of every broker: message rates, utilisations, table sizes
    over_time    the same, interval by interval
    spread       average, standard deviation and maximum over brokers, as the papers plot them
    delays       from publisher to client's queue; `percentile` by nearest rank
    hop_counts   links between brokers that a delivered publication has passed
    forwarding   deliveries, pure forwarders and yield, as mesh Table 2 counts them
    overhead     messages by class

`expectation.py` checks whether everything was delivered that should have been. Rules:

- The broker message rate is the rate at which publications come *into* a broker, from clients and neighbours alike:
  placement §IV adds up "input message rates", and in green a broker that sinks everything has 40 × 70 msg/min.
- Loads count whole intervals only: those that begin and end within the window. A window that holds none is a mistake.
- Sums are integers as long as possible, so that results do not depend on the order of files.
- A metric of publications or deliveries needs all of them: a trace that was sampled or that dropped rows is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import InputError
from runnel.quantities import SECOND
from runnel.trace.reader import Trace

# Re-exported: everyone who computes metrics needs it.
from runnel.trace.window import Window as Window

PUBLICATION = "Publication"  # the class of messages that everything else is overhead to
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class BrokerSpread(NamedTuple):
    """Values of several brokers, as the papers plot them; the deviation is that of the population."""

    mean: float
    deviation: float
    maximum: float


def spread(values: Floats) -> BrokerSpread:
    """Average, standard deviation and maximum; all 0 where there is nothing.

    >>> spread(np.array([1.0, 3.0]))
    BrokerSpread(mean=2.0, deviation=1.0, maximum=3.0)
    """
    if not len(values):
        return BrokerSpread(0.0, 0.0, 0.0)
    return BrokerSpread(float(np.mean(values)), float(np.std(values)), float(np.max(values)))


def percentile(values: Ints | Floats, percent: float) -> float:
    """The smallest value that at least so many percent of all values do not exceed (nearest rank).

    >>> percentile(np.array([15, 20, 35, 40, 50]), 30), percentile(np.array([15, 20, 35, 40, 50]), 100)
    (20.0, 50.0)
    """
    if not 0 < percent <= 100:
        raise InputError(f"a percentile is above 0 and at most 100, not {percent}")
    if not len(values):
        raise InputError("there are no values to take a percentile of: choose a longer window")
    # Rounded before it is rounded up: 99.9% of 1,000 must not become the 1,000th by an error in the last digit.
    rank = math.ceil(round(percent * len(values) / 100, 9))
    return float(np.partition(values, rank - 1)[rank - 1])


# -- brokers ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loads:
    """Every broker's load in a window, in the order of `brokers`, which is that of their names.

    Rates are publications per second. Ratios, delays and memory are NaN where nobody measured them.
    """

    brokers: tuple[str, ...]
    seconds: Floats
    publications_in: Ints
    publications_out: Ints
    control_in: Ints
    input_ratio: Floats  # Ir
    output_ratio: Floats  # Or
    matching_delay_s: Floats
    subscriptions: Ints  # rows of the PRT at the end
    advertisements: Ints  # rows of the SRT at the end
    clients: Ints
    memory_bytes: Floats

    @property
    def message_rate(self) -> Floats:
        """The broker message rate."""
        return self.publications_in / self.seconds

    @property
    def output_rate(self) -> Floats:
        """Publications that leave a broker per second, to clients and neighbours."""
        return self.publications_out / self.seconds

    @property
    def allocated(self) -> npt.NDArray[np.bool_]:
        """Which brokers are in use: they have clients, or publications pass them."""
        return (self.clients > 0) | (self.publications_in > 0)

    def of(self, wanted: npt.NDArray[np.bool_]) -> Loads:
        """The same of some brokers only, such as `loads.of(loads.allocated)`."""
        names = tuple(name for name, keep in zip(self.brokers, wanted, strict=True) if keep)
        columns = [getattr(self, name)[wanted] for name in self.__slots__[1:]]
        return Loads(names, *columns)


def loads(trace: Trace, window: Window) -> Loads:
    """The load of every broker in a window.

    Ir, Or and memory are averages over time, matching delay is the average over publications; sizes of tables are
    those at the end of the broker's last interval.
    """
    table = intervals(trace, window)
    brokers, place = np.unique(
        np.asarray(table["broker"].to_pylist(), dtype=str), return_inverse=True
    )
    count = len(brokers)
    window_ns = _ints(table, "window_ns")

    def total(values: Ints) -> Ints:
        found = np.zeros(count, dtype=np.int64)
        np.add.at(found, place, values)
        return found

    def mean(name: str, weights: Ints) -> Floats:
        values = _floats(table, name)
        sums, weight = np.zeros(count), np.zeros(count)
        np.add.at(sums, place, values * weights)
        np.add.at(weight, place, weights)
        return _ratio(sums, weight)

    # Sorted by time, the last row of each broker is written last, and stays.
    last = np.zeros(count, dtype=np.int64)
    last[place] = np.arange(len(place))
    publications_in = _ints(table, "publications_in")
    return Loads(
        tuple(brokers.tolist()),
        total(window_ns) / SECOND,
        total(publications_in),
        total(_ints(table, "publications_out")),
        total(_ints(table, "control_in")),
        mean("input_ratio", window_ns),
        mean("output_ratio", window_ns),
        mean("matching_delay_s", publications_in),
        _ints(table, "subscriptions")[last],
        _ints(table, "advertisements")[last],
        _ints(table, "clients")[last],
        mean("memory_bytes", window_ns),
    )


def over_time(trace: Trace, window: Window, column: str) -> dict[str, tuple[Floats, Floats]]:
    """How a column of `intervals` went at every broker: seconds from the window's start, and values."""
    table = intervals(trace, window)
    brokers = np.asarray(table["broker"].to_pylist(), dtype=str)
    seconds = (_ints(table, "time_ns") - window.start_ns) / SECOND
    values = _floats(table, column)
    return {
        str(broker): (seconds[brokers == broker], values[brokers == broker])
        for broker in np.unique(brokers)
    }


def intervals(trace: Trace, window: Window) -> pa.Table:
    """The rows of `intervals` that lie within a window, by time and broker."""
    # A row bears the time of its end, so the one that ends with the window belongs to it.
    table = trace.read("intervals", start_ns=window.start_ns + 1, end_ns=window.end_ns + 1)
    began = _ints(table, "time_ns") - _ints(table, "window_ns")
    table = table.filter(pa.array(began >= window.start_ns))
    if not table.num_rows:
        raise InputError(
            f"{trace.folder.path}: no interval lies within {window.start_ns / SECOND:.3f} s to "
            f"{window.end_ns / SECOND:.3f} s: choose a longer window, or trace with shorter intervals"
        )
    return table.sort_by([("time_ns", "ascending"), ("broker", "ascending")])


def interval_spans(rows: pa.Table) -> pa.Table:
    """(broker, first_ns, last_ns): the time that each broker's intervals fill."""
    began = pc.subtract(rows["time_ns"], rows["window_ns"])
    of_each = rows.append_column("began_ns", began).group_by("broker")
    found = of_each.aggregate([("began_ns", "min"), ("time_ns", "max")])
    return found.rename_columns({"began_ns_min": "first_ns", "time_ns_max": "last_ns"})


def overhead(trace: Trace, window: Window) -> dict[str, int]:
    """How many messages of each class brokers took in, the most frequent first."""
    counts: dict[str, int] = {}
    for row in intervals(trace, window)["messages_in"].to_pylist():
        for name, count in row:
            counts[name] = counts.get(name, 0) + count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def overhead_share(counts: dict[str, int], of: Sequence[str] | None = None) -> float:
    """The share of these classes among all messages; without a choice, of everything but publications.

    >>> overhead_share({"Publication": 90, "Trm": 10})
    0.1
    """
    total = sum(counts.values())
    chosen = [name for name in counts if name != PUBLICATION] if of is None else of
    return sum(counts.get(name, 0) for name in chosen) / total if total else 0.0


# -- deliveries -------------------------------------------------------------------------------------------


def delays(trace: Trace, window: Window) -> Ints:
    """Nanoseconds from a publication to its place in the client's queue, for every delivery in a window.

    The last mile to the client is not in it; nor are clocks that differ, which the simulator does not have.
    """
    table = deliveries(trace, window, ["time_ns", "published_ns"])
    return _ints(table, "time_ns") - _ints(table, "published_ns")


def hop_counts(trace: Trace, window: Window) -> Ints:
    """For every delivery in a window, how many links between brokers it has passed; 0 at the publisher's broker."""
    return _ints(deliveries(trace, window, ["hops"]), "hops")


@dataclass(frozen=True, slots=True)
class Forwarding:
    """How many publications brokers handled, and how many of these they delivered; per broker and publication."""

    handled: int
    delivered: int  # … by brokers with a local subscription that wants it

    @property
    def pure(self) -> int:
        """How often a broker handled a publication that no client of its own wants."""
        return self.handled - self.delivered

    @property
    def useful(self) -> float:
        """The yield of mesh Table 2: deliveries among all handlings.

        >>> round(Forwarding(handled=907, delivered=348).useful, 2)  # DT1 with S0, in thousands
        0.38
        """
        return self.delivered / self.handled if self.handled else 0.0


def forwarding(trace: Trace, window: Window) -> Forwarding:
    """Deliveries and pure forwarders in a window. The publisher's own broker counts like any other.

    Handlings are known by the interval, so of each broker's deliveries those count that its own intervals are of. What
    is under way when these begin or end is counted where it is handled.
    """
    rows = intervals(trace, window)
    handled = int(_ints(rows, "publications_in").sum())
    found = deliveries(trace, window, ["time_ns", "broker", "advertisement", "counter"])
    found = found.join(interval_spans(rows), "broker", join_type="inner")
    inside = pc.and_(
        pc.greater_equal(found["time_ns"], found["first_ns"]),
        pc.less(found["time_ns"], found["last_ns"]),
    )
    distinct = found.filter(inside).group_by(["broker", "advertisement", "counter"]).aggregate([])
    return Forwarding(handled, distinct.num_rows)


def deliveries(trace: Trace, window: Window, columns: list[str]) -> pa.Table:
    """These columns of all deliveries in a window."""
    require_complete(trace, "deliveries")
    return trace.read("deliveries", start_ns=window.start_ns, end_ns=window.end_ns, columns=columns)


def count_published(trace: Trace, window: Window) -> int:
    """How many publications entered the network in a window."""
    require_complete(trace, "publications")
    found = trace.read(
        "publications", start_ns=window.start_ns, end_ns=window.end_ns, columns=["counter"]
    )
    return int(found.num_rows)


def require_complete(trace: Trace, table: str) -> None:
    """Refuse a trace that does not hold every row of a table: a count of what is there would be wrong."""
    for statement in trace.folder.statements():
        count = statement.tables.get(table)
        lost = count.dropped + count.failed if count else 0
        if statement.sample != 1 or lost:
            why = f"dropped {lost:,} of them" if lost else f"kept one in {statement.sample}"
            raise InputError(
                f"{trace.folder.path}: this needs all {table}, but writer {statement.writer} {why}: "
                "trace without sampling and with more room"
            )


# -- columns ----------------------------------------------------------------------------------------------


def _ints(table: pa.Table, name: str) -> Ints:
    return _array(table, name).astype(np.int64, copy=False)


def _floats(table: pa.Table, name: str) -> Floats:
    """A column of floats; null is NaN."""
    return _array(table, name).astype(np.float64, copy=False)


def _array(table: pa.Table, name: str) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = table[name].to_numpy()
    return found


def _ratio(sums: Floats, weights: Floats) -> Floats:
    """Sums over weights; 0 where there is no weight, for what nobody did took no time."""
    return np.divide(sums, weights, out=np.zeros_like(sums), where=weights > 0)
