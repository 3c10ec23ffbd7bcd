"""Names are unique in a network: a second broker or client of one name is refused, and nobody flips."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import runnel
from process.commands import Shell
from process.peers import Peer, peer
from process.processes import QUICK, RunningPrograms
from runnel.modules.inspection.questions import Status
from runnel.net.addresses import parse_address
from runnel.operate.ask import ask

EVENTS = 400


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as one:
        yield one


async def publish(one: Peer, id: int, first: int, end: int) -> None:
    for n in range(first, end):
        await one.publish(id, n=n)
    await one.settle()


# -- two brokers of one name ----------------------------------------------------------------------------


def test_a_second_broker_of_one_name_is_refused_and_the_first_keeps_its_link(
    processes: RunningPrograms, shell: Shell
) -> None:
    b1 = processes.broker("B1", link=QUICK)
    first = processes.broker("B2", {"B1": b1.said}, link=QUICK)

    async def main() -> None:
        async with peer("alice", b1.said) as alice, peer("bob", first.said) as bob:
            id = await alice.advertise("n >= 0")
            await bob.subscribe("n >= 0")
            second = await asyncio.to_thread(
                lambda: processes.broker("B2", {"B1": b1.said}, linked=False, link=QUICK)
            )
            sent = 0
            while "refused-by" not in second.log():  # all along while it tries
                await publish(alice, id, sent, sent + 50)
                sent += 50
            await publish(alice, id, sent, sent + EVENTS)
            sent += EVENTS
            await bob.until(lambda: len(bob.got) >= sent)
            assert [n for _, n in bob.got] == list(range(sent))
            for log in (second.log(), b1.log()):
                assert first.said in log and second.said in log
                assert "give each broker a name of its own" in log
            await asyncio.to_thread(look, second.said)
            assert second.log().count("refused-by") == 1

    def look(second: str) -> None:
        there = shell.run("status", "-b", b1.said, code=1)
        here = shell.run("status", "-b", second, code=1)
        for told in (there, here):
            said = " ".join(told.split())
            assert "the name B2 is taken" in said and first.said in said and second in said

    asyncio.run(main())
    assert b1.log().count("link-up peer=B2") == 1
    assert first.stop() == 0


def test_a_broker_that_starts_again_elsewhere_is_no_second_one(processes: RunningPrograms) -> None:
    b1 = processes.broker("B1", link=QUICK)
    for _ in range(3):
        processes.broker("B2", {"B1": b1.said}, link=QUICK).kill()
    assert "broker-refused" not in b1.log()


def test_a_broker_that_hangs_gives_way_to_another(processes: RunningPrograms) -> None:
    """Its connection looks alive, and nothing comes."""
    b1 = processes.broker("B1", link=QUICK)
    first = processes.broker("B2", {"B1": b1.said}, link=QUICK)
    first.popen.send_signal(19)  # SIGSTOP
    processes.broker("B2", {"B1": b1.said}, link=QUICK)
    assert "broker-refused" not in b1.log()


def test_two_brokers_of_one_name_in_different_places_are_named(
    processes: RunningPrograms, shell: Shell
) -> None:
    b1 = processes.broker("B1", link=QUICK)
    b3 = processes.broker("B3", {"B1": b1.said}, link=QUICK)
    one = processes.broker("B2", {"B1": b1.said}, link=QUICK)
    two = processes.broker("B2", {"B3": b3.said}, link=QUICK)
    told = shell.json("status", "-b", b1.said, "--json", code=1)
    (reason,) = told["degraded"]
    assert "two brokers are called B2" in reason and one.said in reason and two.said in reason


def test_a_loop_is_named(processes: RunningPrograms, shell: Shell) -> None:
    b1 = processes.broker("B1", link=QUICK)
    b2 = processes.broker("B2", {"B1": b1.said}, link=QUICK)
    assert shell.json("status", "-b", b1.said, "--json")["degraded"] == []
    processes.broker("B3", {"B1": b1.said, "B2": b2.said}, link=QUICK)
    told = shell.json("status", "-b", b1.said, "--json", code=1)
    (reason,) = told["degraded"]
    assert reason.startswith("the links B") and "form a loop" in reason
    assert all(name in reason for name in ("B1", "B2", "B3"))


# -- two clients of one name ------------------------------------------------------------------------------


def test_a_client_whose_name_is_taken_at_another_broker_is_told_as_at_its_own(
    processes: RunningPrograms,
) -> None:
    b1 = processes.broker("B1", link=QUICK)
    b2 = processes.broker("B2", {"B1": b1.said}, link=QUICK)
    b3 = processes.broker("B3", {"B2": b2.said}, link=QUICK)

    async def main() -> None:
        async with asyncio.timeout(60), runnel.connect(b1.said, name="other") as other:
            publisher = await other.advertise("n >= 0")
            first = runnel.connect(b3.said, name="alice")
            await first
            subscription = await first.subscribe("n >= 0")
            async with runnel.connect(b1.said, name="alice") as second:
                with pytest.raises(
                    runnel.ConnectionFailed, match=r"another client called alice.* B1"
                ):
                    await subscription.get(timeout=20)
                mine = await second.subscribe("n >= 0")
                await publisher.publish({"n": 1})
                assert (await mine.get())["n"] == 1
                # To move is not to be another client.
                await second.move_to(b3.said)
                await publisher.publish({"n": 2})
                assert (await mine.get())["n"] == 2
            await first.close()

    asyncio.run(main())
    assert "client-displaced peer=alice by=B1" in b3.log()
    status = ask(parse_address(b2.said), Status())
    assert {link["name"] for link in status["links"]} == {"B1", "B3"}
