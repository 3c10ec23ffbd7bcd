"""A session on an event loop, which a client shares with its subscriptions and publishers.

Calls go to the session at once, and what they want sent is written once per turn of the loop (`flush_soon`). Only the
first publication of a turn is written immediately, as often there is just one, and its publisher waits. The session's
effects come in here and wake whoever waits for them. All futures that are waited for are kept here, so that the end of
the client ends every wait.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from time import monotonic_ns, time_ns
from typing import Any, TypeVar

from runnel.broker.access import UNKNOWN
from runnel.client.effects import (
    AccessRefused,
    BrokerErred,
    Confirmed,
    Dismissed,
    Gap,
    HomeDown,
    HomeUp,
    MissedSome,
    Moved,
    MoveGivenUp,
    PublicationsRefused,
    Ready,
    SelectionRefused,
    Unconfirmed,
)
from runnel.client.publisher import Publisher
from runnel.client.redial import ClientDriver, Rounds
from runnel.client.roaming import Roaming
from runnel.client.session import Session
from runnel.client.subscription import DECODED_BYTES, Backlog, Subscription
from runnel.errors import (
    AccessDenied,
    AdvertisementRefused,
    BugError,
    ClientClosed,
    ConnectionFailed,
    InputError,
    MoveFailed,
    PeerError,
    SubscriptionRefused,
)
from runnel.language import Selection
from runnel.net.dialling import is_same_place
from runnel.net.driver import Dialler
from runnel.quantities import MILLISECOND, SECOND
from runnel.wire import Publication

_T = TypeVar("_T")
log = logging.getLogger("runnel.client")
_last_incarnation = 0

HINT = (
    ". Say who you are: user, and password or token; or RUNNEL_USER, and RUNNEL_PASSWORD_FILE or RUNNEL_TOKEN_FILE "
    "(docs/access.md)"
)
WITHDRAWN = "it was withdrawn before its routes were complete"


class UnconfirmedRun:
    """How many unconfirmed publications one publisher sent without another publisher's in between."""

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
        self.on_gap: Callable[[Gap], object] | None = None
        self.on_undelivered: Callable[[Gap], object] | None = None
        self.on_connected: Callable[[str], object] | None = None
        self.on_disconnected: Callable[[str], object] | None = None
        self.roaming: Roaming  # of the client; see `attach`
        self._is_connected = False
        self.over: Exception | None = None
        self._credit_waiters: list[tuple[int, asyncio.Future[None]]] = []  # a heap, by ticket
        self._last_ticket = 0
        self._woken = 0
        self.subscriptions: dict[int, Subscription] = {}
        self.publishers: dict[int, Publisher] = {} if main is None else main.publishers
        self._runs: deque[UnconfirmedRun] = deque()
        self._flush_due = False
        self._waiting: set[asyncio.Future[Any]] = set() if main is None else main._waiting
        self._up: list[asyncio.Future[None]] = []
        self._ready: dict[int, deque[asyncio.Future[tuple[str, ...]]]] = (
            {} if main is None else main._ready
        )
        self._move: asyncio.Future[None] | None = None
        self._callbacks: set[asyncio.Future[Any]] = set()  # callbacks that take their time
        self._handlers: dict[type, Callable[[Any], None]] = {
            Confirmed: lambda effect: self._settle(effect.count, certain=True),
            Unconfirmed: lambda effect: self._settle(effect.count, certain=False),
            Ready: self._finish_ready,
            MissedSome: self._missed_some,
            Gap: self._note_gap,
            SelectionRefused: self._refused,
            PublicationsRefused: self._publications_refused,
            HomeUp: self._home_up,
            HomeDown: self._home_down,
            Moved: self._moved,
            MoveGivenUp: self._move_given_up,
            Dismissed: self._dismissed,
            AccessRefused: self._access_refused,
            BrokerErred: self._broker_erred,
        }

    def attach(self, roaming: Roaming) -> None:
        """Set the client's Roaming, before anything else is done with this session."""
        self.roaming = roaming

    @property
    def _name(self) -> str:
        return self.session.config.name

    # -- calls ----------------------------------------------------------------------------------------

    def subscribe(self, selection: Selection) -> Subscription:
        """Subscribe; the routes are complete later (`ready`)."""
        self.check()
        id = self.session.subscribe(selection)
        self.subscriptions[id] = Subscription(self, id, selection, self.backlog)
        self.flush_soon()
        return self.subscriptions[id]

    def advertise(self, name: str, selection: Selection) -> Publisher:
        """Advertise; the routes are complete later (`ready`)."""
        self.check()
        id = self.session.advertise(name, selection)
        self.publishers[id] = Publisher(self, id, name, selection)
        self.flush_soon()
        return self.publishers[id]

    def forget_subscription(self, id: int) -> None:
        """Unsubscribe."""
        del self.subscriptions[id]
        self.session.unsubscribe(id)
        self._fail_ready(id, InputError(WITHDRAWN))
        self.flush_soon()

    def forget_publisher(self, id: int) -> None:
        """Withdraw an advertisement."""
        del self.publishers[id]
        self.session.unadvertise(id)
        self._fail_ready(id, InputError(WITHDRAWN))
        self.roaming.retire(self)
        self.flush_soon()

    def note_sent(self, publisher: Publisher) -> None:
        """Note that a publication was handed to the session, and see that it is written."""
        runs = self._runs
        if runs and runs[-1].publisher is publisher:
            runs[-1].count += 1
        else:
            runs.append(UnconfirmedRun(publisher))
        if not self._flush_due:
            self.flush_soon()
            self.driver.flush()

    def flush_soon(self) -> None:
        """Carry out the session's effects in the next turn of the loop, once for all calls of this turn."""
        if not self._flush_due:
            self._flush_due = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if self.over is None:
            self.driver.flush()

    def check(self) -> None:
        """Raise if the client has ended."""
        if self.over is not None:
            raise self.over

    # -- waiting --------------------------------------------------------------------------------------

    async def wait_for(self, future: asyncio.Future[_T]) -> _T:
        """Await a future; the end of the client ends it too."""
        self.check()
        self._waiting.add(future)
        try:
            return await future
        finally:
            self._waiting.discard(future)
            if future.done() and not future.cancelled():
                future.exception()  # so that asyncio does not warn if the waiting task is cancelled at this moment

    @property
    def may_publish(self) -> bool:
        """Whether there is credit that no earlier waiter is entitled to."""
        return not self._credit_waiters and not self._woken and self.session.credit > 0

    @property
    def is_up(self) -> bool:
        """Whether there is a connection to a broker that greeted."""
        home = self.session.home
        return home is not None and home.link.established

    async def wait_up(self) -> None:
        """Wait until the home is up the next time, or has changed."""
        future: asyncio.Future[None] = self.loop.create_future()
        self._up.append(future)
        await self.wait_for(future)

    async def ready(self, id: int) -> tuple[str, ...]:
        """Wait until a subscription or an advertisement has all routes that can be had; the links that are missing."""
        while True:
            self.check()
            if id not in self.subscriptions and id not in self.publishers:
                raise InputError(WITHDRAWN)
            try:
                self.session.ready(id)
                break
            except InputError:  # not connected yet
                await self.wait_up()
        future: asyncio.Future[tuple[str, ...]] = self.loop.create_future()
        # Waiters of one id are served in order: fences come back in the order of their barriers, or it makes no
        # difference which of them comes first.
        self._ready.setdefault(id, deque()).append(future)
        self.flush_soon()
        with self.backlog:
            return await self.wait_for(future)

    async def wait_credit(self, here: Callable[[], bool]) -> None:
        """Wait for credit, in order, or until `here()` is false because the publisher has left this session."""
        self._last_ticket += 1
        ticket = self._last_ticket
        while here() and (self._credit_waiters or self._woken or not self.session.credit):
            future: asyncio.Future[None] = self.loop.create_future()
            # If another one took the credit, it waits again with the same ticket and keeps its place.
            heappush(self._credit_waiters, (ticket, future))
            try:
                await self.wait_for(future)
            except BaseException:
                if future.done() and not future.cancelled() and future.exception() is None:
                    self._woken -= 1
                    self.after_effects()  # it was woken and will not publish: wake another
                raise
            self._woken -= 1
            if self.session.credit:
                break
        if here():
            self.check()

    def wake_all(self) -> None:
        """Wake everybody who waits for credit, to check again whether they still have to."""
        waiting, self._credit_waiters = self._credit_waiters, []
        for _, future in waiting:
            if not future.done():
                future.set_result(None)
                self._woken += 1

    async def wait_settled(self) -> None:
        """Wait until everything that was published so far is confirmed or in doubt."""
        for publisher, number in [(p, p.published) for p in self.publishers.values()]:
            await publisher.wait_settled(number)

    async def move_to(self, address: str, timeout_s: float) -> None:
        """Move, and wait until the session lives at the other broker."""
        await self.roaming.wait_until_idle()
        session, home = self.session, None
        # The home may be lost or change while names are looked up.
        while not self.is_up or session.home is not home:
            self.check()
            if not self.is_up or session.home is None:
                await self.wait_up()
                continue
            home = session.home
            # A broker would take a second connection of this client for one without memory, and start the link anew.
            if await is_same_place(home.broker, address):
                raise InputError(f"the client is at {address} already")
        self.check()
        session.move_to(address, monotonic_ns(), round(timeout_s * SECOND))
        self._move = self.loop.create_future()
        self.flush_soon()
        with self.backlog:
            await self.wait_for(self._move)

    # -- effects of the session -----------------------------------------------------------------------

    def deliver(self, publication: Publication, subscriptions: tuple[int, ...]) -> None:
        """Hand a publication to the subscriptions that it matches."""
        backlog = self.backlog
        for id in subscriptions:
            subscription = self.subscriptions.get(id)
            if subscription is not None:
                backlog.bytes += len(publication.raw) + DECODED_BYTES
                subscription.add(publication)
        if backlog.bytes > backlog.bytes_max:
            backlog.check_limit()

    def handle_effect(self, effect: Any) -> None:
        """Handle any other effect."""
        handler = self._handlers.get(type(effect))
        if handler is not None:
            handler(effect)
        else:
            self.roaming.handle_effect(self, effect)

    def after_effects(self) -> None:
        """Advance migrations, and wake those who may publish now."""
        self.roaming.advance()
        waiters = self._credit_waiters
        while waiters and self._woken < self.session.credit:
            _, future = heappop(waiters)
            if not future.done():
                future.set_result(None)
                # This holds until it has run: what it will publish is not taken off the credit yet.
                self._woken += 1

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

    def _finish_ready(self, effect: Ready) -> None:
        waiting = self._ready.get(effect.id)
        if waiting:
            future = waiting.popleft()
            if not future.done():
                future.set_result(effect.missing)
            if not waiting:
                del self._ready[effect.id]

    def _fail_ready(self, id: int, error: Exception) -> None:
        for future in self._ready.pop(id, ()):
            if not future.done():
                future.set_exception(error)

    def _refused(self, effect: SelectionRefused) -> None:
        """Whoever waits for it, reads it or publishes with it is told; nobody else is concerned."""
        id = effect.id
        error: InputError
        if id in self.subscriptions:
            error = SubscriptionRefused(f"the broker refuses the subscription: {effect.reason}")
            self.subscriptions.pop(id).end(error)
        else:
            error = AdvertisementRefused(f"the broker refuses the advertisement: {effect.reason}")
            self.publishers.pop(id).end(error)
            self.roaming.retire(self)
        log.warning("%s: %s", self._name, error)
        self._fail_ready(id, error)

    def _publications_refused(self, effect: PublicationsRefused) -> None:
        publisher = self.publishers.get(effect.id)
        if publisher is not None:
            log.warning(
                "%s: %d publications were refused: %s",
                publisher.name,
                len(effect.ages),
                effect.reason,
            )
            publisher.refuse([publisher.published - age for age in effect.ages], effect.reason)

    def _missed_some(self, effect: MissedSome) -> None:
        self.missed += effect.count
        log.warning("%s: the broker dropped %d publications", self._name, effect.count)
        if self.on_missed is not None:
            self._call(self.on_missed, effect.count)

    def _home_up(self, effect: HomeUp) -> None:
        home = self.session.home
        if home is not None and effect.broker == home.broker:
            self.driver.home_up(effect.broker)
            finish_all(self._up)
            self._note_connected()

    def _note_connected(self) -> None:
        home = self.session.home
        if home is None or not home.link.established:
            return  # a move has come off, but its new home is just being dialled again
        self._is_connected = True
        log.info("%s: connected to %s at %s", self._name, home.name, home.address)
        if self.on_connected is not None:
            self._call(self.on_connected, home.name)

    def _call(self, callback: Callable[..., object], *what: object) -> None:
        """Call the application with what has happened, at the loop's next turn; what is to be awaited is."""

        def call() -> None:
            result = callback(*what)
            if inspect.isawaitable(result):
                task = asyncio.ensure_future(result)
                self._callbacks.add(task)
                task.add_done_callback(self._callbacks.discard)

        self.loop.call_soon(call)

    def _note_gap(self, gap: Gap) -> None:
        if gap.is_ours:
            log.warning("%s: subscribers may not get what was published: %r", self._name, gap)
            if self.on_undelivered is not None:
                self._call(self.on_undelivered, gap)
            return
        if gap.is_open or gap.count:
            self.gaps += 1
        log.warning("%s: events may be missing: %r", self._name, gap)
        if self.on_gap is not None:
            self._call(self.on_gap, gap)

    def _home_down(self, effect: HomeDown) -> None:
        home = self.session.home
        if home is not None and effect.broker == home.broker:
            if self._is_connected:
                self._is_connected = False
                reason = self.driver.close_reason()
                log.info("%s: lost the connection to %s: %s", self._name, home.address, reason)
                if self.on_disconnected is not None:
                    self._call(self.on_disconnected, reason)
            self.driver.home_down(effect.broker)
        else:
            self.driver.target_down(effect.broker)

    def _dismissed(self, effect: Dismissed) -> None:
        log.error("%s: the broker does not want this client: %s", self._name, effect.reason)
        self.end(ConnectionFailed(f"the broker does not want this client: {effect.reason}"))
        self.loop.call_soon(self.driver.stop)

    def _access_refused(self, effect: AccessRefused) -> None:
        log.error("%s: access denied at %s: %s", self._name, effect.broker, effect.reason)
        if self.roaming.is_target(self):  # the publisher stays where it is
            self.driver.rounds.reasons[effect.broker] = effect.reason
        else:
            hint = HINT if effect.reason == UNKNOWN else ""
            self.end(AccessDenied(f"{effect.broker} denies access: {effect.reason}{hint}"))
        self.loop.call_soon(self.driver.stop)

    def _broker_erred(self, effect: BrokerErred) -> None:
        self.end(
            PeerError(
                f"{effect.broker} sent what a client cannot take, so the client was closed: {effect.reason}"
            )
        )
        self.loop.call_soon(self.driver.stop)

    def _moved(self, effect: Moved) -> None:
        self.driver.moved(effect.broker)
        finish_all(self._up)
        self._note_connected()
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

    def handle_bug(self, error: Exception) -> None:
        """The session has raised an unexpected error: end the client, as its state cannot be trusted any more."""
        bug = BugError(f"the client stopped after an error of its own: {error!r}")
        bug.__cause__ = error
        self.end(bug)
        self.driver.stop()

    def end(self, reason: Exception) -> None:
        """End the client: everything that waits raises the reason."""
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
        """Close a session that has no publishers any more; what it shares with the client's own session stays."""
        self.over = ClientClosed("nobody publishes here any more")
        self.session.close()
        self.driver.flush()
        self.driver.stop()

    async def close(self) -> None:
        """Close the session and its connections. What is not confirmed by now is in doubt."""
        if self.over is None:
            if self.roaming.is_main(self):
                await self.roaming.close()
            self.session.close()
            self.driver.flush()
            self.end(ClientClosed("the client was closed: connect another one"))
            self.driver.stop()
        await self.driver.wait_closed()
        # A connection that was being dialled is given up at its task's next turn.
        await asyncio.sleep(0)


def new_incarnation() -> int:
    """A number for a session: larger than those of sessions that began before, here or in another program.

    Of two clients of one name the one with the larger number stays (broker/namesakes.py).
    """
    global _last_incarnation
    _last_incarnation = max(_last_incarnation + 1, time_ns() // MILLISECOND)
    return _last_incarnation


def finish(future: asyncio.Future[None]) -> None:
    """Complete a future, unless it was cancelled."""
    if not future.done():
        future.set_result(None)


def finish_all(futures: list[asyncio.Future[None]]) -> None:
    """Complete futures, and forget them."""
    for future in futures:
        finish(future)
    futures.clear()
