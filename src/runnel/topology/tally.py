"""Keeps count of what was published, what had to be delivered, what was, and how long it took.

What had to be delivered is found out by brute force: every event against every filter, with `matches`, the definition
of what a filter means. So the count owes nothing to the brokers that it judges.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from runnel.client.events import Event
from runnel.topology.clients import RunningClient
from runnel.topology.plan import Topology, Wanted

Place = tuple[str, int]
"""A client, and the place of a subscription among its own."""


@dataclass(slots=True)
class Seen:
    """What arrived for one subscription."""

    wanted: Wanted
    must: set[str] = field(default_factory=set)
    got: set[str] = field(default_factory=set)
    doubled: int = 0
    disordered: int = 0
    last: dict[int, int] = field(default_factory=dict)  # advertisement → the last counter


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it all."""

    published: int
    delivered: int
    must: int
    lost: int
    doubled: int
    disordered: int
    uncalled_for: int
    in_doubt: int
    p50_ms: float
    p99_ms: float

    @property
    def is_clean(self) -> bool:
        """Whether everything arrived that had to, once and in order, and nothing else."""
        return self.must > 0 and not (
            self.lost or self.doubled or self.disordered or self.uncalled_for or self.in_doubt
        )


class Tally:
    """Looks on at a `Runner`: give it `made` and `seen`."""

    def __init__(self, topology: Topology) -> None:
        self.published = 0
        self.latencies_ns: list[tuple[int, int]] = []  # (when it was published, how long it took)
        self.hops = 0
        self._seen: dict[Place, Seen] = {
            (client.name, place): Seen(wanted)
            for client in topology.clients
            for place, wanted in enumerate(client.subscribe)
        }

    def made(self, one: RunningClient, event: Event) -> None:
        """An event was published."""
        self.published += 1
        attributes, id = event.publication.attributes, event.id
        for seen in self._seen.values():
            if seen.wanted.selection.matches(attributes):
                seen.must.add(id)

    def seen(self, one: RunningClient, place: int, event: Event, now_ns: int) -> None:
        """An event was delivered."""
        seen = self._seen[one.plan.name, place]
        id = event.id
        if id in seen.got:
            seen.doubled += 1
            return
        seen.got.add(id)
        publication = event.publication
        if publication.counter < seen.last.get(publication.advertisement, 0):
            seen.disordered += 1
        seen.last[publication.advertisement] = publication.counter
        self.hops += event.hops
        self.latencies_ns.append((event.time_ns, now_ns - event.time_ns))

    @property
    def delivered(self) -> int:
        """How many deliveries there were, each subscription by itself."""
        return len(self.latencies_ns)

    def result(self, in_doubt: int = 0) -> Result:
        """Draw the line under it."""
        every = self._seen.values()
        took = [took for _, took in self.latencies_ns]
        return Result(
            published=self.published,
            delivered=self.delivered,
            must=sum(len(seen.must) for seen in every),
            lost=sum(len(seen.must - seen.got) for seen in every),
            doubled=sum(seen.doubled for seen in every),
            disordered=sum(seen.disordered for seen in every),
            uncalled_for=sum(len(seen.got - seen.must) for seen in every),
            in_doubt=in_doubt,
            p50_ms=quantile_ms(took, 0.50),
            p99_ms=quantile_ms(took, 0.99),
        )


def quantile_ms(took_ns: list[int], share: float) -> float:
    """The time within which so large a share arrived, in milliseconds.

    >>> quantile_ms([1_000_000 * n for n in range(1, 101)], 0.99)
    99.0
    >>> quantile_ms([], 0.5)
    0.0
    """
    ordered = sorted(took_ns)
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered)) - 1))] / 1e6
