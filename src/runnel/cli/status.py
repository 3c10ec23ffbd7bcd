"""`runnel status`: who is in the network and how it is doing, as the brokers themselves tell it."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from runnel.cli.tables import make_console, make_table, show
from runnel.cli.where import broker_option, find_broker
from runnel.inspection.ask import AskError
from runnel.inspection.questions import Generation
from runnel.topology.explain import shared_name
from runnel.topology.walk import Network, walk

WIDE = 100  # columns of a terminal that has room for addresses


@click.command(short_help="Show a whole network, asked from one broker.")
@click.argument("url", required=False)
@broker_option
@click.option("--json", "as_json", is_flag=True, help="Everything, as one JSON object.")
@click.option("--timeout", default=5.0, show_default=True, help="Seconds to wait for each broker.")
def status(url: str | None, broker: str | None, as_json: bool, timeout: float) -> None:
    """Ask a broker, and all that can be reached through it, how they are.

    One broker is enough: each knows where its neighbours listen.

    \b
    Examples:
      runnel status
      runnel status runnel://127.0.0.1:7001
      runnel status --json | jq '.brokers[].meter'

    \b
    Exit codes:
      0    every broker answers, every link is up
      1    a broker does not answer, or a link is down
      2    the command line cannot be used
    """
    network = walk(find_broker(url or broker), timeout)
    if as_json:
        found = [
            {**status, "address": str(network.addresses[name])}
            for name, status in network.brokers.items()
        ]
        told = {"brokers": found, "silent": network.silent, "doubles": network.doubles()}
        click.echo(json.dumps(told))
    else:
        print_network(network)
    if network.silent or _links_down(network):
        raise SystemExit(1)


def _links_down(network: Network) -> list[tuple[str, str]]:
    return [
        (name, link["name"])
        for name in network.brokers
        for link in network.links(name, "broker")
        if not link["up"]
    ]


def print_network(network: Network) -> None:
    """Print the brokers, then the links between them, then who did not answer, and what else is odd."""
    wide = make_console().width >= WIDE
    show(_brokers_table(network, wide=wide))
    if len(network.brokers) + len(network.silent) > 1:
        show(_links_table(network))
    for name, where in standby_of(network).items():
        show(Text(f"{name} is on standby at {where}"))
    for name, why in network.silent.items():
        show(Text(f"{name} does not answer: {why}", style="red"))
    if network.silent:
        show(Text(f"{network.unknown()}", style="red"))
    for client, homes in network.doubles().items():
        show(Text(f"warning: {shared_name(client, homes)}", style="yellow"))


def standby_of(network: Network) -> dict[str, str]:
    """The brokers that the last plan has freed, and where they are."""
    for name in network.brokers:
        try:
            reserve = network.ask(name, Generation())["reserve"]
        except AskError:
            continue  # one of an older version, or it has just gone
        return {one: where for one, where in reserve.items() if one not in network.brokers}
    return {}


def _brokers_table(network: Network, *, wide: bool) -> Table:
    """One row per broker; on a narrow terminal without addresses, so that no heading is cut."""
    columns = ("up", "clients", "adv.", "subs.", "in", "out", "lost", "waiting")
    words = ("name", "address") if wide else ("name",)
    table = make_table("brokers", *words, *columns, words=words)
    for name, found in network.brokers.items():
        meter = found["meter"]
        waiting = sum(link["waiting_bytes"] + link["flying_bytes"] for link in found["links"])
        lost = meter["dropped"] + meter["discarded"]  # no room, or the peer is gone
        table.add_row(
            Text(name),
            *([Text(network.addresses[name].short, style="cyan")] if wide else []),
            duration(found["uptime_s"]),
            f"{found['clients']:,}",
            f"{found['advertisements']:,}",
            f"{found['subscriptions']:,}",
            f"{meter['publications_in']:,}",
            f"{meter['publications_out']:,}",
            Text(f"{lost:,}", style="red" if lost else ""),
            size(waiting),
        )
    for name in network.silent:
        table.add_row(Text(name), Text("does not answer" if wide else "down", style="red"))
    versions = dict.fromkeys(found["version"] for found in network.brokers.values())
    generations = {int(found.get("generation", 1)) for found in network.brokers.values()}
    table.caption = f"version {', '.join(versions)}"
    if max(generations) > 1:
        table.caption += f", generation {', '.join(map(str, sorted(generations)))}"
    table.caption_justify = "left"
    return table


def _links_table(network: Network) -> Table:
    columns = ("publications →", "← publications", "waiting →", "← waiting")
    table = make_table("links", "link", "state", *columns, words=("link", "state"))
    for one, other, here, there in _pairs(network):
        up = here["up"] and (there is None or there["up"])
        back = there or {"publications_out": here["publications_in"], "waiting_bytes": 0}
        table.add_row(
            Text(f"{one} – {other}"),
            Text("up" if up else "down", style="green" if up else "red"),
            f"{here['publications_out']:,}",
            f"{back['publications_out']:,}",
            size(here["waiting_bytes"]),
            size(back["waiting_bytes"]),
        )
    return table


def _pairs(network: Network) -> list[tuple[str, str, dict[str, Any], dict[str, Any] | None]]:
    """Each link once, with what both ends say of it (None: that end does not answer)."""
    seen: dict[frozenset[str], None] = {}
    pairs = []
    for name in network.brokers:
        for link in network.links(name, "broker"):
            other = link["name"]
            if frozenset((name, other)) in seen:
                continue
            seen[frozenset((name, other))] = None
            back = network.links(other, "broker") if other in network.brokers else []
            there = next((found for found in back if found["name"] == name), None)
            pairs.append((name, other, link, there))
    return pairs


def duration(seconds: float) -> str:
    """A length of time, short.

    >>> duration(4.2), duration(75), duration(7300), duration(200_000)
    ('4 s', '1 min', '2 h', '2 d')
    """
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"


def size(count: int) -> str:
    """A number of bytes, short.

    >>> size(0), size(999), size(2_048), size(5 << 20)
    ('0', '999 B', '2 KiB', '5 MiB')
    """
    if count < 1_024:
        return f"{count} B" if count else "0"
    return f"{count >> 10} KiB" if count < 1 << 20 else f"{count >> 20} MiB"
