"""GRAPE's choice of a broker for a publisher: placement §IV-B, Algorithms 1 to 3, on what brokers reported.

Every broker that handled publications of a trace session has sent a `Report` (the paper's TIA payload): which of them
it delivered to local subscribers, as a bit vector; how many deliveries that were; how long messages take in it. The
brokers with a report form a tree around the publisher's. For every candidate two things are estimated:

    delay   the average time from the publisher to its subscribers, were it connected there
    load    the total message rate: publications that all brokers together would take in, out of the session's

Decisions, where the paper is silent: the candidates are all brokers with a report, the publisher's own included. A
metric is normalised over the candidates to 0…100 (all equal: 0), and those above 100 − P are dropped. Ties are settled
by fewer hops from where the publisher is, then by staying, then by name; a delay counts in whole nanoseconds, or sums
that differ by their rounding would be no ties. The time on a link is added to what Algorithm 1 has. Bits are Python
ints; the first publication of a session is the least significant bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Metric = Literal["delay", "load"]
CLIENT = ""
"""The name under which `output_s` has the delay towards a broker's own clients."""


def with_delivery(bits: int, first: int, counter: int) -> int:
    """A session's bits, with the publication of this counter delivered; the session began with `first`.

    >>> bin(with_delivery(with_delivery(0, 212, 213), 212, 215))
    '0b1010'
    """
    return bits | 1 << (counter - first)


@dataclass(frozen=True, slots=True)
class Report:
    """What one broker knows of a trace session. Times are in seconds."""

    broker: str
    neighbours: tuple[str, ...]
    bits: int
    deliveries: int
    input_s: float = 0.0
    matching_s: float = 0.0
    output_s: Mapping[str, float] = field(default_factory=dict)
    link_s: Mapping[str, float] = field(default_factory=dict)  # one way to a neighbour

    def delay_to(self, target: str) -> float:
        """The paper's queueAndMatchDelaysTo, and the time on the link."""
        on_the_way = self.output_s.get(target, 0.0) + self.link_s.get(target, 0.0)
        return self.input_s + self.matching_s + on_the_way


@dataclass(frozen=True, slots=True)
class Candidate:
    """What GRAPE estimates for one broker."""

    broker: str
    hops: int  # from where the publisher is
    delay_s: float  # on average over all deliveries
    load: int  # publications taken in by all brokers, out of the session's
    kept: bool = True  # it is not dropped by the metric that goes first


@dataclass(frozen=True, slots=True)
class Choice:
    """Where the publisher should be, and the numbers behind it."""

    broker: str
    candidates: tuple[Candidate, ...]

    def gain_percent(self, at: str, metric: Metric) -> float:
        """How much better it is there than `at`, in the metric for which the publisher would not stay."""
        named = {one.broker: one for one in self.candidates}
        here, there = named[at], named[self.broker]
        in_delay = (metric == "delay") != here.kept
        now, then = (here.delay_s, there.delay_s) if in_delay else (here.load, there.load)
        return 100.0 * (now - then) / now if now else 0.0


class Beyond(NamedTuple):
    """What lies at a broker and beyond it, seen from upstream."""

    bits: int  # publications delivered there
    load: int  # publications taken in, by all brokers together
    deliveries: int
    delay_s: float  # of all deliveries together, from the broker on


class Session:
    """The reports of one trace session.

    The algorithms are the paper's recursions. All three keep what they found beyond each link, as the paper does
    for the bit vectors only: so a choice among N brokers takes 2 N steps, not N².
    """

    def __init__(self, reports: Mapping[str, Report]) -> None:
        self._reports = reports
        self._neighbours = {
            broker: [n for n in report.neighbours if n in reports]
            for broker, report in reports.items()
        }
        self._beyond: dict[tuple[str, str], Beyond] = {}  # (broker, neighbour) → beyond it

    def neighbours(self, broker: str, but: str | None) -> list[str]:
        """The neighbours of a broker that reported, without the one upstream."""
        return [n for n in self._neighbours[broker] if n != but]

    def calc_avg_delay(self, candidate: str, ping_s: float = 0.0) -> float:
        """Algorithm 1: the average delay of deliveries from this broker."""
        found = self._seen_from(candidate, None)
        return ping_s + found.delay_s / found.deliveries if found.deliveries else 0.0

    def calc_total_msg_rate(self, candidate: str) -> int:
        """Algorithm 2: publications that all brokers together take in, with the publisher at this one."""
        return self._seen_from(candidate, None).load

    def calc_downstream_bv(self, broker: str, upstream: str | None) -> int:
        """Algorithm 3: what is delivered at a broker and beyond it, seen from upstream."""
        return self._seen_from(broker, upstream).bits

    def _seen_from(self, broker: str, upstream: str | None) -> Beyond:
        """All three recursions, farthest brokers first, so that the depth of the tree does not matter."""
        beyond = self._beyond
        order: list[tuple[str, str | None]] = [(broker, upstream)]
        for here, before in order:
            order += [
                (neighbour, here)
                for neighbour in self._neighbours[here]
                if neighbour != before and (here, neighbour) not in beyond
            ]
        for here, before in reversed(order):
            found = self._at(here, before)
            if before is not None:
                beyond[before, here] = found
        return found

    def _at(self, broker: str, upstream: str | None) -> Beyond:
        """One step of the recursions: a broker, and what was found beyond its neighbours."""
        report = self._reports[broker]
        bits, load, deliveries = report.bits, 0, report.deliveries
        delay_s = deliveries * report.delay_to(CLIENT)
        for neighbour in self._neighbours[broker]:
            if neighbour != upstream:
                found = self._beyond[broker, neighbour]
                bits |= found.bits
                load += found.load
                deliveries += found.deliveries
                delay_s += found.delay_s + found.deliveries * report.delay_to(neighbour)
        return Beyond(bits, load + bits.bit_count(), deliveries, delay_s)

    def hops_from(self, start: str) -> dict[str, int]:
        """How far every broker is from one of them."""
        hops = {start: 0}
        todo = [start]
        while todo:
            broker = todo.pop()
            for neighbour in self.neighbours(broker, None):
                if neighbour not in hops:
                    hops[neighbour] = hops[broker] + 1
                    todo.append(neighbour)
        return hops


def choose(
    reports: Mapping[str, Report],
    at: str,
    metric: Metric = "load",
    weight_percent: float = 100.0,
    pings_s: Mapping[str, float] | None = None,
) -> Choice:
    """GRAPE's Phase 2: the broker for a publisher that is `at` one of them.

    >>> chain = {"A": Report("A", ("B",), 0b0000, 0), "B": Report("B", ("A", "C"), 0b0001, 1),
    ...          "C": Report("C", ("B",), 0b1111, 4)}
    >>> choose(chain, "A").broker
    'C'
    >>> [(one.broker, one.load) for one in choose(chain, "A").candidates]
    [('A', 12), ('B', 8), ('C', 5)]
    """
    session = Session(reports)
    pings = pings_s or {}
    hops = session.hops_from(at)
    candidates = [
        Candidate(
            broker,
            hops[broker],
            round(session.calc_avg_delay(broker, pings.get(broker, 0.0)), 9),
            session.calc_total_msg_rate(broker),
        )
        for broker in reports
        if broker in hops
    ]
    first = [c.delay_s if metric == "delay" else float(c.load) for c in candidates]
    kept = [value <= 100.0 - weight_percent for value in normalised(first)]
    judged = tuple(
        Candidate(c.broker, c.hops, c.delay_s, c.load, keep)
        for c, keep in zip(candidates, kept, strict=True)
    )

    def rank(one: Candidate) -> tuple[float, int, bool, str]:
        second = float(one.load) if metric == "delay" else one.delay_s
        return second, one.hops, one.broker != at, one.broker

    return Choice(min((c for c in judged if c.kept), key=rank).broker, judged)


def normalised(values: list[float]) -> list[float]:
    """Values on a scale from 0 (the least) to 100 (the most); all equal are all 0.

    >>> normalised([2.0, 4.0, 3.0]), normalised([7.0, 7.0])
    ([0.0, 100.0, 50.0], [0.0, 0.0])
    """
    least, most = min(values), max(values)
    if most == least:
        return [0.0] * len(values)
    return [100.0 * (value - least) / (most - least) for value in values]
