"""The omniscient model: what wants what, and what the tables should be, by brute force.

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
    """Whether a value that is there satisfies a predicate.

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
    """What somebody asks for or offers: triples of which all must hold, in one of several groups."""

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
    """Where the broker of a generation runs.

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
    """The overlay: who neighbours whom, and the way from one broker to another."""

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

    def path(self, start: str, end: str) -> list[str]:
        """The brokers from one to another, both included."""
        toward, path = self.toward(end), [start]
        while path[-1] != end:
            path.append(toward[path[-1]])
        return path


class Entry:
    """A subscription or an advertisement as it stands at rest: its id on the wire, its owner, its home."""

    __slots__ = ("client", "home", "id", "want")

    def __init__(self, id: int, want: Want, client: str, home: str) -> None:
        self.id = id
        self.want = want
        self.client = client
        self.home = home


def expected_tables(
    tree: Tree, advertisements: list[Entry], subscriptions: list[Entry], *, by_advertisement: bool
) -> tuple[dict[str, dict[int, str]], dict[str, dict[int, str]]]:
    """SRT and PRT of every broker, id → hop, recomputed from scratch (without covering)."""
    srt: dict[str, dict[int, str]] = {broker: {} for broker in tree.brokers}
    prt: dict[str, dict[int, str]] = {broker: {} for broker in tree.brokers}
    for entry in advertisements:
        toward = tree.toward(entry.home)
        for broker in tree.brokers:
            srt[broker][entry.id] = toward.get(broker, entry.client)
    for entry in subscriptions:
        toward = tree.toward(entry.home)
        reached = {entry.home: None}
        if not by_advertisement:
            reached = dict.fromkeys(tree.brokers)
        else:
            targets = dict.fromkeys(a.home for a in advertisements if a.want.intersects(entry.want))
            for target in targets:
                reached.update(dict.fromkeys(tree.path(entry.home, target)))
        for broker in reached:
            prt[broker][entry.id] = toward.get(broker, entry.client)
    return srt, prt


def expected_hops(
    tree: Tree, broker: str, publisher: Entry, attributes: dict[str, Any], wanted: list[Entry]
) -> list[str]:
    """Where a broker must send a publication: towards all who want it, but not back to where it came from."""
    back = tree.toward(publisher.home).get(broker)
    hops = {
        tree.toward(entry.home).get(broker, entry.client): None
        for entry in wanted
        if entry.want.matches(attributes)
    }
    hops.pop(back or "", None)
    return sorted(hops)
