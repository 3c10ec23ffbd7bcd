"""Real brokers with an access file: who gets in, what reaches whom, what a change does, and where no secret shows."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, time
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

import runnel
from process.commands import Shell
from process.processes import RunningProgram, RunningPrograms
from process.strangers import Stranger
from runnel.client.subscription import Subscription
from runnel.language import EVERYTHING
from runnel.modules.generations.questions import OpenGeneration, SetGoal
from runnel.modules.inspection.messages import Answer, Ask
from runnel.modules.placement.questions import Decide, MovePublisher
from runnel.node.access.passwords import make_hash
from runnel.planning.documents.plan import Plan, to_json
from runnel.wire import (
    Advertise,
    Credentials,
    Denied,
    Hello,
    Mum,
    Stage,
    Subscribe,
    raw_selection,
)
from support.certificates import make_folder

SECRETS = {name: f"{name}-secret-5081-tulip" for name in ("alice", "bob", "root", "mallory")}
HASHES = {name: make_hash(secret) for name, secret in SECRETS.items()}
RULES = {
    "alice": "publish = [\"kind = 'quote'\"]",
    "bob": "subscribe = [\"kind = 'quote'\"]",
    "root": 'roles = ["operate"]',
    "mallory": "publish = [\"kind = 'spam'\"]\nsubscribe = [\"kind = 'spam'\"]",
}


class AccessFile:
    """A file of rules that several brokers read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write()

    def write(self, **rules: str | None) -> None:
        """The users with their rules, of which some are others; None: no such user."""
        wanted = {name: rule for name, rule in (RULES | rules).items() if rule is not None}
        tables = [
            f'[users.{name}]\npassword = "{HASHES[name]}"\n{rule}' for name, rule in wanted.items()
        ]
        new = self.path.with_suffix(".new")
        new.write_text("\n".join(tables), encoding="utf-8")
        os.replace(new, self.path)


@pytest.fixture
def access(tmp_path: Path) -> AccessFile:
    return AccessFile(tmp_path / "access.toml")


@pytest.fixture
def pair(processes: RunningPrograms, access: AccessFile) -> tuple[RunningProgram, RunningProgram]:
    """B1 and B2, which dials it, with admin listeners."""
    tables: dict[str, Any] = {
        "access": {"file": str(access.path)},
        "admin": {"listen": "127.0.0.1:0"},
    }
    first = processes.broker("B1", accept=["B2"], **tables)
    return first, processes.broker("B2", {"B1": first.said}, accept=[], **tables)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    folder = tmp_path / "shell"
    folder.mkdir()
    with Shell(folder) as one:
        yield one


def join(broker: RunningProgram, user: str, **options: object) -> runnel.Client:
    return runnel.connect(broker.said, user=user, password=SECRETS[user], **options)  # type: ignore[arg-type]


def admin_of(broker: RunningProgram) -> str:
    broker.wait_log(" admin=runnel://")
    return broker.log().partition(" admin=runnel://")[2].split()[0]


async def publish_for_ever(publisher: runnel.Publisher) -> None:
    while True:
        await publisher.publish({"kind": "quote", "n": 2})


async def read_for_ever(subscription: Subscription) -> None:
    while True:
        await subscription.get(timeout=10)


async def read(subscription: Subscription, count: int) -> list[object]:
    return [(await subscription.get(timeout=20))["n"] for _ in range(count)]


def test_rules_hold_from_one_end_of_the_network_to_the_other(
    pair: tuple[RunningProgram, RunningProgram],
) -> None:
    b1, b2 = pair

    async def main() -> None:
        async with join(b1, "alice") as alice, join(b2, "bob") as bob:
            assert alice.name.startswith("alice-")
            quotes = await bob.subscribe("kind = 'quote' AND n > 0")
            for text in ("TRUE", "kind = 'spam'", "n > 0"):
                with pytest.raises(runnel.SubscriptionRefused, match="bob may subscribe only to"):
                    await bob.subscribe(text)
            with pytest.raises(runnel.AdvertisementRefused, match="bob may publish nothing"):
                await bob.advertise("TRUE")
            with pytest.raises(runnel.AdvertisementRefused, match="alice may publish only"):
                await alice.advertise("kind = 'spam'")
            with pytest.raises(runnel.AdvertisementRefused, match="may not be called 'bob'"):
                await alice.advertise("kind = 'quote'", name="bob")
            everything = await alice.advertise("TRUE")
            await everything.publish({"kind": "quote", "n": 1})
            with pytest.raises(runnel.PublicationRefused, match="alice may publish only"):
                await everything.publish({"kind": "spam", "n": 2})
            events = [{"kind": kind, "n": n} for n in range(3, 9) for kind in ("quote", "spam")]
            with pytest.raises(runnel.PublicationRefused, match="6 publications were refused"):
                await everything.publish_all(events)
            assert (everything.refused, everything.confirmed) == (7, 7)
            assert await read(quotes, 7) == [1, *range(3, 9)]

    asyncio.run(main())
    assert b1.stop() == b2.stop() == 0


def test_who_is_not_let_in_is_told_and_does_not_come_back(
    pair: tuple[RunningProgram, RunningProgram],
) -> None:
    b1, _ = pair

    async def refuse(message: str, **options: str) -> None:
        with pytest.raises(runnel.AccessDenied, match=message):
            await runnel.connect([b1.said, "127.0.0.1:1"], **options)  # type: ignore[arg-type]

    async def main() -> None:
        wrong = "wrong user or credentials"
        await refuse(wrong)
        await refuse(wrong, user="alice", password="x")
        await refuse(wrong, user="nobody", password=SECRETS["alice"])
        await refuse(wrong, user="alice", password=HASHES["alice"])
        await refuse(wrong, token="a.b.c")
        told = "alice may not be called 'bob' here; names it may have: alice, alice-\\*"
        await refuse(told, user="alice", password=SECRETS["alice"], name="bob")

    asyncio.run(main())
    b1.wait_log('access-denied reason="wrong user or credentials"')


def test_what_is_revoked_is_gone_within_a_second(
    pair: tuple[RunningProgram, RunningProgram], access: AccessFile
) -> None:
    b1, b2 = pair
    took: dict[str, float] = {}

    async def until_denied(client: runnel.Client) -> None:
        with pytest.raises(runnel.AccessDenied, match="access was revoked"):
            await client._live.wait_up()

    async def main() -> None:
        async with join(b1, "alice", close_timeout=0) as alice, join(b2, "bob") as bob:
            quotes = await bob.subscribe("kind = 'quote' AND n > 5")
            others = await bob.subscribe("kind = 'quote'")
            publisher = await alice.advertise("TRUE")
            await publisher.publish({"kind": "quote", "n": 1})
            assert await read(others, 1) == [1]

            began = monotonic()
            access.write(bob="subscribe = [\"kind = 'quote' AND n > 3\"]")
            with pytest.raises(runnel.SubscriptionRefused, match="n > 3"):
                await others.get(timeout=10)
            took["a subscription, by a rule"] = monotonic() - began
            await publisher.publish({"kind": "quote", "n": 9})
            assert await read(quotes, 1) == [9]

            began = monotonic()
            access.write(alice="publish = [\"kind = 'other'\"]")
            with pytest.raises((runnel.PublicationRefused, runnel.AdvertisementRefused)):
                await publish_for_ever(publisher)
            took["publishing, by a rule"] = monotonic() - began

            began = monotonic()
            access.write(alice=None)
            await until_denied(alice)
            took["a user"] = monotonic() - began

            began = monotonic()
            access.write(bob=None)
            b2.signal(signal.SIGHUP)
            with pytest.raises(runnel.AccessDenied):
                await quotes.get(timeout=10)
            took["a user, by SIGHUP"] = monotonic() - began
            with pytest.raises(runnel.AccessDenied):
                await join(b2, "bob")

    asyncio.run(main())
    print(took)
    assert max(took.values()) < 1.0, took
    assert b1.stop() == b2.stop() == 0


def test_a_plan_is_applied_by_who_may_and_rules_hold_in_the_next_generation(
    processes: RunningPrograms, access: AccessFile, shell: Shell, tmp_path: Path
) -> None:
    tables: dict[str, Any] = {"access": {"file": str(access.path)}}
    b1 = processes.broker("B1", accept=["B2"], state=str(tmp_path / "B1.place"), **tables)
    tables |= {"accept": [], "state": str(tmp_path / "B2.place")}
    b2 = processes.broker("B2", {"B1": b1.said}, **tables)
    plan = Plan(
        algorithm="BY HAND",
        overlay={"B2": None},
        subscriptions={"bob": "B2"},
        publishers={"alice": "B2"},
        addresses={"B1": b1.said, "B2": b2.said},
        freed=["B1"],
    )
    (shell.folder / "plan.json").write_bytes(to_json(plan))
    for name in ("alice", "root"):
        (tmp_path / name).write_text(SECRETS[name], encoding="utf-8")

    async def main() -> None:
        async with join(b1, "alice", name="alice") as alice, join(b1, "bob", name="bob") as bob:
            quotes = await bob.subscribe("kind = 'quote'")
            publisher = await alice.advertise("TRUE")
            shell.become("alice", tmp_path / "alice")
            told = await asyncio.to_thread(shell.run, "apply", "plan.json", "--yes", code=2)
            assert "alice is no operator here" in told
            shell.become("root", tmp_path / "root")
            await asyncio.to_thread(shell.run, "apply", "plan.json", "--yes")
            assert (alice.broker, bob.broker) == ("B2", "B2")
            await publisher.publish({"kind": "quote", "n": 1})
            with pytest.raises(runnel.PublicationRefused):
                await publisher.publish({"kind": "spam", "n": 2})
            with pytest.raises(runnel.SubscriptionRefused):
                await bob.subscribe("TRUE")
            assert await read(quotes, 1) == [1]

    asyncio.run(main())
    assert b1.stop() == b2.stop() == 0


def test_a_quota_slows_down_and_says_what_is_too_much(
    pair: tuple[RunningProgram, RunningProgram], access: AccessFile
) -> None:
    quota = (
        "quota = { connections = 2, subscriptions = 1, predicates = 2, publications_per_s = 50 }"
    )
    access.write(alice=f'publish = ["TRUE"]\nsubscribe = ["TRUE"]\n{quota}')
    b1, _ = pair
    b1.wait_log("access-rules users=4")

    async def main() -> None:
        async with join(b1, "alice") as one, join(b1, "alice") as two:
            with pytest.raises(
                runnel.AccessDenied, match="2 connections here, as many as its quota"
            ):
                await join(b1, "alice")
            events = await one.subscribe("n >= 0")
            with pytest.raises(runnel.SubscriptionRefused, match="1 subscriptions here"):
                await two.subscribe("n > 1")
            with pytest.raises(runnel.SubscriptionRefused, match="may have 2 predicates"):
                await two.subscribe("n > 1 AND a = 1 AND b = 1")
            publisher = await two.advertise("TRUE")
            began = monotonic()
            await publisher.publish_all({"n": n} for n in range(150))
            assert monotonic() - began > 1.5  # 50 at once, and 50 a second
            assert await read(events, 150) == list(range(150))
            assert publisher.refused == 0

    asyncio.run(main())


def test_a_certificate_is_a_login_and_who_shows_another_is_somebody_else(
    processes: RunningPrograms, tmp_path: Path
) -> None:
    files = make_folder(tmp_path / "certs", ["B1"], ["alice", "mallory"])
    path = tmp_path / "access.toml"
    table = 'certificate = "alice"\nsubscribe = ["TRUE"]\npublish = ["TRUE"]\nroles = ["read"]\n'
    path.write_text(f"[users.alice]\n{table}", encoding="utf-8")
    admin = {"listen": "127.0.0.1:0"}
    rules: dict[str, Any] = {"access": {"file": str(path)}, "accept": [], "admin": admin}
    b1 = processes.broker("B1", tls=files.node_table("B1"), **rules)

    async def main() -> None:
        for options in ({}, {"user": "alice", "password": "x"}):
            with pytest.raises(runnel.AccessDenied, match="wrong user or credentials"):
                await runnel.connect(b1.said, tls=files.tls("mallory"), **options)  # type: ignore[arg-type]
        async with runnel.connect(b1.said, tls=files.tls("alice"), name="alice-1") as alice:
            events = await alice.subscribe("TRUE")
            await (await alice.advertise("TRUE", name="alice")).publish({"n": 1})
            assert await read(events, 1) == [1]
            path.write_text(f"[users.al]\n{table}", encoding="utf-8")
            with pytest.raises(runnel.AccessDenied, match="access was revoked"):
                await events.get(timeout=10)

    asyncio.run(main())
    assert b1.stop() == 0


# -- ways to prove who one is -----------------------------------------------------------------------------

ALGORITHMS = ("HS256", "RS256", "ES256")
MAY = {
    "alice": "publish = [\"kind = 'quote'\"]",
    "bob": "subscribe = [\"kind = 'quote'\"]",
    "root": 'roles = ["operate"]',
}


class LoginFiles:
    """Users who prove who they are in one of three ways, an access file that can be written again, and its keys."""

    def __init__(self, folder: Path, how: str, algorithm: str = "ES256") -> None:
        self.how = how
        self.path = folder / "access.toml"
        self.certificates = make_folder(folder / "certs", ["B1", "B2"], [*MAY])
        self._algorithm = algorithm
        self._key, shown = make_keys(algorithm)
        (folder / "issuer.key").write_bytes(shown)
        self.write()

    def write(self, **rules: str | None) -> None:
        """The users with their rules, of which some are others; None: no such user."""
        wanted = {name: rule for name, rule in (MAY | rules).items() if rule is not None}
        tables = [f'[tokens.main]\nalgorithm = "{self._algorithm}"\nkey = "issuer.key"\n']
        for name, rule in wanted.items():
            proof = {"password": HASHES[name], "token": "main", "certificate": name}[self.how]
            tables.append(f'[users.{name}]\n{self.how} = "{proof}"\n{rule}\n')
        new = self.path.with_suffix(".new")
        new.write_text("\n".join(tables), encoding="utf-8")
        os.replace(new, self.path)

    def token(self, name: str, key: Any = None, for_s: float = 3_600) -> str:
        """A token that names a user, for as long; of the issuer, unless it is signed with another key."""
        claims = {"sub": name, "exp": time() + for_s}
        return jwt.encode(claims, key or self._key, self._algorithm)

    def proof(self, name: str) -> dict[str, Any]:
        """What `runnel.connect` is told."""
        match self.how:
            case "password":
                return {"user": name, "password": SECRETS[name]}
            case "token":
                return {"token": self.token(name)}
        return {"tls": self.certificates.tls(name)}

    def credentials(self, name: str) -> Credentials:
        """What is said behind a Hello."""
        if self.how == "password":
            return Credentials(name, SECRETS[name])
        return Credentials(token=self.token(name)) if self.how == "token" else Credentials()

    def tables(self, broker: str, **more: Any) -> dict[str, Any]:
        """Of a broker's configuration; with TLS only where certificates are the proof."""
        tls = {"tls": self.certificates.node_table(broker)} if self.how == "certificate" else {}
        return {"access": {"file": str(self.path)}, **tls, **more}

    def pair(self, processes: RunningPrograms) -> tuple[RunningProgram, RunningProgram]:
        """B1, and B2, which dials it."""
        first = processes.broker("B1", **self.tables("B1", accept=["B2"]))
        tables = self.tables("B2", accept=[])
        return first, processes.broker("B2", {"B1": first.said}, **tables)


def make_keys(algorithm: str) -> tuple[Any, bytes]:
    """A key to sign with, and the file by which a broker checks that."""
    if algorithm == "HS256":
        secret = os.urandom(32).hex()
        return secret, secret.encode()
    key: Any = (
        rsa.generate_private_key(65_537, 2_048)
        if algorithm == "RS256"
        else ec.generate_private_key(ec.SECP256R1())
    )
    shown = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return key, shown


@pytest.mark.parametrize("how", ["password", "token", "certificate"])
def test_a_client_moves_and_its_publisher_migrates_with_its_credentials(
    how: str, processes: RunningPrograms, tmp_path: Path
) -> None:
    files = LoginFiles(tmp_path, how)
    b1, b2 = files.pair(processes)

    async def main() -> None:
        async with (
            runnel.connect(b1.said, name="alice", **files.proof("alice")) as alice,
            runnel.connect(b2.said, name="bob", **files.proof("bob")) as bob,
        ):
            quotes = await bob.subscribe("kind = 'quote'")
            publisher = await alice.advertise("TRUE")
            for n, step in enumerate(("stay", "move", "migrate", "back")):
                if step == "move":
                    await bob.move_to(b1.said)
                elif step == "migrate":
                    await publisher.migrate_to(b2.said)
                    assert publisher.broker == "B2"
                elif step == "back":
                    await publisher.migrate_to(b1.said)
                await publisher.publish({"kind": "quote", "n": n})
                with pytest.raises(runnel.PublicationRefused):
                    await publisher.publish({"kind": "spam", "n": n})
                assert await read(quotes, 1) == [n]
                with pytest.raises(runnel.SubscriptionRefused):
                    await bob.subscribe("TRUE")

    asyncio.run(main())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_token_of_the_issuer_is_a_login_and_no_other(
    algorithm: str, processes: RunningPrograms, tmp_path: Path
) -> None:
    files = LoginFiles(tmp_path, "token", algorithm)
    b1 = processes.broker("B1", **files.tables("B1", accept=[]))
    others_key, _ = make_keys(algorithm)
    false = (
        *(files.token("alice", key=others_key), files.token("nobody")),
        *(files.token("alice", for_s=-60), files.token("alice")[:-6]),
    )

    async def main() -> None:
        for token in false:
            with pytest.raises(runnel.AccessDenied, match="wrong user or credentials"):
                await runnel.connect(b1.said, token=token)
        with pytest.raises(runnel.AccessDenied, match="wrong user or credentials"):
            await runnel.connect(b1.said, user="bob", token=files.token("alice"))
        async with (
            runnel.connect(b1.said, token=files.token("alice")) as alice,
            runnel.connect(b1.said, user="bob", token=files.token("bob")) as bob,
        ):
            quotes = await bob.subscribe("kind = 'quote'")
            publisher = await alice.advertise("TRUE", name="alice")
            await publisher.publish({"kind": "quote", "n": 1})
            with pytest.raises(runnel.PublicationRefused, match="alice may publish only"):
                await publisher.publish({"kind": "spam", "n": 2})
            assert await read(quotes, 1) == [1]

    asyncio.run(main())
    assert b1.stop() == 0


@pytest.mark.parametrize("how", ["token", "certificate"])
def test_revocation_within_a_second_holds_for_every_way_to_log_in(
    how: str, processes: RunningPrograms, tmp_path: Path
) -> None:
    files = LoginFiles(tmp_path, how)
    b1, b2 = files.pair(processes)
    took: dict[str, float] = {}

    async def main() -> None:
        async with (
            runnel.connect(b1.said, name="alice", **files.proof("alice")) as alice,
            runnel.connect(b2.said, name="bob", **files.proof("bob")) as bob,
        ):
            quotes = await bob.subscribe("kind = 'quote'")
            publisher = await alice.advertise("TRUE")
            await publisher.publish({"kind": "quote", "n": 1})
            assert await read(quotes, 1) == [1]
            began = monotonic()
            files.write(alice="publish = [\"kind = 'other'\"]")
            with pytest.raises((runnel.PublicationRefused, runnel.AdvertisementRefused)):
                await publish_for_ever(publisher)
            took["publishing, by a rule"] = monotonic() - began
            began = monotonic()
            files.write(bob=None)
            with pytest.raises(runnel.AccessDenied, match="access was revoked"):
                await read_for_ever(quotes)
            took["a user"] = monotonic() - began

    asyncio.run(main())
    print(took)
    assert max(took.values()) < 1.0, took
    assert b1.stop() == b2.stop() == 0


@pytest.mark.parametrize("how", ["password", "token"])
def test_an_operator_loses_his_role_within_a_second(
    how: str, processes: RunningPrograms, tmp_path: Path
) -> None:
    files = LoginFiles(tmp_path, how)
    b1 = processes.broker("B1", **files.tables("B1", accept=[]))
    decide = Ask(2, Decide.asked_as, msgspec.Raw(msgspec.msgpack.encode(Decide(7))))
    status = Ask(1, "status", msgspec.Raw(msgspec.msgpack.encode({})))
    took: dict[str, float] = {}

    def answer(one: Stranger, ask: Ask) -> bytes:
        one.say(ask)
        heard = one.hear_until(lambda frame: isinstance(frame, Answer))
        return next(frame.body for frame in heard if isinstance(frame, Answer))

    with Stranger(b1.said, "operator", "op") as one:
        one.say(files.credentials("root"))
        assert b"uptime_s" in answer(one, status)
        assert b"may give no commands" not in answer(one, decide)
        began = monotonic()
        files.write(root='roles = ["read"]')
        while b"root may give no commands" not in answer(one, decide):
            assert monotonic() - began < 10
        took["the role to operate"] = monotonic() - began
        assert b"uptime_s" in answer(one, status)
        began = monotonic()
        files.write(root="roles = []")
        b1.signal(signal.SIGHUP)
        told = [frame.reason for frame in one.hear_all() if isinstance(frame, Denied)]
        took["every role, by SIGHUP"] = monotonic() - began
        assert told == ["root is no operator here any more"]
    print(took)
    assert max(took.values()) < 1.0, took
    assert b1.stop() == 0


# -- strangers --------------------------------------------------------------------------------------------

ALL = raw_selection(EVERYTHING)


def as_user(url: str, kind: str, name: str, user: str) -> Stranger:
    one = Stranger(url, kind, name)
    one.say(Credentials(user, SECRETS[user]))
    return one


def test_strangers_and_users_without_a_role_change_nothing(
    pair: tuple[RunningProgram, RunningProgram],
) -> None:
    b1, b2 = pair
    commands = (
        OpenGeneration(2),
        SetGoal(2, 1, Stage.NEW, "runnel://127.0.0.1:1"),
        MovePublisher(1, "B2", "runnel://127.0.0.1:1"),
    )

    async def main() -> None:
        async with join(b1, "alice", name="alice") as alice, join(b2, "bob", name="bob") as bob:
            quotes = await bob.subscribe("kind = 'quote'")
            publisher = await alice.advertise("kind = 'quote'")
            await asyncio.to_thread(attack)
            await publisher.publish({"kind": "quote", "n": 1})
            assert await read(quotes, 1) == [1]
            assert (alice.gaps, bob.gaps, publisher.refused) == (0, 0, 0)
            assert alice.broker == "B1" and publisher.broker == "B1"

    def attack() -> None:
        for place in (b1.said, f"runnel://{admin_of(b1)}"):
            for order in commands:
                argument = msgspec.Raw(msgspec.msgpack.encode(order))
                for user in (None, "mallory", "alice"):
                    for kind in ("operator", "client"):
                        with Stranger(place, kind, f"{user}-{kind}") as one:
                            if user is not None:
                                one.say(Credentials(user, SECRETS[user]))
                            one.say(Ask(1, order.asked_as, argument))
                            if user is None:
                                one.finish()
                            else:
                                one.hear_all()
        for kind, name in (("broker", "B9"), ("broker", "alice")):  # joins as a broker
            with Stranger(b1.said, kind, name) as one:
                one.say(Advertise(5, ALL, "mallory", 9))
                assert not any(isinstance(frame, Hello) for frame in one.hear_all())
        for name in ("alice", "bob", "alice-1", "B2"):  # evicts a client, or a broker
            with as_user(b1.said, "client", name, "mallory") as one:
                (told,) = one.hear_all()
                assert isinstance(told, Denied) and "mallory may not be called" in told.reason
        with as_user(b1.said, "client", "mallory", "mallory") as one:  # takes a publisher
            one.hear()
            one.say(Subscribe(77, ALL, 9), Mum(5, ALL, "alice", 9, 99))
            one.hear()

    asyncio.run(main())
    assert "generation-opened" not in b1.log() and "link-up peer=B9" not in b1.log()
    assert b1.stop() == b2.stop() == 0


# -- operators --------------------------------------------------------------------------------------------


def test_commands_say_who_they_are_by_the_environment(
    pair: tuple[RunningProgram, RunningProgram],
    shell: Shell,
    tmp_path: Path,
) -> None:
    b1, _ = pair
    told = shell.run("status", b1.said, code=2)
    assert "denies access: wrong user or credentials. Say who you are with RUNNEL_USER" in told
    for name, secret in SECRETS.items():
        (tmp_path / name).write_text(f"{secret}\n", encoding="utf-8")
    shell.become("root", tmp_path / "root")
    status = shell.json("status", b1.said, "--json")
    assert {one["name"] for one in status["brokers"]} == {"B1", "B2"}
    shell.run("placement", "-b", b1.said)
    shell.become("bob", tmp_path / "bob")
    assert "bob is no operator here" in shell.run("status", b1.said, code=2)
    reader = shell.start("sub", "-b", b1.said, "kind = 'quote'", "--count", "1").until(
        "ready at B1"
    )
    shell.become("alice", tmp_path / "alice")
    holder = shell.start("advertise", "-b", b1.said, "kind = 'quote'").until("is advertised at")
    shell.run("pub", "-b", b1.said, "kind=quote", "n=1")
    assert "may publish only" in shell.run("pub", "-b", b1.said, "kind=spam", "n=1", code=2)
    assert reader.end() == 0
    assert holder.end(signal.SIGINT) in (0, 130)
    assert "kind=quote" in reader.out


def get(broker: RunningProgram, path: str, authorization: str = "") -> tuple[int, str]:
    request = urllib.request.Request(f"http://{admin_of(broker)}{path}")
    if authorization:
        request.add_header("Authorization", authorization)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, str(error.headers) + error.read().decode()


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def test_pages_are_for_who_may_read_them(pair: tuple[RunningProgram, RunningProgram]) -> None:
    b1, _ = pair
    for path in ("/healthz", "/readyz"):
        assert get(b1, path) == (200, "ok\n")
    for nobody in ("", basic("root", "x"), basic("", ""), "Basic !", "Bearer a.b.c", "Nonsense"):
        status, told = get(b1, "/metrics", nobody)
        assert status == 401 and "WWW-Authenticate: Basic" in told
    assert get(b1, "/nowhere")[0] == 401
    assert get(b1, "/metrics", basic("bob", SECRETS["bob"]))[0] == 403
    status, told = get(b1, "/metrics", basic("root", SECRETS["root"]))
    assert status == 200 and "runnel_publications_refused_total" in told


# -- secrets ----------------------------------------------------------------------------------------------


def test_no_secret_is_anywhere_but_where_it_belongs(
    pair: tuple[RunningProgram, RunningProgram], access: AccessFile, shell: Shell, tmp_path: Path
) -> None:
    """Logs, metrics, answers, errors, `repr`, tracebacks, command lines."""
    b1, b2 = pair
    seen: list[str] = []
    (tmp_path / "root").write_text(SECRETS["root"], encoding="utf-8")

    async def main() -> None:
        wrong = SECRETS["mallory"]
        for options in ({"user": "alice", "password": wrong}, {"token": wrong}):
            with pytest.raises(runnel.AccessDenied) as raised:
                await runnel.connect(b1.said, **options)  # type: ignore[arg-type]
            seen.append(repr(raised.value))
        with pytest.raises(runnel.InputError) as misused:
            runnel.connect(b1.said, password=wrong)
        seen.append(repr(misused.value))
        async with join(b1, "alice") as alice:
            publisher = await alice.advertise("TRUE")
            with pytest.raises(runnel.PublicationRefused) as refused:
                await publisher.publish({"kind": "spam"})
            seen.extend([repr(alice), repr(vars(alice)), repr(publisher), repr(refused.value)])
            session = alice._live.session
            seen.extend([repr(session.config), repr(session.homes.home)])

    asyncio.run(main())
    for raw in (b"\x00\x00\x00\x03\x1b\x93\xff", SECRETS["mallory"].encode()):
        with Stranger(b1.said, "client", "alice") as one:  # credentials that cannot be read
            one.say(raw)
            one.finish()
    with Stranger(b1.said, "operator", "op") as one:
        one.say(Credentials("root", SECRETS["root"]), Credentials("root", SECRETS["root"]))
        one.say(Ask(1, SECRETS["mallory"], ALL))
        one.finish()
    shell.become("root", tmp_path / "root")
    running = shell.start("sub", "-b", b1.said, "TRUE")
    seen.append(command_lines())
    running.end()
    seen.append(running.said)
    for command in (("status", b1.said, "--json"), ("placement", "-b", b1.said, "--json")):
        seen.append(shell.run(*command))
    seen.append(shell.run("access", "check", str(access.path)))
    seen.append(get(b1, "/metrics", basic("root", SECRETS["root"]))[1])
    access.path.write_text(f'[users.root]\npassword = "{SECRETS["root"]}"\n', encoding="utf-8")
    seen.append(shell.run("access", "check", str(access.path), code=2))
    b1.wait_log("access-file-refused")
    assert b1.stop() == b2.stop() == 0
    seen.extend([b1.log(), b2.log()])
    for secret in (*SECRETS.values(), *HASHES.values()):
        for text in seen:
            assert secret not in text, text


def command_lines() -> str:
    """What everybody on the machine can see of all processes."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
            except OSError:
                continue
    return "\n".join(found)


# -- where it must be said --------------------------------------------------------------------------------


def test_a_listener_for_other_machines_needs_rules_or_that_one_says_so(
    processes: RunningPrograms, access: AccessFile, shell: Shell
) -> None:
    told = shell.run("broker", "--name", "B1", "--listen", "0.0.0.0:0", code=2)
    assert "nobody is asked who he is" in told and "access.file" in told
    assert "allow_remote = true" in told
    rules: dict[str, Any] = {"access": {"file": str(access.path)}, "accept": []}
    b1 = processes.broker("B1", listen="0.0.0.0:0", **rules)
    b1.wait_log("passwords and tokens")
    b2 = processes.broker("B2", listen="0.0.0.0:0", allow_remote=True)
    assert b1.stop() == b2.stop() == 0


def test_a_broker_with_rules_that_cannot_be_read_does_not_start(
    shell: Shell, tmp_path: Path
) -> None:
    config = tmp_path / "b.toml"
    config.write_text('name = "B1"\n[access]\nfile = "nowhere.toml"\n', encoding="utf-8")
    told = shell.run("broker", "--config", str(config), "--listen", "127.0.0.1:0", code=2)
    assert "nowhere.toml: No such file" in told
