"""The client for asyncio programs: `connect`, and what comes of it.

    async with runnel.connect("runnel://127.0.0.1:7001") as client:
        quotes = await client.subscribe("symbol = 'YHOO' AND close < 20")
        async for event in quotes:
            print(event["close"], event.publisher)

What is promised, as long as the client lives:

- What is published reaches every subscription that was ready before, in order per publisher and once; through broken
  connections, which are dialled again, and through moves (`move_to`).
- Nothing is lost in silence. When a broker is lost for good with what it had, publications that it did not confirm are
  in doubt (PublicationInDoubt), and subscribers have a gap (`gaps`, `on_gap`); a subscriber that does not keep
  up is told how many it missed (`missed`, `on_missed`).
- Nothing waits without bound in memory: publishers wait for credit, unread events for their reader.

A client belongs to the event loop on which it was opened, and is no business of other threads; for those there is
`runnel.blocking`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from random import Random, SystemRandom
from time import monotonic_ns
from types import TracebackType
from typing import Any

from runnel.broker.ids import COUNTER_BITS, PREFIX_MAX, IdSource
from runnel.client.config import SessionConfig
from runnel.client.live import Live
from runnel.client.move import Move
from runnel.client.publisher import Publisher
from runnel.client.redial import Rounds
from runnel.client.roaming import Roaming
from runnel.client.session import Session
from runnel.client.subscription import Subscription
from runnel.errors import ClientClosed, ConnectionFailed, InputError, PublicationInDoubt
from runnel.language import Selection, parse
from runnel.net.dialling import AnyDialler, normal_address

NAME_CHARACTERS_MAX = 255
HURRY_S = 1.0  # how long a client that is left because of an error tries to get its publications confirmed

OnMissed = Callable[[int], object]
OnGap = Callable[[], object]


class State(Enum):
    """What a client is doing."""

    NEW = "new"  # not opened yet
    CONNECTING = "connecting"  # for the first time
    CONNECTED = "connected"
    MOVING = "moving"
    RECONNECTING = "reconnecting"
    CLOSED = "closed"


def connect(
    url: str | Sequence[str],
    *,
    name: str | None = None,
    timeout: float | None = 10.0,
    backlog_bytes_max: int = 8 << 20,
    close_timeout: float = 5.0,
    on_missed: OnMissed | None = None,
    on_gap: OnGap | None = None,
    follows: bool = True,
) -> Client:
    """Connect to a broker: `async with connect(url) as client`, or `client = await connect(url)`.

    url                 where a broker listens (`runnel://host:port`, or `host:port`), or a list of such: the first
                        that answers is taken; when it is lost for good, the next
    name                who the client is, the only one of that name in the network; one is made up if there is none
    timeout             seconds: if no broker has answered by then, opening raises ConnectionFailed, which names every
                        address and why it failed; None to try for ever
    backlog_bytes_max   how much may have arrived without having been read before the broker is asked to hold back
                        the rest; beyond what it can hold, it drops the oldest
    close_timeout       seconds that closing waits for what was published to be confirmed
    on_missed           called with the number of publications that the broker dropped because this client did not
                        keep up
    on_gap              called when the link had to start anew, because the broker was lost or was out of reach for
                        longer than it keeps links (10 s, unless it is configured otherwise): subscriptions are set up
                        again, but what was published meanwhile has not arrived, and nobody knows how much it was
    follows             whether the network may move this client's publishers to brokers where they cause less work or
                        delay; nothing is lost by that, and the client itself stays where it is

    When the connection breaks, the client dials the same broker, then the others; after each round it pauses, from
    0.1 s to 10 s, and it never gives up. Meanwhile calls that need a broker wait.
    """
    urls = [url] if isinstance(url, str) else list(url)
    addresses = list(dict.fromkeys(normal_address(text) for text in urls))
    if not addresses:
        raise InputError("no address of a broker was given: write runnel://host:port")
    if backlog_bytes_max < 1:
        raise InputError("backlog_bytes_max must be at least 1")
    return Client(
        addresses,
        _checked_name(name),
        timeout=timeout,
        backlog_bytes_max=backlog_bytes_max,
        close_timeout=close_timeout,
        on_missed=on_missed,
        on_gap=on_gap,
        follows=follows,
    )


def _checked_name(name: str | None) -> str:
    if name is None:
        return f"client-{SystemRandom().getrandbits(48):012x}"
    if not name or len(name) > NAME_CHARACTERS_MAX:
        raise InputError(
            f"a client's name has 1 to {NAME_CHARACTERS_MAX} characters, not {len(name)}"
        )
    return name


class Client:
    """A connection to a network of brokers. Made by `connect`."""

    def __init__(
        self,
        addresses: list[str],
        name: str,
        *,
        timeout: float | None,
        backlog_bytes_max: int,
        close_timeout: float,
        on_missed: OnMissed | None,
        on_gap: OnGap | None,
        follows: bool,
    ) -> None:
        self.name = name
        self._addresses = addresses
        self._timeout = timeout
        self._backlog_bytes_max = backlog_bytes_max
        self._close_timeout = close_timeout
        self._on_missed = on_missed
        self._on_gap = on_gap
        self._follows = follows
        self._opened = False  # was up once
        self._live_or_none: Live | None = None

    # -- opening and closing --------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, Client]:
        return self._open().__await__()

    async def __aenter__(self) -> Client:
        return await self._open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
            return
        with suppress(PublicationInDoubt):  # what is wrong already matters more
            await self._close(min(HURRY_S, self._close_timeout) if self._live.is_up else 0)

    async def _open(self) -> Client:
        if self._live_or_none is not None:
            raise InputError("a client is opened once: connect another one")
        live = self._new_live(self.name, self._addresses)
        live.roaming = Roaming(
            live, lambda name, to: self._new_live(name, [to], live), self._follows
        )
        live.on_missed, live.on_gap = self._on_missed, self._on_gap
        self._live_or_none = live
        try:
            live.session.connect(self._addresses[0], monotonic_ns())
            live.flush_soon()
            async with asyncio.timeout(self._timeout):
                await live.wait_up()
        except TimeoutError:
            reasons = dict(live.driver.rounds.reasons)
            await live.close()
            raise self._connection_failed(reasons) from None
        except BaseException:
            await live.close()
            raise
        self._opened = True
        return self

    def _new_live(self, name: str, addresses: Sequence[str], main: Live | None = None) -> Live:
        random = SystemRandom()
        draw = partial(random.randrange, 1, PREFIX_MAX)
        incarnation = random.randrange(1, 1 << 63 - COUNTER_BITS)
        session = Session(SessionConfig(name), incarnation, IdSource(draw(), draw))
        rounds = Rounds(addresses, Random(random.getrandbits(64)))
        return Live(session, AnyDialler(), rounds, self._backlog_bytes_max, main)

    def _connection_failed(self, reasons: dict[str, str]) -> ConnectionFailed:
        lines = "".join(
            f"\n  {address}: {reasons.get(address, 'no answer yet')}" for address in self._addresses
        )
        return ConnectionFailed(
            f"no broker could be reached within {self._timeout:g} s; "
            f"is one running, and is this where it listens?{lines}"
        )

    async def close(self) -> None:
        """Leave: what was published is confirmed first, within `close_timeout`; the broker forgets this client.

        If some of it could not be confirmed, it raises PublicationInDoubt, after closing. Iterations over
        subscriptions end after what has arrived; whatever else waits raises ClientClosed. A second time
        does nothing. Leaving `async with` does the same, but if that is because of an error, it hurries and raises no
        other.
        """
        if self._live_or_none is not None:
            await self._close(self._close_timeout)

    async def _close(self, patience_s: float) -> None:
        live = self._live
        if live.over is None and patience_s > 0:
            with suppress(TimeoutError):  # the session says which are in doubt
                async with asyncio.timeout(patience_s):
                    await live.settled()
        publishers = list(live.publishers.values())
        await asyncio.shield(live.close())
        if in_doubt := sum(publisher.take_untold() for publisher in publishers):
            raise PublicationInDoubt(in_doubt)

    @property
    def _live(self) -> Live:
        if self._live_or_none is None:
            raise InputError("the client is not open: write `async with connect(…) as client`")
        return self._live_or_none

    # -- what there is to know ------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """What the client is doing."""
        live = self._live_or_none
        if live is None:
            return State.NEW
        if live.over is not None:
            return State.CLOSED
        if not self._opened:
            return State.CONNECTING
        if not live.is_up:
            return State.RECONNECTING
        return State.CONNECTED if live.session.move is Move.STEADY else State.MOVING

    @property
    def broker(self) -> str:
        """The name of the broker at which the client lives; empty before it was connected."""
        home = self._live.session.home
        return home.name if home is not None else ""

    @property
    def address(self) -> str:
        """Where that broker was reached."""
        home = self._live.session.home
        return home.address if home is not None else ""

    @property
    def missed(self) -> int:
        """How many publications the broker dropped since this client did not keep up."""
        return self._live.missed

    @property
    def gaps(self) -> int:
        """How many times the link had to start anew: what was published before may not have arrived."""
        return self._live.gaps

    def __repr__(self) -> str:
        at = f" at {self.broker}" if self.state in (State.CONNECTED, State.MOVING) else ""
        return f"<Client {self.name}, {self.state.value}{at}>"

    # -- subscribing and publishing -------------------------------------------------------------------

    async def subscribe(self, selection: str | Selection, *, ready: bool = True) -> Subscription:
        """Ask for what a filter describes, in either language (`"close < 20"`, `"[close,<,20]"`).

        It returns when the routes are complete: whatever is published after that, anywhere in the network, arrives.
        With `ready=False` it returns at once, and `await subscription.ready()` waits. Text that cannot be read
        raises FilterSyntaxError. Cancelled, it leaves no subscription behind.
        """
        subscription = self._live.subscribe(as_selection(selection))
        if ready:
            try:
                await subscription.ready()
            except BaseException:
                subscription.unsubscribe()
                raise
        return subscription

    async def advertise(
        self, selection: str | Selection, *, name: str | None = None, ready: bool = True
    ) -> Publisher:
        """Say what will be published; every publication must fit it. `name` is the publisher's, else the client's.

        It returns when the network knows and the subscriptions that it meets have found their way here: what is
        published after that reaches all of them. With `ready=False` it returns at once. Cancelled, it leaves no
        advertisement behind.
        """
        publisher = self._live.advertise(name or self.name, as_selection(selection))
        if ready:
            try:
                await publisher.ready()
            except BaseException:
                await publisher.withdraw()
                raise
        return publisher

    async def flush(self) -> None:
        """Return when the broker has everything that all publishers of this client published so far.

        It raises PublicationInDoubt as `Publisher.flush` does, for all of them together.
        """
        live = self._live
        live.check()
        await live.settled()
        if in_doubt := sum(publisher.take_untold() for publisher in live.publishers.values()):
            raise PublicationInDoubt(in_doubt)

    async def move_to(self, url: str, *, timeout: float = 30.0) -> None:
        """Live at another broker from now on, with nothing lost, nothing doubled and order kept.

        It returns when the client has arrived. If the other broker does not take it within about `timeout`
        seconds, it raises MoveFailed, and the client stays where it is. If instead the old broker is lost on the
        way, with what it had, there is a gap. Once the client has arrived, that broker is the one that is dialled
        first. Cancelled, the move goes on nevertheless.
        """
        await self._live.move_to(normal_address(url), timeout)


def as_selection(selection: str | Selection) -> Selection:
    """Read a filter, unless it was read already."""
    return parse(selection) if isinstance(selection, str) else selection


__all__ = ["Client", "ClientClosed", "State", "connect"]
