"""PAIRWISE-K and PAIRWISE-N, the related work that green compares with (§VI): clusters without regard to capacities.

The closest two clusters under XOR become one, until there are K (what CRAM with XOR ended with) or N (one per
broker). The clusters go to brokers by lot (K), or one to each (N); the overlay is AUTOMATIC's, see baselines.py.
Subscriptions without traffic are close to nothing; they are dealt out to the clusters in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from random import Random

from runnel.allocation.exhaustive import Exhaustive
from runnel.allocation.gifs import Gif, grouped
from runnel.allocation.load import Item, Traffic
from runnel.allocation.packing import Scheme
from runnel.allocation.profiles import union


def pairwise_clusters(items: Sequence[Item], traffic: Traffic, count: int) -> list[list[int]]:
    """That many clusters of items (places in the sequence), or fewer if there are fewer items.

    >>> from runnel.allocation.profiles import PublisherProfile
    >>> traffic = Traffic((PublisherProfile("P", 1.0, 10.0, 9),), (10,))
    >>> profiles = [0b1111, 0b1110, 0b1000000, 0b1111]
    >>> pairwise_clusters([Item({0: bits}, 1, (n,)) for n, bits in enumerate(profiles)], traffic, 2)
    [[2], [0, 3, 1]]
    """
    gifs = grouped(items)
    clusters = {gif.number: sorted(gif.units) for gif in gifs}
    if len(gifs) > count:
        _merge(gifs, clusters, traffic, count)
    found = list(clusters.values())
    quiet = [number for number, one in enumerate(items) if not one.profile]
    found += [[number] for number in quiet[: max(0, count - len(found))]]
    for place, number in enumerate(quiet[max(0, count - len(clusters)) :]):
        found[place % len(found)].append(number)
    return _as_many(found, count)


def _merge(gifs: list[Gif], clusters: dict[int, list[int]], traffic: Traffic, count: int) -> None:
    """The closest pair becomes one, until so many are left."""
    search = Exhaustive("XOR", traffic.spans)
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


def _as_many(clusters: list[list[int]], count: int) -> list[list[int]]:
    """Where there are fewer clusters than asked for, the largest of identical profiles are split."""
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
    items: Sequence[Item], brokers: Sequence[str], traffic: Traffic, clusters: int, seed: int = 0
) -> Scheme:
    """PAIRWISE-N if there are as many clusters as brokers, one for each; else PAIRWISE-K, by lot."""
    found = pairwise_clusters(items, traffic, clusters)
    random = Random(f"{seed}/pairwise")
    homes = [random.choice(brokers) for _ in found] if clusters != len(brokers) else list(brokers)
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
