"""Makes the planner's input from the answers of brokers: one item for each client, with all its subscriptions.

    item         a client: its subscriptions move together, with its connection. Its load is the OR of their profiles,
                 as a publication is sent to it once, however many of its subscriptions match
    publisher    is named CLIENT/PUBLISHER; it may be at another broker than its client (placement.md), on a connection
                 of its own that does not count as a client
    goes along   a client without subscriptions: it follows its publishers, or stays where it is

Names are sorted, so that the same answers give the same plan in whatever order they came.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from runnel.errors import NetworkError, PeerError
from runnel.modules.profiles.messages import (
    Bia,
    BiaEnd,
    BrokerInfo,
    Piece,
    PublisherInfo,
    SubscriptionInfo,
)
from runnel.planning.documents.completion import Picture
from runnel.planning.documents.evidence import Evidence, evidence_of
from runnel.planning.documents.plan import Owner
from runnel.planning.load import Capacity, Delay, scaling_for
from runnel.planning.network import Network
from runnel.planning.profiles import (
    BitVector,
    Profile,
    PublisherProfile,
    SubscriptionProfile,
    synchronise,
    union,
)
from runnel.quantities import SECOND

_decode = msgspec.msgpack.Decoder(Piece).decode


@dataclass(slots=True)
class Answers:
    """The answers of brokers to one BIR."""

    brokers: dict[str, BrokerInfo] = field(default_factory=dict)
    clients: dict[str, list[str]] = field(default_factory=dict)  # the brokers where each is
    publishers: list[tuple[str, PublisherInfo]] = field(default_factory=list)
    subscriptions: list[tuple[str, SubscriptionInfo]] = field(default_factory=list)
    missing: dict[str, None] = field(default_factory=dict)

    def take(self, message: Bia | BiaEnd) -> bool:
        """Take in one more message; returns whether it was the last."""
        if isinstance(message, BiaEnd):
            named = (name for told in self.brokers.values() for name in told.neighbours)
            unheard = [name for name in named if name not in self.brokers]
            self.missing = dict.fromkeys([*message.missing, *unheard])
            return True
        try:
            piece = _decode(message.body)
        except msgspec.DecodeError as error:
            raise PeerError(f"{message.broker} answered something malformed: {error}") from None
        if piece.broker is not None:
            self.brokers[message.broker] = piece.broker
        for name in piece.clients:
            self.clients.setdefault(name, []).append(message.broker)
        self.publishers += ((message.broker, told) for told in piece.publishers)
        self.subscriptions += ((message.broker, told) for told in piece.subscriptions)
        return False

    def join(self, other: Answers) -> None:
        """Add the answers of another part of the network: brokers on standby, to which no link leads."""
        new = other.brokers.keys() - self.brokers.keys()
        self.brokers |= {name: other.brokers[name] for name in sorted(new)}
        for client, places in other.clients.items():
            if found := [place for place in places if place in new]:
                self.clients.setdefault(client, []).extend(found)
        self.publishers += (row for row in other.publishers if row[0] in new)
        self.subscriptions += (row for row in other.subscriptions if row[0] in new)
        missing = {**self.missing, **other.missing}
        self.missing = {name: None for name in missing if name not in self.brokers}


@dataclass(frozen=True, slots=True)
class _Publisher:
    """A publisher, combined from the answers of all brokers that know it."""

    id: int
    home: str
    owner: Owner
    rate: float
    bandwidth: float
    last: int


def owner_of(connection: str, publisher: str, clients: Iterable[str]) -> str:
    """The client whose publisher lives on a connection: another one, if the publisher has migrated.

    >>> owner_of("alice/quotes#2", "quotes", ["alice"]), owner_of("bob/quotes", "quotes", ["alice"])
    ('alice', 'bob/quotes')
    """
    guest = re.fullmatch(rf"(.+)/{re.escape(publisher)}(#\d+)?", connection, re.DOTALL)
    return guest[1] if guest and guest[1] in clients else connection


def make_picture(answers: Answers, pinned: Iterable[str] = ()) -> Picture:
    """Make the planner's input. A pinned client is an item even without subscriptions and publishers."""
    publishers = _publishers(answers)
    names = _names(publishers)
    bits = min((told.bits for told in answers.brokers.values()), default=0)
    profiles, notes = _profiles(answers, names, bits)
    lasts = _last_publications(publishers, names, profiles)
    told = [PublisherProfile(names[p.id], p.rate, p.bandwidth, lasts[p.id]) for p in publishers]
    windows = synchronise(told, [profile for _, profile in profiles], bits)
    homes, doubles = _homes(answers)
    publishing = {publisher.owner.client for publisher in publishers}
    by_client: dict[str, list[Profile]] = {
        client: [] for client in pinned if client in homes and client not in publishing
    }
    for (client, _), profile in zip(profiles, windows.profiles, strict=True):
        by_client.setdefault(client, []).append(profile)
    clients = sorted(by_client)
    brokers = sorted(answers.brokers)
    network = Network(
        tuple(_capacity(name, answers.brokers[name]) for name in brokers),
        tuple(told),
        tuple(clients),
        tuple(union(by_client[client]) for client in clients),
        windows.spans,
        tuple(_links(answers)),
        tuple(publisher.home for publisher in publishers),
        tuple(homes[client] for client in clients),
        scaling_for(bits),
        tuple(len(by_client[client]) for client in clients),
    )
    owners = {names[publisher.id]: publisher.owner for publisher in publishers}
    received = [sum(bits.bit_count() for bits in one.values()) for one in windows.profiles]
    evidence = _evidence(answers, network, received)
    return Picture(network, owners, homes, [*notes, *doubles, *_unlimited(answers)], evidence)


def _evidence(answers: Answers, network: Network, received: list[int]) -> Evidence:
    """How much data the picture is based on; its time is the longest window of any publisher."""
    seconds = max((told.window_ns for _, told in answers.publishers), default=0) / SECOND
    wanted = {number for profile in network.profiles for number in profile}
    spans = zip(network.spans, network.publishers, strict=True)
    windows = [(span, one.bandwidth) for n, (span, one) in enumerate(spans) if n in wanted]
    return evidence_of("brokers", seconds, windows, received)


def _capacity(name: str, told: BrokerInfo) -> Capacity:
    delay = Delay(told.matching_base_ns, told.matching_each_ns)
    return Capacity(name, float(told.output_bytes_per_s) or None, delay)


def _links(answers: Answers) -> list[tuple[str, str]]:
    pairs = {
        (min(one, other), max(one, other))
        for one, told in answers.brokers.items()
        for other in told.neighbours
        if other in answers.brokers
    }
    return sorted(pairs)


def _publishers(answers: Answers) -> list[_Publisher]:
    """The publishers. Where one is, its own broker says; how much it sends, whoever has known it longest."""
    told_of: dict[int, list[tuple[str, PublisherInfo]]] = {}
    for broker, told in answers.publishers:
        told_of.setdefault(told.id, []).append((broker, told))
    found = []
    for id, rows in told_of.items():
        here = [row for row in rows if row[1].client]
        if not here:
            raise NetworkError(
                f"publisher {rows[0][1].publisher} is just migrating: ask again in a moment"
            )
        home, now = max(here, key=lambda row: row[1].epoch)
        best = max((told for _, told in rows), key=lambda told: told.window_ns)
        seconds = max(best.window_ns, SECOND) / SECOND
        client = owner_of(now.client, now.publisher, answers.clients)
        owner = Owner(client, now.publisher, f"{id:x}")
        last = max(told.last for _, told in rows)
        rates = (best.publications / seconds, best.bytes / seconds)
        found.append(_Publisher(id, home, owner, *rates, last))
    return sorted(found, key=lambda one: (one.owner.client, one.owner.publisher, one.id))


def _names(publishers: list[_Publisher]) -> dict[int, str]:
    """What the publishers are called in a plan, by id."""
    taken: Counter[str] = Counter()
    names: dict[int, str] = {}
    for one in publishers:
        name = f"{one.owner.client}/{one.owner.publisher}"
        taken[name] += 1
        names[one.id] = name if taken[name] == 1 else f"{name}#{taken[name]}"
    return names


def _profiles(
    answers: Answers, names: dict[int, str], bits: int
) -> tuple[list[tuple[str, SubscriptionProfile]], list[str]]:
    """The subscriptions' profiles, each with its client."""
    found: dict[tuple[str, int], SubscriptionProfile] = {}
    strangers = set()
    for _, told in answers.subscriptions:
        key = told.client, told.id
        profile = found.setdefault(key, SubscriptionProfile(f"{told.id:x}"))
        for vector in told.vectors:
            if vector.advertisement in names:
                known = BitVector(vector.first, bits, int.from_bytes(vector.bits, "little"))
                profile.vectors[names[vector.advertisement]] = known
            else:
                strangers.add(vector.advertisement)
    notes = []
    if strangers:
        notes.append(
            f"what {len(strangers):,} publishers sent who have left meanwhile does not count"
        )
    left_out = [name for name, told in sorted(answers.brokers.items()) if told.left_out]
    if left_out:
        notes.append(f"{', '.join(left_out)} had no room for all profiles: loads are larger")
    return [(client, found[client, id]) for client, id in sorted(found)], notes


def _last_publications(
    publishers: list[_Publisher],
    names: dict[int, str],
    profiles: list[tuple[str, SubscriptionProfile]],
) -> dict[int, int]:
    """The last publication of each publisher that any broker knows: brokers do not answer at the same time."""
    newest: dict[str, int] = {}
    for _, profile in profiles:
        for name, vector in profile.vectors.items():
            last = vector.first + vector.bits.bit_length() - 1
            newest[name] = max(newest.get(name, 0), last)
    return {one.id: max(one.last, newest.get(names[one.id], 0)) for one in publishers}


def _homes(answers: Answers) -> tuple[dict[str, str], list[str]]:
    """The broker of every client; if there are two, the one with more of its subscriptions."""
    guests = {
        told.client
        for _, told in answers.publishers
        if owner_of(told.client, told.publisher, answers.clients) != told.client
    }
    subscriptions = Counter((told.client, broker) for broker, told in answers.subscriptions)
    homes, notes = {}, []
    for client, places in sorted(answers.clients.items()):
        if client not in guests:
            homes[client] = max(sorted(places), key=lambda broker: subscriptions[client, broker])
            if len(places) > 1:
                notes.append(
                    f"{client} is at {' and at '.join(sorted(places))}: it is moving, or two share a name"
                )
    for (client, broker), _ in sorted(subscriptions.items()):
        homes.setdefault(client, broker)
    return homes, notes


def _unlimited(answers: Answers) -> list[str]:
    if any(told.output_bytes_per_s for told in answers.brokers.values()):
        return []
    return [
        "no broker has a limit for its output, so one may get everything: "
        "set output_bytes_per_s in [profiles] or [limits]"
    ]
