"""Where a broker is to be found: `runnel://host:port`, or `host:port` for short."""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from runnel.errors import InputError

SCHEME = "runnel"
DEFAULT_PORT = 7001


class Address(NamedTuple):
    """A host and a port.

    >>> parse_address("runnel://127.0.0.1:7001")
    Address(host='127.0.0.1', port=7001)
    >>> str(parse_address("[::1]:7002"))
    'runnel://[::1]:7002'
    >>> parse_address("localhost").port
    7001
    """

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{SCHEME}://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it.

        >>> [Address(host, 1).is_loopback for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "example.org")]
        [True, True, True, False, False]
        """
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(text: str) -> Address:
    """Read an address, or raise InputError.

    >>> parse_address("http://127.0.0.1:7001")
    Traceback (most recent call last):
    runnel.errors.InputError: 'http://127.0.0.1:7001' is no address of a broker: write runnel://host:port
    """
    wrong = InputError(f"{text!r} is no address of a broker: write {SCHEME}://host:port")
    try:
        parts = urlsplit(text if "://" in text else f"{SCHEME}://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise wrong from None
    beyond = parts.path.strip("/") or parts.query or parts.fragment or parts.username
    if parts.scheme != SCHEME or not host or beyond:
        raise wrong
    return Address(host, DEFAULT_PORT if port is None else port)
