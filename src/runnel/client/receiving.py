"""What a session receives: its subscriptions, and the deliveries for them, in order per publisher and each once.

Deliveries come in order over each path. With the high-water mark of each advertisement (marks.py) duplicates are
dropped, which come after a reconnection or while two paths deliver the same.
"""

from __future__ import annotations

from runnel.broker.ids import IdSource
from runnel.client.config import SessionConfig
from runnel.client.effects import Deliver, SessionEffect
from runnel.client.home import Home
from runnel.client.homes import Homes
from runnel.client.marks import Marks
from runnel.language import Selection
from runnel.matching import make_engine
from runnel.wire import Publication, Subscribe, Unsubscribe, raw_selection


class Receiver:
    """The subscriptions of a session, and the high-water mark of each advertisement."""

    def __init__(
        self,
        config: SessionConfig,
        ids: IdSource,
        homes: Homes,
        effects: list[SessionEffect],
    ) -> None:
        self.subscriptions: dict[int, Selection] = {}
        self.doubles = 0  # publications dropped as duplicates
        self._ttl = config.ttl
        self._ids = ids
        self._homes = homes
        self._effects = effects
        self._marks = Marks()
        self._engine = make_engine()

    def subscribe(self, selection: Selection) -> int:
        """Subscribe to what a selection describes; returns the id that deliveries will name."""
        id = self._ids.next()
        self.subscriptions[id] = selection
        self._engine.add(id, selection)
        for home in self._homes.all():
            if home.registered:
                self.register(home, id)
        return id

    def unsubscribe(self, id: int) -> None:
        """Deliver nothing more for this id."""
        del self.subscriptions[id]
        self._engine.remove(id)
        for home in self._homes.all():
            if id in home.subscriptions:
                home.send(Unsubscribe(home.subscriptions.pop(id)))

    def drop_refused(self, home: Home, wire_id: int) -> list[int]:
        """A broker refuses a subscription: no other home keeps it. Which of ours it was, if it still is one."""
        refused = [id for id, known_as in home.subscriptions.items() if known_as == wire_id]
        for id in refused:
            del home.subscriptions[id]
            self.unsubscribe(id)
        return refused

    def register(self, home: Home, id: int) -> None:
        """Tell a broker of a subscription."""
        home.subscriptions[id] = self._ids.next()
        raw = raw_selection(self.subscriptions[id])
        home.send(Subscribe(home.subscriptions[id], raw, self._ttl))

    def deliver(self, publication: Publication) -> None:
        """Hand a publication to the application, if it is new and somebody wants it."""
        if not self._marks.advance(publication.advertisement, publication.counter):
            self.doubles += 1
            return
        wanted_by = self._engine.match(publication.attributes)
        if wanted_by:
            self._effects.append(Deliver(publication, tuple(sorted(wanted_by))))

    def has_seen(self, advertisement: int) -> bool:
        """Whether any publication of an advertisement has arrived."""
        return advertisement in self._marks
