"""The access file: users, how they prove who they are, and what they may do. Read from TOML, checked as a whole.

    [users.alice]
    password = "$argon2id$…"             # from `runnel access hash`; or certificate = "…", or token = "main"
    subscribe = ["class = 'STOCK'"]      # to whatever one of these covers
    publish = ["symbol = 'YHOO'"]        # whatever one of these matches
    roles = ["read"]                     # as an operator: "read", or "operate"
    names = ["alice", "alice-*"]         # of clients and publishers; this is what it may be without a word
    quota = { connections = 10, publications_per_s = 1000.0 }

    [tokens.main]                        # who may vouch for users that say token = "main"
    algorithm = "ES256"
    key = "issuer.pem"

What is not allowed is forbidden, and a user who is not named does not exist. No error shows a secret.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from runnel.broker.permits import Permit, Quota, Role
from runnel.complaints import explain
from runnel.errors import InputError
from runnel.language import NOTHING, Selection, any_of, parse

USER_CHARACTERS_MAX = 100
HASH_BEGINS = "$argon2id$"
_USER = re.compile(r"[^\s*/\x00-\x1f\x7f]+")
_SYMMETRIC_KEY_BYTES_MIN = 32

Count = Annotated[int, Meta(ge=0, le=1 << 30)]
Rate = Annotated[float, Meta(ge=0, le=1e12)]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
Text = Annotated[str, Meta(max_length=4_096)]


class _AccessTable(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file."""


class QuotaTable(_AccessTable, frozen=True):
    """How much a user may have and do at one broker, over all its connections; 0: no limit but the broker's own."""

    connections: Count = 0
    subscriptions: Count = 0
    predicates: Count = 0
    publications_per_s: Rate = 0.0
    bytes_per_s: Rate = 0.0


class UserTable(_AccessTable, frozen=True):
    """One user."""

    password: Text = ""
    certificate: Text = ""
    token: Text = ""
    subscribe: list[Text] = []
    publish: list[Text] = []
    names: list[Name] = []
    roles: list[Role] = []
    quota: QuotaTable = field(default_factory=QuotaTable)


class TokenTable(_AccessTable, frozen=True):
    """Whose tokens are believed: the key that they are signed with, and what must be in them."""

    algorithm: Literal["HS256", "RS256", "ES256"]
    key: Text
    issuer: Text = ""
    audience: Text = ""
    claim: Text = "sub"


class AccessShape(_AccessTable, frozen=True):
    """The whole file."""

    users: dict[str, UserTable]
    tokens: dict[str, TokenTable] = {}


@dataclass(frozen=True, slots=True)
class TokenIssuer:
    """What is needed to check a token."""

    algorithm: str
    key: bytes
    issuer: str
    audience: str
    claim: str

    def __repr__(self) -> str:
        return f"TokenIssuer({self.algorithm})"


@dataclass(frozen=True, slots=True)
class User:
    """A user of the file: the permit it gets, and how it proves that it is the one."""

    permit: Permit
    password: str  # the hash
    certificate: str
    token: str  # the name of an issuer
    proofs: Mapping[str, str]  # by the way it can log in: what a permit's `proof` is then

    def __repr__(self) -> str:
        return f"User({self.permit.user})"


@dataclass(frozen=True, slots=True)
class AccessRules:
    """All that a file says."""

    users: Mapping[str, User]
    issuers: Mapping[str, TokenIssuer]
    files: tuple[Path, ...]  # which it was read from

    @property
    def by_certificate(self) -> Mapping[str, User]:
        """Users by the common name of their certificate."""
        return {user.certificate: user for user in self.users.values() if user.certificate}


def load_rules(path: Path) -> AccessRules:
    """Read an access file, and the keys that it names; what cannot be used is an InputError that names the place."""
    tables = _read_toml(path)
    try:
        return _read_rules(tables, path)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8, as TOML must be") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not TOML: {error}") from None
    except (RecursionError, ValueError):  # a number of thousands of digits, a list in a list in …
        raise InputError(f"{path}: not TOML that anybody would write") from None


def _read_rules(tables: dict[str, Any], path: Path) -> AccessRules:
    _check_passwords(tables)
    try:
        shape = msgspec.convert(tables, AccessShape)
    except msgspec.ValidationError as error:
        raise InputError(explain(str(error), tables, AccessShape, shows_texts=False)) from None
    if not shape.users:
        raise InputError("users: there are none, so nobody could connect: add [users.NAME]")
    key_files = {name: path.parent / table.key for name, table in shape.tokens.items()}
    issuers = {name: _issuer(name, shape.tokens[name], key_files[name]) for name in shape.tokens}
    users = {name: _user(name, table, issuers) for name, table in shape.users.items()}
    _check_names_apart(users, shape.users)
    _check_certificates_apart(users)
    return AccessRules(users, issuers, (path, *key_files.values()))


def _check_passwords(tables: Mapping[str, Any]) -> None:
    """Before anything else is complained about: no error may show what somebody has put here by mistake."""
    users = tables.get("users")
    for name, table in users.items() if isinstance(users, dict) else ():
        password = table.get("password", HASH_BEGINS) if isinstance(table, dict) else HASH_BEGINS
        if not isinstance(password, str) or not password.startswith(HASH_BEGINS):
            raise InputError(
                f"users.{name}.password: is no argon2id hash, and passwords themselves must not be here: "
                "make a hash with `runnel access hash`"
            )


def _issuer(name: str, table: TokenTable, path: Path) -> TokenIssuer:
    place = f"tokens.{name}"
    try:
        key = path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no name of a file"
        # Not which: somebody may have put the key itself here.
        raise InputError(f"{place}.key: the file that it names, beside this one: {why}") from None
    if table.algorithm == "HS256":
        key = key.strip()
        if len(key) < _SYMMETRIC_KEY_BYTES_MIN:
            raise InputError(
                f"{place}.key: {path}: HS256 needs a secret of at least {_SYMMETRIC_KEY_BYTES_MIN} bytes: "
                "openssl rand -hex 32"
            )
        if key.startswith(b"-----BEGIN"):
            raise InputError(f"{place}.key: {path} is a key pair's: say RS256 or ES256")
    elif not key.lstrip().startswith(b"-----BEGIN PUBLIC KEY-----"):
        raise InputError(f"{place}.key: {path}: {table.algorithm} needs a public key as PEM")
    return TokenIssuer(table.algorithm, key, table.issuer, table.audience, table.claim)


def _user(name: str, table: UserTable, issuers: Mapping[str, TokenIssuer]) -> User:
    place = f"users.{name}"
    if not _USER.fullmatch(name) or not name.isprintable() or len(name) > USER_CHARACTERS_MAX:
        raise InputError(
            f"{place}: a user's name is printable, without blanks, '*' and '/', and has at most "
            f"{USER_CHARACTERS_MAX} characters"
        )
    if not (table.password or table.certificate or table.token):
        raise InputError(
            f"{place}: can never log in: add password (from `runnel access hash`), certificate or token"
        )
    if table.token and table.token not in issuers:
        known = ", ".join(issuers) or "none"
        raise InputError(
            f"{place}.token: is no name of a table [tokens.NAME]; those that there are: {known}"
        )
    for number, pattern in enumerate(table.names):
        if "*" in pattern[:-1]:
            raise InputError(
                f"{place}.names[{number}]: '*' may only be at the end, got {pattern!r}"
            )
    quota = Quota(*(getattr(table.quota, key) for key in Quota.__dataclass_fields__))
    permit = Permit(
        name,
        _read_filters(f"{place}.subscribe", table.subscribe),
        _read_filters(f"{place}.publish", table.publish),
        tuple(table.names) or (name, f"{name}-*"),
        frozenset(table.roles),
        quota,
    )
    proofs = {}
    if table.password:
        proofs["password"] = f"password:{sha256(table.password.encode()).hexdigest()}"
    if table.certificate:
        proofs["certificate"] = f"certificate:{table.certificate}"
    if table.token:
        key = sha256(issuers[table.token].key).hexdigest()
        proofs["token"] = f"token:{table.token}:{key}"
    return User(permit, table.password, table.certificate, table.token, proofs)


def _read_filters(place: str, texts: Iterable[str]) -> Selection:
    found: list[Selection] = []
    for number, text in enumerate(texts):
        if not text.strip():
            raise InputError(f"{place}[{number}]: is empty: write TRUE if you mean everything")
        try:
            found.append(parse(text))
        except InputError as error:
            raise InputError(f"{place}[{number}]: {error}") from None
    if not found:
        return NOTHING
    return any_of(chain.from_iterable(one.disjuncts for one in found))


def _check_names_apart(users: Mapping[str, User], tables: Mapping[str, UserTable]) -> None:
    """Nobody may have the name of another user just because it begins with his own."""
    for name in users:
        for end in (at for at, character in enumerate(name) if character == "-"):
            other = name[:end]
            if other in users and not tables[other].names:
                raise InputError(
                    f"users.{name}: clients of {other} may be called {other}-*, and so have this user's name: "
                    f"give {other} `names` of its own"
                )


def _check_certificates_apart(users: Mapping[str, User]) -> None:
    seen: dict[str, str] = {}
    for name, user in users.items():
        if user.certificate and user.certificate in seen:
            raise InputError(
                f"users.{name}.certificate: is that of {seen[user.certificate]} too: give each user its own"
            )
        seen[user.certificate] = name
