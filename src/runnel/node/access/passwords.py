"""Passwords: argon2id hashes, made and checked. Checking takes tens of milliseconds, so never on an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.errors import InputError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

TIME_COST, MEMORY_KIB, PARALLELISM = 2, 19_456, 1
"""OWASP's least: a hash takes 19 MiB for some 20 ms, so that a broker can check some at a time."""


def make_hash(password: str) -> str:
    """The hash of a password, for the access file."""
    if not password:
        raise InputError("the password is empty")
    return _hasher().hash(password)


def is_password(password: str, hashed: str) -> bool:
    """Whether this is the password; False also for a hash that cannot be read."""
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return _hasher().verify(hashed, password)
    except (InvalidHashError, VerificationError, UnicodeError):
        return False


def _hasher() -> PasswordHasher:
    try:
        from argon2 import PasswordHasher
    except ImportError:
        raise InputError(
            "passwords need a package that is not installed: pip install 'runnel[access]'"
        ) from None
    return PasswordHasher(TIME_COST, MEMORY_KIB, PARALLELISM)
