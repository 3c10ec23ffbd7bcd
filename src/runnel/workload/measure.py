"""Measures a workload: publications in order of time, matched against every subscription.

So a number that a paper prints is checked against the workload itself rather than against the formula that made it. All
subscribers count as present, whenever they join.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

from runnel.matching import make_engine
from runnel.quantities import SECOND
from runnel.workload.files import Event
from runnel.workload.shape import Workload, WorkloadPublisher


@dataclass(slots=True)
class WorkloadMeasure:
    """The matches of some publications; `by_group` counts them by the subscribers' groups, if wanted."""

    publications: int = 0
    matches: int = 0
    reached: int = 0  # brokers with a matching subscription, over all publications
    subscriptions: int = 0
    by_publisher: Counter[str] = field(default_factory=Counter)
    by_group: Counter[str] = field(default_factory=Counter)

    @property
    def matched_share(self) -> float:
        """The share of subscriptions that a publication matches on average."""
        return self.matches / (self.publications * self.subscriptions)

    @property
    def brokers_reached(self) -> float:
        """How many brokers a publication has to get to on average."""
        return self.reached / self.publications


def timeline(workload: Workload) -> Iterator[tuple[int, WorkloadPublisher, Event]]:
    """Every publication with its time, in order of time; without end if a publisher has none.

    Publishers start one after the other within their first interval, so that they do not all publish at once.

    >>> from itertools import islice
    >>> from runnel.language import EVERYTHING
    >>> from runnel.workload.shape import Loop
    >>> pair = [WorkloadPublisher(name, EVERYTHING, 1.0, Loop([{"a": 1}])) for name in ("p", "q")]
    >>> [(at, one.name) for at, one, _ in islice(timeline(Workload("two", tuple(pair), ())), 3)]
    [(0, 'p'), (500000000, 'q'), (1000000000, 'p')]
    """
    publishers = workload.publishers
    streams = [iter(publisher.events) for publisher in publishers]
    due = [
        (round(place / len(publishers) / publisher.rate_per_s * SECOND), place)
        for place, publisher in enumerate(publishers)
    ]
    heapify(due)
    while due:
        at_ns, place = due[0]
        event = next(streams[place], None)
        if event is None:
            heappop(due)
            continue
        publisher = publishers[place]
        yield at_ns, publisher, event
        heapreplace(due, (at_ns + round(SECOND / publisher.rate_at(at_ns)), place))


def measure(
    workload: Workload,
    *,
    publications: int | None = None,
    seconds: float | None = None,
    groups: bool = False,
) -> WorkloadMeasure:
    """Match the publications of a workload: so many, or so many seconds of them.

    Counting by groups looks at every match, which is slow where a publication has thousands.
    """
    engine = make_engine()
    brokers: array[int] = array("q")
    for number, one in enumerate(workload.subscribers):
        engine.add(number, one.selection)
        brokers.append(-1 if one.broker is None else one.broker)
    names = [one.group for one in workload.subscribers]
    found = WorkloadMeasure(subscriptions=len(workload.subscribers))
    end_ns = None if seconds is None else seconds * SECOND
    for at_ns, publisher, event in timeline(workload):
        if found.publications == publications or (end_ns is not None and at_ns >= end_ns):
            break
        matches = engine.match(event)
        found.publications += 1
        found.matches += len(matches)
        found.reached += len(matches.distinct(brokers))
        found.by_publisher[publisher.name] += 1
        if groups:
            found.by_group.update(names[number] for number in matches)
    return found
