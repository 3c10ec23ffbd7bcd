"""A dialler for every kind of address that a client may be given."""

from __future__ import annotations

import asyncio
import socket

from runnel.net.addresses import parse_address
from runnel.net.driver import Driver
from runnel.net.memory import SCHEME, MemoryDialler
from runnel.net.tcp import TcpDialler


class AnyDialler:
    """Dials `runnel://host:port` over TCP, `memory://…` within the process."""

    def __init__(self) -> None:
        self._tcp = TcpDialler(parse_address)
        self._memory = MemoryDialler()

    def dial(self, driver: Driver, peer: str) -> None:
        """Begin to open a connection to an address."""
        if peer.startswith(f"{SCHEME}://"):
            self._memory.dial(driver, peer)
        else:
            self._tcp.dial(driver, peer)

    def stop(self) -> None:
        """Give up what is under way."""
        self._tcp.stop()
        self._memory.stop()


def normal_address(url: str) -> str:
    """One spelling for each address, or InputError.

    >>> normal_address("localhost")
    'runnel://localhost:7001'
    """
    return url if url.startswith(f"{SCHEME}://") else str(parse_address(url))


async def is_same_place(one: str, two: str) -> bool:
    """Whether two addresses lead to the same socket, however they are spelt, as far as names can tell."""
    if one == two or one.startswith(f"{SCHEME}://") or two.startswith(f"{SCHEME}://"):
        return one == two
    try:
        return bool(await _sockets(one) & await _sockets(two))
    except OSError:  # what cannot be resolved cannot be dialled either, which will say why
        return False


async def _sockets(url: str) -> set[tuple[object, ...]]:
    address = parse_address(url)
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return {where for *_, where in found}
