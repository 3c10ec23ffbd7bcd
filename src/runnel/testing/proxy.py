"""A TCP proxy to break connections with, at the moment that a test or a demo chooses.

    with Proxy("127.0.0.1:7001") as proxy:      # dial proxy.address instead
        proxy.wait_passed(100_000)              # bytes have gone through, both ways together
        proxy.cut()                             # connections are reset, new ones as well
        proxy.restore()

It runs on an event loop in a thread of its own; its methods block until they have taken effect. A reset is a real one
(RST), and what the proxy had under way is lost, as in a network. Its buffers are bounded: a slow reader on one side
slows down the writer on the other.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar, cast

from runnel.net.addresses import Address, parse_address
from runnel.net.loops import new_event_loop

_T = TypeVar("_T")
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: on, for no time


class Proxy:
    """Passes bytes between its connections and the target; see the top of the file."""

    def __init__(self, target: str | Address) -> None:
        self.target = parse_address(target) if isinstance(target, str) else target
        self.accepted = 0  # connections so far
        self.passed_bytes = 0
        self._changed = threading.Condition()
        self._pairs: dict[_Pair, None] = {}
        self._is_cut = False
        self._stalled = False
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        try:
            self._server: asyncio.Server = self._run(self._listen())
        except BaseException:
            self._end_loop()
            raise
        self.address = Address(*self._server.sockets[0].getsockname()[:2])

    # -- faults ---------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Reset every connection, and each new one at once, until `restore`."""

        def cut() -> None:
            self._is_cut = True
            self._reset_all()

        self._call(cut)

    def restore(self) -> None:
        """Let connections through again."""

        def restore() -> None:
            self._is_cut = False

        self._call(restore)

    def reset(self) -> int:
        """Reset every connection, but accept new ones; returns how many there were."""
        return self._call(self._reset_all)

    def stall(self) -> None:
        """Pass nothing on in either direction, without breaking connections, like a silent peer."""
        self._call(lambda: self._set_stalled(True))

    def resume(self) -> None:
        """Pass on again, with what was held back."""
        self._call(lambda: self._set_stalled(False))

    # -- state ----------------------------------------------------------------------------------------

    @property
    def open(self) -> int:
        """How many connections are open through to the target."""
        with self._changed:
            return sum(pair.through for pair in self._pairs)

    # -- waiting --------------------------------------------------------------------------------------

    def wait_open(self, count: int = 1, timeout_s: float = 30.0) -> None:
        """Wait until so many connections are open through to the target."""
        self._wait(lambda: self.open >= count, timeout_s)

    def wait_accepted(self, count: int, timeout_s: float = 30.0) -> None:
        """Wait until so many connections have come since the proxy was made."""
        self._wait(lambda: self.accepted >= count, timeout_s)

    def wait_passed(self, size: int, timeout_s: float = 30.0) -> None:
        """Wait until so many more bytes have gone through."""
        goal = self.passed_bytes + size
        self._wait(lambda: self.passed_bytes >= goal, timeout_s)

    def _wait(self, condition: Callable[[], bool], timeout_s: float) -> None:
        with self._changed:
            if not self._changed.wait_for(condition, timeout_s):
                raise TimeoutError(f"the proxy to {self.target} waited for {timeout_s} s")

    # -- the end --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Reset everything and end; a second call does nothing."""
        if self._loop.is_closed():
            return

        async def close() -> None:
            self._is_cut = True
            self._server.close()
            self._reset_all()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self._run(close())
        self._end_loop()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _call(self, function: Callable[[], _T]) -> _T:
        async def call() -> _T:
            return function()

        return self._run(call())

    # -- on the loop ----------------------------------------------------------------------------------

    async def _listen(self) -> asyncio.Server:
        return await self._loop.create_server(lambda: _Pair(self).near, "127.0.0.1", 0)

    def _reset_all(self) -> int:
        pairs = list(self._pairs)
        for pair in pairs:
            pair.reset()
        return len(pairs)

    def _set_stalled(self, stalled: bool) -> None:
        self._stalled = stalled
        for pair in self._pairs:
            for side in (pair.near, pair.far):
                side.update()

    def _accept(self, pair: _Pair) -> None:
        if self._is_cut:
            pair.reset()
            return
        self._note(pair, True)
        self._loop.create_task(pair.dial(self.target))

    def _note(self, pair: _Pair, is_there: bool) -> None:
        with self._changed:
            if is_there:
                self.accepted += 1
                self._pairs[pair] = None
            else:
                self._pairs.pop(pair, None)
            self._changed.notify_all()

    def _note_through(self, pair: _Pair) -> None:
        with self._changed:
            pair.through = True
            self._changed.notify_all()

    def _count_passed(self, size: int) -> None:
        with self._changed:
            self.passed_bytes += size
            self._changed.notify_all()


class _Pair:
    """One connection through the proxy: the accepted near side, and the far side that is dialled for it."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.near = _Side(self, lambda: self.far)
        self.far = _Side(self, lambda: self.near)
        self.through = False
        self.over = False

    async def dial(self, target: Address) -> None:
        """Open the far side; if that fails, reset the near side."""
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            await loop.create_connection(lambda: self.far, target.host, target.port)
        if self.far.transport is None or self.over:
            self.reset()
            return
        self.proxy._note_through(self)
        for side in (self.near, self.far):
            side.update()

    def reset(self) -> None:
        """Reset both sides."""
        self.over = True
        for side in (self.near, self.far):
            side.reset()
        self.proxy._note(self, False)

    def finish(self) -> None:
        """One side ended by itself: close the other after what was written to it."""
        if not self.over:
            self.over = True
            for side in (self.near, self.far):
                if side.transport is not None:
                    side.transport.close()
            self.proxy._note(self, False)


class _Side(asyncio.Protocol):
    """One side of a pair. It reads while nothing is stalled, and while the other side can write."""

    def __init__(self, pair: _Pair, other: Callable[[], _Side]) -> None:
        self.transport: asyncio.Transport | None = None
        self._pair = pair
        self._other = other
        self._is_full = False
        self._held: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        # Uvloop's transport is not a subclass of it.
        self.transport = cast(asyncio.Transport, transport)
        opened = self.transport.get_extra_info("socket")
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.update()
        if self is self._pair.near:
            self._pair.proxy._accept(self._pair)

    def data_received(self, data: bytes) -> None:
        """Pass on, or keep for later: an event loop may read a little before it is told not to."""
        self._held.append(data)
        self.update()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        if error is None:
            self._pair.finish()
        else:
            self._pair.reset()

    def pause_writing(self) -> None:
        """The buffer of this side is full: stop reading from the other."""
        self._is_full = True
        self._other().update()

    def resume_writing(self) -> None:
        """The buffer has room: read from the other side again."""
        self._is_full = False
        self._other().update()

    def update(self) -> None:
        """Pass on what can be, and start or stop reading as the state requires."""
        if self.transport is None or self.transport.is_closing():
            return
        pair, other = self._pair, self._other()
        passes = pair.through and not pair.proxy._stalled
        if passes and other.transport is not None and self._held:
            data = b"".join(self._held)
            self._held.clear()
            other.transport.write(data)
            pair.proxy._count_passed(len(data))
        if passes and not other._is_full:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def reset(self) -> None:
        """Close the connection so that the peer sees a reset."""
        if self.transport is not None and not self.transport.is_closing():
            linger = (socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            with suppress(OSError):
                self.transport.get_extra_info("socket").setsockopt(*linger)
            self.transport.abort()
