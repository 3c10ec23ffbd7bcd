"""A lower bound for the number of brokers: it shows how far from the optimum a plan is at most.

Three arguments hold for every plan with k brokers, also if the k are the strongest that are possible:

    pins       a broker with something pinned to it is among the k
    output     the output of the k brokers is at least the need of all subscriptions
    matching   a broker that serves a subscription with rate r receives at least r, which limits its number of
               subscriptions with that rate or more; this holds for every r

Brokers that only forward are not counted: the overlay may need more. A pinned publisher needs nothing here, since its
subscriptions may all be at its broker.
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.planning.load import Bin, Item, Traffic


def lower_bound(items: Sequence[Item], bins: Sequence[Bin], traffic: Traffic) -> int:
    """No plan serves these items with fewer brokers. The bound exceeds the number of brokers if these cannot do it.

    `items` are all subscriptions, the pinned ones too. Of what is pinned to a broker it only matters here that there
    is something.

    >>> from runnel.planning.profiles import PublisherProfile
    >>> traffic = Traffic((PublisherProfile("P", 1.0, 10.0, 9),), (10,))
    >>> five = [Item({0: 1}, 4, (number,)) for number in range(5)]
    >>> lower_bound(five, [Bin("A", 8), Bin("B", 8), Bin("C", 8), Bin("D", 8)], traffic)
    3
    """
    needs = sum(one.need for one in items)
    bound = max(_fewest_brokers(bins, [one.room for one in bins], needs), 1 if items else 0)
    if not all(one.delay.takes_time for one in bins):
        return bound
    rated = sorted(((traffic.rate(one.profile), one.count) for one in items), reverse=True)
    # At the last place of every distinct rate, `count` is how many subscriptions have that rate or more.
    count = 0
    for place, (rate, more) in enumerate(rated, 1):
        count += more
        if place == len(rated) or rated[place][0] != rate:
            bound = max(bound, _fewest_brokers(bins, _most_matched(bins, rate, count), count))
    return bound


def _most_matched(bins: Sequence[Bin], rate: int, count: int) -> list[int]:
    """How many of `count` subscriptions with a rate each broker can match."""
    limits = (one.delay.most_subscriptions(rate) for one in bins)
    return [count if most is None else max(0, most) for most in limits]


def _fewest_brokers(bins: Sequence[Bin], parts: Sequence[int], whole: int) -> int:
    """How many brokers make up the whole, if each has a part of it; those with something pinned are among them."""
    parted = list(zip(bins, parts, strict=True))
    number = sum(1 for one in bins if one.base)
    whole -= sum(part for one, part in parted if one.base)
    for part in sorted((part for one, part in parted if not one.base), reverse=True):
        if whole <= 0:
            break
        whole -= part
        number += 1
    return number if whole <= 0 else len(bins) + 1
