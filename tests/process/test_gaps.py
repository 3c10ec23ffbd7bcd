"""Losses are announced from end to end, by real brokers. B1 – B2 – B3, of which B2 is killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic, time_ns
from typing import Any

import pytest

import runnel
from process.commands import Shell
from process.processes import QUICK, RunningProgram, RunningPrograms
from runnel.client.aio import Client
from runnel.client.subscription import Subscription
from runnel.modules.inspection.questions import Status
from runnel.net.addresses import parse_address
from runnel.operate.ask import ask

WITHIN_S = 30.0
CLOCK_NS = 10**6  # of one machine, but read by several processes


class Chain:
    """B1 – B2 – B3; each dials the next."""

    def __init__(self, processes: RunningPrograms, **tables: Any) -> None:
        self._processes, self._tables = processes, {"link": QUICK} | tables
        self.b3 = processes.broker("B3", accept=["B2"], **self._tables)
        self.b2 = self.start_b2()
        self.b1 = processes.broker("B1", {"B2": self.b2.said}, **self._tables)

    def start_b2(self, listen: str = "127.0.0.1:0") -> RunningProgram:
        neighbours = {"B3": self.b3.said}
        return self._processes.broker("B2", neighbours, listen, accept=["B1"], **self._tables)

    async def restart_b2(self) -> None:
        self.b2 = await asyncio.to_thread(self.start_b2, self.b2.said)

    async def status(self, broker: RunningProgram) -> dict[str, Any]:
        return await asyncio.to_thread(ask, parse_address(broker.said), Status())

    async def until_b2_is_away(self) -> None:
        """B1 has seen that the connection is gone; what comes now waits, and none of it is sent."""
        async with asyncio.timeout(WITHIN_S):
            while any(
                one["up"] for one in (await self.status(self.b1))["links"] if one["name"] == "B2"
            ):
                await asyncio.sleep(0.01)


def cell(table: str, row: str, column: str) -> str:
    """What a printed table has in the row that begins with a name; all rows up to it are complete."""
    lines = [line.split() for line in table.splitlines()]
    heading = next(words for words in lines if column in words)
    return next(words for words in lines if words[:1] == [row])[heading.index(column)]


def are_over(gaps: list[runnel.Gap]) -> bool:
    """Whether there are gaps, and all are over."""
    begun = {gap.link for gap in gaps if gap.is_open}
    return bool(begun) and begun == {gap.link for gap in gaps if not gap.is_open}


def contains(gaps: list[runnel.Gap], at_ns: int) -> bool:
    """Whether an interval of what was announced, and is over, contains this time."""
    begun = {gap.link: gap.since_ns for gap in gaps if gap.is_open}
    over = {gap.link: gap.until_ns for gap in gaps if not gap.is_open}
    return any(since - CLOCK_NS <= at_ns <= over[link] + CLOCK_NS for link, since in begun.items())


class Ear:
    """A client and what it was told."""

    def __init__(self) -> None:
        self.gaps: list[runnel.Gap] = []
        self.undelivered: list[runnel.Gap] = []
        self.client: Client

    async def until(self, condition: Any) -> None:
        """Looked at again and again: callbacks come when they come."""
        async with asyncio.timeout(WITHIN_S):
            while not condition():
                await asyncio.sleep(0.01)

    async def until_over(self) -> None:
        """A gap has begun, and all are over."""
        await self.until(lambda: are_over(self.gaps))


@asynccontextmanager
async def listening(broker: RunningProgram, name: str) -> AsyncIterator[Ear]:
    ear = Ear()
    async with runnel.connect(
        broker.said, name=name, on_gap=ear.gaps.append, on_undelivered=ear.undelivered.append
    ) as ear.client:
        yield ear


async def read(subscription: Subscription, last: int) -> dict[Any, int]:
    """Everything up to an event that is known to come: when each was published."""
    found = {}
    async with asyncio.timeout(WITHIN_S):
        async for event in subscription:
            found[event["n"]] = event.time_ns
            if event["n"] == last:
                return found
    raise AssertionError("the subscription ended")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as one:
        yield one


def test_what_is_lost_with_a_broker_is_in_the_interval_that_both_ends_are_told(
    processes: RunningPrograms,
) -> None:
    chain = Chain(processes)

    async def main() -> None:
        async with (
            asyncio.timeout(2 * WITHIN_S),
            listening(chain.b1, "alice") as alice,
            listening(chain.b3, "bob") as bob,
        ):
            subscriptions = {
                "alice": await bob.client.subscribe("n >= 0 AND of = 'alice'"),
                "bob": await alice.client.subscribe("n >= 0 AND of = 'bob'"),
            }
            publishers = {
                one.client.name: await one.client.advertise(f"n >= 0 AND of = '{one.client.name}'")
                for one in (alice, bob)
            }
            published: dict[str, dict[int, tuple[int, int]]] = {"alice": {}, "bob": {}}

            async def publish(numbers: range) -> None:
                for n in numbers:
                    for name, publisher in publishers.items():
                        before = time_ns()
                        await publisher.publish({"n": n, "of": name})
                        published[name][n] = before, time_ns()

            await publish(range(200))  # some of these may be on their way when it is killed
            chain.b2.kill()
            await publish(range(200, 250))
            await chain.restart_b2()
            await bob.until_over()
            await alice.until_over()
            for name, publisher in publishers.items():
                await publisher.ready()
                await subscriptions[name].ready()
            await publish(range(250, 300))
            lost_of: dict[str, list[tuple[int, int]]] = {}  # by publisher: when each was published
            for ear, of in ((bob, "alice"), (alice, "bob")):
                received = await read(subscriptions[of], 299)
                lost = set(published[of]) - set(received)
                assert set(range(200, 250)) <= lost
                assert not lost & set(range(250, 300))
                lost_of[of] = [published[of][n] for n in lost]
                for before, after in lost_of[of]:
                    assert contains(ear.gaps, before), ear.gaps
                    assert contains(ear.gaps, after), ear.gaps
                assert all(of in gap.publishers for gap in ear.gaps[:1])
                assert ear.client.gaps == len([gap for gap in ear.gaps if gap.is_open])
            for ear, link in ((alice, "B1–B2"), (bob, "B2–B3")):
                await ear.until(lambda ear=ear: are_over(ear.undelivered))
                assert link in [gap.link for gap in ear.undelivered]
                for before, after in lost_of[ear.client.name]:
                    assert contains(ear.undelivered, before), ear.undelivered
                    assert contains(ear.undelivered, after), ear.undelivered

    asyncio.run(main())


def test_status_counts_exactly_what_a_living_broker_discards_and_names_the_loss(
    processes: RunningPrograms, shell: Shell
) -> None:
    chain = Chain(processes, link={"heartbeat_s": 0.2, "resume_timeout_s": 3.0})

    async def main() -> None:
        async with (
            asyncio.timeout(2 * WITHIN_S),
            listening(chain.b1, "alice") as alice,
            listening(chain.b3, "bob") as bob,
        ):
            subscription = await bob.client.subscribe("n >= 0")
            publisher = await alice.client.advertise("n >= 0")
            chain.b2.kill()
            await chain.until_b2_is_away()
            await publisher.publish_all({"n": n} for n in range(100))
            await publisher.flush()  # confirmed: B1 has them
            await alice.until(lambda: alice.undelivered)
            status = await chain.status(chain.b1)
            meter = status["meter"]
            assert (meter["discarded"], meter["in_doubt"], meter["dropped"]) == (100, 0, 0)
            table = await asyncio.to_thread(shell.run, "status", chain.b1.said, code=1)
            assert cell(table, "B1", "lost") == "100", table
            assert [loss["link"] for loss in status["losses"]] == ["B1–B2"]
            assert status["losses"][0]["since_ns"] <= alice.undelivered[0].since_ns
            told = await asyncio.to_thread(shell.json, "status", chain.b1.said, "--json", code=1)
            losses = [one["losses"] for one in told["brokers"] if one["name"] == "B1"]
            assert losses == [status["losses"]]
            await chain.restart_b2()
            await bob.until_over()
            await publisher.ready()
            await publisher.publish({"n": 100})
            assert list(await read(subscription, 100)) == [100]
            after = await chain.status(chain.b1)
            assert after["losses"] == []
            assert after["meter"]["discarded"] == meter["discarded"]

    asyncio.run(main())


def test_what_a_full_queue_between_brokers_drops_is_told_with_exact_numbers(
    processes: RunningPrograms,
) -> None:
    chain = Chain(
        processes,
        link=QUICK | {"window_bytes": 2_000, "queue_bytes_max": 40_000},
        limits={"output_bytes_per_s": 100_000, "congested_bytes": 40_000, "credit_min": 1_024},
    )

    async def main() -> None:
        async with (
            asyncio.timeout(2 * WITHIN_S),
            listening(chain.b1, "alice") as alice,
            listening(chain.b3, "bob") as bob,
        ):
            subscription = await bob.client.subscribe("n >= 0")
            publisher = await alice.client.advertise("n >= 0")
            began = monotonic()
            count = 0
            dropped = 0
            while dropped < 50 and monotonic() - began < WITHIN_S:
                for _ in range(200):  # at once: whoever waits for each is slowed down with the link
                    publisher.publish_nowait({"n": count}, b"x" * 1_000)
                    count += 1
                await publisher.flush()
                dropped = (await chain.status(chain.b1))["meter"]["dropped"]
            assert dropped >= 50, "the queue did not overflow"
            await publisher.flush()
            received = await read(subscription, count - 1)
            lost = count - len(received)
            dropped = 0
            for broker in (chain.b1, chain.b2, chain.b3):
                meter = (await chain.status(broker))["meter"]
                dropped += meter["dropped"]
                assert meter["discarded"] == meter["in_doubt"] == 0
            await bob.until(lambda: sum(g.count for g in bob.gaps) + bob.client.missed == lost)
            await alice.until(lambda: sum(g.count for g in alice.undelivered) == lost)
            assert dropped == lost
            for gap in bob.gaps:
                assert (gap.publishers, gap.is_open) == (("alice",), False)

    asyncio.run(main())


def test_commands_print_a_line_when_a_gap_begins_and_one_when_it_is_over(
    processes: RunningPrograms, shell: Shell
) -> None:
    chain = Chain(processes, link={"heartbeat_s": 0.2, "resume_timeout_s": 1.0})
    held = shell.start("advertise", "n >= 0", "-b", chain.b1.said, "--name", "alice")
    held.until("alice is advertised")
    sub = shell.start("sub", "n >= 0", "-b", chain.b3.said).until("ready at B3")
    chain.b2.kill()
    lost = "B2–B3: the link was lost, and what was on its way"
    sub.until(f"by alice: {lost}")
    assert "events may be missing from 20" in sub.said
    held.until("may not reach all subscribers: B1–B2: the link was lost")
    asyncio.run(chain.restart_b2())
    sub.until(f"by alice: it is over; {lost}")
    held.until("it is over; B1–B2")
    assert "the connection broke" not in sub.said
    assert "advertised again" not in held.said
