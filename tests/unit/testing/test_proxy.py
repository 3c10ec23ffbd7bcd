"""The proxy breaks what it should, when it should, and nothing else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from runnel.testing.proxy import Proxy


class Echo:
    """A server that sends back whatever comes."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except OSError:
                return

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    echo = Echo()
    with Proxy(echo.address) as proxy:
        yield proxy
    echo.close()


def dial(proxy: Proxy) -> socket.socket:
    return socket.create_connection(proxy.address[:2], timeout=10)


def say(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return hear(connection, len(data))


def hear(connection: socket.socket, size: int) -> bytes:
    heard = b""
    while len(heard) < size:
        piece = connection.recv(65536)
        if not piece:
            break
        heard += piece
    return heard


def test_bytes_pass_both_ways_and_are_counted(proxy: Proxy) -> None:
    data = bytes(range(256)) * 4_000
    with dial(proxy) as connection:
        sender = threading.Thread(target=connection.sendall, args=(data,))
        sender.start()
        assert hear(connection, len(data)) == data
        sender.join()
    assert proxy.passed_bytes == 2 * len(data)


def test_a_reset_breaks_what_is_there_and_lets_new_ones_in(proxy: Proxy) -> None:
    with dial(proxy) as first, dial(proxy) as second:
        assert (say(first, b"a"), say(second, b"b")) == (b"a", b"b")
        assert proxy.reset() == 2
        for connection in (first, second):
            with pytest.raises(ConnectionResetError):
                connection.recv(1)
    with dial(proxy) as third:
        assert say(third, b"c") == b"c"
    assert proxy.accepted == 3


def test_while_cut_nobody_comes_through(proxy: Proxy) -> None:
    with dial(proxy) as connection:
        assert say(connection, b"a") == b"a"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with pytest.raises(ConnectionResetError), dial(proxy) as connection:  # then, or already there
        connection.recv(1)
    proxy.restore()
    with dial(proxy) as connection:
        assert say(connection, b"b") == b"b"


def test_a_stalled_proxy_holds_everything_back_and_loses_nothing(proxy: Proxy) -> None:
    with dial(proxy) as old:
        assert say(old, b"a") == b"a"
        proxy.stall()
        old.sendall(b"b")
        with dial(proxy) as new:
            new.sendall(b"c")
            proxy.wait_open(2)
            passed = proxy.passed_bytes
            old.settimeout(0.2)
            with pytest.raises(TimeoutError):
                old.recv(1)
            assert proxy.passed_bytes == passed
            old.settimeout(10)
            proxy.resume()
            assert (hear(old, 1), hear(new, 1)) == (b"b", b"c")


def test_an_end_is_passed_on(proxy: Proxy) -> None:
    with dial(proxy) as connection:
        assert say(connection, b"a") == b"a"
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""


def test_a_target_that_is_not_there_is_a_reset() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # taken, so that nobody else listens there, but not listened on
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        reset = pytest.raises(ConnectionResetError)
        with Proxy(address) as proxy, reset, dial(proxy) as connection:
            connection.recv(1)


def test_waiting_in_vain_ends_with_an_error(proxy: Proxy) -> None:
    with pytest.raises(TimeoutError):
        proxy.wait_open(timeout_s=0.01)
    with pytest.raises(TimeoutError):
        proxy.wait_passed(1, timeout_s=0.01)


def test_closing_leaves_no_thread_and_may_be_done_twice(proxy: Proxy) -> None:
    with dial(proxy) as connection:
        assert say(connection, b"a") == b"a"
        proxy.close()
        proxy.close()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    assert "proxy" not in {thread.name for thread in threading.enumerate()}
