"""Publisher: an advertisement, and the publications made with it.

Publications are numbered, and the session confirms a number of the oldest at a time. So nothing is kept per
publication, except for those that somebody waits for.
"""

from __future__ import annotations

from asyncio import CancelledError, shield
from collections import deque
from collections.abc import Callable, Iterable
from time import time_ns
from typing import TYPE_CHECKING, NamedTuple

from runnel.client.events import Event
from runnel.client.readiness import READY_TIMEOUT_S, Wait, check_wait, until_ready
from runnel.errors import InputError, NoCredit, PublicationInDoubt, PublicationRefused
from runnel.language import Attributes, Selection
from runnel.net.dialling import normal_address

if TYPE_CHECKING:
    from asyncio import Future

    from runnel.client.live import Live


class Waiter(NamedTuple):
    """A future that waits for the confirmation of a publication; a flush waits for all up to it."""

    number: int
    future: Future[None]
    is_flush: bool


class Publisher:
    """Publishes what was advertised. Made by `Client.advertise`."""

    def __init__(self, live: Live, id: int, name: str, selection: Selection) -> None:
        self.name = name
        """The name that subscribers see as `Event.publisher`."""

        self.selection = selection
        self.published = 0
        """How many were published."""

        self.in_doubt = 0
        """How many of them may or may not have arrived."""

        self.refused = 0
        """How many of them the broker has not handed on, since this user may not publish them."""

        self.migrations = 0
        """How many times it has gone to another broker."""

        self.pause_s = 0.0
        """For how long nothing could be published during its last migration, in seconds."""

        self.missing: tuple[str, ...] = ()
        """The links of the network that were missing when readiness was last asked for: subscribers behind them get
        nothing before they are back."""

        self.id = id
        self._publish_with(live)
        self._resumed: Future[None] | None = None  # while it migrates
        self._settled = 0  # confirmed, or in doubt
        self._unreported = 0  # in doubt, and no call has raised PublicationInDoubt for them
        self._unreported_refusals = 0  # the same for PublicationRefused
        self._refusal = ""  # why it was, the last time
        self._waiters: deque[Waiter] = deque()
        self._over: Exception | None = None

    @property
    def confirmed(self) -> int:
        """How many of those published the broker has taken."""
        return max(0, self._settled - self.in_doubt - self.refused)

    @property
    def credit(self) -> int:
        """How many may be published now without waiting; all publishers of the client at one broker share it."""
        if self._over is not None or self._resumed is not None:
            return 0
        return self._live.session.credit

    @property
    def broker(self) -> str:
        """The name of the broker that it publishes at; it may be another than the client's."""
        home = self._live.session.outlet
        return home.name if home is not None else ""

    @property
    def address(self) -> str:
        """Where that broker was reached."""
        home = self._live.session.outlet
        return home.address if home is not None else ""

    @property
    def live(self) -> Live:
        """The session that it publishes with."""
        return self._live

    def _publish_with(self, live: Live) -> None:
        self._live = live
        self._publish = live.session.publish

    def __repr__(self) -> str:
        return f"<Publisher {self.name}: {self.selection}, {self.published} published, {self.confirmed} confirmed>"

    # -- publishing -----------------------------------------------------------------------------------

    async def publish(self, attributes: Attributes, payload: bytes = b"") -> Event:
        """Publish, and return when the broker has it; the event as subscribers will see it.

        It waits for credit first, and while there is no connection. A connection that breaks and comes back
        loses nothing. If instead the broker is lost before it confirmed, it raises PublicationInDoubt:
        the publication may have been delivered or not, and it is not sent again. If this user may not publish it, it
        raises PublicationRefused, and nobody gets it. What does not fit the
        advertisement, or is no event, raises InputError and is not published. If the call is cancelled,
        the publication was made or not; what was made is counted in `published`.
        """
        if self._resumed is not None or not self._live.may_publish:
            await self._wait_turn()
        event = self.publish_nowait(attributes, payload)
        live = self._live
        future = live.loop.create_future()
        self._waiters.append(Waiter(self.published, future, False))
        try:
            await live.wait_for(future)
        except CancelledError:
            if not future.cancelled() and isinstance(future.exception(), PublicationInDoubt):
                self._unreported += 1  # the cancelled call cannot raise it
            raise
        return event

    def publish_nowait(self, attributes: Attributes, payload: bytes = b"") -> Event:
        """Publish without waiting; it is sent before the event loop's next turn, with all others made meanwhile.

        It raises NoCredit if the broker takes no more at the moment: `await wait_credit()`, then try again. `flush`
        tells whether the broker has what was published so.
        """
        live = self._live
        try:
            publication = self._publish(self.id, attributes, payload, time_ns())
        except (InputError, KeyError):
            if self._over is not None:
                raise self._over from None
            if not self.credit:
                raise NoCredit(
                    "the broker takes no more at the moment: await wait_credit(), or use publish()"
                ) from None
            raise
        self.published += 1
        live.note_sent(self)
        return Event(publication)

    async def publish_all(self, events: Iterable[Attributes | tuple[Attributes, bytes]]) -> int:
        """Publish many: attributes, or pairs of attributes and a payload. Return when the broker has all; how many.

        The fastest way: it waits for credit where it must, and for the broker only at the end. It raises as `flush`
        does, and InputError at the first that cannot be published; those before it are.

            await publisher.publish_all({"n": n} for n in range(100_000))
        """
        count = await self.publish_batch(events)
        await self.flush()
        return count

    async def publish_batch(self, events: Iterable[Attributes | tuple[Attributes, bytes]]) -> int:
        """As `publish_all`, but return as soon as all are published, without knowing that the broker has them."""
        count = 0
        if not isinstance(events, Iterable):
            raise InputError(f"events are what one can iterate over, not {events!r}")
        for event in events:
            attributes, payload = event if isinstance(event, tuple) else (event, b"")
            if self._resumed is not None or not self._live.may_publish:
                await self._wait_turn()
            self.publish_nowait(attributes, payload)
            count += 1
        return count

    async def wait_credit(self) -> None:
        """Return when at least one may be published without waiting; calls return in the order they were made."""
        if self._over is not None:
            raise self._over
        await self._wait_turn()

    async def _wait_turn(self) -> None:
        """Wait until one may be published: there is credit, and the publisher is not migrating."""
        while True:
            live = self._live
            if self._resumed is not None:
                # Several may wait, and each may be cancelled.
                await live.wait_for(shield(self._resumed))
            elif live.may_publish:
                return
            else:
                await live.wait_credit(self._still_publishes_at(live))
                if self._still_publishes_at(live)():
                    return
                live.after_effects()  # leave the credit to another publisher

    def _still_publishes_at(self, live: Live) -> Callable[[], bool]:
        return lambda: self._live is live and self._resumed is None

    async def flush(self) -> None:
        """Return when the broker has everything that was published so far.

        It raises PublicationInDoubt if some of it, since the last flush, may not have arrived, with their number, and
        PublicationRefused if the broker has not handed on some of it; those that `publish` raised for itself are not
        among them.
        """
        await self.wait_settled(self.published)
        if error := self.take_refusals():
            raise error
        if count := self.take_unreported():
            raise PublicationInDoubt(count)

    # -- the advertisement ----------------------------------------------------------------------------

    async def ready(
        self, *, wait: Wait = "complete", timeout: float | None = READY_TIMEOUT_S
    ) -> None:
        """Return when every broker knows the advertisement, and the subscriptions that it meets have come here.

        `Client.advertise` waits for it by itself; `wait` and `timeout` are those of `Client.subscribe`. It raises
        RoutesIncomplete also without a connection.
        """
        if self._over is not None:
            raise self._over
        check_wait(wait, timeout)
        self.missing = await until_ready(lambda: self._live.ready(self.id), wait, timeout)

    async def withdraw(self) -> None:
        """Publish nothing more. Flushes first, and raises as `flush` does, but is withdrawn in any case.

        A second time does nothing.
        """
        if self._over is not None:
            return
        try:
            await self.flush()
        finally:
            if self._over is None:
                self._live.forget_publisher(self.id)
                self.end(InputError("the advertisement was withdrawn: advertise again"))

    async def __aenter__(self) -> Publisher:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.withdraw()

    # -- migration ------------------------------------------------------------------------------------

    async def migrate_to(self, url: str, *, timeout: float = 30.0) -> None:
        """Publish at another broker from now on, with nothing lost, nothing doubled and order kept.

        The client and its other publishers stay where they are. It returns when the publisher has arrived;
        publishing pauses for as long as a message takes from one broker to the other and back. If the migration does
        not succeed within about `timeout` seconds, it raises MoveFailed, and the publisher stays where it was.

        The network may do the same of its own accord, unless the client was connected with `follows=False`.
        """
        if self._over is not None:
            raise self._over
        await self._live.roaming.migrate(self, normal_address(url), timeout)

    def pause(self) -> None:
        """Publish nothing until `resume`."""
        if self._resumed is None:
            self._resumed = self._live.loop.create_future()
            self._live.wake_all()

    def resume(self, migrated_to: Live | None = None, pause_s: float = 0.0) -> None:
        """Publish again, after a migration with another session."""
        if migrated_to is not None:
            self._publish_with(migrated_to)
            self.migrations += 1
            self.pause_s = pause_s
        resumed, self._resumed = self._resumed, None
        if resumed is not None and not resumed.done():
            resumed.set_result(None)

    # -- for the client -------------------------------------------------------------------------------

    def settle(self, count: int, *, certain: bool) -> None:
        """So many more of the oldest are confirmed (`certain`), or in doubt."""
        self._settled += count
        untold = 0 if certain else count
        self.in_doubt += untold
        waiters = self._waiters
        while waiters and waiters[0].number <= self._settled:
            _, future, is_flush = waiters.popleft()
            if future.done():
                continue
            if certain or is_flush:
                future.set_result(None)
            else:
                untold -= 1
                future.set_exception(PublicationInDoubt(1))
        self._unreported += untold

    def refuse(self, numbers: list[int], reason: str) -> None:
        """The broker has not handed on these publications."""
        self.refused += len(numbers)
        self._refusal = reason
        waiting = {one.number: one.future for one in self._waiters if not one.is_flush}
        for number in numbers:
            future = waiting.get(number)
            if future is not None and not future.done():
                future.set_exception(PublicationRefused(1, reason))
            else:
                self._unreported_refusals += 1

    def take_refusals(self) -> PublicationRefused | None:
        """The error for refusals that no call has raised; the caller does so now."""
        count, self._unreported_refusals = self._unreported_refusals, 0
        return PublicationRefused(count, self._refusal) if count else None

    async def wait_settled(self, number: int) -> None:
        """Wait until that many are confirmed or in doubt."""
        if self._settled < number:
            future = self._live.loop.create_future()
            self._insert(Waiter(number, future, True))
            await self._live.wait_for(future)

    def _insert(self, waiter: Waiter) -> None:
        """Insert in the order of numbers; a flush of several publishers may come with a number that is not the last."""
        later = []
        while self._waiters and self._waiters[-1].number > waiter.number:
            later.append(self._waiters.pop())
        self._waiters.append(waiter)
        self._waiters.extend(reversed(later))

    def take_unreported(self) -> int:
        """How many are in doubt that no call has raised PublicationInDoubt for; the caller does so now."""
        count, self._unreported = self._unreported, 0
        return count

    def end(self, reason: Exception) -> None:
        """Nothing more is published."""
        if self._over is None:
            self._over = reason
