"""PAIRWISE-K and PAIRWISE-N, the related work that green compares with (§VI): clusters without regard to capacities.

The closest two clusters under XOR are merged until there are K (as many as CRAM with XOR has in the end) or N (one per
broker). The clusters go to random brokers (K), or one to each (N); the overlay is AUTOMATIC's, see baselines.py.
Subscriptions without traffic are close to no other and make no cluster; they are distributed over the clusters in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from random import Random

from runnel.planning.algorithms.cram.exhaustive import ExhaustiveSearch
from runnel.planning.algorithms.cram.gifs import Gif, group_by_profile
from runnel.planning.algorithms.packing import Scheme
from runnel.planning.load import Item, Traffic
from runnel.planning.profiles import union


def pairwise_clusters(items: Sequence[Item], traffic: Traffic, count: int) -> list[list[int]]:
    """`count` clusters of items (as places in the sequence), or fewer if there are fewer items.

    >>> from runnel.planning.profiles import PublisherProfile
    >>> traffic = Traffic((PublisherProfile("P", 1.0, 10.0, 9),), (10,))
    >>> profiles = [0b1111, 0b1110, 0b1000000, 0b1111]
    >>> pairwise_clusters([Item({0: bits}, 1, (n,)) for n, bits in enumerate(profiles)], traffic, 2)
    [[2], [0, 3, 1]]
    """
    gifs = group_by_profile(items)
    clusters = {gif.number: sorted(gif.units) for gif in gifs}
    if len(gifs) > count:
        _merge_closest(gifs, clusters, traffic, count)
    found = _split_to_count(list(clusters.values()), count)
    quiet = [number for number, one in enumerate(items) if not one.profile]
    spare = max(0, count - len(found))
    found += [[number] for number in quiet[:spare]]
    for place, number in enumerate(quiet[spare:]):
        found[place % len(found)].append(number)
    return found


def _merge_closest(
    gifs: list[Gif], clusters: dict[int, list[int]], traffic: Traffic, count: int
) -> None:
    """Merge the closest pair until `count` clusters are left."""
    search = ExhaustiveSearch("XOR", traffic.spans)
    search.add_all(gifs)
    alive = {gif.number: gif for gif in gifs}
    heap: list[tuple[float, int, int]] = []

    def look(gif: Gif) -> None:
        found = search.closest(gif, lambda one, other: True)
        if found:
            heappush(heap, (-found[0], gif.number, found[1].number))

    for gif in gifs:
        look(gif)
    heapify(heap)
    fresh = len(gifs)
    while len(alive) > count and heap:
        _, number, partner = heappop(heap)
        if number not in alive:
            continue
        if partner not in alive:
            look(alive[number])
            continue
        one, other = alive.pop(number), alive.pop(partner)
        search.remove(one)
        search.remove(other)
        new = Gif(fresh, union([one.profile, other.profile]))
        fresh += 1
        alive[new.number] = new
        clusters[new.number] = clusters.pop(number) + clusters.pop(partner)
        search.add(new)
        look(new)


def _split_to_count(clusters: list[list[int]], count: int) -> list[list[int]]:
    """Split the largest clusters until there are `count`, or until none can be split."""
    found = [list(one) for one in clusters]
    while 0 < len(found) < count:
        largest = max(found, key=len)
        if len(largest) < 2:
            break
        half = len(largest) // 2
        found.append(largest[half:])
        del largest[half:]
    return found


def pairwise_scheme(
    items: Sequence[Item],
    brokers: Sequence[str],
    traffic: Traffic,
    clusters: int | None = None,
    seed: int = 0,
) -> Scheme:
    """PAIRWISE-K with a number of clusters, at random brokers; PAIRWISE-N without, one cluster for each broker."""
    found = pairwise_clusters(items, traffic, len(brokers) if clusters is None else clusters)
    random = Random(f"{seed}/pairwise")
    homes = brokers if clusters is None else [random.choice(brokers) for _ in found]
    places: dict[str, list[int]] = {broker: [] for broker in brokers}
    for broker, cluster in zip(homes, found, strict=False):
        places[broker] += cluster
    rate = sum(
        traffic.rate(union(items[number].profile for number in numbers))
        for numbers in places.values()
    )
    return Scheme(
        {
            broker: tuple(member for number in numbers for member in items[number].members)
            for broker, numbers in places.items()
        },
        rate,
    )
