"""A node: one broker as a process, from listening to the exit code.

    start    take the port, start the broker, dial the neighbours, accept
    serve    run until stopped; the result is the exit code
    SIGHUP   with TLS: the certificates are read again, for new connections
    stop     drain: publishers get no more credit, what waits is sent, and all peers get a farewell. The node listens
             until then, so that a peer whose connection breaks can come back for its messages

Exit codes: 0 drained; 1 stopped, but something could not be handed over within `drain_s`; 70 a bug, after a log entry
with the details; 130 a second signal. After an unforeseen error a broker does not go on: neighbours and clients can
recover from a dead broker, but not from one that half works.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections import Counter
from functools import partial
from http import HTTPStatus
from logging import ERROR, INFO, WARNING, Logger
from pathlib import Path
from time import monotonic
from typing import Any, cast

from runnel.broker.access import UNKNOWN
from runnel.broker.events import AccessChanged
from runnel.broker.permits import Permit
from runnel.errors import InputError
from runnel.matching import engine_note
from runnel.modules.generations.questions import OpenGeneration
from runnel.net.addresses import Address
from runnel.net.descriptors import HINT, are_short, count_limit, is_exhaustion
from runnel.net.loops import LOOP_NAME
from runnel.net.tcp import TcpConnection
from runnel.net.tls_layer import MakeProtocol
from runnel.node.access.keeper import AccessKeeper, TooManyLogins
from runnel.node.admin import OPEN_PATHS, AdminConnection, make_pages, refer_operators, refuse_peers
from runnel.node.config import NodeConfig
from runnel.node.core import Core, CoreDriver
from runnel.node.doorman import Authenticate, Doorman
from runnel.node.limiter import Limiter
from runnel.node.logs import fields, make_log
from runnel.node.saved_generation import load_generation, save_generation
from runnel.node.storms import WINDOW_S, LogEntry, Storms
from runnel.node.threshold import Threshold
from runnel.node.tls import NodeTls, refuse_false_name
from runnel.version import __version__
from runnel.wire import Credentials, Denied, Hello, Message

DRAINED, NOT_DRAINED, BUG, AT_ONCE = 0, 1, 70, 130
DROPS_TOLD_EVERY_S = 1.0
CLOSED_WITHIN_S = 1.0  # how long peers may take to read their farewell
BACKLOG = 1_024
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Node:
    """One broker process; see the top of the file."""

    def __init__(self, config: NodeConfig, log: Logger | None = None) -> None:
        self.config = config
        self.log = log or make_log(config.name, config.log.level, config.log.format)
        self.address: Address
        self.admin_address: Address | None = None
        self._cores: dict[int, Core] = {}  # by generation
        self.settled = 0  # the generation that it would host after a restart
        self._receives_in = 0  # the generation of clients that name none
        self._exit_code: asyncio.Future[int]
        self._limiter: Limiter | None = None
        self.tls: NodeTls | None = None
        self._server: asyncio.Server
        self._admin_server: asyncio.Server | None = None
        self._access: AccessKeeper | None = None
        self._threshold = Threshold()
        self._stopping = False
        self._drops: Counter[str] = Counter()
        self._storms = Storms()
        self._storm_timer: asyncio.TimerHandle | None = None  # will tell of what was left out
        self._ending: set[asyncio.Future[None]] = set()

    # -- life -----------------------------------------------------------------------------------------

    async def start(self) -> Address:
        """Take the port, dial the neighbours and accept connections. Returns the address with the actual port."""
        loop = asyncio.get_running_loop()
        self._exit_code = loop.create_future()
        place = load_generation(self.config.state, self.config.name)
        place = place or OpenGeneration(
            1, dict(self.config.neighbours), accepts=self.config.accepts
        )
        self._open_files()
        bound = _bind("listen", self.config.address)
        self.address = self.config.address._replace(port=bound.getsockname()[1])
        try:
            admin = self._bind_admin()
        except InputError:
            bound.close()
            raise
        rate = self.config.limits.output_bytes_per_s
        self._limiter = Limiter.on_loop(rate) if rate else None
        loop.set_exception_handler(self._handle_unforeseen_error)
        for number in SIGNALS:
            loop.add_signal_handler(number, self._handle_signal, number)
        if self.tls is not None or self._access is not None:
            loop.add_signal_handler(signal.SIGHUP, self._reload_files)
        self.settled = self._receives_in = place.generation
        self.open(place)
        # Peers that connected since the port was bound have waited: the broker must be started before it sees them.
        self._server = await self._serve(bound, self._accept)
        named = {}
        if admin is not None:
            self._admin_server = await self._serve(admin, self._accept_admin)
            named = {"admin": str(self.admin_address)}
        self.note(
            "listening",
            address=str(self.address),
            **named,
            generation=place.generation,
            version=__version__,
            loop=LOOP_NAME,
            engine=engine_note(),
        )
        return self.address

    def _open_files(self) -> None:
        """Read the certificates and the access file, if there are to be any."""
        if self.config.tls.is_on:
            self.tls = NodeTls(self.config.tls, partial(self._warn, "tls-failed"))
            self._note_certificates(self.tls)
        if self.config.access.file:
            self._access = self._open_access(Path(self.config.access.file))
            self._access.watch()

    def _reload_files(self) -> None:
        """SIGHUP."""
        if self.tls is not None:
            self._reload_certificates(self.tls)
        if self._access is not None:
            self._access.reload()

    def _open_access(self, path: Path) -> AccessKeeper:
        keeper = AccessKeeper(path, self._review_access, self._complain_of_access)
        self.note("access-rules", file=str(path.absolute()), users=len(keeper.rules.users))
        if not (self.config.address.is_loopback or self.config.tls.is_on):
            self.note(
                "readable",
                WARNING,
                reason="passwords and tokens go over the network as they are",
                hint="let nobody listen there, or use TLS",
            )
        return keeper

    def _bind_admin(self) -> socket.socket | None:
        """Take the port of the admin listener, if there is to be one."""
        wanted = self.config.admin_address
        if wanted is None:
            return None
        bound = _bind("admin.listen", wanted)
        self.admin_address = wanted._replace(port=bound.getsockname()[1])
        return bound

    async def _serve(self, bound: socket.socket, accept: MakeProtocol) -> asyncio.Server:
        # Event loops call `listen` again: without `backlog` with a shorter queue than the socket was bound with.
        loop = asyncio.get_running_loop()
        return await loop.create_server(self._secured(accept), sock=bound, backlog=BACKLOG)

    def _secured(self, accept: MakeProtocol) -> MakeProtocol:
        """Accept connections over TLS, if it is on; while there are too many, in place of those that are not let in."""
        tls = self.tls

        def accept_connection() -> asyncio.BaseProtocol:
            if are_short():
                self._note_descriptors()
                if not self._threshold.make_room():
                    return _Refuser()
            return accept() if tls is None else tls.accept(accept)

        return accept_connection

    def _accept(self) -> TcpConnection:
        if not (self.admin_address is None and self.tls is None and self._access is None):
            return Doorman(self._driver_of, self._refuse, self._authenticate, self._threshold)
        if len(self._cores) > 1:
            return Doorman(self._driver_of)
        return TcpConnection(self._driver_of(0))

    def _accept_admin(self) -> AdminConnection:
        pages = make_pages(self._cores.values, lambda: self._stopping)
        return AdminConnection(
            pages,
            lambda: Doorman(
                self._driver_of, self._refuse_peers, self._authenticate, self._threshold
            ),
            self._authorise if self._access is not None else None,
            self._threshold,
        )

    @property
    def _authenticate(self) -> Authenticate | None:
        return self._let_in if self._access is not None else None

    def _refuse(self, hello: Hello, certificate_name: str) -> Message | None:
        if self.tls is not None and (answer := refuse_false_name(hello, certificate_name)):
            return answer
        return refer_operators(hello, self.admin_address) if self.admin_address else None

    def _refuse_peers(self, hello: Hello, certificate_name: str) -> Message | None:
        return refuse_peers(hello, self.address)

    def _driver_of(self, generation: int) -> CoreDriver:
        return (self._cores.get(generation) or self._cores[self._receives_in]).driver

    async def serve(self) -> int:
        """Run until the node is stopped or must end; returns the exit code."""
        loop = asyncio.get_running_loop()
        try:
            code = await self._exit_code
            self._server.close()
            if self._admin_server is not None:
                self._admin_server.close()
            for core in self._cores.values():
                core.driver.stop()
            if code in (DRAINED, NOT_DRAINED):
                await self._wait_for_farewells()
        finally:
            for number in (*SIGNALS, signal.SIGHUP):
                loop.remove_signal_handler(number)
        if self._access is not None:
            self._access.stop()
        self._log_drops()
        self._log_storms(all_now=True)
        await asyncio.gather(*self._ending)
        for core in self._cores.values():
            core.end_trace()
        self.note("stopped", exit_code=code)
        return code

    def stop(self) -> None:
        """Drain, then end; does nothing when called again."""
        if self._stopping:
            return
        self._stopping = True
        self.note("draining", within_s=self.config.drain_s)
        loop = asyncio.get_running_loop()
        loop.call_later(self.config.drain_s, self._drain_took_too_long)
        for core in list(self._cores.values()):
            core.drain()

    # -- access ---------------------------------------------------------------------------------------

    async def _let_in(
        self, connection: TcpConnection, credentials: Credentials
    ) -> Permit | Message | None:
        """The permit of who connects, or what it is told instead."""
        assert self._access is not None
        try:
            permit = await self._access.authenticate(credentials, connection.certificate_name)
        except TooManyLogins:
            self._warn("access-denied", "too many log in at once", credentials.user)
            return None
        if permit is None:
            self._warn("access-denied", UNKNOWN, credentials.user)
            return Denied(UNKNOWN)
        return permit

    async def _authorise(
        self, path: str, credentials: Credentials, certificate_name: str
    ) -> HTTPStatus:
        """Whether a page of the admin listener may be read."""
        if path in OPEN_PATHS or self._access is None:
            return HTTPStatus.OK
        try:
            permit = await self._access.authenticate(credentials, certificate_name)
        except TooManyLogins:
            return HTTPStatus.SERVICE_UNAVAILABLE
        if permit is None:
            self._warn("access-denied", UNKNOWN, credentials.user)
            return HTTPStatus.UNAUTHORIZED
        return HTTPStatus.OK if permit.may_operate("read") else HTTPStatus.FORBIDDEN

    def _review_access(self) -> None:
        """The rules have changed, or a permit has expired: sessions that are there are looked at again."""
        assert self._access is not None
        self.note("access-rules", users=len(self._access.rules.users))
        for core in list(self._cores.values()):
            core.driver.handle(AccessChanged(self._access.renew))

    def _complain_of_access(self, reason: str) -> None:
        self.note("access-file-refused", WARNING, reason=reason, hint="the rules from before hold")

    # -- generations ----------------------------------------------------------------------------------

    def open(self, order: OpenGeneration) -> None:
        """Begin a generation beside the present one; does nothing if it exists."""
        if order.generation in self._cores or self._stopping:
            return
        if len(self._cores) > 1:
            raise InputError(f"there are two generations here: {', '.join(map(str, self._cores))}")
        core = self._cores[order.generation] = Core(self, order, self._limiter)
        core.start()
        if len(self._cores) > 1:
            self.note("generation-opened", generation=order.generation, dials=list(order.dials))

    def close(self, generation: int) -> None:
        """End one of two generations; the node keeps the other, also after a restart."""
        core = self._cores.get(generation)
        if core is None:
            return
        others = [one for one in self._cores.values() if one is not core]
        if not others:
            raise InputError(f"generation {generation} is the only one here: stop the broker")
        self.settled = self._receives_in = others[0].generation
        if not self.config.state:
            self.note("place-not-saved", WARNING, hint="set `state` to a file")
        save_generation(self.config.state, self.config.name, others[0].order)
        # Later, because the command may have come through the broker that is to end.
        asyncio.get_running_loop().call_soon(core.drain)

    def receive_in(self, generation: int) -> None:
        """Assign clients that name no generation to this one."""
        if generation in self._cores:
            self._receives_in = generation

    def has_drained(self, core: Core) -> None:
        """A core has handed on what it had."""
        if len(self._cores) == 1:
            self._end(DRAINED)
            return
        del self._cores[core.generation]
        core.driver.stop()
        self.note("generation-closed", generation=core.generation)
        # In another thread, so that writing the rest of an old trace blocks nothing.
        loop = asyncio.get_running_loop()
        ending = loop.run_in_executor(None, core.end_trace)
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    # -- what ends it ---------------------------------------------------------------------------------

    def _end(self, code: int) -> None:
        if not self._exit_code.done():
            self._exit_code.set_result(code)

    def _handle_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        self.note("signal", signal=name)
        if self._stopping:
            self._end(AT_ONCE)
        else:
            self.stop()

    def _reload_certificates(self, tls: NodeTls) -> None:
        """Use the files as they are now for new connections; those that are open stay as they are."""
        try:
            tls.reload()
        except InputError as error:
            self.note("certificates-not-loaded", ERROR, error=str(error))
        else:
            self._note_certificates(tls)

    def _note_certificates(self, tls: NodeTls) -> None:
        level = WARNING if tls.expires_soon else INFO
        named = {"certificate": self.config.tls.certificate, "expires": f"{tls.expires:%Y-%m-%d}"}
        self.note("certificates-loaded", level, **named)

    def _drain_took_too_long(self) -> None:
        if not self._exit_code.done():
            links = [link for one in self._cores.values() for link in one.broker.links.values()]
            waiting = {link.name: link.waiting_bytes + link.flying_bytes for link in links}
            lagging = sorted(name for name, size in waiting.items() if size)
            self.note("drain-given-up", WARNING, peers=lagging, bytes=sum(waiting.values()))
            self._end(NOT_DRAINED)

    async def _wait_for_farewells(self) -> None:
        """Connections end after what was written to them; a peer that does not read is not waited for."""
        try:
            async with asyncio.timeout(CLOSED_WITHIN_S):
                for core in self._cores.values():
                    await core.driver.wait_until_idle()
        except TimeoutError:
            self.note("not-closed", WARNING, within_s=CLOSED_WITHIN_S)

    def _handle_unforeseen_error(
        self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]
    ) -> None:
        """Handle an exception in a callback: errors of the network are logged, everything else ends the node."""
        error = context.get("exception")
        message = context.get("message", "")
        if is_exhaustion(error):
            self._note_descriptors()
            return
        if isinstance(error, OSError):
            self.note("network-error", WARNING, error=str(error), where=message)
            return
        for core in self._cores.values():
            core.die()
        self.log.critical("bug", exc_info=error, extra=fields(error=str(error), where=message))
        self._end(BUG)

    # -- what is told ---------------------------------------------------------------------------------

    def count_drops(self, peer: str, count: int) -> None:
        """Count the publications dropped for a slow peer; they are logged once a second."""
        if not self._drops:
            asyncio.get_running_loop().call_later(DROPS_TOLD_EVERY_S, self._log_drops)
        self._drops[peer] += count

    def _log_drops(self) -> None:
        for peer, count in self._drops.items():
            self.note("dropped", WARNING, peer=peer, count=count)
        self._drops.clear()

    def log_trace_failure(self, message: str) -> None:
        """Log that trace files cannot be written; the broker goes on. Called in the writer's thread."""
        self.log.warning("trace-fails", extra=fields(error=message))

    def _note_descriptors(self) -> None:
        self.note("descriptors-exhausted", WARNING, limit=count_limit(), refused=True, hint=HINT)

    def note(self, event: str, level: int = INFO, /, **named: Any) -> None:
        """Write something into the log; of a storm of entries, some, and how many there were."""
        if self._storms.admits(LogEntry(event, level, named), monotonic()):
            self.log.log(level, event, extra=fields(**named))
        elif self._storm_timer is None:
            self._await_storms()

    def _warn(self, event: str, reason: str, peer: str) -> None:
        self.note(event, WARNING, reason=reason, peer=peer)

    def _await_storms(self) -> None:
        loop = asyncio.get_running_loop()
        self._storm_timer = loop.call_later(WINDOW_S, self._log_storms)

    def _log_storms(self, *, all_now: bool = False) -> None:
        """Tell what was left out."""
        if self._storm_timer is not None:
            self._storm_timer.cancel()
            self._storm_timer = None
        for entry in self._storms.summaries(monotonic(), all_now=all_now):
            self.log.log(entry.level, entry.event, extra=fields(**entry.data))
        if not self._storms.is_over:
            self._await_storms()


class _Refuser(asyncio.Protocol):
    """Closes a connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        cast(asyncio.Transport, transport).abort()


def _bind(key: str, address: Address) -> socket.socket:
    """Take the port, or say why not and what to do; `key` is where the address is configured."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"{key}: {address} is taken: another broker may be running there; "
                "choose another port, or 0 for any that is free"
            ) from None
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise InputError(f"{key}: cannot listen on {address}: {reason}") from None
