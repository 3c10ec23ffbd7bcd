"""The routing tables: SRT and PRT, and the matcher that turns a publication into next hops.

As in the papers: the *subscription routing table* says from which hop each advertisement came (that is where
subscriptions must go), the *publication routing table* from which hop each subscription came (that is where
publications must go). A hop is a link, to a neighbour broker or to a client alike.

While a publisher migrates (placement/migration.py) its advertisement has two directions: the one it is in from now
on, and the one that it leaves, in which there is still something under way; even if it is withdrawn meanwhile.

Only `add_…`, `remove_…`, `turn_…` and `settle…` change them, so the indexes beside the tables are always in step,
and whoever wants to know of changes (`on_change`) hears of all of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from runnel.broker.links import Link
from runnel.language import Selection
from runnel.matching import Engine, Intersecting, Matches
from runnel.wire import Publication


@dataclass(slots=True, eq=False)
class Advertisement:
    """A row of the SRT."""

    id: int
    selection: Selection
    raw: msgspec.Raw
    publisher: str
    ttl: int
    link: Link
    epoch: int = 0


@dataclass(slots=True, eq=False)
class Leaving:
    """An advertisement that has left a direction (`link`) in which there is still something under way.

    `told_by` is the direction in which it went, and in which somebody waits to hear that nothing is any more. If it
    is `withdrawn` meanwhile, neighbours hear of that then: or what is under way would find no route.
    """

    row: Advertisement
    link: Link
    epoch: int
    told_by: Link | None
    withdrawn: bool = False


@dataclass(slots=True, eq=False)
class Subscription:
    """A row of the PRT. `number` is its place in the matcher."""

    id: int
    selection: Selection
    raw: msgspec.Raw
    ttl: int
    link: Link
    number: int


class Matcher(Protocol):
    """Who wants a publication, by subscription number. One per broker, or one for a whole simulated world."""

    def add(self, subscription: int, selection: Selection) -> int:
        """File a subscription; its number."""
        ...

    def remove(self, subscription: int) -> None:
        """Forget it."""
        ...

    def match(self, publication: Publication) -> Matches:
        """The numbers of the subscriptions that want a publication."""
        ...


class OwnMatcher:
    """A broker's own engine, with numbers that are used again."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._number_of: dict[int, int] = {}
        self._free: list[int] = []

    def add(self, subscription: int, selection: Selection) -> int:
        """File a subscription; its number."""
        number = self._free.pop() if self._free else len(self._number_of)
        self._number_of[subscription] = number
        self._engine.add(number, selection)
        return number

    def remove(self, subscription: int) -> None:
        """Forget it."""
        number = self._number_of.pop(subscription)
        self._engine.remove(number)
        self._free.append(number)

    def match(self, publication: Publication) -> Matches:
        """The numbers of the subscriptions that want a publication."""
        return self._engine.match(publication.attributes)


_NOTHING = array("q", (-1,))


class Tables:
    """SRT and PRT."""

    def __init__(self, matcher: Matcher) -> None:
        self.srt: dict[int, Advertisement] = {}
        self.prt: dict[int, Subscription] = {}
        self.leaving: dict[int, Leaving] = {}
        self._matcher = matcher
        self._match = matcher.match
        self._hop_of = array("q")  # subscription number → link number, -1 for none
        self._subscriptions = Intersecting()
        self._advertised: dict[int, Intersecting] = {}  # link number → its advertisements
        self._local = array("q")  # subscription number → itself if it is a client's, -1 otherwise
        self._by_number: dict[int, Subscription] = {}  # those of clients
        self.on_change: Callable[[str, Any], None] | None = None  # "subscribed", … and the row

    def add_advertisement(self, row: Advertisement) -> None:
        """A publisher is to be found in this direction."""
        self.srt[row.id] = row
        self._index(row)
        self._changed("advertised", row)

    def remove_advertisement(self, id: int) -> Advertisement:
        """It is not any more."""
        row = self.srt.pop(id)
        leaving = self.leaving.get(id)
        if leaving is None or leaving.link is not row.link:
            self._remove_from(row.link, id)
        self._changed("unadvertised", row)
        return row

    def turn_advertisement(self, id: int, link: Link, epoch: int, ttl: int) -> Advertisement:
        """A publisher has migrated: it is to be found in another direction; until that is settled, in both."""
        row = self.srt[id]
        self.leaving[id] = Leaving(row, row.link, epoch, link)
        row.link, row.epoch, row.ttl = link, epoch, ttl
        self._index(row)
        self._changed("turned", row)
        return row

    def settle(self, id: int) -> None:
        """Nothing is under way any more in the direction that it has left."""
        leaving, row = self.leaving.pop(id), self.srt.get(id)
        if row is None or row.link is not leaving.link:
            self._remove_from(leaving.link, id)

    def _index(self, row: Advertisement) -> None:
        self._advertised.setdefault(row.link.number, Intersecting()).add(row.id, row.selection)

    def _remove_from(self, link: Link, id: int) -> None:
        advertised = self._advertised[link.number]
        advertised.remove(id)
        if not len(advertised):
            del self._advertised[link.number]

    def add_subscription(
        self, id: int, selection: Selection, raw: msgspec.Raw, ttl: int, link: Link
    ) -> Subscription:
        """A subscriber is to be found in this direction."""
        number = self._matcher.add(id, selection)
        row = self.prt[id] = Subscription(id, selection, raw, ttl, link, number)
        if (missing := number + 1 - len(self._hop_of)) > 0:
            self._hop_of += _NOTHING * missing
            self._local += _NOTHING * missing
        self._hop_of[number] = link.number
        self._subscriptions.add(id, selection)
        if link.is_client:
            self._local[number] = number
            self._by_number[number] = row
        self._changed("subscribed", row)
        return row

    def remove_subscription(self, id: int) -> Subscription:
        """It is not any more."""
        row = self.prt.pop(id)
        self._matcher.remove(id)
        self._hop_of[row.number] = -1
        self._subscriptions.remove(id)
        self._local[row.number] = -1
        self._by_number.pop(row.number, None)
        self._changed("unsubscribed", row)
        return row

    def _changed(self, what: str, row: Advertisement | Subscription) -> None:
        if self.on_change is not None:
            self.on_change(what, row)

    def local_subscriptions(self, publication: Publication) -> list[Subscription]:
        """The subscriptions of clients of this broker that want the publication."""
        local = self._match(publication).distinct(self._local)
        return [self._by_number[number] for number in local]

    def hops(self, publication: Publication) -> list[int]:
        """The numbers of the links behind which somebody wants the publication."""
        return self._match(publication).distinct(self._hop_of)

    def is_advertised(self, link: Link, selection: Selection) -> bool:
        """Whether an advertisement from this link intersects the selection."""
        advertised = self._advertised.get(link.number)
        return advertised is not None and next(advertised.find(selection), None) is not None

    def subscriptions_intersecting(self, selection: Selection) -> Iterator[Subscription]:
        """The rows of the PRT that intersect an advertisement."""
        return (self.prt[id] for id in self._subscriptions.find(selection))

    def from_link(self, link: Link) -> tuple[list[int], list[int]]:
        """The advertisements and the subscriptions that came over a link."""
        return (
            [row.id for row in self.srt.values() if row.link is link],
            [row.id for row in self.prt.values() if row.link is link],
        )
