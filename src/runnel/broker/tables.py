"""The routing tables: SRT and PRT, and the matcher that turns a publication into next hops.

As in the papers: the *subscription routing table* says from which hop each advertisement came (that is where
subscriptions must go), the *publication routing table* from which hop each subscription came (that is where
publications must go). A hop is a link, to a neighbour broker or to a client alike.

While a publisher migrates (modules/placement/migration.py) its advertisement has two directions: the one it is in from
now on, and the one that it leaves, in which there is still something under way; even if it is withdrawn meanwhile.

Only the methods of `Tables` change them: rows are frozen, and a change makes a new one. So the indexes beside the
tables are always consistent, and `on_change` is called for every change.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec

from runnel.broker.links import Link
from runnel.language import Selection
from runnel.matching import Engine, Intersecting, Matches
from runnel.wire import Publication


@dataclass(frozen=True, slots=True, eq=False)
class AdvertisementRow:
    """A row of the SRT."""

    id: int
    selection: Selection
    raw: msgspec.Raw
    publisher: str
    ttl: int
    link: Link
    epoch: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Leaving:
    """An advertisement that has left a direction (`link`) in which there is still something under way.

    `told_by` is its new direction, where a broker waits to be told that nothing is under way any more; None if that
    link is lost.
    """

    row: AdvertisementRow
    link: Link
    epoch: int
    told_by: Link | None


@dataclass(frozen=True, slots=True, eq=False)
class SubscriptionRow:
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
        self._match = engine.match
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
        return self._match(publication.attributes)


_NOTHING = array("q", (-1,))


class Tables:
    """SRT and PRT. `on_change` is told what has happened to which row: "subscribed", and so on."""

    def __init__(
        self, matcher: Matcher, on_change: Callable[[str, Any], None] | None = None
    ) -> None:
        self.srt: dict[int, AdvertisementRow] = {}
        self.prt: dict[int, SubscriptionRow] = {}
        self.leaving: dict[int, Leaving] = {}
        self._matcher = matcher
        self._match = matcher.match
        self._hop_of = array("q")  # subscription number → link number, -1 for none
        self._subscriptions = Intersecting()
        self._advertised: dict[int, Intersecting] = {}  # link number → its advertisements
        self._local = array("q")  # subscription number → itself if it is a client's, -1 otherwise
        self._by_number: dict[int, SubscriptionRow] = {}  # those of clients
        self._on_change = on_change

    def add_advertisement(self, row: AdvertisementRow) -> None:
        """Add an advertisement: its publisher is in the direction of the row's link."""
        self.srt[row.id] = row
        self._index(row)
        self._report_change("advertised", row)

    def remove_advertisement(self, id: int) -> AdvertisementRow:
        """It is not any more."""
        row = self.srt.pop(id)
        leaving = self.leaving.get(id)
        if leaving is None or leaving.link is not row.link:
            self._remove_from(row.link, id)
        self._report_change("unadvertised", row)
        return row

    def turn_advertisement(self, id: int, link: Link, epoch: int, ttl: int) -> AdvertisementRow:
        """A publisher has migrated to another direction; until `settle`, it has both."""
        before = self.srt[id]
        # As far as it reached before it is known, and must be withdrawn.
        row = self.srt[id] = replace(before, link=link, epoch=epoch, ttl=max(ttl, before.ttl))
        self.leaving[id] = Leaving(row, before.link, epoch, link)
        self._index(row)
        self._report_change("turned", row)
        return row

    def is_withdrawn(self, leaving: Leaving) -> bool:
        """Whether an advertisement was withdrawn since it left a direction.

        Neighbours are told only when nothing is under way any more, which would find no route otherwise.
        """
        return self.srt.get(leaving.row.id) is not leaving.row

    def forget_waiting(self, link: Link) -> None:
        """A link is lost: no broker waits there any more to be told that nothing is under way."""
        for id, leaving in self.leaving.items():
            if leaving.told_by is link:
                self.leaving[id] = replace(leaving, told_by=None)

    def settle(self, id: int) -> None:
        """Nothing is under way any more in the direction that an advertisement has left."""
        leaving, row = self.leaving.pop(id), self.srt.get(id)
        if row is None or row.link is not leaving.link:
            self._remove_from(leaving.link, id)

    def _index(self, row: AdvertisementRow) -> None:
        self._advertised.setdefault(row.link.number, Intersecting()).add(row.id, row.selection)

    def _remove_from(self, link: Link, id: int) -> None:
        advertised = self._advertised[link.number]
        advertised.remove(id)
        if not len(advertised):
            del self._advertised[link.number]

    def add_subscription(
        self, id: int, selection: Selection, raw: msgspec.Raw, ttl: int, link: Link
    ) -> SubscriptionRow:
        """Add a subscription: its subscriber is in the direction of the link."""
        number = self._matcher.add(id, selection)
        row = self.prt[id] = SubscriptionRow(id, selection, raw, ttl, link, number)
        if (missing := number + 1 - len(self._hop_of)) > 0:
            self._hop_of += _NOTHING * missing
            self._local += _NOTHING * missing
        self._hop_of[number] = link.number
        self._subscriptions.add(id, selection)
        if link.is_client:
            self._local[number] = number
            self._by_number[number] = row
        self._report_change("subscribed", row)
        return row

    def remove_subscription(self, id: int) -> SubscriptionRow:
        """It is not any more."""
        row = self.prt.pop(id)
        self._matcher.remove(id)
        self._hop_of[row.number] = -1
        self._subscriptions.remove(id)
        self._local[row.number] = -1
        self._by_number.pop(row.number, None)
        self._report_change("unsubscribed", row)
        return row

    def _report_change(self, what: str, row: AdvertisementRow | SubscriptionRow) -> None:
        if self._on_change is not None:
            self._on_change(what, row)

    def local_subscriptions(self, publication: Publication) -> list[SubscriptionRow]:
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

    def subscriptions_intersecting(self, selection: Selection) -> Iterator[SubscriptionRow]:
        """The rows of the PRT that intersect an advertisement."""
        return (self.prt[id] for id in self._subscriptions.find(selection))

    def find_advertisement(self, id: int) -> AdvertisementRow | None:
        """A publisher; also one that has withdrawn, and something is under way still from where it was before."""
        row = self.srt.get(id)
        if row is None and id in self.leaving:
            row = self.leaving[id].row
        return row

    def advertisements_from(self, link: Link) -> list[AdvertisementRow]:
        """The advertisements whose publications may come over a link, also those that are leaving its direction."""
        rows = {row.id: row for row in self.srt.values() if row.link is link}
        rows |= {id: leaving.row for id, leaving in self.leaving.items() if leaving.link is link}
        return list(rows.values())

    def ids_from_link(self, link: Link) -> tuple[list[int], list[int]]:
        """The advertisements and the subscriptions that came over a link."""
        return (
            [row.id for row in self.srt.values() if row.link is link],
            [row.id for row in self.prt.values() if row.link is link],
        )
