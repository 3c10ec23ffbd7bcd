"""TLS between a connection's transport and its protocol.

    socket ⇄ asyncio's transport ⇄ TlsLayer ⇄ a protocol that knows nothing of TLS (TcpConnection, …)

To the protocol above the layer is a transport. The protocol is made when the handshake is over, so whoever does not
finish it costs no more than the handshake. The layer buffers nothing but the record that is not complete, and neither
stops reading nor writing: what `tcp.py` says about bounds holds here too. asyncio has TLS of its own, but it says
neither why a handshake failed nor how many are under way, and does not let the first bytes be looked at.

Rules:
- `report` is called once: with "" when the connection is secured, else with the reason why it is not.
- A handshake has `HANDSHAKE_WITHIN_S`. One that failed keeps the socket for `LINGER_S` at most, so that the peer can
  read the alert before the connection is reset.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, cast

from runnel.net.tls import HANDSHAKE_RECORD, TlsError, certificate_name, explain
from runnel.wire import Bye, encode

HANDSHAKE_WITHIN_S = 5.0
LINGER_S = 1.0
_READ_BYTES = 1 << 16

MakeProtocol = Callable[[], asyncio.BaseProtocol]
Report = Callable[[str], None]


class DialTls(NamedTuple):
    """How one connection is to be secured by the side that dials."""

    context: ssl.SSLContext
    host: str | None = None  # which the certificate must be for, if the context verifies hosts
    name: str = ""  # whom the certificate must name, if anybody


class TlsLayer(asyncio.Transport, asyncio.Protocol):
    """See the top of the file. `dialled`: this side has opened the connection."""

    def __init__(
        self,
        context: ssl.SSLContext,
        make_protocol: MakeProtocol,
        report: Report,
        dialled: DialTls | None = None,
    ) -> None:
        super().__init__()
        self._from_peer, self._to_peer = ssl.MemoryBIO(), ssl.MemoryBIO()
        host = None if dialled is None else dialled.host
        self._tls = context.wrap_bio(
            self._from_peer, self._to_peer, server_side=dialled is None, server_hostname=host
        )
        self._dialled = dialled
        self._make_protocol = make_protocol
        self._report = report
        self._above: asyncio.Protocol | None = None  # while the connection is secured
        self._below: asyncio.Transport
        self._is_made = False  # there is a transport below
        self._has_heard = False
        self._is_over = False
        self._error: TlsError | None = None
        self._patience: asyncio.TimerHandle | None = None  # with the handshake, then with a leaver
        self.certificate_name = ""

    # -- the transport below calls --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open, and not secured yet."""
        self._below = cast(asyncio.Transport, transport)
        self._is_made = True
        if self._is_over:
            self._below.abort()
            return
        self._patience = asyncio.get_running_loop().call_later(
            HANDSHAKE_WITHIN_S, self._fail, f"no TLS handshake within {HANDSHAKE_WITHIN_S:g} s"
        )
        if self._dialled is not None:
            self._shake_hands()

    def data_received(self, data: bytes) -> None:
        """Encrypted bytes came in."""
        if self._is_over:
            return
        if not self._has_heard:
            self._has_heard = True
            if self._dialled is None and data[0] != HANDSHAKE_RECORD:
                self._below.write(answer_without_tls(data))
                self._fail("it does not speak TLS")
                return
        self._from_peer.write(data)
        if self._above is None:
            self._shake_hands()
        if self._above is not None:
            self._read()

    def eof_received(self) -> bool:
        """The peer writes no more, so the connection ends."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        above, self._above = self._above, None
        self._is_over = True
        self._wait_no_longer()
        if above is not None:
            above.connection_lost(self._error or error)
        elif self._error is None:
            self._error = TlsError(explain(error or ConnectionError()))
            self._report(str(self._error))

    # -- handshake ------------------------------------------------------------------------------------

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._flush()  # the alert
            self._fail(explain(error))
            return
        self._flush()
        self.certificate_name = certificate_name(self._tls.getpeercert())
        wanted = self._dialled.name if self._dialled is not None else ""
        if wanted and wanted != self.certificate_name:
            self._fail(f"its certificate names {self.certificate_name!r}, not {wanted!r}")
            return
        self._wait_no_longer()
        self._above = cast(asyncio.Protocol, self._make_protocol())
        self._report("")
        self._above.connection_made(self)

    def _fail(self, reason: str) -> None:
        """The connection is not secured, and will not be."""
        if self._is_over:
            return
        self.give_up(reason)
        self._below.write_eof()  # closed, it would be reset if the peer has written meanwhile
        self._patience = asyncio.get_running_loop().call_later(LINGER_S, self._below.abort)

    def give_up(self, reason: str) -> None:
        """Go no further with the handshake; whoever calls it ends the connection (`abort`)."""
        self._is_over = True
        self._wait_no_longer()
        self._error = TlsError(reason)
        self._report(reason)

    def _wait_no_longer(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    # -- decrypting and encrypting --------------------------------------------------------------------

    def _read(self) -> None:
        chunks: list[bytes] = []
        is_ended = False
        try:
            while not is_ended and (self._from_peer.pending or self._tls.pending()):
                chunk = self._tls.read(_READ_BYTES)
                is_ended = not chunk  # the peer has said that nothing more comes
                chunks.append(chunk)
        except ssl.SSLWantReadError:
            pass  # the rest of a record is still to come
        except ssl.SSLError as error:
            self._error = TlsError(explain(error))
        self._flush()  # what TLS itself has to answer
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if data and self._above is not None:
            self._above.data_received(data)
        if self._error is not None:
            self._below.abort()
        elif is_ended:
            self._below.close()

    def _flush(self) -> None:
        if self._to_peer.pending:
            self._below.write(self._to_peer.read())

    # -- the protocol above calls ---------------------------------------------------------------------

    def write(self, data: Any) -> None:
        """Encrypt and send."""
        if self._is_over or self._error is not None:
            return
        sent = self._tls.write(data)
        if sent < len(data):  # a record has 16 KiB at most
            rest = memoryview(data)
            while sent < len(data):
                sent += self._tls.write(rest[sent:])
        self._below.write(self._to_peer.read())

    def close(self) -> None:
        """End it after what was written."""
        if not self._is_over:
            self._is_over = True
            if self._above is not None:
                self._say_end()
            self._below.close()

    def _say_end(self) -> None:
        with suppress(ssl.SSLError):  # nobody waits for the peer to say the same
            self._tls.unwrap()
        self._flush()

    def abort(self) -> None:
        """End it now, or as soon as it is there."""
        self._is_over = True
        if self._is_made:
            self._below.abort()

    def is_closing(self) -> bool:
        """Whether it ends, or has ended."""
        return self._is_over or self._below.is_closing()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Tell another protocol from now on."""
        self._above = cast(asyncio.Protocol, protocol)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """`certificate_name`, or what the transport below knows."""
        if name == "certificate_name":
            return self.certificate_name
        return self._below.get_extra_info(name, default) if self._is_made else default


def answer_without_tls(data: bytes) -> bytes:
    """What somebody is told who does not speak TLS where it is spoken, in the language that was tried.

    >>> answer_without_tls(b"GET /metrics HTTP/1.1").partition(b"\\r\\n")[0]
    b'HTTP/1.1 400 Bad Request'
    """
    if data[:1].isalpha():
        said = b"this port speaks HTTPS: write https://\n"
        head = f"Content-Length: {len(said)}\r\nConnection: close\r\n\r\n".encode()
        return b"HTTP/1.1 400 Bad Request\r\n" + head + said
    return encode(Bye("this broker speaks TLS: write runnels:// in place of runnel://"))
