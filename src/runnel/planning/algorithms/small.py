"""A search of all plans of a small network: for when first fit, clustering and layers find none, though there is one.

All trees over all sets of brokers are tried, with every subscription and every publisher at every broker of them, the
fewest brokers first. What cannot become a plan any more is left early:

    output     what all subscriptions need, and for every publication one copy less than there are brokers that want
               it, is at most what all chosen brokers can send
    brokers    each can send what its subscriptions need, and match what they want

Brokers of equal capacity, and subscriptions with equal profiles, are not exchanged for each other. The search ends
after so many steps (`STEPS`), so that it proves nothing about networks that are not small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise, product

from runnel.planning.layout import Layout, downstream, parents_from_links
from runnel.planning.load import UNLIMITED, Bin, Item, Traffic
from runnel.planning.profiles import Profile, union

BROKERS_MAX, ITEMS_MAX = 5, 12
STEPS = 200_000
"""A step is one broker tried for one subscription or one publisher; they take a second or two in all."""

Links = tuple[tuple[str, str], ...]


class _OutOfStepsError(Exception):
    """The search was ended."""


def search_small(
    items: Sequence[Item],
    bins: Sequence[Bin],
    publishers: Mapping[int, str],
    traffic: Traffic,
    relocate: bool = True,
) -> Layout | None:
    """The first plan with the fewest brokers; None if there is none, if the network is not small, or after `STEPS`.

    `items` are all subscriptions; those that a bin has as its base stay there, and so do `publishers`. Unless they
    may `relocate`, the others are at the root.

    >>> from runnel.planning.profiles import PublisherProfile
    >>> traffic = Traffic((PublisherProfile("P", 1.0, 10.0, 9),), (10,))
    >>> three = [Item({0: (1 << 10) - 1}, 10_000_000, (number,)) for number in range(3)]
    >>> search_small(three, [Bin("A", 20_000_000), Bin("B", 20_000_000)], {}, traffic).publishers
    {0: 'B'}
    """
    if len(bins) > BROKERS_MAX or len(items) > ITEMS_MAX:
        return None
    search = _SmallSearch(items, bins, publishers, traffic, relocate)
    try:
        return next(search.layouts(), None)
    except _OutOfStepsError:
        return None


@dataclass(slots=True)
class _Chosen:
    """Some brokers, and what they have been given so far."""

    bins: dict[str, Bin]
    trees: list[Links]
    homes: dict[int, str] = field(default_factory=dict)
    wanted: dict[str, Profile] = field(default_factory=dict)
    needs: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class _SmallSearch:
    def __init__(
        self,
        items: Sequence[Item],
        bins: Sequence[Bin],
        publishers: Mapping[int, str],
        traffic: Traffic,
        relocate: bool,
    ) -> None:
        self.items, self.bins, self.traffic = items, bins, traffic
        self.fixed, self.relocate = publishers, relocate
        self._steps = 0
        self._pinned = {n: one.name for one in bins if one.base for n in one.base.members}
        free = [number for number in range(len(items)) if number not in self._pinned]
        # Equal subscriptions are next to each other.
        self._order = sorted(free, key=lambda n: (-items[n].need, repr(items[n].profile), n))
        self._publishers = sorted(
            range(len(traffic.publishers)), key=lambda p: -traffic.publishers[p].bandwidth
        )
        self._bytes = [
            10**6 * p.bandwidth / max(1, s)
            for p, s in zip(traffic.publishers, traffic.spans, strict=True)
        ]

    def layouts(self) -> Iterator[Layout]:
        """All plans, those with the fewest brokers first."""
        must = {*self._pinned.values(), *self.fixed.values()}
        for size in range(max(1, len(must)), len(self.bins) + 1):
            seen: set[tuple[object, ...]] = set()
            for some in combinations(self.bins, size):
                names = [one.name for one in some]
                kind = tuple(
                    sorted(
                        repr((one.room, one.delay, one.name in must and one.name)) for one in some
                    )
                )
                if must <= set(names) and kind not in seen:
                    seen.add(kind)
                    yield from self._with_brokers(
                        _Chosen({one.name: one for one in some}, _trees(names))
                    )

    def _step(self) -> None:
        self._steps += 1
        if self._steps > STEPS:
            raise _OutOfStepsError

    # -- the brokers of subscriptions --------------------------------------------------------------------

    def _with_brokers(self, chosen: _Chosen) -> Iterator[Layout]:
        for name in chosen.bins:
            there = [self.items[n] for n, home in self._pinned.items() if home == name]
            chosen.wanted[name] = union(one.profile for one in there)
            chosen.needs[name] = sum(one.need for one in there)
            chosen.counts[name] = sum(one.count for one in there)
        chosen.homes.update(self._pinned)
        if all(self._fits(chosen, name) for name in chosen.bins):
            yield from self._place(chosen, 0)

    def _place(self, chosen: _Chosen, at: int) -> Iterator[Layout]:
        """Give the subscriptions from place `at` on a broker each."""
        if at == len(self._order):
            yield from self._connect(chosen)
            return
        number = self._order[at]
        item = self.items[number]
        tried: set[object] = set()
        for name in self._allowed(chosen, at):
            self._step()
            one = chosen.bins[name]
            alike = (one.room, one.delay, chosen.needs[name], chosen.counts[name])
            empty = not chosen.counts[name] and name not in self.fixed.values()
            if empty and alike in tried:
                continue  # another empty broker of this kind has been tried
            tried.add(alike if empty else name)
            before = chosen.wanted[name]
            chosen.homes[number] = name
            chosen.wanted[name] = union([before, item.profile])
            chosen.needs[name] += item.need
            chosen.counts[name] += item.count
            if self._fits(chosen, name) and self._output_is_enough(chosen):
                yield from self._place(chosen, at + 1)
            del chosen.homes[number]
            chosen.wanted[name] = before
            chosen.needs[name] -= item.need
            chosen.counts[name] -= item.count

    def _allowed(self, chosen: _Chosen, at: int) -> list[str]:
        """The brokers for a subscription: from that of the one before it on, if the two are equal."""
        names = list(chosen.bins)
        one, before = self.items[self._order[at]], self.items[self._order[at - 1]] if at else None
        if before and (before.profile, before.count) == (one.profile, one.count):
            return names[names.index(chosen.homes[self._order[at - 1]]) :]
        return names

    def _fits(self, chosen: _Chosen, name: str) -> bool:
        rate = self.traffic.rate(chosen.wanted[name])
        return chosen.bins[name].accepts(chosen.needs[name], rate, chosen.counts[name])

    def _output_is_enough(self, chosen: _Chosen) -> bool:
        """Whether all chosen brokers together can send what all subscriptions need and what links at least carry."""
        room = sum(one.room for one in chosen.bins.values())
        if room >= UNLIMITED:
            return True
        whole = union(chosen.wanted.values())
        copies = 0.0
        for publisher, bits in whole.items():
            wanting = sum(found.get(publisher, 0).bit_count() for found in chosen.wanted.values())
            copies += self._bytes[publisher] * (wanting - bits.bit_count())
        slack = len(chosen.bins) * len(self._bytes)  # sums of rounded numbers
        return sum(one.need for one in self.items) + copies <= room + slack

    # -- the tree, and the brokers of publishers -------------------------------------------------------------

    def _connect(self, chosen: _Chosen) -> Iterator[Layout]:
        for links in chosen.trees:
            tree = _Tree(chosen, links, self.traffic)
            for root in tree.roots():
                homes = dict(self.fixed)
                if not self.relocate:
                    homes = {p: homes.get(p, root) for p in self._publishers}
                if self._publish(tree, tree.room_left(root), homes, 0):
                    yield tree.layout(root, homes)

    def _publish(
        self, tree: _Tree, left: dict[str, tuple[int, int]], homes: dict[int, str], at: int
    ) -> bool:
        """Find a broker for the publishers from place `at` on; `left` is what output and input brokers have left."""
        if at == len(self._publishers):
            return True
        publisher = self._publishers[at]
        given = homes.get(publisher)
        for home in [given] if given else list(tree.neighbours):
            self._step()
            flow = tree.flow(publisher, home)
            rest = dict(left)
            for name, (output, rate) in flow.items():
                rest[name] = (rest[name][0] - output, rest[name][1] - rate)
            if all(min(rest[name]) >= 0 for name in flow):
                homes[publisher] = home
                if self._publish(tree, rest, homes, at + 1):
                    return True
                if given is None:
                    del homes[publisher]
        return False


class _Tree:
    """A tree over the chosen brokers, with the loads that publishers cause in it."""

    def __init__(self, chosen: _Chosen, links: Links, traffic: Traffic) -> None:
        self.chosen, self.links, self.traffic = chosen, links, traffic
        self.neighbours: dict[str, list[str]] = {name: [] for name in chosen.bins}
        for one, other in links:
            self.neighbours[one].append(other)
            self.neighbours[other].append(one)
        self._flows: dict[tuple[int, str], dict[str, tuple[int, int]]] = {}

    def roots(self) -> list[str]:
        """The brokers that may be the root; all are alike if publishers go anywhere and children take no time."""
        return list(self.neighbours)

    def room_left(self, root: str) -> dict[str, tuple[int, int]]:
        """The output and the input that each broker has left before anything is published; children are matched too."""
        found = {}
        for name, one in self.chosen.bins.items():
            children = len(self.neighbours[name]) - (name != root)
            most = one.delay.rate(self.chosen.counts[name] + children)
            found[name] = (one.room - self.chosen.needs[name], most)
        return found

    def flow(self, publisher: int, home: str) -> dict[str, tuple[int, int]]:
        """The output on links, and the input, that a publisher at `home` causes at each broker."""
        known = self._flows.get((publisher, home))
        if known is None:
            known = self._flows[publisher, home] = self._find_flow(publisher, home)
        return known

    def _find_flow(self, publisher: int, home: str) -> dict[str, tuple[int, int]]:
        bits = {name: found.get(publisher, 0) for name, found in self.chosen.wanted.items()}
        outputs = dict.fromkeys(bits, 0)
        found = {}
        for here, before in reversed(downstream(self.neighbours, home)):
            if before is None:
                rate = round(self.traffic.publishers[publisher].rate * 10**6)
            else:
                rate = self.traffic.rate({publisher: bits[here]})
                bits[before] |= bits[here]
                outputs[before] += self.traffic.need({publisher: bits[here]})
            found[here] = (outputs[here], rate)
        return found

    def layout(self, root: str, homes: Mapping[int, str]) -> Layout:
        """The plan."""
        names = list(self.chosen.bins)
        places = {
            name: tuple(sorted(n for n, home in self.chosen.homes.items() if home == name))
            for name in names
        }
        return Layout(
            parents_from_links(names, self.links, root), places, dict(sorted(homes.items()))
        )


def _trees(names: Sequence[str]) -> list[Links]:
    """All trees over some brokers, each as its links.

    >>> len(_trees("A")), len(_trees("AB")), len(_trees("ABCD")), len(_trees("ABCDE"))
    (1, 1, 16, 125)
    """
    if len(names) < 3:
        return [tuple(pairwise(names))]
    return [_tree_of(code, names) for code in product(names, repeat=len(names) - 2)]


def _tree_of(code: Sequence[str], names: Sequence[str]) -> Links:
    """The tree with a Prüfer code: a broker is in it once less than it has links."""
    degrees = {name: 1 + code.count(name) for name in names}
    links = []
    for name in code:
        leaf = next(one for one in names if degrees[one] == 1)
        links.append((leaf, name))
        degrees[leaf] -= 1
        degrees[name] -= 1
    last = [one for one in names if degrees[one] == 1]
    return (*links, (last[0], last[1]))
