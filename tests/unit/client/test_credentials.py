"""Where a client's credentials come from, and what is not taken."""

from __future__ import annotations

from pathlib import Path

import jwt
import pytest

import runnel
from runnel.client.credentials import find_credentials
from runnel.errors import InputError
from runnel.wire import Credentials


def test_what_is_said_goes_before_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("from-file\n", encoding="utf-8")
    variables = {"RUNNEL_USER": "env", "RUNNEL_PASSWORD_FILE": str(file)}
    assert find_credentials(environment=variables)() == Credentials("env", "from-file")
    assert find_credentials("me", environment=variables)() == Credentials("me", "from-file")
    assert find_credentials("me", "mine", environment=variables)() == Credentials("me", "mine")
    token = jwt.encode({"sub": "carol"}, "k" * 32, "HS256")
    assert find_credentials(token=token, environment={})() == Credentials("carol", token=token)


def test_a_file_that_is_being_exchanged_ends_no_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.write_text("one", encoding="utf-8")
    read = find_credentials(environment={"RUNNEL_TOKEN_FILE": str(file)})
    for spoil in (file.unlink, file.touch):
        spoil()
        assert read().token == "one"
    assert "No such file" in caplog.text and "is empty" in caplog.text
    file.write_text("two", encoding="utf-8")
    assert read().token == "two"


def test_no_way_to_print_credentials_shows_a_secret() -> None:
    for one in (Credentials("alice", "SECRET"), Credentials("alice", token="SECRET")):
        assert "SECRET" not in f"{one} {one!r} {one.__rich_repr__()}"


def test_a_file_is_read_again_at_every_connection(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one", encoding="utf-8")
    read = find_credentials(environment={"RUNNEL_TOKEN_FILE": str(file)})
    assert read().token == "one"
    file.write_text("two", encoding="utf-8")
    assert read().token == "two"


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        ({"RUNNEL_PASSWORD": "geheim"}, "nobody says whose"),
        (
            {"RUNNEL_USER": "a", "RUNNEL_PASSWORD": "geheim", "RUNNEL_TOKEN": "geheim"},
            "one of them",
        ),
        ({"RUNNEL_USER": "a", "RUNNEL_PASSWORD_FILE": "/nowhere/x"}, "_FILE: /nowhere/x: No such"),
        ({"RUNNEL_USER": "a", "RUNNEL_PASSWORD": "geheim" * 2_000}, "more than 8,192 characters"),
        ({"RUNNEL_USER": "a" * 300, "RUNNEL_PASSWORD": "geheim"}, "at most 255 characters"),
    ],
)
def test_what_cannot_be_used_is_said_at_once_and_shows_no_secret(
    variables: dict[str, str], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint) as raised:
        find_credentials(environment=variables)
    assert "geheim" not in str(raised.value)


def test_wrong_types_raise_where_they_are_passed() -> None:
    with pytest.raises(InputError, match="password is text, not int"):
        runnel.connect("127.0.0.1:1", user="a", password=5)  # type: ignore[arg-type]
