"""POP as a module: placement §III, Phases 1 and 2, on the tables and the condition of pop.py.

Phase 1. A publisher's broker marks some of its publications. A broker that routes a marked one waits until every
neighbour it was sent to has answered (Trm) how many subscribers got it there and beyond. It enters these numbers in the
publisher's table, and sends the total to the broker that the publication came from. The answer is 0 if none wants it.
Phase 2. After P_threshold results, with none outstanding, a request (Rrm) goes from broker to broker to the closest,
and its answer (Ram) comes back the same way.

Decisions, where the paper is silent:

- Once enough publications for a decision are marked, no more are until the decision has been made.
- A lost link counts as 0 subscribers. For an answer that does not come in time the average is taken.
- A broker without a table (it was restarted) does not answer a request; the publisher's broker gives up after a while
  and starts again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from runnel.broker.links import Link
from runnel.broker.module import Context
from runnel.modules.placement.config import PlacementConfig
from runnel.modules.placement.messages import SUBSCRIBERS_MAX, TRACED, Ram, Rrm, Trm
from runnel.modules.placement.placing import KEPT_MAX, Migrate, Placing, Progress, trim
from runnel.modules.placement.pop import LOCAL, ProfileTable, next_step, trace_probability
from runnel.quantities import SECOND
from runnel.wire import ID_MAX, Publication


@dataclass(slots=True)
class TracedPublisher:
    """A publisher of this broker."""

    window_began: int
    tagged: int = 0  # the paper's T
    outstanding: int = 0  # traced publications without a result
    results: int = 0  # since the last decision
    is_asking: bool = False
    asked_at: int = 0  # when the last decision began


@dataclass(slots=True)
class TracedPublication:
    """A traced publication that waits for results of neighbours."""

    upstream: Link
    counts: dict[str, int]
    waiting: dict[str, None]


class Pop(Placing):
    """The module "pop". `chance` draws random numbers from 0 to 1, which decide what is traced."""

    name = "pop"
    timers = ("pop:deadline",)
    messages = (Trm, Rrm, Ram)

    def __init__(
        self,
        config: PlacementConfig | None = None,
        migrate: Migrate | None = None,
        address: str = "",
        chance: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(config, migrate, address)
        self._chance = chance
        self._publishers: dict[int, TracedPublisher] = {}
        self._tables: dict[int, ProfileTable] = {}
        self._pending: dict[tuple[int, int], TracedPublication] = {}

    def table(self, advertisement: int) -> ProfileTable | None:
        """The PPTable of a publisher."""
        return self._tables.get(advertisement)

    def progress(self, advertisement: int) -> Progress:
        """How many trace results there are, out of P_threshold."""
        publisher = self._publishers.get(advertisement, TracedPublisher(0))
        wanted = self.config.p_threshold
        return Progress("trace results", publisher.results, wanted, publisher.is_asking)

    def decide_now(self, context: Context, advertisement: int, now: int) -> bool:
        """Decide by the averages so far; if a decision is under way already, only show its result."""
        publisher = self._publishers.get(advertisement)
        if publisher is None or advertisement not in self._tables:
            return False
        self._only_shown[advertisement] = None
        if not publisher.is_asking:
            self._find_closest(context, advertisement, publisher, now)
        return True

    def forget(self, advertisement: int) -> None:
        """Drop all state of an advertisement."""
        super().forget(advertisement)
        self._publishers.pop(advertisement, None)
        self._tables.pop(advertisement, None)
        self._deadlines.drop(advertisement)
        for key in [key for key in self._pending if key[0] == advertisement]:
            del self._pending[key]
            self._deadlines.drop(key)

    # -- what the broker calls ------------------------------------------------------------------------

    def start(self, context: Context, now: int) -> None:
        """The broker starts."""
        self._chance = self._chance or Random(f"pop/{context.name}").random

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """A lost link counts as 0 subscribers."""
        super().link_lost(context, link, now)
        for key, pending in list(self._pending.items()):
            if link.name in pending.waiting:
                self._add_result(context, key, link.name, 0, now)
        for table in self._tables.values():
            table.rows.pop(link.name, None)

    def timer(self, context: Context, timer: str, now: int) -> None:
        """Some answers have not come in time."""
        for key in self._deadlines.due(context, now):
            if key in self._pending:
                self._complete(context, key, now)
            elif (publisher := self._publishers.get(key)) is not None:
                publisher.is_asking = False
                self._only_shown.pop(key, None)

    def message(self, context: Context, link: Link, message: Any, now: int) -> None:
        """A result, a request or an answer."""
        match message:
            case Trm():
                key = (message.advertisement, message.counter)
                self._add_result(context, key, link.name, message.subscribers, now)
            case Rrm():
                self._handle_request(context, link, message)
            case Ram():
                self._handle_answer(context, message, now)

    # -- phase 1: tracing -----------------------------------------------------------------------------

    def mark_publications(
        self, context: Context, link: Link, run: list[Publication], now: int
    ) -> None:
        """Mark the publications to be traced, and clear foreign marks."""
        for publication in run:
            traced = self._is_traced(context, link, publication.advertisement, now)
            if traced != publication.flags & TRACED:
                publication.mark(publication.flags ^ TRACED)

    def _is_traced(self, context: Context, link: Link, advertisement: int, now: int) -> bool:
        if not self._is_mine(context, link, advertisement):
            return False
        publisher = self._publishers.get(advertisement)
        if publisher is None:
            publisher = self._publishers[advertisement] = TracedPublisher(now)
        config = self.config
        if now - publisher.window_began >= config.w_s * SECOND:
            publisher.window_began, publisher.tagged = now, 0
        assert self._chance is not None
        if (
            publisher.is_asking
            or publisher.results + publisher.outstanding >= config.p_threshold
            or self._chance() >= trace_probability(publisher.tagged, config.n)
        ):
            return False
        publisher.tagged += 1
        publisher.outstanding += 1
        return True

    def _is_followed(self, flags: int) -> bool:
        return flags & TRACED != 0

    def _follow(
        self, context: Context, link: Link, publication: Publication, numbers: list[int], now: int
    ) -> None:
        key = publication.identity
        if key in self._pending:  # it has come twice
            self._send_result(context, link, key, 0, now)
            return
        spread = self._spread(context, publication, numbers)
        waiting = dict.fromkeys(neighbour.name for neighbour in spread.downstream)
        self._pending[key] = TracedPublication(link, {LOCAL: spread.local}, waiting)
        if not waiting:
            self._complete(context, key, now)
            return
        self._deadlines.set(context, key, now + self._patience_ns(publication.hops))
        if len(self._pending) > KEPT_MAX:
            self._complete(context, next(iter(self._pending)), now)

    def _add_result(
        self, context: Context, key: tuple[int, int], neighbour: str, subscribers: int, now: int
    ) -> None:
        pending = self._pending.get(key)
        if pending is None or neighbour not in pending.waiting:
            return
        del pending.waiting[neighbour]
        pending.counts[neighbour] = subscribers
        if not pending.waiting:
            self._complete(context, key, now)

    def _complete(self, context: Context, key: tuple[int, int], now: int) -> None:
        """All results of a publication have come, or their deadline has: send the total upstream."""
        pending = self._pending.pop(key)
        self._deadlines.drop(key)
        advertisement = key[0]
        table = self._tables.get(advertisement, ProfileTable())
        if advertisement in context.tables.srt:
            self._tables[advertisement] = table
            trim(self._tables)
        for late in pending.waiting:
            pending.counts[late] = round(table.average(late))
        table.add(pending.counts, self.config.running_average)
        total = min(sum(pending.counts.values()), ID_MAX)
        self._send_result(context, pending.upstream, key, total, now)

    def _send_result(
        self, context: Context, upstream: Link, key: tuple[int, int], total: int, now: int
    ) -> None:
        """Send the total to the broker that the publication came from; at the publisher's own broker, count it."""
        if upstream.is_neighbour:
            self._send(context, upstream, Trm(*key, total))
        elif (publisher := self._publishers.get(key[0])) is not None:
            publisher.outstanding -= 1
            publisher.results += 1
            # Then none is outstanding: see `_is_traced`.
            if publisher.results >= self.config.p_threshold:
                self._find_closest(context, key[0], publisher, now)

    # -- phase 2: finding the closest broker ----------------------------------------------------------

    def _find_closest(
        self, context: Context, advertisement: int, publisher: TracedPublisher, now: int
    ) -> None:
        """Decide if this is the closest broker; otherwise send a request to the neighbour that is closer."""
        table = self._tables.get(advertisement, ProfileTable())
        publisher.results, publisher.asked_at = 0, now
        step = next_step(table, None, 0, self.config.damping)
        target = None if step.closest is None else context.links.get(step.closest)
        if target is None:
            self._conclude(context, advertisement, (context.name,), self.address, now)
            return
        publisher.is_asking = True
        self._deadlines.set(context, advertisement, now + self._patience_ns(0))
        self._send(context, target, _request(advertisement, step.behind, (context.name,)))

    def _handle_request(self, context: Context, link: Link, request: Rrm) -> None:
        """Pass a request on, or answer it."""
        row = context.tables.srt.get(request.advertisement)
        table = self._tables.get(request.advertisement)
        brokers = (context.name, *request.brokers)
        if row is None or row.link is not link or table is None or len(set(brokers)) < len(brokers):
            return
        step = next_step(table, link.name, request.subscribers, self.config.damping)
        target = None if step.closest is None else context.links.get(step.closest)
        if target is None:
            self._send(context, link, Ram(request.advertisement, brokers, self.address))
        elif len(brokers) <= 255:
            self._send(context, target, _request(request.advertisement, step.behind, brokers))

    def _handle_answer(self, context: Context, answer: Ram, now: int) -> None:
        """Pass an answer back to where the request began; there it is a decision."""
        if context.name not in answer.brokers or len({*answer.brokers}) < len(answer.brokers):
            return  # a path that comes back to where it was would never end
        before = answer.brokers[answer.brokers.index(context.name) + 1 :]
        if before:
            link = context.links.get(before[0])
            if link is not None and link.is_neighbour:
                self._send(context, link, answer)
            return
        publisher = self._publishers.get(answer.advertisement)
        if publisher is not None and publisher.is_asking:
            publisher.is_asking = False
            self._deadlines.drop(answer.advertisement)
            self._conclude(context, answer.advertisement, answer.brokers, answer.address, now)

    def _conclude(
        self,
        context: Context,
        advertisement: int,
        brokers: tuple[str, ...],
        address: str,
        now: int,
    ) -> None:
        rows = self._tables[advertisement].rows if advertisement in self._tables else {}
        began = (
            self._publishers[advertisement].asked_at if advertisement in self._publishers else now
        )
        numbers = {
            "subscribers": {name or context.name: round(count, 2) for name, count in rows.items()},
            "path": list(reversed(brokers)),
            "selection_s": (now - began) / SECOND,
        }
        self._decide(context, advertisement, brokers[0], address, numbers, now)


def _request(advertisement: int, behind: float, brokers: tuple[str, ...]) -> Rrm:
    """A request; the sum of what others have said may be more than one may say."""
    return Rrm(advertisement, min(behind, SUBSCRIBERS_MAX), brokers)
