"""Phase 3: the overlay is built layer by layer, and the publishers are placed in it: green §V.

Each broker that Phase 2 has allocated is treated as one subscription, with the OR of all it serves. The algorithm of
Phase 2 allocates these to free brokers, which form the next layer, and so on until a single broker is left: the root,
where all publishers are at first. After each layer:

    1  a broker with a single child only forwards: it is dropped, and the child moves up
    2  a broker that has the capacity to do the work of a child takes it over, the least utilised child first
    3  a broker is replaced by the smallest free one that can do its work

Then GRAPE (`load 100%`) places the publishers over the finished tree.

Decisions, where the paper is silent:

- If a layer does not shrink, or no broker is free, brokers of the top layer become children of each other, as far as
  their output allows (in the simplest case they form a star). If that fails too, the brokers with the most bits in
  common are joined. That would overload them with all publishers at the root, but perhaps not after the publishers
  have been placed. So the caller must check the predicted loads: the layout may be overloaded.
- GRAPE ignores capacities. Each publisher goes to the best of GRAPE's candidates at which it overloads no broker;
  the publishers that save the most are placed first.
- A broker with something pinned to it is neither replaced nor taken over.
- After the publishers are placed, a broker through which nothing flows is dropped (not in the paper, where the root
  stays even if all publishers have left it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runnel.errors import InputError
from runnel.modules.placement.grape import BrokerReport, Candidate, choose
from runnel.planning.algorithms.cram.closeness import count_common_bits
from runnel.planning.algorithms.packing import DoesNotFit, Scheme
from runnel.planning.layout import Flow, Flows, Layout, predict_loads
from runnel.planning.load import Bin, Item, Traffic
from runnel.planning.profiles import union

Allocate = Callable[[Sequence[Item], Sequence[Bin], Traffic], Scheme]
"""The algorithm of Phase 2. It raises DoesNotFit if some items have no place."""


@dataclass(frozen=True, slots=True)
class OverlayOptions:
    """The paper's three optimisations of the overlay, and a fourth of our own."""

    drop_forwarders: bool = True  # 1
    take_over: bool = True  # 2
    best_fit: bool = True  # 3
    drop_idle: bool = True


@dataclass(slots=True, eq=False)
class AllocatedBroker:
    """An allocated broker: the items that it serves itself, and its children in the tree."""

    bin: Bin
    traffic: Traffic
    items: list[Item]
    below: list[AllocatedBroker] = field(default_factory=list)
    _stream: Item | None = None  # cached; reset when something changes

    @property
    def stream(self) -> Item:
        """The broker as one subscription: the OR of all it serves."""
        if self._stream is None:
            profile = union(
                [
                    *(one.profile for one in self._own_items()),
                    *(one.stream.profile for one in self.below),
                ]
            )
            self._stream = Item(profile, self.traffic.need(profile), ())
        return self._stream

    def _own_items(self) -> list[Item]:
        return [*self.items, self.bin.base] if self.bin.base else self.items

    @property
    def need(self) -> int:
        """The output that it needs for all it serves."""
        return sum(one.need for one in self._own_items()) + sum(
            one.stream.need for one in self.below
        )

    @property
    def count(self) -> int:
        """The number of subscriptions that it matches against."""
        return sum(one.count for one in self._own_items()) + len(self.below)

    def fits(self, one: Bin) -> bool:
        """Whether a broker has the capacity to do the work of this one."""
        return one.accepts(self.need, self.traffic.rate(self.stream.profile), self.count)

    def add_child(self, child: AllocatedBroker) -> None:
        """Make a broker a child of this one."""
        self.below.append(child)
        self._stream = None

    def with_child_merged(self, child: AllocatedBroker) -> AllocatedBroker:
        """A copy that does the work of a child itself."""
        rest = [one for one in self.below if one is not child]
        return AllocatedBroker(self.bin, self.traffic, self.items + child.items, rest + child.below)


@dataclass(slots=True)
class _OverlayBuilder:
    bins: Sequence[Bin]
    traffic: Traffic
    allocate: Allocate
    options: OverlayOptions
    used: set[str] = field(default_factory=set)
    _named: dict[str, Bin] = field(init=False)

    def __post_init__(self) -> None:
        self._named = {one.name: one for one in self.bins}

    def free_bins(self) -> list[Bin]:
        return [one for one in self.bins if one.name not in self.used and one.base is None]

    def allocate_broker(
        self, name: str, items: list[Item], below: list[AllocatedBroker]
    ) -> AllocatedBroker:
        self.used.add(name)
        return AllocatedBroker(self._named[name], self.traffic, items, below)

    def next_layer(self, layer: list[AllocatedBroker]) -> list[AllocatedBroker]:
        """The layer above this one; it has fewer brokers."""
        streams = [
            Item(one.stream.profile, one.stream.need, (number,)) for number, one in enumerate(layer)
        ]
        try:
            scheme = self.allocate(streams, self.free_bins(), self.traffic)
        except DoesNotFit:
            return _join_layer(layer)
        if len(scheme.placed) >= len(layer):
            return _join_layer(layer)
        found: list[AllocatedBroker] = []
        for name, numbers in scheme.placed.items():
            below = [layer[number] for number in numbers]
            if len(below) == 1 and self.options.drop_forwarders:
                found.append(below[0])
            else:
                found.append(self.take_over_children(self.allocate_broker(name, [], below)))
        return self.replace_by_smallest(found, {id(one) for one in layer})

    def take_over_children(self, parent: AllocatedBroker) -> AllocatedBroker:
        """Optimisation 2."""
        if not self.options.take_over:
            return parent
        by_use = sorted(parent.below, key=lambda one: one.need / max(1, one.bin.room))
        for child in by_use:
            more = parent.with_child_merged(child)
            if child.bin.base is None and more.fits(more.bin):
                self.used.discard(child.bin.name)
                parent = more
        return parent

    def replace_by_smallest(
        self, layer: list[AllocatedBroker], done: set[int]
    ) -> list[AllocatedBroker]:
        """Optimisation 3, for the brokers that are new in this layer, those with the largest need first."""
        if self.options.best_fit:
            for node in sorted(layer, key=lambda one: -one.need):
                if node.bin.base is None and id(node) not in done:
                    fitting = [
                        one
                        for one in self.free_bins()
                        if one.room < node.bin.room and node.fits(one)
                    ]
                    if fitting:
                        self.used.discard(node.bin.name)
                        node.bin = min(fitting, key=lambda one: one.room)
                        self.used.add(node.bin.name)
        return layer


def _join_layer(layer: Sequence[AllocatedBroker]) -> list[AllocatedBroker]:
    """Join the brokers of the top layer: those with the least output left become children of those with the most.

    If no broker has enough output, the two with the most bits in common are joined.
    """
    rest = list(layer)
    while len(rest) > 1:
        rest.sort(key=lambda one: one.bin.room - one.need)
        pairs = [(one, host) for one in rest for host in reversed(rest) if host is not one]
        fitting = (pair for pair in pairs if _with_child(*pair).fits(pair[1].bin))
        child, host = next(fitting, None) or max(pairs, key=_bits_shared)
        host.add_child(child)
        rest = [one for one in rest if one is not child]
    return rest


def _with_child(child: AllocatedBroker, host: AllocatedBroker) -> AllocatedBroker:
    return AllocatedBroker(host.bin, host.traffic, host.items, [*host.below, child])


def _bits_shared(pair: tuple[AllocatedBroker, AllocatedBroker]) -> int:
    return count_common_bits(pair[0].stream.profile, pair[1].stream.profile)


def build_overlay(
    scheme: Scheme,
    items: Sequence[Item],
    bins: Sequence[Bin],
    traffic: Traffic,
    allocate: Allocate,
    options: OverlayOptions | None = None,
) -> Layout:
    """Build the tree over the brokers of a scheme; all publishers are at its root."""
    builder = _OverlayBuilder(bins, traffic, allocate, options or OverlayOptions())
    layer = [
        builder.allocate_broker(name, [items[number] for number in numbers], [])
        for name, numbers in scheme.placed.items()
    ]
    if not layer:
        raise InputError("there is nothing to plan: no subscription, and nothing pinned")
    layer = builder.replace_by_smallest(layer, set())
    while len(layer) > 1:
        layer = builder.next_layer(layer)
    return _layout(layer[0], len(traffic.publishers))


def _layout(root: AllocatedBroker, publishers: int) -> Layout:
    parents: dict[str, str | None] = {root.bin.name: None}
    subscriptions: dict[str, tuple[int, ...]] = {}
    order = [root]
    for node in order:
        members = [member for one in node.items for member in one.members]
        members += node.bin.base.members if node.bin.base else ()
        subscriptions[node.bin.name] = tuple(sorted(members))
        for child in node.below:
            parents[child.bin.name] = node.bin.name
        order += node.below
    return Layout(parents, subscriptions, dict.fromkeys(range(publishers), root.bin.name))


def place_publishers(
    layout: Layout,
    items: Sequence[Item],
    traffic: Traffic,
    bins: Mapping[str, Bin],
    pinned: Mapping[int, str] | None = None,
) -> Layout:
    """Place every publisher by GRAPE `load 100%`, within the capacities of brokers."""
    flows = Flows(layout, items, traffic)
    homes = dict(layout.publishers)
    for publisher, home in (pinned or {}).items():
        flows.move(publisher, flows.flow(publisher, home))
        homes[publisher] = home
    ranked: list[tuple[float, int, list[Candidate]]] = []
    for publisher, home in homes.items():
        if publisher not in (pinned or {}):
            best = _candidates(flows, publisher, home)
            stay = next(one.load for one in best if one.broker == home)
            ranked.append((_message_rate(traffic, publisher, best[0].load - stay), publisher, best))
    for _, publisher, candidates in sorted(ranked, key=lambda one: one[:2]):
        home, flow = _first_that_fits(flows, publisher, candidates, homes[publisher], bins)
        flows.move(publisher, flow)
        homes[publisher] = home
    return Layout(layout.parents, layout.subscriptions, homes)


def _candidates(flows: Flows, publisher: int, home: str) -> list[Candidate]:
    """GRAPE's candidates, the best first: the brokers that the publications pass anyway."""
    reports = {
        broker: BrokerReport(broker, tuple(neighbours), bits, bits.bit_count())
        for broker, neighbours in flows.subtree_between(publisher, home).items()
        for bits in (flows.wanted[broker].get(publisher, 0),)
    }
    choice = choose(reports, home, "load", 100.0)
    # The order in which `choose` decides; there are no delays here.
    return sorted(
        choice.candidates, key=lambda one: (one.load, one.hops, one.broker != home, one.broker)
    )


def _message_rate(traffic: Traffic, publisher: int, publications: int) -> float:
    return publications * traffic.publishers[publisher].rate / max(1, traffic.spans[publisher])


def _first_that_fits(
    flows: Flows,
    publisher: int,
    candidates: Sequence[Candidate],
    home: str,
    bins: Mapping[str, Bin],
) -> tuple[str, dict[str, Flow]]:
    for candidate in candidates:
        if candidate.broker == home:
            break  # staying is always possible, and the remaining candidates are no better
        flow = flows.flow(publisher, candidate.broker)
        if flows.fits(publisher, flow, bins):
            return candidate.broker, flow
    return home, flows.flow(publisher, home)


def drop_idle_brokers(
    layout: Layout, items: Sequence[Item], traffic: Traffic, bins: Mapping[str, Bin]
) -> Layout:
    """Drop brokers through which nothing flows; their children become those of one of their neighbours."""
    loads = predict_loads(layout, items, traffic)
    busy = set(layout.publishers.values())
    for broker, load in loads.items():
        served = layout.subscriptions.get(broker) or bins[broker].base or broker in busy
        if load.input or served or len(layout.parents) == 1:
            continue
        below = [child for child, parent in layout.parents.items() if parent == broker]
        # Since nothing flows there, the new parent's load changes only by the number of its children.
        top = layout.parents[broker]
        host = top or max(below, key=lambda one: bins[one].room - loads[one].output)
        more = replace(loads[host], subscriptions=loads[host].subscriptions + len(below) - 1)
        if not more.fits(bins[host]):
            continue
        loads[host] = more
        parents = {
            b: host if up == broker else up for b, up in layout.parents.items() if b != broker
        }
        parents[host] = top and layout.parents[top]
        places = {b: found for b, found in layout.subscriptions.items() if b != broker}
        layout = Layout(parents, places, layout.publishers)
    return layout
