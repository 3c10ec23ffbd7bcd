"""The fuzz of tests/property/test_fuzz_peers.py over real sockets: two broker processes, and clients that go on.

Three times: open brokers; guarded ones, whose strangers have a user that may do everything but take the names of others
and give commands; and the admin listeners of guarded ones, with an operator who may only read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any

import jwt
import pytest

from process.peers import Peer, peer
from process.processes import RunningProgram, RunningPrograms
from process.shouting import Shouter
from runnel.wire import Credentials
from support.effort import fuzz_frames

FRAMES = 1_000
SHARES = {"open": 0.25, "guarded": 0.18, "admin": 0.07}
"""What each of the three runs has of the frames of `make fuzz`, of which half are for brokers in memory."""

MEMORY_GROWTH_MAX = 16 << 20
PAUSE_S = 0.02

# Short memories: what a stranger leaves behind is gone before the next thousand have come.
FORGETFUL = {"heartbeat_s": 1.0, "resume_timeout_s": 0.5}
SECRET = "9f0c" * 16
USERS = """
[tokens.main]
algorithm = "HS256"
key = "issuer.secret"
[users.alice]
token = "main"
publish = ["TRUE"]
[users.bob]
token = "main"
subscribe = ["TRUE"]
[users.stranger]
token = "main"
publish = ["TRUE"]
subscribe = ["TRUE"]
names = ["client-*", "operator-*"]
roles = ["read"]
"""


@dataclass(slots=True)
class FuzzedBrokers:
    """Two brokers with every module, where strangers come to, and as what."""

    brokers: tuple[RunningProgram, RunningProgram]
    urls: Sequence[str]
    kinds: Sequence[str]
    is_guarded: bool

    def credentials(self, user: str) -> Callable[[], Credentials] | None:
        """How a user proves who it is; None where nobody is asked."""
        if not self.is_guarded:
            return None
        token = jwt.encode({"sub": user, "exp": time() + 86_400}, SECRET, "HS256")
        return lambda: Credentials(token=token)


def start(how: str, processes: RunningPrograms, folder: Path) -> FuzzedBrokers:
    is_guarded = how != "open"
    tables: dict[str, Any] = {"client_link": FORGETFUL}
    if is_guarded:
        (folder / "issuer.secret").write_text(SECRET, encoding="ascii")
        (folder / "access.toml").write_text(USERS, encoding="utf-8")
        tables["access"] = {"file": str(folder / "access.toml")}
    if how == "admin":
        tables["admin"] = {"listen": "127.0.0.1:0"}
    first = ["B2", "F1-0", "F1-1"]
    b1 = processes.broker("B1", accept=first, placement={"algorithm": "grape"}, **tables)
    tables |= {"placement": {"algorithm": "pop"}, "profiles": {"enabled": True}}
    b2 = processes.broker("B2", {"B1": b1.said}, accept=["F2-0", "F2-1"], **tables)
    if how == "admin":
        admins = [broker.wait_admin() for broker in (b1, b2)]
        return FuzzedBrokers((b1, b2), admins, ("operator",), is_guarded)
    kinds = ("client", "client", "operator", "broker", "broker")
    return FuzzedBrokers((b1, b2), [b1.said, b2.said], kinds, is_guarded)


@pytest.mark.parametrize("how", SHARES)
def test_strangers_that_say_anything_cost_others_nothing(
    how: str, processes: RunningPrograms, tmp_path: Path
) -> None:
    fuzzed = start(how, processes, tmp_path)
    frames = fuzz_frames(FRAMES, SHARES[how])
    b1, b2 = fuzzed.brokers

    async def main() -> list[Shouter]:
        async with (
            peer("alice", b2.said, credentials=fuzzed.credentials("alice")) as alice,
            peer("bob", b1.said, credentials=fuzzed.credentials("bob")) as bob,
        ):
            id = await alice.advertise("v >= 0")
            wanted = await bob.subscribe("v >= 0")
            shouters = [
                Shouter(
                    fuzzed.urls, seed, fuzzed.kinds, (id, wanted), fuzzed.credentials("stranger")
                )
                for seed in (0, 1)
            ]
            for one in shouters:
                one.together = shouters
            published = await publish_beside(alice, id, 0, frames // 4, shouters)
            await bob.until(lambda: len(bob.got) >= published)
            before = [broker.memory_bytes() for broker in fuzzed.brokers]
            published = await publish_beside(alice, id, published, frames, shouters)
            await bob.until(lambda: len(bob.got) >= published)
            after = [broker.memory_bytes() for broker in fuzzed.brokers]
            grown = [now - was for now, was in zip(after, before, strict=True)]
            assert max(grown) < MEMORY_GROWTH_MAX, grown
            assert [n for _, n in bob.got] == list(range(published))
            assert (alice.confirmed, alice.unconfirmed, bob.missed) == (published, 0, 0)
            for client in (alice, bob):
                assert (client.homes_down, client.homes_up) == (0, [True])
            return shouters

    shouters = asyncio.run(main())
    check_shouters(shouters, frames, fuzzed.is_guarded)
    for broker in fuzzed.brokers:
        log = broker.log()
        assert "link-lost peer=B" not in log and " bug " not in log
        assert "generation-opened" not in log
    assert [b2.stop(), b1.stop()] == [0, 0]


def check_shouters(shouters: list[Shouter], frames: int, is_guarded: bool) -> None:
    """Brokers took as much as they were to, most of what was said, and everything that there is to say."""
    taken, said = sum(one.taken.total() for one in shouters), sum(one.said for one in shouters)
    print(
        f"{taken} frames taken of {said}, from {sum(one.strangers for one in shouters)} strangers"
    )
    assert taken >= frames and taken > said / 2
    assert not shouters[0].missing
    if is_guarded:
        assert all(one.refused_commands for one in shouters)


async def publish_beside(
    alice: Peer, id: int, first: int, frames: int, shouters: list[Shouter]
) -> int:
    """Publish for as long as strangers shout, two at a time; the number of the next publication."""
    given_up: list[bool] = []
    shouting = [
        asyncio.create_task(asyncio.to_thread(one.shout, frames // 2, lambda: bool(given_up)))
        for one in shouters
    ]
    number = first
    try:
        while not all(task.done() for task in shouting):
            for _ in range(10):
                await alice.publish(id, n=number, v=number)
                number += 1
            await alice.settle()
            await asyncio.wait(shouting, timeout=PAUSE_S)
    finally:
        given_up.append(True)
        await asyncio.gather(*shouting)
    return number
