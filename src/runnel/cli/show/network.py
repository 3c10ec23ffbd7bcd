"""What `runnel up` prints: addresses of brokers, rates while it runs, and counts at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from runnel.cli.show.tables import make_table
from runnel.net.addresses import parse_address
from runnel.network.clients import RunningClient
from runnel.network.outcome import TopologyOutcome
from runnel.network.state import BrokerState
from runnel.network.topology import Topology
from runnel.operate.rates import Rates

CLIENTS_SHOWN_MAX = 30


def where_table(brokers: Mapping[str, BrokerState]) -> Table:
    """The address, process and log of each broker."""
    table = _table("brokers", "broker", "address", "pid", "log")
    for name, broker in brokers.items():
        table.add_row(
            Text(name), Text(broker.address, style="cyan"), str(broker.pid), Text(broker.log)
        )
    return table


def outcome_tables(topology: Topology, outcome: TopologyOutcome) -> Group:
    """The counts of a run: per client, then per link."""
    told = outcome.as_dict(topology)
    clients = _table("clients", "client", "broker", "published", "delivered", "missed")
    for row in told["clients"]:
        clients.add_row(
            Text(row["name"]),
            Text(row["broker"]),
            *(f"{row[key]:,}" for key in ("published", "delivered", "missed")),
        )
    links = _table("links", "from", "to", "publications")
    for row in told["links"]:
        links.add_row(Text(row["from"]), Text(row["to"]), f"{row['publications']:,}")
    return Group(clients, links)


class LiveView:
    """Tables of the rates of brokers and clients since the previous look."""

    def __init__(self) -> None:
        self._in, self._out = Rates(), Rates()
        self._published, self._delivered = Rates(), Rates()

    def line(self, clients: Mapping[str, RunningClient]) -> str:
        """All clients together, on one line."""
        published = {"": sum(one.published for one in clients.values())}
        delivered = {"": sum(one.delivered for one in clients.values())}
        return (
            f"published {published['']:,} ({self._published.look(published)['']:,.0f}/s), "
            f"delivered {delivered['']:,} ({self._delivered.look(delivered)['']:,.0f}/s)"
        )

    def tables(
        self, statuses: Mapping[str, dict[str, Any]], clients: Mapping[str, RunningClient]
    ) -> RenderableType:
        """Brokers, and the clients that do something."""
        return Group(self._brokers(statuses), self._clients(clients))

    def _brokers(self, statuses: Mapping[str, dict[str, Any]]) -> Table:
        ins = self._in.look({n: s["meter"]["publications_in"] for n, s in statuses.items()})
        outs = self._out.look({n: s["meter"]["publications_out"] for n, s in statuses.items()})
        table = _table(
            "brokers", "broker", "address", "links up", "clients", "in/s", "out/s", "dropped"
        )
        for name, status in statuses.items():
            links = [link for link in status["links"] if link["kind"] == "broker"]
            table.add_row(
                Text(name),
                Text(parse_address(status["address"]).short, style="cyan"),
                f"{sum(link['up'] for link in links)} of {len(links)}",
                f"{status['clients']:,}",
                f"{ins[name]:,.0f}",
                f"{outs[name]:,.0f}",
                f"{status['meter']['dropped']:,}",
            )
        return table

    def _clients(self, clients: Mapping[str, RunningClient]) -> Table:
        published = self._published.look({n: one.published for n, one in clients.items()})
        delivered = self._delivered.look({n: one.delivered for n, one in clients.items()})
        table = _table(
            "clients", "client", "at", "published", "per s", "delivered", "per s", "hops", "missed"
        )
        for name, one in sorted(clients.items())[:CLIENTS_SHOWN_MAX]:
            table.add_row(
                Text(name),
                Text(one.client.broker),
                f"{one.published:,}",
                f"{published[name]:,.0f}",
                f"{one.delivered:,}",
                f"{delivered[name]:,.0f}",
                f"{one.hops / one.delivered:.1f}" if one.delivered else "",
                f"{one.client.missed:,}",
            )
        if len(clients) > CLIENTS_SHOWN_MAX:
            table.caption = f"and {len(clients) - CLIENTS_SHOWN_MAX:,} more"
        return table


def _table(title: str, *columns: str) -> Table:
    words = ("broker", "client", "address", "log", "at", "from", "to")
    return make_table(title, *columns, words=words)
