"""Placement among real brokers, and the two commands around it: `runnel placement` and `runnel move-publisher`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import runnel
from process.commands import Shell
from process.processes import RunningProgram, RunningPrograms
from runnel.client.publisher import Publisher
from runnel.client.subscription import Subscription

GAP_S = 0.005
Chain = dict[str, RunningProgram]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as one:
        yield one


def chain(processes: RunningPrograms, **placement: Any) -> Chain:
    """B1 – B2 – B3, all with the same settings."""
    brokers: Chain = {}
    for n in (1, 2, 3):
        dialled = (
            {f"B{n - 1}": brokers[f"B{n - 1}"].said.removeprefix("runnel://")} if n > 1 else {}
        )
        brokers[f"B{n}"] = processes.broker(f"B{n}", dialled, placement=placement)
    return brokers


class Counting:
    """A publisher at B1 that publishes all the time, and a subscriber at B3 that counts."""

    def __init__(self, publisher: Publisher, subscription: Subscription) -> None:
        self.publisher = publisher
        self._subscription = subscription
        self._enough = asyncio.Event()

    async def publish(self) -> None:
        for n in count():
            if self._enough.is_set():
                return
            await self.publisher.publish({"n": n})
            await asyncio.sleep(GAP_S)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not holds():
                await asyncio.sleep(GAP_S)

    async def nothing_is_lost(self) -> None:
        self._enough.set()
        for n in range(self.publisher.published):
            assert (await self._subscription.get(30))["n"] == n
        assert self._subscription.unread == 0


@asynccontextmanager
async def counting(brokers: Chain, **options: Any) -> Any:
    async with (
        runnel.connect(brokers["B3"].said) as reader,
        runnel.connect(brokers["B1"].said, **options) as writer,
    ):
        subscription = await reader.subscribe("n >= 0")
        one = Counting(await writer.advertise("n >= 0", name="quotes"), subscription)
        publishing = asyncio.create_task(one.publish())
        yield one
        await one.nothing_is_lost()
        await publishing


def in_thread(
    function: Callable[..., Any], *arguments: str, **options: Any
) -> Coroutine[Any, Any, Any]:
    """Run a command while the clients of this process go on."""
    return asyncio.to_thread(function, *arguments, **options)


@pytest.mark.parametrize("algorithm", ["grape", "pop"])
def test_a_publisher_goes_to_its_subscribers_under_load_and_the_command_says_so(
    processes: RunningPrograms, shell: Shell, algorithm: str
) -> None:
    brokers = chain(processes, algorithm=algorithm, g_threshold=20, p_threshold=20)

    async def main() -> None:
        async with counting(brokers) as one:
            await one.until(lambda: one.publisher.broker == "B3")
            told = await in_thread(shell.json, "placement", brokers["B1"].said, "--json")
            [row] = told["publishers"]
            assert (row["publisher"], row["at"], row["algorithm"]) == ("quotes", "B3", algorithm)
            assert 0 < row["rests_s"] <= 30 and told["silent"] == {}
            before = one.publisher.published
            await one.until(lambda: one.publisher.published > before + 50)
            assert one.publisher.migrations == 1

    asyncio.run(main())
    brokers["B1"].wait_log("outcome=moves")
    for broker in brokers.values():
        assert broker.stop() == 0


def test_a_dry_run_decides_and_an_operator_moves(processes: RunningPrograms, shell: Shell) -> None:
    brokers = chain(processes, algorithm="grape", g_threshold=30_000)
    at_b2 = ("--broker", brokers["B2"].said)

    async def main() -> None:
        async with counting(brokers) as one:
            await one.until(lambda: one.publisher.published > 20)
            [row] = (await in_thread(shell.json, "placement", *at_b2, "--json"))["publishers"]
            assert row["decision"] is None and 0 < row["progress"]["have"] < 30_000
            asked = ("placement", *at_b2, "--dry-run", "--candidates")
            text = await in_thread(shell.run, *asked, "--publisher", "quotes")
            assert "dry run" in text and "best" in text and "too much load" in text
            [row] = (await in_thread(shell.json, *asked, "--json"))["publishers"]
            assert (row["at"], row["decision"]["to"], row["decision"]["outcome"]) == (
                *("B1", "B3"),
                "dry run",
            )
            assert len(row["decision"]["candidates"]) == 3
            assert one.publisher.migrations == 0

            told = await in_thread(shell.run, "move-publisher", "quotes", "--to", "B2", *at_b2)
            assert told.startswith("quotes has gone from B1 to B2, in ")
            await one.until(lambda: one.publisher.migrations == 1)
            assert one.publisher.broker == "B2"
            moved = await in_thread(
                shell.json, "move-publisher", "quotes", "--to", "B3", *at_b2, "--json"
            )
            assert (moved["from"], moved["to"]) == ("B2", "B3")
            await one.until(lambda: one.publisher.broker == "B3")

    asyncio.run(main())
    brokers["B1"].wait_log("relocation-asked publisher=quotes to=B2 by=operator")


def test_what_cannot_be_moved_is_said(processes: RunningPrograms, shell: Shell) -> None:
    brokers = chain(processes)
    at_b1 = ("--broker", brokers["B1"].said)

    def refused(*arguments: str, code: int = 2) -> Coroutine[Any, Any, str]:
        return in_thread(shell.run, "move-publisher", *arguments, *at_b1, code=code)

    async def main() -> None:
        assert "nobody publishes anything" in await refused("quotes", "--to", "B2")
        assert "nobody publishes" in await in_thread(shell.run, "placement", brokers["B1"].said)
        async with counting(brokers, follows=False) as one:
            assert "did you mean quotes?" in await refused("qoutes", "--to", "B2")
            assert "there are quotes" in await refused("weather", "--to", "B2")
            assert "no broker B9: there are B1, B2, B3" in await refused("quotes", "--to", "B9")
            assert "quotes is at B1 already" in await refused("quotes", "--to", "B1")
            told = await refused("quotes", "--to", "B2", "--timeout", "1", code=1)
            assert "did not move within 1 s; it goes on at B1" in told and "follows=False" in told
            told = await in_thread(shell.run, "placement", brokers["B1"].said, "--dry-run")
            assert "placement is off for it" in told
            async with runnel.connect(brokers["B2"].said) as other:
                await other.advertise("m >= 0", name="quotes")
                told = await refused("quotes", "--to", "B3")
                assert "several publishers are called quotes" in told and "at B2 (m >= 0)" in told
                rows = (await in_thread(shell.json, "placement", *at_b1, "--json"))["publishers"]
                [id] = [row["id"] for row in rows if row["at"] == "B2"]
                which = ("--advertisement", id)
                await refused("quotes", "--to", "B3", *which, code=0)
                assert "has the advertisement ff" in await refused(
                    "quotes", "--to", "B3", "--advertisement", "ff"
                )
            assert one.publisher.migrations == 0

    asyncio.run(main())
    brokers["B3"].kill()
    told = shell.run("placement", "--json", brokers["B1"].said, code=1)
    assert "B3" in json.loads(told)["silent"]
