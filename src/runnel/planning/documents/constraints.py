"""What an operator requires of a plan: pinned clients, excluded brokers, head-room, a limit for the moves.

All four change the input of the packing. Head-room makes the brokers smaller, or the needs larger if it is learned
(foresight.py). An excluded broker is left out. A pinned client is put into its broker before anything is packed. To
limit the moves, the brokers with the fewest clients are emptied, as many as the limit allows, and all clients of the
other brokers are pinned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runnel.errors import InputError
from runnel.planning.foresight import Foresight
from runnel.planning.layout import Layout
from runnel.planning.load import Bin, Item, Traffic
from runnel.planning.network import Network
from runnel.planning.profiles import numbers_of, union


@dataclass(frozen=True, slots=True)
class Constraints:
    """What a plan must keep to. `pinned`: the name of a subscription or publisher → its broker.

    `foresight`: head-room is learned from how traffic has changed, in addition to `headroom_percent`.
    """

    pinned: Mapping[str, str] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    headroom_percent: float = 0.0
    max_moves: int | None = None
    foresight: Foresight | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.headroom_percent < 100:
            raise InputError(
                f"head-room is from 0 to below 100 percent, not {self.headroom_percent}"
            )
        if self.max_moves is not None and self.max_moves < 0:
            raise InputError(f"the most moves are 0 or more, not {self.max_moves}")
        for client, broker in self.pinned.items():
            if broker in self.excluded:
                raise InputError(
                    f"{client} is pinned to {broker}, which is excluded: give up one of them"
                )


@dataclass(frozen=True, slots=True)
class Task:
    """The items that remain to be packed, the brokers to pack them into, and the brokers of pinned publishers.

    `quiet` are items without traffic that are dealt out when everything else has its broker (quiet.py).
    """

    items: tuple[Item, ...]
    bins: tuple[Bin, ...]
    publishers: Mapping[int, str]
    quiet: tuple[Item, ...] = ()

    def without_reserve(self, items: Sequence[Item]) -> Task:
        """The same without output for what pinned publishers send: if their subscriptions are with them, none goes on.

        `items` are all subscriptions.
        """
        bins = []
        for one in self.bins:
            if one.base:
                need = sum(items[member].need for member in one.base.members)
                one = replace(one, base=replace(one.base, need=need))
            bins.append(one)
        return replace(self, bins=tuple(bins))


def task_of(network: Network, constraints: Constraints, items: Sequence[Item]) -> Task:
    """The task under these constraints; an error names a constraint that cannot be met."""
    known = {one.name for one in network.brokers}
    for name in (*constraints.excluded, *constraints.pinned.values()):
        if name not in known:
            raise InputError(f"a constraint names broker {name}, which is not in the network")
    subscriptions = numbers_of(network.subscriptions)
    publishers = numbers_of([one.name for one in network.publishers])
    fixed: dict[str, list[int]] = {}
    fixed_publishers: dict[int, str] = {}
    for client, broker in constraints.pinned.items():
        if client in subscriptions:
            fixed.setdefault(broker, []).append(subscriptions[client])
        elif client in publishers:
            fixed_publishers[publishers[client]] = broker
        else:
            raise InputError(f"{client} is pinned, but there is no such subscription or publisher")
    traffic = network.traffic()
    bins = []
    for one in network.brokers:
        if one.name not in constraints.excluded:
            there = [items[number] for number in fixed.get(one.name, ())]
            publishing = [p for p, home in fixed_publishers.items() if home == one.name]
            base = _pinned_item(there, publishing, items, traffic) if there or publishing else None
            found = Bin(one.name, one.room, one.delay, base)
            share = 1.0 - constraints.headroom_percent / 100.0
            bins.append(found.shrink(share))
            if there and sum(item.need for item in there) > bins[-1].room:
                raise InputError(
                    f"what is pinned to {one.name} needs more than it may give "
                    f"({constraints.headroom_percent:g}% of its output is head-room): pin less there"
                )
    pinned = {number for numbers in fixed.values() for number in numbers}
    rest = [one for number, one in enumerate(items) if number not in pinned]
    quiet = [one for one in rest if constraints.foresight and not one.profile]
    if quiet and len(quiet) < len(rest):
        rest = [one for one in rest if one.profile]
        return Task(tuple(rest), tuple(bins), fixed_publishers, tuple(quiet))
    return Task(tuple(rest), tuple(bins), fixed_publishers)


def _pinned_item(
    there: Sequence[Item], publishers: Sequence[int], items: Sequence[Item], traffic: Traffic
) -> Item:
    """What is pinned to a broker, as one item, with output for one copy of all that is wanted of its publishers."""
    wanted = union(one.profile for one in items) if publishers else {}
    sent = {p: wanted[p] for p in publishers if p in wanted}
    return Item(
        union([*(one.profile for one in there), sent]),
        sum(one.need for one in there) + traffic.need(sent),
        tuple(member for one in there for member in one.members),
        sum(one.count for one in there),
    )


def constraints_for_few_moves(
    network: Network, constraints: Constraints, most: int
) -> Iterator[Constraints]:
    """Constraints that empty the brokers with the fewest clients and leave all other clients where they are.

    The first empty as many brokers as `most` moves allow, each of the following one broker fewer.
    """
    clients: dict[str, list[str]] = {one.name: [] for one in network.brokers}
    for name, home in _clients_with_homes(network):
        if home is None:
            raise InputError(f"the moves cannot be limited: it is not known where {name} is")
        clients[home].append(name)
    excluded, pinned = constraints.excluded, constraints.pinned
    moves = {
        broker: sum(1 for name in found if pinned.get(name) != broker)
        for broker, found in clients.items()
    }
    order = sorted(clients, key=lambda broker: (broker not in excluded, moves[broker]))
    for emptied in range(len(order), len(excluded) - 1, -1):
        if sum(moves[broker] for broker in order[:emptied]) <= most:
            stay = {name: broker for broker in order[emptied:] for name in clients[broker]}
            yield replace(constraints, pinned={**stay, **pinned})


def _clients_with_homes(network: Network) -> Iterable[tuple[str, str | None]]:
    yield from zip(network.subscriptions, network.subscription_homes, strict=True)
    yield from zip([one.name for one in network.publishers], network.publisher_homes, strict=True)


def assign_roles(layout: Layout, network: Network, bins: Sequence[Bin]) -> dict[str, str]:
    """Exchange brokers of equal capacity so that many clients need not move: broker of the layout → actual broker."""
    stay: dict[tuple[str, str], int] = {}
    homes = layout.homes
    for number, home in enumerate(network.subscription_homes):
        if home is not None:
            stay[homes[number], home] = stay.get((homes[number], home), 0) + 1
    for number, home in enumerate(network.publisher_homes):
        if home is not None:
            role = layout.publishers[number]
            stay[role, home] = stay.get((role, home), 0) + 1
    kinds = {one.name: (one.room, one.delay) for one in bins if one.base is None}
    names = {role: role for role in layout.parents if role not in kinds}
    taken = set(names.values())
    for (role, home), _ in sorted(stay.items(), key=lambda one: (-one[1], one[0])):
        free = role not in names and home not in taken
        if free and home in kinds and kinds[role] == kinds[home]:
            names[role] = home
            taken.add(home)
    for role in layout.parents:  # a broker keeps its own role if it is not taken
        if role not in names and role not in taken:
            names[role] = role
            taken.add(role)
    spare: dict[object, list[str]] = {}
    for name in reversed(kinds):
        if name not in taken:
            spare.setdefault(kinds[name], []).append(name)
    return names | {role: spare[kinds[role]].pop() for role in layout.parents if role not in names}
