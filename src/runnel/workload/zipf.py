"""The synthetic data sets of mesh (Fig. 8): topics follow Zipf's law, subscriptions are placed to match printed shares.

Printed: subscriptions and the share of them that a publication matches: DT1 6,552 (8%), DT2 19,472 (53%), DT3
28,690 (9%), DT4 900 (9%), DT5 6,000 (54%), DT-C 10,000 with covering (4%) · their overlays: C1 120 brokers, C2
250, CPL 21, C3 500 · "synthesized using a Zipf distribution" · deliveries, from which follow the brokers that a
publication reaches: 348,000 of 36,000 publications are 9.7 of 120 for DT1, 1,034,000 are 28.7 of 120 for DT2 ·
rates: 3,600 msg/min in all where hops are counted, 72,000 and 7,200 where throughput is, 3,300 on CPL.

Inferred, and fitted to these numbers:

- A publication has one of 100 topics. Publications and subscriptions follow Zipf's law over the topics with one
  exponent, which is chosen so that the share of subscriptions matched comes out.
- Placed at random, the subscriptions of a popular topic would be everywhere. So topic k has n_k brokers, in
  proportion to its share of subscriptions (at least one); the factor is chosen so that the brokers reached come
  out. It is 1 for a data set whose brokers each have one taste (DT1, nearly), and below for one whose
  subscribers crowd (DT2). Which brokers: by lot.
- Brokers reached are not printed for the others: DT3, DT4 and DT-C have the ratio of DT1 (sparse), DT5 that of
  DT2 (dense).
- DT-C: subscriptions of a topic have 0 to 3 further predicates `a < x`, `b < x`, `c < x` with x one quarter,
  half or three quarters of the range, so the general ones cover the special ones, and have fewer predicates, as
  the paper says.
- One publisher at every broker, all with the same rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from runnel.errors import InputError
from runnel.language import Filter, Op, Predicate
from runnel.workload.draw import apportion, deal, zipf_shares
from runnel.workload.files import Event
from runnel.workload.parameters import Count, Parameters
from runnel.workload.shape import Subscriber, Workload, WorkloadPublisher

CLASS = "FEED"
RANGE = 1_000
THRESHOLDS = (RANGE // 4, RANGE // 2, 3 * RANGE // 4)
LEVELS = (10, 30, 40, 20)
"""DT-C: percent of the subscriptions with 0, 1, 2 and 3 further predicates."""

_EXPONENT_MAX = 8.0


class DataSet(NamedTuple):
    """One line of Fig. 8(a); `reached` is how many brokers a publication reaches."""

    subscriptions: int
    matched: float
    brokers: int
    reached: float
    rate_per_min: float
    covering: bool = False


_SPARSE = 9.7 / 120 / 0.08  # share of brokers reached ÷ share of subscriptions matched, DT1
_DENSE = 28.7 / 120 / 0.53  # the same, DT2

DATA_SETS = {
    "DT1": DataSet(6_552, 0.08, 120, 9.7, 3_600),
    "DT2": DataSet(19_472, 0.53, 120, 28.7, 3_600),
    "DT3": DataSet(28_690, 0.09, 250, 0.09 * _SPARSE * 250, 3_600),
    "DT4": DataSet(900, 0.09, 21, 0.09 * _SPARSE * 21, 3_300),
    "DT5": DataSet(6_000, 0.54, 21, 0.54 * _DENSE * 21, 3_300),
    "DT-C": DataSet(10_000, 0.04, 500, 0.04 * _SPARSE * 500, 3_600, covering=True),
}


class ZipfParameters(Parameters, frozen=True):
    """Which data set, and what to change of it. 0 means: as the data set has it."""

    data_set: Literal["DT1", "DT2", "DT3", "DT4", "DT5", "DT-C"] = "DT1"
    topics: Count = 100
    rate_per_min: float = 0.0
    brokers: int = 0
    subscriptions: int = 0


class _Topics(NamedTuple):
    """How many subscriptions and brokers each topic has, and how likely a publication is about it."""

    chances: list[float]
    counts: list[int]
    spreads: list[int]
    exponent: float


def make_zipf(parameters: ZipfParameters, seed: int, folder: Path) -> Workload:
    """Make one of mesh's synthetic data sets; `facts` tells the exponent and both shares as expected."""
    wanted = _adapt_data_set(parameters)
    topics = _fit(wanted, parameters.topics)
    random = Random(f"{seed}/zipf/{parameters.data_set}")
    subscribers: list[Subscriber] = []
    for topic, (count, spread) in enumerate(zip(topics.counts, topics.spreads, strict=True)):
        homes = random.sample(range(wanted.brokers), spread)
        depths = deal(range(len(LEVELS)), count, LEVELS, random) if wanted.covering else [0] * count
        plain = _filter(topic, 0, random)
        for place, depth in enumerate(depths):
            subscribers.append(
                Subscriber(
                    f"sub-{len(subscribers) + 1}",
                    _filter(topic, depth, random) if depth else plain,
                    homes[place % spread],
                    f"topic-{topic + 1}",
                )
            )
    rate_per_s = wanted.rate_per_min / 60 / wanted.brokers
    everything = Filter([Predicate("class", Op.EQ, CLASS)])
    publishers = tuple(
        WorkloadPublisher(
            f"pub-{broker}",
            everything,
            rate_per_s,
            _Feed(f"{seed}/zipf/{parameters.data_set}/{broker}", topics.chances, wanted.covering),
            broker,
        )
        for broker in range(wanted.brokers)
    )
    facts = {"exponent": topics.exponent} | expected_shares(topics, wanted)
    return Workload("zipf", publishers, tuple(subscribers), facts)


def expected_shares(topics: _Topics, wanted: DataSet) -> dict[str, float]:
    """The share of subscriptions and the number of brokers that a publication reaches on average."""
    matched = sum(p * n for p, n in zip(topics.chances, topics.counts, strict=True))
    reached = sum(p * n for p, n in zip(topics.chances, topics.spreads, strict=True))
    return {
        "matched_share": matched / wanted.subscriptions * _selectivity(wanted),
        "brokers_reached": reached,
    }


class _Feed:
    """A publisher's endless events; every iteration gives the same ones."""

    def __init__(self, seed: str, chances: Sequence[float], covering: bool) -> None:
        self._seed = seed
        self._sums = list(accumulate(chances))
        self._covering = covering

    def __iter__(self) -> Iterator[Event]:
        random = Random(self._seed)
        ranks = range(1, len(self._sums) + 1)
        while True:
            event: Event = {
                "class": CLASS,
                "topic": random.choices(ranks, cum_weights=self._sums)[0],
            }
            if self._covering:
                event |= {name: random.randrange(RANGE) for name in "abc"}
            yield event


def _filter(topic: int, depth: int, random: Random) -> Filter:
    """A subscription to a topic with so many further predicates."""
    predicates = [Predicate("class", Op.EQ, CLASS), Predicate("topic", Op.EQ, topic + 1)]
    predicates += [Predicate(name, Op.LT, random.choice(THRESHOLDS)) for name in "abc"[:depth]]
    return Filter(predicates)


def _adapt_data_set(parameters: ZipfParameters) -> DataSet:
    """Apply the parameters to a data set; shares stay the same, so the number of brokers reached scales."""
    known = DATA_SETS[parameters.data_set]
    for key in ("rate_per_min", "brokers", "subscriptions"):
        if (given := getattr(parameters, key)) < 0:
            raise InputError(
                f"{key}: must be at least 0 (0: as {parameters.data_set} has it), got {given}"
            )
    brokers = parameters.brokers or known.brokers
    return known._replace(
        subscriptions=parameters.subscriptions or known.subscriptions,
        brokers=brokers,
        reached=known.reached * brokers / known.brokers,
        rate_per_min=parameters.rate_per_min or known.rate_per_min,
    )


def _selectivity(wanted: DataSet) -> float:
    """Which share of a topic's publications one of its subscriptions matches on average."""
    if not wanted.covering:
        return 1.0
    one = sum(THRESHOLDS) / len(THRESHOLDS) / RANGE
    return sum(percent * one**depth for depth, percent in enumerate(LEVELS)) / 100


def _fit(wanted: DataSet, topics: int) -> _Topics:
    """Find the exponent for the share of subscriptions, then the spread for the brokers reached."""
    matched = wanted.matched / _selectivity(wanted)
    if matched * topics < 1:
        raise InputError(
            f"topics: with {topics} topics a publication matches at least 1/{topics} of the subscriptions: "
            f"use at least {int(1 / matched) + 1}"
        )
    exponent = _solve(
        lambda given: sum(share * share for share in zipf_shares(topics, given)),
        matched,
        _EXPONENT_MAX,
    )
    shares = zipf_shares(topics, exponent)
    counts = apportion(wanted.subscriptions, shares)
    most = [min(wanted.brokers, count) for count in counts]

    def spreads(factor: float) -> list[int]:
        wished = [round(factor * share * wanted.brokers) for share in shares]
        # A topic that nobody subscribes to has no broker.
        return [min(max(wish, 1), limit) for wish, limit in zip(wished, most, strict=True)]

    def reached(factor: float) -> float:
        return sum(p * n for p, n in zip(shares, spreads(factor), strict=True))

    start = spreads(_solve(reached, wanted.reached, float(topics)))
    tries = [_nudge(start, first, shares, most, wanted.reached) for first in (0, -1, 1)]
    return _Topics(shares, counts, min(tries)[1], exponent)


def _nudge(
    spreads: list[int], first: int, shares: list[float], most: list[int], target: float
) -> tuple[float, list[int]]:
    """Whole brokers rarely hit the target: change topic 1 by `first`, then let the others come nearer.

    Returns how far off it still is, and the brokers of each topic.
    """
    found = [min(max(spreads[0] + first, 1), most[0]), *spreads[1:]]
    off = target - sum(p * n for p, n in zip(shares, found, strict=True))
    for rank, share in enumerate(shares[1:], start=1):
        step = 1 if off > 0 else -1
        while abs(off - step * share) < abs(off) and 1 <= found[rank] + step <= most[rank]:
            found[rank] += step
            off -= step * share
    return abs(off), found


def _solve(rising: Callable[[float], float], target: float, most: float) -> float:
    """Where a function that never falls between 0 and `most` comes nearest to the target."""
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < target else (low, middle)
    return high
