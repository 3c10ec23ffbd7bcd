"""Losses: whoever may have missed something is told what, in data order; nothing is lost in silence.

A broker loses publications in two ways, and both are told with the message `Loss`, which is passed on to all brokers
behind the one that noticed it; each of them tells its clients.

- *A link between brokers is lost*, or starts fresh, since one of the two is gone or has lost its memory. Nobody knows
  what was on its way. So what is told is an interval that is open until routes are complete again. A client is told if
  it has a subscription that concerns a publisher who was behind the link: from the watermark of the link on, before
  which all has come (watermarks.py). So is the publisher whose events went over it: from the time on before which the
  peer had handed on everything.
- *A queue to a neighbour overflows*. What is dropped is known: how many, from when to when, whose. Downstream that is
  told in front of what still waits; publishers are told with the next tick, all that was dropped since the last.

When is a link whole again? When the neighbour has sent all that it had (absences.py), does not name the link as
missing, and a barrier sent over it has come back: then the subscriptions of this broker have arrived wherever they are
going, and those from behind the link have come. Each broker finds that out by itself, for its own clients and over its
own link in that direction, since its subscriptions go out only when it has heard of the publishers again. If another
link is missing there then, as when a broker starts anew and has not got all its neighbours yet, the loss goes on there.
If a link does not come back, the loss stays open.

Publishers may have come to the other side while the link was missing, and nobody here knew of them: above all in a
network that clients are about to join from another generation. When the neighbour has sent all that it had, they are
known, and the loss begins for those who subscribe to them, from the same time on as for the others. It is passed on
behind the advertisements, and before it is said that the link is there again. If the neighbour has begun anew, and says
that links behind it are missing that were not missing before, the same holds when these are back.

What a client that does not keep up misses its own broker tells it (`Missed`); what it misses when it loses its broker,
it finds out itself (client/gaps.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from runnel.broker.absences import Absences
from runnel.broker.echoes import Echoes
from runnel.broker.ids import IdSource
from runnel.broker.links import Drops, Link
from runnel.broker.tables import AdvertisementRow, SubscriptionRow, Tables
from runnel.language import EVERYTHING, Selection
from runnel.matching import Intersecting
from runnel.wire import Barrier, Loss, encode, raw_selection
from runnel.wire.messages import LOSS_IDS_MAX, LOSS_NAMES_MAX

LINK_LOST = "the link was lost, and what was on its way"
QUEUE_FULL = "the queue of the link was full"

Role = Literal["subscriber", "publisher"]
"""As what a client is told: it may have missed something, or others may have missed what it published."""

Told = dict[tuple[Link, Role], dict[str, None]]
"""Which clients are to be told, as what, of which publishers."""


@dataclass(slots=True, eq=False)
class OpenLoss:
    """A link that is not whole: who was told, and how this broker finds out that it is whole again."""

    link: str
    reason: str
    peer: str  # the neighbour in whose direction the link lies
    since: dict[Role, int] = field(default_factory=dict)
    lost: dict[int, AdvertisementRow] = field(default_factory=dict)  # who was behind the link
    told: dict[tuple[Link, Role], int] = field(default_factory=dict)  # clients; since when, as told
    token: int = 0  # of the barrier that is under way; 0: none is
    _selections: Intersecting = field(default_factory=Intersecting)  # of those who were behind

    @property
    def since_ns(self) -> int:
        """Since when anything may be lost."""
        return min(self.since.values())

    def since_of(self, role: Role) -> int:
        """Since when something may be lost for whom that concerns."""
        return self.since.get(role, self.since_ns)

    def begin(self, role: Role, since_ns: int) -> None:
        """Something may be lost since then, or since before."""
        self.since[role] = min(self.since.get(role, since_ns), since_ns)

    def add(self, rows: Iterable[AdvertisementRow]) -> None:
        """Note publishers who were behind the link."""
        for row in rows:
            if row.id not in self.lost:
                self._selections.add(row.id, row.selection)
            self.lost[row.id] = row

    def publishers(self, selection: Selection) -> dict[str, None]:
        """The names of those whose publications a selection may describe."""
        return {self.lost[id].publisher: None for id in self._selections.find(selection)}


@dataclass(slots=True, eq=False)
class Outage:
    """A link that was lost, until all that lies behind it is heard of again."""

    since_ns: int  # since when anything may be missing
    before: frozenset[str]  # links that were missing behind it before
    awaited: frozenset[str] | None = None  # the others that are; None: it is not back itself
    known: dict[int, None] = field(default_factory=dict)  # advertisements that it had, or were told


class Losses:
    """The losses that one broker, which has this name and these links, knows of."""

    def __init__(
        self,
        name: str,
        links: Mapping[str, Link],
        tables: Tables,
        absences: Absences,
        ids: IdSource,
        time_of_day: Callable[[], int],
        publishers_over: Callable[[Link], Iterable[int]],
    ) -> None:
        self.open: dict[str, OpenLoss] = {}  # by the name of the link
        self.told = 0  # how often clients were told that they may have missed something
        self._echoes = Echoes()
        self._name = name
        self._links = links
        self._tables = tables
        self._absences = absences
        self._ids = ids
        self._time_of_day = time_of_day
        self._publishers_over = publishers_over
        self._began: dict[Link, int] = {}  # by neighbour: when this run of its link did
        self._outages: dict[str, Outage] = {}  # by the name of a neighbour whose link was lost
        self._dropped: dict[Link, Drops] = {}  # by neighbour: of what publishers are to be told

    # -- links of this broker ---------------------------------------------------------------------------

    def link_up(self, link: Link) -> None:
        """A link to a neighbour starts fresh."""
        if link.is_neighbour:
            self._began[link] = self._time_of_day()

    def link_lost(self, link: Link) -> None:
        """A link is lost; its routes are still in the tables, and what it was to carry is still queued."""
        for loss in self.open.values():
            loss.told.pop((link, "subscriber"), None)
            loss.told.pop((link, "publisher"), None)
            if loss.peer == link.name:
                loss.token = 0
        dropped = self._dropped.pop(link, None)
        began = self._began.pop(link, None)
        if began is None:
            return  # a client; or it has never been up, and nothing came by it
        lost, published = self._tables.advertisements_from(link), list(self._publishers_over(link))
        name = self._absences.link_to(link.name)
        lost_since_ns = link.watermark_ns or began
        self._note_outage(link, lost_since_ns, lost)
        if lost:
            self._begin(link, Loss(name, lost_since_ns, 0, LINK_LOST), lost, [])
        if published:
            held = (link.unsent(), link.unacknowledged(), dropped)
            times = [one.since_ns for one in held if one is not None and one.count]
            since_ns = min([link.handed_ns or began, *times])
            self._begin(link, Loss(name, since_ns, 0, LINK_LOST), [], published)

    def _note_outage(self, link: Link, since_ns: int, lost: list[AdvertisementRow]) -> None:
        before = self._absences.behind(link) or frozenset()
        outage = self._outages.setdefault(link.name, Outage(since_ns, before))
        outage.since_ns = min(outage.since_ns, since_ns)
        outage.awaited = None
        outage.known |= {row.id: None for row in lost}

    def tell_of_new_publishers(self, link: Link, missing: Iterable[str]) -> None:
        """A neighbour says which links are missing behind it: what has come back brought publishers who are new.

        Its advertisements have all come before.
        """
        outage = self._outages.get(link.name)
        if outage is None:
            return
        awaited, outage.awaited = outage.awaited, frozenset(missing) - outage.before
        if not outage.awaited:
            del self._outages[link.name]
        if awaited is not None and awaited <= outage.awaited:
            return  # nothing has come back
        rows = self._tables.advertisements_from(link)
        new = [row for row in rows if row.id not in outage.known]
        outage.known |= {row.id: None for row in new}
        if new:
            name = self._absences.link_to(link.name)
            self._begin(link, Loss(name, outage.since_ns, 0, LINK_LOST), new, [])

    def left(self, name: str) -> None:
        """A neighbour left for good, as was intended: nobody waits for it."""
        self._outages.pop(name, None)
        for loss in [loss for loss in self.open.values() if loss.peer == name]:
            self._end(loss)

    def tell_drops(self, link: Link) -> None:
        """Tell a neighbour what was dropped of what it was to have, and remember to tell the publishers."""
        drops = link.take_untold_drops()
        for count, ids in drops.parts():
            link.send_first(encode(self._loss_of(link, drops, count, advertisements=ids)))
        self._dropped.setdefault(link, Drops()).merge(drops)

    def tick(self) -> None:
        """Tell publishers what was dropped of theirs since the last tick."""
        self._echoes.tick()
        dropped, self._dropped = self._dropped, {}
        for link, drops in dropped.items():
            for count, ids in drops.parts():
                loss = self._loss_of(link, drops, count, published=ids)
                self._tell_counted(loss)
                self._pass_on(link, loss)

    def _loss_of(
        self,
        link: Link,
        drops: Drops,
        count: int,
        *,
        advertisements: tuple[int, ...] = (),
        published: tuple[int, ...] = (),
    ) -> Loss:
        return Loss(
            *(self._absences.link_to(link.name), drops.since_ns, max(1, drops.until_ns)),
            QUEUE_FULL,
            count,
            advertisements=advertisements,
            published=published,
        )

    # -- what brokers tell each other -------------------------------------------------------------------

    def heard(self, link: Link, loss: Loss) -> None:
        """A neighbour tells of a loss in its direction."""
        if not loss.until_ns:
            self._begin(link, loss, self._rows_of(loss), list(loss.published))
            return
        self._tell_counted(loss)
        self._pass_on(link, loss)

    def _rows_of(self, loss: Loss) -> list[AdvertisementRow]:
        """The publishers whose publications are lost; also who has withdrawn after a migration that is not over."""
        find = self._tables.find_advertisement
        return [row for id in loss.advertisements if (row := find(id)) is not None]

    def _begin(
        self, link: Link, loss: Loss, lost: list[AdvertisementRow], published: list[int]
    ) -> None:
        """A loss in the direction of a neighbour begins, or grows: tell those who do not know yet, and pass it on."""
        here = self.open.setdefault(loss.link, OpenLoss(loss.link, loss.reason, link.name))
        if lost or not published:
            here.begin("subscriber", loss.since_ns)
        if published:
            here.begin("publisher", loss.since_ns)
        here.add(lost)
        self._tell_begun(here, self._concerned(lost) | self._owners(published))
        self._tell_begun(
            here, {client: {} for client in here.told}
        )  # those who heard of a later time
        for start in range(0, max(len(lost), len(published)), LOSS_IDS_MAX):
            part = slice(start, start + LOSS_IDS_MAX)
            message = Loss(
                *(loss.link, loss.since_ns, 0, loss.reason),
                advertisements=tuple(row.id for row in lost[part]),
                published=tuple(published[part]),
                ttl=loss.ttl,
            )
            self._pass_on(link, message)

    def _pass_on(self, source: Link, loss: Loss) -> None:
        """Tell all other neighbours; in a loop, which is a mistake of the configuration, that ends somewhere."""
        ttl, loss = loss.ttl, msgspec.structs.replace(loss, ttl=0)
        if not ttl or self._echoes.is_echo(loss):
            return
        loss = msgspec.structs.replace(loss, ttl=ttl - 1)
        for neighbour in self._began:
            if neighbour is not source:
                neighbour.send_message(loss)

    # -- clients ----------------------------------------------------------------------------------------

    def subscribed(self, row: SubscriptionRow) -> None:
        """A client subscribes, perhaps one that has moved here: it is told of losses that it does not know here."""
        for loss in self.open.values():
            if self._knows((row.link, "subscriber"), loss):
                continue  # before all that is lost is looked through
            if names := loss.publishers(row.selection):
                self._tell_begun(loss, {(row.link, "subscriber"): names})

    def _concerned(self, rows: Iterable[AdvertisementRow]) -> Told:
        """The clients that subscribe to what some publishers publish."""
        told: Told = {}
        for row in rows:
            for subscription in self._tables.subscriptions_intersecting(row.selection):
                if subscription.link.is_client and subscription.link is not row.link:
                    told.setdefault((subscription.link, "subscriber"), {})[row.publisher] = None
        return told

    def _owners(self, published: Iterable[int]) -> Told:
        """The clients that publish under these ids."""
        told: Told = {}
        for id in published:
            row = self._tables.srt.get(id)
            if row is not None and row.link.is_client:
                told.setdefault((row.link, "publisher"), {})[row.publisher] = None
        return told

    def _tell_begun(self, loss: OpenLoss, told: Told) -> None:
        """Tell that a loss is open, unless they know that already."""
        for client, names in told.items():
            if not self._knows(client, loss):
                since_ns = loss.told[client] = loss.since_of(client[1])
                self._send(client, Loss(loss.link, since_ns, 0, loss.reason), names)

    @staticmethod
    def _knows(client: tuple[Link, Role], loss: OpenLoss) -> bool:
        """Whether a client was told of a loss, and since when it is."""
        since_ns = loss.since_of(client[1])
        return loss.told.get(client, since_ns + 1) <= since_ns

    def _tell_counted(self, loss: Loss) -> None:
        """Tell of publications that were dropped."""
        told = self._concerned(self._rows_of(loss)) | self._owners(loss.published)
        for client, names in told.items():
            self._send(client, loss, names)

    def _send(self, client: tuple[Link, Role], loss: Loss, names: Iterable[str] = ()) -> None:
        link, role = client
        publishers = tuple(sorted(names))
        self.told += 1
        link.send_message(
            Loss(
                *(loss.link, loss.since_ns, loss.until_ns, loss.reason, loss.count),
                to=role,
                publishers=publishers if len(publishers) <= LOSS_NAMES_MAX else (),
            )
        )

    # -- whole again ------------------------------------------------------------------------------------

    def check_whole(self) -> None:
        """What is missing has changed: send a barrier wherever a link may be whole again."""
        for loss in self.open.values():
            missing = self._missing_behind(loss)
            if not loss.token and missing is not None and loss.link not in missing:
                loss.token = self._ids.next()
                barrier = Barrier(loss.token, raw_selection(EVERYTHING), "advertisement", False)
                self._links[loss.peer].send_message(barrier)

    def take_fence(self, link: Link, token: int) -> bool:
        """Whether a fence is of a barrier of ours; then the link is whole, unless more is missing now.

        Only who was asked may answer: tokens of brokers can be guessed.
        """
        loss = next((one for one in self.open.values() if one.token == token != 0), None)
        if loss is None or loss.peer != link.name:
            return False
        loss.token = 0
        missing = self._missing_behind(loss)
        if missing is not None and loss.link not in missing:
            for name in sorted(missing):
                self._continue(loss, name)
            self._end(loss)
        return True

    def _missing_behind(self, loss: OpenLoss) -> frozenset[str] | None:
        """The links that are missing in the direction of a loss; None if that is not known."""
        peer = self._links.get(loss.peer)
        return self._absences.behind(peer) if peer is not None else None

    def _continue(self, loss: OpenLoss, link: str) -> None:
        """A link is back, but behind it another is missing: for all that we know, the loss goes on there."""
        there = self.open.setdefault(link, OpenLoss(link, loss.reason, loss.peer))
        for role, since_ns in loss.since.items():
            there.begin(role, since_ns)
        there.add(loss.lost.values())
        self._tell_begun(there, {client: {} for client in (*there.told, *loss.told)})

    def _end(self, loss: OpenLoss) -> None:
        """From now on everything comes: tell those who know that it did not."""
        del self.open[loss.link]
        for client in loss.told:
            since_ns = loss.since_of(client[1])
            self._send(client, Loss(loss.link, since_ns, self._time_of_day(), loss.reason))
