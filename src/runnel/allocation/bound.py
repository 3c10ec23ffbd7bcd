"""A lower bound for the number of brokers, so that a reader of a plan sees how far from the best it can be.

Two arguments, each true of any plan, for the strongest k brokers:

    output     all subscriptions together need so much; so much is there
    matching   a broker that serves a subscription with rate r takes in at least r, so it can have only so many
               subscriptions with that rate or more; true for every r

It counts no broker that only forwards: the overlay may need more.
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.allocation.load import Bin, Item, Traffic


def lower_bound(items: Sequence[Item], bins: Sequence[Bin], traffic: Traffic) -> int:
    """No plan serves these items with fewer brokers; more than there are if they cannot do it.

    >>> from runnel.allocation.profiles import PublisherProfile
    >>> traffic = Traffic((PublisherProfile("P", 1.0, 10.0, 9),), (10,))
    >>> five = [Item({0: 1}, 4, (number,)) for number in range(5)]
    >>> lower_bound(five, [Bin("A", 8), Bin("B", 8), Bin("C", 8), Bin("D", 8)], traffic)
    3
    """
    if not items:
        return 0
    bound = max(1, _fewest([one.room for one in bins], sum(one.need for one in items)))
    if not all(one.delay.limits for one in bins):
        return bound
    rates = sorted((traffic.rate(one.profile) for one in items), reverse=True)
    # The last place of every distinct rate: that many subscriptions have it or more.
    for place, rate in enumerate(rates, 1):
        if place == len(rates) or rates[place] != rate:
            bound = max(bound, _fewest_matching(bins, rate, place))
    return bound


def _fewest_matching(bins: Sequence[Bin], rate: int, count: int) -> int:
    limits = []
    for one in bins:
        most = one.delay.most(rate)
        limits.append(count if most is None else max(0, most))
    return _fewest(limits, count)


def _fewest(parts: Sequence[int], whole: int) -> int:
    """How many of the largest parts make up the whole."""
    for number, part in enumerate(sorted(parts, reverse=True), 1):
        whole -= part
        if whole <= 0:
            return number
    return len(parts) + 1 if whole > 0 else 1
