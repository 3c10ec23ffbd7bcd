"""POP as a module: placement §III, Phases 1 and 2, on the tables and the condition of pop.py.

Phase 1. A publisher's broker marks some of its publications. A broker that routes a marked one waits until every
neighbour it was sent to has said how many subscribers got it there and further on (Trm), notes that in the
publisher's table, and tells the broker it came from the sum with its own. One that nobody wants answers 0.
Phase 2. After P_threshold results, with none outstanding, a request (Rrm) goes from broker to broker to the closest,
and its answer (Ram) back the same way.

Decisions, where the paper is silent: while results for a decision are outstanding or a request is under way nothing is
marked, so there is never an end to wait for. A link that is lost has nobody behind it; an answer that is late changes
nothing: the average stands for it. A broker that has no table (it was restarted) does not answer a request, and the
publisher's broker gives up after a while and begins anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from runnel.broker.links import SECOND, Link
from runnel.broker.module import Context
from runnel.placement.config import PlacementConfig
from runnel.placement.messages import TRACED, Ram, Rrm, Trm
from runnel.placement.placing import KEPT_MAX, Migrate, Placing, Progress, trim
from runnel.placement.pop import LOCAL, ProfileTable, next_step, trace_probability
from runnel.wire import ID_MAX, Publication


@dataclass(slots=True)
class Publisher:
    """A publisher of this broker."""

    window_began: int
    tagged: int = 0  # the paper's T
    outstanding: int = 0  # traced publications without a result
    results: int = 0  # since the last decision
    is_asking: bool = False


@dataclass(slots=True)
class Pending:
    """A traced publication whose results are not all there."""

    upstream: Link
    counts: dict[str, int]
    waiting: dict[str, None]


class Pop(Placing):
    """The module "pop". `chance` draws from 0 to 1, and decides what is traced."""

    name = "pop"
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
        self._publishers: dict[int, Publisher] = {}
        self._tables: dict[int, ProfileTable] = {}
        self._pending: dict[tuple[int, int], Pending] = {}

    def table(self, advertisement: int) -> ProfileTable | None:
        """The PPTable of a publisher."""
        return self._tables.get(advertisement)

    def progress(self, advertisement: int) -> Progress:
        """How many trace results there are, out of P_threshold."""
        publisher = self._publishers.get(advertisement, Publisher(0))
        wanted = self.config.p_threshold
        return Progress("trace results", publisher.results, wanted, publisher.is_asking)

    def decide_now(self, context: Context, advertisement: int, now: int) -> bool:
        """Decide by the averages so far; or let the decision that is under way only be shown."""
        publisher = self._publishers.get(advertisement)
        if publisher is None or advertisement not in self._tables:
            return False
        self._only_shown[advertisement] = None
        if not publisher.is_asking:
            self._ask(context, advertisement, publisher, now)
        return True

    def forget(self, advertisement: int) -> None:
        """Whatever is known of an advertisement holds no more."""
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
        """Nobody is behind a link that is gone."""
        super().link_lost(context, link, now)
        for key, pending in list(self._pending.items()):
            if link.name in pending.waiting:
                self._result(context, key, link.name, 0, now)
        for table in self._tables.values():
            table.rows.pop(link.name, None)

    def timer(self, context: Context, timer: str, now: int) -> None:
        """Some answers have not come."""
        for key in self._deadlines.due(context, now):
            if key in self._pending:
                self._settle(context, key, now)
            elif (publisher := self._publishers.get(key)) is not None:
                publisher.is_asking = False
                self._only_shown.pop(key, None)

    def message(self, context: Context, link: Link, message: Any, now: int) -> None:
        """A result, a request or an answer."""
        match message:
            case Trm():
                key = (message.advertisement, message.counter)
                self._result(context, key, link.name, message.subscribers, now)
            case Rrm():
                self._requested(context, link, message)
            case Ram():
                self._answered(context, message, now)

    # -- phase 1: tracing -----------------------------------------------------------------------------

    def entering(self, context: Context, link: Link, run: list[Publication], now: int) -> None:
        """Mark what is to be traced, and nothing else."""
        for publication in run:
            traced = self._is_traced(context, link, publication.advertisement, now)
            if traced != publication.flags & TRACED:
                publication.mark(publication.flags ^ TRACED)

    def _is_traced(self, context: Context, link: Link, advertisement: int, now: int) -> bool:
        if not self._is_mine(context, link, advertisement):
            return False
        publisher = self._publishers.get(advertisement)
        if publisher is None:
            publisher = self._publishers[advertisement] = Publisher(now)
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

    def routed(
        self,
        context: Context,
        link: Link,
        run: list[Publication],
        hops: list[list[int]],
        now: int,
    ) -> None:
        """Follow what is traced."""
        for place, publication in enumerate(run):
            if publication.flags & TRACED:
                self._traced(context, link, publication, hops[place], now)

    def _traced(
        self, context: Context, link: Link, publication: Publication, numbers: list[int], now: int
    ) -> None:
        key = publication.identity
        if key in self._pending:  # it has come twice
            self._tell(context, link, key, 0, now)
            return
        spread = self._spread(context, publication, numbers)
        waiting = dict.fromkeys(neighbour.name for neighbour in spread.downstream)
        self._pending[key] = Pending(link, {LOCAL: spread.local}, waiting)
        if not waiting:
            self._settle(context, key, now)
            return
        self._deadlines.set(context, key, now + self._patience_ns(publication.hops))
        if len(self._pending) > KEPT_MAX:
            self._settle(context, next(iter(self._pending)), now)

    def _result(
        self, context: Context, key: tuple[int, int], neighbour: str, subscribers: int, now: int
    ) -> None:
        pending = self._pending.get(key)
        if pending is None or neighbour not in pending.waiting:
            return
        del pending.waiting[neighbour]
        pending.counts[neighbour] = subscribers
        if not pending.waiting:
            self._settle(context, key, now)

    def _settle(self, context: Context, key: tuple[int, int], now: int) -> None:
        """All results of a publication are there, or as good as."""
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
        self._tell(context, pending.upstream, key, total, now)

    def _tell(
        self, context: Context, upstream: Link, key: tuple[int, int], total: int, now: int
    ) -> None:
        """A result goes to the broker that the publication came from; the publisher's own counts it."""
        if not upstream.is_client:
            self._send(context, upstream, Trm(*key, total))
        elif (publisher := self._publishers.get(key[0])) is not None:
            publisher.outstanding -= 1
            publisher.results += 1
            if (
                publisher.results >= self.config.p_threshold
            ):  # so none is outstanding: see `_is_traced`
                self._ask(context, key[0], publisher, now)

    # -- phase 2: finding the closest broker ----------------------------------------------------------

    def _ask(self, context: Context, advertisement: int, publisher: Publisher, now: int) -> None:
        """Decide, if this is the closest broker; or ask the neighbour that is closer."""
        table = self._tables.get(advertisement, ProfileTable())
        publisher.results = 0
        step = next_step(table, None, 0, self.config.damping)
        target = None if step.closest is None else context.links.get(step.closest)
        if target is None:
            self._decided(context, advertisement, (context.name,), self.address, now)
            return
        publisher.is_asking = True
        self._deadlines.set(context, advertisement, now + self._patience_ns(0))
        self._send(context, target, Rrm(advertisement, step.behind, (context.name,)))

    def _requested(self, context: Context, link: Link, request: Rrm) -> None:
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
            self._send(context, target, Rrm(request.advertisement, step.behind, brokers))

    def _answered(self, context: Context, answer: Ram, now: int) -> None:
        """Pass an answer back to where the request began; there it is a decision."""
        if context.name not in answer.brokers:
            return
        before = answer.brokers[answer.brokers.index(context.name) + 1 :]
        if before:
            link = context.links.get(before[0])
            if link is not None and not link.is_client:
                self._send(context, link, answer)
            return
        publisher = self._publishers.get(answer.advertisement)
        if publisher is not None and publisher.is_asking:
            publisher.is_asking = False
            self._deadlines.drop(answer.advertisement)
            self._decided(context, answer.advertisement, answer.brokers, answer.address, now)

    def _decided(
        self,
        context: Context,
        advertisement: int,
        brokers: tuple[str, ...],
        address: str,
        now: int,
    ) -> None:
        rows = self._tables[advertisement].rows if advertisement in self._tables else {}
        numbers = {
            "subscribers": {name or context.name: round(count, 2) for name, count in rows.items()},
            "path": list(reversed(brokers)),
        }
        self._decide(context, advertisement, brokers[0], address, numbers, now)
