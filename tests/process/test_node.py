"""Brokers as processes: networks of them deliver what they must, and each ends with the code it promises."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from process.peers import Peer, peer
from process.processes import RUNNEL, RunningProgram, RunningPrograms
from runnel.modules.inspection.questions import Status
from runnel.net.addresses import parse_address
from runnel.operate.ask import ask
from runnel.testing.proxy import Proxy

CHAIN = {"B1": "", "B2": "B1", "B3": "B2"}
TREE = {"B1": "", "B2": "B1", "B3": "B1", "B4": "B2", "B5": "B2", "B6": "B3", "B7": "B3"}


def network(processes: RunningPrograms, dials: dict[str, str]) -> dict[str, RunningProgram]:
    """Brokers that each dial one that stands before them."""
    brokers: dict[str, RunningProgram] = {}
    for name, up in dials.items():
        brokers[name] = processes.broker(name, {up: brokers[up].said} if up else {})
    return brokers


def test_a_chain_of_three_delivers_what_is_wanted_in_order(processes: RunningPrograms) -> None:
    brokers = network(processes, CHAIN)

    async def main() -> None:
        async with (
            peer("alice", brokers["B1"].said) as alice,
            peer("bob", brokers["B2"].said) as bob,
            peer("carol", brokers["B3"].said) as carol,
        ):
            quotes = await alice.advertise("n >= 0")
            await bob.subscribe("n < 500")
            await carol.subscribe("n >= 0 AND even = TRUE")
            for n in range(1000):
                await alice.publish(quotes, n=n, even=n % 2 == 0)
            await alice.settle()
            await bob.until(lambda: len(bob.got) >= 500)
            await carol.until(lambda: len(carol.got) >= 500)
            assert bob.got == [("alice", n) for n in range(500)]
            assert carol.got == [("alice", n) for n in range(0, 1000, 2)]
            assert alice.confirmed == 1000

    asyncio.run(main())
    assert [broker.stop() for broker in brokers.values()] == [0, 0, 0]


async def _publish_all(one: Peer, id: int, count: int) -> None:
    for n in range(count):
        await one.publish(id, n=n)
    await one.settle()


def test_a_tree_of_seven_delivers_from_everywhere_to_everywhere(processes: RunningPrograms) -> None:
    brokers = network(processes, TREE)
    count = 200

    async def main() -> None:
        async with AsyncExitStack() as stack:
            peers = [
                await stack.enter_async_context(peer(f"at-{name}", broker.said))
                for name, broker in brokers.items()
            ]
            ids = [await one.advertise("n >= 0") for one in peers]
            for one in peers:
                await one.subscribe("n >= 0")
            await asyncio.gather(*(_publish_all(*at, count) for at in zip(peers, ids, strict=True)))
            for one in peers:
                await one.until(lambda one=one: len(one.got) >= count * len(peers))  # type: ignore[misc]
                for name in brokers:
                    assert [n for who, n in one.got if who == f"at-{name}"] == list(range(count))
                assert len(one.got) == count * len(peers)

    asyncio.run(main())
    assert [broker.stop() for broker in brokers.values()] == [0] * 7


# -- exit codes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_broker_with_0(
    processes: RunningPrograms, number: signal.Signals
) -> None:
    broker = processes.broker("B1")
    broker.signal(number)
    assert broker.wait() == 0
    assert f"signal={number.name}" in broker.log()
    assert "stopped exit_code=0" in broker.log()


def _stuck(processes: RunningPrograms, drain_s: float, end: Any) -> int:
    """The exit code of a broker that is told to stop while a subscriber does not take what is its own."""
    patient = {"heartbeat_s": 30.0, "resume_timeout_s": 60.0}
    broker = processes.broker("B1", drain_s=drain_s, client_link=patient)

    async def main() -> int:
        with Proxy(broker.said) as proxy:
            async with peer("alice", broker.said) as alice, peer("bob", str(proxy.address)) as bob:
                id = await alice.advertise("n >= 0")
                await bob.subscribe("n >= 0")
                proxy.stall()
                await _publish_all(alice, id, 10)
                return await asyncio.to_thread(end, broker)

    return asyncio.run(main())


def test_a_drain_that_takes_too_long_ends_with_1_and_says_for_whom(
    processes: RunningPrograms,
) -> None:
    logs = []

    def end(broker: RunningProgram) -> int:
        code = broker.stop()
        logs.append(broker.log())
        return code

    assert _stuck(processes, 0.5, end) == 1
    assert 'drain-given-up peers=["bob"]' in logs[0]


def test_a_second_signal_ends_at_once_with_130(processes: RunningPrograms) -> None:
    def end(broker: RunningProgram) -> int:
        broker.signal(signal.SIGTERM)
        broker.wait_log("draining")
        broker.signal(signal.SIGTERM)
        return broker.wait()

    assert _stuck(processes, 25.0, end) == 130


def _refused(*arguments: str) -> str:
    """What a broker says that ends with exit code 2."""
    done = subprocess.run(
        [RUNNEL, "broker", *arguments], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_taken_port_is_refused(processes: RunningPrograms) -> None:
    taken = processes.broker("B1").said
    assert f"{taken} is taken" in _refused("--name", "B2", "--listen", taken)


def test_listening_beyond_this_machine_is_refused_unless_allowed() -> None:
    said = _refused("--name", "B1", "--listen", "0.0.0.0:0")
    assert "nobody is asked who he is" in said
    assert "--allow-remote" in said


def test_a_wrong_configuration_is_refused_with_file_and_key(tmp_path: Path) -> None:
    path = tmp_path / "b1.toml"
    path.write_text('name = "B1"\n[link]\nheartbeat_s = -1\n', encoding="utf-8")
    said = _refused("--config", str(path))
    assert f"{path}: link.heartbeat_s: must be at least 0.05, got -1" in said
    assert "say --name NAME" in _refused()


def test_an_address_that_cannot_be_told_is_refused(tmp_path: Path) -> None:
    said = _refused("--name", "B1", "--listen", "127.0.0.1:0", "--port-file", f"{tmp_path}/no/file")
    assert "cannot write the address to" in said


# -- how it is started --------------------------------------------------------------------------------


def test_flags_stand_above_the_file_and_the_port_file_tells_where(
    processes: RunningPrograms, tmp_path: Path
) -> None:
    config = tmp_path / "b1.toml"
    config.write_text('name = "B1"\n[log]\nlevel = "info"\n', encoding="utf-8")
    where = tmp_path / "where"
    arguments = ["--config", str(config), "--name", "B9", "--listen", "127.0.0.1:0"]
    flags = ["--allow-remote", "--log-format", "json", "--port-file", str(where)]
    broker = processes.start([RUNNEL, "broker", *arguments, *flags], "B9")
    assert where.read_text(encoding="utf-8").strip() == broker.said
    assert broker.stop() == 0
    entries = [json.loads(line) for line in broker.log().splitlines()]
    assert {entry["broker"] for entry in entries} == {"B9"}
    assert entries[0]["event"] == "listening"
    assert entries[0]["address"] == broker.said


def test_the_example_can_be_written_to_a_file_and_used(
    processes: RunningPrograms, tmp_path: Path
) -> None:
    printed = subprocess.run(
        [RUNNEL, "broker", "--example-config"], capture_output=True, text=True, check=True
    )
    path = tmp_path / "example.toml"
    path.write_text(printed.stdout, encoding="utf-8")
    listen = ["--listen", "127.0.0.1:0"]
    broker = processes.start([RUNNEL, "broker", "--config", str(path), *listen], "example")
    assert broker.stop() == 0


def test_a_neighbour_that_is_not_there_is_told_once_and_found_later(
    processes: RunningPrograms,
) -> None:
    quick = {"heartbeat_s": 0.1}
    first = processes.broker("B1", link=quick)
    address = first.said.removeprefix("runnel://")
    first.kill()
    second = processes.broker("B2", {"B1": address}, linked=False, link=quick)
    second.wait_log("dial-failed peer=B1")
    third = processes.broker("B3", {"B2": second.said}, link=quick)
    again = processes.broker("B1", listen=address, link=quick)
    second.wait_log("link-up peer=B1")

    async def main() -> None:
        async with peer("alice", again.said) as alice, peer("bob", third.said) as bob:
            id = await alice.advertise("n >= 0")
            await bob.subscribe("n >= 0")
            await _publish_all(alice, id, 10)
            await bob.until(lambda: len(bob.got) >= 10)

    asyncio.run(main())
    assert second.log().count("dial-failed") == 1


def test_a_slowed_broker_serves_at_its_rate_and_stays_alive(processes: RunningPrograms) -> None:
    quick = {"heartbeat_s": 0.3}
    slow = processes.broker("B1", limits={"matching_delay_ms": 5.0}, link=quick, client_link=quick)
    near = processes.broker("B2", {"B1": slow.said}, link=quick)
    address = parse_address(slow.said)

    def status() -> dict[str, Any]:
        return ask(address, Status())

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with peer("alice", slow.said, 0.3) as alice, peer("bob", near.said) as bob:
            id = await alice.advertise("n >= 0")
            await bob.subscribe("n >= 0")
            before, began = await loop.run_in_executor(None, status), loop.time()
            for n in range(600):
                await alice.publish(id, n=n)
            alice.flush()
            await bob.until(lambda: len(bob.got) >= 200)
            asked = loop.time()
            halfway = await loop.run_in_executor(None, status)
            assert loop.time() - asked < 1.0, "a question waits for no publication"
            assert 0 < halfway["gauges"]["waiting_publications"] <= 400
            await bob.until(lambda: len(bob.got) >= 600)
            took, after = loop.time() - began, await loop.run_in_executor(None, status)
            assert [n for _, n in bob.got] == list(range(600))
            assert 3.0 <= took < 4.5, "200 publications a second, whatever else the machine does"
            spent_ns = after["meter"]["matching_ns"] - before["meter"]["matching_ns"]
            assert spent_ns == pytest.approx(600 * 5_000_000, rel=0.02)
            assert (alice.homes_up, alice.homes_down, bob.homes_down) == ([True], 0, 0)

    asyncio.run(main())
    assert "link-lost" not in near.log()
    assert slow.stop() == 0


def test_limited_output_is_late_but_complete(processes: RunningPrograms) -> None:
    broker = processes.broker("B1", limits={"output_bytes_per_s": 200_000})

    async def main() -> float:
        loop = asyncio.get_running_loop()
        async with peer("alice", broker.said) as alice, peer("bob", broker.said) as bob:
            id = await alice.advertise("n >= 0")
            await bob.subscribe("n >= 0")
            began = loop.time()
            for n in range(100):
                await alice.publish(id, b"x" * 4_000, n=n)
            await alice.settle()
            await bob.until(lambda: len(bob.got) >= 100)
            assert [n for _, n in bob.got] == list(range(100))
            return loop.time() - began

    assert asyncio.run(main()) >= 400_000 / 200_000 - 0.1  # what may go at once, and then some
    assert broker.stop() == 0
