"""Barriers, handovers and fences: how brokers and clients know that routes are complete and that a path has run dry.

Content filtering leaves gaps in every counter, so no receiver can see that something is missing. One primitive
answers both questions. A Barrier travels in data order towards the publishers that it concerns; each broker passes
it on, waits for the Fences of all it was passed to, and answers with a Fence, in data order again. So when the
Fence is back,

- every subscription or advertisement sent before the barrier is installed along all of its paths: *ready*;
- every publication that a broker had routed before the barrier came to that broker has arrived before the Fence: *dry*.

A link that is lost owes no fence: the routes behind it are gone with it. A link that is down may come back, with all
that was on its way; a barrier for which everything must have arrived waits for that (`Barrier.waits`). One that asks
whether routes are complete does not: that link is missing, and the answer to the client says so (absences.py).

A client that moves does not need this from the whole network, and must not wait for an overloaded broker elsewhere. For
every publisher and every subscriber, the old route and the new one part at a broker on the path between its two homes.
So the client sends a Handover to its new home, behind its subscriptions and advertisements, and it is enough that this
goes on along that path in data order:

    client ── subscriptions, advertisements, Handover ─▶ new home ─▶ … ─▶ old home
    client ── its last publications, Fence ────────────────────────────▶ old home
    client ◀── all that came by the old path, Fence: *dry* ────────────── old home
    client ◀── Fence: *joined* ── new home ◀─ … ◀─ behind the client's last publications ── old home

- *What the client gets.* Take a publication that is handled where its routes part. After the Handover: then the new
  subscription is known there, and it goes by the new route (and may go by the old one too: a duplicate, which the
  session drops by its counter). Before the Handover: then it is ahead of the Handover all the way to the old home,
  which therefore sends it to the client before the Fence. So what comes by the new route is held back until that
  Fence, and nothing is lost or out of order.
- *What the client publishes.* At each broker on the path the advertisement at the new home came before the Handover,
  so the subscriptions to be found there have gone to the new home before the Fence on its way back. The old home
  sends that Fence only when it has handled the client's last publications. So these are ahead of it wherever routes
  part, and what is published at the new home after the Fence is neither lost nor too early.

The client sends its Fence and the Handover at the same time and with the same token, right after it has queued its
subscriptions for the new home (`client/fences.py::Fences.send_handover`). The old home answers when both are there:
*dry*. Until then the client holds back what comes by the new route (`client/session.py::Session._take_publication`).

An overloaded broker delays a move only if it is on that path: the old home answers by itself and asks nobody else.

Brokers do not know where another broker is. The first Handover to one goes to all neighbours, and the first Fence that
says that it has `reached` the old home decides; later ones are ignored. From then on the direction is known, and the
next Handover goes to that neighbour only; if it answers that the old home was not found, to all others. If all
neighbours answer so, there is no path. Then the client sends a barrier to its old home, and waits for all brokers that
can be reached from there (`client/move.py::Mover.take_joined`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from runnel.broker.ids import IdConflict
from runnel.broker.links import Link
from runnel.wire import Barrier, Fence, Handover


class Pending:
    """A barrier or handover that was passed on: who asked, and whose fences are still to come."""

    __slots__ = ("asked_by", "leaver", "owed_by", "sought", "untried", "waits")

    def __init__(
        self,
        asked_by: Link,
        owed_by: Iterable[Link],
        sought: Handover | None = None,
        *,
        waits: bool = True,
    ) -> None:
        self.asked_by = asked_by
        self.waits = waits  # also for a link that is down for long
        self.owed_by = dict.fromkeys(owed_by)
        # A handover that looks for its old home: the first fence that says that it was found is enough, and the others
        # are not waited for. None: a barrier, for which all fences must come, or a handover that has found it.
        self.sought = sought
        # Neighbours to ask if the one in the known direction has not found it.
        self.untried: list[Link] = []
        self.leaver: Link | None = None  # at the old home: the client that is handed over


class Barriers:
    """The barriers and handovers under way at one broker, which has this name and these links.

    `missing`: the links that are missing in the network. `tell_missing` tells neighbours what has changed about them.
    `is_lost`: whether a link is down for longer than a blip.
    """

    def __init__(
        self,
        name: str,
        links: Mapping[str, Link],
        links_for: Callable[[Link, Barrier | Handover], Iterable[Link]],
        missing: Callable[[], tuple[str, ...]],
        tell_missing: Callable[[], None],
        is_lost: Callable[[Link], bool],
    ) -> None:
        self._name = name
        self._links = links
        self._links_for = links_for
        self._missing = missing
        self._tell_missing = tell_missing
        self._is_lost = is_lost
        self._ways: dict[str, Link] = {}  # the neighbour behind which a broker was found
        self.pending: dict[int, Pending] = {}

    def barrier(self, link: Link, barrier: Barrier) -> None:
        """Pass a barrier on, or answer it if its way ends here."""
        self._check_token(link, barrier)
        onward = list(self._links_for(link, barrier)) if barrier.about != "link" else []
        if not barrier.waits:
            reachable = [neighbour for neighbour in onward if not self._is_lost(neighbour)]
            if len(reachable) < len(onward):
                self._tell_missing()  # before the fence, or whoever gets it takes the routes for complete
            onward = reachable
        if not onward:
            link.send_message(self._fence(link, barrier.token))
            return
        self.pending[barrier.token] = Pending(link, onward, waits=barrier.waits)
        for neighbour in onward:
            neighbour.send_message(barrier)

    def handover(self, link: Link, handover: Handover) -> None:
        """Pass a handover on, or answer it if this is the old home."""
        self._check_token(link, handover)
        if handover.home == self._name:
            self._answer_handover(link, handover)
            return
        behind = list(self._links_for(link, handover))
        if not behind:
            link.send_message(self._fence(link, handover.token, has_reached=False))
            return
        way = self._ways.get(handover.home)
        onward = [way] if way is not None and way in behind else behind
        pending = self.pending[handover.token] = Pending(link, onward, handover)
        pending.untried = [neighbour for neighbour in behind if neighbour not in pending.owed_by]
        for neighbour in onward:
            neighbour.send_message(handover)

    def _answer_handover(self, link: Link, handover: Handover) -> None:
        """The handover has come to the old home, this broker: answer it when all that the client sent is here.

        The client's last frame was its Fence, and `sent` counts it. With fewer frames received, that Fence is still on
        its way, and settles this when it comes. Otherwise it was here before the handover, and nobody waited for it.
        """
        client = self._links.get(handover.client)
        if client is None or client.token != handover.run:
            link.send_message(self._fence(link, handover.token))  # nothing of it is here any more
            return
        pending = Pending(link, [client])
        pending.leaver = client
        if client.data.received < handover.sent:
            self.pending[handover.token] = pending
        else:
            self._answer(handover.token, pending)

    def fence(self, link: Link, fence: Fence) -> None:
        """One of the fences that are owed has come; unless whoever asked has left meanwhile."""
        pending = self.pending.get(fence.token)
        if pending is None or link not in pending.owed_by:
            return
        if pending.sought is not None and fence.reached:
            self._ways[pending.sought.home] = link
            pending.sought = None
            pending.owed_by.clear()
            pending.untried.clear()
        self._settle(fence.token, pending, link)

    def tick(self) -> None:
        """Whoever asks whether routes are complete does not wait for links that do not come back soon."""
        for token, pending in list(self.pending.items()):
            if not pending.waits:
                for link in [link for link in pending.owed_by if self._is_lost(link)]:
                    self._settle(token, pending, link)

    def link_lost(self, link: Link) -> None:
        """Nobody waits for a lost link, and nothing is answered to it."""
        self._ways = {home: way for home, way in self._ways.items() if way is not link}
        for token, pending in list(self.pending.items()):
            if pending.asked_by is link:
                del self.pending[token]
                continue
            if pending.leaver is link:
                pending.leaver = None
            if link in pending.untried:
                pending.untried.remove(link)
            if link in pending.owed_by:
                self._settle(token, pending, link)

    def _settle(self, token: int, pending: Pending, link: Link) -> None:
        pending.owed_by.pop(link, None)
        if pending.owed_by:
            return
        if pending.sought is not None and pending.untried:  # the way that was known leads nowhere
            pending.owed_by, pending.untried = dict.fromkeys(pending.untried), []
            for neighbour in pending.owed_by:
                neighbour.send_message(pending.sought)
            return
        del self.pending[token]
        self._answer(token, pending)

    def _answer(self, token: int, pending: Pending) -> None:
        if pending.leaver is not None:
            pending.leaver.send_message(Fence(token))
        pending.asked_by.send_message(
            self._fence(pending.asked_by, token, has_reached=pending.sought is None)
        )

    def _fence(self, link: Link, token: int, *, has_reached: bool = True) -> Fence:
        return Fence(token, has_reached, self._missing() if link.is_client else ())

    def _check_token(self, link: Link, message: Barrier | Handover) -> None:
        if message.token in self.pending:
            raise IdConflict(f"{link.name} used the barrier token {message.token} twice")
