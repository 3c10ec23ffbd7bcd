"""From a picture of a network to a plan that can be carried out. Who drew the picture, brokers or traces, is all one.

    translated     constraints in the planner's names: a client that only publishes is pinned by its publishers
    completed      the plan, with everybody who goes along, whose publishers they are, and where brokers listen

A client without a subscription is no item of the planner's: it goes along with its publishers, or stays where it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from msgspec.structs import replace as changed

from runnel.allocation.constraints import Constraints
from runnel.allocation.evidence import Evidence
from runnel.allocation.network import Network
from runnel.allocation.plan import Owner, Plan
from runnel.errors import InputError


@dataclass(slots=True)
class Picture:
    """A network for the planner; and what goes along with its plan."""

    network: Network
    owners: dict[str, Owner]  # by publisher
    homes: dict[str, str]  # of all clients
    notes: list[str]
    evidence: Evidence
    publishers: dict[str, list[str]] = field(init=False)  # by client

    def __post_init__(self) -> None:
        self.publishers = {}
        for name, owner in self.owners.items():
            self.publishers.setdefault(owner.client, []).append(name)


def translated(constraints: Constraints, picture: Picture) -> Constraints:
    """The constraints in the planner's names; an error says who was meant, perhaps."""
    known = {*picture.network.subscriptions, *picture.owners}
    pinned: dict[str, str] = {}
    for name, broker in constraints.pinned.items():
        if name in known:
            pinned[name] = broker
        elif publishers := picture.publishers.get(name):
            pinned |= dict.fromkeys(publishers, broker)
        else:
            near = get_close_matches(name, [*picture.homes, *picture.owners], n=3)
            meant = f": did you mean {' or '.join(near)}?" if near else " in this network"
            raise InputError(f"no client or publisher {name}{meant}")
    return replace(constraints, pinned=pinned)


def completed(plan: Plan, picture: Picture, addresses: Mapping[str, str]) -> Plan:
    """The plan with all that carrying it out needs."""
    root = next(broker for broker, parent in plan.overlay.items() if parent is None)
    clients = dict(plan.subscriptions)
    along = [client for client in picture.homes if client not in clients]
    for client in along:
        there = Counter(plan.publishers[name] for name in picture.publishers.get(client, ()))
        home = picture.homes[client]
        stays = home if home in plan.overlay else root
        clients[client] = there.most_common(1)[0][0] if there else stays
    notes = [*plan.notes, *picture.notes]
    if along:
        notes.append(
            f"{len(along):,} clients without a subscription go along with their publishers"
        )
    return changed(
        plan,
        subscriptions=dict(sorted(clients.items())),
        notes=notes,
        owners=picture.owners,
        addresses={
            name: address.removeprefix("runnel://") for name, address in sorted(addresses.items())
        },
        evidence=picture.evidence,
    )
