"""The client that programs use, against brokers that die, leave and are cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from processes import SOON, Process, Processes

import runnel
from runnel.testing.proxy import Proxy

ENDINGS: dict[str, Callable[[Process], object]] = {"killed": Process.kill, "told": Process.stop}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_client_whose_broker_ends_goes_on_at_the_next(processes: Processes, ending: str) -> None:
    b1 = processes.broker("B1", link=SOON)
    b2 = processes.broker("B2", {"B1": b1.said}, link=SOON)

    async def main() -> None:
        async with (
            asyncio.timeout(40),
            runnel.connect(b2.said, name="alice") as alice,
            runnel.connect([b1.said, b2.said], name="bob") as bob,
        ):
            publisher = await alice.advertise("n >= 0")
            subscription = await bob.subscribe("n >= 0")
            assert bob.broker == "B1"
            await publisher.publish({"n": 0})
            assert (await subscription.get())["n"] == 0
            await asyncio.to_thread(ENDINGS[ending], b1)
            got = None
            n = 1
            while got is None:  # until bob is there: nobody promised what lies between
                await publisher.publish({"n": n})
                n += 1
                try:
                    got = (await subscription.get(timeout=0.05))["n"]
                except TimeoutError:
                    continue
            assert bob.broker == "B2"
            await publisher.publish_all({"n": m} for m in range(n, n + 100))
            while got != n + 99:
                event = await subscription.get()
                assert event["n"] == got + 1
                got = event["n"]

    asyncio.run(main())
    assert b2.stop() == 0


def test_a_client_that_is_cut_off_for_a_while_loses_nothing(processes: Processes) -> None:
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
