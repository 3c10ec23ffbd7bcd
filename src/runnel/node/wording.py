"""Turns what a broker traces into log entries with a level: the core speaks of links, operators think of clients."""

from __future__ import annotations

from collections.abc import Mapping
from logging import DEBUG, INFO, WARNING
from typing import Any

from runnel.broker.connections import EXPIRED, OVERFLOW
from runnel.broker.effects import WriteTrace
from runnel.broker.kinds import PeerKind, kind_of
from runnel.broker.links import Link

# An operator should look at these.
LOUD = frozenset(
    {
        *("peer-error", "id-conflict", "client-displaced", "discarded", "broker-refused"),
        *("refused-by", "denied"),
    }
)


class Wording:
    """Turns traces into log entries. It remembers the kind of each peer, which is unknown once its link is gone."""

    def __init__(self) -> None:
        self._kinds: dict[str, PeerKind] = {}  # by the peer's name

    def log_entry(
        self, trace: WriteTrace, links: Mapping[str, Link]
    ) -> tuple[str, int, Mapping[str, Any]]:
        """The name of the event, its level, and its data."""
        event, data = trace.kind, trace.data
        peer, reason = str(data.get("peer", "")), str(data.get("reason", ""))
        bad = event in LOUD or reason in (EXPIRED, OVERFLOW)
        if event == "link-up" and peer in links:
            self._kinds[peer] = kind_of(links[peer].kind)
        kind = self._kinds.get(peer)
        if event == "link-lost" and kind is not None:
            farewell = f"{peer} left: "
            if kind.is_client and reason.startswith(farewell):
                event, data = "client-left", {**data, "reason": reason.removeprefix(farewell)}
            del self._kinds[peer]
        # Operators connect and disconnect all the time, and most decisions change nothing: both are logged quietly.
        idle = event == "placement" and data.get("outcome") != "moves"
        only_asks = kind is not None and not kind.is_routed
        quiet = (only_asks or idle) and not bad
        return event, DEBUG if quiet else WARNING if bad else INFO, data
