"""The plan as a document: versioned JSON that people read, keep, compare and apply.

It says everything that is needed to carry it out (who goes where, who is connected to whom) and to decide on it: the
predicted load of every broker before and after, who moves, how long that takes, and the lower bound. Clients and
brokers go by name.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from runnel.allocation.evidence import Evidence
from runnel.allocation.layout import Layout
from runnel.errors import InputError

VERSION = 1
MOVES_PER_S = 50.0
"""How many clients change their broker in a second, unless told otherwise."""


class BrokerLoad(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a broker has to do, and how much of what it can that is. 1 is all of it."""

    messages_per_s: float
    output_bytes_per_s: float
    subscriptions: int
    input_ratio: float
    output_ratio: float


class Owner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose a publisher is: the client, its publisher's name, and the advertisement it was known by, in hex."""

    client: str
    publisher: str
    advertisement: str


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the plan was to keep to, as constraints.py has it."""

    headroom_percent: float = 0.0
    max_moves: int | None = None
    excluded: list[str] = []
    pinned: dict[str, str] = {}


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A plan. `overlay`: broker → the one it hangs on, None for the root.

    In the plan of a live network `subscriptions` has every client by its name, with all its subscriptions; publishers
    go by CLIENT/PUBLISHER, and `owners` says whose they are; `addresses` has every broker, also those that are freed.
    Plans from before there were `asked` and `evidence` do not have them.
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
    asked: Asked | None = None
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
    """Read and check a document; an error says what is wrong with it.

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
    """Whether a plan makes sense in itself: one tree, everybody at a broker of it."""
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


def diff(old: Plan, new: Plan) -> PlanDiff:
    """What changes from one plan to another.

    >>> one = Plan(algorithm="FBF", overlay={"A": None, "B": "A"}, subscriptions={"s": "B"}, publishers={})
    >>> two = Plan(algorithm="FBF", overlay={"A": None}, subscriptions={"s": "A"}, publishers={})
    >>> diff(one, two).moved, diff(one, two).brokers_removed, diff(one, one).same
    ({'s': ('B', 'A')}, ['B'], True)
    """
    kept = [broker for broker in new.overlay if broker in old.overlay]
    was, will = {**old.publishers, **old.subscriptions}, {**new.publishers, **new.subscriptions}
    return PlanDiff(
        [broker for broker in new.overlay if broker not in old.overlay],
        [broker for broker in old.overlay if broker not in new.overlay],
        [broker for broker in kept if _link(old.overlay, broker) != _link(new.overlay, broker)],
        {
            client: (was.get(client), will.get(client))
            for client in dict.fromkeys([*was, *will])
            if was.get(client) != will.get(client)
        },
    )


def _link(overlay: Mapping[str, str | None], broker: str) -> set[str]:
    """A broker's neighbours: a tree is the same tree whichever broker is called its root."""
    found = {child for child, parent in overlay.items() if parent == broker}
    parent = overlay[broker]
    return found | {parent} if parent is not None else found
