"""Routing on a tree: advertisement-based, with covering (balance §2.3, placement §II).

Advertisements are flooded. A subscription goes to every neighbour from which an intersecting advertisement
came: the reverse path. Publications follow the subscriptions. Without advertisements (`advertisements=False`)
subscriptions go everywhere instead.

Covering: a subscription that is *wanted* at a neighbour is not *sent* there if one that covers it was. When the
covering one is withdrawn, what it kept back is sent first, then the unsubscription, so that nothing is interrupted
(balance Fig. 3: B2 sends sub2's subscription to B1 before sub1's unsubscription).

A publisher may migrate under its advertisement (placement §III-C; `turn`, `settle`). Each time the advertisement's
epoch rises. Two parts of the network that were cut off from each other may know it in two places, with two epochs: then
the migration was broken, both are about to be withdrawn, and what is said of the other one is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runnel.broker.links import Link
from runnel.broker.tables import Advertisement, Leaving, Subscription, Tables
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
                link.send_message(_onward(row))
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
        known = self.tables.srt.get(message.id)
        if known is not None:
            if known.link is not link and known.epoch == message.epoch:
                # Two publishers with one id, or links that form a ring.
                raise PeerError(
                    f"advertisement {message.id} came over {link.name} but is known already"
                )
            return
        selection = decode_selection(message.selection)
        row = Advertisement(
            *(message.id, selection, message.selection, message.publisher, message.ttl, link),
            epoch=message.epoch,
        )
        self.tables.add_advertisement(row)
        self._flood(row)
        self._want_all(link, row)

    def unadvertise(self, link: Link, id: int) -> None:
        """Withdraw; subscriptions leave a direction in which nobody publishes for them any more."""
        row = self.tables.srt.get(id)
        if row is None or row.link is not link:
            return  # it has migrated, or was withdrawn where it migrated to: old news
        self.tables.remove_advertisement(id)
        leaving = self.tables.leaving.get(id)
        if leaving is not None and leaving.row is row:
            leaving.withdrawn = True
        else:
            self._withdraw(row)
        self._unwant_all(link, row)

    def turn(self, link: Link, id: int, epoch: int, ttl: int) -> None:
        """A publisher has migrated: from now on it is in this direction, and leaves the one where it was."""
        if id in self.tables.leaving:
            self.settle(self.tables.leaving[id])
        self._want_all(link, self.tables.turn_advertisement(id, link, epoch, ttl))
        if link in self._outbound:
            # It may have lost the publisher meanwhile, and learnt from us where it was.
            link.send_message(Unadvertise(id))

    def settle(self, leaving: Leaving) -> None:
        """Nothing is under way any more where the publisher was: subscriptions leave that direction."""
        self.tables.settle(leaving.row.id)
        if leaving.withdrawn:
            self._withdraw(leaving.row)
        self._unwant_all(leaving.link, leaving.row)

    def _withdraw(self, row: Advertisement) -> None:
        if row.ttl > 0:
            for neighbour in self._neighbours(row.link):
                neighbour.send_message(Unadvertise(row.id))

    def _flood(self, row: Advertisement) -> None:
        if row.ttl > 0:
            for neighbour in self._neighbours(row.link):
                neighbour.send_message(_onward(row))

    def _want_all(self, link: Link, row: Advertisement) -> None:
        """The subscriptions that a publisher concerns go towards it."""
        if link in self._outbound and self.config.advertisements:
            for subscription in list(self.tables.subscriptions_intersecting(row.selection)):
                if subscription.link is not link:
                    self._want(link, subscription)

    def _unwant_all(self, link: Link, row: Advertisement) -> None:
        """… and leave its direction, unless another publisher there concerns them."""
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


def _onward(row: Advertisement) -> Advertise:
    """An advertisement as it is handed on."""
    return Advertise(row.id, row.raw, row.publisher, row.ttl - 1, row.epoch)
