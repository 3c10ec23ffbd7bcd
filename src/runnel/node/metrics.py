"""The metrics of a broker, for Prometheus: `METRICS` lists them, `write_metrics` reads them all.

Rules:
- A metric is read from what the broker counts in any case (its meter, its links, its tables, its gauges), so that
  metrics cost nothing but when they are asked for.
- Names end in their unit; what only grows ends in `_total`. Rates and utilisations are for the reader to make of two
  readings: docs/operating.md has the expressions.
- Labels have few values: kinds of peers, neighbours, kinds of messages, never clients or filters.
- A node has two brokers while it goes from one generation of the network to the next: `generation` tells them apart.
  What belongs to the process is there once, without that label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from runnel.broker.access import REFUSALS
from runnel.broker.kinds import KINDS
from runnel.broker.links import Link
from runnel.broker.module import Context
from runnel.matching import engine_note
from runnel.node.exposition import Kind, Sample, write_metric
from runnel.node.tls import NodeTls
from runnel.quantities import SECOND
from runnel.version import __version__


@dataclass(frozen=True, slots=True)
class MetricsSource:
    """What metrics of one broker are read from; `events` counts what it has traced, by kind."""

    broker: Context
    events: Mapping[str, int]
    started_s: float  # since 1970
    tls: NodeTls | None = None

    def links(self, kind: str) -> list[Link]:
        """The links to peers of a kind."""
        return [link for link in self.broker.links.values() if link.kind == kind]

    @property
    def neighbours(self) -> list[Link]:
        """The links to other brokers."""
        return [link for link in self.broker.links.values() if link.is_neighbour]


Read = Callable[[MetricsSource], Iterable[Sample]]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, what it is for, and how it is read."""

    name: str
    kind: Kind
    purpose: str
    read: Read
    of_process: bool = False


def write_metrics(sources: Sequence[MetricsSource]) -> str:
    """All metrics of the brokers of one process, as text in Prometheus' format."""
    return "".join(
        write_metric(metric.name, metric.kind, metric.purpose, _samples(metric, sources))
        for metric in METRICS
    )


def _samples(metric: Metric, sources: Sequence[MetricsSource]) -> Iterable[Sample]:
    if metric.of_process:
        yield from metric.read(sources[0])
        return
    for source in sources:
        generation = {"generation": str(source.broker.generation)}
        for sample in metric.read(source):
            yield Sample(sample.value, generation | {**sample.labels})


# -- how they are read --------------------------------------------------------------------------------


def _one(read: Callable[[Context], float | None]) -> Read:
    """A metric with one sample, or none where this driver does not measure it."""

    def samples(source: MetricsSource) -> Iterable[Sample]:
        value = read(source.broker)
        return [] if value is None else [Sample(value, {})]

    return samples


def _by(label: str, read: Callable[[MetricsSource], Mapping[str, float]]) -> Read:
    """A metric with a sample for each value of a label."""
    return lambda source: [Sample(n, {label: value}) for value, n in read(source).items()]


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / SECOND


def _received(source: MetricsSource) -> Mapping[str, float]:
    gone = source.broker.meter.received_from_gone
    return {
        kind.name: gone[kind.name] + sum(link.publications_in for link in source.links(kind.name))
        for kind in KINDS.values()
        if kind.is_routed
    }


def _sent(kind: str) -> Callable[[MetricsSource], Iterable[Sample]]:
    def samples(source: MetricsSource) -> Iterable[Sample]:
        gone = source.broker.meter.sent_to_gone[kind]
        return [Sample(gone + sum(link.publications_out for link in source.links(kind)), {})]

    return samples


def _links(source: MetricsSource) -> Iterable[Sample]:
    links = Counter((link.kind, link.established) for link in source.broker.links.values())
    for kind in KINDS.values():
        for is_up, state in (True, "up"), (False, "down"):
            yield Sample(links[kind.name, is_up], {"peer": kind.name, "state": state})


def _of_links(read: Callable[[Link], int]) -> Read:
    return _by(
        "peer",
        lambda source: {kind: sum(map(read, source.links(kind))) for kind in KINDS},
    )


def _of_neighbours(read: Callable[[Link], int]) -> Read:
    return _by("neighbour", lambda source: {link.name: read(link) for link in source.neighbours})


def _migrations(source: MetricsSource) -> Mapping[str, float]:
    return {stage: source.events.get(f"migration-{stage}", 0) for stage in ("begins", "ends")}


def _of_tls(read: Callable[[NodeTls], float]) -> Read:
    """A metric that is there only with TLS."""
    return lambda source: [] if source.tls is None else [Sample(read(source.tls), {})]


METRICS = (
    Metric(
        "runnel_info",
        "gauge",
        "Always 1; its labels say which broker this is.",
        lambda source: [
            Sample(
                1,
                {
                    "broker": source.broker.name,
                    "version": __version__,
                    "engine": engine_note(),
                },
            )
        ],
        of_process=True,
    ),
    Metric(
        "runnel_start_time_seconds",
        "gauge",
        "When the broker started, in seconds since 1970.",
        lambda source: [Sample(source.started_s, {})],
    ),
    # -- publications
    Metric(
        "runnel_publications_received_total",
        "counter",
        "Publications that came from clients and from other brokers.",
        _by("peer", _received),
    ),
    Metric(
        "runnel_publications_delivered_total",
        "counter",
        "Publications for clients, one for each of them; those that were dropped afterwards included.",
        _sent("client"),
    ),
    Metric(
        "runnel_publications_forwarded_total",
        "counter",
        "Publications for other brokers, one for each of them; those that were dropped afterwards included.",
        _sent("broker"),
    ),
    Metric(
        "runnel_publications_dropped_total",
        "counter",
        "Publications that were dropped on purpose, by reason; queue: the peer did not keep up.",
        _by("reason", lambda source: {"queue": source.broker.meter.dropped}),
    ),
    Metric(
        "runnel_publications_refused_total",
        "counter",
        "Publications of clients that may not publish them, by reason.",
        _by("reason", lambda source: {why: source.broker.meter.refused[why] for why in REFUSALS}),
    ),
    Metric(
        "runnel_publications_discarded_total",
        "counter",
        "Publications for a peer that was lost for good, never sent to it.",
        _one(lambda broker: broker.meter.discarded),
    ),
    Metric(
        "runnel_publications_in_doubt_total",
        "counter",
        "Publications that were sent to a peer that was lost for good, and that it had not acknowledged.",
        _one(lambda broker: broker.meter.in_doubt),
    ),
    Metric(
        "runnel_gaps_told_total",
        "counter",
        "Messages to clients about what they, or subscribers of theirs, may have missed.",
        _one(lambda broker: broker.losses.told),
    ),
    Metric(
        "runnel_broken_links",
        "gauge",
        "Links of the network over which publications are being lost, as far as this broker knows.",
        _one(lambda broker: len(broker.losses.open)),
    ),
    # -- matching and routes
    Metric(
        "runnel_matches_total",
        "counter",
        "Publications that were matched with the subscriptions.",
        _one(lambda broker: broker.meter.publications_in),
    ),
    Metric(
        "runnel_matching_seconds_total",
        "counter",
        "Time that matching and routing took; its rate is the input utilisation Ir.",
        _one(lambda broker: _seconds(broker.meter.matching_ns)),
    ),
    Metric(
        "runnel_matching_queue_publications",
        "gauge",
        "Publications that wait to be matched, where matching is slowed down.",
        _one(lambda broker: broker.gauges().waiting_publications),
    ),
    Metric(
        "runnel_routes",
        "gauge",
        "Rows of the routing tables.",
        _by(
            "table",
            lambda source: {
                "advertisements": len(source.broker.tables.srt),
                "subscriptions": len(source.broker.tables.prt),
            },
        ),
    ),
    Metric(
        "runnel_migrations_total",
        "counter",
        "Publishers that began to move to a client's new place at this broker, and moves that ended here.",
        _by("stage", _migrations),
    ),
    # -- peers and queues
    Metric(
        "runnel_links",
        "gauge",
        "Sessions with clients, brokers and operators; down: the connection is gone, the peer may come back.",
        _links,
    ),
    Metric(
        "runnel_neighbour_up",
        "gauge",
        "Whether a link to another broker is up.",
        _of_neighbours(lambda link: link.established),
    ),
    Metric(
        "runnel_links_overflowed_total",
        "counter",
        "Links given up because what must not be dropped did not fit into their queue.",
        _one(lambda broker: broker.meter.links_dead),
    ),
    Metric(
        "runnel_queue_bytes",
        "gauge",
        "What waits to be sent, by kind of peer.",
        _of_links(lambda link: link.waiting_bytes),
    ),
    Metric(
        "runnel_in_flight_bytes",
        "gauge",
        "What was sent and is not acknowledged, by kind of peer.",
        _of_links(lambda link: link.flying_bytes),
    ),
    Metric(
        "runnel_neighbour_queue_bytes",
        "gauge",
        "What waits to be sent to another broker.",
        _of_neighbours(lambda link: link.waiting_bytes),
    ),
    Metric(
        "runnel_congested_links",
        "gauge",
        "Links whose peer says that it is congested.",
        _of_links(lambda link: link.congested),
    ),
    # -- bytes and messages
    Metric(
        "runnel_received_bytes_total",
        "counter",
        "Bytes that came over all connections.",
        _one(lambda broker: broker.meter.bytes_in),
    ),
    Metric(
        "runnel_sent_bytes_total",
        "counter",
        "Bytes that were sent over all connections.",
        _one(lambda broker: broker.meter.bytes_out),
    ),
    Metric(
        "runnel_sent_frames_total",
        "counter",
        "Publications and messages that were sent.",
        _one(lambda broker: broker.meter.frames_out),
    ),
    Metric(
        "runnel_messages_received_total",
        "counter",
        "Messages that came, publications and acknowledgements aside, by kind.",
        _by("kind", lambda source: source.broker.meter.messages_in),
    ),
    Metric(
        "runnel_events_total",
        "counter",
        "What the broker has told its log, by event, at any level.",
        _by("event", lambda source: source.events),
    ),
    # -- TLS
    Metric(
        "runnel_tls_failures_total",
        "counter",
        "Connections that were not secured, whatever the reason; with TLS.",
        _of_tls(lambda tls: tls.failures),
        of_process=True,
    ),
    Metric(
        "runnel_tls_certificate_expiry_seconds",
        "gauge",
        "When the broker's certificate expires, in seconds since 1970; with TLS.",
        _of_tls(lambda tls: tls.expires.timestamp()),
        of_process=True,
    ),
    # -- the process
    Metric(
        "runnel_output_busy_seconds_total",
        "counter",
        "Time spent sending, where output_bytes_per_s limits it; its rate is the share of the limit that is used.",
        _one(lambda broker: _seconds(broker.gauges().output_busy_ns)),
        of_process=True,
    ),
    Metric(
        "process_cpu_seconds_total",
        "counter",
        "Time that processors worked for this process.",
        _one(lambda broker: _seconds(broker.gauges().cpu_ns)),
        of_process=True,
    ),
    Metric(
        "process_resident_memory_bytes",
        "gauge",
        "Memory that this process occupies.",
        _one(lambda broker: broker.gauges().memory_bytes),
        of_process=True,
    ),
    Metric(
        "runnel_memory_limit_bytes",
        "gauge",
        "Memory that this process could occupy.",
        _one(lambda broker: broker.gauges().memory_bytes_max),
        of_process=True,
    ),
)
