"""A dialler for all kinds of addresses."""

from __future__ import annotations

import asyncio
import socket
from ssl import SSLContext
from time import monotonic_ns

from runnel.errors import InputError
from runnel.net.addresses import Address, parse_address
from runnel.net.driver import Driver
from runnel.net.memory import SCHEME, MemoryDialler
from runnel.net.tcp import TcpDialler
from runnel.net.tls import Tls, dialling_context
from runnel.net.tls_layer import DialTls

PING_TIMEOUT_S = 1.5
"""How long a round trip may take; a broker waits for the answer of a publisher longer than for so many in a row."""


class AnyDialler:
    """Dials `runnel://host:port` over TCP, `runnels://…` with TLS, `memory://…` within the process.

    With `tls` or `only_tls` it dials nothing without TLS, whoever names the address: a client shows its credentials to
    whom it dials. Without `tls` the environment names the files. They are read at every dial, so they may be renewed.
    """

    def __init__(self, tls: Tls | None = None, *, only_tls: bool = False) -> None:
        self._tls = tls
        self._only_tls = only_tls or tls is not None
        self._tcp = TcpDialler(parse_address, self._secure)
        self._memory = MemoryDialler()

    def _secure(self, peer: str, address: Address) -> DialTls | None:
        if not address.is_secure:
            if self._only_tls:
                raise InputError(f"{address} is without TLS, and this client uses nothing else")
            return None
        return DialTls(_context(self._tls), host=address.host)

    def dial(self, driver: Driver, peer: str, address: str = "") -> None:
        """Start to open a connection to an address; without one, the peer's name is the address."""
        if (address or peer).startswith(f"{SCHEME}://"):
            self._memory.dial(driver, peer, address)
        else:
            self._tcp.dial(driver, peer, address)

    def stop(self) -> None:
        """Give up pending dials."""
        self._tcp.stop()
        self._memory.stop()


def _context(tls: Tls | None) -> SSLContext:
    return dialling_context(tls or Tls.from_environment(), verifies_host=True)


def check_files(tls: Tls | None) -> None:
    """Raise InputError if connections cannot be secured with these files, or those that the environment names."""
    _context(tls)


def normal_address(url: str) -> str:
    """One spelling for each address, or InputError.

    >>> normal_address("localhost")
    'runnel://localhost:7001'
    """
    return url if url.startswith(f"{SCHEME}://") else str(parse_address(url))


async def is_same_place(one: str, two: str) -> bool:
    """Whether two addresses resolve to the same socket, however they are written."""
    if one == two or one.startswith(f"{SCHEME}://") or two.startswith(f"{SCHEME}://"):
        return one == two
    try:
        return bool(await _sockets(one) & await _sockets(two))
    except OSError:  # what cannot be resolved cannot be dialled either, which will say why
        return False


async def measure_round_trip(url: str, samples: int) -> int:
    """The mean time in nanoseconds in which connections to an address open, one after the other; 0: it does not answer.

    That is one round trip, without TLS and without a word to the broker.
    """
    if url.startswith(f"{SCHEME}://"):
        return 1
    address, took = parse_address(url), 0
    for _ in range(samples):
        began = monotonic_ns()
        try:
            async with asyncio.timeout(PING_TIMEOUT_S):
                _, writer = await asyncio.open_connection(address.host, address.port)
        except OSError:  # TimeoutError is one
            return 0
        took += monotonic_ns() - began
        writer.close()
    return max(1, took // samples)


async def _sockets(url: str) -> set[tuple[object, ...]]:
    address = parse_address(url)
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return {where for *_, where in found}
