"""Routing on a tree: advertisement-based, with covering (balance §2.3, placement §II).

Advertisements are flooded. A subscription goes to every neighbour from which an intersecting advertisement
came: the reverse path. Publications follow the subscriptions. Without advertisements (`advertisements=False`)
subscriptions go everywhere instead.

Covering: a subscription that is *wanted* at a neighbour is not *sent* there if one that covers it was. When the
covering one is withdrawn, what it kept back is sent first, then the unsubscription, so that nothing is interrupted
(balance Fig. 3: B2 sends sub2's subscription to B1 before sub1's unsubscription).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runnel.broker.links import Link
from runnel.broker.tables import Advertisement, Subscription, Tables
from runnel.errors import PeerError
from runnel.matching.covering import Covering
from runnel.wire import (
    Advertise,
    Barrier,
    Publication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    decode_selection,
)


@dataclass(frozen=True, slots=True)
class TreeConfig:
    """Both switches of the papers."""

    covering: bool = True
    advertisements: bool = True


class Outbound:
    """What one neighbour is to know of our subscriptions: those sent to it, those kept back by covering."""

    __slots__ = ("kept_back", "sent")

    def __init__(self) -> None:
        self.sent = Covering()
        self.kept_back = Covering()


class TreeRouting:
    """The strategy `tree`."""

    def __init__(self, config: TreeConfig, tables: Tables) -> None:
        self.config = config
        self.tables = tables
        self._outbound: dict[Link, Outbound] = {}

    def outbound(self, link: Link) -> Outbound:
        """What a neighbour was sent; for invariants and tests."""
        return self._outbound[link]

    def _neighbours(self, but: Link) -> list[Link]:
        return [link for link in self._outbound if link is not but]

    # -- links ----------------------------------------------------------------------------------------

    def link_up(self, link: Link) -> None:
        """Tell a neighbour all advertisements; the subscriptions follow as its own arrive."""
        if link.kind != "broker":
            return
        self._outbound[link] = Outbound()
        for row in self.tables.srt.values():
            if row.link is not link and row.ttl > 0:
                link.send_message(Advertise(row.id, row.raw, row.publisher, row.ttl - 1))
        if not self.config.advertisements:
            for subscription in self.tables.prt.values():
                if subscription.link is not link:
                    self._want(link, subscription)

    def link_lost(self, link: Link) -> None:
        """Withdraw what came over a link, as if the peer had done so."""
        self._outbound.pop(link, None)
        advertisements, subscriptions = self.tables.from_link(link)
        for id in subscriptions:
            self.unsubscribe(link, id)
        for id in advertisements:
            self.unadvertise(link, id)

    # -- advertisements -------------------------------------------------------------------------------

    def advertise(self, link: Link, message: Advertise) -> None:
        """Flood, and send back the subscriptions that the new publisher concerns."""
        if message.id in self.tables.srt:
            raise PeerError(
                f"advertisement {message.id} came over {link.name} but is known already"
            )
        selection = decode_selection(message.selection)
        row = Advertisement(
            message.id, selection, message.selection, message.publisher, message.ttl, link
        )
        self.tables.add_advertisement(row)
        if message.ttl > 0:
            onward = Advertise(message.id, message.selection, message.publisher, message.ttl - 1)
            for neighbour in self._neighbours(link):
                neighbour.send_message(onward)
        if link in self._outbound and self.config.advertisements:
            for subscription in list(self.tables.subscriptions_intersecting(selection)):
                if subscription.link is not link:
                    self._want(link, subscription)

    def unadvertise(self, link: Link, id: int) -> None:
        """Withdraw; subscriptions leave a direction in which nobody publishes for them any more."""
        row = self.tables.srt.get(id)
        if row is None or row.link is not link:
            raise PeerError(f"{link.name} withdrew advertisement {id}, which it had not made")
        self.tables.remove_advertisement(id)
        if row.ttl > 0:
            for neighbour in self._neighbours(link):
                neighbour.send_message(Unadvertise(id))
        if link in self._outbound and self.config.advertisements:
            for subscription in list(self.tables.subscriptions_intersecting(row.selection)):
                if not self.tables.is_advertised(link, subscription.selection):
                    self._unwant(link, subscription)

    # -- subscriptions --------------------------------------------------------------------------------

    def subscribe(self, link: Link, message: Subscribe) -> None:
        """Forward towards the publishers that it concerns."""
        if message.id in self.tables.prt:
            raise PeerError(f"subscription {message.id} came over {link.name} but is known already")
        selection = decode_selection(message.selection)
        row = self.tables.add_subscription(
            message.id, selection, message.selection, message.ttl, link
        )
        for neighbour in self._neighbours(link):
            if self._concerns(neighbour, row):
                self._want(neighbour, row)

    def unsubscribe(self, link: Link, id: int) -> None:
        """Withdraw where it was forwarded."""
        row = self.tables.prt.get(id)
        if row is None or row.link is not link:
            raise PeerError(f"{link.name} withdrew subscription {id}, which it had not made")
        self.tables.remove_subscription(id)
        for neighbour in self._neighbours(link):
            self._unwant(neighbour, row)

    def _concerns(self, neighbour: Link, row: Subscription) -> bool:
        return not self.config.advertisements or self.tables.is_advertised(neighbour, row.selection)

    def _want(self, neighbour: Link, row: Subscription) -> None:
        """The neighbour must deliver for this subscription: send it, unless covering makes that needless."""
        outbound = self._outbound[neighbour]
        if row.ttl == 0 or row.id in outbound.sent or row.id in outbound.kept_back:
            return
        if self._is_covered(outbound, row):
            outbound.kept_back.add(row.id, row.selection)
        else:
            self._send(neighbour, row)

    def _is_covered(self, outbound: Outbound, row: Subscription) -> bool:
        """Whether one that was sent covers this one and reaches at least as far."""
        return self.config.covering and any(
            self.tables.prt[id].ttl >= row.ttl
            for selection in outbound.sent.above(row.selection)
            for id in outbound.sent.ids(selection)
        )

    def _unwant(self, neighbour: Link, row: Subscription) -> None:
        """The neighbour need not any more: first what this subscription kept back, then its withdrawal."""
        outbound = self._outbound[neighbour]
        if row.id in outbound.kept_back:
            outbound.kept_back.remove(row.id)
        elif row.id in outbound.sent:
            outbound.sent.remove(row.id)
            for id in outbound.kept_back.covered_by(row.selection):
                kept_back = self.tables.prt[id]
                if not self._is_covered(outbound, kept_back):
                    outbound.kept_back.remove(id)
                    self._send(neighbour, kept_back)
            neighbour.send_message(Unsubscribe(row.id))

    def _send(self, neighbour: Link, row: Subscription) -> None:
        self._outbound[neighbour].sent.add(row.id, row.selection)
        neighbour.send_message(Subscribe(row.id, row.raw, row.ttl - 1))

    # -- publications and barriers --------------------------------------------------------------------

    def next_hops(self, link: Link, publication: Publication) -> list[int]:
        """Where the subscriptions came from; never back to the broker that sent it."""
        hops = self.tables.hops(publication)
        if link.kind == "broker" and link.number in hops:
            hops.remove(link.number)
        return hops

    def barrier_links(self, link: Link, barrier: Barrier) -> Iterable[Link]:
        """A subscription's routes lie towards its publishers, an advertisement's everywhere."""
        neighbours = self._neighbours(link)
        if barrier.about == "advertisement" or not self.config.advertisements:
            return neighbours
        selection = decode_selection(barrier.selection)
        return [
            neighbour for neighbour in neighbours if self.tables.is_advertised(neighbour, selection)
        ]
