"""Splitting clusters, for fewer brokers at a low rate. Not in the paper; the option `split` of CRAM turns it on.

At the end of CRAM clusters are large and pack badly: clusters of two thirds of a broker need a broker each. CRAM's
schemes with few brokers are earlier ones, in which single subscriptions fill the gaps at a high rate. Here the final
clusters are packed into a given number of brokers. A cluster goes whole into the tightest gap that has room for it;
clusters that fit nowhere are split over the widest gaps, heavy members first, so that the members that are separated
from their cluster have a low rate.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from runnel.planning.algorithms.packing import Filling, Scheme
from runnel.planning.load import Bin, Item, Traffic, strongest_first

ONE_BY_ONE = 8


def split_packing(
    clusters: Sequence[Item],
    items: Sequence[Item],
    bins: Sequence[Bin],
    traffic: Traffic,
    brokers: int,
) -> Scheme | None:
    """Pack clusters of items on the `brokers` strongest brokers; None if they do not fit.

    >>> from runnel.planning.profiles import PublisherProfile
    >>> traffic = Traffic((PublisherProfile("P", 1.0, 10.0, 9),), (10,))
    >>> items = [Item({0: 1}, 2, (number,)) for number in range(6)]
    >>> clusters = [Item({0: 1}, 4, (n, n + 1), 2) for n in (0, 2, 4)]
    >>> split_packing(clusters, items, [Bin("A", 6), Bin("B", 6), Bin("C", 6)], traffic, 2).placed
    {'A': (0, 1, 4), 'B': (2, 3, 5)}
    """
    single = {number: one for one in items for number in one.members}
    fillings = [Filling(one, traffic) for one in strongest_first(bins)[:brokers]]
    gaps = Gaps(fillings)
    late = [
        cluster
        for cluster in sorted(clusters, key=lambda one: -one.need)
        if not any(gaps.put(place, cluster) for place in gaps.tightest(cluster.need))
    ]
    for cluster in late:
        filling = next(gaps.widest(), -1)
        for number in sorted(cluster.members, key=lambda one: -single[one].need):
            one = single[number]
            if filling < 0 or not gaps.put(filling, one):
                filling = next((place for place in gaps.widest() if gaps.put(place, one)), -1)
                if filling < 0:
                    return None
    used = [one for one in fillings if one.members or one.bin.base]
    idle = [one for one in bins if one.base and one not in [filling.bin for filling in fillings]]
    return Scheme(
        {one.bin.name: tuple(one.members) for one in used} | {one.name: () for one in idle},
        sum(traffic.rate(one.profile) for one in used)
        + sum(traffic.rate(one.base.profile) for one in idle if one.base),
    )


def split_on_fewest_brokers(
    clusters: Sequence[Item],
    items: Sequence[Item],
    bins: Sequence[Bin],
    traffic: Traffic,
    least: int,
    most: int,
) -> Scheme | None:
    """Pack clusters on as few brokers as possible, from `least` to `most`; None if they do not fit.

    The first few numbers are tried one by one, then in growing steps, and at last by bisection.
    """
    failed, brokers, step = least - 1, least, 1
    while brokers <= most:
        found = split_packing(clusters, items, bins, traffic, brokers)
        if found:
            return _search_fewer(found, clusters, items, bins, traffic, failed)
        failed = brokers
        step = 1 if brokers - least < ONE_BY_ONE else 2 * step
        brokers = min(brokers + step, most) if brokers < most else most + 1
    return None


def _search_fewer(
    found: Scheme,
    clusters: Sequence[Item],
    items: Sequence[Item],
    bins: Sequence[Bin],
    traffic: Traffic,
    failed: int,
) -> Scheme:
    """Bisect between a number of brokers that failed and one that succeeded."""
    while found.brokers - failed > 1:
        middle = (found.brokers + failed) // 2
        fewer = split_packing(clusters, items, bins, traffic, middle)
        if fewer is None:
            failed = middle
        else:
            found = fewer
    return found


class Gaps:
    """The brokers, ordered by the output that they have left."""

    def __init__(self, fillings: Sequence[Filling]) -> None:
        self._fillings = fillings
        self._order = sorted((one.left, place) for place, one in enumerate(fillings))

    def tightest(self, need: int) -> Iterator[int]:
        """The places of brokers with room for `need`, the tightest first; among equals the stronger broker."""
        order = self._order
        for at in range(bisect_left(order, (need, -1)), len(order)):
            yield order[at][1]

    def widest(self) -> Iterator[int]:
        """All places, the widest first; among equals the stronger broker."""
        order = self._order
        end = len(order)
        while end:
            start = bisect_left(order, (order[end - 1][0], -1))
            for at in range(start, end):
                yield order[at][1]
            end = start

    def put(self, place: int, item: Item) -> bool:
        """Put an item into the broker at a place, if it fits; whether it did."""
        filling = self._fillings[place]
        left = filling.left
        if not filling.take_if_it_fits(item):
            return False
        del self._order[bisect_left(self._order, (left, place))]
        insort(self._order, (filling.left, place))
        return True
