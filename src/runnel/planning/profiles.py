"""Profiles of publishers and subscriptions: green §III-B.

A publisher's profile has its message rate, its bandwidth and the id of its last publication. A subscription's profile
has one bit vector for each publisher from which it received something: bit i is set if it received the publication
with the id `first` + i. A vector has a bounded length; a publication beyond its end shifts it just far enough.

The vectors of one publisher begin at different ids. `synchronise` brings them to one window, which ends with the last
publication and is as long as the vectors allow. Then bits at the same place stand for the same publication.

Decision, where the paper is silent: the window begins no earlier than the earliest vector of any subscription, so that
publications from before profiling began do not count as unwanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from runnel.bits import vector_of_places
from runnel.errors import InputError

BITS = 1_280
"""The paper's default length of a bit vector."""

Profile = dict[int, int]
"""Publisher's number → bits of its window; only publishers with a bit set. Nobody changes a profile after making it."""

Weights = Sequence[int]
"""Publisher's number → the weight of one of its bits. Without weights every bit counts as 1."""

Event = TypeVar("Event")


@dataclass(frozen=True, slots=True)
class PublisherProfile:
    """One publisher: its name (the paper's advertisement id), messages and bytes per second, its last id."""

    name: str
    rate: float
    bandwidth: float
    last: int


@dataclass(slots=True)
class BitVector:
    """The publications that a subscription received from one publisher.

    >>> vector = BitVector(first=100, length=10)
    >>> vector.record(119); vector.first, bin(vector.bits)
    (110, '0b1000000000')
    """

    first: int
    length: int = BITS
    bits: int = 0

    def record(self, id: int) -> None:
        """Note that the subscription received this publication. One from before `first` is too old to count."""
        beyond = id - self.first - self.length + 1
        if beyond > 0:
            self.bits >>= beyond
            self.first += beyond
        if id >= self.first:
            self.bits |= 1 << (id - self.first)

    def bits_between(self, first: int, last: int) -> int:
        """The bits of the publications from `first` to `last`."""
        shift = self.first - first
        bits = self.bits << shift if shift >= 0 else self.bits >> -shift
        return bits & ((1 << max(0, last - first + 1)) - 1)


@dataclass(slots=True)
class SubscriptionProfile:
    """One subscription: its name and a bit vector per publisher, by the publisher's name."""

    name: str
    vectors: dict[str, BitVector] = field(default_factory=dict)

    def record(self, publisher: str, id: int, length: int = BITS) -> None:
        """Note that the subscription received this publication."""
        vector = self.vectors.get(publisher)
        if vector is None:
            vector = self.vectors[publisher] = BitVector(id, length)
        vector.record(id)


def union(profiles: Iterable[Profile]) -> Profile:
    """The input of a broker that serves all of these (Fig. 1): the OR of the vectors, publisher by publisher.

    >>> union([{0: 0b0011}, {0: 0b0110, 1: 1}])
    {0: 7, 1: 1}
    """
    found: Profile = {}
    for profile in profiles:
        for publisher, bits in profile.items():
            found[publisher] = found.get(publisher, 0) | bits
    return found


def size(profile: Profile, weights: Weights | None = None) -> int:
    """How many bits are set: the paper's |S|.

    >>> size({0: 0b11, 1: 1}), size({0: 0b11, 1: 1}, [10, 1])
    (3, 21)
    """
    if weights is None:
        return sum(bits.bit_count() for bits in profile.values())
    return sum(weights[publisher] * bits.bit_count() for publisher, bits in profile.items())


@dataclass(frozen=True, slots=True)
class Windows:
    """Profiles brought to one window per publisher; `spans` says how many publications each window has."""

    spans: tuple[int, ...]
    profiles: tuple[Profile, ...]


def synchronise(
    publishers: Sequence[PublisherProfile],
    subscriptions: Sequence[SubscriptionProfile],
    length: int = BITS,
) -> Windows:
    """Bring all vectors of a publisher to the window that ends with its last publication.

    >>> adv = PublisherProfile("Adv1", 1.0, 100.0, last=78)
    >>> s1 = SubscriptionProfile("S1", {"Adv1": BitVector(75, 10, 0b0111)})
    >>> s2 = SubscriptionProfile("S2", {"Adv1": BitVector(77, 10, 0b0011)})
    >>> synchronise([adv], [s1, s2])
    Windows(spans=(4,), profiles=({0: 7}, {0: 12}))
    """
    firsts: dict[str, int] = {}
    for subscription in subscriptions:
        for name, vector in subscription.vectors.items():
            firsts[name] = min(firsts.get(name, vector.first), vector.first)
    unknown = sorted(firsts.keys() - {one.name for one in publishers})
    if unknown:
        raise InputError(
            f"there is no profile of publisher {unknown[0]}, from which subscriptions got messages"
        )
    begins = [
        max(one.last - length + 1, min(firsts.get(one.name, one.last), one.last))
        for one in publishers
    ]
    profiles = []
    for subscription in subscriptions:
        profile: Profile = {}
        for number, publisher in enumerate(publishers):
            known = subscription.vectors.get(publisher.name)
            bits = known.bits_between(begins[number], publisher.last) if known else 0
            if bits:
                profile[number] = bits
        profiles.append(profile)
    spans = (one.last - begin + 1 for one, begin in zip(publishers, begins, strict=True))
    return Windows(tuple(spans), tuple(profiles))


def profiles_by_matching(
    windows: Sequence[Sequence[Event]], match: Callable[[Event], Iterable[int]], subscriptions: int
) -> Windows:
    """Make profiles without running a network: match the events of every publisher directly.

    `match` returns the numbers of the subscriptions that match an event.

    >>> profiles_by_matching([[1, 2, 3]], lambda event: [0, 1] if event > 1 else [0], 2).profiles
    ({0: 7}, {0: 6})
    """
    places: list[dict[int, list[int]]] = [{} for _ in range(subscriptions)]
    for publisher, events in enumerate(windows):
        for place, event in enumerate(events):
            for number in match(event):
                places[number].setdefault(publisher, []).append(place)
    profiles = (
        {publisher: vector_of_places(found) for publisher, found in one.items()} for one in places
    )
    return Windows(tuple(len(events) for events in windows), tuple(profiles))


def numbers_of(names: Sequence[str]) -> dict[str, int]:
    """Map every name to its place in the sequence; an error if two are equal.

    >>> numbers_of(["a", "b"])
    {'a': 0, 'b': 1}
    """
    numbers: dict[str, int] = {}
    for number, name in enumerate(names):
        if numbers.setdefault(name, number) != number:
            raise InputError(f"two clients have the name {name}: give each its own")
    return numbers
