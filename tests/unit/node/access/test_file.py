"""The access file: what is read, and that every mistake is named without showing a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from runnel.errors import InputError
from runnel.language import EVERYTHING
from runnel.node.access.file import AccessRules, load_rules

HASH = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA"


def load(folder: Path, text: str) -> AccessRules:
    path = folder / "access.toml"
    path.write_text(text.replace("HASH", HASH), encoding="utf-8")
    return load_rules(path)


def test_a_user_has_what_the_file_says_and_nothing_else(tmp_path: Path) -> None:
    rules = load(
        tmp_path,
        """
        [users.alice]
        password = "HASH"
        subscribe = ["class = 'STOCK'", "close > 5"]
        publish = ["TRUE"]
        roles = ["read"]
        quota = { connections = 3, publications_per_s = 10 }
        [users.bob]
        certificate = "bob.example"
        names = ["robert-*"]
        """,
    )
    alice, bob = rules.users["alice"].permit, rules.users["bob"].permit
    assert alice.subscribe.matches({"close": 9}) and alice.subscribe.matches({"class": "STOCK"})
    assert not alice.subscribe.matches({"close": 1})
    assert alice.publish == EVERYTHING and alice.may_operate("read")
    assert not alice.may_operate("operate")
    assert (alice.quota.connections, alice.quota.publications_per_s) == (3, 10.0)
    assert alice.names == ("alice", "alice-*") and bob.names == ("robert-*",)
    assert bob.subscribe.is_contradiction and bob.publish.is_contradiction and not bob.roles
    assert rules.by_certificate["bob.example"].permit is bob


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "users: is missing"),
        ("users = {}", r"users: there are none, so nobody could connect"),
        ("[users.a]", "users.a: can never log in"),
        ('[users.a]\npassword = "SECRET"', "users.a.password: is no argon2id hash"),
        ("[users.a]\npassword = 5550123", "users.a.password: is no argon2id hash"),
        (
            '[users.a]\npasswort = "HASH"',
            "users.a.passwort: there is no such key; did you mean pass",
        ),
        ('[users.a]\ntoken = "SECRET"', r"users.a.token: is no name of a table \[tokens.NAME\]"),
        ('[users]\na = "SECRET"', "users.a: must be a table, got a text"),
        ('[users.a]\ntoken = "t"\n[tokens]\nt = "SECRET"', "tokens.t: must be a table, got a text"),
        (
            '[users.a]\ntoken = "t"\n[tokens.t]\nalgorithm = "HS256"\nkey = "SECRET"',
            "tokens.t.key: the file that it names, beside this one: No such file",
        ),
        (
            '[users.a]\ntoken = "t"\n[tokens.t]\nalgorithm = "HS256"\nkey = "SECRET\\u0000"',
            "tokens.t.key: the file that it names, beside this one: no name of a file",
        ),
        (f"x = {'[' * 50_000}", "not TOML that anybody would write"),
        (f"x = 1{'0' * 5_000}", "not TOML that anybody would write"),
        ('[users."a b"]\npassword = "HASH"', "users.a b: a user's name is printable"),
        ('[users."a*"]\npassword = "HASH"', "a user's name is printable"),
        (
            '[users.a]\npassword = "HASH"\nsubscribe = ["a = = 5"]',
            r"users.a.subscribe\[0\]: line 1",
        ),
        ('[users.a]\npassword = "HASH"\npublish = [" "]', "is empty: write TRUE"),
        ('[users.a]\npassword = "HASH"\nroles = ["root"]', "users.a.roles"),
        ('[users.a]\npassword = "HASH"\nnames = ["*-a"]', r"users.a.names\[0\]: '\*' may only be"),
        ('[users.a]\npassword = "HASH"\nquota = { connections = -1 }', "users.a.quota.connections"),
        (
            '[users.al]\npassword = "HASH"\n[users.al-ice]\npassword = "HASH"',
            r"users.al-ice: clients of al may be called al-\*",
        ),
        (
            '[users.a]\ncertificate = "x"\n[users.b]\ncertificate = "x"',
            "users.b.certificate: is that of a too",
        ),
        ("[users.a", "not TOML"),
        (
            '[users.a]\ntoken = "m"\n[tokens.m]\nalgorithm = "none"\nkey = "k"',
            "tokens.m.algorithm",
        ),
        (
            '[users.a]\ntoken = "m"\n[tokens.m]\nalgorithm = "HS256"\nkey = "short"',
            "HS256 needs a secret of at least 32 bytes",
        ),
        (
            '[users.a]\ntoken = "m"\n[tokens.m]\nalgorithm = "HS256"\nkey = "public.pem"',
            "is a key pair's",
        ),
        (
            '[users.a]\ntoken = "m"\n[tokens.m]\nalgorithm = "ES256"\nkey = "short"',
            "ES256 needs a public key as PEM",
        ),
    ],
)
def test_a_mistake_is_named_and_no_secret_is_shown(
    tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "short").write_text("SECRET", encoding="utf-8")
    pem = "-----BEGIN PUBLIC KEY-----\nSECRETSECRETSECRETSECRET\n-----END PUBLIC KEY-----\n"
    (tmp_path / "public.pem").write_text(pem, encoding="utf-8")
    with pytest.raises(InputError, match=complaint) as raised:
        load(tmp_path, text)
    for secret in ("SECRET", "5550123", HASH):
        assert secret not in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.toml: No such file"):
        load_rules(tmp_path / "nowhere.toml")


def test_no_repr_shows_a_hash_or_a_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("K" * 40, encoding="utf-8")
    rules = load(
        tmp_path,
        '[users.a]\npassword = "HASH"\ntoken = "m"\n[tokens.m]\nalgorithm = "HS256"\nkey = "key"',
    )
    assert HASH not in repr(rules) and "KKKK" not in repr(rules)
    assert "password:" not in repr(rules.users["a"].permit)
