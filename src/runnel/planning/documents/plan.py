"""The plan as a document: versioned JSON that users read, keep, compare and apply.

It has everything that is needed to carry it out (the overlay, the broker of every client) and to decide on it: the
predicted load of every broker before and after, the clients that move, how long that takes, and the lower bound.
Clients and brokers are identified by name.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from runnel.errors import InputError
from runnel.planning.documents.evidence import Evidence
from runnel.planning.layout import Layout

VERSION = 1
MOVES_PER_S = 50.0
"""The assumed number of clients that change their broker in a second."""


class BrokerLoad(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The load of a broker. The ratios are shares of its capacity: 1 is all of it.

    `peak_output_ratio` is what is to be reckoned with in the next window, where head-room is learned.
    """

    messages_per_s: float
    output_bytes_per_s: float
    subscriptions: int
    input_ratio: float
    output_ratio: float
    peak_output_ratio: float | None = None


class Owner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The owner of a publisher: the client, the publisher's name there, and its advertisement id, in hex."""

    client: str
    publisher: str
    advertisement: str


class RequestedConstraints(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The constraints that the plan was made under, as in constraints.py."""

    headroom_percent: float = 0.0
    max_moves: int | None = None
    excluded: list[str] = []
    pinned: dict[str, str] = {}
    deviations: float | None = None  # of the learned head-room


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A plan. `overlay`: broker → its parent, None for the root.

    In the plan of a live network `subscriptions` maps every client, with all its subscriptions, to its broker;
    publishers are called CLIENT/PUBLISHER, and `owners` has their clients; `addresses` has every broker, also those
    that are freed. Plans of earlier releases have neither `asked` nor `evidence`.
    """

    version: int = VERSION
    algorithm: str
    seed: int = 0
    overlay: dict[str, str | None]
    subscriptions: dict[str, str]
    publishers: dict[str, str]
    before: dict[str, BrokerLoad] = {}
    after: dict[str, BrokerLoad] = {}
    freed: list[str] = []
    moved: list[str] = []
    estimated_s: float = 0.0
    brokers_at_least: int = 0
    notes: list[str] = []
    addresses: dict[str, str] = {}
    owners: dict[str, Owner] = {}
    asked: RequestedConstraints | None = None
    evidence: Evidence | None = None

    @property
    def brokers(self) -> int:
        """How many brokers it allocates."""
        return len(self.overlay)

    @property
    def links(self) -> list[tuple[str, str]]:
        """The overlay as pairs of brokers."""
        return [(child, parent) for child, parent in self.overlay.items() if parent is not None]


class PlanDiff(msgspec.Struct, frozen=True):
    """How one plan differs from another."""

    brokers_added: list[str]
    brokers_removed: list[str]
    links_changed: list[str]
    moved: dict[str, tuple[str | None, str | None]]

    @property
    def same(self) -> bool:
        """Whether they ask for the same network."""
        return not (self.brokers_added or self.brokers_removed or self.links_changed or self.moved)


def to_json(plan: Plan) -> bytes:
    """The document. The same plan is the same bytes."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n"


def from_json(data: bytes) -> Plan:
    """Read and validate a document; an error says what is wrong with it.

    >>> plan = Plan(algorithm="FBF", overlay={"A": None}, subscriptions={"s": "A"}, publishers={"p": "A"})
    >>> from_json(to_json(plan)) == plan
    True
    """
    try:
        version = msgspec.json.decode(data, type=dict[str, object]).get("version")
        if version != VERSION:
            raise InputError(
                f"the plan has version {version}; this Runnel reads version {VERSION}: make it again"
            )
        plan = msgspec.json.decode(data, type=Plan)
    except msgspec.DecodeError as error:
        raise InputError(f"this is not a plan: {error}") from error
    validate(plan)
    return plan


def validate(plan: Plan) -> None:
    """An error unless the plan is consistent: the overlay is one tree, and every client is at a broker of it."""
    Layout(plan.overlay, {}, {}).neighbours()
    for kind, clients in (("subscription", plan.subscriptions), ("publisher", plan.publishers)):
        for client, broker in clients.items():
            if broker not in plan.overlay:
                raise InputError(
                    f"{kind} {client} goes to {broker}, which is not in the plan's overlay"
                )
    for broker in plan.after:
        if broker not in plan.overlay:
            raise InputError(f"the plan predicts the load of {broker}, which is not in its overlay")
    for broker in (*plan.overlay, *plan.freed) if plan.addresses else ():
        if broker not in plan.addresses:
            raise InputError(f"the plan does not say where broker {broker} listens")
    for publisher in plan.publishers if plan.owners else ():
        if publisher not in plan.owners:
            raise InputError(f"the plan does not say whose publisher {publisher} is")


def compare_plans(old: Plan, new: Plan) -> PlanDiff:
    """The difference between two plans.

    >>> one = Plan(algorithm="FBF", overlay={"A": None, "B": "A"}, subscriptions={"s": "B"}, publishers={})
    >>> two = Plan(algorithm="FBF", overlay={"A": None}, subscriptions={"s": "A"}, publishers={})
    >>> compare_plans(one, two).moved, compare_plans(one, two).brokers_removed, compare_plans(one, one).same
    ({'s': ('B', 'A')}, ['B'], True)
    """
    kept = [broker for broker in new.overlay if broker in old.overlay]
    was, will = {**old.publishers, **old.subscriptions}, {**new.publishers, **new.subscriptions}
    return PlanDiff(
        [broker for broker in new.overlay if broker not in old.overlay],
        [broker for broker in old.overlay if broker not in new.overlay],
        [
            broker
            for broker in kept
            if _neighbours(old.overlay, broker) != _neighbours(new.overlay, broker)
        ],
        {
            client: (was.get(client), will.get(client))
            for client in dict.fromkeys([*was, *will])
            if was.get(client) != will.get(client)
        },
    )


def _neighbours(overlay: Mapping[str, str | None], broker: str) -> set[str]:
    """A broker's neighbours. Unlike parents they do not depend on which broker is the root."""
    found = {child for child, parent in overlay.items() if parent == broker}
    parent = overlay[broker]
    return found | {parent} if parent is not None else found
