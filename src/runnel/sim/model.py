"""The reference model: which subscription matches which publication, and what the tables should be, by brute force.

It shares no code with the language, the matcher or the broker. A want is drawn as plain (attribute, operator,
literal) triples over a small universe of values; everything about it is decided by trying all values. The universe
has a value between any two literals and a string for every pair of string literals, so it decides intersection exactly.
"""

from __future__ import annotations

from random import Random
from typing import Any

Triple = tuple[str, str, Any]
ATTRIBUTES = ("x", "y", "s")
NUMBERS = tuple(range(10))
STRINGS = ("a", "ab", "b", "ba", "c")
UNIVERSE: tuple[Any, ...] = (
    *(half / 2 if half % 2 else half // 2 for half in range(-1, 20)),
    *dict.fromkeys((*STRINGS, *(one + other for one in STRINGS for other in (*STRINGS, "z")))),
)
INDEX = {value: index for index, value in enumerate(UNIVERSE)}
ALL = (1 << len(UNIVERSE)) - 1


def holds(op: str, literal: Any, value: Any) -> bool:
    """Whether a value satisfies a predicate.

    >>> holds("<", 5, 4.5), holds("<", 5, "a"), holds("!=", "a", "b")
    (True, False, True)
    """
    if op == "isPresent":
        return True
    if op == "in":
        return value in literal
    if isinstance(value, str) is not isinstance(literal, str):
        return False
    match op:
        case "=":
            return bool(value == literal)
        case "!=":
            return bool(value != literal)
        case "<":
            return bool(value < literal)
        case "<=":
            return bool(value <= literal)
        case ">":
            return bool(value > literal)
        case ">=":
            return bool(value >= literal)
        case "prefix":
            return bool(value[: len(literal)] == literal)
        case _:
            raise ValueError(op)


class Want:
    """A subscription or advertisement: groups of triples; all triples of at least one group must hold."""

    __slots__ = ("_masks", "groups")

    def __init__(self, groups: tuple[tuple[Triple, ...], ...]) -> None:
        self.groups = groups
        self._masks: list[dict[str, int]] = []
        for group in groups:
            masks: dict[str, int] = {}
            for attribute, op, literal in group:
                mask = sum(1 << i for i, v in enumerate(UNIVERSE) if holds(op, literal, v))
                masks[attribute] = masks.get(attribute, ALL) & mask
            if all(masks.values()):
                self._masks.append(masks)

    def matches(self, attributes: dict[str, Any]) -> bool:
        """Whether a publication is wanted."""
        return any(
            all(
                name in attributes and mask >> INDEX[attributes[name]] & 1
                for name, mask in masks.items()
            )
            for masks in self._masks
        )

    def intersects(self, other: Want) -> bool:
        """Whether some publication is wanted by both."""
        return any(
            all(mask & theirs.get(name, ALL) for name, mask in ours.items())
            for ours in self._masks
            for theirs in other._masks
        )

    def draw(self, random: Random) -> dict[str, Any] | None:
        """A publication that it matches; None if there is none."""
        if not self._masks:
            return None
        masks = random.choice(self._masks)
        attributes = {}
        for name in ATTRIBUTES:
            if name in masks or random.random() < 0.7:
                allowed = masks.get(name, ALL)
                values = [v for i, v in enumerate(UNIVERSE) if allowed >> i & 1]
                attributes[name] = random.choice(values)
        return attributes


def draw_triple(random: Random, attribute: str) -> Triple:
    """A predicate on one attribute."""
    if random.random() < 0.06:
        return (attribute, "isPresent", None)
    if attribute == "s":
        op = random.choice(("=", "!=", "in", "prefix", "prefix"))
        if op == "in":
            return (attribute, op, tuple(random.sample(STRINGS, 2)))
        return (attribute, op, random.choice(STRINGS))
    op = random.choice(("=", "!=", "<", "<=", ">", ">=", "<", ">", "in"))
    if op == "in":
        return (attribute, op, tuple(random.sample(NUMBERS, 3)))
    return (attribute, op, random.choice(NUMBERS))


def draw_want(random: Random, *, broad: bool) -> Want:
    """A subscription, or an advertisement (`broad`)."""
    groups = []
    for _ in range(2 if random.random() < 0.12 else 1):
        count = random.choice((0, 1, 1)) if broad else random.choice((1, 1, 2, 2, 3))
        names = random.sample(ATTRIBUTES, count)
        group = [draw_triple(random, name) for name in names]
        if not broad and "x" in names and random.random() < 0.2:
            group.append(("x", random.choice(("<", ">=", "!=")), random.choice(NUMBERS)))
        groups.append(tuple(group))
    return Want(tuple(groups))


def host_name(process: str, generation: int) -> str:
    """The name of the host on which the broker of a generation runs.

    >>> host_name("B1", 1), host_name("B1", 2), generation_of("B1#2"), process_of("B1#2")
    ('B1', 'B1#2', 2, 'B1')
    """
    return process if generation == 1 else f"{process}#{generation}"


def generation_of(host: str) -> int:
    """The generation of the broker that runs there."""
    return int(host.partition("#")[2] or 1)


def process_of(host: str) -> str:
    """The process that it belongs to."""
    return host.partition("#")[0]


class Tree:
    """The overlay: neighbours, and the paths between brokers."""

    def __init__(self, edges: list[tuple[str, str]], brokers: list[str]) -> None:
        self.brokers = brokers
        self.neighbours: dict[str, list[str]] = {broker: [] for broker in brokers}
        for one, other in edges:
            self.neighbours[one].append(other)
            self.neighbours[other].append(one)
        self._toward: dict[str, dict[str, str]] = {}

    def toward(self, target: str) -> dict[str, str]:
        """The next hop to the target, for every broker but the target itself."""
        known = self._toward.get(target)
        if known is None:
            known = self._toward[target] = {}
            queue = [target]
            for here in queue:
                for neighbour in self.neighbours[here]:
                    if neighbour != target and neighbour not in known:
                        known[neighbour] = here
                        queue.append(neighbour)
        return known

    def part(self, broker: str) -> list[str]:
        """The brokers connected to this one, itself included: all of them while none is gone."""
        return [broker, *self.toward(broker)]

    def without(self, gone: str) -> Tree:
        """What is left when a broker is gone for ever: several trees, perhaps."""
        left = [broker for broker in self.brokers if broker != gone]
        edges = [(a, b) for a in left for b in self.neighbours[a] if a < b and b != gone]
        return Tree(edges, left)

    def path(self, start: str, end: str) -> list[str]:
        """The path from one broker to another, both included; empty if they are not connected."""
        toward, path = self.toward(end), [start]
        if start != end and start not in toward:
            return []
        while path[-1] != end:
            path.append(toward[path[-1]])
        return path


class RoutingEntry:
    """A subscription or an advertisement as it stands at rest: its id on the wire, its owner, its home."""

    __slots__ = ("client", "home", "id", "want")

    def __init__(self, id: int, want: Want, client: str, home: str) -> None:
        self.id = id
        self.want = want
        self.client = client
        self.home = home
