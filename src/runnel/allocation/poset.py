"""CRAM's optimisations 2 and 3 (green §IV-C2 and C3): the poset of groups, searching it, and the covered GIF set.

Groups are nodes; parents cover children, and there are no edges across a node in between. The closest partner of a
group is searched from the top, breadth first. Where nothing is in common nothing below has either; and going down,
closeness rises towards the group's own place and falls beyond it: so below a node with less closeness than the one
above it nobody looks. That is a heuristic: `exhaustive.py` looks at everybody, and the benchmark reports the gap.
XOR is never zero, so it has no use for a poset.

The top is kept by publisher: groups that share no publisher have nothing in common and are not even looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from runnel.allocation.closeness import OF_TWO, Metric, covers, in_common
from runnel.allocation.gifs import Gif
from runnel.allocation.profiles import Profile, Weights, size, union

Allowed = Callable[[Gif, Gif], bool]
"""Whether two groups may be paired (they may not after their cluster failed the allocation test)."""


class Search(Protocol):
    """Who finds the closest partner of a group."""

    computations: int
    """How many times the closeness of two groups was computed."""

    def add_all(self, gifs: Sequence[Gif]) -> None:
        """Groups to begin with."""

    def add(self, gif: Gif) -> None:
        """One more group."""

    def remove(self, gif: Gif) -> None:
        """One fewer."""

    def closest(self, gif: Gif, allowed: Allowed) -> tuple[float, Gif] | None:
        """The closest other group that may be paired, with a closeness above 0."""

    def covered(self, gif: Gif) -> list[Gif]:
        """Groups that this one covers."""


class Poset:
    """Groups by inclusion of their bits."""

    def __init__(self, metric: Metric, weights: Weights | None = None) -> None:
        self.computations = 0
        self._metric = OF_TWO[metric]
        self._weights = weights
        self._tops: dict[int, dict[int, Gif]] = {}  # publisher → groups without parents
        self._searches = 0

    def add_all(self, gifs: Sequence[Gif]) -> None:
        """Largest first, a new group covers none of those there already."""
        for gif in sorted(gifs, key=lambda one: (-one.size, one.number)):
            self._link(gif, self._parents_of(gif), [])

    def add(self, gif: Gif) -> None:
        """Put a group between those that cover it and those that it covers."""
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
        """Take a group out; what it covered is covered by its parents."""
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

    def covered(self, gif: Gif) -> list[Gif]:
        """The groups right below."""
        return list(gif.children.values())

    def closest(self, gif: Gif, allowed: Allowed) -> tuple[float, Gif] | None:
        """Breadth first from the top, not below where closeness falls."""
        self._searches += 1
        mark, metric, profile, own = self._searches, self._metric, gif.profile, gif.size
        weights = self._weights
        best: Gif | None = None
        best_value = 0.0
        queue = deque((node, 0.0) for node in self._near(gif))
        while queue:
            node, above = queue.popleft()
            if node.mark == mark:
                continue
            node.mark = mark
            if node is not gif:
                both = in_common(profile, node.profile, weights)
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
            # The group itself, and who may not be its partner, are looked through.
            for child in node.children.values():
                if child.mark != mark:
                    queue.append((child, above))
        return None if best is None else (best_value, best)

    def _near(self, gif: Gif) -> list[Gif]:
        """The tops that have a publisher in common with a group."""
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
        stack = [node for node in self._near(gif) if covers(node.profile, profile)]
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
        """The highest groups that this one covers; they are below every parent, so one is enough to look under."""
        fewest = min(parents, key=lambda one: len(one.children), default=None)
        stack = self._near(gif) if fewest is None else list(fewest.children.values())
        found: dict[int, Gif] = {}
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if node.number in seen:
                continue
            seen.add(node.number)
            if covers(gif.profile, node.profile):
                found[node.number] = node
            elif in_common(gif.profile, node.profile):
                stack += node.children.values()
        return [
            one
            for one in found.values()
            if not any(
                other is not one and covers(other.profile, one.profile) for other in found.values()
            )
        ]


def covered_set(
    covered: Iterable[Gif],
    need_of: Callable[[Gif], int],
    room: int,
    weights: Weights | None = None,
) -> list[Gif]:
    """Optimisation 3's covered GIF set: greedy set cover by groups that need no more than `room` together.

    Each time the group with the most bits that are not in yet; the least need decides between equals. It ends when
    no bit would be new, or when the next one would exceed the room.

    >>> left, right, both = Gif(0, {0: 0b0011}), Gif(1, {0: 0b1100}), Gif(2, {0: 0b0111})
    >>> [one.number for one in covered_set([left, right, both], lambda gif: 1, 2)]
    [2, 1]
    """
    rest = list(covered)
    chosen: list[Gif] = []
    have: Profile = {}
    while rest:
        new = [one.size - in_common(one.profile, have, weights) for one in rest]
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
    """How close a covered GIF set, as one profile, is to the group that covers it."""
    have = union(one.profile for one in chosen)
    if not have:
        return 0.0
    both = in_common(parent, have, weights)
    return OF_TWO[metric](both, size(parent, weights), size(have, weights))
