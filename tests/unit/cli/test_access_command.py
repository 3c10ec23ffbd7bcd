"""`runnel access`: hashes from stdin, what a file allows, and how it says no."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runnel.cli.main import main
from runnel.node.access.passwords import is_password

HASH = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "access.toml"
    path.write_text(
        f"""
        [users.alice]
        password = "{HASH}"
        subscribe = ["class = 'STOCK'", "close > 100"]
        publish = ["symbol = 'YHOO'"]
        roles = ["read"]
        quota = {{ subscriptions = 5 }}
        """,
        encoding="utf-8",
    )
    return path


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["access", *arguments], input=stdin)


def test_a_hash_is_of_the_first_line_of_stdin() -> None:
    done = run("hash", stdin="geheim und lang\nmore\n")
    assert done.exit_code == 0
    hashed = done.stdout.strip()
    assert is_password("geheim und lang", hashed)
    assert not is_password("geheim und lang\n", hashed) and "geheim" not in hashed
    assert run("hash", stdin="\n").exit_code == 2


def test_check_says_what_each_user_may_do(file: Path) -> None:
    done = run("check", str(file))
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "alice, by password",
        "  subscribes to (class = 'STOCK') OR (close > 100)",
        "  publishes symbol = 'YHOO'",
        "  is called alice, alice-*",
        "  roles: read",
        "  quota: subscriptions = 5",
    ]


def test_check_names_what_is_wrong(file: Path) -> None:
    file.write_text('[users.alice]\npassword = "geheim"\n', encoding="utf-8")
    done = run("check", str(file))
    assert done.exit_code == 2
    assert "users.alice.password: is no argon2id hash" in done.output
    assert "geheim" not in done.output


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--subscribe", "class = 'STOCK' AND close < 5"], 0, "subscribe: yes"),
        (["--subscribe", "close < 5"], 1, "subscribe: no: alice may subscribe only to what is"),
        (["--advertise", "TRUE"], 0, "advertise: yes"),
        (["--advertise", "symbol = 'IBM'"], 1, "advertise: no: alice may publish only: symbol"),
        (["--publish", "symbol=YHOO close=5"], 0, "publish: yes"),
        (["--publish", '{"symbol": "IBM"}'], 1, "publish: no: alice may publish only"),
        (["--name", "alice-7"], 0, "name: yes"),
        (["--name", "bob"], 1, "name: no: alice may not be called 'bob' here"),
        ([], 2, "say what: --subscribe FILTER"),
        (["--subscribe", "a = = 5"], 2, "expected"),
    ],
)
def test_explain_says_yes_or_why_not(
    file: Path, arguments: list[str], code: int, said: str
) -> None:
    done = run("explain", str(file), "alice", *arguments)
    assert (done.exit_code, said in done.output) == (code, True), done.output


def test_explain_knows_who_there_is(file: Path) -> None:
    done = run("explain", str(file), "bob", "--name", "bob")
    assert done.exit_code == 2 and "there is no user 'bob': alice" in done.output
