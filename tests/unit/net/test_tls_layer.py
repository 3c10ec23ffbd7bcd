"""The layer between transport and protocol: what is written arrives whole, in whatever pieces; who fails is told."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from runnel.net import tls_layer
from runnel.net.tls import Tls, accepting_context, dialling_context
from runnel.net.tls_layer import DialTls, TlsLayer
from runnel.operate.certificate_folder import CertificateFolder
from runnel.wire import Bye, Decoder
from support.certificates import make_folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFolder:
    return make_folder(tmp_path_factory.mktemp("certs"), ["B1", "B2"])


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> CertificateFolder:
    return make_folder(tmp_path_factory.mktemp("strange"))


class Upper(asyncio.Protocol):
    """A protocol above a layer: what it was told."""

    def __init__(self) -> None:
        self.read = b""
        self.lost: list[Exception | None] = []
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.read += data

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)


class Lower(asyncio.Transport):
    """A transport below a layer, whose bytes go to the other end when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.written: deque[bytes] = deque()
        self.ended = ""

    def write(self, data: Any) -> None:
        assert self.ended in ("", "eof") and len(data), "nothing is written to a closed connection"
        self.written.append(bytes(data))

    def write_eof(self) -> None:
        self.ended = self.ended or "eof"

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def is_closing(self) -> bool:
        return self.ended in ("closed", "aborted")


class Joined:
    """Two layers whose bytes are passed on in pieces of any size."""

    def __init__(self, accepting: ssl.SSLContext, dial: DialTls, piece: int = 1 << 20) -> None:
        self.piece = piece
        self.upper = Upper(), Upper()
        self.lower = Lower(), Lower()
        self.reports: tuple[list[str], list[str]] = [], []
        dialled = TlsLayer(dial.context, lambda: self.upper[0], self.reports[0].append, dial)
        accepted = TlsLayer(accepting, lambda: self.upper[1], self.reports[1].append)
        self.layers = dialled, accepted
        accepted.connection_made(self.lower[1])
        dialled.connection_made(self.lower[0])
        self.pump()

    def pump(self) -> None:
        """Pass on what was written, until nothing more is."""
        while any(lower.written for lower in self.lower):
            for lower, layer in zip(self.lower, reversed(self.layers), strict=True):
                while lower.written:
                    data = lower.written.popleft()
                    for start in range(0, len(data), self.piece):
                        layer.data_received(data[start : start + self.piece])


def on_loop(test: Callable[[], None]) -> None:
    async def main() -> None:
        test()

    asyncio.run(main())


def join(files: CertificateFolder, **options: Any) -> Joined:
    accepting = accepting_context(files.tls("B1"), demands_certificate=True)
    dialling = dialling_context(files.tls("alice"), verifies_host=True)
    return Joined(accepting, DialTls(dialling, host="localhost"), **options)


@pytest.mark.parametrize("piece", [1, 7, 16_389, 1 << 20])
def test_what_is_written_arrives_whatever_the_pieces(files: CertificateFolder, piece: int) -> None:
    def test() -> None:
        both = join(files, piece=piece)
        assert both.reports == ([""], [""])
        assert both.layers[1].certificate_name == "alice"
        assert both.upper[1].transport.get_extra_info("certificate_name") == "alice"
        there, back = bytes(range(256)) * 300, b"x" * 70_000
        both.layers[0].write(there[:1])
        both.layers[0].write(there[1:])
        both.layers[1].write(back)
        both.pump()
        assert (both.upper[1].read, both.upper[0].read) == (there, back)

    on_loop(test)


def test_what_was_written_before_the_end_arrives_before_the_end(files: CertificateFolder) -> None:
    def test() -> None:
        both = join(files)
        both.layers[0].write(b"last")
        both.layers[0].close()
        both.layers[0].write(b"too late")
        assert both.lower[0].ended == "closed"
        both.pump()
        assert both.upper[1].read == b"last"
        assert both.lower[1].ended == "closed", "the peer has said that nothing more comes"
        both.layers[1].connection_lost(None)
        assert both.upper[1].lost == [None]

    on_loop(test)


def test_changed_bytes_end_the_connection_and_reach_nobody(files: CertificateFolder) -> None:
    def test() -> None:
        both = join(files)
        both.layers[0].write(b"secret")
        sent = bytearray(both.lower[0].written.popleft())
        sent[-1] ^= 1
        both.layers[1].data_received(bytes(sent))
        assert both.lower[1].ended == "aborted"
        assert both.upper[1].read == b""
        both.layers[1].connection_lost(None)
        assert "TLS failed" in str(both.upper[1].lost[0])

    on_loop(test)


def test_a_certificate_of_another_authority_is_refused_by_either_side(
    files: CertificateFolder, strange: CertificateFolder
) -> None:
    def test() -> None:
        dialling = dialling_context(files.tls("alice"), verifies_host=True)
        accepting = accepting_context(strange.tls("B1"), demands_certificate=True)
        both = Joined(accepting, DialTls(dialling, host="localhost"))
        assert "not signed by the authority" in both.reports[0][0]
        assert both.upper[0].transport is both.upper[1].transport is None

        shown = Tls(
            files.certificate("authority"), strange.certificate("alice"), strange.key("alice")
        )
        accepting = accepting_context(files.tls("B1"), demands_certificate=True)
        dialling = dialling_context(shown, verifies_host=True)
        both = Joined(accepting, DialTls(dialling, host="localhost"))
        assert "not signed by the authority" in both.reports[1][0]
        # In TLS 1.3 the side that dials has finished by then, and is told by an alert.
        assert both.reports[0] == [""]
        both.layers[0].connection_lost(None)
        assert "refuses our certificate" in str(both.upper[0].lost[0])
        assert both.lower[1].ended == "eof", "the alert can still be read"

    on_loop(test)


@pytest.mark.parametrize(
    ("dial", "said"),
    [
        ({"host": "example.org"}, "its certificate is for another host"),
        ({"host": "localhost", "name": "B2"}, "its certificate names 'B1', not 'B2'"),
    ],
)
def test_a_broker_of_another_name_is_not_taken(
    files: CertificateFolder, dial: dict[str, str], said: str
) -> None:
    def test() -> None:
        dialling = dialling_context(files.tls("B2"), verifies_host=True)
        accepting = accepting_context(files.tls("B1"), demands_certificate=True)
        both = Joined(accepting, DialTls(dialling, **dial))
        assert said in both.reports[0][0]
        assert both.upper[0].transport is None

    on_loop(test)


def test_a_client_cannot_answer_for_a_broker(files: CertificateFolder) -> None:
    def test() -> None:
        dialling = dialling_context(files.tls("B2"), verifies_host=False)
        accepting = accepting_context(files.tls("alice"), demands_certificate=True)
        both = Joined(accepting, DialTls(dialling, name="alice"))
        assert "its certificate is not valid" in both.reports[0][0]

    on_loop(test)


def test_whoever_speaks_no_tls_is_answered_in_his_own_language(files: CertificateFolder) -> None:
    def test() -> None:
        for said, answered in (
            (b"\0\0\0\x10nonsense", lambda data: isinstance(Decoder().feed(data)[0], Bye)),
            (b"GET / HTTP/1.1\r\n", lambda data: data.startswith(b"HTTP/1.1 400 ")),
        ):
            reports: list[str] = []
            lower = Lower()
            accepting = accepting_context(files.tls("B1"), demands_certificate=True)
            layer = TlsLayer(accepting, Upper, reports.append)
            layer.connection_made(lower)
            layer.data_received(said)
            layer.data_received(said)
            assert reports == ["it does not speak TLS"]
            assert answered(b"".join(lower.written))
            assert lower.ended == "eof"
            layer.connection_lost(None)
            assert reports == ["it does not speak TLS"]

    on_loop(test)


def test_a_handshake_has_its_time_and_then_the_peer_a_moment_to_leave(
    files: CertificateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_layer, "HANDSHAKE_WITHIN_S", 0.02)
    monkeypatch.setattr(tls_layer, "LINGER_S", 0.02)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        failed: asyncio.Future[str] = loop.create_future()
        lower = Lower()
        aborted = loop.create_future()
        lower.abort = lambda: aborted.set_result(None)  # type: ignore[method-assign]
        accepting = accepting_context(files.tls("B1"), demands_certificate=True)
        TlsLayer(accepting, Upper, failed.set_result).connection_made(lower)
        async with asyncio.timeout(10):
            assert await failed == "no TLS handshake within 0.02 s"
            await aborted

    asyncio.run(main())


def test_a_connection_that_ends_during_the_handshake_is_told_once(files: CertificateFolder) -> None:
    def test() -> None:
        reports: list[str] = []
        accepting = accepting_context(files.tls("B1"), demands_certificate=True)
        layer = TlsLayer(accepting, Upper, reports.append)
        layer.connection_made(Lower())
        layer.connection_lost(ConnectionResetError())
        layer.connection_lost(None)
        assert len(reports) == 1
        assert reports[0].startswith("it ended the connection during the TLS handshake")

    on_loop(test)
