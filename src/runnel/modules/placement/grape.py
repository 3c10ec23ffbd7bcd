"""GRAPE's choice of a broker for a publisher: placement §IV-B, Algorithms 1 to 3, on what brokers reported.

The paper is named in docs/glossary.md, as all papers are.

    Algorithm 1   calcAvgDelay        `SessionTree.calc_avg_delay`
    Algorithm 2   calcTotalMsgRate    `SessionTree.calc_total_msg_rate`
    Algorithm 3   calcDownstreamBV    `SessionTree.calc_downstream_bv`
    Phase 2       the choice          `choose`

All three are recursions over the same tree, so they are computed together: `SessionTree._totals_at` is one step of
each, and comments there say which line belongs to which algorithm.

Every broker that handled publications of a trace session has sent a `BrokerReport` (the paper's TIA payload). It says
which of the publications were delivered to local subscribers (a bit vector), how many deliveries there were, and how
long messages take in the broker. The brokers with a report form a tree around the publisher's broker. Two things are
estimated for every candidate:

    delay   the average time from the publisher to its subscribers, were it connected there
    load    the total message rate: how many publications of the session all brokers together would take in

Decisions, where the paper is silent:

- The candidates are the publisher's own broker and all that have a report and can be reached from there over brokers
  that have one.
- A metric is normalised over the candidates to 0…100 (0 if all are equal). With the paper's priority P
  (`weight_percent`), those above 100 − P in the first metric are dropped, and the second metric decides among the rest.
- Ties are settled by fewer hops from the publisher's present broker (which itself has none), then by name. A delay is
  compared in whole nanoseconds, because sums that differ only by rounding must count as ties.
- The time on a link is added to the times of Algorithm 1.

Bits are Python ints; the first publication of a session is the least significant bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

Metric = Literal["delay", "load"]
CLIENT = ""
"""The key of `BrokerReport.output_s` for a broker's own clients; no broker has an empty name. The paper's
queueAndMatchDelaysTo(client)."""


def with_delivery(bits: int, first: int, counter: int) -> int:
    """A session's bits, with the publication of this counter delivered; the session began with `first`.

    >>> bin(with_delivery(with_delivery(0, 212, 213), 212, 215))
    '0b1010'
    """
    return bits | 1 << (counter - first)


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """One broker's report on a trace session. Times are in seconds."""

    broker: str
    neighbours: tuple[str, ...]
    bits: int
    deliveries: int
    input_s: float = 0.0
    matching_s: float = 0.0
    output_s: Mapping[str, float] = field(default_factory=dict)  # to each neighbour, and to CLIENT
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
    load: int  # how many publications of the session all brokers together take in
    kept: bool = True  # not dropped by the first metric


@dataclass(frozen=True, slots=True)
class Choice:
    """Where the publisher should be, and the numbers behind it."""

    broker: str
    candidates: tuple[Candidate, ...]

    def gain_percent(self, at: str, metric: Metric) -> float:
        """How much better the chosen broker is than `at`, in percent of what `at` has; `metric` is the first metric.

        It is measured in the metric that has decided between the two: the first, if `at` was dropped for it, and
        otherwise the second. 25 says that 100 messages or milliseconds would be 75.
        """
        named = {one.broker: one for one in self.candidates}
        here, there = named[at], named[self.broker]
        in_delay = metric == "load" if here.kept else metric == "delay"
        now, then = (here.delay_s, there.delay_s) if in_delay else (here.load, there.load)
        return 100.0 * (now - then) / now if now else 0.0


class SubtreeTotals(NamedTuple):
    """Sums over a broker and all brokers beyond it, seen from upstream."""

    bits: int  # publications delivered there
    load: int  # publications taken in, by all brokers together
    deliveries: int
    delay_s: float  # of all deliveries together, from the broker on


class SessionTree:
    """The reports of one trace session, and the paper's recursions on them.

    The sums beyond each link are cached for all three algorithms (the paper caches bit vectors only). So a choice among
    N brokers takes some 4 N steps instead of N²: one for each direction of each link, and two for each candidate.
    """

    def __init__(self, reports: Mapping[str, BrokerReport]) -> None:
        self._reports = reports
        self._neighbours = {
            broker: [n for n in report.neighbours if n in reports]
            for broker, report in reports.items()
        }
        self._beyond: dict[tuple[str, str], SubtreeTotals] = {}  # (broker, neighbour) → beyond it

    def neighbours(self, broker: str, upstream: str | None) -> list[str]:
        """The neighbours of a broker that reported, except the one upstream."""
        return [n for n in self._neighbours[broker] if n != upstream]

    def calc_avg_delay(self, candidate: str, ping_s: float = 0.0) -> float:
        """Algorithm 1: the average delay of deliveries, were the publisher at this broker.

        `ping_s` is the time from the publisher to this broker; in the paper the publisher measures it. Without
        deliveries there is no delay, whatever it is.
        """
        found = self._totals(candidate, None)
        return (ping_s + found.delay_s / found.deliveries) if found.deliveries else 0.0

    def calc_total_msg_rate(self, candidate: str) -> int:
        """Algorithm 2: publications that all brokers together take in, with the publisher at this one."""
        return self._totals(candidate, None).load

    def calc_downstream_bv(self, broker: str, upstream: str | None) -> int:
        """Algorithm 3: what is delivered at a broker and beyond it, seen from upstream.

        The other two do not call it, since `_totals` has its result as well; tests compare it with the paper.
        """
        return self._totals(broker, upstream).bits

    def _totals(self, broker: str, upstream: str | None) -> SubtreeTotals:
        """The sums over a broker and all brokers beyond it, seen from upstream; over the whole tree if that is None.

        The three recursions are one loop here, farthest brokers first, so that a deep tree does not overflow the stack.
        """
        beyond = self._beyond
        # All brokers whose sums are not known yet, nearest first: the loop goes on over what it appends.
        order: list[tuple[str, str | None]] = [(broker, upstream)]
        for here, before in order:
            order += [
                (neighbour, here)
                for neighbour in self._neighbours[here]
                if neighbour != before and (here, neighbour) not in beyond
            ]
        for here, before in reversed(order):
            found = self._totals_at(here, before)
            if before is not None:
                beyond[before, here] = found
        return found

    def _totals_at(self, broker: str, upstream: str | None) -> SubtreeTotals:
        """One step of Algorithms 1, 2 and 3: a broker's own numbers plus the sums beyond its neighbours.

        Algorithm 1 hands the delay from the publisher down the tree. Here it is added on the way up: for every delivery
        beyond a neighbour, the delay to that neighbour. The result is the same, and the sums beyond a link do not
        depend on where the publisher is, so they can be cached.
        """
        report = self._reports[broker]
        bits = report.bits  # Algorithm 3: aggregatedBV
        load = 0  # Algorithm 2: dsMsgRate
        deliveries = report.deliveries  # Algorithm 1: stats.totalDeliveries
        delay_s = deliveries * report.delay_to(CLIENT)  # Algorithm 1: stats.totalDelay
        for neighbour in self._neighbours[broker]:
            if neighbour != upstream:
                found = self._beyond[broker, neighbour]
                bits |= found.bits  # Algorithm 3
                load += found.load  # Algorithm 2
                deliveries += found.deliveries  # Algorithm 1, and so is the next line
                delay_s += found.delay_s + found.deliveries * report.delay_to(neighbour)
        local_load = bits.bit_count()  # Algorithm 2: localMsgRate, what passes this broker
        return SubtreeTotals(bits, local_load + load, deliveries, delay_s)

    def hops_from(self, start: str) -> dict[str, int]:
        """The distance in links from one broker to every other."""
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
    reports: Mapping[str, BrokerReport],
    at: str,
    metric: Metric = "load",
    weight_percent: float = 100.0,
    pings_s: Mapping[str, float] | None = None,
) -> Choice:
    """GRAPE's Phase 2: the broker for a publisher that is `at` one of them.

    `pings_s`: the times from the publisher to candidates. Without them all candidates count as equally far; with them,
    a candidate that has none is out of reach, and dropped.

    >>> chain = {"A": BrokerReport("A", ("B",), 0b0000, 0), "B": BrokerReport("B", ("A", "C"), 0b0001, 1),
    ...          "C": BrokerReport("C", ("B",), 0b1111, 4)}
    >>> choose(chain, "A").broker
    'C'
    >>> [(one.broker, one.load) for one in choose(chain, "A").candidates]
    [('A', 12), ('B', 8), ('C', 5)]
    """
    session = SessionTree(reports)
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
    within = [c for c in candidates if not pings or metric == "load" or c.broker in pings]
    first = [c.delay_s if metric == "delay" else float(c.load) for c in within]
    least = dict(zip([c.broker for c in within], normalise(first), strict=True))
    judged = tuple(
        replace(
            c,
            kept=least.get(c.broker, 101.0) <= 100.0 - weight_percent
            and (not pings or c.broker in pings),
        )
        for c in candidates
    )

    def rank(one: Candidate) -> tuple[float, int, str]:
        second = float(one.load) if metric == "delay" else one.delay_s
        return second, one.hops, one.broker

    best = min((c for c in judged if c.kept), key=rank, default=None)
    return Choice(best.broker if best else at, judged)


def normalise(values: list[float]) -> list[float]:
    """Values on a scale from 0 (the least) to 100 (the most); all equal are all 0.

    >>> normalise([2.0, 4.0, 3.0]), normalise([7.0, 7.0])
    ([0.0, 100.0, 50.0], [0.0, 0.0])
    """
    least, most = min(values), max(values)
    if most == least:
        return [0.0] * len(values)
    return [100.0 * (value - least) / (most - least) for value in values]
