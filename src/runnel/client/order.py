"""Order with two homes: what may be delivered at once, and what is held back until the other home has delivered more.

During a crossing a session has two homes, and publishers change from one network to the other. A publisher changes only
when the network it leaves is dry, so everything that it published there has reached the brokers of its subscribers.
Therefore the first publications of an advertisement that is new to us are held back until the other home's link has
delivered everything that its broker had for us; a fence says when that is. If publications of one client are held back
from both homes, the ids of its advertisements give the order, as a publisher that changes networks gets a later id.

This is for crossings only. During a move everything that the new home delivers is held back, by
`client/move.py::Mover.hold_back`.
"""

from __future__ import annotations

from runnel.broker.ids import is_of_one_source
from runnel.client.config import SessionConfig
from runnel.client.fences import AwaitedFence, Fences, Purpose
from runnel.client.home import Home
from runnel.client.homes import Homes
from runnel.client.receiving import Receiver
from runnel.wire import Publication


class OrderKeeper:
    """Holds back publications of one home that may have to come after some of the other."""

    def __init__(
        self, config: SessionConfig, homes: Homes, fences: Fences, receiver: Receiver
    ) -> None:
        self._bytes_max = config.held_bytes_max
        self._homes = homes
        self._fences = fences
        self._receiver = receiver

    def hold_back(self, home: Home, publication: Publication) -> bool:
        """Hold a publication back if an earlier one may come from the other home; returns whether it is held back."""
        held, id = home.held, publication.advertisement
        if id in held.heard:
            return False
        waiting = held.by.get(id)
        other = self._homes.other(home)
        if waiting is None:
            if self._receiver.has_seen(id) or other is None or not other.registered:
                held.heard[id] = None
                return False
            waiting = held.by[id] = []
            held.until[
                self._fences.send_barrier(other, AwaitedFence(Purpose.LINK_DRAINED), about="link")
            ] = id
        waiting.append(publication)
        held.bytes += len(publication.raw)
        if held.bytes > self._bytes_max and other and not other.link.established:
            home.link.hold(True)  # until the other is back, or lost for good
        return True

    def link_drained(self, home: Home, token: int) -> None:
        """A link has delivered everything its broker had: what came over the other link may be delivered."""
        other = self._homes.other(home)
        if other is not None and token in other.held.until:
            other.held.due[other.held.until.pop(token)] = None
            self.release_due()

    def stop_waiting(self, *homes: Home) -> None:
        """Stop waiting for fences: the other path is gone, or its fences are lost."""
        for home in homes:
            home.held.until.clear()
            home.held.due.update(dict.fromkeys(home.held.by))
        self.release_due()

    def release_all(self, lost: Home) -> None:
        """Deliver everything that is held back from a home that was lost."""
        for id in sorted(lost.held.by):
            self._release(lost, id)

    def release_due(self) -> None:
        """Deliver what is due, but after earlier publications of the same client that the other home holds back."""
        home, ahead = self._homes.home, self._homes.ahead
        homes = ((home, ahead), (ahead, home))
        due = [(id, one, other) for one, other in homes if one is not None for id in one.held.due]
        for id, one, other in sorted(due, key=lambda each: each[0]):
            earlier = () if other is None else other.held.by
            if not any(held < id and is_of_one_source(held, id) for held in earlier):
                self._release(one, id)

    def _release(self, home: Home, id: int) -> None:
        held = home.held
        held.heard[id] = None
        held.due.pop(id, None)
        for publication in held.by.pop(id, ()):
            held.bytes -= len(publication.raw)
            self._receiver.deliver(publication)
        if not held.by and home.link.holding != self._homes.holding:
            home.link.hold(self._homes.holding)
            home.link.owe_ack()
