"""A broker whose matching is slowed down: for tests, and to imitate clusters of unequal machines.

It wraps a broker and has the same interface for the driver. Publications are admitted one after the other, each after
the time that a slower matcher would have taken, which limits their rate; the time is added to the meter.

    a publication takes    matching_delay_ms + matching_delay_factor × what the broker itself takes

Rules:
- Nothing blocks the event loop: a timer admits the next publication. Timers, heartbeats, monitoring, handshakes and
  acknowledgements go on (net/inbox.py says what overtakes).
- What arrives faster than it is matched waits here, unacknowledged, until the senders' windows and credit are used up.
- Timers are coarse. The times are computed as if every timer had been on time, so late timers do not lower the rate.
- A node that is not slowed down has no SlowBroker.
"""

from __future__ import annotations

from runnel.broker.broker import Broker
from runnel.broker.effects import Close, Effect, SetTimer
from runnel.broker.events import Event, StopAsked, TimerFired
from runnel.net.inbox import Inbox

WAKE = "slow:wake"
NEWEST = 1 / 16
"""The weight of the last publication in the mean of the broker's own time for one."""


class SlowBroker:
    """See the top of the file."""

    def __init__(self, broker: Broker, factor: float = 1.0, delay_ns: int = 0) -> None:
        self.inbox = Inbox()
        self.delayed_ns = 0  # the total delay that was added to matching
        self._broker = broker
        self._factor = factor
        self._delay_ns = delay_ns
        self._own_ns = 0.0  # what the broker itself takes for a publication, on average
        self._free_at = 0  # when the slowed matcher has finished what it was given
        self._wakes_at = 0  # 0: no timer is set

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an event; returns the effects, like `Broker.handle`."""
        effects: list[Effect] = []
        match event:
            case TimerFired(timer=timer) if timer == WAKE:
                self._wakes_at = 0
            case TimerFired():
                effects += self._pass_to_broker(event, now)
            case StopAsked():  # after everything that has arrived
                self._start_if_idle(now)
                self.inbox.put_last(event)
            case _:
                self._start_if_idle(now)
                if (at_once := self.inbox.put(event)) is not None:
                    effects += self._pass_to_broker(at_once, now)
        while self.inbox and (due := self._free_at + self._next_ns) <= now:
            effects += self._admit_next(due, now)
        if self.inbox and not 0 < self._wakes_at <= due:
            self._wakes_at = due
            effects.append(SetTimer(WAKE, due))
        return effects

    @property
    def _next_ns(self) -> int:
        """How long the slowed matcher takes for the next event."""
        if not self.inbox.begins_with_publication:
            return 0
        return self._delay_ns + round(self._factor * self._own_ns)

    def _start_if_idle(self, now: int) -> None:
        """If the slowed matcher was idle, let it begin now."""
        if not self.inbox:
            self._free_at = max(self._free_at, now)

    def _admit_next(self, due: int, now: int) -> list[Effect]:
        """The slowed matcher has finished the next event: pass it to the broker."""
        spent_ns, self._free_at = due - self._free_at, due
        event, publications = self.inbox.take(publications_max=1)
        meter = self._broker.meter
        before_ns = meter.matching_ns
        effects = self._pass_to_broker(event, now)
        if publications:
            delayed_ns = max(0, spent_ns - round(self._own_ns))
            own_ns = (meter.matching_ns - before_ns) / publications
            self._own_ns += (own_ns - self._own_ns) * (NEWEST if self._own_ns else 1.0)
            self.delayed_ns += delayed_ns
            meter.add_matching(delayed_ns)
        return effects

    def _pass_to_broker(self, event: Event, now: int) -> list[Effect]:
        effects = self._broker.handle(event, now)
        for effect in effects:
            if isinstance(effect, Close):
                self.inbox.forget(effect.conn)
        return effects
