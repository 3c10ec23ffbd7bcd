"""Asks brokers questions over a blocking connection, for command lines and tests.

The connection's Hello is that of an operator. It asks, acknowledges the answers, and leaves with a Bye, so the broker
keeps no state about it. It sends heartbeats only while it waits for an answer: if it is silent for three heartbeats
otherwise, the broker closes the connection.

Rule: every failure is an `AskError` that names the address and says what to do.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from runnel.broker.questions import Question
from runnel.client.credentials import FILE, PASSWORD, TOKEN, USER, find_credentials
from runnel.errors import AccessDenied, NetworkError, PeerError
from runnel.modules.inspection.messages import Answer, Ask, Referral
from runnel.net.addresses import Address, parse_address
from runnel.net.tls import Tls, dialling_context, explain
from runnel.wire import (
    PROTOCOL,
    Ack,
    Bye,
    Decoder,
    Denied,
    Frame,
    Hello,
    Lane,
    Message,
    Publication,
    Way,
    encode,
    lane_of,
    may_go,
)
from runnel.wire.header import PROTOCOL_MARK

TIMEOUT_S = 5.0
_CHUNK_BYTES = 1 << 16
_BEAT_S = 0.5  # the interval of heartbeats while an answer is waited for


class AskError(NetworkError):
    """A broker could not be asked, or does not know the answer."""


class Asker:
    """A connection to one broker; `ask` as often as you like, then `close` (or use `with`)."""

    def __init__(self, dialled: Address, timeout_s: float = TIMEOUT_S, generation: int = 0) -> None:
        self._deadline = time.monotonic() + timeout_s
        self._timeout_s = timeout_s
        self._received = 0
        self._token = 0
        answer = self._dial(dialled, generation)
        if isinstance(answer, Referral):
            self._socket.close()
            answer = self._dial(self._follow_referral(dialled, answer), generation)
        if isinstance(answer, Bye):
            self._socket.close()
            raise AskError(f"{self.address}: {answer.reason}")
        if not isinstance(answer, Hello) or answer.kind != "broker":
            self._socket.close()
            raise AskError(f"{self.address} is no Runnel broker: check the address")
        self.broker = answer.name
        self.generation = answer.generation

    def ask(self, question: Question) -> dict[str, Any]:
        """Ask one question and return the answer."""
        self._token += 1
        argument = msgspec.Raw(msgspec.msgpack.encode(question))
        body = b""
        for frame in self.exchange(Ask(self._token, question.asked_as, argument)):
            if isinstance(frame, Answer) and frame.token == self._token:
                body += frame.body
                if not frame.more:
                    break
        answer: dict[str, Any] = msgspec.msgpack.decode(body)
        if "error" in answer:
            raise AskError(str(answer["error"]))
        return answer

    def exchange(self, message: Message, timeout_s: float | None = None) -> Iterator[Message]:
        """Send a message and yield the monitoring messages that come, until the caller stops or the time is over."""
        self._timeout_s = self._timeout_s if timeout_s is None else timeout_s
        self._deadline = time.monotonic() + self._timeout_s
        self._send(message)
        while True:
            frame = self._next()
            if isinstance(frame, Denied):
                raise self._denied(frame)
            if isinstance(frame, Bye):
                raise AskError(f"{self.address} is leaving: {frame.reason}")
            if isinstance(frame, Publication) or not may_go(type(frame), Way.TO_OPERATOR):
                raise AskError(f"{self.address} sent what no broker may: it is no Runnel broker")
            if lane_of(frame) is Lane.MONITOR:
                self._received += 1
                self._acknowledge()
                yield frame

    def close(self) -> None:
        """Leave; the broker forgets this connection."""
        try:
            self._socket.sendall(encode(Bye("asked enough")))
        except OSError:
            pass  # the connection is gone already
        finally:
            self._socket.close()

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _dial(self, address: Address, generation: int) -> Frame:
        """Open a connection and say Hello; the answer."""
        self.address = str(address)
        self._decoder = Decoder()
        self._frames: list[Frame] = []
        self._socket = self._connect(address)
        try:
            # Messages are short and must not wait for each other (Nagle's algorithm).
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            name = f"inspector-{secrets.token_hex(8)}"
            token = secrets.randbits(62) | 1
            hello = Hello(PROTOCOL, "operator", name, token, 0, 0, 0, 0, generation)
            self._send(hello, find_credentials()())
            answer = self._next()
            if isinstance(answer, Denied):
                raise self._denied(answer)
            return answer
        except BaseException:
            self._socket.close()
            raise

    def _connect(self, address: Address) -> socket.socket:
        """A connection to a broker, secured if the address says so."""
        tls = Tls.from_environment() if address.is_secure else None
        context = None if tls is None else dialling_context(tls, verifies_host=True)
        try:
            opened = socket.create_connection((address.host, address.port), self._timeout_s)
        except OSError as error:
            raise AskError(
                f"no broker answers at {self.address}: {error.strerror or error}; "
                "check the address, or start one with runnel broker or runnel up"
            ) from None
        if context is None:
            return opened
        try:
            return context.wrap_socket(opened, server_hostname=address.host)
        except OSError as error:
            opened.close()
            raise AskError(f"{self.address}: {explain(error)}") from None

    def _follow_referral(self, dialled: Address, referral: Referral) -> Address:
        """Where the same broker serves operators: followed on this machine, but never to a place on another."""
        admin = parse_address(referral.address)
        if dialled.is_secure and not admin.is_secure:
            raise AskError(
                f"{self.address} refuses operators: its admin address is {admin}, which is without TLS"
            )
        if admin.is_loopback and not dialled.is_loopback:
            raise AskError(
                f"{self.address} refuses operators: its admin address is {admin}, so ask on that machine"
            )
        if admin.host != dialled.host and not admin.is_loopback:
            raise AskError(
                f"{self.address} refuses operators: its admin address is {admin}; ask there"
            )
        return admin

    def _denied(self, denied: Denied) -> AccessDenied:
        return AccessDenied(
            f"{self.address} denies access: {denied.reason}. Say who you are with {USER}, and {PASSWORD}{FILE} or "
            f"{TOKEN}{FILE} (docs/access.md)"
        )

    def _send(self, *messages: Message) -> None:
        try:
            self._socket.sendall(b"".join(map(encode, messages)))
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
                if PROTOCOL_MARK not in chunk:
                    raise AskError(
                        f"{self.address} answers, but does not speak Runnel: check the address"
                    ) from None
                raise AskError(f"{self.address} is no Runnel broker of this age: {error}") from None
            except ssl.SSLError as error:
                raise AskError(f"{self.address}: {explain(error)}") from None
            except OSError as error:
                raise AskError(f"{self.address} broke off: {error.strerror or error}") from None
            if not chunk:
                raise AskError(f"{self.address} closed the connection: is it a Runnel broker?")
        return self._frames.pop(0)

    def _too_late(self) -> AskError:
        return AskError(
            f"{self.address} accepted the connection but did not answer within "
            f"{self._timeout_s:g} s: it may be stopped or overloaded, or no Runnel broker"
        )


def ask(address: Address, question: Question, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Ask one question over a new connection."""
    with Asker(address, timeout_s) as asker:
        return asker.ask(question)
