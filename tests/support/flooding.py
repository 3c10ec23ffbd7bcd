"""A strategy outside of the package, in one file: `flood` sends every publication everywhere, once.

It is the template for strategies: docs/extending.md says what to change in a copy.

Advertisements are flooded as on every tree, so that publishers can migrate; subscriptions stay where they are made.
It is the simplest strategy that delivers everything, and what tests of strategies are made with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from runnel.broker.ids import IdConflict
from runnel.broker.links import Link
from runnel.broker.tables import AdvertisementRow, Leaving, Tables
from runnel.compose import register_strategy
from runnel.errors import demand
from runnel.routing.strategy import EntryAtRest, HopsById, Overlay, StrategyKind
from runnel.wire import (
    Advertise,
    Barrier,
    Handover,
    Publication,
    Subscribe,
    Unadvertise,
    decode_selection,
)


class FloodConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """There is nothing to choose."""


class FloodRouting:
    """The strategy `flood`."""

    frame_for = None  # all neighbours get the same

    def __init__(self, config: FloodConfig, tables: Tables) -> None:
        self.tables = tables
        self._neighbours: dict[Link, None] = {}

    def _others(self, link: Link) -> list[Link]:
        return [neighbour for neighbour in self._neighbours if neighbour is not link]

    def link_up(self, link: Link) -> None:
        """Tell a neighbour of all publishers; a client needs to know nothing."""
        if link.is_neighbour:
            self._neighbours[link] = None
            for row in self.tables.srt.values():
                if row.link is not link and row.ttl > 0:
                    link.send_message(_forward_message(row))

    def link_lost(self, link: Link) -> None:
        """Whoever was behind the link is gone."""
        self._neighbours.pop(link, None)
        advertisements, subscriptions = self.tables.ids_from_link(link)
        for id in subscriptions:
            self.unsubscribe(link, id)
        for id in advertisements:
            self.unadvertise(link, id)

    def advertise(self, link: Link, message: Advertise) -> None:
        """Tell all neighbours of a publisher."""
        known = self.tables.srt.get(message.id)
        if known is not None:
            if known.link is not link and known.epoch == message.epoch:
                raise IdConflict(f"advertisement {message.id} came over {link.name} too")
            return
        selection = decode_selection(message.selection)
        row = AdvertisementRow(
            id=message.id,
            selection=selection,
            raw=message.selection,
            publisher=message.publisher,
            ttl=message.ttl,
            link=link,
            epoch=message.epoch,
        )
        self.tables.add_advertisement(row)
        if row.ttl > 0:
            for neighbour in self._others(link):
                neighbour.send_message(_forward_message(row))

    def unadvertise(self, link: Link, id: int) -> None:
        """Tell all neighbours that a publisher is gone; one that has migrated is still there, and it is ignored."""
        row = self.tables.srt.get(id)
        if row is None or row.link is not link:
            return
        self.tables.remove_advertisement(id)
        leaving = self.tables.leaving.get(id)
        if leaving is None or leaving.row is not row:
            self._withdraw(row)

    def _withdraw(self, row: AdvertisementRow) -> None:
        if row.ttl > 0:
            for neighbour in self._others(row.link):
                neighbour.send_message(Unadvertise(row.id))

    def turn(self, link: Link, id: int, epoch: int, ttl: int) -> None:
        """A publisher has migrated: it is in this direction now."""
        if id in self.tables.leaving:
            self.settle(self.tables.leaving[id])
        self.tables.turn_advertisement(id, link, epoch, ttl)
        if link in self._neighbours:
            link.send_message(Unadvertise(id))

    def settle(self, leaving: Leaving) -> None:
        """Nothing comes any more from where a publisher was: forget that direction."""
        self.tables.settle(leaving.row.id)
        if self.tables.is_withdrawn(leaving):
            self._withdraw(leaving.row)

    def subscribe(self, link: Link, message: Subscribe) -> None:
        """Note it here: only the subscriber's own broker needs to know."""
        if message.id in self.tables.prt:
            raise IdConflict(
                f"subscription {message.id} came over {link.name} but is known already"
            )
        selection = decode_selection(message.selection)
        self.tables.add_subscription(message.id, selection, message.selection, message.ttl, link)

    def unsubscribe(self, link: Link, id: int) -> None:
        """Forget it here: nobody else knows it."""
        row = self.tables.prt.get(id)
        if row is None or row.link is not link:
            raise IdConflict(f"{link.name} withdrew subscription {id}, which it had not made")
        self.tables.remove_subscription(id)

    def next_hops(self, link: Link, publication: Publication) -> list[int]:
        """All neighbours but the one that it came from, and the clients that want it."""
        clients = self.tables.hops(publication)
        return [neighbour.number for neighbour in self._others(link)] + clients

    def publishers_over(self, link: Link) -> list[int]:
        """Everybody but those who are behind the link."""
        return [row.id for row in self.tables.srt.values() if row.link is not link]

    def barrier_links(self, link: Link, barrier: Barrier | Handover) -> Iterable[Link]:
        """Publications come from anywhere and go everywhere."""
        return self._others(link)

    def check(self, links: Iterable[Link]) -> None:
        """Every subscription is a client's."""
        for row in self.tables.prt.values():
            demand(row.link.is_client, f"subscription {row.id} has come from {row.link.name}")

    def remains(self) -> dict[str, list[int]]:
        """Nothing is kept besides the tables."""
        return {}


def _forward_message(row: AdvertisementRow) -> Advertise:
    return Advertise(row.id, row.raw, row.publisher, row.ttl - 1, row.epoch)


class FloodAtRest:
    """What every broker must know and do, recomputed from scratch."""

    def tables(
        self,
        overlay: Overlay,
        advertisements: Sequence[EntryAtRest],
        subscriptions: Sequence[EntryAtRest],
    ) -> tuple[dict[str, HopsById], dict[str, HopsById] | None]:
        """All know all publishers; a subscription is known where its client is."""
        srt: dict[str, HopsById] = {broker: {} for broker in overlay.brokers}
        prt: dict[str, HopsById] = {broker: {} for broker in overlay.brokers}
        for entry in advertisements:
            toward = overlay.toward(entry.home)
            for broker in overlay.part(entry.home):
                srt[broker][entry.id] = toward.get(broker, entry.client)
        for entry in subscriptions:
            prt[entry.home][entry.id] = entry.client
        return srt, prt

    def hops(
        self,
        overlay: Overlay,
        broker: str,
        publisher: EntryAtRest,
        attributes: dict[str, Any],
        wanted_by: Sequence[EntryAtRest],
    ) -> list[str]:
        """All neighbours but the one towards the publisher, and the clients here that want it."""
        back = overlay.toward(publisher.home).get(broker)
        clients = {entry.client: None for entry in wanted_by if entry.home == broker}
        return sorted([*(n for n in overlay.neighbours[broker] if n != back), *clients])


FLOOD = StrategyKind(
    name="flood",
    purpose="sends every publication everywhere, once",
    settings=FloodConfig,
    make=FloodRouting,
    at_rest=lambda config: FloodAtRest(),
)

register_strategy(FLOOD)
