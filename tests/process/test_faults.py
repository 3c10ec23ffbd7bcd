"""Real processes and real faults: what lives loses nothing, what dies is noticed, what is slow hurts nobody else."""

from __future__ import annotations

import asyncio
import json
import signal
from itertools import count
from pathlib import Path

import pytest

from process.peers import Peer, peer
from process.processes import BEAT_S, QUICK, SOON, RunningPrograms
from runnel.testing.proxy import Proxy


def numbers(one: Peer) -> list[int]:
    return [n for _, n in one.got]


async def publish(one: Peer, id: int, first: int, end: int, payload: bytes = b"") -> None:
    for n in range(first, end):
        await one.publish(id, payload, n=n)
    await one.settle()


# -- kill -9 ------------------------------------------------------------------------------------------


def test_a_killed_subscriber_is_forgotten_and_others_get_everything(
    processes: RunningPrograms, tmp_path: Path
) -> None:
    broker = processes.broker("B1", client_link=SOON)

    async def main() -> None:
        async with (
            peer("alice", broker.said, BEAT_S) as alice,
            peer("bob", broker.said, BEAT_S) as bob,
        ):
            id = await alice.advertise("n >= 0")
            await bob.subscribe("n >= 0")
            arguments = ("subscribe", broker.said, "victim", str(tmp_path / "never"), "1000000000")
            victim = processes.program("process.client", *arguments, name="victim")
            await publish(alice, id, 0, 1000)
            victim.kill()
            published = 1000
            while "link-lost peer=victim" not in broker.log():
                await publish(alice, id, published, published + 10)
                published += 10
            await bob.until(lambda: len(bob.got) >= published)
            assert numbers(bob) == list(range(published))

    asyncio.run(main())
    assert broker.stop() == 0


def test_a_killed_publisher_leaves_no_gap_behind(processes: RunningPrograms) -> None:
    broker = processes.broker("B1", client_link=SOON)

    async def main() -> None:
        async with peer("bob", broker.said, BEAT_S) as bob:
            await bob.subscribe("n >= 0")
            victim = processes.program(
                "process.client", "publish", broker.said, "victim", name="victim"
            )
            await bob.until(lambda: len(bob.got) >= 500)
            await asyncio.to_thread(victim.kill)
            # The next of its name starts anew and is nobody's double.
            again = processes.program(
                "process.client", "publish", broker.said, "victim", name="again"
            )
            await bob.until(lambda: numbers(bob).count(0) == 2)
            second = numbers(bob).index(0, 1)
            await bob.until(lambda: len(bob.got) >= second + 500)
            await asyncio.to_thread(again.kill)
            got = numbers(bob)
            assert got[:second] == list(range(second))
            assert got[second:] == list(range(len(got) - second))

    asyncio.run(main())
    assert broker.stop() == 0


def test_a_killed_broker_that_comes_back_is_part_of_the_network_again(
    processes: RunningPrograms,
) -> None:
    b1 = processes.broker("B1", link=QUICK)
    b2 = processes.broker("B2", {"B1": b1.said}, link=QUICK)
    b3 = processes.broker("B3", {"B2": b2.said}, link=QUICK)

    async def main() -> None:
        async with peer("alice", b1.said) as alice, peer("carol", b3.said) as carol:
            id = await alice.advertise("n >= 0")
            await carol.subscribe("n >= 0")
            await publish(alice, id, 0, 500)
            await carol.until(lambda: len(carol.got) >= 500)
            await asyncio.to_thread(b2.kill)
            listen = b2.said.removeprefix("runnel://")
            processes.broker("B2", {"B1": b1.said}, listen=listen, link=QUICK)
            first = 500
            # Lost while there was no way, and nobody promised otherwise.
            while len(carol.got) == 500:
                await publish(alice, id, first, first + 1)
                first += 1
            await publish(alice, id, first, first + 500)
            await carol.until(lambda: carol.got[-1] == ("alice", first + 499))
            got = numbers(carol)
            assert got[:500] == list(range(500))
            assert got[500:] == list(range(got[500], first + 500))

    asyncio.run(main())


# -- links --------------------------------------------------------------------------------------------


def test_a_link_that_is_cut_and_restored_loses_nothing(processes: RunningPrograms) -> None:
    b1 = processes.broker("B1", link=QUICK)
    with Proxy(b1.said) as proxy:
        b2 = processes.broker("B2", {"B1": proxy.address}, link=QUICK)

        async def main() -> None:
            async with peer("alice", b1.said) as alice, peer("bob", b2.said) as bob:
                id = await alice.advertise("n >= 0")
                await bob.subscribe("n >= 0")
                await publish(alice, id, 0, 500)
                proxy.stall()
                # Under way when the link is cut, and lost there.
                await publish(alice, id, 500, 1000)
                proxy.cut()
                await publish(alice, id, 1000, 1500)
                assert len(bob.got) < 1500
                proxy.resume()
                proxy.restore()
                await bob.until(lambda: len(bob.got) >= 1500)
                await publish(alice, id, 1500, 2000)
                await bob.until(lambda: len(bob.got) >= 2000)
                assert numbers(bob) == list(range(2000))
                assert alice.confirmed == 2000

        asyncio.run(main())
        assert [b1.stop(), b2.stop()] == [0, 0]
    assert b2.log().count("link-up peer=B1 fresh=false") >= 1


def test_a_link_that_falls_silent_is_noticed_and_loses_nothing(processes: RunningPrograms) -> None:
    b1 = processes.broker("B1", link=QUICK)
    with Proxy(b1.said) as proxy:
        b2 = processes.broker("B2", {"B1": proxy.address}, link=QUICK)

        async def main() -> None:
            async with peer("alice", b1.said) as alice, peer("bob", b2.said) as bob:
                id = await alice.advertise("n >= 0")
                await bob.subscribe("n >= 0")
                await publish(alice, id, 0, 500)
                proxy.stall()
                await publish(alice, id, 500, 1000)
                await asyncio.to_thread(proxy.wait_accepted, 2)  # it was dialled again
                proxy.resume()
                await bob.until(lambda: len(bob.got) >= 1000)
                assert numbers(bob) == list(range(1000))

        asyncio.run(main())


def _storm(proxies: list[Proxy], resets: int) -> int:
    """Reset one connection after the other, each after something has passed; how many were hit."""
    hit = 0
    for turn in count():
        proxy = proxies[turn % len(proxies)]
        proxy.wait_passed(2_000)
        hit += proxy.reset()
        if hit >= resets:
            return hit
    raise AssertionError


def test_a_storm_of_resets_under_load_loses_and_doubles_nothing(processes: RunningPrograms) -> None:
    b1 = processes.broker("B1", link=QUICK, client_link=QUICK)
    with Proxy(b1.said) as between:
        b2 = processes.broker("B2", {"B1": between.address}, link=QUICK, client_link=QUICK)
        with Proxy(b1.said) as ahead, Proxy(b2.said) as behind:

            async def main() -> None:
                async with (
                    peer("alice", str(ahead.address), BEAT_S) as alice,
                    peer("bob", str(behind.address), BEAT_S) as bob,
                ):
                    id = await alice.advertise("n >= 0")
                    await bob.subscribe("n >= 0")
                    storm = asyncio.create_task(
                        asyncio.to_thread(_storm, [between, ahead, behind], 60)
                    )
                    published = 0
                    while not storm.done():
                        await publish(alice, id, published, published + 50, b"x" * 100)
                        published += 50
                        # No faster than it arrives: beyond a full queue the oldest may be dropped.
                        await bob.until(lambda: published - len(bob.got) < 2_000)  # noqa: B023
                    assert await storm >= 60
                    await publish(alice, id, published, published + 1)  # by links that stay up
                    published += 1
                    await bob.until(lambda: len(bob.got) >= published)
                    assert numbers(bob) == list(range(published))
                    assert (alice.confirmed, alice.unconfirmed) == (published, 0)
                    assert True not in bob.homes_up[1:] + alice.homes_up[1:]  # resumed each time

            asyncio.run(main())
        assert [b1.stop(), b2.stop()] == [0, 0]


# -- too much -----------------------------------------------------------------------------------------


def test_a_stopped_subscriber_is_told_what_it_missed_and_hurts_nobody(
    processes: RunningPrograms, tmp_path: Path
) -> None:
    broker = processes.broker("B1", client_link=QUICK)
    total, payload = 30_000, b"x" * 2_000
    report = tmp_path / "report.json"
    arguments = ("subscribe", broker.said, "slow", str(report), str(total))
    slow = processes.program("process.client", *arguments, name="slow")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with (
            peer("alice", broker.said, BEAT_S) as alice,
            peer("bob", broker.said, BEAT_S) as bob,
        ):
            id = await alice.advertise("n >= 0")
            await bob.subscribe("n >= 0")
            await publish(alice, id, 0, 1000, payload)
            before = broker.memory_bytes()
            slow.signal(signal.SIGSTOP)
            silent_until = loop.time() + 10 * BEAT_S  # long enough to be taken for gone
            for first in range(1000, total, 1000):
                await publish(alice, id, first, first + 1000, payload)
                await bob.until(lambda first=first: len(bob.got) >= first)  # type: ignore[misc]  # bob is not slow
            await bob.until(lambda: len(bob.got) >= total)
            assert numbers(bob) == list(range(total))
            assert bob.missed == 0
            # A queue of 8 MiB, a window of 1 MiB, and what Python needs for so many pieces of bytes.
            assert broker.memory_bytes("VmHWM") - before < 24 << 20
            await alice.until(lambda: loop.time() > silent_until)
            slow.signal(signal.SIGCONT)
            assert await asyncio.to_thread(slow.wait) == 0

    asyncio.run(main())
    told = json.loads(report.read_text(encoding="utf-8"))
    got = [n for _, n in told["got"]]
    assert told["missed"] > 0
    assert len(got) + told["missed"] == total
    assert got == sorted(set(got))
    assert got[-1] == total - 1
    assert broker.stop() == 0
    assert "link-up peer=slow fresh=false" in broker.log()
    assert "dropped peer=slow" in broker.log()


def test_two_brokers_that_flood_each_other_do_not_deadlock(processes: RunningPrograms) -> None:
    b1 = processes.broker("B1")
    b2 = processes.broker("B2", {"B1": b1.said})
    total, payload = 2_000, b"x" * 20_000

    async def main() -> None:
        async with peer("alice", b1.said) as alice, peer("bob", b2.said) as bob:
            ids = []
            for one in (alice, bob):
                ids.append(await one.advertise(f"{one.session.config.name} = 1"))
            await alice.subscribe("bob = 1")
            await bob.subscribe("alice = 1")

            async def flood(one: Peer, id: int) -> None:
                for n in range(total):
                    await one.publish(id, payload, n=n, **{one.session.config.name: 1})

            await asyncio.gather(flood(alice, ids[0]), flood(bob, ids[1]))
            for one in (alice, bob):
                await one.settle()
                await one.until(lambda one=one: len(one.got) + one.missed >= total)  # type: ignore[misc]
                # A client that does not keep up may miss some, and is told; between brokers nothing is lost.
                assert len(one.got) + one.missed == total
                assert numbers(one) == sorted(set(numbers(one)))

    asyncio.run(main())
    assert [b1.stop(), b2.stop()] == [0, 0]


# -- leaving ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("between", ["broker and client", "broker and broker"])
def test_a_broker_that_stops_under_load_hands_on_everything_it_accepted(
    processes: RunningPrograms, between: str
) -> None:
    # So that what was accepted waits in the broker, not in a socket.
    narrow = {"window_bytes": 4_096}
    leaving = processes.broker("B1", link=narrow, client_link=narrow)
    with Proxy(leaving.said) as proxy:
        last = str(proxy.address)
        if between == "broker and broker":
            last = processes.broker("B2", {"B1": proxy.address}).said

        async def main() -> None:
            async with peer("alice", leaving.said) as alice, peer("bob", last) as bob:
                id = await alice.advertise("n >= 0")
                await bob.subscribe("n >= 0")

                async def forever() -> None:
                    for n in count():
                        await alice.publish(id, n=n)

                load = asyncio.create_task(forever())
                await bob.until(lambda: len(bob.got) >= 1000)
                proxy.stall()
                enough = alice.confirmed + 1000
                await alice.until(lambda: alice.confirmed >= enough)
                assert len(bob.got) < enough
                leaving.signal(signal.SIGTERM)
                await asyncio.to_thread(leaving.wait_log, "draining")
                proxy.resume()
                assert await asyncio.to_thread(leaving.wait) == 0
                await alice.until(lambda: alice.homes_down > 0)
                load.cancel()
                await bob.until(lambda: len(bob.got) >= alice.confirmed)
                assert numbers(bob) == list(range(len(bob.got)))

        asyncio.run(main())
