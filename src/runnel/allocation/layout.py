"""A network as a plan sees it: the overlay, who is where, and what each broker will have to do.

Any layout can be judged, also one in use: for every publisher its publications flow from its broker along the tree to
wherever they are wanted. A broker takes in what it or anybody beyond it wants (its own publishers' in full); it sends a
copy to each local subscription that wants it and to each neighbour beyond which it is wanted.

The number of subscriptions that its matching delay counts: its own, and one for every child in the tree (§V: a child is
one subscription with the OR of its own).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from runnel.allocation.load import MICRO, UNLIMITED, Bin, Item, Traffic
from runnel.allocation.profiles import Profile, union
from runnel.errors import InputError


@dataclass(frozen=True, slots=True)
class Layout:
    """The overlay as broker → parent (the root's is None), and the broker of every subscription and publisher.

    Subscriptions and publishers go by their numbers.
    """

    parents: Mapping[str, str | None]
    subscriptions: Mapping[str, tuple[int, ...]]
    publishers: Mapping[int, str]

    @property
    def root(self) -> str:
        """The broker at the top."""
        return next(broker for broker, parent in self.parents.items() if parent is None)

    @property
    def homes(self) -> dict[int, str]:
        """The broker of every subscription."""
        return {number: name for name, found in self.subscriptions.items() for number in found}

    def neighbours(self) -> dict[str, list[str]]:
        """Who is connected to whom; an error if it is no tree."""
        found: dict[str, list[str]] = {broker: [] for broker in self.parents}
        for broker, parent in self.parents.items():
            if parent is not None:
                if parent not in found:
                    raise InputError(
                        f"broker {broker} hangs on {parent}, which is not in the overlay"
                    )
                found[broker].append(parent)
                found[parent].append(broker)
        tops = [broker for broker, parent in self.parents.items() if parent is None]
        if len(tops) != 1 or len(downstream(found, tops[0])) != len(found):
            raise InputError(
                f"the overlay is not one tree: its roots are {', '.join(tops) or 'none'}"
            )
        return found

    def renamed(self, names: Mapping[str, str]) -> Layout:
        """The same with other brokers in the roles."""
        return Layout(
            {names[b]: None if up is None else names[up] for b, up in self.parents.items()},
            {names[broker]: found for broker, found in self.subscriptions.items()},
            {number: names[broker] for number, broker in self.publishers.items()},
        )


def downstream(neighbours: Mapping[str, Sequence[str]], start: str) -> list[tuple[str, str | None]]:
    """Every broker with the one before it, seen from one of them, nearest first.

    >>> downstream({"A": ["B"], "B": ["A", "C"], "C": ["B"]}, "B")
    [('B', None), ('A', 'B'), ('C', 'B')]
    """
    order: list[tuple[str, str | None]] = [(start, None)]
    seen = {start}
    for here, _ in order:
        for other in neighbours[here]:
            if other not in seen:
                seen.add(other)
                order.append((other, here))
    return order


def rooted(
    brokers: Sequence[str], links: Sequence[tuple[str, str]], root: str
) -> dict[str, str | None]:
    """The overlay that links make, seen from a root.

    >>> rooted(["A", "B", "C"], [("A", "B"), ("C", "B")], "B")
    {'B': None, 'A': 'B', 'C': 'B'}
    """
    neighbours: dict[str, list[str]] = {broker: [] for broker in brokers}
    for one, other in links:
        for name in (one, other):
            if name not in neighbours:
                raise InputError(f"a link names broker {name}, which is not among the brokers")
        neighbours[one].append(other)
        neighbours[other].append(one)
    return dict(downstream(neighbours, root))


class Rooted:
    """An overlay seen from its root: who is above whom, and how deep."""

    def __init__(self, parents: Mapping[str, str | None]) -> None:
        self._parents = parents
        self._depths: dict[str, int] = {}
        for broker in parents:
            way = [broker]
            while way[-1] not in self._depths and (up := parents[way[-1]]) is not None:
                way.append(up)
            depth = self._depths.get(way[-1], 0)
            for more, one in enumerate(reversed(way)):
                self._depths[one] = depth + more

    def spanned(self, brokers: Sequence[str]) -> dict[str, list[str]]:
        """The least part of the tree with all of these in it: broker → its neighbours in that part.

        >>> Rooted({"A": None, "B": "A", "C": "B", "D": "B", "E": "A"}).spanned(["C", "D"])
        {'C': ['B'], 'D': ['B'], 'B': ['C', 'D']}
        """
        found: dict[str, list[str]] = {broker: [] for broker in brokers}
        rising = [(-self._depths[broker], broker) for broker in found]
        heapify(rising)
        while len(rising) > 1:  # the deepest goes up, until they have met
            _, broker = heappop(rising)
            up = self._parents[broker]
            assert up is not None  # only the root has none, and it is never the deepest of two
            if up not in found:
                found[up] = []
                heappush(rising, (-self._depths[up], up))
            found[broker].append(up)
            found[up].append(broker)
        return found


@dataclass(slots=True)
class Load:
    """What a broker has to do: messages in and bytes out per second (millionths), subscriptions to match."""

    input: int = 0
    output: int = 0
    subscriptions: int = 0

    def fits(self, one: Bin) -> bool:
        """Whether the broker is up to it."""
        return one.accepts(self.output, self.input, self.subscriptions)


@dataclass(frozen=True, slots=True)
class Flow:
    """What one publisher brings to a broker."""

    input: int
    output: int


class Flows:
    """The loads of a layout, publisher by publisher, so that one can be moved and judged again."""

    def __init__(self, layout: Layout, items: Sequence[Item], traffic: Traffic) -> None:
        layout.neighbours()  # an error if it is no tree
        self.traffic = traffic
        self.wanted: dict[str, Profile] = {}
        self.loads: dict[str, Load] = {}
        self._tree = Rooted(layout.parents)
        self._wanting: dict[int, list[str]] = {}  # publisher → the brokers that want anything of it
        children = dict.fromkeys(layout.parents, 0)
        for parent in layout.parents.values():
            if parent is not None:
                children[parent] += 1
        for broker in layout.parents:
            there = [items[number] for number in layout.subscriptions.get(broker, ())]
            self.wanted[broker] = union(one.profile for one in there)
            for publisher in self.wanted[broker]:
                self._wanting.setdefault(publisher, []).append(broker)
            count = sum(one.count for one in there) + children[broker]
            self.loads[broker] = Load(0, sum(one.need for one in there), count)
        self._now: dict[int, dict[str, Flow]] = {}
        for publisher, home in layout.publishers.items():
            self.move(publisher, self.flow(publisher, home))

    def flow(self, publisher: int, home: str) -> dict[str, Flow]:
        """What a publisher at a broker would bring to every broker that it brings anything."""
        traffic = self.traffic
        there = self.between(publisher, home)
        bits = {broker: self.wanted[broker].get(publisher, 0) for broker in there}
        outputs: dict[str, int] = {}
        found: dict[str, Flow] = {}
        for here, before in reversed(downstream(there, home)):
            beyond = bits[here]
            if before is None:
                rate = round(traffic.publishers[publisher].rate * MICRO)
                found[here] = Flow(rate, outputs.get(here, 0))
            elif beyond:
                found[here] = Flow(traffic.rate({publisher: beyond}), outputs.get(here, 0))
                bits[before] |= beyond
                outputs[before] = outputs.get(before, 0) + traffic.need({publisher: beyond})
        return found

    def between(self, publisher: int, home: str) -> dict[str, list[str]]:
        """The part of the overlay between a broker and all that want a publisher's: broker → neighbours in it."""
        return self._tree.spanned([home, *self._wanting.get(publisher, ())])

    def move(self, publisher: int, flow: dict[str, Flow]) -> None:
        """The publisher is where this flow comes from."""
        for sign, flows in ((-1, self._now.get(publisher, {})), (1, flow)):
            for broker, one in flows.items():
                self.loads[broker].input += sign * one.input
                self.loads[broker].output += sign * one.output
        self._now[publisher] = flow

    def fits(self, publisher: int, flow: dict[str, Flow], bins: Mapping[str, Bin]) -> bool:
        """Whether no broker would be overloaded by moving the publisher (one that is already may be relieved)."""
        now = self._now.get(publisher, {})
        for broker, new in flow.items():
            old = now.get(broker, Flow(0, 0))
            load = self.loads[broker]
            then = replace(
                load,
                input=load.input - old.input + new.input,
                output=load.output - old.output + new.output,
            )
            more = then.input > load.input or then.output > load.output
            if more and not then.fits(bins[broker]):
                return False
        return True


def predicted(layout: Layout, items: Sequence[Item], traffic: Traffic) -> dict[str, Load]:
    """What every broker of a layout will have to do."""
    return Flows(layout, items, traffic).loads


def overloaded(loads: Mapping[str, Load], bins: Mapping[str, Bin]) -> list[str]:
    """The brokers that are not up to their load."""
    return [broker for broker, load in loads.items() if not load.fits(bins[broker])]


def output_ratio(load: Load, one: Bin) -> float:
    """Output in use, out of what there is.

    >>> output_ratio(Load(0, 50, 0), Bin("B", 99))
    0.5
    """
    return 0.0 if one.room >= UNLIMITED else load.output / max(1, one.room + 1)


def input_ratio(load: Load, one: Bin) -> float:
    """Messages in, out of what can be matched."""
    return load.input / one.delay.rate(load.subscriptions) if one.delay.limits else 0.0
