"""Barriers and fences: how anybody knows that routes are complete, and that a path has run dry.

Content filtering leaves gaps in every counter, so no receiver can see that something is missing. One primitive
answers both questions. A Barrier travels in data order towards the publishers that it concerns; each broker passes
it on, waits for the Fences of all it was passed to, and answers with a Fence, in data order again. So when the
Fence is back,

- every subscription or advertisement sent before the barrier is installed along all of its paths: *ready*;
- every publication that had passed the turning points before has arrived before the Fence: *dry*.

A link that is lost owes no fence: the routes behind it are gone with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from runnel.broker.links import Link
from runnel.errors import PeerError
from runnel.wire import Barrier, Fence


class Pending:
    """A barrier that was passed on: who asked, and whose fences are still to come."""

    __slots__ = ("asked_by", "owed_by")

    def __init__(self, asked_by: Link, owed_by: Iterable[Link]) -> None:
        self.asked_by = asked_by
        self.owed_by = dict.fromkeys(owed_by)


class Barriers:
    """The barriers under way at one broker."""

    def __init__(self, links_for: Callable[[Link, Barrier], Iterable[Link]]) -> None:
        self._links_for = links_for
        self.pending: dict[int, Pending] = {}

    def barrier(self, link: Link, barrier: Barrier) -> None:
        """Pass a barrier on, or answer it if its way ends here."""
        if barrier.token in self.pending:
            raise PeerError(f"{link.name} used the barrier token {barrier.token} twice")
        onward = list(self._links_for(link, barrier)) if barrier.about != "link" else []
        if not onward:
            link.send_message(Fence(barrier.token))
            return
        self.pending[barrier.token] = Pending(link, onward)
        for neighbour in onward:
            neighbour.send_message(barrier)

    def fence(self, link: Link, fence: Fence) -> None:
        """One of the fences that are owed has come; unless whoever asked has left meanwhile."""
        pending = self.pending.get(fence.token)
        if pending is not None:
            self._settle(fence.token, pending, link)

    def link_lost(self, link: Link) -> None:
        """Nobody waits for a lost link, and nothing is answered to it."""
        for token, pending in list(self.pending.items()):
            if pending.asked_by is link:
                del self.pending[token]
            else:
                self._settle(token, pending, link)

    def _settle(self, token: int, pending: Pending, link: Link) -> None:
        pending.owed_by.pop(link, None)
        if not pending.owed_by:
            del self.pending[token]
            pending.asked_by.send_message(Fence(token))
