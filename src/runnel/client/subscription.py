"""Subscription: the queue where matching events arrive and are read.

An arriving event is put into the queue, and a task is woken only if it waits. A reader takes events without a task
switch as long as there are any. So an event costs little, and a batch is read in one turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from runnel.client.events import Event
from runnel.client.readiness import READY_TIMEOUT_S, Wait, check_wait, until_ready
from runnel.errors import InputError, SubscriptionRefused
from runnel.language import Selection
from runnel.wire import Publication

if TYPE_CHECKING:
    from runnel.client.live import Live

TURN = 64  # events that a reader takes before other tasks of the loop, such as heartbeats, may run
DECODED_BYTES = 512  # what a publication takes in memory beside its frame, roughly


class Backlog:
    """How much has arrived at a client and was not read, of all subscriptions together.

    Beyond `bytes_max` the broker is made to hold the rest back (nothing is acknowledged), until half of it was read.
    But a fence (of readiness, of a move) comes after everything that is held back. So nothing is held back
    while somebody waits for a fence; otherwise a reader that subscribes between two events would wait for itself. What
    arrives during that time is no more than the broker had in its queue.

    Use it as a context manager around the wait for a fence.
    """

    __slots__ = ("_fences", "_live", "bytes", "bytes_max", "holding")

    def __init__(self, live: Live, bytes_max: int) -> None:
        self._live = live
        self._fences = 0  # how many are waited for
        self.bytes = 0
        self.bytes_max = bytes_max
        self.holding = False

    def check_limit(self) -> None:
        """Hold back if there is too much, unless a fence is waited for."""
        # A move or crossing waits for fences too, even if the call that began it was cancelled.
        if not self.holding and not self._fences and self._live.session.is_settled:
            self._hold(True)

    def remove(self, publication: Publication) -> None:
        """Count a publication that was read; when half is read, the broker may send again."""
        self.bytes -= len(publication.raw) + DECODED_BYTES
        if self.holding and self.bytes <= self.bytes_max // 2:
            self._hold(False)

    def __enter__(self) -> None:
        """A fence is waited for: hold nothing back."""
        self._fences += 1
        if self.holding:
            self._hold(False)

    def __exit__(self, *_: object) -> None:
        self._fences -= 1
        if self.bytes > self.bytes_max:
            self.check_limit()

    def _hold(self, holding: bool) -> None:
        self.holding = holding
        self._live.session.hold(holding)
        self._live.flush_soon()


class Subscription:
    """The events that match a filter, as they arrive: `async for event in subscription`.

    Events of one publisher come in the order in which they were published, each once, through every reconnection
    and move. Several tasks may read: each event goes to one of them. Made by `Client.subscribe`.
    """

    def __init__(self, live: Live, id: int, selection: Selection, backlog: Backlog) -> None:
        self.selection = selection

        self.missing: tuple[str, ...] = ()
        """The links of the network that were missing when readiness was last asked for: what is published behind them
        does not arrive before they are back."""

        self._id = id
        self._live = live
        self._backlog = backlog
        self._queue: deque[Publication] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._turn = TURN
        self._over: Exception | None = None
        self._missed_before = live.missed
        self._missed_at_end: int | None = None

    # -- properties -----------------------------------------------------------------------------------

    @property
    def missed(self) -> int:
        """How many publications the broker dropped since this subscription began, as the client did not keep up.

        The broker counts per client: with several subscriptions it does not say for which of them they were.
        """
        missed = self._live.missed if self._missed_at_end is None else self._missed_at_end
        return missed - self._missed_before

    @property
    def unread(self) -> int:
        """How many events have arrived and wait to be read."""
        return len(self._queue)

    def __repr__(self) -> str:
        over = ", over" if self._over else ""
        return f"<Subscription {self.selection}, {self.unread} unread{over}>"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will arrive: it was ended, or the client was closed."""
        return self._over is not None

    # -- reading --------------------------------------------------------------------------------------

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        """The next event; the iteration ends after `unsubscribe` and when the client is closed."""
        queue = self._queue
        if not queue or not self._turn:
            await self.wait()
            if not queue:
                raise StopAsyncIteration
        self._turn -= 1
        publication = queue.popleft()
        self._backlog.remove(publication)
        return Event(publication)

    async def get(self, timeout: float | None = None) -> Event:
        """Return the next event; TimeoutError if none comes within `timeout` seconds, 0 to not wait at all.

        An event is never lost to a timeout or a cancellation. After `unsubscribe`, or when the client was
        closed, it raises ClientClosed or InputError.
        """
        if not self._queue or not self._turn:
            if timeout is None or (self._queue and not self._turn):
                await self.wait()
            elif timeout > 0:
                async with asyncio.timeout(timeout):
                    await self.wait()
            if not self._queue:
                if self._over is not None:
                    raise self._over
                raise TimeoutError(f"no event within {timeout:g} s")
        self._turn -= 1
        publication = self._queue.popleft()
        self._backlog.remove(publication)
        return Event(publication)

    async def wait(self) -> None:
        """Return when there is something to read, or never will be; other tasks of the loop get at least one turn."""
        self._turn = TURN
        if self._queue:
            await asyncio.sleep(0)
        while not self._queue and self._over is None:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except BaseException:
                waiter.cancel()
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
                elif self._queue:
                    self._wake()  # it was woken and will not read: wake another
                raise
        if len(self._queue) > 1 and self._waiters:
            self._wake()
        if not self._queue and self._over is not None and not self._ends_quietly:
            raise self._over

    @property
    def _ends_quietly(self) -> bool:
        """Whether it is over as the application wanted: unsubscribed, or closed."""
        is_refused = isinstance(self._over, SubscriptionRefused)
        return isinstance(self._over, InputError) and not is_refused

    # -- readiness and end ----------------------------------------------------------------------------

    async def ready(
        self, *, wait: Wait = "complete", timeout: float | None = READY_TIMEOUT_S
    ) -> None:
        """Return when the routes are complete: what is published from now on, anywhere, arrives here.

        `Client.subscribe` waits for it by itself, and says what `wait` and `timeout` mean. It is worth asking again
        after the client lost its broker and found another one. It raises RoutesIncomplete also without a connection.
        """
        if self._over is not None:
            raise self._over
        check_wait(wait, timeout)
        self.missing = await until_ready(lambda: self._live.ready(self._id), wait, timeout)

    def unsubscribe(self) -> None:
        """End it at once: what has arrived and was not read is dropped, the iteration ends.

        The broker is told with the next write. A second time does nothing.
        """
        if self._over is None:
            self._live.forget_subscription(self._id)
            self.end(InputError("the subscription was ended: subscribe again"), drop=True)

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.unsubscribe()

    # -- for the client -------------------------------------------------------------------------------

    def add(self, publication: Publication) -> None:
        """Put a publication into the queue."""
        self._queue.append(publication)
        if self._waiters:
            self._wake()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def end(self, reason: Exception, *, drop: bool = False) -> None:
        """Nothing more comes; what has arrived may still be read, unless it is dropped."""
        if self._over is not None:
            return
        self._over = reason
        self._missed_at_end = self._live.missed
        if drop:
            while self._queue:
                self._backlog.remove(self._queue.popleft())
        while self._waiters:
            self._wake()

    def take_all(self, into: deque[Event], most: int) -> None:
        """Move up to `most` events to another queue; for readers in other threads."""
        queue = self._queue
        for _ in range(min(most, len(queue))):
            publication = queue.popleft()
            self._backlog.remove(publication)
            into.append(Event(publication))
