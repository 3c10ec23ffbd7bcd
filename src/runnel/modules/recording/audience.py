"""Audiences: which local subscriptions get what a broker sends to its clients.

    Audience      one broker's clients and their subscriptions
    Audiences     those of all brokers that share a tape; they map next hops to subscriptions
    Subscribers   a table of subscriptions; a *place* is a row of it, and a delivery is recorded as a place

Rules:
- The next hops of a publication are numbers of links. Most clients have one subscription: for them the number of the
  link says which subscription got the publication. Only for clients with several the routing table is asked.
- Numbers of links are reused, places are not. So places stay valid when clients come and go; hops must be turned into
  places before an audience changes.
- Places are only added, so the thread that writes a trace may read them while the broker adds more. When most places
  are unused, a new table is made in which the present subscriptions get new places; holders of old places keep the
  old table.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runnel.broker.tables import Tables
from runnel.wire import Publication

Numbers = NDArray[np.int64]

NOBODY = -1
"""The place of a link that is not a client's, or whose client has no subscription or several."""

_LINKS_MIN = 16  # how many numbers of links a broker gets room for at first
_DEPARTED_MAX = 1_000  # how many places may be unused, in addition to as many as are used


class Subscribers:
    """Subscriptions and their clients, by place.

    >>> subscribers = Subscribers()
    >>> subscribers.add(20, "alice"), subscribers.add(21, "bob")
    (0, 1)
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.clients: list[str] = []
        self._arrays: tuple[Numbers, Any] | None = None

    def __len__(self) -> int:
        return len(self.clients)

    def add(self, id: int, client: str) -> int:
        """Add a subscription and return its place."""
        self.ids.append(id)
        self.clients.append(client)
        return len(self.clients) - 1

    def arrays(self) -> tuple[Numbers, Any]:
        """The ids, and the clients as an Arrow array, for the writer's thread; the broker may add more meanwhile."""
        known = self._arrays
        if known is None or len(known[0]) != len(self):
            import pyarrow as pa  # slow to load, so only where traces are written

            clients = self.clients[:]  # each has its id already: ids are added first
            ids = np.array(self.ids[: len(clients)], np.int64)
            known = self._arrays = ids, pa.array(clients, pa.string())
        return known


class Audiences:
    """The audiences of several brokers, each with a number."""

    def __init__(self) -> None:
        self.brokers: list[str] = []
        self.subscribers = Subscribers()
        self._members: list[Audience] = []
        self._present = 0  # present subscriptions
        # The place of every link of every broker. Each broker has a section, which is moved when it must grow.
        self._place_of = array("q")
        self._begins = array("q")

    def join(self, broker: str) -> Audience:
        """The audience of one more broker, or of one that starts again."""
        self.brokers.append(broker)
        self._begins.append(0)
        self._members.append(Audience(self, len(self._members)))
        return self._members[-1]

    def places(self, hops: Numbers, brokers: Numbers, counts: Numbers) -> Numbers:
        """The places of these hops, `counts[i]` of them at `brokers[i]`; NOBODY for a hop that has none.

        A negative hop is a place already, with all bits inverted (`Audience.find_places`).
        """
        if not len(hops):
            return hops
        begins = np.frombuffer(self._begins, np.int64)
        keys = np.maximum(hops, 0)
        keys += begins[0] if len(begins) == 1 else np.repeat(begins[brokers], counts)
        places: Numbers = np.frombuffer(self._place_of, np.int64)[keys]
        return np.where(hops < 0, ~hops, places)

    def make_room(self, broker: int, before: int, links: int) -> None:
        """Move a broker's section, which had room for `before` links, to one with room for `links`."""
        begin, self._begins[broker] = self._begins[broker], len(self._place_of)
        self._place_of += self._place_of[begin : begin + before]
        self._place_of.extend([NOBODY] * (links - before))

    def put(self, broker: int, link: int, place: int) -> None:
        """Set the place of a link of a broker."""
        self._place_of[self._begins[broker] + link] = place

    def count(self, more: int) -> None:
        """Count subscriptions that came or went; make a new table when most places are unused."""
        self._present += more
        if len(self.subscribers) > 2 * self._present + _DEPARTED_MAX:
            before, self.subscribers = self.subscribers, Subscribers()
            for member in self._members:
                member.move(before)


class Audience:
    """The clients of one broker."""

    def __init__(self, all: Audiences, number: int) -> None:
        self.number = number
        self.clients: dict[int, dict[int, int]] = {}  # link number → subscription → its place
        self.with_many = 0  # how many of them have several subscriptions
        self.is_simple = False  # there are clients with subscriptions, and none has several
        self._all = all
        self._room = 0

    def link_up(self, link: int) -> None:
        """Make room for a link of this number."""
        if link >= self._room:
            room = max(_LINKS_MIN, 2 * link)
            self._all.make_room(self.number, self._room, room)
            self._room = room

    def add(self, link: int, id: int, client: str) -> None:
        """A client subscribed."""
        mine = self.clients.setdefault(link, {})
        mine[id] = self._all.subscribers.add(id, client)
        self.with_many += len(mine) == 2
        self._update_place(link, mine)
        self._all.count(+1)

    def remove(self, link: int, id: int) -> None:
        """A client's subscription is gone."""
        mine = self.clients[link]
        del mine[id]
        self.with_many -= len(mine) == 1
        if not mine:
            del self.clients[link]
        self._update_place(link, mine)
        self._all.count(-1)

    def leave(self) -> None:
        """The broker ends."""
        present = sum(map(len, self.clients.values()))
        self.clients.clear()
        self.with_many, self.is_simple = 0, False
        self._all.count(-present)

    def move(self, before: Subscribers) -> None:
        """Give every subscription a place in the new table."""
        for link, mine in self.clients.items():
            for id, place in mine.items():
                mine[id] = self._all.subscribers.add(id, before.clients[place])
            self._update_place(link, mine)

    def find_places(self, tables: Tables, publication: Publication, hops: list[int]) -> list[int]:
        """The places, inverted, of the local subscriptions that get a publication; clients with one come first."""
        clients = self.clients
        known = [clients[n] for n in hops if n in clients]
        found = [place for mine in known if len(mine) == 1 for place in mine.values()]
        several: dict[int, int] = {}
        for mine in known:
            if len(mine) > 1:
                several |= mine
        if several:
            rows = tables.local_subscriptions(publication)
            found += [several[row.id] for row in rows if row.id in several]
        return [~place for place in found]

    def _update_place(self, link: int, mine: dict[int, int]) -> None:
        place = next(iter(mine.values())) if len(mine) == 1 else NOBODY
        self._all.put(self.number, link, place)
        self.is_simple = bool(self.clients) and not self.with_many
