"""The clients of a topology over the network: each carries out its plan and counts what it receives.

The script is the same as in the simulator (`sim/topology.py`): clients start in the order of their start times; no
client publishes before all clients with the same or an earlier start time are ready; at the end all clients ask for
readiness once more, and when they are ready, everything has arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from runnel.client.aio import Client, connect
from runnel.client.events import Event
from runnel.client.publisher import Publisher
from runnel.client.subscription import Subscription
from runnel.errors import PublicationInDoubt
from runnel.network.events import events_of
from runnel.network.outcome import TopologyOutcome, as_text
from runnel.network.topology import ClientPlan, Topology

SLICE_S = 0.001  # publishers that are faster than this publish several at a time

OnDelivered = Callable[["RunningClient", int, Event], None]
OnPublished = Callable[["RunningClient", Event], None]


@dataclass(slots=True, eq=False)
class RunningClient:
    """One client that runs, and what it has done."""

    plan: ClientPlan
    client: Client
    subscriptions: list[Subscription] = field(default_factory=list)
    publisher: Publisher | None = None
    delivered: int = 0
    hops: int = 0  # sum over all deliveries
    in_doubt: int = 0
    done: bool = False  # has nothing more to publish

    @property
    def published(self) -> int:
        """How many it has published."""
        return 0 if self.publisher is None else self.publisher.published


class Runner:
    """Runs the clients of a topology; calls `on_published` and `on_delivered` for each event.

    `addresses` has the address of each broker. `seconds` bounds how long each publisher publishes; it may also be
    set while they run.
    """

    def __init__(
        self,
        topology: Topology,
        addresses: Mapping[str, str],
        *,
        seconds: float | None = None,
        record: bool = False,
        on_delivered: OnDelivered | None = None,
        on_published: OnPublished | None = None,
    ) -> None:
        self.topology = topology
        self.running: dict[str, RunningClient] = {}
        self.outcome = TopologyOutcome()
        self._addresses = addresses
        self.seconds = seconds
        self._record = record
        self._on_delivered = on_delivered
        self._on_published = on_published
        self._readers: list[asyncio.Task[None]] = []
        self._publishers: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Start all clients in time, and return when everything is published; never, if a publisher has no end."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        for start_s, plans in self.topology.groups():
            await asyncio.sleep(max(0.0, begin + start_s - loop.time()))
            started = await asyncio.gather(*(self._start(plan) for plan in plans))
            for one in started:
                if one.publisher is not None:
                    self._publishers.append(loop.create_task(self._publish(one)))
        await asyncio.gather(*self._publishers)

    async def _start(self, plan: ClientPlan) -> RunningClient:
        client = await connect(self._addresses[plan.broker], name=plan.name)
        one = self.running[plan.name] = RunningClient(plan, client)
        self.outcome.deliveries[plan.name] = []
        for place, wanted in enumerate(plan.subscribe):
            subscription = await client.subscribe(wanted.selection)
            one.subscriptions.append(subscription)
            reading = self._read(one, place, subscription)
            self._readers.append(asyncio.get_running_loop().create_task(reading))
        if plan.publish is not None:
            one.publisher = await client.advertise(plan.publish.advertise.selection)
        return one

    async def _read(self, one: RunningClient, place: int, subscription: Subscription) -> None:
        deliveries = self.outcome.deliveries[one.plan.name]
        async for event in subscription:
            one.delivered += 1
            one.hops += event.hops
            if self._record:
                deliveries.append((place, event.publisher, as_text(event.attributes)))
            if self._on_delivered is not None:
                self._on_delivered(one, place, event)

    async def _publish(self, one: RunningClient) -> None:
        plan, publisher = one.plan.publish, one.publisher
        assert plan is not None and publisher is not None
        loop = asyncio.get_running_loop()
        begin = loop.time()
        payload = bytes(plan.payload_bytes)
        for number, event in enumerate(events_of(plan, self.topology.folder)):
            due = number / plan.rate_per_s
            if self.seconds is not None and due >= self.seconds:
                break
            if (wait := begin + due - loop.time()) > SLICE_S:
                await asyncio.sleep(wait)
            if not publisher.credit:
                await publisher.wait_credit()
            made = publisher.publish_nowait(event, payload)
            if self._on_published is not None:
                self._on_published(one, made)
        await self._flush(one)
        one.done = True

    async def _flush(self, one: RunningClient) -> None:
        if one.publisher is not None:
            try:
                await one.publisher.flush()
            except PublicationInDoubt:
                one.in_doubt = one.publisher.in_doubt

    async def settle(self) -> TopologyOutcome:
        """Wait until everything that was published has arrived; returns the outcome so far."""
        await asyncio.gather(*map(self._flush, self.running.values()))
        every = [sub for one in self.running.values() for sub in one.subscriptions]
        await asyncio.gather(*(subscription.ready() for subscription in every))
        while any(subscription.unread for subscription in every):
            await asyncio.sleep(0)
        for name, one in self.running.items():
            self.outcome.published[name] = one.published
            self.outcome.delivered[name] = one.delivered
            self.outcome.missed[name] = one.client.missed
        return self.outcome

    async def close(self) -> None:
        """Close all clients."""
        for task in self._publishers:
            task.cancel()
        await asyncio.gather(*self._publishers, return_exceptions=True)
        clients = (one.client for one in self.running.values())
        with suppress(PublicationInDoubt):
            await asyncio.gather(*(client.close() for client in clients))
        for task in self._readers:
            task.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
