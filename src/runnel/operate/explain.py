"""Why an event does, or does not, reach a client: the brokers along the way are asked, one after the other.

Each step is what a broker answered about its own tables. The path ends at the client, or at the broker where the event
would stop, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runnel.errors import InputError
from runnel.language import Value, parse
from runnel.modules.inspection.questions import Route, Subscriptions, TableRows
from runnel.modules.inspection.why import describe
from runnel.operate.walk import LiveNetwork

Attributes = dict[str, Value]
SHOWN_MAX = 3


@dataclass(slots=True)
class Explanation:
    """The result: a step for each broker that was asked, and the verdict."""

    delivered: bool = False
    verdict: str = ""
    as_things_are: bool = False  # not delivered only because nobody has advertised it
    warnings: list[str] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    # Broker, whether it goes on, what it says.
    steps: list[tuple[str, bool, str]] = field(default_factory=list)

    def add_step(self, broker: str, goes_on: bool, text: str) -> None:
        """Add a step."""
        self.steps.append((broker, goes_on, text))

    def end(self, verdict: str, *, delivered: bool = False) -> Explanation:
        """Set the verdict."""
        self.verdict, self.delivered = verdict, delivered
        return self


def explain(network: LiveNetwork, event: Attributes, source: str, client: str) -> Explanation:
    """Follow an event from a broker, or from a client, to another client."""
    found = Explanation()
    start, publisher = _start(network, source)
    homes = network.homes(client)
    if not homes:
        raise InputError(f"no broker knows a client {client}: {_known_clients(network)}")
    home = homes[-1]
    if len(homes) > 1:
        found.warnings.append(f"{shared_name(client, homes)}; this is about the one at {home}")
    wanted = network.ask(home, Subscriptions(client, event))
    matching = [row["filter"] for row in wanted["subscriptions"] if row["matches"]]
    if not wanted["subscriptions"]:
        found.add_step(home, False, f"{client} is here, and has subscribed to nothing")
        return found.end(f"{client} has no subscription at {home}")
    if not matching:
        for row in wanted["subscriptions"]:
            found.add_step(home, False, f"{client} wants {row['filter']}; {_failure_of(row)}")
        return found.end(f"none of the filters of {client} wants the event")
    found.path = network.path(start, home)
    if not found.path:
        return found.end(
            f"no way leads from {start} to {home}: {network.unknown() or 'see runnel status'}"
        )
    return _follow(network, event, found, publisher, client, matching)


def _start(network: LiveNetwork, source: str) -> tuple[str, str]:
    """The broker where an event starts, and the client that publishes it, if one was named."""
    if source in network.brokers:
        return source, ""
    homes = network.homes(source)
    if not homes:
        known = ", ".join(network.brokers)
        raise InputError(
            f"there is no broker and no client {source!r}: brokers are {known}; "
            f"{_known_clients(network)}"
        )
    return homes[-1], source


def _known_clients(network: LiveNetwork) -> str:
    names = [link["name"] for name in network.brokers for link in network.links(name, "client")]
    unknown = f"; but {network.unknown()}" if network.silent else ""
    if not names:
        return f"no client is connected anywhere{unknown}"
    more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
    return f"clients are {', '.join(names[:10])}{more}{unknown}"


def shared_name(client: str, homes: list[str]) -> str:
    """The warning for a client's name that several brokers know."""
    return (
        f"{client} is at {' and at '.join(homes)}: it is moving, "
        "or several clients share a name that only one may have"
    )


def _failure_of(row: dict[str, Any]) -> str:
    alternatives = [", ".join(map(describe, group)) for group in row["failures"]]
    return "; or ".join(alternatives) or "nothing can satisfy it"


def _follow(
    network: LiveNetwork,
    event: Attributes,
    found: Explanation,
    publisher: str,
    client: str,
    matching: list[str],
) -> Explanation:
    came_from = publisher
    for here, onward in zip(found.path, [*found.path[1:], client], strict=True):
        route = network.ask(here, Route(event, came_from))
        if here == found.path[0] and not _is_advertised(found, here, route, publisher):
            if publisher:
                return found.end(f"{publisher} cannot publish it before it advertises it")
            return _if_it_were_advertised(network, found, client)
        hop = next((hop for hop in route["hops"] if hop["name"] == onward), None)
        if hop is None:
            found.add_step(here, False, f"nothing that came from {onward} wants it")
            return found.end(_why_not_wanted(network, here, onward, matching))
        filters = [row["filter"] for row in route["wanted_by"] if row["from"] == onward]
        found.add_step(here, True, f"goes to {onward}, which wants {_shorten(filters)}")
        if not hop["up"]:
            found.add_step(here, False, f"the connection to {onward} is down: it would wait here")
            return found.end(f"it waits at {here} until {onward} is back")
        came_from = here
    way = " → ".join(found.path)
    return found.end(
        f"{client} gets it, by {way}, since it wants {_shorten(matching)}", delivered=True
    )


def _is_advertised(found: Explanation, here: str, route: dict[str, Any], publisher: str) -> bool:
    """Whether the publisher has advertised the event; if none was named, whether any client has."""
    rows = [
        row
        for row in route["advertised_by"]
        if row["kind"] == "client" and publisher in ("", row["from"])
    ]
    if rows:
        named = ", ".join(dict.fromkeys(f"{row['publisher']} ({row['filter']})" for row in rows))
        found.add_step(here, True, f"advertised by {named}")
        return True
    who = f"{publisher} has advertised nothing that allows this event"
    found.add_step(here, False, who if publisher else "nobody here has advertised it")
    return False


def _if_it_were_advertised(network: LiveNetwork, found: Explanation, client: str) -> Explanation:
    """The client wants it and there is a path: if the links are up, only an advertisement is missing."""
    nobody = f"nobody at {found.path[0]} has advertised it"
    for here, onward in zip(found.path, [*found.path[1:], client], strict=True):
        links = network.links(here, "client" if onward == client else "broker")
        if any(link["name"] == onward and not link["up"] for link in links):
            return found.end(f"{nobody}, and the connection from {here} to {onward} is down")
    found.as_things_are = True
    return found.end(f"{nobody}; `runnel pub` advertises first and would reach {client}")


def _why_not_wanted(network: LiveNetwork, here: str, onward: str, matching: list[str]) -> str:
    """Ask the next broker why it has not sent the subscription here; usually it has no advertisement from here."""
    if onward not in network.brokers:
        return f"{here} does not deliver it, although the client wants it: ask again in a moment"
    rows = network.ask(onward, TableRows(peer=here))["advertisements"]
    selections = [parse(text) for text in matching]
    meeting = [
        row
        for row in rows
        if any(parse(row["filter"]).intersects(selection) for selection in selections)
    ]
    if not meeting:
        return (
            f"the subscription ({_shorten(matching)}) has not come to {here}: {onward} has no advertisement "
            f"from there that it meets, and subscriptions only travel towards those"
        )
    names = _shorten([f"{row['publisher']} ({row['filter']})" for row in meeting])
    return (
        f"{onward} knows of {names}, but its subscription has not come to {here}: "
        "it may be on its way, or its ttl was too short"
    )


def _shorten(texts: list[str]) -> str:
    distinct = list(dict.fromkeys(texts))
    more = f" (and {len(distinct) - SHOWN_MAX} more)" if len(distinct) > SHOWN_MAX else ""
    return " | ".join(distinct[:SHOWN_MAX]) + more
