"""Fences: what a session waits for, and what each is for.

A session sends a barrier; its fence comes back when everything before it has arrived (broker/barriers.py). A fence has
one of seven purposes: two belong to moves, two to crossings, one to publishers that are back from a migration, one to
gaps, and one is readiness, which the application asks for. `Session` gives each fence to the part that waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from runnel.broker.ids import IdSource
from runnel.language import EVERYTHING, Selection
from runnel.wire import Barrier, Fence, Handover, raw_selection
from runnel.wire.messages import About

if TYPE_CHECKING:
    from runnel.client.home import Home


class Purpose(Enum):
    """What a fence is for."""

    READY = "ready"  # the application asked whether the routes of `id` are complete
    # The routes of the publisher `id`, which is back from a migration, are complete.
    RETURNED = "returned"
    JOINED = "joined"  # a move: all routes of the new home are complete
    DRY = "dry"  # a move: nothing is under way any more by the old home
    STEP = "step"  # a crossing: what the present step waits for
    WHOLE = "whole"  # a gap: all routes are complete again
    LINK_DRAINED = "link_drained"  # a crossing: a link has delivered all that its broker had for us


class AwaitedFence(Struct, frozen=True):
    """What a fence is for, and the id of the subscription or advertisement that it is about, if any."""

    purpose: Purpose
    id: int = 0
    missing: tuple[str, ...] = ()
    """The links that the fence of the other home has named, where both are asked."""


class Fences:
    """Sends barriers, and knows what the fences of each home are for.

    `selection_of`: what a subscription or advertisement of ours selects; None if it is not ours any more.
    """

    def __init__(
        self, ids: IdSource, selection_of: Callable[[int], tuple[About, Selection] | None]
    ) -> None:
        self._ids = ids
        self._selection_of = selection_of

    def send_barrier(
        self,
        home: Home,
        awaited: AwaitedFence,
        selection: Selection = EVERYTHING,
        about: About = "advertisement",
    ) -> int:
        """Send a barrier along the routes of all that the selection describes; returns its token."""
        token = self._ids.next()
        home.waits[token] = awaited
        # Only what the application asked about is told as incomplete; all else waits until everything has come.
        waits = awaited.purpose not in (Purpose.READY, Purpose.WHOLE)
        home.send(Barrier(token, raw_selection(selection), about, waits))
        return token

    def send_handover(self, old: Home, new: Home, client: str) -> None:
        """Send the handover of a move: old and new home both answer, with the same token (broker/barriers.py).

        The Fence to the old home is the last of what it gets from us, and the Handover says how much that is. The old
        home's answer makes its path DRY, the new home's says that we have JOINED.
        """
        token = self._ids.next()
        if old.registered:
            old.waits[token] = AwaitedFence(Purpose.DRY)
            old.send(Fence(token))
        new.waits[token] = AwaitedFence(Purpose.JOINED)
        new.send(Handover(token, old.name, client, old.link.peer_token, old.data_sent))

    def is_waiting(self, home: Home, purpose: Purpose) -> bool:
        """Whether a fence with this purpose is expected from a home."""
        return any(awaited.purpose is purpose for awaited in home.waits.values())

    def ask_ready(self, home: Home, id: int, missing: tuple[str, ...] = ()) -> None:
        """Ask whether the routes of a subscription or advertisement are complete; `missing`: as in AwaitedFence."""
        asked = self._selection_of(id)
        if asked is None:
            raise KeyError(id)
        about, selection = asked
        self.send_barrier(home, AwaitedFence(Purpose.READY, id, missing), selection, about)

    def ask_again(self, home: Home, waits: dict[int, AwaitedFence]) -> None:
        """Ask this home for readiness again, after the barriers for it were lost with another home or link."""
        if not home.registered:
            home.waits |= waits  # asked as soon as it is
            return
        for awaited in waits.values():
            if self._selection_of(awaited.id) is not None:
                self.ask_ready(home, awaited.id, awaited.missing)

    def take(self, home: Home, token: int) -> AwaitedFence | None:
        """Take in a fence that has come back; returns what it was for, or None if nobody waits for it any more."""
        return home.waits.pop(token, None)

    def cancel_ready(self, home: Home, id: int) -> int:
        """Stop waiting for the readiness of an advertisement; returns how often it was asked for."""
        asked = [token for token, one in ready_fences(home).items() if one.id == id]
        for token in asked:
            del home.waits[token]
        return len(asked)

    def forget_steps(self, home: Home) -> None:
        """Forget the fences of moves and crossings, and keep the others."""
        home.waits = {token: one for token, one in home.waits.items() if one.purpose in LASTING}

    def reset(self, home: Home) -> dict[int, AwaitedFence]:
        """Forget all fences of a home whose broker does not know us; returns those the application still waits for."""
        asked, home.waits = ready_fences(home), {}
        return asked


def ready_fences(home: Home) -> dict[int, AwaitedFence]:
    """The expected fences that the application asked for; the others are the session's own."""
    return {token: one for token, one in home.waits.items() if one.purpose is Purpose.READY}


LASTING = (Purpose.READY, Purpose.RETURNED, Purpose.WHOLE)
"""The purposes that are independent of moves and crossings."""
