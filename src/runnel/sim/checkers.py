"""The checkers: what must, may and must not be delivered, decided by somebody who sees everything.

*Must*: published after both the advertisement and the subscription were ready, and everything between the two
(brokers, runs of links, both paths during a move) undisturbed since then, nothing dropped for want of room on the
way, the subscription still there. A link that breaks and resumes is no disturbance. *May*: it matches, and the
subscription is there. Everything else is a violation: duplicates, false positives, deliveries after unsubscribing,
disorder, a link that starts fresh for no reason, a broker that accuses another.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runnel.broker.broker import Broker
from runnel.broker.connections import EXPIRED, OVERFLOW
from runnel.broker.effects import Exit, Trace
from runnel.client.effects import Confirmed, Deliver, HomeUp, MissedSome, Moved, Ready, Unconfirmed
from runnel.client.home import Home
from runnel.client.session import Session
from runnel.sim.model import Tree, Want, generation_of
from runnel.sim.resources import memory_used
from runnel.sim.world import Host, World
from runnel.wire import Publication

Element = tuple[str, str]  # a broker or client (name, ""), or the two ends of a link


class Violation(Exception):  # noqa: N818 -- it is what is found, not an error of ours
    """What a checker found. `about`: the ids whose story to tell."""

    def __init__(self, message: str, *about: Any) -> None:
        super().__init__(message)
        self.about = about


def pair(one: str, other: str) -> Element:
    """The link between two hosts."""
    return (one, other) if one < other else (other, one)


@dataclass(slots=True)
class Promise:
    """A subscription or an advertisement: what its application knows about it."""

    id: int
    client: str
    want: Want
    asks: list[int] = field(default_factory=list)  # when readiness was asked for, and not told yet
    asked: int = -1  # when the readiness that was told had been asked for; -1: none was
    ended: bool = False
    heard: dict[int, int] = field(default_factory=dict)  # advertisement on the wire → last counter
    heard_of: dict[int, int] = field(default_factory=dict)  # publisher → last number


@dataclass(slots=True)
class Published:
    """A publication, and who must get it: subscription → since when everything must be undisturbed."""

    publication: Publication
    client: str
    home: str
    publisher: int
    number: int  # among those of the publisher
    at: int
    attributes: dict[str, Any]
    owed: dict[int, int] = field(default_factory=dict)
    delivered: dict[int, None] = field(default_factory=dict)


class Checker:
    """Looks on, and raises Violation."""

    watches_brokers = True

    def __init__(self, tree: Tree, resume_timeout_ns: int) -> None:
        self.trees = {1: tree}  # by generation
        self.generation = 1  # that the network has settled for
        self.world: World
        self.subscriptions: dict[int, Promise] = {}
        self.advertisements: dict[int, Promise] = {}
        self.published: dict[tuple[int, int], Published] = {}
        self.homes: dict[str, dict[str, int]] = {}  # client → broker → when it last lived there
        self.checked = 0
        self.seen: Counter[str] = Counter()  # what links went through
        self.missed: Counter[str] = Counter()  # what clients were told that they missed
        self.settled_at = 0
        self.on_told: Callable[[Host, Any], None] = lambda host, effect: None
        self.on_exit: Callable[[Host], None] = lambda host: None
        self._places: dict[int, dict[str, None]] = {}  # publisher → where it was, or was to be
        self._migration_messages: dict[Broker, int] = {}  # that brokers had taken in, at rest
        self._resume_timeout_ns = resume_timeout_ns
        self._disturbed: dict[Element, int] = {}
        self._excuses: dict[Element, int] = {}  # since when a link or host has a reason to be lost
        self._dropped: dict[tuple[str, str], int] = {}  # from, to → the latest
        self._been_up: dict[Home, None] = {}
        self._links: dict[tuple[str, str], None] = {}  # that were up: the first time loses nothing
        self._numbers: dict[int, int] = {}
        self._wandered: dict[str, None] = {}
        self._unconfirmed: dict[str, deque[Published]] = {}

    @property
    def tree(self) -> Tree:
        """The overlay."""
        return self.trees[self.generation]

    def path(self, one: str, other: str) -> list[str]:
        """The brokers from one to another, if they are of one generation and neither is on standby."""
        tree = self.trees[generation_of(one)]
        is_one = generation_of(one) == generation_of(other) and {one, other} <= {*tree.brokers}
        return tree.path(one, other) if is_one else []

    # -- what applications do -------------------------------------------------------------------------

    def subscribed(self, client: str, id: int, want: Want) -> None:
        """An application subscribed."""
        self.subscriptions[id] = Promise(id, client, want)

    def advertised(self, client: str, id: int, want: Want) -> None:
        """An application advertised."""
        self.advertisements[id] = Promise(id, client, want)

    def promise(self, id: int) -> Promise:
        """A subscription or an advertisement by its id."""
        return self.subscriptions.get(id) or self.advertisements[id]

    def asked_ready(self, id: int) -> None:
        """An application asks for readiness."""
        self.promise(id).asks.append(self.world.now)

    def ended(self, id: int) -> None:
        """An application withdrew a subscription or an advertisement."""
        self.promise(id).ended = True

    def publishes(
        self, client: str, home: str, ad: int, made: Publication, values: dict[str, Any]
    ) -> None:
        """An application published: who is owed it?"""
        now = self.world.now
        advertisement = self.advertisements[ad]
        number = self._numbers[ad] = self._numbers.get(ad, 0) + 1
        record = Published(made, client, home, ad, number, now, values)
        if made.identity in self.published:
            raise Violation(f"{made.identity} was published twice", made.identity)
        self.published[made.identity] = record
        self._unconfirmed.setdefault(client, deque()).append(record)
        if advertisement.asked >= 0:
            for promise in self.subscriptions.values():
                if not promise.ended and promise.asked >= 0 and promise.want.matches(values):
                    record.owed[promise.id] = min(promise.asked, advertisement.asked)

    def lives_at(self, client: str, session: Session) -> None:
        """Note where a client lives now."""
        homes = self.homes.setdefault(client, {})
        for home in (session.home, session.next, session.ahead):
            if home is not None:
                homes[home.broker] = self.world.now
        if session.ahead is not None:
            self.wanders(client)

    def migrates(self, id: int, source: str, target: str) -> None:
        """A publisher is on its way from one broker to another."""
        self._places.setdefault(id, {}).update({source: None, target: None})

    def has_migrated(self, id: int, client: str) -> None:
        """A publisher goes on in a session of its own."""
        self.advertisements[id].client = client

    def opened(self, client: str) -> None:
        """A client begins."""
        self._wandered.pop(client, None)
        self.missed[client] = 0

    def wanders(self, client: str) -> None:
        """A client has, or had, more than one home: it may get doubles, and drop them."""
        self._wandered[client] = None

    def died(self, client: str) -> None:
        """A client ended without a word: nobody knows what became of its last publications."""
        for record in self._unconfirmed.pop(client, ()):
            record.owed.clear()

    def disturb(self, one: str, other: str = "") -> None:
        """Something on the way was lost: a host's memory, or a run of a link."""
        self._disturbed[pair(one, other) if other else (one, "")] = self.world.now

    def excuse(self, one: str, other: str = "") -> None:
        """A fault begins, which may cost a link its run if it lasts."""
        self._excuses.setdefault(pair(one, other) if other else (one, ""), self.world.now)

    # -- what brokers and sessions say ----------------------------------------------------------------

    def handled(self, host: Host, broker: Broker) -> None:
        """Queues stay within their caps at all times."""
        for link in broker.links.values():
            if link.waiting_bytes > link.config.queue_bytes_max:
                raise Violation(f"{broker.name} has {link.waiting_bytes} bytes for {link.name}")

    def told(self, host: Host, effect: Any) -> None:
        """Judge what was traced or told."""
        match effect:
            case Deliver():
                for id in effect.subscriptions:
                    self._delivered(host.name, id, effect.publication)
            case Ready(id=id):
                self._ready(id)
            case HomeUp(broker=broker, fresh=fresh):
                self._home_up(host, broker, fresh)
            case MissedSome(count=count):
                self.missed[host.name] += count
            case Moved(broker=broker):
                self._moved(host.name, broker)
            case Confirmed(count=count):
                self._taken(host.name, count)
            case Unconfirmed(count=count):
                for record in self._taken(host.name, count):
                    record.owed.clear()
            case Exit():
                self.on_exit(host)
            case Trace(kind="link-up", data=data):
                self.seen["fresh" if data["fresh"] else "resumed"] += 1
                if data["fresh"] and (host.name, data["peer"]) in self._links:
                    self._link_lost(host.name, data["peer"])
                self._links[host.name, data["peer"]] = None
            case Trace(kind="link-lost", data=data):
                self._purged(host.name, data["peer"], data["reason"])
            case Trace(kind="dropped", data=data):
                self.seen["dropped"] += data["count"]
                self._dropped[host.name, data["peer"]] = self.world.now
            case Trace(kind="peer-error", data=data):
                raise Violation(f"{host.name} accuses {data['peer']}: {data['error']}")
            case Trace(kind="late-probe", data=data):
                raise Violation(f"monitoring waited behind data from {data['peer']} to {host.name}")
        self.on_told(host, effect)

    def _delivered(self, client: str, id: int, publication: Publication) -> None:
        self.checked += 1
        identity = publication.identity
        record = self.published.get(identity)
        promise = self.subscriptions.get(id)
        if record is None:
            raise Violation(f"{client} got {identity}, which nobody published", identity)
        if promise is None or promise.client != client or promise.ended:
            raise Violation(f"{client} got {identity} for {id}, which it has not", identity, id)
        if not promise.want.matches(record.attributes):
            raise Violation(f"{client} got {identity} for {id}: no match", identity, id)
        if publication.payload != record.publication.payload:
            raise Violation(f"{client} got {identity} with another payload", identity)
        if id in record.delivered:
            raise Violation(f"{client} got {identity} for {id} twice", identity, id)
        record.delivered[id] = None
        was_owed = record.owed.pop(id, None) is not None
        if promise.heard.get(identity[0], 0) >= identity[1]:
            raise Violation(f"{client} got {identity} for {id} out of order", identity, id)
        promise.heard[identity[0]] = identity[1]
        late = promise.heard_of.get(record.publisher, 0) >= record.number
        if late and was_owed and not self._is_excused(record, promise, self.settled_at):
            raise Violation(f"{client} got {identity} for {id} after a later one", identity, id)
        # A publisher that moves has another advertisement; what was owed still comes in its order.
        promise.heard_of[record.publisher] = max(
            record.number, promise.heard_of.get(record.publisher, 0)
        )

    def _taken(self, client: str, count: int) -> list[Published]:
        """What became of so many publications of a client, oldest first, was told."""
        waiting = self._unconfirmed.get(client, deque())
        if count > len(waiting):
            raise Violation(f"{client} was told about {count} publications, it had {len(waiting)}")
        return [waiting.popleft() for _ in range(count)]

    def _ready(self, id: int) -> None:
        promise = self.promise(id)
        if not promise.asks:
            raise Violation(f"ready was told for {id}, but not asked for", id)
        promise.asked = max(promise.asked, promise.asks.pop(0))

    def _home_up(self, host: Host, broker: str, fresh: bool) -> None:
        session = host.machine
        assert isinstance(session, Session)
        self.lives_at(host.name, session)
        if not fresh:
            return
        homes = (session.home, session.next, session.ahead)
        home = next((one for one in homes if one is not None and one.broker == broker), None)
        if home is None or home in self._been_up:  # None: a move found its old home without memory
            self.fresh_run_of(host.name)
            self.wanders(host.name)
            self._link_lost(host.name, broker)
        if home is not None:
            self._been_up[home] = None

    def _moved(self, client: str, broker: str) -> None:
        """A move does not wait for an old home that cannot be reached for too long."""
        for old in self.homes[client]:
            since = self._excuses.get(pair(client, old), self.world.now)
            if old != broker and self.world.now - since >= self._resume_timeout_ns:
                self.disturb(client, old)

    def fresh_run_of(self, client: str) -> None:
        """A client is set up anew: its publishers may be heard through an older path a while longer."""
        for promise in self.advertisements.values():
            if promise.client == client:
                for subscription in self.subscriptions.values():
                    subscription.heard_of.pop(promise.id, None)

    def _purged(self, host: str, peer: str, reason: str) -> None:
        if reason.endswith("the broker leaves"):
            return  # in order: it has handed on what it had
        if reason == OVERFLOW:
            self.seen["overflowed"] += 1
            self._excuses[pair(host, peer)] = self.world.now - self._resume_timeout_ns
        elif reason == EXPIRED:
            self.seen["expired"] += 1
        self._link_lost(host, peer)

    def _link_lost(self, host: str, peer: str) -> None:
        if peer in self.homes:  # what a client lost it finds out by itself
            return
        now, element = self.world.now, pair(host, peer)
        since = self._excuses.get(element)
        justified = (
            (since is not None and now - since >= self._resume_timeout_ns)
            or self._excuses.get((host, "")) is not None
            or self._excuses.get((peer, "")) is not None
            or self._disturbed.get(element, -1) > self.settled_at
        )
        self._disturbed[element] = now
        if not justified:
            raise Violation(f"the link {host}-{peer} started fresh for no reason")

    # -- at rest --------------------------------------------------------------------------------------

    def at_rest(self, sessions: dict[str, Session]) -> None:
        """Nothing is under way: what was owed must have come, and from now on all routes are complete."""
        for record in self.published.values():
            for id, since in record.owed.items():
                self.checked += 1
                if not self._is_excused(record, self.subscriptions[id], since):
                    identity = record.publication.identity
                    where = f"{record.client} at {record.home}"
                    client = self.subscriptions[id].client
                    homes = list(self.homes[client])
                    raise Violation(
                        f"{client} (homes {homes}) never got {identity}, published "
                        f"at {record.at / 1e9:.9f} s by {where}, for {id}",
                        identity,
                        id,
                    )
        now = self.world.now
        for promise in (*self.subscriptions.values(), *self.advertisements.values()):
            if promise.ended:
                continue
            if promise.asks:
                raise Violation(f"{promise.client} was never told that {promise.id} is ready")
            promise.asked = now
        for client, session in sessions.items():
            self.homes[client] = {}
            self.lives_at(client, session)
            if session.home is not None:
                self._check_one_home(client, session, session.home)
        for client, waiting in self._unconfirmed.items():
            if waiting:
                raise Violation(f"{client} was never told about {len(waiting)} publications")
        self._check_paths()
        self.published.clear()
        self._excuses.clear()
        self._disturbed.clear()
        self._dropped.clear()
        self.settled_at = now

    def _check_paths(self) -> None:
        """Only brokers between the places of a publisher have heard of its migration."""
        allowed = {
            broker
            for places in self._places.values()
            for one in places
            for other in places
            for broker in (*self.path(one, other), one, other)
        }
        for broker in self.world.brokers:
            heard = broker.meter.messages_in["Mum"] + broker.meter.messages_in["Mcm"]
            if heard > self._migration_messages.get(broker, 0) and broker.name not in allowed:
                raise Violation(f"{broker.name} heard of a migration that does not concern it")
            self._migration_messages[broker] = heard
        self._places.clear()

    def _check_one_home(self, client: str, session: Session, home: Home) -> None:
        """A client that never changed its home got no doubles, and was told of every drop."""
        if home.link.dropped:
            raise Violation(f"{client} dropped its own publications")
        if client in self._wandered:
            return
        if session.doubles:
            raise Violation(f"{client} was sent {session.doubles} publications twice")
        broker = self.world.hosts[home.broker].machine
        assert isinstance(broker, Broker)
        if broker.links[client].dropped != self.missed[client]:
            raise Violation(f"{client} was told of {self.missed[client]} drops, there were others")

    def _is_excused(self, record: Published, promise: Promise, since: int) -> bool:
        if promise.ended or self._disturbed.get((promise.client, ""), -1) >= since:
            return True
        for home, last in self.homes[promise.client].items():
            if last >= since or home == self._home_now(promise.client):
                path = self.path(record.home, home)
                if not path:
                    # Where it lives in the other generation: what it lost there it may not know of here.
                    if any(home in one and at >= since for one, at in self._disturbed.items()):
                        return True
                    continue
                elements = [(broker, "") for broker in path]
                steps = list(zip(path, [*path[1:], promise.client], strict=True))
                elements += [pair(*step) for step in steps]
                elements.append(pair(record.client, record.home))
                if any(self._disturbed.get(element, -1) >= since for element in elements):
                    return True
                if any(self._dropped.get(step, -1) >= record.at for step in steps):
                    return True
        return self._disturbed.get((record.client, ""), -1) >= since

    def _home_now(self, client: str) -> str:
        session = self.world.hosts[client].machine
        return session.home.broker if isinstance(session, Session) and session.home else ""


def check_memory(host: Host, broker: Broker) -> None:
    """A broker stays within its memory."""
    if memory_used(broker) > host.resources.memory_bytes:
        raise Violation(f"{broker.name} uses {memory_used(broker)} bytes of memory")
