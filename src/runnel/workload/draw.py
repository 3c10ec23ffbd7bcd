"""Random draws and exact shares, which all generators use.

Where a paper prints a share ("40% of the subscriptions"), the share is dealt out exactly and only the order
is drawn; where it prints a probability, every one is drawn. So printed shares come out at any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def apportion(total: int, weights: Sequence[float]) -> list[int]:
    """Divide a number by weights into whole parts; the largest remainders get what rounding left over.

    >>> apportion(10, [70, 25, 5])
    [7, 3, 0]
    >>> sum(apportion(6_552, [1 / rank for rank in range(1, 101)]))
    6552
    """
    whole = sum(weights)
    exact = [total * weight / whole for weight in weights]
    parts = [int(part) for part in exact]
    # Equal remainders are ordered by place, so that the answer does not depend on rounding noise.
    order = sorted(range(len(parts)), key=lambda at: (round(parts[at] - exact[at], 9), at))
    for at in order[: total - sum(parts)]:
        parts[at] += 1
    return parts


def deal(kinds: Sequence[T], total: int, weights: Sequence[float], random: Random) -> list[T]:
    """Make a shuffled list of kinds with exactly the given shares.

    >>> sorted(deal("ab", 5, [40, 60], Random(1)))
    ['a', 'a', 'b', 'b', 'b']
    """
    counts = apportion(total, weights)
    deck = [kind for kind, count in zip(kinds, counts, strict=True) for _ in range(count)]
    random.shuffle(deck)
    return deck


def zipf_shares(count: int, exponent: float) -> list[float]:
    """The shares of that many ranks under Zipf's law; they sum to 1.

    >>> [round(share, 3) for share in zipf_shares(3, 1.0)]
    [0.545, 0.273, 0.182]
    """
    weights = [rank**-exponent for rank in range(1, count + 1)]
    whole = sum(weights)
    return [weight / whole for weight in weights]
