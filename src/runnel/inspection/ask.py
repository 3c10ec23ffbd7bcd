"""The asker's side: one blocking connection over which questions are asked, for command lines and tests.

It introduces itself as a client, asks, acknowledges what it gets, and leaves with a Bye; so the broker remembers
nothing of it. It shows that it lives only while it waits for an answer: a connection that is silent for three
heartbeats is closed by the broker.

Rule: whatever goes wrong is an `AskError` that names the address and says what to do.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import msgspec

from runnel.errors import NetworkError, PeerError
from runnel.inspection.messages import Answer, Ask
from runnel.inspection.questions import NAME_OF, Question
from runnel.wire import (
    PROTOCOL,
    Ack,
    Bye,
    Decoder,
    Frame,
    Hello,
    Lane,
    Message,
    Publication,
    encode,
    lane_of,
)

TIMEOUT_S = 5.0
NAME_PREFIX = "inspector-"  # by which a broker's log knows who only asks
_CHUNK_BYTES = 1 << 16
_BEAT_S = 0.5  # a sign of life so often, while an answer is waited for


class AskError(NetworkError):
    """A broker could not be asked, or does not know the answer."""


class Asker:
    """A connection to one broker; `ask` as often as you like, then `close` (or use `with`)."""

    def __init__(
        self, host: str, port: int, timeout_s: float = TIMEOUT_S, generation: int = 0
    ) -> None:
        self.address = f"runnel://{host}:{port}"
        self._deadline = time.monotonic() + timeout_s
        self._timeout_s = timeout_s
        self._decoder = Decoder()
        self._frames: list[Frame] = []
        self._received = 0
        self._token = 0
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise AskError(
                f"no broker answers at {self.address}: {error.strerror or error}; "
                "check the address, or start one with runnel broker or runnel up"
            ) from None
        try:
            name = f"{NAME_PREFIX}{secrets.token_hex(8)}"
            token = secrets.randbits(62) | 1
            self._send(Hello(PROTOCOL, "client", name, token, 0, 0, 0, 0, generation))
            hello = self._next()
            if not isinstance(hello, Hello) or hello.kind != "broker":
                raise AskError(f"{self.address} is no Runnel broker: check the address")
            self.broker = hello.name
            self.generation = hello.generation
        except BaseException:
            self._socket.close()
            raise

    def ask(self, question: Question) -> dict[str, Any]:
        """Ask one thing; the answer."""
        self._token += 1
        argument = msgspec.Raw(msgspec.msgpack.encode(question))
        body = b""
        for frame in self.exchange(Ask(self._token, NAME_OF[type(question)], argument)):
            if isinstance(frame, Answer) and frame.token == self._token:
                body += frame.body
                if not frame.more:
                    break
        answer: dict[str, Any] = msgspec.msgpack.decode(body)
        if "error" in answer:
            raise AskError(str(answer["error"]))
        return answer

    def exchange(self, message: Message, timeout_s: float | None = None) -> Iterator[Message]:
        """Send a message; the monitoring that comes, for as long as whoever asks wants more and there is time."""
        self._timeout_s = self._timeout_s if timeout_s is None else timeout_s
        self._deadline = time.monotonic() + self._timeout_s
        self._send(message)
        while True:
            frame = self._next()
            if isinstance(frame, Bye):
                raise AskError(f"{self.address} is leaving: {frame.reason}")
            if not isinstance(frame, Publication) and lane_of(frame) is Lane.MONITOR:
                self._received += 1
                self._acknowledge()
                yield frame

    def close(self) -> None:
        """Leave; the broker forgets that anybody asked."""
        try:
            self._socket.sendall(encode(Bye("asked enough")))
        except OSError:
            pass  # it is gone already, which is all that was to be said
        finally:
            self._socket.close()

    def __enter__(self) -> Asker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def _send(self, message: Message) -> None:
        try:
            self._socket.sendall(encode(message))
        except OSError as error:
            raise AskError(f"{self.address} broke off: {error.strerror or error}") from None

    def _acknowledge(self) -> None:
        self._send(Ack(data=0, monitor=self._received, credit=0, congested=False))

    def _next(self) -> Frame:
        """The next frame, within the time that is left."""
        while not self._frames:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise self._too_late()
            self._socket.settimeout(min(left, _BEAT_S))
            try:
                chunk = self._socket.recv(_CHUNK_BYTES)
                self._frames = list(self._decoder.feed(chunk))
            except TimeoutError:
                self._acknowledge()
                continue
            except PeerError as error:
                raise AskError(f"{self.address} is no Runnel broker of this age: {error}") from None
            except OSError as error:
                raise AskError(f"{self.address} broke off: {error.strerror or error}") from None
            if not chunk:
                raise AskError(f"{self.address} closed the connection: is it a Runnel broker?")
        return self._frames.pop(0)

    def _too_late(self) -> AskError:
        return AskError(
            f"{self.address} accepted the connection but did not answer within "
            f"{self._timeout_s:g} s: it may be stopped or overloaded"
        )


def ask(host: str, port: int, question: Question, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Ask one thing over a connection of its own."""
    with Asker(host, port, timeout_s) as asker:
        return asker.ask(question)
