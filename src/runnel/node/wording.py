"""What the log calls what a broker traces, and how loud: the core speaks of links, an operator thinks of clients."""

from __future__ import annotations

from collections.abc import Mapping
from logging import DEBUG, INFO, WARNING
from typing import Any

from runnel.broker.connections import EXPIRED, OVERFLOW
from runnel.broker.effects import Trace
from runnel.broker.links import Link
from runnel.inspection.ask import NAME_PREFIX

LOUD = frozenset({"peer-error", "client-displaced", "discarded"})  # somebody has to see to it


class Wording:
    """Turns traces into entries; it remembers who is a client, since who has left cannot be asked."""

    def __init__(self) -> None:
        self._clients: set[str] = set()

    def entry(self, trace: Trace, links: Mapping[str, Link]) -> tuple[str, int, Mapping[str, Any]]:
        """The event's name, its level, and what belongs to it."""
        event, data = trace.kind, trace.data
        peer, reason = str(data.get("peer", "")), str(data.get("reason", ""))
        bad = event in LOUD or reason in (EXPIRED, OVERFLOW)
        if event == "link-up" and peer in links and links[peer].is_client:
            self._clients.add(peer)
        elif event == "link-lost":
            farewell = f"{peer} left: "
            if peer in self._clients and reason.startswith(farewell):
                event, data = "client-left", {**data, "reason": reason.removeprefix(farewell)}
            self._clients.discard(peer)
        # Whoever asks a broker how it is comes and goes all the time; and most decisions are to do nothing.
        idle = event == "placement" and data.get("outcome") != "moves"
        quiet = (peer.startswith(NAME_PREFIX) or idle) and not bad
        return event, DEBUG if quiet else WARNING if bad else INFO, data
