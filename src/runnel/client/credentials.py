"""Credentials: who a program says it is when it connects, and where that comes from if it does not say.

    RUNNEL_USER            the user's name; with a token it may be left out
    RUNNEL_PASSWORD        the password, or
    RUNNEL_PASSWORD_FILE   a file with nothing else in it; or
    RUNNEL_TOKEN           a token (JWT), or
    RUNNEL_TOKEN_FILE      a file with nothing else in it

Files are read at every connection, so that a token may be renewed in place; one that cannot be read just then counts as
it was before. Nothing here is ever part of a command
line, a message of an error or a `repr`.
"""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from runnel.errors import InputError
from runnel.wire import Credentials
from runnel.wire.messages import NAME_CHARACTERS_MAX, SECRET_CHARACTERS_MAX

log = logging.getLogger("runnel.client")

ReadCredentials = Callable[[], Credentials]
"""Called at every connection."""

USER, PASSWORD, TOKEN = "RUNNEL_USER", "RUNNEL_PASSWORD", "RUNNEL_TOKEN"
FILE = "_FILE"


def find_credentials(
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> ReadCredentials:
    """What was said, or else what the environment says; what cannot be used is an InputError at once.

    >>> find_credentials("alice", "geheim")()
    Credentials(user='alice')
    >>> find_credentials(environment={})() == Credentials()
    True
    """
    for what, said in {"user": user, "password": password, "token": token}.items():
        if said is not None and not isinstance(said, str):
            raise InputError(f"{what} is text, not {type(said).__name__}")
    if password is not None or token is not None:
        given = {PASSWORD: password, TOKEN: token}
        environment = {name: said for name, said in given.items() if said is not None}
    if user is not None:
        environment = {**environment, USER: user}
    environment = dict(environment)  # as it is now

    last = _read_credentials(environment)

    def read() -> Credentials:
        nonlocal last
        try:
            last = _read_credentials(environment)
        except InputError as error:  # its file is being exchanged
            log.warning("%s; what was there before is used", error)
        return last

    return read


def _read_credentials(environment: Mapping[str, str]) -> Credentials:
    user = environment.get(USER, "")
    password, token = _read_secret(PASSWORD, environment), _read_secret(TOKEN, environment)
    if len(user) > NAME_CHARACTERS_MAX:
        raise InputError(f"a user's name has at most {NAME_CHARACTERS_MAX} characters")
    if password and token:
        raise InputError(
            f"there are a password and a token: say one of them ({PASSWORD}, {TOKEN}, {PASSWORD}{FILE}, {TOKEN}{FILE})"
        )
    if password and not user:
        raise InputError(f"there is a password, and nobody says whose: user=…, or {USER}")
    return Credentials(user or _subject_of(token), password, token)


def _read_secret(name: str, environment: Mapping[str, str]) -> str:
    """A secret, from a variable or from the file that another one names."""
    said, path = environment.get(name, ""), environment.get(f"{name}{FILE}", "")
    if path and not said:
        try:
            said = Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise InputError(f"{name}{FILE}: {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InputError(f"{name}{FILE}: {path}: not UTF-8") from None
        if not said:
            raise InputError(f"{name}{FILE}: {path} is empty")
    if len(said) > SECRET_CHARACTERS_MAX:
        raise InputError(f"{name}: has more than {SECRET_CHARACTERS_MAX:,} characters")
    return said


def _subject_of(token: str) -> str:
    """Whom a token is about, as far as one can tell without its key: good enough for a client's name."""
    try:
        _, claims, _ = token.split(".")
        body = base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))
        subject = msgspec.json.decode(body, type=dict[str, object]).get("sub", "")
    except (ValueError, msgspec.MsgspecError):
        return ""
    return subject[:NAME_CHARACTERS_MAX] if isinstance(subject, str) else ""
