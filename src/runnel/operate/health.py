"""What is wrong with a network, in sentences: the reasons for which `runnel status` ends with exit code 1."""

from __future__ import annotations

from collections.abc import Iterator

from runnel.operate.walk import LiveNetwork
from runnel.paths import find_loops

LOSS_SHOWN_S = 60.0
"""For how long after a loss a network counts as degraded."""


def degradations(network: LiveNetwork) -> list[str]:
    """Everything that is not as it should be."""
    found = [
        *_silent(network),
        *_links_down(network),
        *_refused(network),
        *_loops(network),
        *_namesakes(network),
        *_losses(network),
    ]
    return list(dict.fromkeys(found))


def _silent(network: LiveNetwork) -> Iterator[str]:
    for name, why in network.silent.items():
        yield f"{name} does not answer: {why}"
    if network.silent:
        yield network.unknown()


def _links_down(network: LiveNetwork) -> Iterator[str]:
    """Links that are down, and those to neighbours that are configured and have not come yet."""
    told: set[str] = set()
    for name, status in network.brokers.items():
        down = [link["name"] for link in network.links(name, "broker") if not link["up"]]
        for other in (*down, *status.get("absent", ())):
            pair = "–".join(sorted((name, other)))
            if pair not in told:
                told.add(pair)
                yield f"the link {pair} is down"


def _refused(network: LiveNetwork) -> Iterator[str]:
    """Both sides of a refusal may tell of it; it is one reason."""
    for name, status in network.brokers.items():
        for refusal in status.get("refused", ()):
            where = f" at {refusal['address']}" if refusal["address"] else ""
            yield f"{name} refuses {refusal['name']}{where}: {refusal['reason']}"
        for refusal in status.get("refused_by", ()):
            yield f"{refusal['name']} refuses {name} at {status['address']}: {refusal['reason']}"


def _loops(network: LiveNetwork) -> Iterator[str]:
    """More than one way between two brokers; what goes by two brokers of one name is no way."""
    shared = _shared_names(network)
    links = [
        (name, link["name"])
        for name in network.brokers
        for link in network.links(name, "broker")
        if link["up"] and not {name, link["name"]} & shared.keys()
    ]
    for loop in find_loops(links):
        way = "–".join([*loop, loop[0]])
        yield f"the links {way} form a loop, and links must form a tree: take one of them away"


def _namesakes(network: LiveNetwork) -> Iterator[str]:
    for name, addresses in _shared_names(network).items():
        both = " and ".join(sorted(addresses))
        yield f"two brokers are called {name}: those at {both}; give each a name of its own"


def _shared_names(network: LiveNetwork) -> dict[str, set[str]]:
    """The names that several brokers have, and where these listen."""
    addresses = {name: {str(status["address"])} for name, status in network.brokers.items()}
    for name in network.brokers:
        for link in network.links(name, "broker"):
            if link["up"] and link["address"] and link["name"] in addresses:
                addresses[link["name"]].add(link["address"])
    return {name: found for name, found in addresses.items() if len(found) > 1}


def _losses(network: LiveNetwork) -> Iterator[str]:
    for name, status in network.brokers.items():
        ago_s = status.get("lost_ago_s")
        if ago_s is not None and ago_s < LOSS_SHOWN_S:
            meter = status["meter"]
            count = meter["dropped"] + meter["discarded"]
            yield (
                f"{name} has lost publications {ago_s:.0f} s ago, {count:,} since it started: "
                "peers are slow or gone, and its log says which"
            )
