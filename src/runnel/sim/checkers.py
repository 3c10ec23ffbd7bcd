"""The checker: what must, may and must not be delivered, decided with knowledge of the whole network.

A publication *must* be delivered if it was published after both the advertisement and the subscription were ready, if
everything between the two (brokers, runs of links, both paths of a move) has been undisturbed since then, if
nothing was dropped on the way because a queue was full, and if the subscription still exists. A link that breaks and
resumes is not a disturbance. What need not be delivered because of a disturbance or a drop is *lost*, and every loss
must have been announced to the subscriber: as a gap whose interval contains it, or as a number that it missed. Nothing
must be delivered across a broker that is gone for ever, nor across a link that was reported missing together with
readiness. A publication *may* be delivered if it matches and the subscription exists. Everything else is a violation:
duplicates, false positives, deliveries after unsubscribing, disorder, a link that starts fresh for no reason, a broker
that reports a peer error, readiness that does not name a link that has long been missing.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from runnel.broker.broker import Broker
from runnel.broker.connections import EXPIRED, OVERFLOW
from runnel.broker.effects import Exit, WriteTrace
from runnel.broker.invariants import check_broker
from runnel.client.effects import (
    Confirmed,
    Deliver,
    Gap,
    HomeUp,
    MissedSome,
    Moved,
    Ready,
    Unconfirmed,
)
from runnel.client.gaps import UNREACHED
from runnel.client.home import Home
from runnel.client.session import Session
from runnel.quantities import SECOND
from runnel.sim.model import Tree, Want, generation_of, host_name, process_of
from runnel.sim.resources import memory_used
from runnel.sim.world import Host, World
from runnel.wire import Publication

SILENT = "and was not told"  # in a violation: something was lost in silence
Element = tuple[str, str]  # a broker or client (name, ""), or the two ends of a link


class Violation(Exception):  # noqa: N818 -- a finding, not an error
    """What the checker found. `about`: the ids whose history explains it."""

    def __init__(self, message: str, *about: Any) -> None:
        super().__init__(message)
        self.about = about


def pair(one: str, other: str) -> Element:
    """The link between two hosts."""
    return (one, other) if one < other else (other, one)


@dataclass(slots=True)
class Promise:
    """A subscription or an advertisement, as its application knows it."""

    id: int
    client: str
    want: Want
    # When readiness was asked for and has not been reported yet.
    asks: list[int] = field(default_factory=list)
    asked: int = -1  # when the latest readiness that was reported had been asked for; -1: none was
    missing: frozenset[Element] = frozenset()  # the links that were reported missing with it
    behind: frozenset[Element] = frozenset()  # others that were missing behind these all the while
    ended: bool = False
    heard: dict[int, int] = field(default_factory=dict)  # advertisement on the wire → last counter
    heard_of: dict[int, int] = field(default_factory=dict)  # publisher → last number


@dataclass(slots=True)
class Departure:
    """A client went from a home to another one, and what had been disturbed by then."""

    home: str
    at: int
    disturbed: dict[Element, int]


@dataclass(slots=True)
class Published:
    """A publication, and who must get it: subscription → since when nothing may have been disturbed."""

    publication: Publication
    client: str
    home: str
    publisher: int
    number: int  # among those of the publisher
    at: int
    attributes: dict[str, Any]
    advertised: int  # when the latest readiness of its advertisement had been asked for
    owed: dict[int, int] = field(default_factory=dict)
    missing: dict[int, frozenset[Element]] = field(
        default_factory=dict
    )  # by subscription: the links that either side knew to be missing when it was published
    behind: frozenset[Element] = (
        frozenset()
    )  # those that its publisher could not be told the names of
    delivered: dict[int, None] = field(default_factory=dict)


class Checker:
    """Observes a world and raises Violation."""

    observes_brokers = True

    def __init__(self, tree: Tree, resume_timeout_ns: int) -> None:
        self.trees = {1: tree}  # by generation
        self.generation = 1  # the present one of the network
        self.gone: dict[str, None] = {}  # processes that crashed and stay away for ever
        # What is left of the overlay, once one of its brokers is gone.
        self._left: Tree | None = None
        self.world: World
        self.subscriptions: dict[int, Promise] = {}
        self.advertisements: dict[int, Promise] = {}
        self.published: dict[tuple[int, int], Published] = {}
        self.homes: dict[str, dict[str, int]] = {}  # client → broker → when it last lived there
        self.checked = 0
        self.checks_every_event = False
        self.seen: Counter[str] = Counter()  # what links went through
        self.missed: Counter[str] = Counter()  # drops that were reported to clients
        self._missed_before: Counter[str] = Counter()  # … up to the last rest
        # By client: what it lost and was told of by a number only.
        self._counted: dict[str, dict[tuple[int, int], None]] = {}
        self.gaps: dict[str, list[Gap]] = {}  # that clients were told of
        self.undelivered: dict[str, list[Gap]] = {}  # … about what they have published themselves
        self.settled_at = 0
        self.on_effect: Callable[[Host, Any], None] = lambda host, effect: None
        self.on_exit: Callable[[Host], None] = lambda host: None
        # Publisher → the brokers that it was at or migrated to.
        self._places: dict[int, dict[str, None]] = {}
        self._migration_messages: dict[Broker, int] = {}  # received by brokers up to the last rest
        self._resume_timeout_ns = resume_timeout_ns
        self._disturbed: dict[Element, int] = {}
        self._apart: dict[Element, int] = {}  # links that are missing, and since when
        self._excuses: dict[Element, int] = {}  # since when a fault may cost a link its run
        self._dropped: dict[tuple[str, str], int] = {}  # from, to → the latest
        self._lives_at: dict[str, str] = {}  # client → its home
        # … → the homes that it has left since the last rest.
        self._departures: dict[str, list[Departure]] = {}
        self._been_up: dict[Home, None] = {}
        # Links that were up before: only those can lose something.
        self._links: dict[tuple[str, str], None] = {}
        self._numbers: dict[int, int] = {}
        self._wandered: dict[str, None] = {}
        self._unconfirmed: dict[str, deque[Published]] = {}

    @property
    def tree(self) -> Tree:
        """The overlay, without brokers that are gone for ever."""
        return self._left or self.trees[self.generation]

    def is_gone(self, broker: str) -> bool:
        """Whether a broker stays away for ever."""
        return process_of(broker) in self.gone

    def note_gone(self, process: str) -> None:
        """A process does not come back: the overlay falls apart without it."""
        self.gone[process] = None
        self._left = self.tree.without(host_name(process, self.generation))

    def path(self, one: str, other: str) -> list[str]:
        """The path between two brokers, gone or not; empty between generations, or if one of them is on standby."""
        tree = self.trees[generation_of(one)]
        is_one = generation_of(one) == generation_of(other) and {one, other} <= {*tree.brokers}
        return tree.path(one, other) if is_one else []

    # -- notes of what applications do ----------------------------------------------------------------

    def note_subscription(self, client: str, id: int, want: Want) -> None:
        """An application subscribed."""
        self.subscriptions[id] = Promise(id, client, want)

    def note_advertisement(self, client: str, id: int, want: Want) -> None:
        """An application advertised."""
        self.advertisements[id] = Promise(id, client, want)

    def promise(self, id: int) -> Promise:
        """A subscription or an advertisement by its id."""
        return self.subscriptions.get(id) or self.advertisements[id]

    def note_ask(self, id: int) -> None:
        """An application asks for readiness."""
        self.promise(id).asks.append(self.world.now)

    def note_end(self, id: int) -> None:
        """An application withdrew a subscription or an advertisement."""
        self.promise(id).ended = True

    def note_publication(
        self, client: str, home: str, ad: int, made: Publication, values: dict[str, Any]
    ) -> None:
        """An application published: find the subscriptions that must get it."""
        now = self.world.now
        advertisement = self.advertisements[ad]
        number = self._numbers[ad] = self._numbers.get(ad, 0) + 1
        asked = advertisement.asked
        record = Published(made, client, home, ad, number, now, values, asked)
        if made.identity in self.published:
            raise Violation(f"{made.identity} was published twice", made.identity)
        record.behind = advertisement.behind
        self.published[made.identity] = record
        self._unconfirmed.setdefault(client, deque()).append(record)
        missing = advertisement.missing | self._links_unreached_by(client)
        if asked >= 0:
            for promise in self.subscriptions.values():
                if not promise.ended and promise.asked >= 0 and promise.want.matches(values):
                    record.owed[promise.id] = min(promise.asked, asked)
                    record.missing[promise.id] = promise.missing | missing

    def _links_unreached_by(self, client: str) -> frozenset[Element]:
        """The links of which its session has told a client, when it was set up anew, that they are missing."""
        gaps = self.gaps.get(client, ())
        unreached = [gap.link for gap in gaps if gap.is_open and gap.reason == UNREACHED]
        return frozenset(pair(*link.split("–")) for link in unreached)

    def note_homes(self, client: str, session: Session) -> None:
        """Note where a client lives now."""
        homes = self.homes.setdefault(client, {})
        for home in (session.home, session.next, session.ahead):
            if home is not None:
                homes[home.broker] = self.world.now
        if session.ahead is not None:
            self.note_wandering(client)
        if session.home is not None:
            self._note_home(client, session.home.broker)

    def _note_home(self, client: str, home: str) -> None:
        left, self._lives_at[client] = self._lives_at.get(client, home), home
        if left != home:
            departure = Departure(left, self.world.now, self._disturbed.copy())
            self._departures.setdefault(client, []).append(departure)

    def note_migration(self, id: int, source: str, target: str) -> None:
        """A publisher is on its way from one broker to another."""
        self._places.setdefault(id, {}).update({source: None, target: None})

    def note_migrated(self, id: int, client: str) -> None:
        """A publisher goes on in a session of its own."""
        self.advertisements[id].client = client

    def note_opened(self, client: str) -> None:
        """A client begins."""
        self._wandered.pop(client, None)
        self.missed[client] = self._missed_before[client] = 0
        self.gaps[client] = []
        self.undelivered[client] = []

    def note_wandering(self, client: str) -> None:
        """A client has or had more than one home, so its session may get duplicates and drop them."""
        self._wandered[client] = None

    def note_died(self, client: str) -> None:
        """A client crashed: nothing is known about its unconfirmed publications."""
        for record in self._unconfirmed.pop(client, ()):
            record.owed.clear()

    def disturb(self, one: str, other: str = "") -> None:
        """Note that a host's memory or a run of a link was lost."""
        self._disturbed[pair(one, other) if other else (one, "")] = self.world.now

    def excuse(self, one: str, other: str = "") -> None:
        """Note that a fault begins which may cost a link its run if it lasts."""
        self._excuses.setdefault(pair(one, other) if other else (one, ""), self.world.now)

    # -- effects of brokers and sessions --------------------------------------------------------------

    def after_event(self, host: Host, broker: Broker) -> None:
        """Queues stay within their caps at all times; in some runs all invariants are checked."""
        if self.checks_every_event:
            self.seen["invariants checked"] += 1
            check_broker(broker)
        for link in broker.links.values():
            if link.waiting_bytes > link.config.queue_bytes_max:
                raise Violation(f"{broker.name} has {link.waiting_bytes} bytes for {link.name}")

    def handle_effect(self, host: Host, effect: Any) -> None:
        """Check an effect."""
        match effect:
            case Deliver():
                for id in effect.subscriptions:
                    self._judge_delivery(host.name, id, effect.publication)
            case Ready(id=id, missing=missing):
                self._ready(host.name, id, missing)
            case HomeUp(broker=broker, fresh=fresh):
                self._home_up(host, broker, fresh)
            case MissedSome(count=count):
                self.missed[host.name] += count
            case Gap(is_ours=is_ours):
                self._note_gap(host.name, effect, self.undelivered if is_ours else self.gaps)
            case Moved(broker=broker):
                self._moved(host.name, broker)
            case Confirmed(count=count):
                self._take_unconfirmed(host.name, count)
            case Unconfirmed(count=count):
                for record in self._take_unconfirmed(host.name, count):
                    record.owed.clear()
            case Exit():
                self.on_exit(host)
            case WriteTrace(kind="link-up", data=data):
                self.seen["fresh" if data["fresh"] else "resumed"] += 1
                if data["fresh"] and (host.name, data["peer"]) in self._links:
                    self._link_lost(host.name, data["peer"])
                self._links[host.name, data["peer"]] = None
                self._apart.pop(pair(host.name, data["peer"]), None)
            case WriteTrace(kind="link-lost", data=data):
                self._purged(host.name, data["peer"], data["reason"])
            case WriteTrace(kind="dropped", data=data):
                self.seen["dropped"] += data["count"]
                self._dropped[host.name, data["peer"]] = self.world.now
            case WriteTrace(kind="peer-error" | "id-conflict", data=data):
                raise Violation(f"{host.name} accuses {data['peer']}: {data['error']}")
            case WriteTrace(kind="late-probe", data=data):
                raise Violation(f"monitoring waited behind data from {data['peer']} to {host.name}")
        self.on_effect(host, effect)

    def _note_gap(self, client: str, gap: Gap, told: dict[str, list[Gap]]) -> None:
        """A gap that is over was told before, when it began; one that was counted begins and is over at once."""
        gaps = told[client]
        self.seen["gaps to publishers" if gap.is_ours else "gaps"] += gap.is_open or gap.count > 0
        begun = [one for one in gaps if one.is_open and one.link == gap.link]
        if gap.is_open or gap.count:
            gaps.append(gap)
        elif (
            not begun and not gap.is_ours
        ):  # a publisher that moves may hear of an end from both homes
            raise Violation(f"{client} was told that {gap} is over, and not that it began")
        else:
            gaps[:] = [one for one in gaps if one not in begun]
            gaps.append(gap)

    def _judge_delivery(self, client: str, id: int, publication: Publication) -> None:
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

    def _take_unconfirmed(self, client: str, count: int) -> list[Published]:
        """Remove and return the oldest unconfirmed publications of a client, which were confirmed or are in doubt."""
        waiting = self._unconfirmed.get(client, deque())
        if count > len(waiting):
            raise Violation(f"{client} was told about {count} publications, it had {len(waiting)}")
        return [waiting.popleft() for _ in range(count)]

    def _ready(self, client: str, id: int, missing: tuple[str, ...]) -> None:
        promise = self.promise(id)
        if not promise.asks:
            raise Violation(f"ready was told for {id}, but not asked for", id)
        asked = promise.asks.pop(0)
        promise.asked = max(promise.asked, asked)
        promise.missing = frozenset(pair(*link.split("–")) for link in missing)
        promise.behind = self._missing_behind(self._home_now(client), promise.missing)
        if not missing and (apart := self._apart_from(self._home_now(promise.client), asked)):
            raise Violation(
                f"ready was told for {id} to {promise.client} as if {apart} were there", id
            )
        self.seen["ready"] += 1
        self.seen["ready in part"] += bool(missing)

    def _missing_behind(self, home: str, named: frozenset[Element]) -> frozenset[Element]:
        """Links that are missing behind those that are named, as seen from a broker: nobody there can know of them."""
        if not (home and named):
            return frozenset()
        ways = {
            link: [pair(*step) for step in pairwise(self.path(home, link[0]))]
            for link in self._apart
        }
        return frozenset(
            link for link, way in ways.items() if link not in named and not named.isdisjoint(way)
        )

    def _apart_from(self, home: str, asked: int) -> Element | None:
        """A link that had been missing for long when somebody at a broker asked, and of which that broker can know."""
        for (one, other), since in self._apart.items():
            path = self.path(home, one) if home else []
            if not path or asked - since < self._resume_timeout_ns:
                continue
            if other in path:
                path.remove(one)  # it is the far end
            on_the_way = [(broker, "") for broker in path] + [
                pair(*step) for step in pairwise(path)
            ]
            if not any(
                element in self._excuses or element in self._apart for element in on_the_way
            ):
                return one, other
        return None

    def _home_up(self, host: Host, broker: str, fresh: bool) -> None:
        session = host.machine
        assert isinstance(session, Session)
        self.note_homes(host.name, session)
        if not fresh:
            return
        homes = (session.home, session.next, session.ahead)
        home = next((one for one in homes if one is not None and one.broker == broker), None)
        # None: a move ended, as its old home had lost its memory.
        if home is None or home in self._been_up:
            self.fresh_run_of(host.name)
            self.note_wandering(host.name)
            self._link_lost(host.name, broker)
        if home is not None:
            self._been_up[home] = None

    def _moved(self, client: str, broker: str) -> None:
        """If a move ended because its old home was out of reach for too long, that is a disturbance."""
        for old in self.homes[client]:
            since = self._excuses.get(pair(client, old), self.world.now)
            if old != broker and self.world.now - since >= self._resume_timeout_ns:
                self.disturb(client, old)
        self._note_home(client, broker)

    def fresh_run_of(self, client: str) -> None:
        """A client was set up anew: publications of its publishers may still arrive by an older path for a while."""
        for promise in self.advertisements.values():
            if promise.client == client:
                for subscription in self.subscriptions.values():
                    subscription.heard_of.pop(promise.id, None)

    def _purged(self, host: str, peer: str, reason: str) -> None:
        if reason.endswith("the broker leaves"):
            return  # it has handed on everything that it had
        if reason == OVERFLOW:
            self.seen["overflowed"] += 1
            self._excuses[pair(host, peer)] = self.world.now - self._resume_timeout_ns
        elif reason == EXPIRED:
            self.seen["expired"] += 1
        if peer not in self.homes:
            self._apart.setdefault(pair(host, peer), self.world.now)
        self._link_lost(host, peer)

    def _link_lost(self, host: str, peer: str) -> None:
        if peer in self.homes:  # a loss at a client is noted when its session reports it
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
        """Nothing is under way: everything that must be delivered has been, and all routes are complete from now on."""
        for record in self.published.values():
            for id, since in record.owed.items():
                self.checked += 1
                promise = self.subscriptions[id]
                if self._is_excused(record, promise, since):
                    self._demand_told(record, promise)
                    self._demand_publisher_told(record, promise, since)
                else:
                    identity = record.publication.identity
                    where = f"{record.client} at {record.home}"
                    client = self.subscriptions[id].client
                    homes = list(self.homes[client])
                    raise Violation(
                        f"{client} (homes {homes}) never got {identity}, published "
                        f"at {record.at / SECOND:.9f} s by {where}, for {id}",
                        identity,
                        id,
                    )
        self._check_counts()
        now = self.world.now
        for promise in (*self.subscriptions.values(), *self.advertisements.values()):
            if promise.ended:
                continue
            if promise.asks:
                raise Violation(f"{promise.client} was never told that {promise.id} is ready")
            promise.asked = now
            promise.missing = frozenset(filter(self._is_apart, promise.missing))
            promise.behind = frozenset(filter(self._is_apart, promise.behind))
        for client, session in sessions.items():
            self.homes[client] = {}
            self.note_homes(client, session)
            if session.home is not None:
                self._check_one_home(client, session, session.home)
        for client, waiting in self._unconfirmed.items():
            if waiting:
                raise Violation(f"{client} was never told about {len(waiting)} publications")
        self._check_paths()
        for told in (self.gaps, self.undelivered):
            for client, gaps in told.items():
                told[client] = [gap for gap in gaps if gap.is_open]
        self.published.clear()
        self._excuses.clear()
        self._disturbed.clear()
        self._dropped.clear()
        self._departures.clear()
        self.settled_at = now

    def _demand_told(self, record: Published, promise: Promise) -> None:
        """A subscriber was told of what it has lost: of an interval that contains it, or how many it missed."""
        client, name = promise.client, record.publication.publisher
        if promise.ended or self._is_known_missing(record, promise):
            return
        self.seen["losses"] += 1
        homes = self.homes[client]
        steps = {pair(*step) for home in homes for step in pairwise(self.path(record.home, home))}
        fitting = [
            gap
            for gap in self.gaps[client]
            if gap.since_ns <= record.at
            and (gap.is_open or record.at <= gap.until_ns)
            # of a publisher who came later nobody can know on the other side of a link that is gone
            and (
                not gap.publishers or name in gap.publishers or pair(*gap.link.split("–")) in steps
            )
        ]
        is_counted = any(gap.count for gap in fitting) or (
            self.missed[client] > self._missed_before[client]
            and any(self._dropped.get((home, client), -1) >= record.at for home in homes)
        )
        if is_counted and all(gap.count for gap in fitting):
            self._counted.setdefault(client, {})[record.publication.identity] = None
        if not (fitting or is_counted):
            identity = record.publication.identity
            raise Violation(
                f"{client} (homes {list(homes)}) lost {identity}, published at "
                f"{record.at / SECOND:.9f} s by {record.client} at {record.home}, {SILENT}: "
                f"{self.gaps[client]}",
                identity,
                promise.id,
            )

    def _check_counts(self) -> None:
        """What was told with a number only is no more than that number."""
        for client, lost in self._counted.items():
            missed = self.missed[client] - self._missed_before[client]
            counts = sum(gap.count for gap in self.gaps[client])
            self.seen["losses counted"] += len(lost)
            if len(lost) > missed + counts:
                raise Violation(
                    f"{client} lost {len(lost)} publications {SILENT} of more than {missed} that it missed and "
                    f"{counts} dropped on their way: {list(lost)[:10]}",
                    *lost,
                )
        self._counted.clear()
        self._missed_before = self.missed.copy()

    def _demand_publisher_told(self, record: Published, promise: Promise, since: int) -> None:
        """A publisher that stayed at its broker was told of what was lost between brokers: of an interval, or a number.

        Not of what a subscriber has lost itself, with its connection or its own queue. Nor of what goes over a link
        that was missing already, behind one that was named, when the publisher was last told of readiness: no loss
        begins there for its broker to hear of, and what was named holds until the publisher asks again.
        """
        if promise.ended or self.advertisements[record.publisher].ended:
            return
        if self._is_known_missing(record, promise) or self._leads_over(
            record, promise, record.behind
        ):
            return
        if not self._is_lost_between_brokers(record, promise, since):
            return
        self.seen["losses to publishers"] += 1
        gaps = self.undelivered.get(record.client, [])
        if not any(
            g.since_ns <= record.at and (g.is_open or record.at <= g.until_ns) for g in gaps
        ):
            identity = record.publication.identity
            raise Violation(
                f"{record.client} at {record.home} published {identity} at {record.at / SECOND:.9f} s, which "
                f"{promise.client} (homes {list(self.homes[promise.client])}) lost, {SILENT}: {gaps}",
                identity,
                promise.id,
            )

    def _is_lost_between_brokers(self, record: Published, promise: Promise, since: int) -> bool:
        """Whether a publisher that stayed has lost something on the way to a subscriber that stayed."""
        homes = self.homes[promise.client]
        stayed = list(self.homes.get(record.client, ())) == [record.home] and len(homes) == 1
        if (
            record.publisher in self._places
        ):  # it migrates, and its brokers do not agree where it is
            stayed = False
        home = next(iter(homes))
        path = self.path(record.home, home) if stayed else []
        own = [(promise.client, ""), (record.client, ""), (record.home, "")]
        own += [pair(promise.client, home), pair(record.client, record.home)]
        if not path or any(self._disturbed.get(one, -1) >= since for one in own):
            return False
        return self._dropped.get((home, promise.client), -1) < record.at

    def _is_known_missing(self, record: Published, promise: Promise) -> bool:
        """Whether the way leads over a link that was reported missing together with readiness."""
        return self._leads_over(record, promise, record.missing[promise.id])

    def _leads_over(self, record: Published, promise: Promise, missing: frozenset[Element]) -> bool:
        return bool(missing) and any(
            pair(*step) in missing
            for home in self.homes[promise.client]
            for step in pairwise([*self.path(record.home, home), promise.client])
        )

    def _is_apart(self, link: Element) -> bool:
        return link in self._apart or any(map(self.is_gone, link))

    def _check_paths(self) -> None:
        """Only brokers on paths between the places of a publisher have received messages of its migration."""
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
        """A client that never changed its home got no duplicates, and every drop was reported to it."""
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
                    # It is the home in another generation; a loss there counts too.
                    if any(home in one and at >= since for one, at in self._disturbed.items()):
                        return True
                    continue
                if any(map(self.is_gone, path)):
                    return True
                elements = [(broker, "") for broker in path]
                steps = list(zip(path, [*path[1:], promise.client], strict=True))
                if any(pair(*step) in record.missing[promise.id] for step in steps):
                    return True
                elements += [pair(*step) for step in steps]
                elements.append(pair(record.client, record.home))
                if any(self._disturbed.get(element, -1) >= since for element in elements):
                    return True
                if any(self._dropped.get(step, -1) >= record.at for step in steps):
                    return True
                if self._is_from_disturbed_home(record, home):
                    return True
        return self._disturbed.get((record.client, ""), -1) >= since

    def _is_from_disturbed_home(self, record: Published, home: str) -> bool:
        """Whether its publisher left a home, after a disturbance of the way from there, and was not ready again since.

        A move installs routes on the path between its two homes. Elsewhere it relies on those of the old home: what
        leads to a broker off that path may have been withdrawn, and not be back yet when the publisher goes on.
        """
        for left in self._departures.get(record.client, ()):
            path = self.path(left.home, home) if left.at <= record.at else []
            elements = [(broker, "") for broker in path]
            elements += [pair(*step) for step in pairwise([record.client, *path])]
            if any(left.disturbed.get(one, -1) >= record.advertised for one in elements):
                return True
        return False

    def _home_now(self, client: str) -> str:
        session = self.world.hosts[client].machine
        return session.home.broker if isinstance(session, Session) and session.home else ""


def check_memory(host: Host, broker: Broker) -> None:
    """A broker stays within its memory."""
    if memory_used(broker) > host.resources.memory_bytes:
        raise Violation(f"{broker.name} uses {memory_used(broker)} bytes of memory")
