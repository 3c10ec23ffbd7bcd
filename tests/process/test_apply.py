"""`runnel apply` on real brokers under load: another network, and nobody notices."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import runnel
from process.commands import RunningCommand, Shell
from process.crowd import FINE, Crowd
from process.processes import RUNNEL, SOON, RunningProgram, RunningPrograms
from runnel.net.addresses import parse_address
from runnel.operate.ask import Asker
from runnel.planning.documents.plan import Plan, to_json

Brokers = dict[str, RunningProgram]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as one:
        yield one


def chain(processes: RunningPrograms, count: int, **tables: Any) -> Brokers:
    brokers: Brokers = {}
    for n in range(1, count + 1):
        last = {f"B{n - 1}": brokers[f"B{n - 1}"].said} if n > 1 else {}
        state = {"state": str(processes.folder / f"B{n}.place")}
        brokers[f"B{n}"] = processes.broker(f"B{n}", last, **(state | tables))
    return brokers


def plan_for(
    brokers: Brokers, overlay: dict[str, str | None], homes: dict[str, str], path: Path
) -> Plan:
    """A plan by hand; who is not in `homes` goes to the root."""
    plan = Plan(
        algorithm="BY HAND",
        overlay=overlay,
        subscriptions=homes,
        publishers={},
        addresses={name: one.said for name, one in brokers.items()},
        freed=[name for name in brokers if name not in overlay],
    )
    path.write_bytes(to_json(plan))
    return plan


async def generations(shell: Shell, brokers: Brokers) -> set[int]:
    """Of all that newcomers find."""

    def of(broker: RunningProgram) -> int:
        with Asker(parse_address(broker.said)) as asker:
            return asker.generation

    return {await asyncio.to_thread(of, one) for one in brokers.values()}


def test_a_network_becomes_another_and_back(processes: RunningPrograms, shell: Shell) -> None:
    brokers = chain(processes, 6)
    homes = {f"s{n}": "B2" if n % 3 == 0 else "B5" for n in range(24)} | {"p0": "B2", "p1": "B5"}
    plan_for(brokers, {"B2": None, "B5": "B2"}, homes, shell.folder / "plan.json")

    async def main() -> None:
        urls = [broker.said for broker in brokers.values()]
        async with Crowd(urls, publishers=3, subscribers=24) as crowd:
            await crowd.until_published(50)
            told = await asyncio.to_thread(shell.run, "apply", "plan.json", "--yes", "--wave", "2")
            assert "2 brokers serve generation 2; on standby: B1, B3, B4, B6" in told
            for name, client in ((c.name, c) for c in crowd.clients):
                assert client.broker == homes.get(name, "B2"), name
            await crowd.until_published(50)
            # Who comes to a broker on standby is served all the same.
            async with runnel.connect(brokers["B6"].said) as late:
                events = await late.subscribe("topic = 1")
                assert (await events.get(10.0))["topic"] == 1
                assert late.broker == "B2"
            told = await asyncio.to_thread(shell.run, "plan", "rollback", "plan.json", "--yes")
            assert "6 brokers serve generation 3" in told
            await crowd.until_published(50)
            assert {client.broker for client in crowd.clients} == set(brokers)
            assert await crowd.finish() == FINE

    asyncio.run(main())
    for broker in brokers.values():
        assert broker.stop() == 0


async def interrupted(
    crowd: Crowd, shell: Shell, brokers: Brokers, do: Callable[[RunningCommand], None], phase: str
) -> RunningCommand:
    """Begin to apply a plan, and do something to it when it has got so far."""
    slow = ("apply", "plan.json", "--yes", "--every", "0.4", "--wave", "1", "--patience", "3")
    command = await asyncio.to_thread(shell.start, *slow)
    await asyncio.to_thread(command.until, phase)
    await asyncio.to_thread(do, command)
    return command


def two_of_four(processes: RunningPrograms, shell: Shell) -> Brokers:
    # Links of a broker that is killed are given up soon, so that clients go elsewhere soon.
    brokers = chain(processes, 4, link=SOON, client_link=SOON)
    homes = {f"s{n}": f"B{n % 2 + 1}" for n in range(8)} | {"p0": "B1", "p1": "B2", "p2": "B1"}
    plan_for(brokers, {"B1": None, "B2": "B1"}, homes, shell.folder / "plan.json")
    return brokers


@pytest.mark.parametrize("phase", ["clients join it", "publishers cross over"])
def test_ctrl_c_takes_it_back(processes: RunningPrograms, shell: Shell, phase: str) -> None:
    brokers = two_of_four(processes, shell)

    async def main() -> None:
        urls = [broker.said for broker in brokers.values()]
        async with Crowd(urls, publishers=3, subscribers=8) as crowd:
            await crowd.until_published(20)
            command = await interrupted(
                crowd, shell, brokers, lambda c: c.popen.send_signal(signal.SIGINT), phase
            )
            assert await asyncio.to_thread(command.end) == 130
            assert "it was interrupted. Generation 1 serves" in command.out
            await crowd.until_published(20)
            assert await generations(shell, brokers) == {1}
            assert await crowd.finish() == FINE

    asyncio.run(main())


@pytest.mark.parametrize("then", ["apply", "rollback"])
def test_a_coordinator_that_is_killed_leaves_everybody_served(
    processes: RunningPrograms, shell: Shell, then: str
) -> None:
    brokers = two_of_four(processes, shell)

    async def main() -> None:
        urls = [broker.said for broker in brokers.values()]
        async with Crowd(urls, publishers=3, subscribers=8) as crowd:
            await crowd.until_published(20)
            command = await interrupted(
                crowd, shell, brokers, lambda c: c.popen.kill(), "publishers cross over"
            )
            await asyncio.to_thread(command.end)
            await crowd.until_published(50)
            words = ("apply",) if then == "apply" else ("plan", "rollback")
            told = await asyncio.to_thread(shell.run, *words, "plan.json", "--yes")
            assert "A switch from generation 1 to 2 is under way" in told
            await crowd.until_published(20)
            assert await generations(shell, brokers) == ({2} if then == "apply" else {1})
            assert await crowd.finish() == FINE

    asyncio.run(main())


def test_a_broker_that_is_killed_before_the_switch_leaves_the_old_generation_serving(
    processes: RunningPrograms, shell: Shell
) -> None:
    """B4 has no clients, and is the last of the chain: nobody else loses anything by its death."""
    brokers = two_of_four(processes, shell)

    async def main() -> None:
        urls = [brokers[name].said for name in ("B1", "B2", "B3")]
        async with Crowd(urls, publishers=3, subscribers=8) as crowd:
            await crowd.until_published(20)
            command = await interrupted(
                crowd, shell, brokers, lambda c: brokers["B4"].kill(), "clients join it"
            )
            await crowd.until_published(20)
            assert await crowd_goes_on(crowd)
            # It waits for B4, and gives up; with B4 gone it cannot say that all is taken back.
            assert await asyncio.to_thread(command.end) == 1
            assert await crowd.finish() == FINE

    async def crowd_goes_on(crowd: Crowd) -> bool:
        await crowd.until_published(100)
        return all(client.broker in ("B1", "B2", "B3") for client in crowd.clients)

    asyncio.run(main())


def test_a_broker_that_starts_anew_after_a_switch_knows_its_place(
    processes: RunningPrograms, shell: Shell
) -> None:
    brokers = two_of_four(processes, shell)
    shell.run("apply", "plan.json", "--yes")
    address = brokers["B2"].said.removeprefix("runnel://")
    assert brokers["B2"].stop() == 0
    config = processes.folder / "B2.toml"
    text = config.read_text(encoding="utf-8").replace("127.0.0.1:0", address)
    config.write_text(text, encoding="utf-8")
    again = processes.start([RUNNEL, "broker", "--config", str(config)], "B2")
    again.wait_log("link-up")
    found = {one["name"]: one for one in shell.json("status", again.said, "--json")["brokers"]}
    assert set(found) == {"B1", "B2"} and found["B2"]["generation"] == 2
