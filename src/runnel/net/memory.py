"""Connections in memory, within a loop or between loops of different threads; for tests that need no sockets.

A broker listens under a URL of its own, `memory://network/broker`; code in the same process can dial it. As with TCP,
bytes arrive in order, a connection closes after what was written, and breaking it loses what is under way. Only the
event loops buffer anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Lock
from typing import Any

from runnel.net.driver import Driver

SCHEME = "memory"


class MemoryConnection:
    """One end of a connection. It belongs to its driver's loop; only `_post` may be called from elsewhere."""

    def __init__(self, driver: Driver, loop: asyncio.AbstractEventLoop) -> None:
        self._driver = driver
        self._loop = loop
        self._conn = 0
        self._open = True
        self.other: MemoryConnection

    def write(self, frames: list[bytes]) -> None:
        """Send these, after what was sent before."""
        if self._open:
            self.other._post(self.other._received, b"".join(frames))

    def close(self, reason: str) -> None:
        """End it after what was written."""
        if self._open:
            self.other._post(self.other._ended)
            self._post(self._ended)

    def break_off(self) -> None:
        """End it now, from any thread: what is under way is lost."""
        for end in (self, self.other):
            end._post(end._ended)

    def begin(self, peer: str | None) -> None:
        """Tell the driver, on its loop, that the connection is open."""
        self._conn = self._driver.opened(self, peer)

    def _received(self, data: bytes) -> None:
        if self._open:
            self._driver.received(self._conn, data)

    def _ended(self) -> None:
        if self._open:
            self._open = False
            self._driver.closed(self._conn)

    def _post(self, callback: Callable[..., None], *arguments: Any) -> None:
        post(self._loop, callback, *arguments)


def post(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *arguments: Any) -> bool:
    """Call something on a loop, from any thread; False if that loop is closed."""
    try:
        if asyncio._get_running_loop() is loop:
            loop.call_soon(callback, *arguments)
        else:
            loop.call_soon_threadsafe(callback, *arguments)
    except RuntimeError:  # closed
        return False
    return True


class MemoryListener:
    """A broker that can be dialled; it remembers its connections, so that tests can break them."""

    def __init__(self, url: str, driver: Driver) -> None:
        self.url = url
        self._driver = driver
        self._loop = asyncio.get_running_loop()
        self._connections: dict[MemoryConnection, str] = {}
        with _LOCK:
            _LISTENERS[url] = self

    def close(self) -> None:
        """Stop listening; open connections stay."""
        with _LOCK:
            if _LISTENERS.get(self.url) is self:
                del _LISTENERS[self.url]

    def break_connections(self) -> None:
        """Break every connection that was accepted here; on the listener's loop."""
        for connection in self._connections:
            connection.break_off()

    def accept(self, driver: Driver, loop: asyncio.AbstractEventLoop, peer: str) -> None:
        """Make both ends of a connection. Runs on the listener's loop; the dialling side is called on its own."""
        for connection in [c for c in self._connections if not c._open]:
            del self._connections[connection]
        here, there = MemoryConnection(self._driver, self._loop), MemoryConnection(driver, loop)
        here.other, there.other = there, here
        self._connections[here] = peer
        here.begin(None)
        if not post(loop, there.begin, peer):
            here._post(here._ended)

    def post(self, callback: Callable[..., None], *arguments: Any) -> bool:
        """Call something on the listener's loop."""
        return post(self._loop, callback, *arguments)


_LISTENERS: dict[str, MemoryListener] = {}
_LOCK = Lock()


class MemoryDialler:
    """Dials listeners in this process; `url_of` gives the URL of a peer dialled without one."""

    def __init__(self, url_of: Callable[[str], str] = lambda peer: peer) -> None:
        self._url_of = url_of
        self._stopped = False

    def dial(self, driver: Driver, peer: str, address: str = "") -> None:
        """Begin to open a connection to a peer."""
        loop = asyncio.get_running_loop()
        with _LOCK:
            listener = _LISTENERS.get(address or self._url_of(peer))
        if listener is None or not listener.post(listener.accept, driver, loop, peer):
            loop.call_soon(self._failed, driver, peer)

    def _failed(self, driver: Driver, peer: str) -> None:
        if not self._stopped:
            driver.failed(peer, "nobody listens there in this process")

    def stop(self) -> None:
        """Give up pending dials; the driver closes connections that open nevertheless."""
        self._stopped = True
