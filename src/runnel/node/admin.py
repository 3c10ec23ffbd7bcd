"""The admin listener: a port for those who operate a broker, apart from the port of brokers and clients.

    first byte a letter   HTTP, for monitoring: /metrics, /healthz, /readyz
    anything else         the Runnel protocol, for operators (`runnel status`, `runnel apply` …)

A frame begins with its length, which is below 2**24, so its first byte is 0 and never a letter. Where there is an
admin listener, operators are refused on the other port, and everybody else on this one. With access rules an operator
needs a user with a role, and so does who reads metrics; the two other pages are for all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import cast

from runnel.broker.kinds import kind_of
from runnel.errors import PeerError
from runnel.modules.inspection.messages import Referral
from runnel.net.addresses import Address
from runnel.node.core import Core
from runnel.node.exposition import CONTENT_TYPE
from runnel.node.http import PATIENCE_S, Authorise, HttpExchange, Page, Pages
from runnel.node.metrics import write_metrics
from runnel.node.threshold import Threshold
from runnel.wire import Bye, Hello, Message


class AdminConnection(asyncio.Protocol):
    """An accepted connection until its first byte tells what it speaks; then it is somebody else's."""

    def __init__(
        self,
        pages: Pages,
        make_operator: Callable[[], asyncio.Protocol],
        authorise: Authorise | None = None,
        threshold: Threshold | None = None,
    ) -> None:
        self._threshold = threshold or Threshold()
        self._pages = pages
        self._authorise = authorise
        self._make_operator = make_operator
        self._transport: asyncio.Transport
        self._patience: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)
        self._threshold.enter(self, self._transport.abort)
        self._patience = asyncio.get_running_loop().call_later(PATIENCE_S, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        """The first bytes."""
        self._patience.cancel()
        self._threshold.leave(self)
        speaks_http = data[:1].isalpha()
        protocol = (
            HttpExchange(self._pages, self._authorise, self._threshold)
            if speaks_http
            else self._make_operator()
        )
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone before it said anything."""
        self._threshold.leave(self)
        self._patience.cancel()


OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Pages for whoever can reach the port: what starts and stops brokers has no password."""


def refer_operators(hello: Hello, admin: Address) -> Message | None:
    """What the port of brokers and clients answers to an operator; None to everybody else."""
    return Referral(str(admin)) if _only_asks(hello) else None


def refuse_peers(hello: Hello, listens: Address) -> Message | None:
    """What the admin port answers to whoever is no operator."""
    if _only_asks(hello):
        return None
    return Bye(f"only operators are served here: connect to {listens}", is_final=True)


def _only_asks(hello: Hello) -> bool:
    try:
        return not kind_of(hello.kind).is_routed
    except PeerError:
        return False  # the broker will say so


# -- what monitoring is told --------------------------------------------------------------------------


def make_pages(cores: Callable[[], Iterable[Core]], is_stopping: Callable[[], bool]) -> Pages:
    """The pages of a node."""

    def metrics() -> Page:
        return Page(
            write_metrics([core.metrics_source() for core in cores()]), content_type=CONTENT_TYPE
        )

    def healthz() -> Page:
        return Page("ok\n")

    def readyz() -> Page:
        reasons = ["the broker is stopping"] if is_stopping() else []
        reasons += [reason for core in cores() for reason in missing_links(core)]
        if reasons:
            return Page("".join(f"{one}\n" for one in reasons), HTTPStatus.SERVICE_UNAVAILABLE)
        return Page("ok\n")

    return {"/metrics": metrics, "/healthz": healthz, "/readyz": readyz}


def missing_links(core: Core) -> list[str]:
    """What a broker lacks: links to the neighbours that it dials."""
    links = core.broker.links
    return [
        f"there is no link to {name}"
        for name in core.broker.dials
        if name not in links or not links[name].established
    ]
