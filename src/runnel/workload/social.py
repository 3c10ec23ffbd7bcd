"""The data set DT-FB of mesh: users subscribe to what their friends do.

Printed: "extracted from real-world traces of user interaction in online social networks" on C1 (120 brokers),
120,000 subscriptions, 6.5% matched by a publication, 3,600 msg/min in all. The method stands in a report that
we do not have.

Inferred: a user has one subscription per friend, to what that friend does · 6.5% cannot be a share of such
subscriptions (nobody has 7,800 friends among 120,000 ties), and Fig. 8(b) counts "% matching brokers", so it is
read as the share of *brokers* reached, 7.8 of 120 · friends live near each other, else more brokers would be
reached: some users, as many as it takes to come to that share, are placed with a friend of theirs, the others
by lot · one publisher at every broker speaks for the users there, as often as they do something.

`friends` and `interactions` are files (friends.py says how they look); where none is given they are drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Annotated, NamedTuple

from msgspec import Meta

from runnel.errors import InputError
from runnel.language import Filter, Op, Predicate
from runnel.workload.files import Event
from runnel.workload.friends import (
    Graph,
    Interaction,
    draw_friends,
    draw_interactions,
    friends_in_a_row,
    read_friends,
    read_interactions,
)
from runnel.workload.parameters import Count, Parameters, Rate, Share
from runnel.workload.shape import Loop, Subscriber, Workload, WorkloadPublisher

Crowding = Annotated[float, Meta(ge=1, le=1_000)]

CLASS = "SOCIAL"
TOLERANCE = 0.01
_STEPS = 12


class SocialParameters(Parameters, frozen=True):
    """`users` and `subscriptions` are for a drawn graph only. `reached_share` 0 places every user by lot.

    A broker takes `crowding` times the average number of users, and no more.
    """

    friends: str = ""
    interactions: str = ""
    users: Count = 10_000
    subscriptions: Count = 120_000
    drawn_interactions: Count = 20_000
    brokers: Count = 120
    reached_share: Share = 0.065
    crowding: Crowding = 2.0
    rate_per_min: Rate = 3_600.0


class _Placement(NamedTuple):
    """A placement: its distance from the target, its locality, brokers reached per publication, user → broker."""

    off: float
    locality: float
    reached: float
    homes: dict[int, int]


def make_social(parameters: SocialParameters, seed: int, folder: Path) -> Workload:
    """Make the workload; `facts` tells the locality that was found and what it comes to."""
    graph, interactions = _read_or_draw(parameters, seed, folder)
    placed = _place(graph, interactions, parameters, seed)
    wants = {user: _friend_filter(user) for user in graph}
    subscribers = tuple(
        Subscriber(f"sub-{user}-{friend}", wants[friend], placed.homes[user], f"user-{user}")
        for user, friends in graph.items()
        for friend in friends
    )
    matched = sum(len(graph.get(one.sender, ())) for one in interactions) / len(interactions)
    facts = {
        "locality": placed.locality,
        "brokers_reached": placed.reached,
        "matched_share": matched / len(subscribers),
    }
    publishers = _publishers(interactions, placed.homes, parameters)
    return Workload("social", publishers, subscribers, facts)


def _read_or_draw(
    parameters: SocialParameters, seed: int, folder: Path
) -> tuple[Graph, Sequence[Interaction]]:
    random = Random(f"{seed}/social")
    if parameters.friends:
        graph = read_friends(folder / parameters.friends)
    elif parameters.interactions:
        raise InputError("friends: is missing: a file of interactions needs the graph of its users")
    else:
        graph = draw_friends(parameters.users, parameters.subscriptions // 2, random)
    if parameters.interactions:
        return graph, read_interactions(folder / parameters.interactions)
    return graph, list(draw_interactions(graph, parameters.drawn_interactions, random))


def _friend_filter(friend: int) -> Filter:
    return Filter([Predicate("class", Op.EQ, CLASS), Predicate("user", Op.EQ, friend)])


def _publishers(
    interactions: Sequence[Interaction], homes: dict[int, int], parameters: SocialParameters
) -> tuple[WorkloadPublisher, ...]:
    """One publisher per broker where somebody does something, with its part of the rate."""
    spoken: dict[int, list[Event]] = {}
    for one in interactions:
        event: Event = {
            "class": CLASS,
            "user": one.sender,
            "recipient": one.recipient,
            "kind": one.kind,
        }
        spoken.setdefault(homes[one.sender], []).append(event)
    each = parameters.rate_per_min / 60 / len(interactions)
    everything = Filter([Predicate("class", Op.EQ, CLASS)])
    return tuple(
        WorkloadPublisher(
            f"pub-{broker}",
            everything,
            each * len(spoken[broker]),
            Loop(spoken[broker]),
            broker,
        )
        for broker in sorted(spoken)
    )


def _place(
    graph: Graph, interactions: Sequence[Interaction], parameters: SocialParameters, seed: int
) -> _Placement:
    """Find the locality with which publications reach the wanted share of brokers."""
    active = Counter(one.sender for one in interactions)
    silent = [user for user in sorted(active) if user not in graph]
    users = [*friends_in_a_row(graph), *silent]
    room = int(len(users) / parameters.brokers * parameters.crowding) + 1
    wanted = parameters.reached_share * parameters.brokers

    def attempt(locality: float) -> _Placement:
        random = Random(f"{seed}/homes")
        homes = _settle(graph, users, [room] * parameters.brokers, locality, random)
        reached = _count_reached(graph, active, homes)
        return _Placement(abs(reached - wanted), locality, reached, homes)

    best = attempt(0.0)
    if not wanted:
        return best
    low, high = 0.0, 1.0
    for step in range(_STEPS):
        # The first try is the most local one, which tells whether the target can be reached at all.
        found = attempt(1.0 if step == 0 else (low + high) / 2)
        best = min(best, found, key=lambda placed: placed.off)
        if step:
            low, high = (found.locality, high) if found.reached > wanted else (low, found.locality)
    if best.off > TOLERANCE * parameters.brokers:
        nearest = best.reached / parameters.brokers
        raise InputError(
            f"reached_share: this graph cannot come to {parameters.reached_share}, the nearest is "
            f"{nearest:.3f}: take that, let brokers be more crowded (crowding), or take 0 to place users by lot"
        )
    return best


def _settle(
    graph: Graph, users: Sequence[int], free: list[int], locality: float, random: Random
) -> dict[int, int]:
    """Give every user a broker with room: with probability `locality` where most friends are, else any."""
    brokers = len(free)
    homes: dict[int, int] = {}
    for user in users:
        is_local = random.random() < locality
        lot = random.randrange(brokers)
        home = -1
        if is_local:
            near = Counter(homes[friend] for friend in graph.get(user, ()) if friend in homes)
            crowd = [(-count, broker) for broker, count in near.items() if free[broker]]
            home = min(crowd)[1] if crowd else -1
        if home < 0:
            home = lot
            while not free[home]:
                home = (home + 1) % brokers
        homes[user] = home
        free[home] -= 1
    return homes


def _count_reached(graph: Graph, active: Counter[int], homes: dict[int, int]) -> float:
    """How many brokers a publication reaches on average."""
    total = sum(
        count * len({homes[friend] for friend in graph.get(user, ())})
        for user, count in active.items()
    )
    return total / active.total()
