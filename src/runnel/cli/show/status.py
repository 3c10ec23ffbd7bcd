"""What `runnel status` prints: brokers, the links between them, modules, and what does not answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from runnel.cli.show.tables import make_console, make_table, show
from runnel.operate.explain import shared_name
from runnel.operate.health import degradations
from runnel.operate.walk import LiveNetwork
from runnel.quantities import format_duration, format_size

WIDE = 100  # columns of a terminal that has room for addresses


def print_network(network: LiveNetwork, standby: Mapping[str, str]) -> None:
    """Print the brokers, the links between them, what is wrong with the network, and what else is odd.

    `standby`: the brokers that the last plan has freed, with their addresses.
    """
    wide = make_console().width >= WIDE
    show(_brokers_table(network, wide=wide))
    if len(network.brokers) + len(network.silent) > 1:
        show(_links_table(network))
    if any(found.get("modules") for found in network.brokers.values()):
        show(_modules_table(network))
    for name, found in network.brokers.items():
        if count := found.get("gauges", {}).get("waiting_publications"):
            show(Text(f"{name} has {count:,} publications to match", style="yellow"))
    for name, where in standby.items():
        show(Text(f"{name} is on standby at {where}"))
    for reason in degradations(network):
        show(Text(reason, style="red"))
    for client, homes in network.doubles().items():
        show(Text(f"warning: {shared_name(client, homes)}", style="yellow"))


def _brokers_table(network: LiveNetwork, *, wide: bool) -> Table:
    """One row per broker; on a narrow terminal without addresses and memory, so that no heading is cut."""
    columns = ("up", "clients", "adv.", "subs.", "in", "out", "lost", "waiting")
    words, more = (("name", "address"), ("memory",)) if wide else (("name",), ())
    table = make_table("brokers", *words, *columns, *more, words=words)
    for name, found in network.brokers.items():
        meter = found["meter"]
        waiting = sum(link["waiting_bytes"] + link["flying_bytes"] for link in found["links"])
        lost = meter["dropped"] + meter["discarded"]  # no room, or the peer is gone
        table.add_row(
            Text(name),
            *([Text(network.addresses[name].short, style="cyan")] if wide else []),
            format_duration(found["uptime_s"]),
            f"{found['clients']:,}",
            f"{found['advertisements']:,}",
            f"{found['subscriptions']:,}",
            f"{meter['publications_in']:,}",
            f"{meter['publications_out']:,}",
            Text(f"{lost:,}", style="red" if lost else ""),
            format_size(waiting),
            *([_memory(found)] if wide else []),
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


def _memory(found: dict[str, Any]) -> str:
    """What a broker uses; a broker of an older version does not tell."""
    used = found.get("gauges", {}).get("memory_bytes")
    return "" if used is None else format_size(used)


def _links_table(network: LiveNetwork) -> Table:
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
            format_size(here["waiting_bytes"]),
            format_size(back["waiting_bytes"]),
        )
    return table


def _modules_table(network: LiveNetwork) -> Table:
    """What modules have to say of themselves, in their own words."""
    table = make_table("modules", "broker", "module", "says", words=("broker", "module", "says"))
    for name, found in network.brokers.items():
        for module, told in found.get("modules", {}).items():
            says = ", ".join(f"{what} {value}" for what, value in told.items())
            table.add_row(Text(name), Text(module), Text(says))
    return table


def _pairs(network: LiveNetwork) -> list[tuple[str, str, dict[str, Any], dict[str, Any] | None]]:
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
