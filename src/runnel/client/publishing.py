"""What a session publishes: advertisements, credit, confirmations; and publishers that go from session to session.

A publisher migrates (`PublisherMigration`) by `pause` in its session, `adopt` in the other, and then `release` or
`take_back` in the first. It keeps the id and the counter that brokers know it by. The home to publish at, and whether
publishing is allowed at all, is decided by `Session`: moves and crossings pause all publishers for a while.
"""

from __future__ import annotations

from bisect import bisect_right

from runnel.broker.ids import IdSource
from runnel.client.config import SessionConfig
from runnel.client.effects import (
    Confirmed,
    Migrated,
    PublicationsRefused,
    SessionEffect,
    Unconfirmed,
)
from runnel.client.fences import AwaitedFence, Fences, Purpose
from runnel.client.home import Home
from runnel.client.homes import Homes
from runnel.errors import InputError
from runnel.language import Attributes, Selection
from runnel.matching import make_engine
from runnel.wire import (
    NAME_BYTES_MAX,
    Advertise,
    Mcm,
    Mum,
    Publication,
    RefusedPublications,
    Unadvertise,
    make_publication,
    raw_selection,
)


class Advertised:
    """An advertisement of ours: who publishes, and what."""

    def __init__(self, name: str, selection: Selection) -> None:
        self.name = name
        self.selection = selection
        self.epoch = 0  # how often it has migrated
        self.paused = False  # nothing is published: it is migrating
        self.returning = False  # its migration failed and it is set up anew here
        self.asks = 0  # requests for readiness that wait until it is resumed
        # An engine answers many times faster than `Selection.matches`, and it is asked for every publication.
        self._engine = make_engine()
        self._engine.add(0, selection)
        self._match = self._engine.match

    def allows(self, attributes: Attributes) -> bool:
        """Whether an event may be published under it."""
        return len(self._match(attributes)) > 0


class Advertiser:
    """The publishers of a session."""

    def __init__(
        self,
        config: SessionConfig,
        ids: IdSource,
        homes: Homes,
        fences: Fences,
        effects: list[SessionEffect],
    ) -> None:
        self.publishers: dict[int, Advertised] = {}
        self._ttl = config.ttl
        self._ids = ids
        self._homes = homes
        self._fences = fences
        self._effects = effects

    def advertise(self, name: str, selection: Selection) -> int:
        """Advertise what the publisher of this name will publish; returns the id to publish with."""
        if len(name.encode()) > NAME_BYTES_MAX:
            raise InputError(
                f"a publisher's name takes at most {NAME_BYTES_MAX} bytes: {name[:40]!r}…"
            )
        id = self._ids.next()
        self.publishers[id] = Advertised(name, selection)
        for home in self._homes.all():
            if home.registered:
                self.register(home, id)
        return id

    def unadvertise(self, id: int) -> None:
        """Nothing more will be published with this id."""
        del self.publishers[id]
        self._withdraw(id)

    def drop_refused(self, home: Home, wire_id: int) -> list[int]:
        """A broker refuses an advertisement: no other home keeps it. Which of ours it was, if it still is one."""
        refused = self.publishers_by_wire_id(home, wire_id)
        for id in refused:
            del home.advertisements[id]
            self.unadvertise(id)
        return refused

    def register(self, home: Home, id: int) -> None:
        """Tell a broker of a publisher, under a new id."""
        publisher = self.publishers[id]
        home.advertisements[id] = self._ids.next()
        home.counters.pop(id, None)
        raw = raw_selection(publisher.selection)
        home.send(Advertise(home.advertisements[id], raw, publisher.name, self._ttl))

    def _withdraw(self, id: int) -> None:
        for home in self._homes.all():
            if id in home.advertisements:
                home.send(Unadvertise(home.advertisements.pop(id)))

    # -- publications ---------------------------------------------------------------------------------

    def publish(
        self, home: Home, id: int, attributes: Attributes, payload: bytes, time_ns: int
    ) -> Publication:
        """Publish at a home that has credit, with an advertisement of ours."""
        advertised = self.publishers[id]
        counter = home.counters.get(id, 0) + 1
        publication = make_publication(
            home.advertisements[id],
            counter,
            attributes,
            payload,
            publisher=advertised.name,
            time_ns=time_ns,
            ttl=self._ttl,
        )
        if advertised.paused:
            raise InputError(f"{advertised.name} is on its way to another broker: wait for credit")
        if not advertised.allows(attributes):
            raise InputError(f"the publication is not what was advertised: {advertised.selection}")
        home.counters[id] = counter
        home.outstanding.append(home.send_publication(publication.raw))
        return publication

    def confirm_acknowledged(self, home: Home) -> None:
        """Confirm publications that a broker has acknowledged."""
        received = home.link.data.acknowledged
        self._confirm(home, bisect_right(home.outstanding, received))

    def confirm_all(self, home: Home) -> None:
        """Confirm all: a fence has come back that was sent after everything published at this home."""
        self._confirm(home, len(home.outstanding))

    def give_up_outstanding(self, home: Home) -> None:
        """Report what is not confirmed by now as in doubt: no confirmation can come any more."""
        if home.outstanding:
            self._effects.append(Unconfirmed(len(home.outstanding)))
            home.outstanding.clear()

    def _confirm(self, home: Home, count: int) -> None:
        for _ in range(count):
            home.outstanding.popleft()
        if count:
            self._effects.append(Confirmed(count))

    def report_refused(self, home: Home, refused: RefusedPublications) -> None:
        """Report publications that a broker has not handed on."""
        for id in self.publishers_by_wire_id(home, refused.advertisement):
            latest = home.counters.get(id, 0)
            ages = tuple(latest - counter for counter in refused.counters if counter <= latest)
            self._effects.append(PublicationsRefused(id, ages, refused.reason))

    # -- publishers that come and go ------------------------------------------------------------------

    @property
    def has_paused(self) -> bool:
        """Whether any publisher of ours is paused, that is, migrating."""
        return any(advertised.paused for advertised in self.publishers.values())

    def pause(self, id: int) -> int:
        """Publish nothing with an advertisement for now; returns the number to pass to `has_taken`."""
        advertised, home = self.publishers[id], self._homes.home
        advertised.paused = True
        assert home is not None
        advertised.asks += self._fences.cancel_ready(home, id)
        return home.outstanding[-1] if home.outstanding else 0

    def resume(self, id: int) -> None:
        """Publish with it again in this session."""
        advertised, home = self.publishers[id], self._homes.home
        advertised.paused = advertised.returning = False
        asks, advertised.asks = advertised.asks, 0
        if home is not None:
            ready = AwaitedFence(Purpose.READY, id)
            self._fences.ask_again(home, {self._ids.next(): ready for _ in range(asks)})

    def defer_ready(self, id: int) -> bool:
        """Ask for the readiness of a paused publisher when it is resumed; returns False if it is not paused."""
        advertised = self.publishers.get(id)
        if advertised is None or not advertised.paused:
            return False
        advertised.asks += 1
        return True

    def has_taken(self, sent: int) -> bool:
        """Whether the broker has acknowledged everything up to this data frame."""
        home = self._homes.home
        return home is not None and home.link.data.acknowledged >= sent

    def wire_id(self, id: int) -> int | None:
        """The id under which the broker knows an advertisement."""
        home = self._homes.home
        return home.advertisements.get(id) if home is not None else None

    def adopt(self, id: int, source: Advertiser) -> None:
        """Take over a publisher that is paused in another session; `Migrated` says when it may be resumed."""
        home, old = self._homes.home, source._homes.home
        assert home is not None and old is not None
        advertised = self.publishers[id] = source.publishers[id]
        advertised.epoch += 1
        home.advertisements[id] = old.advertisements[id]
        home.counters[id] = old.counters.get(id, 0)
        raw = raw_selection(advertised.selection)
        ttl, epoch = self._ttl, advertised.epoch
        home.send(Mum(home.advertisements[id], raw, advertised.name, ttl, epoch))

    def release(self, id: int) -> None:
        """Forget a publisher that another session has adopted.

        It is withdrawn here. Brokers that took part in the migration ignore that; it is for one that was cut off, or
        where the publisher was set up anew meanwhile.
        """
        self.publishers.pop(id, None)
        self._withdraw(id)

    def take_back(self, id: int) -> None:
        """Set up anew a publisher that another session had begun to adopt; it resumes when its routes are complete."""
        home = self._homes.home
        advertised = self.publishers[id]
        advertised.returning = True
        if home is None or not home.registered:
            return  # it will be set up with everything else
        home.send(Unadvertise(home.advertisements[id]))
        self.register(home, id)
        self._fences.send_barrier(home, AwaitedFence(Purpose.RETURNED, id), advertised.selection)

    def finish_return(self, id: int) -> None:
        """The routes of a publisher that was taken back are complete: resume it."""
        if id in self.publishers:
            self.resume(id)

    def resume_returning(self) -> None:
        """Resume publishers that are back from a migration: the home whose routes they waited for is gone."""
        for id, advertised in self.publishers.items():
            if advertised.returning:
                self.resume(id)

    def report_migrated(self, home: Home, mcm: Mcm) -> None:
        """Report that all brokers on the path of a migration have taken part in it."""
        for id in self.publishers_by_wire_id(home, mcm.id):
            self._effects.append(Migrated(id, mcm.broken))

    def publishers_by_wire_id(self, home: Home, wire_id: int) -> list[int]:
        """The ids of our publishers that a broker knows by this id: one or none."""
        return [id for id, known in home.advertisements.items() if known == wire_id]
