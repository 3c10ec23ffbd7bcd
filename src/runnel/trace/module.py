"""The broker's side of tracing: a module that fills a recorder.

    where it enters    a publication that a client sent, a client's subscription or advertisement
    where it leaves    a publication handed to a client, once for each subscription of that client that wants it
    every interval     the broker's load from its meter, and what passed the links to its neighbours

Rules:
- It looks and changes nothing: a broker routes the same with and without it.
- The broker's clock may be any; `offset` turns its time into the trace's, asked for again at every interval, since wall
  clocks are adjusted.
- A client with one subscription, which most are, is known to want what it gets. Only for others the
  table is asked again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runnel.broker.links import Link
from runnel.broker.meter import SECOND, Load, Meter, output_ratio
from runnel.broker.module import Context, Module
from runnel.broker.tables import Advertisement, Subscription
from runnel.errors import InputError
from runnel.language import to_sql
from runnel.trace.recorder import Recorder, Wanted
from runnel.wire import Publication

TIMER = "trace:interval"


@dataclass(frozen=True, slots=True)
class Gauges:
    """What only the driver can know of a broker; None for what it does not measure."""

    memory_bytes: int | None = None
    output_busy_ns: int | None = None  # since the broker started
    matching_ns: int | None = None  # the same, where the broker has no clock to measure with


@dataclass(frozen=True, slots=True)
class TraceConfig:
    """What is traced of one broker."""

    interval_ns: int = 10 * SECOND
    publications: bool = True
    deliveries: bool = True

    def __post_init__(self) -> None:
        if self.interval_ns < 1:
            raise InputError(f"trace: interval_ns must be at least 1, not {self.interval_ns}")


def _same_clock() -> int:
    return 0


class Tracing(Module):
    """The module "trace". Several brokers of one process may share a recorder, not a module."""

    name = "trace"
    watches_tables = True

    def __init__(
        self,
        recorder: Recorder,
        config: TraceConfig | None = None,
        offset: Callable[[], int] = _same_clock,
        gauges: Callable[[], Gauges] = Gauges,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.config = config or TraceConfig()
        self.watches_publications = self.config.publications or self.config.deliveries
        self._keeps_publications = self.config.publications
        self._keeps_deliveries = self.config.deliveries
        self._recorder = recorder
        self._sample = recorder.sample
        self._asked_offset = offset
        self._offset = 0
        self._gauges = gauges
        self._about = dict(about or {})
        self._broker = ""
        self._clients: dict[int, dict[int, Wanted]] = {}  # link number → the client's subscriptions
        self._only: dict[int, Wanted] = {}  # … of those that have one
        self._have_many = False  # whether there are others
        self._before = Meter()
        self._gauged = Gauges()
        self._waiting_bytes = 0
        self._began = 0

    # -- what the broker calls ------------------------------------------------------------------------

    def start(self, context: Context, now: int) -> None:
        """The broker starts."""
        self._broker = context.name
        self._offset = self._asked_offset()
        self._began = now
        self._before, self._gauged = context.meter.copy(), self._gauges()
        self._add("brokers", now, "started", json.dumps(self._about, sort_keys=True))
        context.set_timer(TIMER, now + self.config.interval_ns)

    def stopped(self, context: Context, now: int) -> None:
        """The driver says that the broker ends: its last interval, and the counts of all its links."""
        self._interval(context, now)
        for link in context.links.values():
            if link.is_client:
                self._link(link, "counted", now)
        self._add("brokers", now, "stopped", "{}")

    def told(self, kind: str, data: Mapping[str, Any], now: int) -> None:
        """The driver passes on a note that the broker, or one of its modules, made (the effect `Trace`)."""
        self._recorder.control(self._broker, now + self._offset, kind, data)

    def timer(self, context: Context, timer: str, now: int) -> None:
        """An interval is over."""
        self._offset = self._asked_offset()
        self._interval(context, now)
        context.set_timer(TIMER, now + self.config.interval_ns)

    def routed(
        self,
        context: Context,
        link: Link,
        run: list[Publication],
        hops: list[list[int]],
        now: int,
    ) -> None:
        """A run of publications was routed, each to the hops in the same place."""
        if len(run) == 1:
            self._one(context, link, run[0], hops[0], now + self._offset)
            return
        sample = self._sample
        if sample != 1:
            kept = [n for n, p in enumerate(run) if not p.counter % sample]
            if not kept:
                return
            run, hops = [run[n] for n in kept], [hops[n] for n in kept]
        at = now + self._offset
        if self._keeps_publications and link.is_client:
            self._recorder.publications(self._broker, at, tuple([p.raw for p in run]))
        if self._clients and self._keeps_deliveries:
            self._deliveries(context, run, hops, at)

    def _one(
        self, context: Context, link: Link, publication: Publication, numbers: list[int], at: int
    ) -> None:
        """The same for a run of one, as most are where there is little to do; without a list for every column."""
        if self._sample != 1 and publication.counter % self._sample:
            return
        if self._keeps_publications and link.is_client:
            self._recorder.publications(self._broker, at, (publication.raw,))
        if not self._clients or not self._keeps_deliveries:
            return
        the_only_one = self._only.get
        wanted = []
        for number in numbers:
            who = the_only_one(number)
            if who is not None:
                wanted.append(who)
        if self._have_many:
            wanted += self._wanted_by_many(context, publication, numbers)
        if wanted:
            frames, counts = (publication.raw,), (len(wanted),)
            self._recorder.deliveries(self._broker, at, frames, counts, tuple(wanted))

    def _deliveries(
        self, context: Context, run: list[Publication], hops: list[list[int]], at: int
    ) -> None:
        """Record what went to clients. This is for every publication, so it makes nothing that is not kept."""
        have_many, the_only_one = self._have_many, self._only.get
        frames: list[bytes] = []
        counts: list[int] = []
        wanted: list[Wanted] = []
        for publication, numbers in zip(run, hops):  # noqa: B905 - `strict` takes its time
            before = len(wanted)
            for number in numbers:
                who = the_only_one(number)
                if who is not None:
                    wanted.append(who)
            if have_many:
                wanted += self._wanted_by_many(context, publication, numbers)
            if len(wanted) > before:
                frames.append(publication.raw)
                counts.append(len(wanted) - before)
        if frames:
            self._recorder.deliveries(self._broker, at, tuple(frames), tuple(counts), tuple(wanted))

    def subscribed(self, context: Context, link: Link, row: Subscription, now: int) -> None:
        """A subscription, here or elsewhere; those of clients count."""
        if link.is_client:
            self._clients.setdefault(link.number, {})[row.id] = (row.id, link.name)
            self._settle(link.number)
            self._subscription("made", link, row, now)

    def unsubscribed(self, context: Context, link: Link, row: Subscription, now: int) -> None:
        """It was withdrawn, or its client is gone."""
        if link.is_client:
            del self._clients[link.number][row.id]
            self._settle(link.number)
            self._subscription("withdrawn", link, row, now)

    def advertised(self, context: Context, link: Link, row: Advertisement, now: int) -> None:
        """An advertisement; those of clients count."""
        if link.is_client:
            self._advertisement("made", link, row, now)

    def unadvertised(self, context: Context, link: Link, row: Advertisement, now: int) -> None:
        """It was withdrawn, or its client is gone."""
        if link.is_client:
            self._advertisement("withdrawn", link, row, now)

    def link_up(self, context: Context, link: Link, now: int) -> None:
        """A link starts fresh."""
        self._link(link, "up", now)

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """A link is gone; what came over it was withdrawn before."""
        self._link(link, "lost", now)

    # -- inside ---------------------------------------------------------------------------------------

    def _settle(self, number: int) -> None:
        """Keep the shortcut for clients with one subscription true."""
        mine = self._clients[number]
        if not mine:
            del self._clients[number]
        if len(mine) == 1:
            self._only[number] = next(iter(mine.values()))
        else:
            self._only.pop(number, None)
        self._have_many = len(self._clients) != len(self._only)

    def _wanted_by_many(
        self, context: Context, publication: Publication, numbers: list[int]
    ) -> list[Wanted]:
        """Who of the clients with several subscriptions wants it, for those among its hops."""
        clients, only = self._clients, self._only
        asked = [n for n in numbers if n in clients and n not in only]
        if not asked:
            return []
        return [
            (row.id, row.link.name)
            for row in context.tables.local_subscriptions(publication)
            if row.link.number in asked
        ]

    def _add(self, table: str, now: int, *row: Any) -> None:
        self._recorder.add(table, self._broker, now + self._offset, row)

    def _link(self, link: Link, event: str, now: int) -> None:
        counts = (link.publications_in, link.publications_out, link.dropped, link.waiting_bytes)
        self._add("links", now, link.name, link.kind, event, *counts)

    def _subscription(self, event: str, link: Link, row: Subscription, now: int) -> None:
        asked = (to_sql(row.selection), bytes(row.raw))
        self._add("subscriptions", now, link.name, event, row.id, *asked)

    def _advertisement(self, event: str, link: Link, row: Advertisement, now: int) -> None:
        asked = (to_sql(row.selection), bytes(row.raw))
        self._add("advertisements", now, link.name, event, row.id, row.publisher, *asked)

    def _interval(self, context: Context, now: int) -> None:
        """The load since the last interval, and what has passed the links to neighbours."""
        window = now - self._began
        if window <= 0:
            return
        gauged = self._gauges()
        after = context.meter.copy()
        if gauged.matching_ns is not None:
            after.matching_ns = gauged.matching_ns
        before, load = self._before, Load.between(self._before, after, window)
        queues = [link.waiting_bytes for link in context.links.values()]
        control_in = after.control_in - before.control_in
        publications_in = after.publications_in - before.publications_in
        self._add(
            "intervals",
            now,
            window,
            load.input_ratio,
            self._output_ratio(gauged, after, sum(queues), window),
            load.matching_delay_s,
            load.input_rate,
            load.output_rate,
            publications_in,
            after.publications_out - before.publications_out,
            control_in,
            after.frames_out - before.frames_out,
            after.bytes_in - before.bytes_in,
            after.bytes_out - before.bytes_out,
            after.dropped - before.dropped,
            [
                ("Publication", publications_in),
                *sorted((after.messages_in - before.messages_in).items()),
            ],
            sum(len(k.data.waiting) + len(k.monitor.waiting) for k in context.links.values()),
            sum(queues),
            max(queues, default=0),
            len(context.tables.prt),
            len(context.tables.srt),
            sum(link.is_client for link in context.links.values()),
            gauged.memory_bytes,
        )
        for link in context.links.values():
            if not link.is_client:
                self._link(link, "counted", now)
        self._before, self._gauged, self._began = after, gauged, now
        self._waiting_bytes = sum(queues)

    def _output_ratio(
        self, gauged: Gauges, after: Meter, waiting_bytes: int, window: int
    ) -> float | None:
        """Or: what came into the output queues is what left them and what stayed."""
        if gauged.output_busy_ns is None:
            return None
        busy = gauged.output_busy_ns - (self._gauged.output_busy_ns or 0)
        sent = after.bytes_out - self._before.bytes_out
        received = sent + waiting_bytes - self._waiting_bytes
        return output_ratio(busy, window, max(0, received), sent)
