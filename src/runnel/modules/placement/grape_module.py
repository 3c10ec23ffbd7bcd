"""GRAPE as a module: placement §IV, Phases 1 and 2, on the algorithms of grape.py.

    publisher's broker        marks G_threshold consecutive publications with the session
    every broker they reach   notes which of them it delivered (a bit vector), how often, and where it sent them
    afterwards                Tir requests go to all brokers that got one; Tia answers come back with all reports
    publisher's broker        asks the publisher how far the candidates are, if the delay matters (publisher_times.py),
                              and chooses; the next session begins with the next publication

A request overtakes data. So it says how many publications of the session were sent before it, and a broker answers when
it has seen them all. Then nothing of the session can come after the answer, and the broker forgets the session.

Decisions, where the paper is silent:

- A publisher has one session at a time.
- A lost link counts as answered, with no reports.
- If a broker does not answer in time, the session is incomplete and the publisher is not moved.
- If the publisher does not say in time how far the candidates are, they count as equally far.
- A broker reports only the neighbours that take part: they form the session's tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from runnel.broker.links import Link
from runnel.broker.module import Context
from runnel.broker.tables import AdvertisementRow
from runnel.modules.placement.config import PlacementConfig
from runnel.modules.placement.delays import Delays, LinkTimes, stuck_bytes
from runnel.modules.placement.grape import BrokerReport, Choice, Metric, choose, with_delivery
from runnel.modules.placement.messages import (
    HOPS_MAX,
    SPAN,
    TRACED,
    BrokerTrace,
    Hop,
    Ping,
    Pong,
    Tia,
    Tir,
    place_in,
    session_of,
)
from runnel.modules.placement.placing import KEPT_MAX, Migrate, Placing, Progress
from runnel.modules.placement.publisher_times import PublisherTimes
from runnel.modules.placement.reports import build_session_tree, reports_that_fit
from runnel.quantities import SECOND
from runnel.wire import TTL_MAX, PingAnswer, Pinged, Publication

UNANSWERED = "not all brokers answered"


@dataclass(slots=True, eq=False)
class TraceSession:
    """The state of one publisher's trace session at one broker."""

    session: int
    upstream: Link | None  # None at the publisher's own broker
    first: int = 0  # the counter that it began with; only the publisher's broker knows
    goal: int | None = None  # how many publications there will be; None: not known yet
    depth: int = 0
    marked: int = 0  # publications that this broker marked
    seen: int = 0
    bits: int = 0
    deliveries: int = 0
    downstream: dict[Link, int] = field(default_factory=dict)  # publications sent
    waiting: dict[Link, None] | None = None  # links that have not answered; None: not asked yet
    reports: list[BrokerTrace] = field(default_factory=list)
    complete: bool = True
    asked_at: int = 0  # when the other brokers were asked for their reports


@dataclass(frozen=True, slots=True)
class UndecidedSession:
    """A session with all its reports, while the publisher measures how far the candidates are."""

    trace: TraceSession
    reports: tuple[BrokerTrace, ...]
    tree: dict[str, BrokerReport]
    reported_at: int  # when the last of them came
    pinged: int = 0  # how many brokers the publisher was asked to measure


class Grape(Placing):
    """The module "grape"."""

    name = "grape"
    timers = ("grape:deadline",)
    messages = (Tir, Tia, Ping, Pong, PingAnswer)

    def __init__(
        self,
        config: PlacementConfig | None = None,
        migrate: Migrate | None = None,
        address: str = "",
    ) -> None:
        super().__init__(config, migrate, address)
        self._delays = Delays()
        self._times = LinkTimes(self.config.ping_samples, round(self.config.ping_every_s * SECOND))
        self._sessions: dict[int, TraceSession] = {}
        self._undecided: dict[int, UndecidedSession] = {}
        self._publisher_times = PublisherTimes(
            self.config.ping_samples, round(self.config.ping_every_s * SECOND)
        )

    def session(self, advertisement: int) -> TraceSession | None:
        """The session of a publisher, if there is one here."""
        return self._sessions.get(advertisement)

    def progress(self, advertisement: int) -> Progress:
        """How many publications the session has, out of G_threshold."""
        trace = self._own_session(advertisement) or TraceSession(0, None)
        is_deciding = trace.waiting is not None or advertisement in self._undecided
        return Progress("publications", trace.marked, self.config.g_threshold, is_deciding)

    def decide_now(self, context: Context, advertisement: int, now: int) -> bool:
        """End the session now and decide; if a decision is under way already, only show its result."""
        trace = self._own_session(advertisement)
        if trace is None or not trace.marked:
            return False
        self._only_shown[advertisement] = None
        trace.goal = trace.marked
        self._ask_downstream(context, advertisement, trace, now)
        return True

    def _own_session(self, advertisement: int) -> TraceSession | None:
        """The session of a publisher of this broker."""
        trace = self._sessions.get(advertisement)
        return trace if trace is not None and trace.upstream is None else None

    def forget(self, advertisement: int) -> None:
        """Drop all state of an advertisement."""
        super().forget(advertisement)
        self._sessions.pop(advertisement, None)
        self._deadlines.drop(advertisement)
        self._undecided.pop(advertisement, None)
        self._publisher_times.forget(advertisement)
        self._deadlines.drop((advertisement, "pings"))

    # -- what the broker calls ------------------------------------------------------------------------

    def start(self, context: Context, now: int) -> None:
        """The broker starts."""
        self._delays.start(context, now)

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """A lost neighbour will not answer any more."""
        super().link_lost(context, link, now)
        self._times.link_lost(link)
        for advertisement, trace in list(self._sessions.items()):
            if self._sessions.get(advertisement) is not trace:
                continue  # dropped meanwhile, with another
            trace.downstream.pop(link, None)
            if trace.upstream is link:
                self.forget(advertisement)
            elif trace.waiting is not None and link in trace.waiting:
                self._finish_neighbour(context, advertisement, trace, link, now)

    def timer(self, context: Context, timer: str, now: int) -> None:
        """Some brokers, or publishers, have not answered in time."""
        for key in self._deadlines.due(context, now):
            if isinstance(key, tuple):
                self._choose(context, key[0], now)
                continue
            advertisement = key
            if (trace := self._sessions.get(advertisement)) is not None:
                trace.complete = False
                self._finish(context, advertisement, trace, now)

    def message(self, context: Context, link: Link, message: Any, now: int) -> None:
        """A request, an answer, or a ping."""
        match message:
            case Tir():
                self._handle_request(context, link, message, now)
            case Tia():
                self._handle_answer(context, link, message, now)
            case Ping() | Pong():
                self._times.message(context, link, message, now)
            case PingAnswer():
                is_mine = self._is_mine(context, link, message.id)
                if is_mine and self._publisher_times.take(message, now):
                    self._choose(context, message.id, now)

    # -- phase 1: following a session -----------------------------------------------------------------

    def mark_publications(
        self, context: Context, link: Link, run: list[Publication], now: int
    ) -> None:
        """Mark the publications of sessions, and clear foreign marks."""
        for publication in run:
            session = self._session_for(context, link, publication, now)
            flags = publication.flags & TRACED | session << 1
            if flags != publication.flags:
                publication.mark(flags)

    def _session_for(self, context: Context, link: Link, publication: Publication, now: int) -> int:
        """The session that a publication becomes part of; 0 for none."""
        advertisement, counter = publication.identity
        if not self._is_mine(context, link, advertisement):
            return 0
        trace = self._sessions.get(advertisement)
        if trace is None or trace.upstream is not None:
            trace = self._begin(advertisement, session_of(counter), None)
            trace.first, trace.goal = counter, self.config.g_threshold
        assert trace.goal is not None
        if trace.marked >= trace.goal:
            return 0
        if not 0 <= counter - trace.first < SPAN:
            # A gap in the counters that its bit vector cannot span: end the session here.
            trace.goal = trace.marked
            self._ask_downstream(context, advertisement, trace, now)
            return 0
        trace.marked += 1
        return trace.session

    def _begin(self, advertisement: int, session: int, upstream: Link | None) -> TraceSession:
        self._sessions.pop(advertisement, None)
        self._deadlines.drop(advertisement)
        trace = self._sessions[advertisement] = TraceSession(session, upstream)
        if len(self._sessions) > KEPT_MAX:
            self.forget(next(iter(self._sessions)))
        return trace

    def _is_followed(self, flags: int) -> bool:
        return flags > TRACED

    def _follow(
        self, context: Context, link: Link, publication: Publication, numbers: list[int], now: int
    ) -> None:
        advertisement, counter = publication.identity
        session = publication.flags >> 1
        upstream = None if link.is_client else link
        trace = self._sessions.get(advertisement)
        if trace is None or trace.session != session or trace.upstream is not upstream:
            if upstream is None or advertisement not in context.tables.srt:
                return
            trace = self._begin(advertisement, session, upstream)
        if trace.waiting is not None:
            return
        spread = self._spread(context, publication, numbers)
        trace.seen += 1
        trace.deliveries += spread.local
        if spread.local:
            place = place_in(session, counter)
            trace.bits = with_delivery(trace.bits, counter - place, counter)
        for neighbour in spread.downstream:
            if neighbour not in trace.downstream:
                # The answer is here when the session is over.
                self._times.measure(context, neighbour, now)
            trace.downstream[neighbour] = trace.downstream.get(neighbour, 0) + 1
        self._ask_downstream(context, advertisement, trace, now)

    # -- phase 1: collecting what brokers know --------------------------------------------------------

    def _handle_request(self, context: Context, link: Link, request: Tir, now: int) -> None:
        """A request: answer when all publications of the session are here."""
        advertisement, session = request.advertisement, request.session
        row = context.tables.srt.get(advertisement)
        if row is None or row.link is not link:
            self._send(context, link, Tia(advertisement, session, (), False))
            return
        trace = self._sessions.get(advertisement)
        if trace is None or trace.session != session or trace.upstream is not link:
            trace = self._begin(advertisement, session, link)
        if trace.waiting is None:
            trace.goal, trace.depth = request.sent, request.depth
            until = now + self._patience_ns(trace.depth)
            self._deadlines.set(context, advertisement, until)
            self._ask_downstream(context, advertisement, trace, now)

    def _ask_downstream(
        self, context: Context, advertisement: int, trace: TraceSession, now: int
    ) -> None:
        """If all publications of the session have come, request reports from the neighbours that got some."""
        if trace.goal is None or trace.seen < trace.goal or trace.waiting is not None:
            return
        trace.waiting, trace.asked_at = dict.fromkeys(trace.downstream), now
        if trace.upstream is None:
            self._deadlines.set(context, advertisement, now + self._patience_ns(0))
        for link, sent in trace.downstream.items():
            depth = min(trace.depth + 1, TTL_MAX)
            self._send(context, link, Tir(advertisement, trace.session, sent, depth))
        if not trace.waiting:
            self._finish(context, advertisement, trace, now)

    def _handle_answer(self, context: Context, link: Link, answer: Tia, now: int) -> None:
        trace = self._sessions.get(answer.advertisement)
        if (
            trace is not None
            and trace.session == answer.session
            and trace.waiting is not None
            and link in trace.waiting
        ):
            trace.reports += answer.reports
            trace.complete = trace.complete and answer.complete
            self._finish_neighbour(context, answer.advertisement, trace, link, now)

    def _finish_neighbour(
        self, context: Context, advertisement: int, trace: TraceSession, link: Link, now: int
    ) -> None:
        """A neighbour has answered, or never will."""
        assert trace.waiting is not None
        del trace.waiting[link]
        if not trace.waiting:
            self._finish(context, advertisement, trace, now)

    def _finish(self, context: Context, advertisement: int, trace: TraceSession, now: int) -> None:
        """Send all reports upstream, or choose at the publisher's broker; forget the session."""
        del self._sessions[advertisement]
        self._deadlines.drop(advertisement)
        reports = (self._report(context, trace, now), *trace.reports)
        if trace.upstream is None:
            self._collect_times(context, advertisement, trace, reports, now)
            return
        kept = reports_that_fit(reports)
        complete = trace.complete and len(kept) == len(reports)
        self._send(context, trace.upstream, Tia(advertisement, trace.session, kept, complete))

    def _report(self, context: Context, trace: TraceSession, now: int) -> BrokerTrace:
        reading = self._delays.read(context, now)
        upstream = [] if trace.upstream is None else [trace.upstream]
        hops = tuple(
            Hop(link.name, reading.output_to(stuck_bytes(link)), self._times.one_way_ns(link))
            for link in islice((*upstream, *trace.downstream), HOPS_MAX)
        )
        waiting = [stuck_bytes(link) for link in context.links.values() if link.is_client]
        return BrokerTrace(
            context.name,
            self.address,
            trace.bits.to_bytes((trace.bits.bit_length() + 7) // 8, "little"),
            trace.deliveries,
            reading.input_ns,
            reading.matching_ns,
            reading.output_to(sum(waiting) // len(waiting) if waiting else 0),
            hops,
        )

    # -- phase 2: choosing a broker -------------------------------------------------------------------

    def _collect_times(
        self,
        context: Context,
        advertisement: int,
        trace: TraceSession,
        reports: tuple[BrokerTrace, ...],
        now: int,
    ) -> None:
        """Ask the publisher how far the candidates are, if it matters and is not known; then choose."""
        # If two reports have the same name, the first counts.
        tree = build_session_tree(context.name, reversed(reports))
        undecided = self._undecided[advertisement] = UndecidedSession(trace, reports, tree, now)
        row = context.tables.srt.get(advertisement)
        if row is not None and trace.complete:
            addresses = {one.broker: one.address for one in reversed(reports)}
            near = self._brokers_to_measure(context, row, tree)
            places = [Pinged(broker, addresses[broker]) for broker in near if addresses[broker]]
            asked = self._publisher_times.request(advertisement, places, now)
            if asked is not None:
                self._undecided[advertisement] = replace(undecided, pinged=len(asked.brokers))
                until = now + self._patience_ns(0)
                self._deadlines.set(context, (advertisement, "pings"), until)
                self._send(context, row.link, asked)
                return
        self._choose(context, advertisement, now)

    def _brokers_to_measure(
        self, context: Context, row: AdvertisementRow, tree: dict[str, BrokerReport]
    ) -> list[str]:
        """The candidates whose delay matters, the nearest first: none if the first metric alone decides."""
        metric, weight = self._priority(row)
        if metric == "load" and weight >= 100:
            return []
        found = choose(tree, context.name, metric, weight).candidates
        judged = [one for one in found if metric == "delay" or one.kept]
        if len(judged) < 2:
            return []
        return [one.broker for one in sorted(judged, key=lambda one: one.hops)]

    def _priority(self, row: AdvertisementRow) -> tuple[Metric, float]:
        wanted = self.config.of(row.publisher)
        return wanted.metric or "load", wanted.weight_percent or 0.0

    def _choose(self, context: Context, advertisement: int, now: int) -> None:
        self._deadlines.drop((advertisement, "pings"))
        undecided = self._undecided.pop(advertisement, None)
        row = context.tables.srt.get(advertisement)
        if row is None or undecided is None:
            return
        here, trace, reports, tree = (
            context.name,
            undecided.trace,
            undecided.reports,
            undecided.tree,
        )
        metric, weight = self._priority(row)
        times_s = self._publisher_times.times_s(advertisement, tree)
        choice = choose(tree, here, metric, weight, times_s if here in times_s else None)
        gain = choice.gain_percent(here, metric)
        why_not = ""
        if not trace.complete:
            why_not = UNANSWERED
        elif choice.broker != here and gain < self.config.gain_percent_min:
            why_not = "not worth a move"
        self._decide(
            context,
            advertisement,
            choice.broker,
            address=next(one.address for one in reports if one.broker == choice.broker),
            numbers={
                "metric": metric,
                "weight_percent": weight,
                "publications": trace.seen,
                "gain_percent": round(gain, 3),
                "selection_s": (undecided.reported_at - trace.asked_at) / SECOND,
                "pings_s": (now - undecided.reported_at) / SECOND,
                "pinged": undecided.pinged,
                **_compare_brokers(choice, here),
            },
            now=now,
            candidates=choice.candidates,
            why_not=why_not,
        )


def _compare_brokers(choice: Choice, here: str) -> dict[str, Any]:
    """The estimates for the publisher's present broker and for the chosen one."""
    named = {one.broker: one for one in choice.candidates}
    now, then = named[here], named[choice.broker]
    return {
        "candidates": len(named),
        "hops": then.hops,
        "load": now.load,
        "load_there": then.load,
        "delay_s": now.delay_s,
        "delay_there_s": then.delay_s,
    }
