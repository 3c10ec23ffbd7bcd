"""CRAM's optimisation 2 (green §IV-C2): the poset of groups, and its search for the closest partner of one.

Optimisation 3 (§IV-C3) is `clustering.py::Clustering._cluster_one_to_many`. Two functions at the end of this file serve
it: `covered_gif_set` picks the set that is clustered, and `closeness_with_set` says how close that is.

Groups are nodes; parents cover children, and no edge skips a node in between. The search for the closest partner of a
group is breadth first from the top. If a node has no bits in common with the group, nor have its descendants. On the
way down, closeness rises up to the group's own place in the poset and falls below it; so the search does not descend
below a node with less closeness than its parent. That is a heuristic: `exhaustive.py` compares with every group, and
the benchmark reports the difference. Closeness under XOR is never zero, so XOR does not use a poset.

The top nodes are indexed by publisher, since groups that share no publisher have no bits in common.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from runnel.planning.algorithms.cram.closeness import (
    PAIR_METRICS,
    Metric,
    count_common_bits,
    covers,
)
from runnel.planning.algorithms.cram.gifs import Gif
from runnel.planning.profiles import Profile, Weights, size, union

Allowed = Callable[[Gif, Gif], bool]
"""Whether two groups may be paired (they may not after their cluster failed the allocation test)."""


class Search(Protocol):
    """Finds the closest partner of a group."""

    computations: int
    """How many times the closeness of two groups was computed."""

    def add_all(self, gifs: Sequence[Gif]) -> None:
        """Add the groups at the start."""

    def add(self, gif: Gif) -> None:
        """Add a group."""

    def remove(self, gif: Gif) -> None:
        """Remove a group."""

    def closest(self, gif: Gif, allowed: Allowed) -> tuple[float, Gif] | None:
        """The closest other group that may be paired, with a closeness above 0."""

    def find_covered(self, gif: Gif) -> list[Gif]:
        """Groups that this one covers."""


class GifPoset:
    """The groups, ordered by inclusion of their bits."""

    def __init__(self, metric: Metric, weights: Weights | None = None) -> None:
        self.computations = 0
        self._metric = PAIR_METRICS[metric]
        self._weights = weights
        self._tops: dict[int, dict[int, Gif]] = {}  # publisher → groups without parents
        self._searches = 0

    def add_all(self, gifs: Sequence[Gif]) -> None:
        """Add the groups at the start, the largest first, so that a new group covers none of those before it."""
        for gif in sorted(gifs, key=lambda one: (-one.size, one.number)):
            self._link(gif, self._parents_of(gif), [])

    def add(self, gif: Gif) -> None:
        """Add a group between those that cover it and those that it covers."""
        parents = self._parents_of(gif)
        self._link(gif, parents, self._children_of(gif, parents))

    def _link(self, gif: Gif, parents: Sequence[Gif], children: Sequence[Gif]) -> None:
        for child in children:
            if not child.parents:
                self._drop_top(child)
            for parent in parents:
                if child.parents.pop(parent.number, None):
                    del parent.children[child.number]
            child.parents[gif.number] = gif
            gif.children[child.number] = child
        for parent in parents:
            parent.children[gif.number] = gif
            gif.parents[parent.number] = parent
        if not parents:
            self._add_top(gif)

    def remove(self, gif: Gif) -> None:
        """Remove a group; its parents cover what it covered."""
        if not gif.parents:
            self._drop_top(gif)
        for parent in gif.parents.values():
            del parent.children[gif.number]
        for child in gif.children.values():
            del child.parents[gif.number]
            for parent in gif.parents.values():
                if not any(covers(parent.profile, one.profile) for one in child.parents.values()):
                    child.parents[parent.number] = parent
                    parent.children[child.number] = child
            if not child.parents:
                self._add_top(child)
        gif.parents, gif.children = {}, {}

    def find_covered(self, gif: Gif) -> list[Gif]:
        """The children of a group."""
        return list(gif.children.values())

    def closest(self, gif: Gif, allowed: Allowed) -> tuple[float, Gif] | None:
        """The closest partner, breadth first from the top, without descending where closeness falls."""
        self._searches += 1
        mark, metric, profile, own = self._searches, self._metric, gif.profile, gif.size
        weights = self._weights
        best: Gif | None = None
        best_value = 0.0
        queue = deque((node, 0.0) for node in self._tops_near(gif))
        while queue:
            node, above = queue.popleft()
            if node.mark == mark:
                continue
            node.mark = mark
            if node is not gif:
                both = count_common_bits(profile, node.profile, weights)
                self.computations += 1
                if not both:
                    continue
                value = metric(both, own, node.size)
                if allowed(gif, node):
                    if value > best_value:
                        best_value, best = value, node
                    if value < above:
                        continue
                    above = value
            # The search continues below the group itself and below groups that may not be its partner.
            for child in node.children.values():
                if child.mark != mark:
                    queue.append((child, above))
        return None if best is None else (best_value, best)

    def _tops_near(self, gif: Gif) -> list[Gif]:
        """The top nodes that have a publisher in common with a group."""
        return [
            node for publisher in gif.profile for node in self._tops.get(publisher, {}).values()
        ]

    def _add_top(self, gif: Gif) -> None:
        for publisher in gif.profile:
            self._tops.setdefault(publisher, {})[gif.number] = gif

    def _drop_top(self, gif: Gif) -> None:
        for publisher in gif.profile:
            del self._tops[publisher][gif.number]

    def _parents_of(self, gif: Gif) -> list[Gif]:
        """The lowest groups that cover this one."""
        found: dict[int, Gif] = {}
        seen: set[int] = set()
        profile = gif.profile
        stack = [node for node in self._tops_near(gif) if covers(node.profile, profile)]
        while stack:
            node = stack.pop()
            if node.number in seen:
                continue
            seen.add(node.number)
            lower = [one for one in node.children.values() if covers(one.profile, profile)]
            if lower:
                stack += lower
            else:
                found[node.number] = node
        return list(found.values())

    def _children_of(self, gif: Gif, parents: Sequence[Gif]) -> list[Gif]:
        """The highest groups that this one covers. They are below every parent, so one parent is searched."""
        fewest = min(parents, key=lambda one: len(one.children), default=None)
        stack = self._tops_near(gif) if fewest is None else list(fewest.children.values())
        found: dict[int, Gif] = {}
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if node.number in seen:
                continue
            seen.add(node.number)
            if covers(gif.profile, node.profile):
                found[node.number] = node
            elif count_common_bits(gif.profile, node.profile):
                stack += node.children.values()
        return [
            one
            for one in found.values()
            if not any(
                other is not one and covers(other.profile, one.profile) for other in found.values()
            )
        ]


def covered_gif_set(
    covered: Iterable[Gif],
    need_of: Callable[[Gif], int],
    room: int,
    weights: Weights | None = None,
) -> list[Gif]:
    """Optimisation 3's covered GIF set: greedy set cover by groups that need no more than `room` together.

    Each step takes the group with the most new bits, among equals the one with the least need. It ends when no bit
    would be new, or when the next group would exceed the room.

    >>> left, right, both = Gif(0, {0: 0b0011}), Gif(1, {0: 0b1100}), Gif(2, {0: 0b0111})
    >>> [one.number for one in covered_gif_set([left, right, both], lambda gif: 1, 2)]
    [2, 1]
    """
    rest = list(covered)
    chosen: list[Gif] = []
    have: Profile = {}
    while rest:
        new = [one.size - count_common_bits(one.profile, have, weights) for one in rest]
        at = max(range(len(rest)), key=lambda n: (new[n], -need_of(rest[n]), -rest[n].number))
        room -= need_of(rest[at])
        if not new[at] or room < 0:
            break
        chosen.append(rest.pop(at))
        have = union([have, chosen[-1].profile])
    return chosen


def closeness_with_set(
    metric: Metric, parent: Profile, chosen: Sequence[Gif], weights: Weights | None = None
) -> float:
    """The closeness of a covered GIF set, as one profile, to the group that covers it."""
    have = union(one.profile for one in chosen)
    if not have:
        return 0.0
    both = count_common_bits(parent, have, weights)
    return PAIR_METRICS[metric](both, size(parent, weights), size(have, weights))
