"""The client that programs use, against brokers that die, leave and are cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import runnel
from process.processes import SOON, RunningProgram, RunningPrograms
from runnel.language import Filter, Op, Predicate
from runnel.testing.proxy import Proxy

FOREVER_S = 1e6


@pytest.mark.parametrize(
    ("end", "patience_s"),
    [(RunningProgram.kill, 0.5), (RunningProgram.stop, FOREVER_S)],
    ids=["killed", "told"],
)
def test_a_client_whose_broker_ends_goes_on_at_the_next(
    processes: RunningPrograms, end: Callable[[RunningProgram], object], patience_s: float
) -> None:
    b1 = processes.broker("B1", link=SOON)
    b2 = processes.broker("B2", {"B1": b1.said}, link=SOON)

    gaps: list[runnel.Gap] = []

    async def gap(found: runnel.Gap) -> None:
        gaps.append(found)

    async def main() -> None:
        urls = [b1.said, b2.said]
        async with (
            asyncio.timeout(40),
            runnel.connect(b2.said, name="alice") as alice,
            runnel.connect(urls, name="bob", failover_patience_s=patience_s, on_gap=gap) as bob,
        ):
            publisher = await alice.advertise("n >= 0")
            subscription = await bob.subscribe("n >= 0")
            assert bob.broker == "B1"
            await publisher.publish({"n": 0})
            assert (await subscription.get())["n"] == 0
            await asyncio.to_thread(end, b1)
            got = None
            n = 1
            while got is None:  # until bob is there: nobody promised what lies between
                await publisher.publish({"n": n})
                n += 1
                try:
                    got = int((await subscription.get(timeout=0.05))["n"])
                except TimeoutError:
                    continue
            assert bob.broker == "B2"
            assert gaps[0].link == "bob–B1" and gaps[0].is_open and bob.gaps >= 1
            await publisher.publish_all({"n": m} for m in range(n, n + 100))
            while got != n + 99:
                event = await subscription.get()
                assert event["n"] == got + 1
                got = int(event["n"])

    asyncio.run(main())
    assert b2.stop() == 0


def test_a_client_that_is_cut_off_for_a_while_loses_nothing(processes: RunningPrograms) -> None:
    broker = processes.broker("B1", client_link={"resume_timeout_s": 30.0})
    batch = 250

    async def main() -> None:
        with Proxy(broker.said) as ahead, Proxy(broker.said) as behind:
            async with (
                asyncio.timeout(60),
                runnel.connect(str(ahead.address), name="alice") as alice,
                runnel.connect(str(behind.address), name="bob") as bob,
            ):
                publisher = await alice.advertise("n >= 0")
                subscription = await bob.subscribe("n >= 0")
                for turn, proxy in enumerate([ahead, behind, ahead, behind, None]):
                    numbers = range(turn * batch, (turn + 1) * batch)
                    load = asyncio.create_task(publisher.publish_all({"n": n} for n in numbers))
                    if proxy is not None:
                        await asyncio.to_thread(proxy.wait_passed, 100)
                        proxy.cut()
                        proxy.restore()
                    for n in numbers:
                        assert (await subscription.get())["n"] == n
                    await load
                assert publisher.confirmed == 5 * batch
                assert (alice.gaps, bob.gaps) == (0, 0)
            for name in ("alice", "bob"):  # their farewell has come through the proxies
                await asyncio.to_thread(broker.wait_log, f"client-left peer={name}")

    asyncio.run(main())
    assert broker.log().count("fresh=false") >= 4
    assert broker.stop() == 0


@pytest.mark.parametrize("moves", [False, True])
def test_a_blip_does_not_send_a_client_to_another_broker(
    processes: RunningPrograms, moves: bool
) -> None:
    b1 = processes.broker("B1")
    b2 = processes.broker("B2", {"B1": b1.said})
    dials: list[str] = []

    async def main() -> None:
        with Proxy(b1.said) as one, Proxy(b2.said) as two:
            urls = [str(one.address), str(two.address)]
            async with (
                asyncio.timeout(60),
                runnel.connect(b1.said, name="alice") as alice,
                runnel.connect(urls, name="bob") as bob,
            ):
                publisher = await alice.advertise("n >= 0")
                subscription = await bob.subscribe("n >= 0")
                if moves:
                    await bob.move_to(urls[1])
                home, proxy = bob.broker, two if moves else one
                load = asyncio.create_task(publisher.publish_all({"n": n} for n in range(400)))
                for n in range(100):
                    assert (await subscription.get())["n"] == n
                proxy.cut()
                reasons = bob._live.driver.rounds.reasons
                while len(dials) < 3:  # several dials in turn come to nothing
                    dials.extend(reasons)
                    reasons.clear()
                    await asyncio.sleep(0.001)
                proxy.restore()
                for n in range(100, 400):
                    assert (await subscription.get())["n"] == n
                await load
                assert (bob.broker, bob.gaps) == (home, 0)
                assert set(dials) == {str(proxy.address)}

    asyncio.run(main())
    assert b2.stop() == 0


TOO_LARGE = Filter([Predicate(f"a{n}", Op.GT, n) for n in range(2_000)])


def test_a_poisoned_subscription_hurts_only_itself(
    processes: RunningPrograms, caplog: pytest.LogCaptureFixture
) -> None:
    b1 = processes.broker("B1")
    b2 = processes.broker("B2", {"B1": b1.said})

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            runnel.connect(b1.said, name="alice") as alice,
            runnel.connect(b2.said, name="bob") as bob,
        ):
            publisher = await alice.advertise("n >= 0")
            good = await bob.subscribe("n >= 0")
            for n in range(10):
                with pytest.raises(runnel.SubscriptionRefused, match="1,000 predicates"):
                    await bob.subscribe(TOO_LARGE)
                with pytest.raises(runnel.InputError, match=r"disjuncts|alternatives"):
                    await bob.subscribe(" OR ".join(f"a{i} = {i}" for i in range(3_000)))
                nothing = await bob.subscribe("n = 1 AND n = 2")
                everything = await bob.subscribe("")
                await publisher.publish({"n": n})
                for one in (good, everything):
                    assert (await one.get())["n"] == n
                assert nothing.unread == 0
                everything.unsubscribe()
            assert (bob.gaps, alice.gaps) == (0, 0)

    asyncio.run(main())
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert sum("it contradicts itself" in text for text in warned) == 10
    assert sum("the filter is empty, so it wants everything" in text for text in warned) == 10
    for broker in (b1, b2):
        assert (
            broker.log().count("link-up peer=bob") <= 1 and "link-lost peer=B" not in broker.log()
        )
    assert [b2.stop(), b1.stop()] == [0, 0]
