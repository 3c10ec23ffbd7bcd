"""The broker's side of tracing: a module that fills a recorder.

    where it enters    a publication that a client sent, a client's subscription or advertisement
    where it leaves    a publication handed to a client, once for each subscription of that client that wants it
    every interval     the broker's load from its meter, and what passed the links to its neighbours

Rules:
- It looks and changes nothing: a broker routes the same with and without it.
- The broker's clock may be any; `offset` turns its time into the trace's, asked for again at every interval, since wall
  clocks are adjusted.
- What is routed goes on a tape (tape.py) as it is. The tape is sealed, which hands it to the recorder, when there is
  enough on it, when it is so old, before the hour turns or the clock is adjusted, and at the end; and whenever a
  client's subscriptions change, since who got what is looked up when the tape is sealed.
- A client with one subscription, which most are, is known to want what it gets. While there are others, the table is
  asked again at once.
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
from runnel.trace.recorder import Recorder
from runnel.trace.schemas import HOUR_NS
from runnel.trace.tape import pack_record
from runnel.wire import Publication

INTERVAL = "trace:interval"
TAPE = "trace:tape"


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
        self._tape = recorder.tape
        self._audience = self._tape.audiences.join("")
        self._before = Meter()
        self._gauged = Gauges()
        self._waiting_bytes = 0
        self._began = 0

    # -- what the broker calls ------------------------------------------------------------------------

    def start(self, context: Context, now: int) -> None:
        """The broker starts."""
        self._broker = context.name
        self._tape.audiences.brokers[self._audience.number] = context.name
        self._offset = self._asked_offset()
        self._began = now
        self._before, self._gauged = context.meter.copy(), self._gauges()
        self._add("brokers", now, "started", json.dumps(self._about, sort_keys=True))
        context.set_timer(INTERVAL, now + self.config.interval_ns)

    def stopped(self, context: Context, now: int) -> None:
        """The driver says that the broker ends: its last interval, and the counts of all its links."""
        self._recorder.seal()
        self._audience.leave()
        self._interval(context, now)
        for link in context.links.values():
            if link.is_client:
                self._link(link, "counted", now)
        self._add("brokers", now, "stopped", "{}")

    def told(self, kind: str, data: Mapping[str, Any], now: int) -> None:
        """The driver passes on a note that the broker, or one of its modules, made (the effect `Trace`)."""
        self._recorder.control(self._broker, now + self._offset, kind, data)

    def timer(self, context: Context, timer: str, now: int) -> None:
        """The tape is old, or an interval is over."""
        if timer == INTERVAL or now + self._offset >= self._tape.old_at:
            self._recorder.seal()
        if timer == INTERVAL:
            self._offset = self._asked_offset()
            self._interval(context, now)
            context.set_timer(INTERVAL, now + self.config.interval_ns)

    def routed(
        self,
        context: Context,
        link: Link,
        run: list[Publication],
        hops: list[list[int]],
        now: int,
    ) -> None:
        """A run of publications was routed, each to the hops in the same place."""
        audience, from_client = self._audience, link.is_client
        if not (from_client or audience.clients):
            return
        sample = self._sample
        if sample != 1:
            kept = [n for n, p in enumerate(run) if not p.counter % sample]
            if not kept:
                return
            run, hops = [run[n] for n in kept], [hops[n] for n in kept]
        tape, at = self._tape, now + self._offset
        if at >= tape.old_at:
            self._begin(context, now)
        if audience.with_many:
            tables = context.tables
            hops = [audience.wanted(tables, *each) for each in zip(run, hops, strict=True)]
        tape.add(audience.number, run, hops, at, from_client and self._keeps_publications)

    def routed_one(
        self, context: Context, link: Link, publication: Publication, hops: list[int], now: int
    ) -> None:
        """The same for one alone, as most are where there is little to do; if it came from elsewhere, written out."""
        tape, audience, at = self._tape, self._audience, now + self._offset
        if at >= tape.old_at or link.is_client or self._sample != 1 or not audience.is_simple:
            self.routed(context, link, [publication], [hops], now)
            return
        tape.records += pack_record(publication.raw, at, audience.number, False, len(hops))
        tape.hops.fromlist(hops)
        if len(tape.records) >= tape.records_max or len(tape.hops) >= tape.hops_max:
            tape.old_at = 0

    def subscribed(self, context: Context, link: Link, row: Subscription, now: int) -> None:
        """A subscription, here or elsewhere; those of clients count."""
        if link.is_client:
            if self._keeps_deliveries:
                self._recorder.seal()
                self._audience.add(link.number, row.id, link.name)
            self._subscription("made", link, row, now)

    def unsubscribed(self, context: Context, link: Link, row: Subscription, now: int) -> None:
        """It was withdrawn, or its client is gone."""
        if link.is_client:
            if self._keeps_deliveries:
                self._recorder.seal()
                self._audience.remove(link.number, row.id)
            self._subscription("withdrawn", link, row, now)

    def advertised(self, context: Context, link: Link, row: Advertisement, now: int) -> None:
        """An advertisement; those of clients count."""
        if link.is_client:
            self._advertisement("made", link, row, now)

    def unadvertised(self, context: Context, link: Link, row: Advertisement, now: int) -> None:
        """It was withdrawn, or its client is gone."""
        if link.is_client:
            self._advertisement("withdrawn", link, row, now)

    def turned(self, context: Context, link: Link, row: Advertisement, now: int) -> None:
        """A publisher has migrated: to a client's link here, or from one."""
        left = context.tables.leaving[row.id].link
        if link.is_client:
            self._advertisement("made", link, row, now)
        if left.is_client:
            self._advertisement("withdrawn", left, row, now)

    def link_up(self, context: Context, link: Link, now: int) -> None:
        """A link starts fresh."""
        self._audience.link_up(link.number)
        self._link(link, "up", now)

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """A link is gone; what came over it was withdrawn before."""
        self._link(link, "lost", now)

    # -- inside ---------------------------------------------------------------------------------------

    def _begin(self, context: Context, now: int) -> None:
        """A new tape; with all its rows in one hour, as they go into one file."""
        self._recorder.seal()
        at = now + self._offset
        age_ns = min(self._recorder.config.tape_ns, HOUR_NS - at % HOUR_NS)
        self._tape.old_at = at + age_ns
        context.set_timer(TAPE, now + age_ns)

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
