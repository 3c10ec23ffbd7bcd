"""The evidence for a plan: how many publications and subscriptions were observed, and for how long.

    evidence_of     from the windows of publishers, and how many of those publications each subscription received
    doubts          in words, what was observed too little; empty if there is enough

The load of a subscription is estimated from how many of a publisher's last publications it received. With ten of them
the relative error is about a third, with a hundred a tenth (1/√n). A plan from few observations is a guess, and the
scorecard says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

FEW = 10
"""The load of a subscription with fewer deliveries is uncertain."""

SAMPLE = 100
"""The load of a publisher that was followed for fewer publications is uncertain."""

COVERED = 0.9
"""The share of the traffic that must come from publishers that were followed for `SAMPLE` publications."""

_MOST = 0.5


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a plan was made from. The sizes are means over frames; 0: not measured."""

    source: Literal["brokers", "traces"]
    seconds: float  # from the first observation to the last
    publishers: int  # from which any subscription received something
    publications: int  # followed, of all publishers together
    followed: (
        int  # publications per publisher, at least, of those that make up `COVERED` of the traffic
    )
    subscriptions: int
    with_few: int  # subscriptions that received something, but fewer than `FEW`
    with_none: int
    subscription_bytes: float = 0.0
    advertisement_bytes: float = 0.0


def evidence_of(
    source: Literal["brokers", "traces"],
    seconds: float,
    windows: Iterable[tuple[int, float]],
    received: Iterable[int],
) -> Evidence:
    """`windows`: for each publisher with subscriptions, the number of publications followed, and bytes per second;
    `received`: how many of those publications each subscription received.

    >>> evidence_of("traces", 60.0, [(500, 9e6), (20, 1e3)], [0, 5, 400])
    Evidence(source='traces', seconds=60.0, publishers=2, publications=520, followed=500, subscriptions=3, \
with_few=1, with_none=1, subscription_bytes=0.0, advertisement_bytes=0.0)
    """
    by_length = sorted(windows, reverse=True)
    counts = list(received)
    return Evidence(
        source,
        round(seconds, 3),
        len(by_length),
        sum(span for span, _ in by_length),
        _window_of_most_traffic(by_length),
        len(counts),
        sum(1 for count in counts if 0 < count < FEW),
        sum(1 for count in counts if not count),
    )


def _window_of_most_traffic(by_length: list[tuple[int, float]]) -> int:
    """The shortest window among the publishers, longest windows first, that make up `COVERED` of the traffic."""
    enough = COVERED * sum(bandwidth for _, bandwidth in by_length)
    covered = 0.0
    for span, bandwidth in by_length:
        covered += bandwidth
        if covered >= enough:
            return span
    return 0


def doubts(evidence: Evidence) -> list[str]:
    """What was observed too little for a reliable plan.

    >>> doubts(Evidence("traces", 600.0, 10, 12_800, 1_280, 100, 3, 0))
    []
    >>> doubts(Evidence("traces", 2.0, 10, 300, 30, 100, 60, 10))
    ['publishers were followed for 30 publications, not 100', '70% of the subscriptions got fewer than 10 of them']
    """
    found = []
    if evidence.followed < SAMPLE:
        found.append(
            f"publishers were followed for {evidence.followed:,} publications, not {SAMPLE}"
        )
    unsure = evidence.with_few + evidence.with_none
    if unsure > _MOST * evidence.subscriptions:
        share = unsure / evidence.subscriptions
        found.append(f"{share:.0%} of the subscriptions got fewer than {FEW} of them")
    return found
