"""`runnel plan` with real brokers under load, and what it says when it cannot plan."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import runnel
from process.commands import Shell
from process.processes import SOON, RunningProgram, RunningPrograms
from runnel.client.publisher import Publisher

GAP_S = 0.01
SYMBOLS = ("A", "B", "C")
Brokers = dict[str, RunningProgram]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as one:
        yield one


def star(processes: RunningPrograms, leaves: int, **tables: Any) -> Brokers:
    """B0 in the middle, the others around it."""
    brokers = {"B0": processes.broker("B0", **tables)}
    middle = {"B0": brokers["B0"].said.removeprefix("runnel://")}
    for n in range(1, leaves + 1):
        brokers[f"B{n}"] = processes.broker(f"B{n}", middle, **tables)
    return brokers


class SymbolClients:
    """Three publishers, and six clients that want one symbol each, or two; all over the network."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._stack = AsyncExitStack()
        self._publishers: list[Publisher] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> SymbolClients:
        for n in range(6):
            client = await self._client(f"c{n}", n)
            await client.subscribe(f"symbol = '{SYMBOLS[n % 3]}'")
            if n == 5:
                await client.subscribe("n >= 0")
        for n, symbol in enumerate(SYMBOLS):
            client = await self._client(f"p{n}", n + 1)
            publisher = await client.advertise(f"symbol = '{symbol}'", name=f"quotes-{symbol}")
            self._publishers.append(publisher)
            self._tasks.append(asyncio.create_task(self._publish(publisher, symbol)))
        return self

    async def _client(self, name: str, n: int) -> Any:
        broker = list(self._brokers.values())[n % len(self._brokers)]
        return await self._stack.enter_async_context(runnel.connect(broker.said, name=name))

    async def _publish(self, publisher: Publisher, symbol: str) -> None:
        while True:
            await publisher.publish({"symbol": symbol, "n": publisher.published})
            await asyncio.sleep(GAP_S)

    async def until(self, published: int) -> None:
        """Each has published so much."""
        async with asyncio.timeout(60):
            while min(publisher.published for publisher in self._publishers) < published:
                await asyncio.sleep(GAP_S)

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()


def on(output_bytes_per_s: int) -> dict[str, Any]:
    return {"enabled": True, "output_bytes_per_s": output_bytes_per_s}


def test_a_plan_of_brokers_under_load(processes: RunningPrograms, shell: Shell) -> None:
    brokers = star(processes, 4, profiles=on(100_000))
    at_b2 = ("plan", brokers["B2"].said)

    async def main() -> None:
        async with SymbolClients(brokers) as load:
            await load.until(150)
            text = await asyncio.to_thread(shell.run, *at_b2, "--out", "plan.json")
            assert "brokers     5 → 1 by CRAM-IOU (−80%); no plan needs fewer than 1" in text
            assert "freed: " in text and "written to plan.json" in text
            plan = json.loads((shell.folder / "plan.json").read_text(encoding="utf-8"))
            clients = {f"c{n}" for n in range(6)} | {f"p{n}" for n in range(3)}
            assert set(plan["subscriptions"]) == clients
            assert set(plan["publishers"]) == {f"p{n}/quotes-{s}" for n, s in enumerate(SYMBOLS)}
            addresses = {name: one.said.removeprefix("runnel://") for name, one in brokers.items()}
            assert plan["addresses"] == addresses
            assert len(plan["freed"]) == 4 and len(plan["before"]) == 5
            # What all clients get: two of each symbol, and one of all again.
            [after] = plan["after"].values()
            assert after["subscriptions"] == 7
            assert 0 < after["output_ratio"] < 1
            [home] = plan["after"]

            pinned = ("--pin", "c0=B1", "--exclude", home, "--out", "other.json")
            plan = await asyncio.to_thread(shell.json, *at_b2, *pinned, "--json")
            assert plan["subscriptions"]["c0"] == "B1" and home in plan["freed"]
            alone = processes.broker("B9", profiles=on(100_000))  # linked to nobody
            others = [word for name in brokers for word in ("--exclude", name)]
            with_b9 = (*at_b2, "--standby", alone.said, *others, "--json")
            plan = await asyncio.to_thread(shell.json, *with_b9)
            assert list(plan["overlay"]) == ["B9"] and len(plan["before"]) == 5
            kept = await asyncio.to_thread(shell.json, *at_b2, "--max-moves", "0", "--json")
            assert kept["moved"] == [] and len(kept["overlay"]) == 5

    asyncio.run(main())
    assert "no plan needs fewer than 1" in shell.run("plan", "show", "plan.json")
    assert "the same network" in shell.run("plan", "diff", "plan.json", "plan.json")
    told = shell.run("plan", "diff", "plan.json", "other.json", code=1)
    assert "brokers more" in told and "c0: " in told
    for broker in brokers.values():
        assert broker.stop() == 0


def test_a_plan_that_needs_several_brokers_fills_none_beyond_its_limit(
    processes: RunningPrograms, shell: Shell
) -> None:
    """However fast this machine is: first everything is on one broker, then a broker may have less than that takes."""
    brokers = star(processes, 4, profiles=on(1_000_000))
    said = ("plan", brokers["B0"].said)

    async def main() -> None:
        async with SymbolClients(brokers) as load:
            await load.until(150)
            [all_of_it] = (await asyncio.to_thread(shell.json, *said, "--json"))["after"].values()
            most = 0.75 * all_of_it["output_ratio"]
            head_room = ("--head-room", f"{100 * (1 - most):.3f}%")
            for algorithm in ("cram-iou", "bin-packing"):
                how = (*head_room, "--json", "--algorithm", algorithm)
                plan = await asyncio.to_thread(shell.json, *said, *how)
                assert 1 < len(plan["overlay"]) <= 5
                assert plan["brokers_at_least"] > 1
                assert all(load["output_ratio"] < most for load in plan["after"].values())
            told = await asyncio.to_thread(shell.run, *said, "--head-room", "99.99%", code=2)
            assert "one alone needs more output than the largest broker has" in told

    asyncio.run(main())


def test_what_is_missing_is_said(processes: RunningPrograms, shell: Shell) -> None:
    off = star(processes, 1)
    told = shell.run("plan", off["B0"].said, code=2)
    assert "no broker keeps profiles: set enabled = true under [profiles]" in told

    brokers = star(processes, 3, profiles=on(100_000), link=SOON)

    async def main() -> None:
        async with SymbolClients(brokers) as load:
            at_b0 = ("plan", brokers["B0"].said, "--timeout", "3")
            await load.until(5)
            told = await asyncio.to_thread(shell.run, *at_b0, "--sample", "1000", code=2)
            assert "profiles are too short" in told and "1000 are wanted. Ask again in" in told
            told = await asyncio.to_thread(shell.run, *at_b0, "--pin", "c1", code=2)
            assert "write CLIENT=BROKER" in told
            told = await asyncio.to_thread(shell.run, *at_b0, "--head-room", "lots", code=2)
            assert "'lots' is no percentage: write 20%" in told

    asyncio.run(main())
    brokers["B3"].kill()
    at_b1 = ("plan", brokers["B1"].said, "--timeout", "3")
    told = shell.run(*at_b1, code=1)  # its link is still kept for it to come back
    assert "B3 does not answer" in told and "--exclude B3" in told
    brokers["B0"].wait_log("link-lost peer=B3")
    assert "B3 does not answer" in shell.run(*at_b1, code=1)
    told = shell.run(*at_b1, "--exclude", "B3", code=2)
    assert "nobody has subscribed to anything" in told


@pytest.mark.parametrize(
    ("content", "said"), [(b"{}", "version None"), (b"no", "this is not a plan")]
)
def test_a_file_that_is_no_plan_is_named(shell: Shell, content: bytes, said: str) -> None:
    (shell.folder / "x.json").write_bytes(content)
    told = shell.run("plan", "show", "x.json", code=2)
    assert told.startswith("Error: x.json: ") and said in told
    assert "y.json: No such file" in shell.run("plan", "diff", "y.json", "x.json", code=2)
