"""Routing on a tree: advertisement-based, with covering (balance §2.3, placement §II).

Advertisements are flooded. A subscription goes to every neighbour from which an intersecting advertisement
came: the reverse path. Publications follow the subscriptions. Without advertisements (`advertisements=False`)
subscriptions go everywhere instead.

Covering: a subscription that is *wanted* at a neighbour is not *sent* there if one that covers it was. When the
covering one is withdrawn, what it kept back is sent first, then the unsubscription, so that nothing is interrupted
(balance Fig. 3: B2 sends sub2's subscription to B1 before sub1's unsubscription).

A publisher may migrate under its advertisement (placement §III-C; `turn`, `settle`). Each time the advertisement's
epoch rises. Two parts of the network that were cut off from each other may know it in two places, with two epochs: then
the migration has failed, both are about to be withdrawn, and messages about the other one are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from runnel.broker.ids import IdConflict
from runnel.broker.links import Link
from runnel.broker.tables import AdvertisementRow, Leaving, SubscriptionRow, Tables
from runnel.errors import demand
from runnel.matching.covering import Covering
from runnel.wire import (
    Advertise,
    Barrier,
    Handover,
    Publication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    decode_selection,
)


class TreeConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Both switches of the papers."""

    covering: bool = True
    advertisements: bool = True


class Outbound:
    """The subscriptions that concern one neighbour: those sent to it, and those kept back by covering."""

    __slots__ = ("kept_back", "sent")

    def __init__(self) -> None:
        self.sent = Covering()
        self.kept_back = Covering()


class TreeRouting:
    """The strategy `tree`."""

    frame_for: Callable[[Link, Publication], bytes] | None = None  # all neighbours get the same

    def __init__(self, config: TreeConfig, tables: Tables) -> None:
        self.config = config
        self.tables = tables
        self._hops = tables.hops
        self._outbound: dict[Link, Outbound] = {}

    def outbound(self, link: Link) -> Outbound:
        """What a neighbour was sent; for tests."""
        return self._outbound[link]

    def _neighbours(self, but: Link) -> list[Link]:
        return [link for link in self._outbound if link is not but]

    # -- links ----------------------------------------------------------------------------------------

    def link_up(self, link: Link) -> None:
        """Tell a neighbour all advertisements; the subscriptions follow as its own arrive."""
        if not link.is_neighbour:
            return
        self._outbound[link] = Outbound()
        for row in self.tables.srt.values():
            if row.link is not link and row.ttl > 0:
                link.send_message(_forward_message(row))
        # With advertisements, those of the neighbour draw the subscriptions there, as they arrive (`_want_all`).
        if not self.config.advertisements:
            for subscription in self.tables.prt.values():
                if subscription.link is not link:
                    self._want(link, subscription)

    def link_lost(self, link: Link) -> None:
        """Withdraw what came over a link, as if the peer had done so."""
        self._outbound.pop(link, None)
        advertisements, subscriptions = self.tables.ids_from_link(link)
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
                raise IdConflict(
                    f"advertisement {message.id} came over {link.name} but is known already"
                )
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
        self._flood(row)
        self._want_all(link, row)

    def unadvertise(self, link: Link, id: int) -> None:
        """Withdraw; subscriptions leave a direction in which nobody publishes for them any more."""
        row = self.tables.srt.get(id)
        if row is None or row.link is not link:
            return  # it has migrated, or was withdrawn at its new place already
        self.tables.remove_advertisement(id)
        leaving = self.tables.leaving.get(id)
        if leaving is None or leaving.row is not row:
            self._withdraw(row)
        # Otherwise something may still be under way from where it was: `settle` withdraws it when that has arrived.
        self._unwant_all(link, row)

    def turn(self, link: Link, id: int, epoch: int, ttl: int) -> None:
        """A publisher has migrated: from now on it is in this direction, and leaves the one where it was."""
        if id in self.tables.leaving:
            self.settle(self.tables.leaving[id])
        self._want_all(link, self.tables.turn_advertisement(id, link, epoch, ttl))
        if link in self._outbound:
            # The neighbour may have lost the publisher meanwhile, and learnt the old place from us.
            link.send_message(Unadvertise(id))

    def settle(self, leaving: Leaving) -> None:
        """Nothing is under way any more where the publisher was: subscriptions leave that direction."""
        self.tables.settle(leaving.row.id)
        if self.tables.is_withdrawn(leaving):
            self._withdraw(leaving.row)
        self._unwant_all(leaving.link, leaving.row)

    def _withdraw(self, row: AdvertisementRow) -> None:
        if row.ttl > 0:
            for neighbour in self._neighbours(row.link):
                neighbour.send_message(Unadvertise(row.id))

    def _flood(self, row: AdvertisementRow) -> None:
        if row.ttl > 0:
            for neighbour in self._neighbours(row.link):
                neighbour.send_message(_forward_message(row))

    def _want_all(self, link: Link, row: AdvertisementRow) -> None:
        """The subscriptions that a publisher concerns go towards it."""
        if link in self._outbound and self.config.advertisements:
            for subscription in list(self.tables.subscriptions_intersecting(row.selection)):
                if subscription.link is not link:
                    self._want(link, subscription)

    def _unwant_all(self, link: Link, row: AdvertisementRow) -> None:
        """… and leave its direction, unless another publisher there concerns them."""
        if link in self._outbound and self.config.advertisements:
            for subscription in list(self.tables.subscriptions_intersecting(row.selection)):
                if not self.tables.is_advertised(link, subscription.selection):
                    self._unwant(link, subscription)

    # -- subscriptions --------------------------------------------------------------------------------

    def subscribe(self, link: Link, message: Subscribe) -> None:
        """Forward towards the publishers that it concerns."""
        if message.id in self.tables.prt:
            raise IdConflict(
                f"subscription {message.id} came over {link.name} but is known already"
            )
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
        if row is None and link.is_client:
            return  # it was refused, and the client has not heard of that yet
        if row is None or row.link is not link:
            raise IdConflict(f"{link.name} withdrew subscription {id}, which it had not made")
        self.tables.remove_subscription(id)
        for neighbour in self._neighbours(link):
            self._unwant(neighbour, row)

    def _concerns(self, neighbour: Link, row: SubscriptionRow) -> bool:
        return not self.config.advertisements or self.tables.is_advertised(neighbour, row.selection)

    def _want(self, neighbour: Link, row: SubscriptionRow) -> None:
        """The neighbour must deliver for this subscription: send it, unless covering makes that needless."""
        outbound = self._outbound[neighbour]
        if row.ttl == 0 or row.id in outbound.sent or row.id in outbound.kept_back:
            return
        if self._is_covered(outbound, row):
            outbound.kept_back.add(row.id, row.selection)
        else:
            self._send(neighbour, row)

    def _is_covered(self, outbound: Outbound, row: SubscriptionRow) -> bool:
        """Whether one that was sent covers this one and reaches at least as far.

        A subscription travels as many links as its ttl says: beyond the end of one that covers, this one is needed.
        """
        return self.config.covering and any(
            self.tables.prt[id].ttl >= row.ttl
            for selection in outbound.sent.find_covering(row.selection)
            for id in outbound.sent.ids(selection)
        )

    def _unwant(self, neighbour: Link, row: SubscriptionRow) -> None:
        """The neighbour need not any more: first what this subscription kept back, then its withdrawal."""
        outbound = self._outbound[neighbour]
        if row.id in outbound.kept_back:
            outbound.kept_back.remove(row.id)
        elif row.id in outbound.sent:
            outbound.sent.remove(row.id)
            # First those that only this one had covered, then its withdrawal: no publication falls between the two.
            for id in outbound.kept_back.ids_covered_by(row.selection):
                kept_back = self.tables.prt[id]
                if not self._is_covered(outbound, kept_back):
                    outbound.kept_back.remove(id)
                    self._send(neighbour, kept_back)
            neighbour.send_message(Unsubscribe(row.id))

    def _send(self, neighbour: Link, row: SubscriptionRow) -> None:
        self._outbound[neighbour].sent.add(row.id, row.selection)
        neighbour.send_message(Subscribe(row.id, row.raw, row.ttl - 1))

    # -- publications and barriers --------------------------------------------------------------------

    def next_hops(self, link: Link, publication: Publication) -> list[int]:
        """The links that matching subscriptions came from; never back to the broker that sent the publication.

        A client may subscribe to what it publishes, so it does get its own back.
        """
        hops = self._hops(publication)
        if link.is_neighbour and link.number in hops:
            hops.remove(link.number)
        return hops

    def publishers_over(self, link: Link) -> list[int]:
        """The publishers on this side of a link for whom there are subscribers on the other."""
        tables = self.tables
        return [
            row.id
            for row in tables.srt.values()
            if row.link is not link
            and any(s.link is link for s in tables.subscriptions_intersecting(row.selection))
        ]

    def barrier_links(self, link: Link, barrier: Barrier | Handover) -> Iterable[Link]:
        """A subscription's routes lie towards its publishers, an advertisement's everywhere; so may an old home."""
        neighbours = self._neighbours(link)
        if isinstance(barrier, Handover) or barrier.about == "advertisement":
            return neighbours
        if not self.config.advertisements:
            return neighbours
        selection = decode_selection(barrier.selection)
        return [
            neighbour for neighbour in neighbours if self.tables.is_advertised(neighbour, selection)
        ]

    # -- what must hold -------------------------------------------------------------------------------

    def check(self, links: Iterable[Link]) -> None:
        """What a neighbour was sent, or is kept back from it, is in the PRT and came from elsewhere."""
        prt = self.tables.prt
        for link in links:
            if not link.is_neighbour or not link.peer_token:
                continue
            outbound = self._outbound[link]
            for id in (*outbound.sent, *outbound.kept_back):
                demand(id in prt, f"{link.name} knows subscription {id}, which is gone")
                demand(prt[id].link is not link, f"{link.name} got its own subscription {id} back")
            for id in outbound.kept_back:
                demand(id not in outbound.sent, f"subscription {id} is both sent and kept back")
                covered = outbound.sent.is_covered(outbound.kept_back.selection(id))
                demand(covered, f"subscription {id} is kept back from {link.name} for no reason")

    def remains(self) -> dict[str, list[int]]:
        """The subscriptions that neighbours were sent, or that are kept back from them."""
        return {
            f"{what} {link.name}": list(ids)
            for link, outbound in self._outbound.items()
            for what, ids in (("sent to", outbound.sent), ("kept back from", outbound.kept_back))
        }


def _forward_message(row: AdvertisementRow) -> Advertise:
    """An advertisement as it is handed on."""
    return Advertise(row.id, row.raw, row.publisher, row.ttl - 1, row.epoch)
