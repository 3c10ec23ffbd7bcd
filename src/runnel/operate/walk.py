"""Walks a network from one broker: each says who its neighbours are and where they listen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runnel.broker.questions import Question
from runnel.errors import InputError
from runnel.modules.inspection.questions import Status, Subscriptions
from runnel.net.addresses import Address, parse_address
from runnel.operate.ask import TIMEOUT_S, AskError, ask
from runnel.paths import path_between


@dataclass(slots=True)
class LiveNetwork:
    """What was found: each broker's status and address, and why others could not be asked."""

    brokers: dict[str, dict[str, Any]] = field(default_factory=dict)
    addresses: dict[str, Address] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)

    def ask(self, broker: str, question: Question) -> dict[str, Any]:
        """Ask one of the brokers something else."""
        return ask(self.addresses[broker], question)

    def links(self, broker: str, kind: str) -> list[dict[str, Any]]:
        """A broker's links to brokers, or to clients."""
        return [link for link in self.brokers[broker]["links"] if link["kind"] == kind]

    def homes(self, client: str) -> list[str]:
        """The brokers at which a client is known: one, or two while it moves."""
        return [name for name in self.brokers if self._is_at(client, name)]

    def _is_at(self, client: str, broker: str) -> bool:
        listed = self.links(broker, "client")
        if any(link["name"] == client for link in listed):
            return True
        if len(listed) == self.brokers[broker]["clients"]:
            return False
        try:  # not all are listed: ask for this one
            self.ask(broker, Subscriptions(client, rows_max=0))
        except AskError:
            return False
        return True

    def doubles(self) -> dict[str, list[str]]:
        """The clients whose name is listed at more than one broker, and at which."""
        homes: dict[str, list[str]] = {}
        for name in self.brokers:
            for link in self.links(name, "client"):
                homes.setdefault(link["name"], []).append(name)
        return {client: at for client, at in homes.items() if len(at) > 1}

    def unknown(self) -> str:
        """What could not be looked at; empty if everybody answered."""
        if not self.silent:
            return ""
        one = len(self.silent) == 1
        return (
            f"{', '.join(self.silent)} {'does' if one else 'do'} not answer; "
            f"what is behind {'it' if one else 'them'} is unknown"
        )

    def path(self, start: str, end: str) -> list[str]:
        """The brokers from one to another, as the links stand; empty if there is no way."""
        links = (
            (name, link["name"])
            for name in self.brokers
            for link in self.links(name, "broker")
            if link["name"] in self.brokers
        )
        return path_between(links, start, end)


def walk(address: Address, timeout_s: float = TIMEOUT_S) -> LiveNetwork:
    """Ask a broker, then those that it names, and so on. The first must answer, the others may be silent."""
    network = LiveNetwork()
    _visit(network, address, timeout_s)
    waiting = list(network.brokers)
    while waiting:
        here = waiting.pop(0)
        # Also those that were neighbours until they were lost; a broker of an older version does not tell.
        for link in (*network.links(here, "broker"), *network.brokers[here].get("gone", ())):
            name = link["name"]
            if name in network.brokers or name in network.silent:
                continue
            if not link["address"]:
                network.silent[name] = "it has not said where it listens"
                continue
            try:
                found = _visit(network, parse_address(link["address"]), timeout_s)
            except (AskError, InputError) as error:
                network.silent[name] = str(error)
                continue
            waiting.append(found)
    return network


def _visit(network: LiveNetwork, address: Address, timeout_s: float) -> str:
    status = ask(address, Status(), timeout_s)
    name = str(status["name"])
    network.brokers[name] = status
    # Where operators are served apart, that is no address for brokers and clients.
    network.addresses[name] = parse_address(status["address"]) if status.get("admin") else address
    return name
