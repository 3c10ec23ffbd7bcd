"""Paths between the brokers of a network, given its links."""

from __future__ import annotations

from collections.abc import Iterable


def path_between(links: Iterable[tuple[str, str]], start: str, end: str) -> list[str]:
    """The brokers on a path, both ends included; empty if there is none. In a tree there is at most one.

    >>> path_between([("A", "B"), ("B", "C")], "C", "A")
    ['C', 'B', 'A']
    """
    neighbours: dict[str, list[str]] = {}
    for one, other in links:
        neighbours.setdefault(one, []).append(other)
        neighbours.setdefault(other, []).append(one)
    came_from: dict[str, str | None] = {start: None}
    frontier = [start]
    while frontier and end not in came_from:
        here = frontier.pop()
        for other in neighbours.get(here, ()):
            if other not in came_from:
                came_from[other] = here
                frontier.append(other)
    path: list[str] = []
    step: str | None = end if end in came_from else None
    while step is not None:
        path.append(step)
        step = came_from[step]
    return path[::-1]


def find_loops(links: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The loops that links form, each as its brokers in order; a tree has none. A link may be given from both ends.

    >>> find_loops([("A", "B"), ("B", "C"), ("B", "A"), ("C", "A"), ("C", "D")])
    [['A', 'B', 'C']]
    """
    tree: list[tuple[str, str]] = []
    loops = []
    for one, other in dict.fromkeys((min(pair), max(pair)) for pair in links):
        if path := path_between(tree, one, other):
            loops.append(path)
        else:
            tree.append((one, other))
    return loops
