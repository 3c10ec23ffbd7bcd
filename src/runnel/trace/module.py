"""The broker's side of tracing: a module that fills a recorder.

    where it enters    a client's subscription or advertisement; a publication that a client sent
    where it leaves    a publication handed to a client, once for each subscription of that client that wants it
    every interval     the broker's load from its meter, and what passed the links to its neighbours

Rules:
- It only observes: a broker routes the same with and without it.
- Publications and deliveries come to the recorder from the tape of the module `recording`, which this module uses.
- An offset converts the broker's clock to the trace's; it is read again at every interval, since wall clocks are
  adjusted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runnel.broker.gauges import Gauges
from runnel.broker.links import Link
from runnel.broker.meter import Load, Meter, output_ratio
from runnel.broker.module import Context, Module
from runnel.broker.tables import AdvertisementRow, SubscriptionRow
from runnel.errors import InputError
from runnel.language import to_sql
from runnel.modules.recording.module import Recording
from runnel.quantities import SECOND
from runnel.trace.recorder import Recorder
from runnel.trace.schemas import (
    AdvertisementsRow,
    BrokersRow,
    IntervalsRow,
    LinksRow,
    SubscriptionsRow,
)

INTERVAL = "trace:interval"


@dataclass(frozen=True, slots=True)
class TraceConfig:
    """What is traced of one broker."""

    interval_ns: int = 10 * SECOND

    def __post_init__(self) -> None:
        if self.interval_ns < 1:
            raise InputError(f"trace: interval_ns must be at least 1, not {self.interval_ns}")


class Tracing(Module):
    """The module "trace". Several brokers of one process may share a recorder, not a module."""

    name = "trace"
    timers = (INTERVAL,)
    watches_tables = True

    def __init__(
        self,
        recorder: Recorder,
        config: TraceConfig | None = None,
        offset: Callable[[], int] = lambda: 0,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.config = config or TraceConfig()
        self.recording = Recording(recorder.tape, offset)
        self.uses = (self.recording,)
        self._recorder = recorder
        self._about = dict(about or {})
        self._broker = ""
        self._before = Meter()
        self._gauged = Gauges()
        self._waiting_bytes = 0
        self._began = 0

    # -- what the broker calls ------------------------------------------------------------------------

    def start(self, context: Context, now: int) -> None:
        """The broker starts."""
        self._broker = context.name
        self._began = now
        self._before, self._gauged = context.meter.copy(), context.gauges()
        self._event("started", json.dumps(self._about, sort_keys=True), now)
        context.set_timer(INTERVAL, now + self.config.interval_ns)

    def record_stop(self, context: Context, now: int) -> None:
        """The broker ends (called by the driver): record its last interval, and the counts of all its links."""
        self.recording.stop()
        self._interval(context, now)
        for link in context.links.values():
            if link.is_client:
                self._link(link, "counted", now)
        self._event("stopped", "{}", now)

    def record_note(self, kind: str, data: Mapping[str, Any], now: int) -> None:
        """Record what the broker or one of its modules asked for (the effect `WriteTrace`); called by the driver."""
        self._recorder.control(self._broker, self._time(now), kind, data)

    def timer(self, context: Context, timer: str, now: int) -> None:
        """An interval is over."""
        self.recording.read_clock()
        self._interval(context, now)
        context.set_timer(INTERVAL, now + self.config.interval_ns)

    def subscribed(self, context: Context, link: Link, row: SubscriptionRow, now: int) -> None:
        """A subscription came into the PRT; only clients' subscriptions are recorded."""
        if link.is_client:
            self._subscription("made", link, row, now)

    def unsubscribed(self, context: Context, link: Link, row: SubscriptionRow, now: int) -> None:
        """It was withdrawn, or its client is gone."""
        if link.is_client:
            self._subscription("withdrawn", link, row, now)

    def advertised(self, context: Context, link: Link, row: AdvertisementRow, now: int) -> None:
        """An advertisement came into the SRT; only clients' advertisements are recorded."""
        if link.is_client:
            self._advertisement("made", link, row, now)

    def unadvertised(self, context: Context, link: Link, row: AdvertisementRow, now: int) -> None:
        """It was withdrawn, or its client is gone."""
        if link.is_client:
            self._advertisement("withdrawn", link, row, now)

    def turned(self, context: Context, link: Link, row: AdvertisementRow, now: int) -> None:
        """A publisher has migrated: to a client's link here, or from one."""
        left = context.tables.leaving[row.id].link
        if link.is_client:
            self._advertisement("made", link, row, now)
        if left.is_client:
            self._advertisement("withdrawn", left, row, now)

    def link_up(self, context: Context, link: Link, now: int) -> None:
        """A link starts fresh."""
        self._link(link, "up", now)

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """A link is gone; what came over it was withdrawn before."""
        self._link(link, "lost", now)

    # -- inside ---------------------------------------------------------------------------------------

    def _time(self, now: int) -> int:
        """The broker's time by the trace's clock."""
        return now + self.recording.offset

    def _event(self, event: str, detail: str, now: int) -> None:
        self._recorder.add(
            BrokersRow(time_ns=self._time(now), broker=self._broker, event=event, detail=detail)
        )

    def _link(self, link: Link, event: str, now: int) -> None:
        self._recorder.add(
            LinksRow(
                time_ns=self._time(now),
                broker=self._broker,
                peer=link.name,
                kind=link.kind,
                event=event,
                publications_in=link.publications_in,
                publications_out=link.publications_out,
                dropped=link.dropped,
                waiting_bytes=link.waiting_bytes,
            )
        )

    def _subscription(self, event: str, link: Link, row: SubscriptionRow, now: int) -> None:
        self._recorder.add(
            SubscriptionsRow(
                time_ns=self._time(now),
                broker=self._broker,
                client=link.name,
                event=event,
                subscription=row.id,
                filter=to_sql(row.selection),
                selection=bytes(row.raw),
            )
        )

    def _advertisement(self, event: str, link: Link, row: AdvertisementRow, now: int) -> None:
        self._recorder.add(
            AdvertisementsRow(
                time_ns=self._time(now),
                broker=self._broker,
                client=link.name,
                event=event,
                advertisement=row.id,
                publisher=row.publisher,
                filter=to_sql(row.selection),
                selection=bytes(row.raw),
            )
        )

    def _interval(self, context: Context, now: int) -> None:
        """The load since the last interval, and what has passed the links to neighbours."""
        window = now - self._began
        if window <= 0:
            return
        gauged, before, after = context.gauges(), self._before, context.meter.copy()
        more_waiting = (gauged.waiting_publications or 0) - (self._gauged.waiting_publications or 0)
        load = Load.between(before, after, window, more_waiting)
        queues = [link.waiting_bytes for link in context.links.values()]
        waiting = [len(k.data.waiting) + len(k.monitor.waiting) for k in context.links.values()]
        publications_in = after.publications_in - before.publications_in
        messages_in = sorted((after.messages_in - before.messages_in).items())
        self._recorder.add(
            IntervalsRow(
                time_ns=self._time(now),
                broker=self._broker,
                window_ns=window,
                input_ratio=load.input_ratio,
                output_ratio=self._output_ratio(gauged, after, sum(queues), window),
                matching_delay_s=load.matching_delay_s,
                input_rate=load.input_rate,
                output_rate=load.output_rate,
                publications_in=publications_in,
                publications_out=after.publications_out - before.publications_out,
                control_in=after.control_in - before.control_in,
                frames_out=after.frames_out - before.frames_out,
                bytes_in=after.bytes_in - before.bytes_in,
                bytes_out=after.bytes_out - before.bytes_out,
                dropped=after.dropped - before.dropped,
                messages_in=[("Publication", publications_in), *messages_in],
                queue_frames=sum(waiting),
                queue_bytes=sum(queues),
                queue_bytes_largest=max(queues, default=0),
                subscriptions=len(context.tables.prt),
                advertisements=len(context.tables.srt),
                clients=sum(link.is_client for link in context.links.values()),
                memory_bytes=gauged.memory_bytes,
            )
        )
        for link in context.links.values():
            if link.is_neighbour:
                self._link(link, "counted", now)
        self._before, self._gauged, self._began = after, gauged, now
        self._waiting_bytes = sum(queues)

    def _output_ratio(
        self, gauged: Gauges, after: Meter, waiting_bytes: int, window: int
    ) -> float | None:
        """Or; what came into the output queues is what left them plus the growth of the queues."""
        if gauged.output_busy_ns is None:
            return None
        busy = gauged.output_busy_ns - (self._gauged.output_busy_ns or 0)
        sent = after.bytes_out - self._before.bytes_out
        received = sent + waiting_bytes - self._waiting_bytes
        return output_ratio(busy, window, max(0, received), sent)
