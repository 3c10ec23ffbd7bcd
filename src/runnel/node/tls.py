"""The TLS of a node: contexts that can be made again while it runs, and a door for handshakes.

A handshake that is not finished costs memory and a descriptor, and whoever can reach the port can begin one. So there
are `HANDSHAKES_MAX` of them at most, and each new one beyond that ends the oldest: an honest one takes milliseconds, so
the oldest is one of those that never end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from runnel.broker.kinds import kind_of
from runnel.errors import PeerError
from runnel.net.addresses import Address
from runnel.net.tls import Tls, accepting_context, dialling_context
from runnel.net.tls_layer import LINGER_S, DialTls, MakeProtocol, TlsLayer
from runnel.node.config import TlsTable
from runnel.operate.certificates import certificate_expiry
from runnel.wire import Bye, Hello, Message

HANDSHAKES_MAX = 256
SOON_DAYS = 30


class NodeTls:
    """See the top of the file. `note_failure` is called with the reason and the address of each peer that failed."""

    def __init__(self, config: TlsTable, note_failure: Callable[[str, str], None]) -> None:
        self._config = config
        self._note_failure = note_failure
        self._under_way: dict[TlsLayer, None] = {}  # handshakes, the oldest first
        self.failures = 0  # handshakes that failed
        self.expires: datetime  # the certificate
        self.reload()

    def reload(self) -> None:
        """Read the files again, for connections from now on; InputError if they cannot be used, and nothing changes."""
        config = self._config
        tls = Tls(config.authority, config.certificate, config.key)
        accepting = accepting_context(tls, demands_certificate=config.require_certificate)
        dialling = dialling_context(tls, verifies_host=False)
        self.expires = certificate_expiry(Path(config.certificate))
        self._accepting, self._dialling = accepting, dialling

    @property
    def expires_soon(self) -> bool:
        """Whether the certificate is to be renewed now."""
        return self.expires - datetime.now(UTC) < timedelta(days=SOON_DAYS)

    def accept(self, make_protocol: MakeProtocol) -> TlsLayer:
        """An accepted connection; the protocol is made when it is secured."""
        layer = TlsLayer(
            self._accepting, make_protocol, lambda problem: self._settled(layer, problem)
        )
        self._under_way[layer] = None
        if len(self._under_way) > HANDSHAKES_MAX:
            oldest = next(iter(self._under_way))
            del self._under_way[oldest]
            oldest.give_up(
                f"more than {HANDSHAKES_MAX} handshakes at once, and this was the oldest"
            )
            oldest.abort()
        return layer

    def dial(self, peer: str, address: Address) -> DialTls:
        """How a connection to a neighbour is secured: its certificate names the broker, not the host."""
        return DialTls(self._dialling, name=peer)

    def _settled(self, layer: TlsLayer, problem: str) -> None:
        if not problem:
            self._under_way.pop(layer, None)
            return
        self.failures += 1
        host, *_ = layer.get_extra_info("peername") or ("?",)
        self._note_failure(problem, str(host))
        if layer not in self._under_way:
            return
        # It may still read the alert, and counts until it is gone.
        asyncio.get_running_loop().call_later(LINGER_S, self._under_way.pop, layer, None)


def refuse_false_name(hello: Hello, certificate_name: str) -> Message | None:
    """What a broker is answered whose certificate names somebody else; None to everybody else."""
    if not _is_neighbour(hello) or hello.name == certificate_name:
        return None
    shown = f"one for {certificate_name!r}" if certificate_name else "none"
    return Bye(
        f"broker {hello.name} has to show a certificate for {hello.name!r}, and showed {shown}"
    )


def _is_neighbour(hello: Hello) -> bool:
    try:
        return kind_of(hello.kind).is_neighbour
    except PeerError:
        return False  # the broker will say so
