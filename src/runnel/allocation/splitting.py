"""Splitting clusters: fewer brokers at a low rate. Not in the paper; CRAM does it where it is asked to.

At the end of CRAM clusters are large, and large pieces pack badly: clusters of two thirds of a broker need a broker
each. The schemes with few brokers come from earlier, when single subscriptions still filled the gaps, from wherever
they were. Here the clusters of the end are packed into a given number of brokers, whole where they fit, in the tightest
gap; the others are split over the largest gaps, heavy members first, so that what ends up elsewhere is of little rate.
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.allocation.load import Bin, Item, Traffic, strongest_first
from runnel.allocation.packing import Filling, Scheme


def split_packing(
    clusters: Sequence[Item],
    items: Sequence[Item],
    bins: Sequence[Bin],
    traffic: Traffic,
    brokers: int,
) -> Scheme | None:
    """These clusters of items on the strongest so many brokers; None if that does not work out.

    >>> from runnel.allocation.profiles import PublisherProfile
    >>> traffic = Traffic((PublisherProfile("P", 1.0, 10.0, 9),), (10,))
    >>> items = [Item({0: 1}, 2, (number,)) for number in range(6)]
    >>> clusters = [Item({0: 1}, 4, (n, n + 1), 2) for n in (0, 2, 4)]
    >>> split_packing(clusters, items, [Bin("A", 6), Bin("B", 6), Bin("C", 6)], traffic, 2).placed
    {'A': (0, 1, 4), 'B': (2, 3, 5)}
    """
    single = {number: one for one in items for number in one.members}
    fillings = [Filling(one, traffic) for one in strongest_first(bins)[:brokers]]
    late = []
    for cluster in sorted(clusters, key=lambda one: -one.need):
        tightest = sorted(fillings, key=lambda one: one.left)
        if not any(filling.takes(cluster) for filling in tightest):
            late.append(cluster)
    for cluster in late:
        filling = max(fillings, key=lambda one: one.left)
        for number in sorted(cluster.members, key=lambda one: -single[one].need):
            if not filling.takes(single[number]):
                widest = sorted(fillings, key=lambda one: -one.left)
                taken = (one for one in widest if one.takes(single[number]))
                found = next(taken, None)
                if found is None:
                    return None
                filling = found
    used = [one for one in fillings if one.members or one.bin.base]
    idle = [one for one in bins if one.base and one not in [filling.bin for filling in fillings]]
    return Scheme(
        {one.bin.name: tuple(one.members) for one in used} | {one.name: () for one in idle},
        sum(traffic.rate(one.profile) for one in used)
        + sum(traffic.rate(one.base.profile) for one in idle if one.base),
    )
