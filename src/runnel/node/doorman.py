"""The doorman: a connection that comes while a node has two generations is led to the one that its Hello names.

What the doorman reads it hands on as it came; whoever says nothing, or nonsense, is handed on too, and gets from
the broker the answer that it would have got.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from runnel.errors import PeerError
from runnel.net.driver import Driver
from runnel.net.tcp import TcpConnection
from runnel.wire import Decoder, Hello

PATIENCE_S = 1.0  # for a Hello; after that the broker's own patience begins


class Doorman(TcpConnection):
    """An accepted connection. `lead_to` has the driver of a generation, 0 for that of newcomers."""

    def __init__(self, lead_to: Callable[[int], Driver]) -> None:
        super().__init__(lead_to(0))
        self._lead_to = lead_to
        self._decoder = Decoder()
        self._waiting: list[bytes] | None = []  # what was read before it was clear for whom
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)
        opened = transport.get_extra_info("socket")
        if opened is not None:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop = asyncio.get_running_loop()
        self._patience = loop.call_later(PATIENCE_S, self._lead, 0)

    def data_received(self, data: bytes) -> None:
        """Bytes came in."""
        if self._waiting is None:
            self._driver.received(self._conn, data)
            return
        self._waiting.append(data)
        try:
            first = next(iter(self._decoder.feed(data)), None)
        except PeerError:
            self._lead(0)
            return
        if first is not None:
            self._lead(first.generation if isinstance(first, Hello) else 0)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        if self._waiting is None:
            self._driver.closed(self._conn)
        elif self._patience is not None:
            self._patience.cancel()
            self._waiting = []

    def _lead(self, generation: int) -> None:
        """Hand the connection over, with what has come."""
        waiting, self._waiting = self._waiting, None
        if self._patience is not None:
            self._patience.cancel()
        self._driver = self._lead_to(generation)
        self._conn = self._driver.opened(self)
        for data in waiting or ():
            self._driver.received(self._conn, data)
