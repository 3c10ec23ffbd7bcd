"""The fuzz of tests/property/test_fuzz_peers.py over real sockets: two broker processes, and clients that go on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from process.peers import Peer, peer
from process.processes import RunningPrograms
from process.strangers import Stranger
from support.effort import fuzz_frames
from support.fuzzing import StrangeVoice

FRAMES = 3_000
CHUNK_FRAMES = 40  # that a stranger says at most before it stops; most are closed before
MEMORY_GROWTH_MAX = 16 << 20

# Short memories: what a stranger leaves behind is gone before the next thousand have come.
FORGETFUL = {"heartbeat_s": 1.0, "resume_timeout_s": 0.5}


def shout(urls: list[str], seed: int, frames: int, stopped: Callable[[], bool]) -> int:
    """Strangers one after the other, until so many frames are said; how many strangers there were."""
    voice, chance = StrangeVoice(seed), random.Random(seed)
    said = strangers = 0
    while said < frames and not stopped():
        strangers += 1
        kind = chance.choice(("client", "client", "operator", "broker"))
        at = chance.randrange(2)
        with Stranger(urls[at]) as stranger:
            if chance.random() < 0.9:
                name = chance.choice((f"F{at + 1}", "X")) if kind == "broker" else f"{kind} {seed}"
                stranger.say(voice.hello(kind, name))
            count = chance.randint(1, CHUNK_FRAMES)
            stranger.say(voice.chunk(kind, count))
            said += count
            stranger.finish()
    return strangers


def test_strangers_that_say_anything_cost_others_nothing(processes: RunningPrograms) -> None:
    frames = fuzz_frames(FRAMES)
    b1 = processes.broker(
        "B1", {}, accept=["B2", "F1"], client_link=FORGETFUL, placement={"algorithm": "grape"}
    )
    b2 = processes.broker(
        "B2",
        {"B1": b1.said},
        accept=["F2"],
        client_link=FORGETFUL,
        profiles={"enabled": True},
        placement={"algorithm": "pop"},
    )
    brokers = (b1, b2)
    urls = [broker.said for broker in brokers]

    async def main() -> None:
        async with peer("alice", b2.said) as alice, peer("bob", b1.said) as bob:
            id = await alice.advertise("v >= 0")
            await bob.subscribe("v >= 0")
            published = await publish_beside(alice, id, 0, 1_000, urls)
            await bob.until(lambda: len(bob.got) >= published)
            before = [broker.memory_bytes() for broker in brokers]
            published = await publish_beside(alice, id, published, frames, urls)
            await bob.until(lambda: len(bob.got) >= published)
            grown = [b.memory_bytes() - was for b, was in zip(brokers, before, strict=True)]
            assert max(grown) < MEMORY_GROWTH_MAX, grown
            assert [n for _, n in bob.got] == list(range(published))
            assert (alice.confirmed, alice.unconfirmed, bob.missed) == (published, 0, 0)
            for one in (alice, bob):
                assert (one.homes_down, one.homes_up) == (0, [True])

    asyncio.run(main())
    for broker in brokers:
        assert "link-lost peer=B" not in broker.log() and " bug " not in broker.log()
    assert [b2.stop(), b1.stop()] == [0, 0]


async def publish_beside(alice: Peer, id: int, first: int, frames: int, urls: list[str]) -> int:
    """Publish for as long as strangers shout, two at a time; the number of the next publication."""
    given_up: list[bool] = []
    shouting = [
        asyncio.create_task(
            asyncio.to_thread(shout, urls, seed, frames // 2, lambda: bool(given_up))
        )
        for seed in (first, first + 1)
    ]
    number = first
    try:
        while not all(task.done() for task in shouting):
            for _ in range(10):
                await alice.publish(id, n=number, v=number)
                number += 1
            await alice.settle()
    finally:
        given_up.append(True)
        strangers = await asyncio.gather(*shouting)
    assert min(strangers) > 0
    return number
