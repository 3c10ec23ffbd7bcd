"""The doorman: reads who a new connection is from, before a broker sees it.

While a node has two generations, it leads a connection to the one that the peer's Hello names. Where there are access
rules (node/access/), it has clients and operators prove who they are, and hands on only who has, with his permit.

What the doorman reads it hands on as it came; whoever says nothing, or nonsense, is handed on too, and gets from
the broker the answer that it would have got. Where not everybody is served (node/admin.py), the doorman answers those
who are not in place of the broker, and hands nobody on who has not said Hello.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from runnel.broker.kinds import KINDS
from runnel.broker.permits import Permit
from runnel.errors import PeerError
from runnel.net.driver import Driver
from runnel.net.tcp import TcpConnection
from runnel.node.threshold import Threshold
from runnel.wire import Credentials, Decoder, Frame, Hello, Message, encode
from runnel.wire.header import FIRST_FRAMES_BYTES_MAX

PATIENCE_S = 1.0  # for a Hello; after that the broker's own patience begins
HELLO_WITHIN_S = 5.0  # where nobody is handed on without one
WAITING_BYTES_MAX = FIRST_FRAMES_BYTES_MAX  # of one that has not been handed on yet

Authenticate = Callable[[TcpConnection, Credentials], Awaitable[Permit | Message | None]]
"""The permit of a connection; or what it is told in place of a Hello, None for nothing: then it may come back."""


class Doorman(TcpConnection):
    """An accepted connection. `lead_to` has the driver of a generation, 0 for that of newcomers.

    `refuse` has the answer to those who are not served, by their Hello and the name in their certificate, and None for
    all others; `authenticate` lets in these. Until then they are on the threshold.
    """

    def __init__(
        self,
        lead_to: Callable[[int], Driver],
        refuse: Callable[[Hello, str], Message | None] | None = None,
        authenticate: Authenticate | None = None,
        threshold: Threshold | None = None,
    ) -> None:
        super().__init__(lead_to(0))
        self._threshold = threshold or Threshold()
        self._lead_to = lead_to
        self._refuse = refuse
        self._authenticate = authenticate
        # Nothing more is read: it was handed on or refused, or is being checked.
        self._is_done = False
        self._decoder = Decoder(FIRST_FRAMES_BYTES_MAX)
        self._hello: Hello | None = None
        self._waiting: list[bytes] | None = []  # what was read before the broker sees it
        self._waiting_bytes = 0
        self._patience: asyncio.TimerHandle | None = None
        self._check: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self.take_transport(transport)
        self._threshold.enter(self, self._transport.abort)
        loop = asyncio.get_running_loop()
        if self._refuse is None and self._authenticate is None:
            self._patience = loop.call_later(PATIENCE_S, self._lead, 0)
        else:
            self._patience = loop.call_later(HELLO_WITHIN_S, self.close, "no Hello in time")

    def data_received(self, data: bytes) -> None:
        """Bytes came in."""
        if self._waiting is None:
            self._driver.received(self._conn, data)
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes > WAITING_BYTES_MAX:
            self._refuse_with(None, "it says too much before it is let in")
        elif not self._is_done:
            self._read(data)

    def _read(self, data: bytes) -> None:
        """Read until it is known what becomes of the connection."""
        try:
            frames = iter(self._decoder.feed(data))
        except PeerError:
            self._lead(0)  # the broker says what is wrong
            return
        while not self._is_done and (frame := next(frames, None)) is not None:
            self._take(frame)

    def _take(self, frame: Frame) -> None:
        """The Hello, and what comes behind it."""
        hello = self._hello
        if hello is not None:
            self._begin_check(hello, frame if isinstance(frame, Credentials) else Credentials())
        elif not isinstance(frame, Hello):
            self._lead(0)
        elif self._refuse and (answer := self._refuse(frame, self.certificate_name)):
            self._refuse_with(answer, "not served here")
        elif self._authenticate is None or not _proves_itself(frame):
            self._lead(frame.generation)
        else:
            self._hello = frame  # its credentials are the next frame

    def _refuse_with(self, answer: Message | None, reason: str) -> None:
        self._is_done = True
        if self._check is not None:
            self._check.cancel()
            self._check = None
        if answer is not None:
            self.write([encode(answer)])
        self.close(reason)

    def _begin_check(self, hello: Hello, credentials: Credentials) -> None:
        self._is_done = True
        self._check = asyncio.get_running_loop().create_task(self._let_in(hello, credentials))

    async def _let_in(self, hello: Hello, credentials: Credentials) -> None:
        assert self._authenticate is not None
        answer = await self._authenticate(self, credentials)
        self._check = None
        if isinstance(answer, Permit):
            self._lead(hello.generation, answer)
        else:
            self._refuse_with(answer, "not let in")

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self._threshold.leave(self)
        if self._waiting is None:
            self._driver.closed(self._conn)
            return
        if self._patience is not None:
            self._patience.cancel()
        if self._check is not None:
            self._check.cancel()
        self._waiting = []

    def _lead(self, generation: int, permit: Permit | None = None) -> None:
        """Hand the connection and the bytes read so far to the driver of a generation."""
        self._is_done = True
        self._threshold.leave(self)
        waiting, self._waiting = self._waiting, None
        if self._patience is not None:
            self._patience.cancel()
        self._driver = self._lead_to(generation)
        self._conn = self._driver.opened(self, permit=permit)
        for data in waiting or ():
            self._driver.received(self._conn, data)


def _proves_itself(hello: Hello) -> bool:
    """Whether it is of a kind that has credentials; a broker is asked for its name alone, and the core says to whom."""
    kind = KINDS.get(hello.kind)
    return kind is not None and not kind.is_neighbour
