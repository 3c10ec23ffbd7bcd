"""TCP connections for a driver: no Nagle, one write per effect, closed within a bounded time.

Reading never pauses: brokers always read, and a session limits what arrives by what it acknowledges. Writing never
waits: a link has at most a window of bytes under way, so the transport's buffer is bounded too.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import cast

from runnel.errors import InputError
from runnel.net.addresses import Address, parse_address
from runnel.net.descriptors import HINT, is_exhaustion
from runnel.net.driver import ByteStream, Driver
from runnel.net.tls import TlsError
from runnel.net.tls_layer import DialTls, TlsLayer

CLOSE_WITHIN_S = 5.0  # a peer that does not read must not keep a closed connection alive
DIAL_TIMEOUT_S = 5.0


class TcpConnection(asyncio.Protocol):
    """One TCP connection of a driver."""

    def __init__(self, driver: Driver, peer: str | None = None) -> None:
        self._driver = driver
        self._peer = peer
        self._conn = 0
        self._transport: asyncio.Transport
        self.certificate_name = ""  # of the peer, as its certificate says; empty without one

    # -- asyncio calls --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self.take_transport(transport)
        self._conn = self._driver.opened(self, self._peer)

    def take_transport(self, transport: asyncio.BaseTransport) -> None:
        """Write to this transport from now on, without delay; note who the peer is by its certificate."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not say that it is one
        self.certificate_name = transport.get_extra_info("certificate_name", "")
        opened = transport.get_extra_info("socket")
        if opened is not None:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        """Bytes came in."""
        self._driver.received(self._conn, data)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self._driver.closed(self._conn, str(error) if isinstance(error, TlsError) else "")

    # -- the driver calls -----------------------------------------------------------------------------

    def write(self, frames: list[bytes]) -> None:
        """Send these, after what was sent before."""
        self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def close(self, reason: str) -> None:
        """End it after what was written, and at the latest after a few seconds."""
        self._transport.close()
        asyncio.get_running_loop().call_later(CLOSE_WITHIN_S, self._transport.abort)


def dial_without_tls(peer: str, address: Address) -> DialTls | None:
    """TLS for nobody."""
    return None


class TcpDialler:
    """Dials peers over TCP; `address_of` gives the address of a peer dialled without one, or raises InputError.

    `secure` says how the connection to a peer is to be secured, None for not at all; it may raise InputError too.
    """

    def __init__(
        self,
        address_of: Callable[[str], Address],
        secure: Callable[[str, Address], DialTls | None] = dial_without_tls,
    ) -> None:
        self._address_of = address_of
        self._secure = secure
        self._under_way: set[asyncio.Task[None]] = set()

    def dial(self, driver: Driver, peer: str, address: str = "") -> None:
        """Begin to open a connection to a peer."""
        task = asyncio.get_running_loop().create_task(self._dial(driver, peer, address))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _dial(self, driver: Driver, peer: str, address: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            where = parse_address(address) if address else self._address_of(peer)
            tls = self._secure(peer, where)
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                if tls is not None:
                    await _dial_over_tls(where, tls, lambda: TcpConnection(driver, peer))
                    return
                await loop.create_connection(
                    lambda: TcpConnection(driver, peer), where.host, where.port
                )
        except InputError as error:
            driver.failed(peer, str(error))
        except OSError as error:  # TimeoutError is one
            driver.failed(peer, _reason(error))

    def stop(self) -> None:
        """Give up pending dials."""
        for task in self._under_way:
            task.cancel()


async def _dial_over_tls(
    where: Address, tls: DialTls, make_protocol: Callable[[], asyncio.Protocol]
) -> None:
    """Open a connection and wait until it is secured; TlsError says why it is not."""
    loop = asyncio.get_running_loop()
    settled: asyncio.Future[str] = loop.create_future()

    def report(problem: str) -> None:
        if not settled.done():
            settled.set_result(problem)

    transport, _ = await loop.create_connection(
        lambda: TlsLayer(tls.context, make_protocol, report, tls), where.host, where.port
    )
    try:
        problem = await settled
    except BaseException:
        transport.abort()
        raise
    if problem:
        transport.abort()
        raise TlsError(problem)


def _reason(error: OSError) -> str:
    """Why dialling failed, in the system's own words."""
    if isinstance(error, TlsError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"no answer within {DIAL_TIMEOUT_S:g} s"
    if error.errno is not None and error.errno > 0:
        said = os.strerror(error.errno)
        return f"{said}: {HINT}" if is_exhaustion(error) else said
    return error.strerror or str(error)


async def listen(driver: Driver, address: Address) -> asyncio.Server:
    """Accept connections for a driver; port 0 takes any free port."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: TcpConnection(driver), address.host, address.port)


__all__ = ["ByteStream", "TcpConnection", "TcpDialler", "listen"]
