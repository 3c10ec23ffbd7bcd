"""The limiter: never faster than it may, in order, fair, and nothing lost; on a clock that the test moves."""

from __future__ import annotations

import asyncio

from runnel.node.limiter import BURST_S, PIECE_BYTES, LimitedConnection, Limiter

RATE = 1_000_000


class Pipe:
    """Records what a connection is told to do."""

    def __init__(self, wire: list[tuple[str, bytes]], name: str = "") -> None:
        self.name = name
        self.sent = b""
        self.closed: str | None = None
        self._wire = wire

    def write(self, frames: list[bytes]) -> None:
        assert self.closed is None
        data = b"".join(frames)
        self.sent += data
        self._wire.append((self.name, data))

    def close(self, reason: str) -> None:
        self.closed = reason


class Bench:
    """A limiter on a clock of its own."""

    def __init__(self, rate: int = RATE) -> None:
        self.now = 0.0
        self.wake_at: float | None = None
        self.wire: list[tuple[str, bytes]] = []
        self.limiter = Limiter(rate, lambda: self.now, self._wake_after)

    def _wake_after(self, seconds: float) -> None:
        assert self.wake_at is None, "one timer at a time"
        self.wake_at = self.now + seconds

    def connection(self, name: str = "") -> tuple[LimitedConnection, Pipe]:
        pipe = Pipe(self.wire, name)
        return LimitedConnection(pipe, self.limiter), pipe

    def advance(self, seconds: float) -> None:
        """Let time pass, with the timer going off when it must."""
        end = self.now + seconds
        while self.wake_at is not None and self.wake_at <= end:
            self.now, self.wake_at = self.wake_at, None
            self.limiter.pump()
        self.now = end

    @property
    def total(self) -> int:
        return sum(len(data) for _, data in self.wire)


def test_what_is_within_the_limit_goes_at_once() -> None:
    bench = Bench()
    connection, pipe = bench.connection()
    connection.write([b"a", b"b"])
    assert pipe.sent == b"ab"
    assert bench.wake_at is None


def test_the_rate_holds_and_everything_arrives_in_order() -> None:
    bench = Bench()
    connection, pipe = bench.connection()
    frames = [bytes([n % 251]) * 5_000 for n in range(400)]  # two seconds' worth
    for first in range(0, 400, 40):
        connection.write(frames[first : first + 40])
    for _ in range(40):
        bench.advance(0.05)
        assert bench.total <= RATE * (bench.now + BURST_S) + PIECE_BYTES
        assert bench.total >= RATE * bench.now - PIECE_BYTES or bench.total == 2_000_000
    bench.advance(0.1)
    assert pipe.sent == b"".join(frames)
    assert bench.limiter.busy_ns == 2 * 10**9


def test_a_pause_earns_no_more_than_a_burst() -> None:
    bench = Bench()
    connection, _ = bench.connection()
    bench.advance(100.0)
    connection.write([b"x" * 1_000_000])
    assert bench.total <= RATE * BURST_S + PIECE_BYTES


def test_a_long_queue_does_not_keep_others_silent() -> None:
    bench = Bench(100_000)
    long, _ = bench.connection("long")
    short, pipe = bench.connection("short")
    long.write([b"x" * 1_000_000])  # ten seconds' worth
    short.write([b"alive"])
    bench.advance(0.5)
    assert pipe.sent == b"alive"
    assert bench.total < 100_000


def test_closing_waits_for_what_was_written() -> None:
    async def main() -> None:
        bench = Bench()
        connection, pipe = bench.connection()
        connection.write([b"x" * 100_000])
        connection.close("done")
        assert pipe.closed is None
        bench.advance(1.0)
        assert (len(pipe.sent), pipe.closed) == (100_000, "done")

    asyncio.run(main())


def test_closing_with_nothing_to_write_is_at_once() -> None:
    bench = Bench()
    connection, pipe = bench.connection()
    connection.close("done")
    assert pipe.closed == "done"


def test_what_was_for_a_connection_that_is_gone_costs_others_nothing() -> None:
    bench = Bench()
    gone, _ = bench.connection("gone")
    other, pipe = bench.connection("other")
    gone.write([b"x" * 10_000_000])
    other.write([b"y" * 100_000])
    gone.drop()
    bench.advance(0.2)
    assert len(pipe.sent) == 100_000
    bench.advance(1.0)
    assert bench.wake_at is None
