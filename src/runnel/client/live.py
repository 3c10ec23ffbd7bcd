"""A session on an event loop: what a client, its subscriptions and its publishers share.

Calls go to the session at once and are written once per turn of the loop (`flush_soon`); only the first publication of
a turn goes out by itself, since there is often just one, and somebody waits for it. What the session tells comes in
here and is handed to whoever waits for it. Everything that waits is known here, so that nothing waits for ever when
the client ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush
from time import monotonic_ns
from typing import Any, TypeVar

from runnel.client.effects import (
    Confirmed,
    Dismissed,
    HomeDown,
    HomeUp,
    MissedSome,
    Moved,
    MoveGivenUp,
    Ready,
    Unconfirmed,
)
from runnel.client.publisher import Publisher
from runnel.client.redial import ClientDriver, Rounds
from runnel.client.roaming import Roaming
from runnel.client.session import Session
from runnel.client.subscription import DECODED_BYTES, Backlog, Subscription
from runnel.errors import BugError, ClientClosed, ConnectionFailed, InputError, MoveFailed
from runnel.language import Selection
from runnel.net.dialling import is_same_place
from runnel.net.driver import SECOND, Dialler
from runnel.wire import Publication

_T = TypeVar("_T")
WITHDRAWN = "it was withdrawn before its routes were complete"


class Run:
    """Publications of one publisher that were sent one after the other and are not confirmed."""

    __slots__ = ("count", "publisher")

    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher
        self.count = 1


class Live:
    """A session and its driver; see the top of the file."""

    def __init__(
        self,
        session: Session,
        dialler: Dialler,
        rounds: Rounds,
        backlog_bytes_max: int,
        main: Live
        | None = None,  # for a publisher that roams: the client's own, with which much is shared
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.session = session
        self.driver = ClientDriver(session, dialler, self, rounds)
        self.backlog = Backlog(self, backlog_bytes_max)
        self.missed = 0
        self.gaps = 0
        self.on_missed: Callable[[int], object] | None = None
        self.on_gap: Callable[[], object] | None = None
        self.on_effect: Callable[[Live, Any], None] | None = None
        self.on_after: Callable[[], None] | None = None
        self.roaming: Roaming  # of the client
        self._was_up = False
        self.over: Exception | None = None
        self._credit_waiters: list[tuple[int, asyncio.Future[None]]] = []  # a heap, by ticket
        self._last_ticket = 0
        self._woken = 0
        self.subscriptions: dict[int, Subscription] = {}
        self.publishers: dict[int, Publisher] = {} if main is None else main.publishers
        self._runs: deque[Run] = deque()
        self._flush_due = False
        self._waiting: set[asyncio.Future[Any]] = set() if main is None else main._waiting
        self._up: list[asyncio.Future[None]] = []
        self._ready: dict[int, deque[asyncio.Future[None]]] = {} if main is None else main._ready
        self._move: asyncio.Future[None] | None = None
        self._tellers: dict[type, Callable[[Any], None]] = {
            Confirmed: lambda effect: self._settle(effect.count, certain=True),
            Unconfirmed: lambda effect: self._settle(effect.count, certain=False),
            Ready: self._is_ready,
            MissedSome: self._missed_some,
            HomeUp: self._home_up,
            HomeDown: self._home_down,
            Moved: self._moved,
            MoveGivenUp: self._move_given_up,
            Dismissed: self._dismissed,
        }

    # -- calls ----------------------------------------------------------------------------------------

    def subscribe(self, selection: Selection) -> Subscription:
        """Ask for something."""
        self.check()
        id = self.session.subscribe(selection)
        self.subscriptions[id] = Subscription(self, id, selection, self.backlog)
        self.flush_soon()
        return self.subscriptions[id]

    def advertise(self, name: str, selection: Selection) -> Publisher:
        """Say what will be published."""
        self.check()
        id = self.session.advertise(name, selection)
        self.publishers[id] = Publisher(self, id, name, selection)
        self.flush_soon()
        return self.publishers[id]

    def forget_subscription(self, id: int) -> None:
        """Nothing more is wanted for it."""
        del self.subscriptions[id]
        self.session.unsubscribe(id)
        self._forget_ready(id)
        self.flush_soon()

    def forget_publisher(self, id: int) -> None:
        """Nothing more is published with it."""
        del self.publishers[id]
        self.session.unadvertise(id)
        self._forget_ready(id)
        self.roaming.retire(self)
        self.flush_soon()

    def sent(self, publisher: Publisher) -> None:
        """A publication was handed to the session."""
        runs = self._runs
        if runs and runs[-1].publisher is publisher:
            runs[-1].count += 1
        else:
            runs.append(Run(publisher))
        if not self._flush_due:
            self.flush_soon()
            self.driver.flush()

    def flush_soon(self) -> None:
        """Have the session's wishes carried out, once per turn of the loop."""
        if not self._flush_due:
            self._flush_due = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if self.over is None:
            self.driver.flush()

    def check(self) -> None:
        """Raise if the client is over."""
        if self.over is not None:
            raise self.over

    # -- waiting --------------------------------------------------------------------------------------

    async def outcome(self, future: asyncio.Future[_T]) -> _T:
        """Await a future that the end of the client ends too."""
        self.check()
        self._waiting.add(future)
        try:
            return await future
        finally:
            self._waiting.discard(future)
            if future.done() and not future.cancelled():
                future.exception()  # who is cancelled at that moment takes no notice of it

    @property
    def may_publish(self) -> bool:
        """Whether there is credit that nobody has waited for longer."""
        return not self._credit_waiters and not self._woken and self.session.credit > 0

    @property
    def is_up(self) -> bool:
        """Whether there is a connection to a broker that greeted."""
        home = self.session.home
        return home is not None and home.link.established

    async def wait_up(self) -> None:
        """Until the next time that the home is up, or has changed."""
        future: asyncio.Future[None] = self.loop.create_future()
        self._up.append(future)
        await self.outcome(future)

    async def ready(self, id: int) -> None:
        """Until the routes of a subscription or an advertisement are complete."""
        while True:
            self.check()
            if id not in self.subscriptions and id not in self.publishers:
                raise InputError(WITHDRAWN)
            try:
                self.session.ready(id)
                break
            except InputError:  # no home knows of it yet
                await self.wait_up()
        future: asyncio.Future[None] = self.loop.create_future()
        # A barrier that was sent later is not back earlier but for what makes no difference: first come, first served.
        self._ready.setdefault(id, deque()).append(future)
        self.flush_soon()
        with self.backlog:
            await self.outcome(future)

    async def wait_credit(self, here: Callable[[], bool]) -> None:
        """Until something may be published, in order of arrival; or the publisher that waits is not `here` any more."""
        self._last_ticket += 1
        ticket = self._last_ticket
        while here() and (self._credit_waiters or self._woken or not self.session.credit):
            future: asyncio.Future[None] = self.loop.create_future()
            # With the same ticket again if somebody was quicker: it keeps its place.
            heappush(self._credit_waiters, (ticket, future))
            try:
                await self.outcome(future)
            except BaseException:
                if future.done() and not future.cancelled() and future.exception() is None:
                    self._woken -= 1
                    self.after()  # it was woken and will not publish: let another
                raise
            self._woken -= 1
            if self.session.credit:
                break
        if here():
            self.check()

    def wake_all(self) -> None:
        """Let all who wait for credit look whether they still do."""
        waiting, self._credit_waiters = self._credit_waiters, []
        for _, future in waiting:
            if not future.done():
                future.set_result(None)
                self._woken += 1

    async def settled(self) -> None:
        """Until everything that was published so far is confirmed, or in doubt."""
        for publisher, number in [(p, p.published) for p in self.publishers.values()]:
            await publisher.settled(number)

    async def move_to(self, address: str, timeout_s: float) -> None:
        """Until the session lives at another broker."""
        await self.roaming.settled()
        session, home = self.session, None
        while (
            not self.is_up or session.home is not home
        ):  # it may go, or change, while names are looked up
            self.check()
            if not self.is_up or session.home is None:
                await self.wait_up()
                continue
            home = session.home
            # Seen from the broker, a client that comes to it a second time has lost its memory: it would start anew.
            if await is_same_place(home.broker, address):
                raise InputError(f"the client is at {address} already")
        self.check()
        session.move_to(address, monotonic_ns())
        # Not before: a move that is refused must not change the patience of the one under way.
        session.config = replace(session.config, move_timeout_ns=round(timeout_s * SECOND))
        self._move = self.loop.create_future()
        self.flush_soon()
        with self.backlog:
            await self.outcome(self._move)

    # -- what the session tells -----------------------------------------------------------------------

    def deliver(self, publication: Publication, subscriptions: tuple[int, ...]) -> None:
        """Hand a publication to those that asked for it."""
        backlog = self.backlog
        for id in subscriptions:
            subscription = self.subscriptions.get(id)
            if subscription is not None:
                backlog.bytes += len(publication.raw) + DECODED_BYTES
                subscription.arrived(publication)
        if backlog.bytes > backlog.bytes_max:
            backlog.added()

    def told(self, effect: Any) -> None:
        """Anything else."""
        teller = self._tellers.get(type(effect))
        if teller is not None:
            teller(effect)
        elif self.on_effect is not None:
            self.on_effect(self, effect)

    def after(self) -> None:
        """Wake those who may publish now."""
        if self.on_after is not None:
            self.on_after()
        waiters = self._credit_waiters
        while waiters and self._woken < self.session.credit:
            _, future = heappop(waiters)
            if not future.done():
                future.set_result(None)
                self._woken += (
                    1  # until it has run: what it will publish is not taken off the credit yet
                )

    def _settle(self, count: int, *, certain: bool) -> None:
        runs = self._runs
        while count:
            run = runs[0]
            now = min(count, run.count)
            count -= now
            run.count -= now
            if not run.count:
                runs.popleft()
            run.publisher.settle(now, certain=certain)

    def _is_ready(self, effect: Ready) -> None:
        waiting = self._ready.get(effect.id)
        if waiting:
            finish(waiting.popleft())
            if not waiting:
                del self._ready[effect.id]

    def _forget_ready(self, id: int) -> None:
        for future in self._ready.pop(id, ()):
            if not future.done():
                future.set_exception(InputError(WITHDRAWN))

    def _missed_some(self, effect: MissedSome) -> None:
        self.missed += effect.count
        if self.on_missed is not None:
            self.loop.call_soon(self.on_missed, effect.count)

    def _home_up(self, effect: HomeUp) -> None:
        home = self.session.home
        if home is not None and effect.broker == home.broker:
            self.driver.home_up(effect.broker)
            finish_all(self._up)
            if effect.fresh and self._was_up:
                self._note_gap()
            self._was_up = True

    def _note_gap(self) -> None:
        self.gaps += 1
        if self.on_gap is not None:
            self.loop.call_soon(self.on_gap)

    def _home_down(self, effect: HomeDown) -> None:
        home = self.session.home
        if home is not None and effect.broker == home.broker:
            self.driver.home_down(effect.broker)
        else:
            self.driver.target_down(effect.broker)

    def _dismissed(self, effect: Dismissed) -> None:
        self.end(ConnectionFailed(f"the broker does not want this client: {effect.reason}"))
        self.loop.call_soon(self.driver.stop)

    def _moved(self, effect: Moved) -> None:
        self.driver.moved(effect.broker)
        finish_all(self._up)
        if effect.gap:
            self._note_gap()
        if self._move is not None:
            finish(self._move)

    def _move_given_up(self, effect: MoveGivenUp) -> None:
        finish_all(self._up)
        if self._move is not None and not self._move.done():
            why = self.driver.rounds.reasons.get(effect.broker)
            because = f": {why}" if why else ", or more arrived meanwhile than can be held"
            self._move.set_exception(
                MoveFailed(
                    f"{effect.broker} did not take the client in time{because}. "
                    "It stays where it is, and nothing is lost"
                )
            )

    # -- the end --------------------------------------------------------------------------------------

    def broke(self, error: Exception) -> None:
        """The session is not to be trusted any more: everybody who waits is told, nothing more happens."""
        bug = BugError(f"the client stopped after an error of its own: {error!r}")
        bug.__cause__ = error
        self.end(bug)
        self.driver.stop()

    def end(self, reason: Exception) -> None:
        """Nothing more happens; whoever waits is told why."""
        if self.over is not None:
            return
        self.over = reason
        for publisher in self.publishers.values():
            publisher.end(reason)
        for subscription in self.subscriptions.values():
            subscription.end(reason)
        for future in list(self._waiting):
            if not future.done():
                future.set_exception(reason)

    def retire(self) -> None:
        """Leave, since nobody publishes here any more; what is shared with the client lives on."""
        self.over = ClientClosed("nobody publishes here any more")
        self.session.close()
        self.driver.flush()
        self.driver.stop()

    async def close(self) -> None:
        """Say farewell and leave nothing behind. What is not confirmed by now is in doubt."""
        if self.over is None:
            if self.roaming.is_of(self):
                await self.roaming.close()
            self.session.close()
            self.driver.flush()
            self.end(ClientClosed("the client was closed: connect another one"))
            self.driver.stop()
        await self.driver.all_closed()
        await asyncio.sleep(
            0
        )  # a connection that was being dialled is given up at its task's next turn


def finish(future: asyncio.Future[None]) -> None:
    """Wake who waits, unless it was cancelled."""
    if not future.done():
        future.set_result(None)


def finish_all(futures: list[asyncio.Future[None]]) -> None:
    """Wake all who wait."""
    for future in futures:
        finish(future)
    futures.clear()
