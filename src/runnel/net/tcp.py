"""TCP connections for a driver: no Nagle, one write per effect, closed within a bounded time.

Nothing here stops reading: brokers always read, and a session limits what comes by what it acknowledges. Nor does
writing wait: a link has at most a window's worth of bytes under way, so what the transport buffers is bounded too.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import cast

from runnel.net.addresses import Address
from runnel.net.driver import Connection, Driver

CLOSE_WITHIN_S = 5.0  # a peer that does not read must not keep a closed connection alive
DIAL_TIMEOUT_S = 5.0


class TcpConnection(asyncio.Protocol):
    """One TCP connection of a driver."""

    def __init__(self, driver: Driver, peer: str | None = None) -> None:
        self._driver = driver
        self._peer = peer
        self._conn = 0
        self._transport: asyncio.Transport

    # -- asyncio calls --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not say that it is one
        opened = transport.get_extra_info("socket")
        if opened is not None:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._conn = self._driver.opened(self, self._peer)

    def data_received(self, data: bytes) -> None:
        """Bytes came in."""
        self._driver.received(self._conn, data)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self._driver.closed(self._conn)

    # -- the driver calls -----------------------------------------------------------------------------

    def write(self, frames: list[bytes]) -> None:
        """Send these, after what was sent before."""
        self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def close(self, reason: str) -> None:
        """End it after what was written, and at the latest after a few seconds."""
        self._transport.close()
        asyncio.get_running_loop().call_later(CLOSE_WITHIN_S, self._transport.abort)


class TcpDialler:
    """Dials peers over TCP; `address_of` says where a peer is to be found."""

    def __init__(self, address_of: Callable[[str], Address]) -> None:
        self._address_of = address_of
        self._under_way: set[asyncio.Task[None]] = set()

    def dial(self, driver: Driver, peer: str) -> None:
        """Begin to open a connection to a peer."""
        task = asyncio.get_running_loop().create_task(self._dial(driver, peer))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _dial(self, driver: Driver, peer: str) -> None:
        address = self._address_of(peer)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                await loop.create_connection(
                    lambda: TcpConnection(driver, peer), address.host, address.port
                )
        except OSError as error:  # TimeoutError is one
            driver.failed(peer, _reason(error))

    def stop(self) -> None:
        """Give up what is under way."""
        for task in self._under_way:
            task.cancel()


def _reason(error: OSError) -> str:
    """Why dialling failed, in the system's own words."""
    if isinstance(error, TimeoutError):
        return f"no answer within {DIAL_TIMEOUT_S:g} s"
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)


async def listen(driver: Driver, address: Address) -> asyncio.Server:
    """Accept connections for a driver; port 0 takes any that is free."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: TcpConnection(driver), address.host, address.port)


__all__ = ["Connection", "TcpConnection", "TcpDialler", "listen"]
