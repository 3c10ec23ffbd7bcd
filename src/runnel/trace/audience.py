"""Audiences: who gets what a broker hands to its clients.

    Audience      one broker's clients and their subscriptions
    Audiences     those of all brokers that share a recorder, with one answer for all: what a hop means
    Subscribers   the columns behind it: every subscription has a place, and a delivery's row is such a place

Rules:
- A broker knows the next hops of a publication by the numbers of links. A client with one subscription, which most
  are, is known to want what it gets, so its number is enough. Only where clients have several the table is asked.
- Numbers of links are used again, places are not: what was resolved to places stays true, whoever comes and goes. What
  was not is to be resolved before an audience changes.
- Places are only added, so the writer's thread may read them while the broker's adds more. When most of them
  belong to nobody any more, those who are there get places anew; who still has old ones has the old columns too.
"""

from __future__ import annotations

from array import array

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from runnel.broker.tables import Tables
from runnel.wire import Publication

Numbers = NDArray[np.int64]

NOBODY = -1
"""The place of a link that is no client's, or of a client with no subscription or several."""

_LINKS_MIN = 16  # how many numbers of links a broker gets room for at first
_DEPARTED_MAX = 1_000  # how many places may be nobody's, besides as many as are somebody's


class Subscribers:
    """Subscriptions and their clients, by place.

    >>> subscribers = Subscribers()
    >>> subscribers.add(20, "alice"), subscribers.add(21, "bob")
    (0, 1)
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.clients: list[str] = []
        self._arrays: tuple[Numbers, pa.Array] = np.empty(0, np.int64), pa.array([], pa.string())

    def __len__(self) -> int:
        return len(self.clients)

    def add(self, id: int, client: str) -> int:
        """One more; its place."""
        self.ids.append(id)
        self.clients.append(client)
        return len(self.clients) - 1

    def arrays(self) -> tuple[Numbers, pa.Array]:
        """Ids and clients, for the side that writes; on the other side there may be more by now."""
        if len(self._arrays[1]) != len(self):
            clients = self.clients[:]  # each has its id: that is added first
            ids = np.array(self.ids[: len(clients)], np.int64)
            self._arrays = ids, pa.array(clients, pa.string())
        return self._arrays


class Audiences:
    """The audiences of several brokers, each with a number."""

    def __init__(self) -> None:
        self.brokers: list[str] = []
        self.subscribers = Subscribers()
        self._members: list[Audience] = []
        self._present = 0  # subscriptions that are somebody's
        # What every link of every broker stands for. Each broker has a stretch of this, and moves when it outgrows it.
        self._place_of = array("q")
        self._begins = array("q")

    def join(self, broker: str) -> Audience:
        """The audience of one more broker, or of one that starts again."""
        self.brokers.append(broker)
        self._begins.append(0)
        self._members.append(Audience(self, len(self._members)))
        return self._members[-1]

    def places(self, hops: Numbers, brokers: Numbers) -> Numbers:
        """The places of these hops, each of a broker, or NOBODY; a hop below zero is a place already, turned over."""
        if not len(hops):
            return hops
        keys = np.frombuffer(self._begins, np.int64)[brokers]
        keys += np.maximum(hops, 0)
        places: Numbers = np.frombuffer(self._place_of, np.int64)[keys]
        return np.where(hops < 0, ~hops, places)

    def make_room(self, broker: int, before: int, links: int) -> None:
        """A broker had so many links and needs room for more."""
        begin, self._begins[broker] = self._begins[broker], len(self._place_of)
        self._place_of += self._place_of[begin : begin + before]
        self._place_of.extend([NOBODY] * (links - before))

    def put(self, broker: int, link: int, place: int) -> None:
        """A link of a broker stands for this from now on."""
        self._place_of[self._begins[broker] + link] = place

    def count(self, more: int) -> None:
        """So many subscriptions came, or went."""
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
        self.is_simple = False  # there are some, and nobody has several
        self._all = all
        self._room = 0

    def link_up(self, link: int) -> None:
        """A link has this number from now on."""
        if link >= self._room:
            room = max(_LINKS_MIN, 2 * link)
            self._all.make_room(self.number, self._room, room)
            self._room = room

    def add(self, link: int, id: int, client: str) -> None:
        """A client subscribed."""
        mine = self.clients.setdefault(link, {})
        mine[id] = self._all.subscribers.add(id, client)
        self.with_many += len(mine) == 2
        self._settle(link, mine)
        self._all.count(+1)

    def remove(self, link: int, id: int) -> None:
        """A client's subscription is gone."""
        mine = self.clients[link]
        del mine[id]
        self.with_many -= len(mine) == 1
        if not mine:
            del self.clients[link]
        self._settle(link, mine)
        self._all.count(-1)

    def leave(self) -> None:
        """The broker ends."""
        present = sum(map(len, self.clients.values()))
        self.clients.clear()
        self.with_many, self.is_simple = 0, False
        self._all.count(-present)

    def move(self, before: Subscribers) -> None:
        """Everybody gets a new place."""
        for link, mine in self.clients.items():
            for id, place in mine.items():
                mine[id] = self._all.subscribers.add(id, before.clients[place])
            self._settle(link, mine)

    def wanted(self, tables: Tables, publication: Publication, hops: list[int]) -> list[int]:
        """Who of a publication's hops wants it, as places turned over; clients with one subscription come first."""
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

    def _settle(self, link: int, mine: dict[int, int]) -> None:
        place = next(iter(mine.values())) if len(mine) == 1 else NOBODY
        self._all.put(self.number, link, place)
        self.is_simple = bool(self.clients) and not self.with_many
