"""The client for programs without an event loop: the same names and promises as `runnel.client.aio`.

    with runnel.blocking.connect("runnel://127.0.0.1:7001") as client:
        for event in client.subscribe("symbol = 'YHOO'"):
            print(event["close"])

Each client has an event loop in a thread of its own, on which an asyncio client runs. A call is handed to that thread
and waits for the result. Any thread may call. Every call that may wait takes a `timeout` in seconds and raises
TimeoutError after it; it can be interrupted by Ctrl-C. Neither loses an event.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from itertools import islice
from threading import Thread
from types import TracebackType
from typing import Any, TypeVar

from runnel.client import aio
from runnel.client.aio import State
from runnel.client.events import Event
from runnel.client.publisher import Publisher as AsyncPublisher
from runnel.client.readiness import READY_TIMEOUT_S, Wait
from runnel.client.redial import PATIENCE_S
from runnel.client.subscription import Subscription as AsyncSubscription
from runnel.errors import ClientClosed
from runnel.language import Attributes, Selection
from runnel.net.loops import new_event_loop
from runnel.net.tls import Tls

_T = TypeVar("_T")
LAST_TASKS_S = 2.0
BATCH = 512  # events that are handed from thread to thread at a time


def connect(
    url: str | Sequence[str],
    *,
    name: str | None = None,
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    timeout: float | None = 10.0,
    backlog_bytes_max: int = 8 << 20,
    close_timeout: float = 5.0,
    failover_patience_s: float = PATIENCE_S,
    on_missed: aio.OnMissed | None = None,
    on_gap: aio.OnGap | None = None,
    on_undelivered: aio.OnGap | None = None,
    on_connected: aio.OnConnection | None = None,
    on_disconnected: aio.OnConnection | None = None,
    follows: bool = True,
    tls: Tls | None = None,
) -> BlockingClient:
    """Connect to a broker and return when it has answered: `with connect(url) as client`.

    The arguments are those of `runnel.connect`, and so is what it raises. Callbacks are called on the
    client's thread.
    """
    client = aio.connect(
        url,
        name=name,
        user=user,
        password=password,
        token=token,
        timeout=timeout,
        backlog_bytes_max=backlog_bytes_max,
        close_timeout=close_timeout,
        failover_patience_s=failover_patience_s,
        on_missed=on_missed,
        on_gap=on_gap,
        on_undelivered=on_undelivered,
        on_connected=on_connected,
        on_disconnected=on_disconnected,
        follows=follows,
        tls=tls,
    )
    thread = LoopThread(client.name)
    try:
        thread.call(_open_client(client))
    except BaseException:
        thread.stop()
        raise
    return BlockingClient(client, thread)


async def _open_client(client: aio.Client) -> None:
    await client


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        self._loop = new_event_loop()
        self._thread = Thread(target=self._run, name=f"runnel-{name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, coroutine: Coroutine[Any, Any, _T], timeout: float | None = None) -> _T:
        """Run a coroutine on the loop and return its result; a timeout or Ctrl-C cancels the coroutine."""
        if self._loop.is_closed():
            coroutine.close()
            raise ClientClosed("the client was closed: connect another one")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    def run_function(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Call a function on the loop's thread and return its result."""
        future: Future[_T] = Future()

        def run() -> None:
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(run)
        except RuntimeError:
            raise ClientClosed("the client was closed: connect another one") from None
        return future.result()

    def stop(self) -> None:
        """Stop the loop and its thread; a second call does nothing."""
        if not self._loop.is_closed():
            self.call(_finish_tasks())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _finish_tasks() -> None:
    """Wait for the tasks that still run, but not for long."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if tasks:
        await asyncio.wait(tasks, timeout=LAST_TASKS_S)


class BlockingClient:
    """A connection to a network of brokers. Made by `connect`."""

    def __init__(self, client: aio.Client, thread: LoopThread) -> None:
        self._client = client
        self._thread = thread

    @property
    def name(self) -> str:
        """Who the client is."""
        return self._client.name

    @property
    def state(self) -> State:
        """What the client is doing."""
        return self._client.state

    @property
    def broker(self) -> str:
        """The name of the broker at which the client lives."""
        return self._client.broker

    @property
    def address(self) -> str:
        """Where that broker was reached."""
        return self._client.address

    @property
    def missed(self) -> int:
        """How many publications the broker dropped because this client did not keep up."""
        return self._client.missed

    @property
    def gaps(self) -> int:
        """How many times the link had to start anew: what was published before may not have arrived."""
        return self._client.gaps

    def __repr__(self) -> str:
        return repr(self._client)

    def subscribe(
        self,
        selection: str | Selection,
        *,
        wait: Wait = "complete",
        timeout: float | None = READY_TIMEOUT_S,
    ) -> BlockingSubscription:
        """Ask for what a filter describes; returns, and raises, as `runnel.Client.subscribe` does."""
        subscribed = self._client.subscribe(selection, wait=wait, timeout=timeout)
        return BlockingSubscription(self._thread.call(subscribed), self._thread)

    def advertise(
        self,
        selection: str | Selection,
        *,
        name: str | None = None,
        wait: Wait = "complete",
        timeout: float | None = READY_TIMEOUT_S,
    ) -> BlockingPublisher:
        """Say what will be published; returns, and raises, as `runnel.Client.advertise` does."""
        advertised = self._client.advertise(selection, name=name, wait=wait, timeout=timeout)
        return BlockingPublisher(self._thread.call(advertised), self._thread)

    def flush(self, timeout: float | None = None) -> None:
        """Return when the broker has everything that was published; raises as `runnel.Client.flush` does."""
        self._thread.call(self._client.flush(), timeout)

    def move_to(self, url: str, *, timeout: float = 30.0) -> None:
        """Live at another broker from now on, with nothing lost; returns when the client has arrived.

        If that broker does not take it within about `timeout` seconds, it raises MoveFailed, and the client stays.
        """
        self._thread.call(self._client.move_to(url, timeout=timeout))

    def close(self) -> None:
        """Leave; what was published is confirmed first, or PublicationInDoubt raised after closing."""
        self._close(self._client.close)

    def _close(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._client.state is State.CLOSED:
            self._thread.stop()
            return
        try:
            self._thread.call(close())
        finally:
            self._thread.stop()

    def __enter__(self) -> BlockingClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close(lambda: self._client.__aexit__(kind, error, traceback))


class BlockingSubscription:
    """The events that match a filter: `for event in subscription`. Made by `BlockingClient.subscribe`."""

    def __init__(self, subscription: AsyncSubscription, thread: LoopThread) -> None:
        self._subscription = subscription
        self._thread = thread
        self._fetched: deque[Event] = deque()
        # One thread fetches at a time; the next one finds what it fetched.
        self._fetching = asyncio.Lock()

    @property
    def selection(self) -> Selection:
        """What was asked for."""
        return self._subscription.selection

    @property
    def missed(self) -> int:
        """How many publications the broker dropped since this subscription began, as the client did not keep up."""
        return self._subscription.missed

    @property
    def unread(self) -> int:
        """How many events have arrived and wait to be read."""
        return len(self._fetched) + self._subscription.unread

    def __repr__(self) -> str:
        return repr(self._subscription)

    def __iter__(self) -> BlockingSubscription:
        return self

    def __next__(self) -> Event:
        """The next event; the iteration ends after `unsubscribe` and when the client is closed."""
        while True:
            try:
                return self._fetched.popleft()
            except IndexError:
                pass
            try:
                self._thread.call(self._fetch())
            except ClientClosed:
                raise StopIteration from None
            if not self._fetched and self._subscription.is_over:
                raise StopIteration

    def get(self, timeout: float | None = None) -> Event:
        """Return the next event; TimeoutError if none comes within `timeout` seconds, 0 to not wait at all.

        An event is never lost to a timeout or to Ctrl-C. After `unsubscribe`, or when the client was
        closed, it raises InputError.
        """
        while True:
            try:
                return self._fetched.popleft()
            except IndexError:
                pass
            self._thread.call(self._fetch_one(timeout))

    # Events are put into `_fetched` on the loop's thread, so none is lost if the waiting thread is interrupted.

    async def _fetch(self) -> None:
        async with self._fetching:
            if not self._fetched:
                await self._subscription.wait()
                self._subscription.take_all(self._fetched, BATCH)

    async def _fetch_one(self, timeout: float | None) -> None:
        if timeout == 0 and self._fetching.locked():
            raise TimeoutError("no event within 0 s")  # another reader waits: there is none
        async with asyncio.timeout(timeout or None), self._fetching:
            if not self._fetched:
                self._fetched.append(await self._subscription.get(timeout))
                self._subscription.take_all(self._fetched, BATCH)

    @property
    def missing(self) -> tuple[str, ...]:
        """The links of the network that were missing when readiness was last asked for."""
        return self._subscription.missing

    def ready(self, timeout: float | None = READY_TIMEOUT_S, *, wait: Wait = "complete") -> None:
        """Return when the routes are complete: what is published from now on, anywhere, arrives here."""
        self._thread.call(self._subscription.ready(wait=wait, timeout=timeout))

    def unsubscribe(self) -> None:
        """End it at once: what has arrived and was not read is dropped, the iteration ends."""
        self._thread.run_function(self._subscription.unsubscribe)
        self._fetched.clear()

    def __enter__(self) -> BlockingSubscription:
        return self

    def __exit__(self, *error: object) -> None:
        self.unsubscribe()


class BlockingPublisher:
    """Publishes what was advertised. Made by `BlockingClient.advertise`."""

    def __init__(self, publisher: AsyncPublisher, thread: LoopThread) -> None:
        self._publisher = publisher
        self._thread = thread

    @property
    def name(self) -> str:
        """The publisher's name, as subscribers see it."""
        return self._publisher.name

    @property
    def selection(self) -> Selection:
        """What was advertised."""
        return self._publisher.selection

    @property
    def published(self) -> int:
        """How many were published."""
        return self._publisher.published

    @property
    def confirmed(self) -> int:
        """How many of those published the broker has."""
        return self._publisher.confirmed

    @property
    def in_doubt(self) -> int:
        """How many of them may or may not have arrived."""
        return self._publisher.in_doubt

    @property
    def refused(self) -> int:
        """How many of them the broker has not handed on, since this user may not publish them."""
        return self._publisher.refused

    @property
    def credit(self) -> int:
        """How many may be published now without waiting; all publishers of the client share it."""
        return self._publisher.credit

    def __repr__(self) -> str:
        return repr(self._publisher)

    def publish(
        self, attributes: Attributes, payload: bytes = b"", timeout: float | None = None
    ) -> Event:
        """Publish, and return when the broker has it; raises as `runnel.Publisher.publish` does.

        After a timeout or Ctrl-C the publication was made or not; what was made is counted in `published`.
        """
        return self._thread.call(self._publisher.publish(attributes, payload), timeout)

    def publish_nowait(self, attributes: Attributes, payload: bytes = b"") -> Event:
        """Publish without waiting for the broker; raises NoCredit if it takes no more at the moment.

        Each call switches threads: `publish_all` is much faster for many.
        """
        return self._thread.run_function(self._publisher.publish_nowait, attributes, payload)

    def publish_all(
        self,
        events: Iterable[Attributes | tuple[Attributes, bytes]],
        timeout: float | None = None,
    ) -> int:
        """Publish many: attributes, or pairs of attributes and a payload. Return when the broker has all; how many.

        Much faster than one by one: they are handed over in batches. It raises as `runnel.Publisher.publish_all`
        does. `timeout` is for each batch.
        """
        source, count = iter(events), 0
        while batch := list(islice(source, BATCH)):
            count += self._thread.call(self._publisher.publish_batch(batch), timeout)
        self.flush(timeout)
        return count

    def wait_credit(self, timeout: float | None = None) -> None:
        """Return when at least one may be published without waiting."""
        self._thread.call(self._publisher.wait_credit(), timeout)

    def flush(self, timeout: float | None = None) -> None:
        """Return when the broker has everything that was published; raises as `runnel.Publisher.flush` does."""
        self._thread.call(self._publisher.flush(), timeout)

    @property
    def missing(self) -> tuple[str, ...]:
        """The links of the network that were missing when readiness was last asked for."""
        return self._publisher.missing

    def ready(self, timeout: float | None = READY_TIMEOUT_S, *, wait: Wait = "complete") -> None:
        """Return when every broker knows the advertisement, and the subscriptions that it meets have come here."""
        self._thread.call(self._publisher.ready(wait=wait, timeout=timeout))

    @property
    def broker(self) -> str:
        """The name of the broker that it publishes at; it may be another than the client's."""
        return self._publisher.broker

    @property
    def address(self) -> str:
        """Where that broker was reached."""
        return self._publisher.address

    @property
    def migrations(self) -> int:
        """How many times it has gone to another broker."""
        return self._publisher.migrations

    @property
    def pause_s(self) -> float:
        """For how long nothing could be published during its last migration, in seconds."""
        return self._publisher.pause_s

    def migrate_to(self, url: str, *, timeout: float = 30.0) -> None:
        """Publish at another broker from now on, with nothing lost; raises as `runnel.Publisher.migrate_to` does."""
        self._thread.call(self._publisher.migrate_to(url, timeout=timeout))

    def withdraw(self, timeout: float | None = None) -> None:
        """Publish nothing more. Flushes first, and raises as `flush` does, but is withdrawn in any case."""
        self._thread.call(self._publisher.withdraw(), timeout)

    def __enter__(self) -> BlockingPublisher:
        return self

    def __exit__(self, *error: object) -> None:
        self.withdraw()
