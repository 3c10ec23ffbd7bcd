"""What a session publishes: advertisements, credit, confirmations; and publishers that go from session to session.

A publisher migrates (`Migration`) by `pause` in the one session, `adopt` in the other, and `release`, or `take_back`,
in the one. It keeps the id and the count that brokers know it by.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right

from runnel.broker.ids import IdSource
from runnel.client.config import SessionConfig
from runnel.client.effects import Confirmed, Migrated
from runnel.client.home import Advertised, Home, return_of
from runnel.client.homes import Homes
from runnel.client.move import Move
from runnel.errors import InputError
from runnel.language import Attributes, Selection
from runnel.wire import (
    NAME_BYTES_MAX,
    Advertise,
    Barrier,
    Mcm,
    Mum,
    Publication,
    Unadvertise,
    make_publication,
    raw_selection,
)


class Publishing(Homes):
    """The publishers of a session."""

    def __init__(self, config: SessionConfig, incarnation: int, ids: IdSource) -> None:
        super().__init__(config, incarnation, ids)
        self.move = Move.STEADY
        self.stage = 0  # of a crossing: from 2 on we publish at the home ahead
        self.pausing = False  # nothing is published: a crossing is about to change where
        self.publishers: dict[int, Advertised] = {}

    @abstractmethod
    def _ask_again(self, home: Home, waits: dict[int, int]) -> None:
        """Whoever waits for readiness still does, though what was asked is gone."""

    def advertise(self, name: str, selection: Selection) -> int:
        """Say what the publisher of this name will publish; the id to publish with."""
        if len(name.encode()) > NAME_BYTES_MAX:
            raise InputError(
                f"a publisher's name takes at most {NAME_BYTES_MAX} bytes: {name[:40]!r}…"
            )
        id = self._ids.next()
        self.publishers[id] = Advertised(name, selection)
        for home in self._homes():
            if home.registered:
                self._register_publisher(home, id)
        return id

    @property
    def outlet(self) -> Home | None:
        """The home that we publish at."""
        return self.ahead if self.stage == 2 and self.ahead is not None else self.home

    def unadvertise(self, id: int) -> None:
        """Nothing more will be published with this id."""
        del self.publishers[id]
        for home in self._homes():
            if id in home.advertisements:
                self._send(home, Unadvertise(home.advertisements.pop(id)))

    @property
    def credit(self) -> int:
        """How many publications may be sent now."""
        home = self.outlet
        if home is None or not home.registered or home.link.is_half_full:
            return 0
        if self.move is Move.DRYING or self.pausing:
            return 0  # what was published before must be everywhere before a shorter way opens
        credit = home.link.credit - len(home.outstanding)
        return credit if credit > 0 else 0

    def publish(
        self, id: int, attributes: Attributes, payload: bytes = b"", time_ns: int = 0
    ) -> Publication:
        """Publish with an advertisement of ours. Not without `credit`: the driver waits for it."""
        home = self.outlet
        if home is None or not self.credit:
            raise InputError("no credit to publish: wait until the broker has taken what was sent")
        advertised = self.publishers[id]
        counter = home.counters.get(id, 0) + 1
        publication = make_publication(
            *(home.advertisements[id], counter, attributes, payload),
            publisher=advertised.name,
            time_ns=time_ns,
            ttl=self.config.ttl,
        )
        if advertised.paused:
            raise InputError(f"{advertised.name} is on its way to another broker: wait for credit")
        if not advertised.allows(attributes):
            raise InputError(f"the publication is not what was advertised: {advertised.selection}")
        home.counters[id] = counter
        self._send_frame(home, publication.raw)
        home.outstanding.append(home.data_sent)
        return publication

    def may_publish(self, id: int) -> bool:
        """Whether an advertisement of ours may be published with now."""
        return not self.publishers[id].paused and self.credit > 0

    def _acknowledged(self, home: Home) -> None:
        received = home.link.data.acknowledged
        self._confirm(home, bisect_right(home.outstanding, received))

    def _confirm(self, home: Home, count: int) -> None:
        for _ in range(count):
            home.outstanding.popleft()
        if count:
            self._effects.append(Confirmed(count))

    # -- publishers that come and go ------------------------------------------------------------------

    def pause(self, id: int) -> int:
        """Publish nothing with an advertisement for now. What `has_taken` is to be asked about."""
        advertised, home = self.publishers[id], self.home
        advertised.paused = True
        assert home is not None
        asks = [token for token, what in home.waits.items() if what == id]
        for token in asks:
            del home.waits[token]
        advertised.asks += len(asks)
        return home.outstanding[-1] if home.outstanding else 0

    def go_on(self, id: int) -> None:
        """Publish with it again, from where this session is."""
        advertised, home = self.publishers[id], self.home
        advertised.paused = advertised.returning = False
        asks, advertised.asks = advertised.asks, 0
        if home is not None:
            self._ask_again(home, {self._ids.next(): id for _ in range(asks)})

    def has_taken(self, sent: int) -> bool:
        """Whether the broker has everything that was sent up to then."""
        return self.home is not None and self.home.link.data.acknowledged >= sent

    def known_as(self, id: int) -> int | None:
        """Under which id the broker knows an advertisement."""
        return self.home.advertisements.get(id) if self.home is not None else None

    def adopt(self, id: int, source: Publishing) -> None:
        """Take over a publisher that is paused in another session; `Migrated` tells when it may go on."""
        home, old = self.home, source.home
        assert home is not None and old is not None
        advertised = self.publishers[id] = source.publishers[id]
        advertised.epoch += 1
        home.advertisements[id] = old.advertisements[id]
        home.counters[id] = old.counters.get(id, 0)
        raw = raw_selection(advertised.selection)
        ttl, epoch = self.config.ttl, advertised.epoch
        self._send(home, Mum(home.advertisements[id], raw, advertised.name, ttl, epoch))

    def release(self, id: int) -> None:
        """Forget a publisher that another session has adopted.

        It is withdrawn here: to a broker that has heard of the migration that is old news, but there may be one that
        was cut off, or where it was set up anew meanwhile.
        """
        self.publishers.pop(id, None)
        for home in self._homes():
            if id in home.advertisements:
                self._send(home, Unadvertise(home.advertisements.pop(id)))

    def take_back(self, id: int) -> None:
        """Set up anew a publisher that another session had begun to adopt; it goes on when its routes are there."""
        home = self.home
        advertised = self.publishers[id]
        advertised.returning = True
        if home is None or not home.registered:
            return  # it is set up with everything else
        self._send(home, Unadvertise(home.advertisements[id]))
        self._register_publisher(home, id)
        token = self._ids.next()
        home.waits[token] = return_of(id)
        selection = raw_selection(advertised.selection)
        self._send(home, Barrier(token, selection, "advertisement"))

    def _complete(self, home: Home, mcm: Mcm) -> None:
        for id in self._known_by(home, mcm.id):
            self._effects.append(Migrated(id, mcm.broken))

    def _known_by(self, home: Home, wire_id: int) -> list[int]:
        """The publisher that a broker knows by this id, if it is still one."""
        return [id for id, known_as in home.advertisements.items() if known_as == wire_id]

    def _let_go_on(self) -> None:
        """Publishers that are back from a migration wait for no routes of a home that is gone."""
        for id, advertised in self.publishers.items():
            if advertised.returning:
                self.go_on(id)

    def _register_publisher(self, home: Home, id: int) -> None:
        publisher = self.publishers[id]
        home.advertisements[id] = self._ids.next()
        home.counters.pop(id, None)
        raw = raw_selection(publisher.selection)
        self._send(home, Advertise(home.advertisements[id], raw, publisher.name, self.config.ttl))
