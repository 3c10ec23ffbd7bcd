"""What tests of clients share: a network in memory, a program that must end cleanly, a publisher and a reader."""

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from runnel.client.publisher import Publisher
from runnel.client.subscription import Subscription
from runnel.testing.network import InMemoryNetwork

PATIENCE_S = 20


@contextmanager
def network(brokers: int = 1, **settings: Any) -> Iterator[InMemoryNetwork]:
    with InMemoryNetwork(brokers, settings=settings) as running:
        yield running


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a program; it must end, without a task or a warning left behind."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await main
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(bounded())
        gc.collect()


@asynccontextmanager
async def pair(
    net: InMemoryNetwork, at: Any = "B1", to: Any = "B1", **options: Any
) -> AsyncIterator[tuple[Publisher, Subscription]]:
    """A publisher and a subscription of everything with `a`, at brokers of a network."""
    async with net.connect(to, **options) as reader, net.connect(at) as writer:
        yield await writer.advertise("a >= 0"), await reader.subscribe("a >= 0")


async def take(subscription: Subscription, count: int) -> list[Any]:
    """One attribute of the next so many events."""
    return [(await subscription.get(PATIENCE_S))["a"] for _ in range(count)]


async def until(holds: Callable[[], object]) -> None:
    """Let others on the loop have their turn until something is so."""
    while not holds():
        await asyncio.sleep(0.001)
