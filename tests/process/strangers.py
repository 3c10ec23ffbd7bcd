"""A stranger: a socket over which anything is said to a broker, sound or not, and what comes back."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

import runnel.compose  # noqa: F401 - so that the messages of all modules are known
from runnel.errors import PeerError
from runnel.net.addresses import parse_address
from runnel.wire import PROTOCOL, Decoder, Frame, Hello, Message, encode

WITHIN_S = 20.0


class Stranger:
    """Connected to a broker; says Hello if it has a name."""

    def __init__(self, url: str, kind: str = "client", name: str = "", token: int = 77) -> None:
        where = parse_address(url)
        self._socket = socket.create_connection((where.host, where.port), WITHIN_S)
        self._decoder = Decoder()
        if name:
            self.say(Hello(PROTOCOL, kind, name, token, 0, 0, 0, 0))

    def say(self, *frames: Message | bytes) -> None:
        """Send these; a broker that has closed meanwhile does not mind."""
        chunk = b"".join(one if isinstance(one, bytes) else encode(one) for one in frames)
        with suppress(OSError):
            self._socket.sendall(chunk)

    def hear_all(self) -> list[Frame]:
        """All that comes until the broker closes the connection, which it must."""
        found: list[Frame] = []
        try:
            while chunk := self._socket.recv(1 << 16):
                found += self._decoder.feed(chunk)
        except ConnectionError:
            pass
        except (TimeoutError, PeerError) as error:
            raise AssertionError(f"{error!r} after {found}") from None
        return found

    def hear_until(self, is_enough: Callable[[Frame], bool]) -> list[Frame]:
        """What comes until there is such a frame, or the broker closes the connection."""
        found: list[Frame] = []
        with suppress(ConnectionError):
            while chunk := self._socket.recv(1 << 16):
                heard = self._decoder.feed(chunk)
                found += heard
                if any(map(is_enough, heard)):
                    break
        return found

    def finish(self) -> list[Frame]:
        """Say nothing more, and read until the broker has closed, too; what came."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        return self.hear_all()

    def hear(self) -> list[Frame]:
        """What comes next."""
        chunk = self._socket.recv(1 << 16)
        assert chunk, "the broker has closed the connection"
        return self._decoder.feed(chunk)

    def close(self) -> None:
        """Be gone."""
        self._socket.close()

    def __enter__(self) -> Stranger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()
