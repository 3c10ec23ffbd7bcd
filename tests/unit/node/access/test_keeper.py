"""The keeper: passwords, tokens and certificates; files that change; what it costs to be wrong."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from runnel.broker.permits import Permit
from runnel.errors import InputError
from runnel.node.access import keeper as keeping
from runnel.node.access.keeper import LOOK_EVERY_S, AccessKeeper, TooManyLogins
from runnel.node.access.passwords import is_password, make_hash
from runnel.wire import Credentials

PASSWORD = "correct horse battery staple"
HASH = make_hash(PASSWORD)
SECRET = "0123456789abcdef0123456789abcdef"
PRIVATE: dict[str, Any] = {
    "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
}
USERS = f"""
[users.alice]
password = "{HASH}"
subscribe = ["a > 0"]
[users.bob]
token = "main"
[users.carol]
certificate = "carol.example"
"""


class Kept:
    """A keeper of a file in a folder, and what it called back for."""

    def __init__(self, folder: Path, tables: str = "", clock: Callable[[], float] = time) -> None:
        self.path = folder / "access.toml"
        self.path.write_text(USERS + tables, encoding="utf-8")
        self.changes = 0
        self.complaints: list[str] = []
        self.happened = asyncio.Event()
        self.keeper = AccessKeeper(self.path, self._change, self._complain, clock)

    def _change(self) -> None:
        self.changes += 1
        self.happened.set()

    def _complain(self, reason: str) -> None:
        self.complaints.append(reason)
        self.happened.set()

    async def wait(self) -> None:
        async with asyncio.timeout(10):
            await self.happened.wait()
        self.happened.clear()


def issuer(folder: Path, algorithm: str = "HS256", **more: str) -> str:
    """A table [tokens.main], and its key beside it."""
    if algorithm == "HS256":
        key = SECRET.encode()
    else:
        key = (
            PRIVATE[algorithm]
            .public_key()
            .public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
    (folder / "key").write_bytes(key)
    lines = "".join(f'{name} = "{value}"\n' for name, value in more.items())
    return f'[tokens.main]\nalgorithm = "{algorithm}"\nkey = "key"\n{lines}'


def token(algorithm: str = "HS256", key: Any = None, **claims: Any) -> str:
    said = {"sub": "bob", "exp": time() + 100} | claims
    given = {name: value for name, value in said.items() if value is not None}
    return jwt.encode(given, key or PRIVATE.get(algorithm, SECRET), algorithm=algorithm)


def ask(kept: Kept, credentials: Credentials, certificate: str = "") -> Permit | None:
    return asyncio.run(kept.keeper.authenticate(credentials, certificate))


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path, issuer(tmp_path))


def test_a_password_lets_its_user_in_and_nobody_else(kept: Kept) -> None:
    permit = ask(kept, Credentials("alice", PASSWORD))
    assert permit is not None and permit.user == "alice"
    assert permit.subscribe.matches({"a": 1})
    for user, password in (
        *[("alice", PASSWORD[:-1]), ("alice", PASSWORD + " "), ("alice", ""), ("", PASSWORD)],
        *[("bob", PASSWORD), ("carol", PASSWORD), ("nobody", PASSWORD), ("ALICE", PASSWORD)],
        *[("alice", HASH), ("alice\0", PASSWORD), ("alice", "\udcff")],
    ):
        assert ask(kept, Credentials(user, password)) is None, (user, password)


def test_a_password_that_was_right_is_right_at_once_and_a_wrong_one_is_not_remembered(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[str] = []

    def counted(password: str, hashed: str) -> bool:
        checks.append(password)
        return is_password(password, hashed)

    monkeypatch.setattr(keeping, "is_password", counted)
    for _ in range(3):
        assert ask(kept, Credentials("alice", PASSWORD)) is not None
    assert len(checks) == 1
    for _ in range(3):
        assert ask(kept, Credentials("alice", "wrong")) is None
    assert len(checks) == 4
    memory = repr(vars(kept.keeper))
    assert PASSWORD not in memory and "wrong" not in memory


def test_a_user_who_does_not_exist_takes_as_long_as_one_who_does(kept: Kept) -> None:
    def seconds(user: str) -> float:
        began = perf_counter()
        ask(kept, Credentials(user, "wrong"))
        return perf_counter() - began

    there, not_there = (min(seconds(user) for _ in range(5)) for user in ("alice", "nobody"))
    assert not_there > there / 2


@pytest.mark.parametrize("algorithm", ["HS256", "RS256", "ES256"])
def test_a_token_names_its_user(tmp_path: Path, algorithm: str) -> None:
    kept = Kept(tmp_path, issuer(tmp_path, algorithm, issuer="me", audience="runnel"))
    good = {"iss": "me", "aud": "runnel"}
    permit = ask(kept, Credentials(token=token(algorithm, **good)))
    assert permit is not None and permit.user == "bob" and permit.until_s < time() + 200
    assert ask(kept, Credentials("bob", token=token(algorithm, **good))) is not None
    other = {
        "HS256": "x" * 32,
        "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
        "ES256": ec.generate_private_key(ec.SECP256R1()),
    }[algorithm]
    bad = {
        "expired": token(algorithm, **good, exp=time() - 60),
        "for ever": token(algorithm, **good, exp=None),
        "not yet": token(algorithm, **good, nbf=time() + 60),
        "another issuer": token(algorithm, **good | {"iss": "you"}),
        "another audience": token(algorithm, **good | {"aud": "x"}),
        "no audience": token(algorithm, iss="me"),
        "another key": token(algorithm, other, **good),
        "a user by password": token(algorithm, **good, sub="alice"),
        "nobody": token(algorithm, **good, sub="nobody"),
        "a number": jwt.encode(
            {**good, "exp": time() + 9}, PRIVATE.get(algorithm, SECRET), algorithm
        ),
        "nonsense": "a.b.c",
        "cut": token(algorithm, **good)[:-3],
    }
    for what, said in bad.items():
        assert ask(kept, Credentials(token=said)) is None, what
    assert ask(kept, Credentials("alice", token=token(algorithm, **good))) is None


def test_the_algorithm_is_the_issuers_and_not_the_tokens(tmp_path: Path) -> None:
    """Or a public key would be a secret that everybody knows, and `none` a signature."""
    kept = Kept(tmp_path, issuer(tmp_path, "RS256"))
    claims = {"sub": "bob", "exp": time() + 100}
    assert ask(kept, Credentials(token=jwt.encode(claims, "", algorithm="none"))) is None
    public = (tmp_path / "key").read_bytes()

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    said = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(json.dumps(claims).encode())
    forged = said + b"." + part(hmac.digest(public, said, "sha256"))
    assert ask(kept, Credentials(token=forged.decode())) is None


def test_a_certificate_names_its_user(kept: Kept) -> None:
    permit = ask(kept, Credentials(), "carol.example")
    assert permit is not None and permit.user == "carol"
    assert ask(kept, Credentials("carol"), "carol.example") is not None
    assert ask(kept, Credentials("alice"), "carol.example") is None
    assert ask(kept, Credentials(), "alice") is None
    assert ask(kept, Credentials(), "") is None
    assert ask(kept, Credentials("carol"), "") is None


def test_of_too_many_logins_some_are_sent_away(kept: Kept) -> None:
    async def main() -> tuple[int, int]:
        tries = [
            kept.keeper.authenticate(Credentials("alice", "wrong"))
            for _ in range(keeping.WAITING_MAX + 10)
        ]
        tasks = [asyncio.ensure_future(one) for one in tries]
        _, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        sent_away = sum(one.done() and isinstance(one.exception(), TooManyLogins) for one in tasks)
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return sent_away, len(tasks)

    sent_away, _ = asyncio.run(main())
    assert sent_away == 10
    kept.keeper.stop()


def test_who_tries_passwords_keeps_nobody_out_who_was_there_before_or_has_a_token(
    tmp_path: Path,
) -> None:
    kept = Kept(tmp_path, issuer(tmp_path))
    right = Credentials("alice", PASSWORD)

    async def main() -> None:
        assert await kept.keeper.authenticate(right)
        flood = [
            asyncio.ensure_future(kept.keeper.authenticate(Credentials("alice", "wrong")))
            for _ in range(keeping.WAITING_MAX)
        ]
        await asyncio.sleep(0)  # all of them wait now
        with pytest.raises(TooManyLogins):
            await kept.keeper.authenticate(Credentials("alice", "wrong"))
        assert await kept.keeper.authenticate(right)
        shown = Credentials(token=token())
        assert await kept.keeper.authenticate(shown)
        assert not any(one.done() for one in flood[-100:])
        for one in flood:
            one.cancel()
        await asyncio.gather(*flood, return_exceptions=True)

    asyncio.run(main())
    kept.keeper.stop()


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_key_of_another_kind_is_noticed_before_the_first_login(
    tmp_path: Path, algorithm: str
) -> None:
    other = {"RS256": "ES256", "ES256": "RS256"}[algorithm]
    tables = issuer(tmp_path, other).replace(other, algorithm)
    with pytest.raises(InputError, match=f"tokens.main.key: is no key for {algorithm}"):
        Kept(tmp_path, tables)


# -- what changes -----------------------------------------------------------------------------------------


def write(path: Path, text: str) -> None:
    """As an editor does: another file in its place."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


def test_a_file_that_changes_holds_within_a_second(tmp_path: Path) -> None:
    async def main() -> None:
        kept = Kept(tmp_path, issuer(tmp_path))
        kept.keeper.watch()
        permit = await kept.keeper.authenticate(Credentials("alice", PASSWORD))
        assert permit is not None
        began = perf_counter()
        write(kept.path, USERS.replace("a > 0", "b > 0") + issuer(tmp_path))
        await kept.wait()
        assert perf_counter() - began < 1
        renewed = kept.keeper.renew(permit)
        assert renewed is not None and renewed.subscribe.matches({"b": 1})
        write(kept.path, USERS.replace("[users.alice]", "[users.al]") + issuer(tmp_path))
        await kept.wait()
        assert kept.keeper.renew(permit) is None
        assert await kept.keeper.authenticate(Credentials("alice", PASSWORD)) is None
        kept.keeper.stop()

    asyncio.run(main())


@pytest.mark.parametrize("text", ["", "[users.a", "users = {}", None])
def test_a_file_that_cannot_be_used_changes_nothing_and_says_so(
    tmp_path: Path, text: str | None
) -> None:
    async def main() -> None:
        kept = Kept(tmp_path, issuer(tmp_path))
        kept.keeper.watch()
        if text is None:
            kept.path.unlink()
        else:
            kept.path.write_text(text, encoding="utf-8")
        await kept.wait()
        assert len(kept.complaints) == 1 and not kept.changes
        assert await kept.keeper.authenticate(Credentials("alice", PASSWORD)) is not None
        write(kept.path, USERS + issuer(tmp_path))
        await kept.wait()
        assert kept.changes == 1
        kept.keeper.stop()

    asyncio.run(main())


def test_another_password_or_key_ends_what_rests_on_the_old_one(tmp_path: Path) -> None:
    async def main() -> None:
        kept = Kept(tmp_path, issuer(tmp_path))
        alice = await kept.keeper.authenticate(Credentials("alice", PASSWORD))
        bob = await kept.keeper.authenticate(Credentials(token=token()))
        carol = await kept.keeper.authenticate(Credentials(), "carol.example")
        assert alice and bob and carol
        text = (USERS + issuer(tmp_path)).replace(HASH, make_hash("another"))
        (tmp_path / "key").write_text("another key of at least 32 bytes!", encoding="utf-8")
        write(kept.path, text.replace("carol.example", "carol.test"))
        kept.keeper.reload()
        await kept.wait()
        assert [kept.keeper.renew(one) for one in (alice, bob, carol)] == [None, None, None]
        assert await kept.keeper.authenticate(Credentials("alice", PASSWORD)) is None
        kept.keeper.stop()

    asyncio.run(main())


def test_a_token_that_expires_ends_what_rests_on_it(tmp_path: Path) -> None:
    now = time()

    async def main() -> None:
        nonlocal now
        kept = Kept(tmp_path, issuer(tmp_path), lambda: now)
        kept.keeper.watch()
        bob = await kept.keeper.authenticate(Credentials(token=token()))
        assert bob is not None and kept.keeper.renew(bob) is not None
        now += 200
        await kept.wait()
        assert kept.changes == 1 and kept.keeper.renew(bob) is None
        kept.keeper.stop()

    asyncio.run(main())


def test_what_is_not_installed_is_said_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "argon2", None)
    with pytest.raises(InputError, match=r"pip install 'runnel\[access\]'"):
        Kept(tmp_path, issuer(tmp_path))


assert LOOK_EVERY_S * 2 < 0.6, "a change must hold within a second"
