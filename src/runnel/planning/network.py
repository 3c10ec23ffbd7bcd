"""The planner's input: the brokers, the overlay, the clients and their profiles, as they are now.

CROC makes it from the brokers' answers, the pipeline from traces. Callers refer to clients by name; the planner
refers to them by number, which is their place in `subscriptions` or `publishers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from runnel.errors import InputError
from runnel.planning.foresight import Foresight
from runnel.planning.layout import Layout, parents_from_links
from runnel.planning.load import PLAIN, Bin, Capacity, Item, Scaling, Traffic, make_item
from runnel.planning.profiles import (
    BITS,
    Profile,
    PublisherProfile,
    SubscriptionProfile,
    numbers_of,
    synchronise,
)


@dataclass(frozen=True, slots=True)
class Network:
    """A network and its traffic. The `homes` are the brokers of the clients; None: the client has no broker yet.

    `counts` says how many subscriptions each entry of `subscriptions` stands for, if it is a client with several.
    Without it each counts as one. With `foresight`, needs are those of the window to come.
    """

    brokers: tuple[Capacity, ...]
    publishers: tuple[PublisherProfile, ...]
    subscriptions: tuple[str, ...]
    profiles: tuple[Profile, ...]
    spans: tuple[int, ...]
    links: tuple[tuple[str, str], ...] = ()
    publisher_homes: tuple[str | None, ...] = ()
    subscription_homes: tuple[str | None, ...] = ()
    scaling: Scaling = field(default=PLAIN)
    counts: tuple[int, ...] = ()
    foresight: Foresight | None = None

    def __post_init__(self) -> None:
        names = {one.name for one in self.brokers}
        if len(names) != len(self.brokers):
            raise InputError("two brokers have the same name: give each its own")
        numbers_of(self.subscriptions)
        numbers_of([one.name for one in self.publishers])
        for home in (*self.publisher_homes, *self.subscription_homes):
            if home is not None and home not in names:
                raise InputError(f"a client is at broker {home}, which is not among the brokers")
        there = (len(self.subscriptions), len(self.publishers))
        given = (len(self.profiles), len(self.spans))
        if given != there:
            raise InputError(
                f"there are {there} subscriptions and publishers, but {given} profiles"
            )

    def traffic(self) -> Traffic:
        """The publishers, for the load model."""
        return Traffic(self.publishers, self.spans, self.scaling, self.foresight)

    def items(self) -> list[Item]:
        """One item to be packed for each entry of `subscriptions`."""
        traffic = self.traffic()
        found = [
            make_item(traffic, profile, number) for number, profile in enumerate(self.profiles)
        ]
        if not self.counts:
            return found
        counted = zip(found, self.counts, strict=True)
        return [replace(one, count=count) for one, count in counted]

    def bins(self) -> list[Bin]:
        """The brokers with all their capacity, without any constraint."""
        return [Bin(one.name, one.room, one.delay) for one in self.brokers]

    def layout(self) -> Layout | None:
        """The network as it is now; None if it is not a single tree or if a client has no broker."""
        homes = (*self.publisher_homes, *self.subscription_homes)
        whole = len(homes) == len(self.publishers) + len(self.subscriptions)
        in_use = {*homes, *(name for link in self.links for name in link)}
        # The other brokers are on standby. A single broker is in use even without links and clients.
        names = [one.name for one in self.brokers if one.name in in_use or len(self.brokers) == 1]
        if not whole or None in homes or not names or len(self.links) != len(names) - 1:
            return None
        parents = parents_from_links(names, self.links, names[0])
        if len(parents) != len(names):
            return None
        places: dict[str, list[int]] = {name: [] for name in names}
        for number, home in enumerate(self.subscription_homes):
            places[str(home)].append(number)
        publishers = {number: str(home) for number, home in enumerate(self.publisher_homes)}
        return Layout(parents, {name: tuple(found) for name, found in places.items()}, publishers)


def network_from_profiles(
    brokers: Sequence[Capacity],
    publishers: Sequence[PublisherProfile],
    subscriptions: Sequence[SubscriptionProfile],
    *,
    links: Sequence[tuple[str, str]] = (),
    publisher_homes: Sequence[str | None] = (),
    subscription_homes: Sequence[str | None] = (),
    length: int = BITS,
    scaling: Scaling = PLAIN,
) -> Network:
    """Make a network from the profiles that brokers keep, whose vectors are synchronised to common windows."""
    windows = synchronise(publishers, subscriptions, length)
    return Network(
        tuple(brokers),
        tuple(publishers),
        tuple(one.name for one in subscriptions),
        windows.profiles,
        windows.spans,
        tuple(links),
        tuple(publisher_homes),
        tuple(subscription_homes),
        scaling,
    )
