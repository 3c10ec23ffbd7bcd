"""How long messages take in a broker and on its links: what GRAPE's reports say besides who got what.

The paper has a monitor that measures queues. A broker here sees its own counts (`Meter`), and what its driver tells it
(`Gauges`, where the broker has no clock); from how busy it was follows how long a message waited: the mean wait at
a server with constant service time and random arrivals (M/D/1) is ρ / 2(1 − ρ) services. What waits on a link at this
moment is seen as it is. The time of a link is half of a round trip on its own connection, the least of a few
samples: the rest of a longer one is queues, which are counted already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from runnel.broker.links import SECOND, Link
from runnel.broker.meter import Meter
from runnel.broker.module import Context
from runnel.placement.messages import Ping, Pong

WINDOW_NS = 10 * SECOND
"""How long a reading holds."""

BUSY_MAX = 0.99
"""Beyond this a queue has no mean wait; it is taken for this busy."""


class Gauges(Protocol):
    """What only the driver can know of a broker; None for what it does not measure."""

    @property
    def matching_ns(self) -> int | None:
        """Time spent matching since the broker started."""

    @property
    def output_busy_ns(self) -> int | None:
        """Time spent sending since then."""


@dataclass(frozen=True, slots=True)
class NoGauges:
    """A driver that measures nothing."""

    matching_ns: int | None = None
    output_busy_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """How long a message takes on average, in nanoseconds; `bytes_out` left in `window_ns`."""

    input_ns: int = 0
    matching_ns: int = 0
    output_ns: int = 0
    bytes_out: int = 0
    window_ns: int = 1

    def output_to(self, waiting_bytes: int) -> int:
        """How long a message takes to leave if so much waits before it; no longer than was looked at."""
        if not waiting_bytes:
            return self.output_ns
        drained = waiting_bytes * self.window_ns // self.bytes_out if self.bytes_out else WINDOW_NS
        return self.output_ns + min(drained, WINDOW_NS)


def wait_ns(busy_ns: int, served: int, window_ns: int) -> int:
    """The mean wait for a server that was busy for so long with so many, besides being served.

    >>> wait_ns(busy_ns=500, served=5, window_ns=1_000)  # half the time, 100 each
    50
    """
    if not served:
        return 0
    busy = min(busy_ns / window_ns, BUSY_MAX)
    return round(busy_ns / served * busy / (2 * (1 - busy)))


def stuck_bytes(link: Link) -> int:
    """What waits on a link and does not leave at once."""
    return 0 if link.has_room else link.waiting_bytes


class Delays:
    """A broker's own delays, read anew when the last reading is old."""

    def __init__(self, gauges: Callable[[], Gauges] = NoGauges) -> None:
        self._gauges = gauges
        self._before, self._gauged = Meter(), gauges()
        self._began = 0
        self._reading = Reading()

    def start(self, context: Context, now: int) -> None:
        """Begin to measure."""
        self._before, self._gauged, self._began = context.meter.copy(), self._gauges(), now

    def read(self, context: Context, now: int) -> Reading:
        """What messages take now."""
        window_ns = now - self._began
        if window_ns >= WINDOW_NS or (window_ns > 0 and self._reading.window_ns == 1):
            before, gauged = self._before, self._gauged
            self.start(context, now)
            self._reading = self._between(before, gauged, window_ns)
        return self._reading

    def _between(self, before: Meter, gauged: Gauges, window_ns: int) -> Reading:
        after, measured = self._before, self._gauged
        matching = after.matching_ns - before.matching_ns
        if measured.matching_ns is not None:
            matching = measured.matching_ns - (gauged.matching_ns or 0)
        sending = (measured.output_busy_ns or 0) - (gauged.output_busy_ns or 0)
        taken = after.publications_in - before.publications_in
        sent = after.frames_out - before.frames_out
        return Reading(
            wait_ns(matching, taken, window_ns),
            matching // taken if taken else 0,
            wait_ns(sending, sent, window_ns) + (sending // sent if sent else 0),
            after.bytes_out - before.bytes_out,
            window_ns,
        )


@dataclass(slots=True)
class Round:
    """The measuring of one link: when it began, the ping that is under way, what the others took."""

    began: int
    asked_at: int
    samples: list[int] = field(default_factory=list)


class LinkTimes:
    """How long links take, one way; samples of one link one after the other, of all links at once."""

    def __init__(self, samples: int, every_ns: int) -> None:
        self._count = samples
        self._every_ns = every_ns
        self._rounds: dict[Link, Round] = {}
        self._known: dict[Link, int] = {}

    def measure(self, context: Context, link: Link, now: int) -> None:
        """See to it that the time of a link is known, and not old."""
        last = self._rounds.get(link)
        if last is None or now - last.began >= self._every_ns:
            self._rounds[link] = Round(now, now)
            context.send(link, Ping(now))

    def message(self, context: Context, link: Link, message: Ping | Pong, now: int) -> None:
        """Answer a neighbour, or take its answer and ask again until there are enough."""
        if isinstance(message, Ping):
            context.send(link, Pong(message.at))
            return
        current = self._rounds.get(link)
        if current is None or message.at != current.asked_at or len(current.samples) >= self._count:
            return
        current.samples.append(now - message.at)
        self._known[link] = min(current.samples) // 2
        if len(current.samples) < self._count:
            current.asked_at = now
            context.send(link, Ping(now))

    def link_lost(self, link: Link) -> None:
        """Another connection may take another time."""
        self._rounds.pop(link, None)
        self._known.pop(link, None)

    def one_way_ns(self, link: Link) -> int:
        """How long a link takes; 0 while it is not known."""
        return self._known.get(link, 0)
