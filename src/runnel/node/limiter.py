"""The output bandwidth limiter: all connections of a node together send at most so many bytes per second.

A token bucket. What exceeds the limit waits here and is sent later, never dropped: the windows of the links bound how
much may wait. Each connection's bytes stay in order, and connections take turns, one piece each. With a single queue,
one connection with much to send could delay another until its peer takes the link for dead.

A node without a limit has no limiter, so its hot path does not check for one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from runnel.net.driver import ByteStream
from runnel.net.tcp import CLOSE_WITHIN_S
from runnel.quantities import SECOND

PIECE_BYTES = 16 << 10  # what a connection may send in its turn
BURST_S = 0.02  # so much time's worth may go at once after a pause
WAIT_MIN_S = 0.001  # timers are no finer than this


class Limiter:
    """The token bucket, and the connections that wait for it."""

    def __init__(
        self, bytes_per_s: int, clock: Callable[[], float], wake_after: Callable[[float], object]
    ) -> None:
        """`wake_after(seconds)` must have `pump` called once, that much later."""
        self._bytes_per_s = bytes_per_s
        self._sent_bytes = 0
        self._burst = bytes_per_s * BURST_S
        self._tokens = self._burst  # below 0 if the last piece was larger than the tokens left
        self._clock = clock
        self._wake_after = wake_after
        self._filled_at = clock()
        self._waiting: deque[LimitedConnection] = deque()  # each once, in turn
        self._asleep = False

    @classmethod
    def on_loop(cls, bytes_per_s: int) -> Limiter:
        """A limiter that lives on the running event loop."""
        loop = asyncio.get_running_loop()
        limiter = cls(bytes_per_s, loop.time, lambda after: loop.call_later(after, limiter.pump))
        return limiter

    @property
    def busy_ns(self) -> int:
        """How long sending took so far, at the limiter's bandwidth."""
        return self._sent_bytes * SECOND // self._bytes_per_s

    def enter(self, connection: LimitedConnection) -> None:
        """A connection has something to send and was not waiting yet."""
        self._waiting.append(connection)
        if not self._asleep:
            self._send()

    def leave(self, connection: LimitedConnection) -> None:
        """A connection has nothing to send any more."""
        self._waiting.remove(connection)

    def pump(self) -> None:
        """Send again: the time asked for by `wake_after` has passed."""
        self._asleep = False
        self._send()

    def _send(self) -> None:
        now = self._clock()
        earned = (now - self._filled_at) * self._bytes_per_s
        self._tokens = min(self._burst, self._tokens + earned)
        self._filled_at = now
        while self._waiting:
            if self._tokens <= 0:
                self._asleep = True
                self._wake_after(max(WAIT_MIN_S, -self._tokens / self._bytes_per_s))
                return
            connection = self._waiting.popleft()
            sent = connection.send_piece()
            self._tokens -= sent
            self._sent_bytes += sent
            if connection.waits:
                self._waiting.append(connection)


class LimitedConnection:
    """A connection whose writes wait for the limiter."""

    def __init__(self, connection: ByteStream, limiter: Limiter) -> None:
        self._connection = connection
        self._limiter = limiter
        self._frames: deque[bytes] = deque()
        self._closing: str | None = None

    @property
    def waits(self) -> bool:
        """Whether something is to be sent."""
        return bool(self._frames)

    def write(self, frames: list[bytes]) -> None:
        """Send these, after what was sent before."""
        waited = self.waits
        # Cut once, here: a slice of what remains at every turn would be quadratic.
        for frame in frames:
            if len(frame) <= PIECE_BYTES:
                self._frames.append(frame)
            else:
                cuts = range(0, len(frame), PIECE_BYTES)
                self._frames.extend(frame[cut : cut + PIECE_BYTES] for cut in cuts)
        if not waited:
            self._limiter.enter(self)

    def close(self, reason: str) -> None:
        """End it after what was written, and at the latest after a few seconds."""
        if self.waits:
            self._closing = reason
            asyncio.get_running_loop().call_later(CLOSE_WITHIN_S, self._close_now)
        else:
            self._connection.close(reason)

    def drop(self) -> None:
        """The connection is closed: forget what waits."""
        if self.waits:
            self._frames.clear()
            self._limiter.leave(self)
        self._closing = None

    def send_piece(self) -> int:
        """Send one piece; returns its size in bytes."""
        piece: list[bytes] = []
        size = 0
        while self._frames and (not piece or size + len(self._frames[0]) <= PIECE_BYTES):
            piece.append(self._frames.popleft())
            size += len(piece[-1])
        self._connection.write(piece)
        if self._closing is not None and not self._frames:
            self._close_now()
        return size

    def _close_now(self) -> None:
        if self._closing is not None:
            reason = self._closing
            self.drop()
            self._connection.close(reason)
