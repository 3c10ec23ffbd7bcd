"""Storms: what happens a thousand times in a moment is told in a few lines, and who was there before is served on."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

import runnel
from process.peers import peer
from process.processes import RunningPrograms
from process.strangers import Stranger
from runnel.modules.inspection.questions import Status
from runnel.net.addresses import parse_address
from runnel.node.access.passwords import make_hash
from runnel.operate.ask import AskError, ask

FILES = 48
NEWCOMERS = 200
PROGRAM = "from runnel.__main__ import main; main()"
LOOPS = {"uvloop": "", "asyncio": "import sys; sys.modules['uvloop'] = None; "}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_broker_without_descriptors_says_so_once_and_serves_who_is_there(
    processes: RunningPrograms, loop: str
) -> None:
    command = [sys.executable, "-c", LOOPS[loop] + PROGRAM, "broker", "--name", "B1"]
    listen = ["--listen", "127.0.0.1:0"]
    b1 = processes.start([*command, *listen], "B1")
    b1.wait_log(f"loop={loop}")
    resource.prlimit(b1.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
    where = parse_address(b1.said)

    async def main() -> None:
        async with peer("alice", b1.said) as alice, peer("bob", b1.said) as bob:
            id = await alice.advertise("n >= 0")
            await bob.subscribe("n >= 0")
            with ExitStack() as stack:
                await asyncio.to_thread(crowd_in, stack)
                await asyncio.to_thread(b1.wait_log, "descriptors-exhausted")
                for n in range(100):
                    await alice.publish(id, n=n)
                await bob.until(lambda: len(bob.got) == 100)
            while not (await asyncio.to_thread(is_answering)):
                pass  # the newcomers are gone: there is room again
            assert (alice.homes_down, bob.homes_down) == (0, 0)

    def crowd_in(stack: ExitStack) -> None:
        """All connect while the broker is too busy to accept any: nobody may have to dial again."""
        os.kill(b1.pid, signal.SIGSTOP)
        try:
            for _ in range(NEWCOMERS):
                newcomer = socket.create_connection((where.host, where.port), timeout=0.9)
                stack.enter_context(newcomer)
        finally:
            os.kill(b1.pid, signal.SIGCONT)

    def is_answering() -> bool:
        try:
            return bool(ask(where, Status())["name"] == "B1")
        except AskError:
            return False

    asyncio.run(main())
    assert b1.stop() == 0
    told = [line for line in b1.log().splitlines() if "descriptors-exhausted" in line]
    assert f"limit={FILES} " in told[0] and "raise the limit: LimitNOFILE=" in told[0]
    assert len(told) == 2 and "repeated=" in told[1]
    assert "network-error" not in b1.log()


def test_strangers_who_say_nothing_keep_nobody_out(
    processes: RunningPrograms, tmp_path: Path
) -> None:
    """Where people have to say who they are, those who have not done so give way to those who come."""
    rules = tmp_path / "access.toml"
    rules.write_text(f'[users.alice]\npassword = "{make_hash("secret")}"\n', encoding="utf-8")
    tables: dict[str, Any] = {"access": {"file": str(rules)}, "admin": {"listen": "127.0.0.1:0"}}
    b1 = processes.broker("B1", accept=[], **tables)
    b1.wait_log(" admin=runnel://")
    admin = parse_address(b1.log().partition(" admin=runnel://")[2].split()[0])
    resource.prlimit(b1.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
    where = parse_address(b1.said)
    for at in (where, admin):
        with ExitStack() as stack:
            for n in range(NEWCOMERS):
                silent = stack.enter_context(socket.create_connection((at.host, at.port)))
                with suppress(OSError):
                    silent.sendall(b"G" * (n % 2))  # half of a request
            b1.wait_log("descriptors-exhausted")
            with runnel.blocking.connect(b1.said, user="alice", password="secret", timeout=4):
                pass  # while all of them are still there
    assert b1.stop() == 0


def test_a_storm_of_strangers_is_a_few_lines(processes: RunningPrograms) -> None:
    b1 = processes.broker("B1")
    for number in range(NEWCOMERS):
        with Stranger(b1.said) as stranger:
            stranger.say(b"nonsense %d " % number * 10)
            stranger.hear_all()
    assert b1.stop() == 0
    told = [line for line in b1.log().splitlines() if "peer-error" in line]
    assert 1 < len(told) <= 6 and f"repeated={NEWCOMERS - len(told) + 1}" in told[-1]
