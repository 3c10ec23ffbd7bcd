"""Whether a small network has any plan, by brute force: every tree, with every client at every broker of it.

Nothing here is the planner's: not its load model, its trees or its search. Numbers are exact, so what a bit stands for
must be a whole number of millionths.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from runnel.planning.load import Capacity, Delay
from runnel.planning.network import Network
from runnel.planning.profiles import PublisherProfile

SPAN = 20
Tree = dict[str, "str | None"]
"""Broker → its parent; the root's is None."""


def random_network(seed: int) -> Network:
    """Two to four brokers, one to three publishers, four to eight subscriptions; brokers are short of output."""
    draw = random.Random(seed)
    count = draw.randint(2, 4)
    delay = draw.choice([Delay(), Delay(60_000_000, 10_000_000)])
    outputs = [draw.choice([30.0, 60.0, 100.0, 200.0]) for _ in range(count)]
    rates = [draw.choice([1.0, 3.5]) for _ in range(draw.randint(1, 3))]
    names = tuple(f"s{n}" for n in range(draw.randint(4, 8)))
    profiles = []
    for _ in names:
        profile = {}
        for publisher in range(len(rates)):
            if draw.random() < 0.6:
                bits = draw.getrandbits(SPAN) if draw.random() < 0.6 else (1 << SPAN) - 1
                profile[publisher] = bits or 1
        profiles.append(profile)
    return Network(
        tuple(Capacity(f"B{n}", output, delay) for n, output in enumerate(outputs)),
        tuple(PublisherProfile(f"P{n}", rate, 24.0, SPAN - 1) for n, rate in enumerate(rates)),
        names,
        tuple(profiles),
        (SPAN,) * len(rates),
    )


def plan_exists(network: Network, pinned: Mapping[str, str] | None = None) -> bool:
    """Whether there is a plan in which no broker is overloaded and everybody pinned is at its broker."""
    return _Brute(network, pinned or {}).plan_exists()


def all_trees(brokers: Sequence[str]) -> Iterator[Tree]:
    """All trees with a root over all of some brokers."""
    for parents in product([None, *brokers], repeat=len(brokers)):
        tree = dict(zip(brokers, parents, strict=True))
        if parents.count(None) == 1 and all(_reaches_root(tree, broker) for broker in brokers):
            yield tree


def _reaches_root(tree: Tree, broker: str) -> bool:
    here: str | None = broker
    for _ in tree:
        here = tree[here] if here is not None else None
    return here is None


@dataclass
class _Brute:
    network: Network
    pinned: Mapping[str, str]

    def __post_init__(self) -> None:
        network = self.network
        self.byte = [
            _whole(one.bandwidth, span)
            for one, span in zip(network.publishers, network.spans, strict=True)
        ]
        self.rate = [
            _whole(one.rate, span)
            for one, span in zip(network.publishers, network.spans, strict=True)
        ]
        self.brokers = {one.name: one for one in network.brokers}
        names = list(self.brokers)
        self.trees = [
            tree
            for size in range(1, len(names) + 1)
            for some in combinations(names, size)
            for tree in all_trees(some)
        ]
        self.known: dict[object, dict[str, tuple[int, int]]] = {}

    def plan_exists(self) -> bool:
        return any(
            self._publish(tree, wanted, loads, 0)
            for homes in self._homes({}, dict.fromkeys(self.brokers, 0))
            for wanted in [self._wanted(homes)]
            for tree in self.trees
            if set(homes.values()) <= set(tree)
            for loads in [self._loads(homes, tree)]
        )

    def _homes(self, homes: dict[int, str], sent: dict[str, int]) -> Iterator[dict[int, str]]:
        """Every broker for every subscription, unless they need more than a broker sends."""
        number = len(homes)
        if number == len(self.network.subscriptions):
            yield dict(homes)
            return
        need = sum(self.byte[p] * b.bit_count() for p, b in self.network.profiles[number].items())
        pin = self.pinned.get(self.network.subscriptions[number])
        for broker in [pin] if pin else self.brokers:
            if self._can_send(broker, sent[broker] + need):
                sent[broker] += need
                homes[number] = broker
                yield from self._homes(homes, sent)
                del homes[number]
                sent[broker] -= need

    def _can_send(self, broker: str, need: int) -> bool:
        """Something must be left over."""
        output = self.brokers[broker].output
        return output is None or need < output * 10**6

    def _can_match(self, broker: str, rate: int, count: int) -> bool:
        delay = self.brokers[broker].delay
        return rate * (delay.base_ns + delay.each_ns * count) <= 10**15

    def _wanted(self, homes: Mapping[int, str]) -> dict[str, tuple[int, ...]]:
        """By broker: the bits of each publisher that its subscriptions want."""
        found = {broker: [0] * len(self.byte) for broker in self.brokers}
        for number, broker in homes.items():
            for publisher, bits in self.network.profiles[number].items():
                found[broker][publisher] |= bits
        return {broker: tuple(bits) for broker, bits in found.items()}

    def _loads(self, homes: Mapping[int, str], tree: Tree) -> dict[str, tuple[int, int, int]]:
        """Output, input and number of subscriptions of every broker before anybody publishes."""
        found = {}
        for broker in tree:
            here = [n for n, home in homes.items() if home == broker]
            need = sum(
                self.byte[p] * bits.bit_count()
                for n in here
                for p, bits in self.network.profiles[n].items()
            )
            found[broker] = (need, 0, len(here) + list(tree.values()).count(broker))
        return found

    def _publish(
        self,
        tree: Tree,
        wanted: Mapping[str, tuple[int, ...]],
        loads: Mapping[str, tuple[int, int, int]],
        publisher: int,
    ) -> bool:
        """Whether the publishers from this one on can be somewhere."""
        if publisher == len(self.byte):
            return True
        pin = self.pinned.get(self.network.publishers[publisher].name)
        for home in [pin] if pin else tree:
            if home not in tree:
                continue
            then = dict(loads)
            for broker, (output, rate) in self._flow(tree, wanted, publisher, home).items():
                sent, got, count = loads[broker]
                then[broker] = (sent + output, got + rate, count)
            if all(
                self._can_send(broker, sent) and self._can_match(broker, got, count)
                for broker, (sent, got, count) in then.items()
            ) and self._publish(tree, wanted, then, publisher + 1):
                return True
        return False

    def _flow(
        self, tree: Tree, wanted: Mapping[str, tuple[int, ...]], publisher: int, home: str
    ) -> dict[str, tuple[int, int]]:
        """What every broker sends on links and takes in of a publisher."""
        bits = tuple(wanted[broker][publisher] for broker in tree)
        key = (tuple(tree.items()), bits, publisher, home)
        if key not in self.known:
            self.known[key] = self._find_flow(
                tree, dict(zip(tree, bits, strict=True)), publisher, home
            )
        return self.known[key]

    def _find_flow(
        self, tree: Tree, wanted: Mapping[str, int], publisher: int, home: str
    ) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}

        def visit(here: str, before: str | None) -> int:
            """The bits wanted here or further on."""
            whole, output = wanted[here], 0
            for other in tree:
                if other != before and (tree[other] == here or tree[here] == other):
                    beyond = visit(other, here)
                    whole |= beyond
                    output += self.byte[publisher] * beyond.bit_count()
            taken = self.network.spans[publisher] if before is None else whole.bit_count()
            found[here] = (output, self.rate[publisher] * taken)
            return whole

        visit(home, None)
        return found


def _whole(value: float, span: int) -> int:
    """What a bit stands for, in millionths."""
    each, rest = divmod(round(value * 10**6), span)
    assert not rest, "numbers must be exact"
    return each
