"""GRAPE as a module: placement §IV, Phases 1 and 2, on the algorithms of grape.py.

    publisher's broker        marks G_threshold consecutive publications with the session
    every broker they reach   notes which of them it delivered (a bit vector), how often, and where it sent them
    then                      Tir out to all who got one, Tia back with what all further on have to say
    publisher's broker        chooses, and the next session begins with the next publication

A request overtakes data, so it says how many publications of the session were sent before it, and a broker answers
when it has seen them all: nothing is counted too early, and nothing of the session comes after its answer, with which
everything about it is cleared.

Decisions, where the paper is silent: a publisher has one session at a time. A link that is lost has nothing to say.
Whoever does not answer in time spoils the session, and nobody is moved for it. The time from the publisher to a
candidate is taken to be the same for all: it is the publisher that would have to measure it. A broker reports the
neighbours that take part, since only they make the session's tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runnel.broker.links import SECOND, Link
from runnel.broker.module import Context
from runnel.placement.config import PlacementConfig
from runnel.placement.delays import Delays, Gauges, LinkTimes, NoGauges, stuck_bytes
from runnel.placement.grape import Choice, choose, with_delivery
from runnel.placement.messages import (
    SPAN,
    TRACED,
    Hop,
    Ping,
    Pong,
    Reported,
    Tia,
    Tir,
    place_in,
    session_of,
)
from runnel.placement.placing import KEPT_MAX, Migrate, Placing, Progress
from runnel.placement.reports import session_tree, that_fit
from runnel.wire import TTL_MAX, Publication

UNANSWERED = "not all brokers answered"


@dataclass(slots=True, eq=False)
class Trace:
    """What a broker knows of the trace session of one publisher."""

    session: int
    upstream: Link | None  # None at the publisher's own broker
    first: int = 0  # the publication that it began with; the publisher's broker alone knows
    goal: int | None = None  # how many publications are to come; None: nobody has said
    depth: int = 0
    marked: int = 0  # by this broker
    seen: int = 0
    bits: int = 0
    deliveries: int = 0
    downstream: dict[Link, int] = field(default_factory=dict)  # publications sent
    waiting: dict[Link, None] | None = None  # who is to answer; None: nobody was asked
    reports: list[Reported] = field(default_factory=list)
    complete: bool = True


class Grape(Placing):
    """The module "grape". `gauges` tells what the broker cannot measure itself."""

    name = "grape"
    messages = (Tir, Tia, Ping, Pong)

    def __init__(
        self,
        config: PlacementConfig | None = None,
        migrate: Migrate | None = None,
        address: str = "",
        gauges: Callable[[], Gauges] = NoGauges,
    ) -> None:
        super().__init__(config, migrate, address)
        self._delays = Delays(gauges)
        self._times = LinkTimes(self.config.ping_samples, round(self.config.ping_every_s * SECOND))
        self._traces: dict[int, Trace] = {}

    def trace(self, advertisement: int) -> Trace | None:
        """What is known of a publisher's session."""
        return self._traces.get(advertisement)

    def progress(self, advertisement: int) -> Progress:
        """How many publications of the session there are, out of G_threshold."""
        trace = self._own(advertisement) or Trace(0, None)
        is_deciding = trace.waiting is not None
        return Progress("publications", trace.marked, self.config.g_threshold, is_deciding)

    def decide_now(self, context: Context, advertisement: int, now: int) -> bool:
        """End the session here; or let the decision that is under way only be shown."""
        trace = self._own(advertisement)
        if trace is None or not trace.marked:
            return False
        self._only_shown[advertisement] = None
        trace.goal = trace.marked
        self._ask(context, advertisement, trace, now)
        return True

    def _own(self, advertisement: int) -> Trace | None:
        """The session of a publisher of this broker."""
        trace = self._traces.get(advertisement)
        return trace if trace is not None and trace.upstream is None else None

    def forget(self, advertisement: int) -> None:
        """Whatever is known of an advertisement holds no more."""
        super().forget(advertisement)
        self._traces.pop(advertisement, None)
        self._deadlines.drop(advertisement)

    # -- what the broker calls ------------------------------------------------------------------------

    def start(self, context: Context, now: int) -> None:
        """The broker starts."""
        self._delays.start(context, now)

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """A neighbour has nothing to say any more."""
        super().link_lost(context, link, now)
        self._times.link_lost(link)
        for advertisement, trace in list(self._traces.items()):
            if self._traces.get(advertisement) is not trace:
                continue  # it went with another
            trace.downstream.pop(link, None)
            if trace.upstream is link:
                self.forget(advertisement)
            elif trace.waiting is not None and link in trace.waiting:
                self._heard(context, advertisement, trace, link, now)

    def timer(self, context: Context, timer: str, now: int) -> None:
        """Somebody has not answered."""
        for advertisement in self._deadlines.due(context, now):
            if (trace := self._traces.get(advertisement)) is not None:
                trace.complete = False
                self._finish(context, advertisement, trace, now)

    def message(self, context: Context, link: Link, message: Any, now: int) -> None:
        """A request, an answer, or a matter of link times."""
        if link.is_client:
            return
        match message:
            case Tir():
                self._requested(context, link, message, now)
            case Tia():
                self._answered(context, link, message, now)
            case Ping() | Pong():
                self._times.message(context, link, message, now)

    # -- phase 1: following a session -----------------------------------------------------------------

    def entering(self, context: Context, link: Link, run: list[Publication], now: int) -> None:
        """Mark what belongs to a session, and nothing else."""
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
        trace = self._traces.get(advertisement)
        if trace is None or trace.upstream is not None:
            trace = self._begin(advertisement, session_of(counter), None)
            trace.first, trace.goal = counter, self.config.g_threshold
        assert trace.goal is not None
        if trace.marked >= trace.goal:
            return 0
        if not 0 <= counter - trace.first < SPAN:
            # A gap too large for its bit vector: the session ends here.
            trace.goal = trace.marked
            self._ask(context, advertisement, trace, now)
            return 0
        trace.marked += 1
        return trace.session

    def _begin(self, advertisement: int, session: int, upstream: Link | None) -> Trace:
        self._traces.pop(advertisement, None)
        self._deadlines.drop(advertisement)
        trace = self._traces[advertisement] = Trace(session, upstream)
        if len(self._traces) > KEPT_MAX:
            self.forget(next(iter(self._traces)))
        return trace

    def routed(
        self,
        context: Context,
        link: Link,
        run: list[Publication],
        hops: list[list[int]],
        now: int,
    ) -> None:
        """Note what became of the publications of sessions."""
        for place, publication in enumerate(run):
            if publication.flags > TRACED:
                self._traced(context, link, publication, hops[place], now)

    def _traced(
        self, context: Context, link: Link, publication: Publication, numbers: list[int], now: int
    ) -> None:
        advertisement, counter = publication.identity
        session = publication.flags >> 1
        upstream = None if link.is_client else link
        trace = self._traces.get(advertisement)
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
                self._times.measure(context, neighbour, now)  # is known when the session is over
            trace.downstream[neighbour] = trace.downstream.get(neighbour, 0) + 1
        self._ask(context, advertisement, trace, now)

    # -- phase 1: collecting what brokers know --------------------------------------------------------

    def _requested(self, context: Context, link: Link, request: Tir, now: int) -> None:
        """The session is over; answer when all of it is here."""
        advertisement, session = request.advertisement, request.session
        row = context.tables.srt.get(advertisement)
        if row is None or row.link is not link:
            self._send(context, link, Tia(advertisement, session, (), False))
            return
        trace = self._traces.get(advertisement)
        if trace is None or trace.session != session or trace.upstream is not link:
            trace = self._begin(advertisement, session, link)
        if trace.waiting is None:
            trace.goal, trace.depth = request.sent, request.depth
            until = now + self._patience_ns(trace.depth)
            self._deadlines.set(context, advertisement, until)
            self._ask(context, advertisement, trace, now)

    def _ask(self, context: Context, advertisement: int, trace: Trace, now: int) -> None:
        """If all publications of the session have come: ask whoever they were sent to."""
        if trace.goal is None or trace.seen < trace.goal or trace.waiting is not None:
            return
        trace.waiting = dict.fromkeys(trace.downstream)
        if trace.upstream is None:
            self._deadlines.set(context, advertisement, now + self._patience_ns(0))
        for link, sent in trace.downstream.items():
            depth = min(trace.depth + 1, TTL_MAX)
            self._send(context, link, Tir(advertisement, trace.session, sent, depth))
        if not trace.waiting:
            self._finish(context, advertisement, trace, now)

    def _answered(self, context: Context, link: Link, answer: Tia, now: int) -> None:
        trace = self._traces.get(answer.advertisement)
        if (
            trace is not None
            and trace.session == answer.session
            and trace.waiting is not None
            and link in trace.waiting
        ):
            trace.reports += answer.reports
            trace.complete = trace.complete and answer.complete
            self._heard(context, answer.advertisement, trace, link, now)

    def _heard(
        self, context: Context, advertisement: int, trace: Trace, link: Link, now: int
    ) -> None:
        """A neighbour has said all that it will."""
        assert trace.waiting is not None
        del trace.waiting[link]
        if not trace.waiting:
            self._finish(context, advertisement, trace, now)

    def _finish(self, context: Context, advertisement: int, trace: Trace, now: int) -> None:
        """Tell what is known, and forget it."""
        del self._traces[advertisement]
        self._deadlines.drop(advertisement)
        reports = (self._report(context, trace, now), *trace.reports)
        if trace.upstream is None:
            self._choose(context, advertisement, trace, reports, now)
            return
        kept = that_fit(reports)
        complete = trace.complete and len(kept) == len(reports)
        self._send(context, trace.upstream, Tia(advertisement, trace.session, kept, complete))

    def _report(self, context: Context, trace: Trace, now: int) -> Reported:
        reading = self._delays.read(context, now)
        upstream = [] if trace.upstream is None else [trace.upstream]
        hops = tuple(
            Hop(link.name, reading.output_to(stuck_bytes(link)), self._times.one_way_ns(link))
            for link in (*upstream, *trace.downstream)
        )
        waiting = [stuck_bytes(link) for link in context.links.values() if link.is_client]
        return Reported(
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

    def _choose(
        self,
        context: Context,
        advertisement: int,
        trace: Trace,
        reports: tuple[Reported, ...],
        now: int,
    ) -> None:
        here = context.name
        row = context.tables.srt.get(advertisement)
        if row is None:
            return
        wanted = self.config.of(row.publisher)
        metric, weight = wanted.metric or "load", wanted.weight_percent or 0.0
        tree = session_tree(
            here, reversed(reports)
        )  # of two that say the same name, the first counts
        choice = choose(tree, here, metric, weight)
        gain = choice.gain_percent(here, metric)
        why_not = ""
        if not trace.complete:
            why_not = UNANSWERED
        elif choice.broker != here and gain < self.config.gain_percent_min:
            why_not = "not worth a move"
        self._decide(
            *(context, advertisement, choice.broker),
            next(one.address for one in reports if one.broker == choice.broker),
            {
                "metric": metric,
                "weight_percent": weight,
                "publications": trace.seen,
                "gain_percent": round(gain, 3),
                **_compared(choice, here),
            },
            *(now, choice.candidates, why_not),
        )


def _compared(choice: Choice, here: str) -> dict[str, Any]:
    """The numbers of where the publisher is, and of where it should be."""
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
