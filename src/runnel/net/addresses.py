"""Addresses of brokers: `runnel://host:port`, or `host:port` for short; `runnels://host:port` over TLS."""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from runnel.errors import InputError

SCHEME = "runnel"
SECURE_SCHEME = "runnels"
DEFAULT_PORT = 7001
PORT_MAX = 65_535


class Address(NamedTuple):
    """A host and a port, and whether TLS is spoken there.

    >>> parse_address("runnel://127.0.0.1:7001")
    Address(host='127.0.0.1', port=7001, is_secure=False)
    >>> str(parse_address("[::1]:7002")), str(parse_address("runnels://B1:7001"))
    ('runnel://[::1]:7002', 'runnels://b1:7001')
    >>> parse_address("localhost").port
    7001
    """

    host: str
    port: int
    is_secure: bool = False

    def __str__(self) -> str:
        return f"{SECURE_SCHEME if self.is_secure else SCHEME}://{self.short}"

    @property
    def short(self) -> str:
        """The address without the scheme, for tables.

        >>> parse_address("runnel://[::1]:7001").short
        '[::1]:7001'
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

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
    wrong = InputError(f"{text!r} is no address of a broker: {_what_to_write(text)}")
    try:
        parts = urlsplit(text if "://" in text else f"{SCHEME}://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise wrong from None
    # A number behind `#` names a generation of the network; dialling ignores it.
    fragment = "" if parts.fragment.isdecimal() else parts.fragment
    beyond = parts.path.strip("/") or parts.query or fragment or parts.username
    if parts.scheme not in (SCHEME, SECURE_SCHEME) or not host or beyond:
        raise wrong
    if host.isdecimal() and port is None:  # a port without a host: nobody calls a host by a number
        raise InputError(f"{text!r} is no address of a broker: write HOST:PORT (127.0.0.1:{host})")
    try:
        host.encode("idna")  # as whoever dials it will
    except UnicodeError:
        raise InputError(f"{text!r} is no host name") from None
    port = DEFAULT_PORT if port is None else port
    return Address(host, port, parts.scheme == SECURE_SCHEME)


def _what_to_write(text: str) -> str:
    """A hint at what to write instead.

    >>> _what_to_write("127.0.0.1:99999"), _what_to_write("http://x")
    ('a port is 1–65535', 'write runnel://host:port')
    """
    port = text.rpartition(":")[2]
    is_beyond = port != text and port.isdecimal() and int(port[:9]) > PORT_MAX
    return f"a port is 1–{PORT_MAX}" if is_beyond else f"write {SCHEME}://host:port"
