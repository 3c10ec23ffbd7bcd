"""How long messages take in a broker and on its links: the delays in GRAPE's reports.

The paper has a monitor that measures queues. Here a broker computes the waiting time from its counters (`Meter`) and
its driver's gauges: at a server with utilisation ρ, constant service time and random arrivals (M/D/1) the mean wait is
ρ / 2(1 − ρ) service times. The bytes that wait on a link now are known exactly. The time of a link is half of the
shortest of a few round trips on its connection; longer ones include queues, which are counted already.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from runnel.broker.gauges import Gauges
from runnel.broker.links import Link
from runnel.broker.meter import Meter
from runnel.broker.module import Context
from runnel.modules.placement.messages import Ping, Pong
from runnel.quantities import SECOND

WINDOW_NS = 10 * SECOND
"""How long a reading holds."""

BUSY_MAX = 0.99
"""Utilisation is capped here: at 1 the mean wait is infinite."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The average delays of a message, in nanoseconds; `bytes_out` bytes were sent in `window_ns`."""

    input_ns: int = 0
    matching_ns: int = 0
    output_ns: int = 0
    bytes_out: int = 0
    window_ns: int = 1

    def output_to(self, waiting_bytes: int) -> int:
        """How long a message takes to leave behind so many waiting bytes; at most the length of a window."""
        if not waiting_bytes:
            return self.output_ns
        drained = waiting_bytes * self.window_ns // self.bytes_out if self.bytes_out else WINDOW_NS
        return self.output_ns + min(drained, WINDOW_NS)


def wait_ns(busy_ns: int, served: int, window_ns: int) -> int:
    """The mean time in the queue of a server that was busy for `busy_ns` with `served` messages.

    >>> wait_ns(busy_ns=500, served=5, window_ns=1_000)  # half the time, 100 each
    50
    """
    if not served:
        return 0
    busy = min(busy_ns / window_ns, BUSY_MAX)
    return round(busy_ns / served * busy / (2 * (1 - busy)))


def stuck_bytes(link: Link) -> int:
    """The bytes that wait on a link whose window is full."""
    return 0 if link.has_room else link.waiting_bytes


class Delays:
    """A broker's own delays, measured again when the last reading is old."""

    def __init__(self) -> None:
        self._before, self._gauged = Meter(), Gauges()
        self._began = 0
        self._reading = Reading()

    def start(self, context: Context, now: int) -> None:
        """Begin to measure."""
        self._before, self._gauged, self._began = context.meter.copy(), context.gauges(), now

    def read(self, context: Context, now: int) -> Reading:
        """The latest reading, or a new one if that is old."""
        window_ns = now - self._began
        if window_ns >= WINDOW_NS or (window_ns > 0 and self._reading.window_ns == 1):
            before, gauged = self._before, self._gauged
            self.start(context, now)
            self._reading = self._between(before, gauged, window_ns)
        return self._reading

    def _between(self, before: Meter, gauged: Gauges, window_ns: int) -> Reading:
        after, measured = self._before, self._gauged
        matching = after.matching_ns - before.matching_ns
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
    """The measurement of one link: when it began, when the pending ping was sent, and the round trips so far."""

    began: int
    asked_at: int
    samples: list[int] = field(default_factory=list)


class LinkTimes:
    """One-way times of links. The pings of one link follow each other; links are measured in parallel."""

    def __init__(self, samples: int, every_ns: int) -> None:
        self._count = samples
        self._every_ns = every_ns
        self._rounds: dict[Link, Round] = {}
        self._known: dict[Link, int] = {}

    def measure(self, context: Context, link: Link, now: int) -> None:
        """Start measuring a link, unless it was measured lately."""
        last = self._rounds.get(link)
        if last is None or now - last.began >= self._every_ns:
            self._rounds[link] = Round(now, now)
            context.send(link, Ping(now))

    def message(self, context: Context, link: Link, message: Ping | Pong, now: int) -> None:
        """Answer a ping, or take a sample from a pong and send the next ping until there are enough."""
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
        """Forget a link: its next connection may be faster or slower."""
        self._rounds.pop(link, None)
        self._known.pop(link, None)

    def one_way_ns(self, link: Link) -> int:
        """The one-way time of a link; 0 while it is not measured."""
        return self._known.get(link, 0)
