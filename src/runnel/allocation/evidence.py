"""What a plan rests on, and how sure that makes it: how much was seen of publishers, subscriptions and time.

    evidence_of     from the windows of publishers, and how many publications of them each subscription got
    doubts          what of it is too little, in words; nothing: there is enough

The load of a subscription is estimated from how many of a publisher's last publications it got. From ten of them
it is known to about a third, from a hundred to a tenth (a share of n that were counted is known to 1/√n). So what
rests on few is a guess, and is called one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

FEW = 10
"""Deliveries; a subscription with fewer is hardly known."""

SAMPLE = 100
"""Publications; a publisher that was followed for fewer is hardly known."""

COVERED = 0.9
"""Enough is known of publishers when so much of the traffic is of those that were followed for `SAMPLE`."""

_MOST = 0.5


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a plan was made from. The sizes are those of a frame, on average; 0: nobody knows."""

    source: Literal["brokers", "traces"]
    seconds: float  # from the first to the last that was seen
    publishers: int  # that anybody got something of
    publications: int  # that were followed, of all of them
    followed: int  # of each, leaving out those that make up the last tenth of the traffic
    subscriptions: int
    with_few: int  # that got fewer than `FEW`, but something
    with_none: int
    subscription_bytes: float = 0.0
    advertisement_bytes: float = 0.0


def evidence_of(
    source: Literal["brokers", "traces"],
    seconds: float,
    windows: Iterable[tuple[int, float]],
    received: Iterable[int],
) -> Evidence:
    """`windows`: publications that were followed, and bytes per second, of each publisher that is wanted;
    `received`: how many of those each subscription got.

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
        _followed(by_length),
        len(counts),
        sum(1 for count in counts if 0 < count < FEW),
        sum(1 for count in counts if not count),
    )


def _followed(by_length: list[tuple[int, float]]) -> int:
    """How long a window the publishers have, at least, that make up nine tenths of the traffic."""
    enough = COVERED * sum(bandwidth for _, bandwidth in by_length)
    covered = 0.0
    for span, bandwidth in by_length:
        covered += bandwidth
        if covered >= enough:
            return span
    return 0


def doubts(evidence: Evidence) -> list[str]:
    """What is too little to be sure.

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
