"""The clients of a scenario in a simulated world, each with a session: the code that ships.

The clients watch the world's effects. They keep counters instead of lists, because there are thousands of them.
"""

from __future__ import annotations

from typing import Any, cast

from runnel.broker.broker import Broker
from runnel.broker.effects import WriteTrace
from runnel.broker.ids import IdSource
from runnel.broker.links import LinkConfig
from runnel.client.config import SessionConfig
from runnel.client.effects import Deliver, HomeUp, MissedSome, Ready
from runnel.client.session import Session
from runnel.lab.roaming import Note, PublishingClient, RoamingPublishers
from runnel.lab.scenario import ClientSettings
from runnel.lab.scenario_workload import due_times
from runnel.quantities import MILLISECOND, SECOND
from runnel.sim.world import Host, World
from runnel.wire import Publication
from runnel.wire.header import FRAME, LENGTH_BYTES, PUBLICATION_TAG
from runnel.workload.shape import Workload

RETRY_NS = MILLISECOND  # a publisher without credit asks again
_read_frame = FRAME.unpack_from
_FIRST_NUMBER = 1 << 20  # of clients; brokers are numbered from 1
_IN_LINKS = frozenset({"link-up", "link-lost"})  # the trace's table of links has these already


class CountingSubscriber(Session):
    """A subscriber that counts publications without decoding and matching them.

    This saves time: decoding and matching would take as long as the broker took. It is correct as long as no client
    moves, because then nothing arrives twice; the broker has matched already, and the trace has the delivery.
    Everything that is not a publication (handshakes, acknowledgements, reconnecting) is left to the session.
    """

    received = 0

    def _frames_arrived(self, conn: int, chunk: bytes, now: int) -> None:
        home = self.home
        is_known = home is not None and home.conn == conn and home.link.established
        if home is not None and is_known and not home.decoder.waiting_bytes:
            count, rest = without_publications(chunk)
            self.received += count
            home.link.count_publications(count)
            home.link.heard(len(chunk) - len(rest), now)
            if not rest:
                return
            chunk = rest
        super()._frames_arrived(conn, chunk, now)

    def _deliver(self, publication: Publication) -> None:
        self.received += 1


def without_publications(chunk: bytes) -> tuple[int, bytes]:
    """How many publications a chunk holds, and the chunk without them.

    >>> from runnel.wire import Fence, encode, make_publication
    >>> frame, fence = make_publication(7, 1, {"a": 1}).raw, encode(Fence(5))
    >>> without_publications(frame * 3)
    (3, b'')
    >>> without_publications(frame + fence + frame + frame[:9]) == (2, fence + frame[:9])
    True
    """
    count, rest, start, end = 0, b"", 0, len(chunk)
    last = end - FRAME.size
    while start <= last:
        length, tag = _read_frame(chunk, start)
        stop = start + length + LENGTH_BYTES
        if stop > end:
            break
        if tag == PUBLICATION_TAG:
            count += 1
        else:
            rest += chunk[start:stop]
        start = stop
    return count, rest + chunk[start:]


class ScenarioClients:
    """All clients of a run. `names` are the brokers by index; with `follow`, publishers migrate when brokers ask."""

    observes_brokers = False

    def __init__(
        self,
        workload: Workload,
        names: tuple[str, ...],
        settings: ClientSettings,
        *,
        follow: bool = False,
    ) -> None:
        self.world: World
        self.roaming: RoamingPublishers
        self._link: LinkConfig
        self._note: Note
        self.published = 0
        self._delivered = 0
        self.missed = 0
        self.waiting_for_homes = 0
        self.waiting_for_routes = 0
        self.held_back = 0  # how often a publisher had no credit when it was due
        self._workload = workload
        self._names = names
        self._payload = bytes(settings.payload_bytes)
        self._verify = settings.verify
        self._read_every_ns = round(settings.read_every_s * SECOND)
        self._follow = follow
        self._pings_in_series = settings.pings == "in series"
        self._publishers: list[PublishingClient] = []
        self._subscribers: dict[int, Host] = {}
        self._made = 0
        self._zero_ns = self._end_ns = 0

    def enter(self, world: World, link: LinkConfig, note: Note) -> None:
        """Set the world that the clients live in, the limits of their links, and what writes notes into the trace."""
        self.world, self._link, self._note = world, link, note
        self.roaming = RoamingPublishers(
            *(world, self._connect, self._publish, note), pings_in_series=self._pings_in_series
        )

    # -- coming and going -----------------------------------------------------------------------------

    def start_publishers(self) -> None:
        """Connect all publishers and let them advertise."""
        for publisher in self._workload.publishers:
            host, session = self._connect(publisher.name, self._names[publisher.broker or 0])
            id = session.advertise(publisher.name, publisher.advertisement)
            self._publishers.append(PublishingClient(publisher.name, host, session, id))
            self.roaming.add(self._publishers[-1])
            self.world.flush(host)

    def start_subscribers(self) -> None:
        """Connect the subscribers that are there from the beginning."""
        for number, one in enumerate(self._workload.subscribers):
            if not one.joins_ns:
                self.join(number)

    def join(self, number: int) -> None:
        """Connect a subscriber and let it subscribe."""
        one = self._workload.subscribers[number]
        kind = Session if self._verify else CountingSubscriber
        host, session = self._connect(one.name, self._names[one.broker or 0], kind)
        self._subscribers[number] = host
        session.subscribe(one.selection)
        self.world.flush(host)

    def leave(self, number: int) -> None:
        """Let a subscriber withdraw its subscription and disconnect."""
        host = self._subscribers.pop(number, None)
        if host is None or not isinstance(host.machine, Session):
            return
        self.world.network.read_all(host)
        if isinstance(host.machine, CountingSubscriber):
            self._delivered += host.machine.received
        host.machine.close()
        self.world.flush(host)
        host.stop()

    def _connect(
        self, name: str, broker: str, kind: type[Session] = Session
    ) -> tuple[Host, Session]:
        number = _FIRST_NUMBER + self._made
        self._made += 1
        host = self.world.host(name)
        config = SessionConfig(name, self._link)
        session = kind(config, number, IdSource(number), lambda: self.world.now)
        self.world.start(host, session)
        self.waiting_for_homes += 1
        session.connect(broker, self.world.now)
        return host, session

    def ask_routes(self) -> None:
        """Let every publisher ask whether its routes are complete.

        The barrier goes to every broker, and its answers come back in order with everything else. So when they have
        come, every subscription that had reached its broker before is known along all of its routes, and everything
        that was published before has passed all brokers on its way.
        """
        for one in self._publishers:
            if one.session.home is not None and one.session.home.registered:
                one.session.ready(one.id)
                self.waiting_for_routes += 1
                self.world.flush(one.host)

    def read_all(self) -> None:
        """Let all clients read what has come for them, and from now on read at once."""
        for host in self._subscribers.values():
            host.reads_every_ns = 0
        self.world.network.read_all()

    @property
    def delivered(self) -> int:
        """How many deliveries subscribers got; clients that verify count one per subscription."""
        here = (host.machine for host in self._subscribers.values())
        return self._delivered + sum(
            one.received for one in here if isinstance(one, CountingSubscriber)
        )

    # -- publishing -----------------------------------------------------------------------------------

    def begin(self, zero_ns: int, end_ns: int) -> None:
        """From time zero to the end, publish, join and leave as the workload says."""
        self._zero_ns, self._end_ns = zero_ns, end_ns
        publishers = self._workload.publishers
        for place, (one, publisher) in enumerate(zip(self._publishers, publishers, strict=True)):
            one.events = iter(publisher.events)
            one.due = due_times(publisher, place, len(publishers))
            self._schedule_next(one)
        for change in self._workload.changes():
            at = zero_ns + change.at_ns
            if change.at_ns and at < end_ns:
                do = self.join if change.kind == "join" else self.leave
                self.world.at(at, do, change.number)

    def _schedule_next(self, one: PublishingClient) -> None:
        """Set the time of a publisher's next event, if there is one before the end."""
        one.next = next(one.events, None)
        at = self._zero_ns + next(one.due)
        if one.next is not None and at < self._end_ns:
            self.world.at(max(at, self.world.now), self._publish, one)

    def _publish(self, one: PublishingClient) -> None:
        world, session, event = self.world, one.session, one.next
        if one.is_paused:
            one.is_late = True
            return
        if not session.credit or event is None:
            self.held_back += 1
            if world.now < self._end_ns:
                world.at(world.now + RETRY_NS, self._publish, one)
            return
        session.publish(one.id, event, self._payload, world.now)
        self.published += 1
        world.flush(one.host)
        self._schedule_next(one)

    # -- what is seen ---------------------------------------------------------------------------------

    def handle_effect(self, host: Host, effect: Any) -> None:
        """A session told its application something, or a broker made a note."""
        kind = type(effect)
        if kind is Deliver:
            self._delivered += len(effect.subscriptions)
        elif kind is WriteTrace:
            if effect.kind not in _IN_LINKS:
                self._note(host.name, effect.kind, effect.data)
        elif kind is Ready:
            self.waiting_for_routes -= 1
        elif kind is HomeUp:
            self.waiting_for_homes -= 1
            if cast(Session, host.machine).subscriptions:
                host.reads_every_ns = self._read_every_ns
        elif kind is MissedSome:
            self.missed += effect.count
        if self._follow:
            self.roaming.handle_effect(host, effect)

    def after_event(self, host: Host, broker: Broker) -> None:
        """A broker took in an event."""
