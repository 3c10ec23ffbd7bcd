"""Counts what was published, what had to be delivered, what was delivered, and how long it took.

What has to be delivered is determined by brute force: every event is compared with every filter by `matches`, which
defines what a filter means. So the count is independent of the brokers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from runnel.client.events import Event
from runnel.network.clients import RunningClient
from runnel.network.topology import Topology, WrittenFilter
from runnel.quantities import MILLISECOND

Place = tuple[str, int]
"""A client, and the place of a subscription among its own."""


@dataclass(slots=True)
class SubscriptionTally:
    """What arrived for one subscription."""

    wanted: WrittenFilter
    must: set[str] = field(default_factory=set)
    got: set[str] = field(default_factory=set)
    doubled: int = 0
    disordered: int = 0
    last: dict[int, int] = field(default_factory=dict)  # advertisement → the last counter


@dataclass(frozen=True, slots=True)
class Result:
    """The counts at the end."""

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
        """Whether everything that had to arrive did, once and in order, and nothing else."""
        return self.must > 0 and not (
            self.lost or self.doubled or self.disordered or self.uncalled_for or self.in_doubt
        )


class DeliveryTally:
    """Counts for a `Runner`: pass it `note_published` and `note_delivered`."""

    def __init__(self, topology: Topology) -> None:
        self.published = 0
        self.latencies_ns: list[tuple[int, int]] = []  # (when it was published, how long it took)
        self.hops = 0
        self._seen: dict[Place, SubscriptionTally] = {
            (client.name, place): SubscriptionTally(wanted)
            for client in topology.clients
            for place, wanted in enumerate(client.subscribe)
        }

    def note_published(self, one: RunningClient, event: Event) -> None:
        """An event was published."""
        self.published += 1
        attributes, id = event.publication.attributes, event.id
        for seen in self._seen.values():
            if seen.wanted.selection.matches(attributes):
                seen.must.add(id)

    def note_delivered(self, one: RunningClient, place: int, event: Event, now_ns: int) -> None:
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
        """How many deliveries there were; an event counts once per subscription."""
        return len(self.latencies_ns)

    def result(self, in_doubt: int = 0) -> Result:
        """The counts so far."""
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
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered)) - 1))] / MILLISECOND
