"""The client for asyncio programs: `connect`, and what comes of it.

    async with runnel.connect("runnel://127.0.0.1:7001") as client:
        quotes = await client.subscribe("symbol = 'YHOO' AND close < 20")
        async for event in quotes:
            print(event["close"], event.publisher)

What is promised, as long as the client lives:

- What is published reaches every subscription that was ready before, in order per publisher and once; through broken
  connections, which are dialled again, and through moves (`move_to`).
- Nothing is lost silently. When a broker anywhere in the network is lost for good with what it had, or cannot keep up,
  whoever may have missed something is told in which interval (`on_gap`, `gaps`), and so is who published it
  (`on_undelivered`). Publications that the client's own broker did not confirm are in doubt (PublicationInDoubt). A
  subscriber that does not keep up is told how many it missed (`on_missed`, `missed`).
- Memory is bounded: publishers wait for credit, and a client that does not read makes its broker hold events back.

A client belongs to the event loop on which it was opened and must not be used from other threads; for those there is
`runnel.blocking`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from random import Random, SystemRandom
from time import monotonic_ns, time_ns
from types import TracebackType
from typing import Any, TypeVar

from runnel.broker.ids import PREFIX_MAX, IdSource
from runnel.client.config import SessionConfig
from runnel.client.credentials import ReadCredentials, find_credentials
from runnel.client.effects import Gap
from runnel.client.live import Live, new_incarnation
from runnel.client.move import Move
from runnel.client.publisher import Publisher
from runnel.client.readiness import READY_TIMEOUT_S, Wait, check_timeout, check_wait
from runnel.client.redial import PATIENCE_S, Rounds
from runnel.client.roaming import Roaming
from runnel.client.session import Session
from runnel.client.subscription import Subscription
from runnel.errors import (
    ClientClosed,
    ConnectionFailed,
    InputError,
    PublicationInDoubt,
    PublicationRefused,
)
from runnel.language import EVERYTHING, NOTHING, Selection, parse
from runnel.net.addresses import SCHEME, SECURE_SCHEME
from runnel.net.dialling import AnyDialler, check_files, normal_address
from runnel.net.tls import Tls
from runnel.wire import encode_selection

_T = TypeVar("_T")

log = logging.getLogger("runnel.client")
NAME_CHARACTERS_MAX = 255
HURRY_S = 1.0  # after an error in `async with`: how long closing waits for confirmations

OnMissed = Callable[[int], object]
OnGap = Callable[[Gap], object]
OnConnection = Callable[[str], object]


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
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    timeout: float | None = 10.0,
    backlog_bytes_max: int = 8 << 20,
    close_timeout: float = 5.0,
    failover_patience_s: float = PATIENCE_S,
    on_missed: OnMissed | None = None,
    on_gap: OnGap | None = None,
    on_undelivered: OnGap | None = None,
    on_connected: OnConnection | None = None,
    on_disconnected: OnConnection | None = None,
    follows: bool = True,
    tls: Tls | None = None,
) -> Client:
    """Connect to a broker: `async with connect(url) as client`, or `client = await connect(url)`.

    url                 where a broker listens (`runnel://host:port`, or `host:port`; `runnels://host:port` over TLS),
                        or a list of such: the first that answers is taken; when it is lost for good, the next
    name                who the client is, the only one of that name in the network; one is made up if there is none
    user, password      who uses it, where brokers ask for that, or `token` (JWT); what is not said here comes from the
                        environment (docs/access.md). If the broker does not let the user in, AccessDenied is raised
    timeout             seconds: if no broker has answered by then, opening raises ConnectionFailed, which names every
                        address and why it failed; None to try for ever
    backlog_bytes_max   how much may have arrived unread before the broker is asked to hold back the rest; it drops
                        the oldest of what is too much for it
    close_timeout       seconds that closing waits for what was published to be confirmed
    failover_patience_s seconds for which only the broker that was lost is dialled: if it comes back, nothing is lost
    on_missed           called with the number of publications dropped because this client did not keep up
    on_gap              called with a Gap when events may be lost on their way, and again when that is over
    on_undelivered      the same for what this client has published and some subscribers may not get
    on_connected        called with the name of the broker whenever there is a connection to it, also the first time
    on_disconnected     called with the reason when it is lost; the client reconnects by itself
    follows             whether the network may move this client's publishers (not itself) to where they cause less work
    tls                 the files for `runnels://`, else those that RUNNEL_TLS_AUTHORITY, RUNNEL_TLS_CERTIFICATE and
                        RUNNEL_TLS_KEY name; with it nothing is dialled without TLS

    When the connection breaks, the client dials the same broker for `failover_patience_s`, unless that broker has left,
    then the others; after each round it pauses, from 0.1 s to 10 s. It never gives up, and calls wait meanwhile.
    """
    _check_limits(backlog_bytes_max, failover_patience_s, timeout, close_timeout)
    return Client(
        _addresses(url, tls),
        *_identify(name, user, password, token),
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


def _check_limits(
    backlog_bytes_max: int, failover_patience_s: float, *timeouts: float | None
) -> None:
    if backlog_bytes_max < 1:
        raise InputError("backlog_bytes_max must be at least 1")
    if not failover_patience_s >= 0:
        raise InputError("failover_patience_s must be at least 0")
    for timeout in timeouts:
        check_timeout(timeout)


def _addresses(url: str | Sequence[str], tls: Tls | None) -> list[str]:
    urls = [url] if isinstance(url, str) else url
    if not isinstance(urls, Sequence) or not all(isinstance(text, str) for text in urls):
        raise _no_address(url)
    addresses = list(dict.fromkeys(normal_address(text) for text in urls))
    if not addresses:
        raise InputError("no address of a broker was given: write runnel://host:port")
    if tls is not None and (plain := [one for one in addresses if one.startswith(f"{SCHEME}://")]):
        raise InputError(
            f"{plain[0]} is without TLS: with `tls` write runnels:// in place of runnel://"
        )
    if tls is not None or any(one.startswith(f"{SECURE_SCHEME}://") for one in addresses):
        check_files(tls)
    return addresses


def _no_address(given: object) -> InputError:
    return InputError(f"a broker's address is text, as in runnel://host:port, not {given!r}")


def _callback(name: str, given: _T) -> _T:
    if given is not None and not callable(given):
        raise InputError(f"{name} is a function, not {given!r}")
    return given


def _identify(
    name: str | None, user: str | None, password: str | None, token: str | None
) -> tuple[str, ReadCredentials]:
    """The client's name, and who uses it."""
    credentials = find_credentials(user, password, token)
    return _check_name(name, credentials().user), credentials


def _check_name(name: str | None, user: str) -> str:
    if name is None:
        return (
            f"{user[: NAME_CHARACTERS_MAX - 20] or 'client'}-{SystemRandom().getrandbits(48):012x}"
        )
    if not isinstance(name, str):
        raise InputError(f"a name is text, not {name!r}")
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
        credentials: ReadCredentials,
        *,
        timeout: float | None,
        backlog_bytes_max: int,
        close_timeout: float,
        failover_patience_s: float,
        on_missed: OnMissed | None,
        on_gap: OnGap | None,
        on_undelivered: OnGap | None,
        on_connected: OnConnection | None,
        on_disconnected: OnConnection | None,
        follows: bool,
        tls: Tls | None,
    ) -> None:
        self.name = name
        self._addresses = addresses
        self._credentials = credentials
        self._timeout = timeout
        self._backlog_bytes_max = backlog_bytes_max
        self._close_timeout = close_timeout
        self._failover_patience_s = failover_patience_s
        self._on_missed = _callback("on_missed", on_missed)
        self._on_gap = _callback("on_gap", on_gap)
        self._on_undelivered = _callback("on_undelivered", on_undelivered)
        self._on_connected = _callback("on_connected", on_connected)
        self._on_disconnected = _callback("on_disconnected", on_disconnected)
        self._follows = follows
        self._tls = tls
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
        # The error that ended the block matters more.
        with suppress(PublicationInDoubt, PublicationRefused):
            await self._close(min(HURRY_S, self._close_timeout) if self._live.is_up else 0)

    async def _open(self) -> Client:
        if self._live_or_none is not None:
            raise InputError("a client is opened once: connect another one")
        live = self._new_live(self.name, self._addresses)
        live.attach(Roaming(live, lambda name, to: self._new_live(name, [to], live), self._follows))
        live.on_missed, live.on_gap = self._on_missed, self._on_gap
        live.on_undelivered = self._on_undelivered
        live.on_connected, live.on_disconnected = self._on_connected, self._on_disconnected
        self._live_or_none = live
        try:
            live.session.connect(self._addresses[0], monotonic_ns())
            live.flush_soon()
            async with asyncio.timeout(self._timeout):
                await live.wait_up()
        except TimeoutError:
            reasons = live.driver.reasons()
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
        config = SessionConfig(name, credentials=self._credentials)
        session = Session(config, new_incarnation(), IdSource(draw(), draw), time_ns)
        rounds = Rounds(addresses, Random(random.getrandbits(64)), self._failover_patience_s)
        only_tls = all(one.startswith(f"{SECURE_SCHEME}://") for one in self._addresses)
        dialler = AnyDialler(self._tls, only_tls=only_tls)
        return Live(session, dialler, rounds, self._backlog_bytes_max, main)

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

        If some of it could not be confirmed, it raises PublicationInDoubt, after closing, and PublicationRefused if the
        broker has not handed on some of it. Iterations over
        subscriptions end after the events that have arrived; other calls that wait raise ClientClosed. A second call
        does nothing. Leaving `async with` does the same; if an error ends the block, it waits for a shorter time and
        raises no other error.
        """
        if self._live_or_none is not None:
            await self._close(self._close_timeout)

    async def _close(self, patience_s: float) -> None:
        live = self._live
        if live.over is None and patience_s > 0:
            with suppress(TimeoutError):  # the session says which are in doubt
                async with asyncio.timeout(patience_s):
                    await live.wait_settled()
        publishers = list(live.publishers.values())
        await asyncio.shield(live.close())
        refusals = [error for publisher in publishers if (error := publisher.take_refusals())]
        if refusals:
            raise refusals[0]
        if in_doubt := sum(publisher.take_unreported() for publisher in publishers):
            raise PublicationInDoubt(in_doubt)

    @property
    def _live(self) -> Live:
        if self._live_or_none is None:
            raise InputError("the client is not open: write `async with connect(…) as client`")
        return self._live_or_none

    # -- properties -----------------------------------------------------------------------------------

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
        """How many publications the broker dropped because this client did not keep up."""
        return self._live.missed

    @property
    def gaps(self) -> int:
        """How many times events may have been lost on their way to this client; `on_gap` says more about each."""
        return self._live.gaps

    def __repr__(self) -> str:
        at = f" at {self.broker}" if self.state in (State.CONNECTED, State.MOVING) else ""
        return f"<Client {self.name}, {self.state.value}{at}>"

    # -- subscribing and publishing -------------------------------------------------------------------

    async def subscribe(
        self,
        selection: str | Selection,
        *,
        wait: Wait = "complete",
        timeout: float | None = READY_TIMEOUT_S,
    ) -> Subscription:
        """Ask for what a filter describes, in either language (`"close < 20"`, `"[close,<,20]"`).

        With `wait="complete"` it returns when the routes are complete: whatever is published after that, anywhere in
        the network, arrives. If a part of the network cannot be reached within `timeout` seconds (None: for ever), it
        raises RoutesIncomplete, which names the links that are missing. With "reachable" it does without that part,
        which is set up when it is back, and `Subscription.missing` names the links; with "nothing" it returns at
        once, and `await subscription.ready()` waits.

        Text that cannot be read raises FilterSyntaxError, what the broker does not take SubscriptionRefused.
        Cancelled, or if it raises, it leaves no subscription behind.
        """
        check_wait(wait, timeout)
        subscription = self._live.subscribe(as_selection(selection))
        try:
            await subscription.ready(wait=wait, timeout=timeout)
        except BaseException:
            subscription.unsubscribe()
            raise
        return subscription

    async def advertise(
        self,
        selection: str | Selection,
        *,
        name: str | None = None,
        wait: Wait = "complete",
        timeout: float | None = READY_TIMEOUT_S,
    ) -> Publisher:
        """Say what will be published; every publication must fit it. `name` is the publisher's, else the client's.

        With `wait="complete"` it returns when all brokers know the advertisement and the matching subscriptions have
        routes to this client: what is published after that reaches all of them. `wait` and `timeout` are those of
        `subscribe`. What the broker does not take raises AdvertisementRefused. Cancelled, or if it raises, it leaves no
        advertisement behind.
        """
        check_wait(wait, timeout)
        if name is not None and not isinstance(name, str):
            raise InputError(f"a publisher's name is text, not {name!r}")
        publisher = self._live.advertise(name or self.name, as_selection(selection))
        try:
            await publisher.ready(wait=wait, timeout=timeout)
        except BaseException:
            await publisher.withdraw()
            raise
        return publisher

    async def flush(self) -> None:
        """Return when the broker has everything that all publishers of this client published so far.

        It raises PublicationInDoubt as `Publisher.flush` does, for all of them together, and PublicationRefused for the
        first of them that has published what it may not.
        """
        live = self._live
        live.check()
        await live.wait_settled()
        for publisher in live.publishers.values():
            if error := publisher.take_refusals():
                raise error
        if in_doubt := sum(publisher.take_unreported() for publisher in live.publishers.values()):
            raise PublicationInDoubt(in_doubt)

    async def move_to(self, url: str, *, timeout: float = 30.0) -> None:
        """Live at another broker from now on, with nothing lost, nothing doubled and order kept.

        It returns when the client has arrived. If the other broker does not take it in within about `timeout`
        seconds, it raises MoveFailed, and the client stays where it is. After that there is no time limit: the move
        waits until the old broker has delivered everything that it had for this client. If the old broker is lost
        meanwhile, with what it had, there is a gap. After a move the new broker is the first that is dialled. If the
        call is cancelled, the move continues.
        """
        check_timeout(timeout)
        if not isinstance(url, str):
            raise _no_address(url)
        await self._live.move_to(normal_address(url), timeout)


def as_selection(selection: str | Selection) -> Selection:
    """Read a filter, unless it was read already; one that can hardly be meant is warned of in the log."""
    if isinstance(selection, str):
        found = parse(selection)
        if found == EVERYTHING and not selection.strip():
            log.warning("the filter is empty, so it wants everything: write TRUE if you mean it")
    elif isinstance(selection, Selection):
        found = selection
    else:
        raise InputError(f"a filter is text, or what runnel.parse returns, not {selection!r}")
    if found == NOTHING:
        log.warning("no event can ever match the filter %r: it contradicts itself", str(selection))
    encode_selection(found)  # too large for any broker: said here, not when it is sent
    return found


__all__ = ["Client", "ClientClosed", "State", "connect"]
