"""The clients of a topology over the network: each does what its plan says, and what it sees is counted.

The script is the same as in the simulator (`sim/topology.py`): the clients of each start time, in order; nobody
publishes before those that start no later are ready; in the end everybody asks once more for readiness, and when that
is there everything has arrived.
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
from runnel.topology.events import events_of
from runnel.topology.outcome import Outcome, as_text
from runnel.topology.plan import ClientPlan, Topology

SLICE_S = 0.001  # publishers that are faster than this publish several at a time

Seen = Callable[["RunningClient", int, Event], None]
Made = Callable[["RunningClient", Event], None]


@dataclass(slots=True, eq=False)
class RunningClient:
    """One client that runs, and what it has done."""

    plan: ClientPlan
    client: Client
    subscriptions: list[Subscription] = field(default_factory=list)
    publisher: Publisher | None = None
    delivered: int = 0
    hops: int = 0  # of all that was delivered, together
    in_doubt: int = 0
    done: bool = False  # has nothing more to publish

    @property
    def published(self) -> int:
        """How many it has published."""
        return 0 if self.publisher is None else self.publisher.published


class Runner:
    """Runs the clients of a topology; `seen` and `made` look on.

    `addresses` says where each broker is to be found. `seconds` bounds how long each publisher publishes; it may be
    set later, and then nobody publishes any more who has done so for that long.
    """

    def __init__(
        self,
        topology: Topology,
        addresses: Mapping[str, str],
        *,
        seconds: float | None = None,
        record: bool = False,
        seen: Seen | None = None,
        made: Made | None = None,
    ) -> None:
        self.topology = topology
        self.running: dict[str, RunningClient] = {}
        self.outcome = Outcome()
        self._addresses = addresses
        self.seconds = seconds
        self._record = record
        self._seen = seen
        self._made = made
        self._readers: list[asyncio.Task[None]] = []
        self._publishers: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Start everybody in time, and return when everything is published; never, if that has no end."""
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
            if self._seen is not None:
                self._seen(one, place, event)

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
            if self._made is not None:
                self._made(one, made)
        await self._flush(one)
        one.done = True

    async def _flush(self, one: RunningClient) -> None:
        if one.publisher is not None:
            try:
                await one.publisher.flush()
            except PublicationInDoubt:
                one.in_doubt = one.publisher.in_doubt

    async def settle(self) -> Outcome:
        """Wait until everything that was published has arrived; what came of it so far."""
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
        """Everybody leaves."""
        for task in self._publishers:
            task.cancel()
        await asyncio.gather(*self._publishers, return_exceptions=True)
        clients = (one.client for one in self.running.values())
        with suppress(PublicationInDoubt):
            await asyncio.gather(*(client.close() for client in clients))
        for task in self._readers:
            task.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
