"""Probes: monitoring traffic for the simulator to check that nothing delays it.

A probe says how many data frames were on their way when it was queued. Whoever gets it must not have more: then
it would have waited behind data that was still queued.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.links import Link
from runnel.broker.module import Context, Module
from runnel.wire import Lane, Message
from runnel.wire.registry import register

PROBE_TAG = 255


class Probe(Message, frozen=True):
    """Sent to each neighbour broker now and then."""

    data_on_wire: int


register(PROBE_TAG, Probe, Lane.MONITOR)


class Probes(Module):
    """Sends and checks probes; what it finds is traced."""

    name = "probes"
    messages = (Probe,)

    def __init__(self, every_ns: int) -> None:
        self._every_ns = every_ns
        self.received = 0

    def start(self, context: Context, now: int) -> None:
        """Begin."""
        context.set_timer("probes:send", now + self._every_ns)

    def timer(self, context: Context, timer: str, now: int) -> None:
        """Send one to each neighbour, whatever the state of the link."""
        for link in list(context.links.values()):
            if link.kind == "broker" and link.peer_token:
                lane = link.data
                context.send(link, Probe(lane.acknowledged + len(lane.unacknowledged)))
        context.set_timer("probes:send", now + self._every_ns)

    def message(self, context: Context, link: Link, message: Any, now: int) -> None:
        """Check the order in which it came."""
        self.received += 1
        if link.data.received > message.data_on_wire:
            behind = link.data.received - message.data_on_wire
            context.trace("late-probe", {"peer": link.name, "behind": behind})
