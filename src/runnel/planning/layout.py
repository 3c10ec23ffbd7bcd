"""Layouts: an overlay with the brokers of all clients; and the load that is predicted for every broker of a layout.

Loads can be predicted for any layout, also for the one in use. The publications of every publisher flow from its
broker along the tree to all brokers with subscriptions that match them. A broker receives what is wanted there or
further on (and everything that its own publishers send). It sends one copy to each matching local subscription, and
one to each neighbour behind which the publication is wanted.

For the matching delay a broker has its own subscriptions, and one more for every child in the tree (§V: a child is
one subscription with the OR of what it serves).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from runnel.errors import InputError
from runnel.planning.load import MICRO, UNLIMITED, Bin, Item, Traffic
from runnel.planning.profiles import Profile, union


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
        """The broker without a parent."""
        return next(broker for broker, parent in self.parents.items() if parent is None)

    @property
    def homes(self) -> dict[int, str]:
        """The broker of every subscription."""
        return {number: name for name, found in self.subscriptions.items() for number in found}

    def neighbours(self) -> dict[str, list[str]]:
        """Every broker's neighbours; an error if the overlay is not a tree."""
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

    def rename_brokers(self, names: Mapping[str, str]) -> Layout:
        """The same layout with other brokers; `names` maps every broker to the one that takes its place."""
        return Layout(
            {names[b]: None if up is None else names[up] for b, up in self.parents.items()},
            {names[broker]: found for broker, found in self.subscriptions.items()},
            {number: names[broker] for number, broker in self.publishers.items()},
        )


def downstream(neighbours: Mapping[str, Sequence[str]], start: str) -> list[tuple[str, str | None]]:
    """Every broker with the one before it on the way from `start`, nearest first.

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


def parents_from_links(
    brokers: Sequence[str], links: Sequence[tuple[str, str]], root: str
) -> dict[str, str | None]:
    """The overlay as broker → parent, from its links and a root.

    >>> parents_from_links(["A", "B", "C"], [("A", "B"), ("C", "B")], "B")
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


class RootedTree:
    """An overlay with the parent and the depth of every broker, to find subtrees quickly."""

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

    def smallest_subtree(self, brokers: Sequence[str]) -> dict[str, list[str]]:
        """The smallest subtree with all of these brokers: broker → its neighbours in the subtree.

        >>> RootedTree({"A": None, "B": "A", "C": "B", "D": "B", "E": "A"}).smallest_subtree(["C", "D"])
        {'C': ['B'], 'D': ['B'], 'B': ['C', 'D']}
        """
        found: dict[str, list[str]] = {broker: [] for broker in brokers}
        rising = [(-self._depths[broker], broker) for broker in found]
        heapify(rising)
        while len(rising) > 1:  # the deepest broker goes one up, until all have met
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
class PredictedLoad:
    """What a broker is predicted to do: messages in and bytes out per second (millionths), subscriptions to match."""

    input: int = 0
    output: int = 0
    subscriptions: int = 0

    def fits(self, one: Bin) -> bool:
        """Whether the broker has the capacity for it."""
        return one.accepts(self.output, self.input, self.subscriptions)


@dataclass(frozen=True, slots=True)
class Flow:
    """The part of a broker's load that one publisher causes."""

    input: int
    output: int


class Flows:
    """The loads of a layout, publisher by publisher, so that the effect of moving one publisher is cheap to find."""

    def __init__(self, layout: Layout, items: Sequence[Item], traffic: Traffic) -> None:
        layout.neighbours()  # an error if it is no tree
        self.traffic = traffic
        self.wanted: dict[str, Profile] = {}
        self.loads: dict[str, PredictedLoad] = {}
        self._tree = RootedTree(layout.parents)
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
            self.loads[broker] = PredictedLoad(0, sum(one.need for one in there), count)
        self._now: dict[int, dict[str, Flow]] = {}
        for publisher, home in layout.publishers.items():
            self.move(publisher, self.flow(publisher, home))

    def flow(self, publisher: int, home: str) -> dict[str, Flow]:
        """The loads that a publisher at `home` would cause, for every broker that its publications reach."""
        traffic = self.traffic
        there = self.subtree_between(publisher, home)
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

    def subtree_between(self, publisher: int, home: str) -> dict[str, list[str]]:
        """The subtree with `home` and all brokers with subscriptions to the publisher: broker → neighbours in it."""
        return self._tree.smallest_subtree([home, *self._wanting.get(publisher, ())])

    def move(self, publisher: int, flow: dict[str, Flow]) -> None:
        """Replace the publisher's flow by this one, which is that of its new home."""
        for sign, flows in ((-1, self._now.get(publisher, {})), (1, flow)):
            for broker, one in flows.items():
                self.loads[broker].input += sign * one.input
                self.loads[broker].output += sign * one.output
        self._now[publisher] = flow

    def fits(self, publisher: int, flow: dict[str, Flow], bins: Mapping[str, Bin]) -> bool:
        """Whether moving the publisher overloads no broker. One that is overloaded already must not get more."""
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


def predict_loads(
    layout: Layout, items: Sequence[Item], traffic: Traffic
) -> dict[str, PredictedLoad]:
    """The predicted load of every broker of a layout."""
    return Flows(layout, items, traffic).loads


def overloaded_brokers(loads: Mapping[str, PredictedLoad], bins: Mapping[str, Bin]) -> list[str]:
    """The brokers whose load exceeds their capacity."""
    return [broker for broker, load in loads.items() if not load.fits(bins[broker])]


def output_ratio(load: PredictedLoad, one: Bin) -> float:
    """The share of a broker's output that is in use.

    >>> output_ratio(PredictedLoad(0, 50, 0), Bin("B", 99))
    0.5
    """
    return 0.0 if one.room >= UNLIMITED else load.output / max(1, one.room + 1)


def input_ratio(load: PredictedLoad, one: Bin) -> float:
    """The share of the rate at which a broker can match that its input makes up."""
    return load.input / one.delay.rate(load.subscriptions) if one.delay.takes_time else 0.0
