"""Where a broker is to be found: `runnel://host:port`, or `host:port` for short."""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from runnel.errors import InputError

SCHEME = "runnel"
DEFAULT_PORT = 7001
PORT_MAX = 65_535


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
    def short(self) -> str:
        """Without the scheme, where there is little room.

        >>> parse_address("runnel://[::1]:7001").short
        '[::1]:7001'
        """
        return str(self).removeprefix(f"{SCHEME}://")

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
    # A number behind `#` names a generation of the network; whoever dials need not know.
    fragment = "" if parts.fragment.isdecimal() else parts.fragment
    beyond = parts.path.strip("/") or parts.query or fragment or parts.username
    if parts.scheme != SCHEME or not host or beyond:
        raise wrong
    if host.isdecimal() and port is None:  # a port without a host: nobody calls a host by a number
        raise InputError(f"{text!r} is no address of a broker: write HOST:PORT (127.0.0.1:{host})")
    try:
        host.encode("idna")  # as whoever dials it will
    except UnicodeError:
        raise InputError(f"{text!r} is no host name") from None
    return Address(host, DEFAULT_PORT if port is None else port)


def _what_to_write(text: str) -> str:
    """What would have been right, as far as one can tell what was meant.

    >>> _what_to_write("127.0.0.1:99999"), _what_to_write("http://x")
    ('a port is 1–65535', 'write runnel://host:port')
    """
    port = text.rpartition(":")[2]
    is_beyond = port != text and port.isdecimal() and int(port[:9]) > PORT_MAX
    return f"a port is 1–{PORT_MAX}" if is_beyond else f"write {SCHEME}://host:port"
