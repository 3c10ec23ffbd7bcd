"""The classes of a workload: who publishes what and how fast, who subscribes to what, and when they come and go.

    WorkloadPublisher   a name, what it advertises, its rate, its events
    Subscriber          a name, its filter, when it joins and leaves
    Workload            both, in order, and computed facts about them

The code that runs a workload (a scenario, a test, a figure) depends on these classes only. Rules:

- A workload is data: it does not change, and iterating over events again gives the same events again.
- Times are integer nanoseconds from the start of the workload.
- A broker is an index, 0 and up; the scenario says which broker has which index. No index means that the
  workload does not care.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Literal, NamedTuple

from runnel.errors import InputError
from runnel.language import Selection
from runnel.workload.files import Event


class Loop:
    """Events without end: a list, over and over; every iteration starts with the first.

    >>> from itertools import islice
    >>> list(islice(Loop([{"a": 1}, {"a": 2}]), 3))
    [{'a': 1}, {'a': 2}, {'a': 1}]
    """

    __slots__ = ("events",)

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events

    def __iter__(self) -> Iterator[Event]:
        return cycle(self.events)


class RateChange(NamedTuple):
    """From this time on a publisher has this rate."""

    at_ns: int
    rate_per_s: float


@dataclass(frozen=True, slots=True)
class WorkloadPublisher:
    """One publisher. `events` may have an end or not."""

    name: str
    advertisement: Selection
    rate_per_s: float
    events: Iterable[Event]
    broker: int | None = None
    rate_changes: tuple[RateChange, ...] = ()

    def rate_at(self, at_ns: int) -> float:
        """The rate at a time."""
        rate = self.rate_per_s
        for change in self.rate_changes:
            if change.at_ns <= at_ns:
                rate = change.rate_per_s
        return rate


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One subscriber with one subscription. `group` says what kind it is, in the paper's words."""

    name: str
    selection: Selection
    broker: int | None = None
    group: str = ""
    joins_ns: int = 0
    leaves_ns: int | None = None


class Change(NamedTuple):
    """A subscriber joins or leaves; `number` is its place in `Workload.subscribers`."""

    at_ns: int
    kind: Literal["join", "leave"]
    number: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Publishers and subscribers. `facts` holds what the generator worked out, such as fitted exponents."""

    name: str
    publishers: tuple[WorkloadPublisher, ...]
    subscribers: tuple[Subscriber, ...]
    facts: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for name in [one.name for one in self.publishers] + [one.name for one in self.subscribers]:
            if name in seen:
                raise InputError(f"two clients are named {name!r}: give each its own name")
            seen.add(name)

    @property
    def rate_per_s(self) -> float:
        """The rate of all publishers together at the start, which a broker that subscribes to everything gets."""
        return sum(publisher.rate_per_s for publisher in self.publishers)

    @property
    def brokers(self) -> int:
        """How many brokers the indexes speak of."""
        found = [one.broker for one in self.publishers]
        found += [one.broker for one in self.subscribers]
        return max((broker + 1 for broker in found if broker is not None), default=0)

    def changes(self) -> list[Change]:
        """Every join and leave in order of time; at one time, joins first, in the order of subscribers."""
        found = [Change(one.joins_ns, "join", n) for n, one in enumerate(self.subscribers)]
        found += [
            Change(one.leaves_ns, "leave", number)
            for number, one in enumerate(self.subscribers)
            if one.leaves_ns is not None
        ]
        return sorted(found)
