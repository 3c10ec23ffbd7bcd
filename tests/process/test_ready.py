"""Ready is honest: with a dead broker in between, nobody is told that routes are complete. B1 – B2 – B3."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import runnel
from process.commands import Shell
from process.processes import QUICK, RunningPrograms


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as one:
        yield one


def test_routes_through_a_dead_broker_are_not_ready_until_it_is_back(
    processes: RunningPrograms,
) -> None:
    b3 = processes.broker("B3", accept=["B2"], link=QUICK)
    b2 = processes.broker("B2", {"B3": b3.said}, accept=["B1"], link=QUICK)
    b1 = processes.broker("B1", {"B2": b2.said}, link=QUICK)

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            runnel.connect(b1.said, name="alice") as alice,
            runnel.connect(b3.said, name="bob") as bob,
        ):
            b2.kill()
            with pytest.raises(runnel.RoutesIncomplete, match="B1–B2 is missing"):
                await alice.subscribe("n >= 0", timeout=1)
            with pytest.raises(runnel.RoutesIncomplete, match="B2–B3 is missing"):
                await bob.advertise("n >= 0", timeout=1)
            subscribing = asyncio.create_task(alice.subscribe("n >= 0", timeout=None))
            publisher = await bob.advertise("n >= 0", wait="reachable")
            assert publisher.missing == ("B2–B3",)
            again = await asyncio.to_thread(
                lambda: processes.broker("B2", {"B3": b3.said}, b2.said, accept=["B1"], link=QUICK)
            )
            subscription = await subscribing
            await publisher.ready()
            await publisher.publish_all({"n": n} for n in range(100))
            for n in range(100):
                assert (await subscription.get())["n"] == n
            assert (await asyncio.to_thread(again.stop)) == 0

    asyncio.run(main())


def test_commands_say_what_is_missing_and_go_on(processes: RunningPrograms, shell: Shell) -> None:
    b1 = processes.broker("B1", accept=["B2"], link=QUICK)
    said = "a part of the network cannot be reached: B1–B2 is missing; what"
    sub = shell.start("sub", "a = 1", "-b", b1.said, "--count", "1")
    sub.until("ready at B1")
    assert f"{said} is published behind it does not arrive until it is back" in sub.said
    pub = shell.start("pub", "a=1", "-b", b1.said)
    assert pub.end() == 0
    assert f"{said} subscribers behind it are to get does not arrive until it is back" in pub.said
    assert sub.end() == 0
    advertise = shell.start("advertise", "a = 1", "-b", b1.said).until("is advertised at B1")
    assert said in advertise.said
    b1.kill()
