"""Probes: monitoring traffic for the simulator to check that nothing delays it.

A probe says how many data frames had been sent when it was queued. Its receiver must not have received more than that;
otherwise the probe would have waited behind data that was still queued.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.links import Link
from runnel.broker.module import Context, Module
from runnel.wire import Lane, Message, Way, register
from runnel.wire.messages import Count

PROBE_TAG = 255

SEND = "probes:send"


class Probe(Message, frozen=True):
    """Sent to each neighbour broker now and then."""

    data_on_wire: Count


register(PROBE_TAG, Probe, Lane.MONITOR, Way.BETWEEN_BROKERS)


class Probes(Module):
    """Sends and checks probes; a probe that is late is traced."""

    name = "probes"
    messages = (Probe,)
    timers = (SEND,)

    def __init__(self, every_ns: int) -> None:
        self._every_ns = every_ns
        self.received = 0

    def start(self, context: Context, now: int) -> None:
        """Begin."""
        context.set_timer(SEND, now + self._every_ns)

    def timer(self, context: Context, timer: str, now: int) -> None:
        """Send one to each neighbour, whatever the state of the link."""
        for link in list(context.links.values()):
            if link.is_neighbour and link.peer_token:
                lane = link.data
                context.send(link, Probe(lane.acknowledged + len(lane.unacknowledged)))
        context.set_timer(SEND, now + self._every_ns)

    def message(self, context: Context, link: Link, message: Any, now: int) -> None:
        """Check that the probe did not wait behind data."""
        self.received += 1
        if link.data.received > message.data_on_wire:
            behind = link.data.received - message.data_on_wire
            context.trace("late-probe", {"peer": link.name, "behind": behind})
