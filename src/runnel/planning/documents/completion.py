"""From the planner's result to a plan that can be applied. It is the same for plans from brokers and from traces.

    translate_constraints   constraints in the planner's names: pinning a client that only publishes pins its publishers
    complete_plan           adds the clients without subscriptions, the owners of publishers, the brokers' addresses

The planner does not place a client without a subscription: it goes along with its publishers, or stays where it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from msgspec.structs import replace as changed

from runnel.errors import InputError
from runnel.planning.documents.constraints import Constraints
from runnel.planning.documents.evidence import Evidence
from runnel.planning.documents.plan import Owner, Plan
from runnel.planning.network import Network


@dataclass(slots=True)
class Picture:
    """The planner's input, and the further facts about the network that its plan needs to be applied."""

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


def translate_constraints(constraints: Constraints, picture: Picture) -> Constraints:
    """The constraints in the planner's names; the error for an unknown name suggests similar ones."""
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


def complete_plan(plan: Plan, picture: Picture, addresses: Mapping[str, str]) -> Plan:
    """The plan with everything that is needed to apply it."""
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
