"""Friendship graphs: read from a file, or drawn by a seed where there is none.

A file has the columns user_a and user_b, one row per tie; ties have no direction, a tie of a user to itself is left
out. A file of interactions has sender and recipient, in order of time, and may have second and kind.

The drawn graph has what matters here of a real one: circles of friends with few ties between them, and few users with
very many friends. Its sizes are not fitted to any particular network.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import NamedTuple

from runnel.errors import InputError
from runnel.workload.files import Event, read_events

Graph = dict[int, list[int]]
"""User → friends, both in ascending order."""

CIRCLE = 50
OWN_CIRCLE_SHARE = 0.85
"""How many users a circle has, and which share of ties stays inside."""

_TRIES_PER_TIE = 50


class Interaction(NamedTuple):
    """An action of a user that friends subscribe to."""

    sender: int
    recipient: int
    kind: str


def read_friends(path: Path) -> Graph:
    """Read a graph from a file."""
    ties: set[tuple[int, int]] = set()
    for number, row in read_events(path):
        one, other = (_user(path, number, row, column) for column in ("user_a", "user_b"))
        if one != other:
            ties.add((min(one, other), max(one, other)))
    if not ties:
        raise InputError(
            f"{path}: there is no tie in this file: it has the columns user_a and user_b"
        )
    return _graph(sorted(ties))


def read_interactions(path: Path) -> list[Interaction]:
    """Read interactions from a file, in the order in which they stand there."""
    found = [
        Interaction(
            _user(path, number, row, "sender"),
            _user(path, number, row, "recipient"),
            str(row.get("kind", "post")),
        )
        for number, row in read_events(path)
    ]
    if not found:
        raise InputError(f"{path}: there is no interaction in this file")
    return found


def draw_friends(users: int, ties: int, random: Random) -> Graph:
    """Draw a graph with exactly so many ties.

    >>> graph = draw_friends(200, 500, Random(1))
    >>> sum(map(len, graph.values()))
    1000
    """
    if ties > users * (users - 1) // 4:
        raise InputError(
            f"{ties:,} ties are too many for {users:,} users: give more users or fewer subscriptions"
        )
    weights = [random.lognormvariate(0, 1) for _ in range(users)]
    everybody = list(accumulate(weights))
    found: set[tuple[int, int]] = set()
    for _ in range(ties * _TRIES_PER_TIE):
        one = _draw(everybody, 0, users, random)
        start = one // CIRCLE * CIRCLE
        is_own = random.random() < OWN_CIRCLE_SHARE
        first, last = (start, min(start + CIRCLE, users)) if is_own else (0, users)
        other = _draw(everybody, first, last, random)
        if one != other:
            found.add((min(one, other), max(one, other)))
            if len(found) == ties:
                return _graph(sorted(found))
    raise InputError(f"{ties:,} ties do not fit into circles of {CIRCLE} users: give more users")


def draw_interactions(graph: Graph, count: int, random: Random) -> Iterator[Interaction]:
    """Yield interactions between friends; who has more friends is more active, by the root of their number."""
    users = list(graph)
    weights = list(accumulate(math.sqrt(len(graph[user])) for user in users))
    for _ in range(count):
        sender = users[_draw(weights, 0, len(users), random)]
        yield Interaction(sender, random.choice(graph[sender]), "post")


def friends_in_a_row(graph: Graph) -> list[int]:
    """All users, friends near each other: breadth first, from the one with the most friends.

    >>> friends_in_a_row({1: [9], 2: [3], 3: [2, 9], 9: [1, 3]})
    [3, 2, 9, 1]
    """
    order: dict[int, None] = {}
    for start in sorted(graph, key=lambda user: (-len(graph[user]), user)):
        if start in order:
            continue
        found = [start]
        order[start] = None
        for user in found:  # grows while it is walked
            for friend in graph[user]:
                if friend not in order:
                    order[friend] = None
                    found.append(friend)
    return list(order)


def _draw(sums: Sequence[float], first: int, last: int, random: Random) -> int:
    """A place from `first` to before `last`, by weight; `sums` are the running sums of the weights."""
    low = sums[first - 1] if first else 0.0
    at = bisect(sums, low + random.random() * (sums[last - 1] - low), first, last - 1)
    return min(at, last - 1)


def _graph(ties: Sequence[tuple[int, int]]) -> Graph:
    friends: Graph = {}
    for one, other in ties:
        friends.setdefault(one, []).append(other)
        friends.setdefault(other, []).append(one)
    return {user: sorted(friends[user]) for user in sorted(friends)}


def _user(path: Path, number: int, row: Event, column: str) -> int:
    user = row.get(column)
    if not isinstance(user, int) or isinstance(user, bool):
        raise InputError(
            f"{path}, line {number}: there is no user number under {column!r}: a friendship file has the "
            "columns user_a and user_b, a file of interactions sender and recipient"
        )
    return user
