"""The keeper: knows the access file, whom to let in by it, and notices when it changes.

- Passwords and tokens are checked by a few threads of their own. If too many wait, more are turned away and come back
  later.
- A password that was right is remembered, as an HMAC with a key of this process and until the file changes, so that a
  network that reconnects waits neither for argon2 nor for those who try passwords.
- For a user that does not exist as much work is done as for one that does, and the answer is the same.
- A file that cannot be used changes nothing: the rules from before hold, and the log says so.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from heapq import heappop, heappush
from math import isfinite
from pathlib import Path
from time import time

from runnel.broker.permits import Permit
from runnel.errors import InputError
from runnel.node.access.file import AccessRules, User, load_rules
from runnel.node.access.passwords import is_password
from runnel.node.access.tokens import check_key, read_token
from runnel.wire import Credentials

THREADS = 2
WAITING_MAX = 256
LOOK_EVERY_S = 0.2
REMEMBERED_MAX = 10_000

FilesState = tuple[tuple[int, int, int] | None, ...]


class TooManyLogins(Exception):  # noqa: N818 - not for users
    """So many wait to be checked that this one had better come back later."""


class LoginThreads:
    """A few threads that check logins of one kind."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "runnel-access")
        self._waiting = 0

    async def run(
        self,
        check: Callable[[AccessRules, Credentials], Permit | None],
        rules: AccessRules,
        credentials: Credentials,
    ) -> Permit | None:
        """What a check says; TooManyLogins if too many wait."""
        if self._waiting >= WAITING_MAX:
            raise TooManyLogins
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, check, rules, credentials)
        finally:
            self._waiting -= 1

    def stop(self) -> None:
        """Check nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class AccessKeeper:
    """See the top of the file. `changed` is called when sessions have to be looked at again."""

    def __init__(
        self,
        path: Path,
        changed: Callable[[], None],
        complain: Callable[[str], None],
        clock: Callable[[], float] = time,
    ) -> None:
        self._path = path
        self._changed = changed
        self._complain = complain
        self._clock = clock
        self.rules = load_rules(path)
        check_packages(self.rules)
        self._seen = self._applied = self._look()
        self._passwords, self._tokens = LoginThreads(), LoginThreads()
        self._key = secrets.token_bytes(32)
        self._remembered: dict[bytes, None] = {}
        self._expiries: list[float] = []  # a heap: when permits that were given out expire
        self._timer: asyncio.TimerHandle | None = None
        self._loading: asyncio.Task[None] | None = None

    # -- who is let in --------------------------------------------------------------------------------

    async def authenticate(
        self, credentials: Credentials, certificate_name: str = ""
    ) -> Permit | None:
        """The permit of whoever proves to be a user; None for all others."""
        if not (credentials.password or credentials.token):
            user = self.rules.by_certificate.get(certificate_name) if certificate_name else None
            if user is None or credentials.user not in ("", user.permit.user):
                return None
            return replace(user.permit, proof=user.proofs["certificate"])
        rules = self.rules
        if credentials.token:
            permit = await self._tokens.run(self._check_token, rules, credentials)
        elif (permit := self._recall(rules, credentials)) is None:
            permit = await self._passwords.run(self._check_password, rules, credentials)
        if permit is not None and isfinite(permit.until_s):
            heappush(self._expiries, permit.until_s)
        if permit is None or self.rules is rules:
            return permit
        return self.renew(permit)  # the rules have changed meanwhile

    def _recall(self, rules: AccessRules, credentials: Credentials) -> Permit | None:
        """The permit of whoever has shown a password that was right before: no thread is needed for that."""
        user = rules.users.get(credentials.user)
        if user is None or self._mark_of(user, credentials) not in self._remembered:
            return None
        return replace(user.permit, proof=user.proofs["password"])

    def _mark_of(self, user: User, credentials: Credentials) -> bytes:
        text = f"{user.permit.user}\0{user.password}\0{credentials.password}"
        return hmac.digest(self._key, text.encode(errors="surrogatepass"), sha256)

    def _check_password(self, rules: AccessRules, credentials: Credentials) -> Permit | None:
        user = rules.users.get(credentials.user)
        hashed = user.password if user is not None else ""
        known = hashed or next((one.password for one in rules.users.values() if one.password), "")
        is_right = bool(known) and is_password(credentials.password, known)
        if user is None or not hashed or not is_right:
            return None
        self._remembered[self._mark_of(user, credentials)] = None
        while len(self._remembered) > REMEMBERED_MAX:
            self._remembered.pop(next(iter(self._remembered)), None)
        return replace(user.permit, proof=user.proofs["password"])

    def _check_token(self, rules: AccessRules, credentials: Credentials) -> Permit | None:
        for name, issuer in rules.issuers.items():
            claim = read_token(credentials.token, issuer)
            user = rules.users.get(claim.user) if claim is not None else None
            if claim is None or user is None or user.token != name:
                continue
            if credentials.user not in ("", claim.user) and issuer.claim == "sub":
                return None
            return replace(user.permit, proof=user.proofs["token"], until_s=claim.until_s)
        return None

    def renew(self, permit: Permit) -> Permit | None:
        """The permit that takes the place of one that was given out; None if its user has to go."""
        user = self.rules.users.get(permit.user)
        if user is None or permit.until_s <= self._clock():
            return None
        if permit.proof not in user.proofs.values():
            return None  # another password, key or certificate
        return replace(user.permit, proof=permit.proof, until_s=permit.until_s)

    # -- the file -------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Look from now on whether the file has changed, or a permit has expired."""
        self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._tick)

    def _tick(self) -> None:
        self.watch()
        state = self._look()
        # Whoever writes it may not have finished: it must have looked the same twice.
        if state == self._seen and state != self._applied:
            self.reload()
        self._seen = state
        if self._expiries and self._expiries[0] <= self._clock():
            while self._expiries and self._expiries[0] <= self._clock():
                heappop(self._expiries)
            self._changed()

    def _look(self) -> FilesState:
        def look(path: Path) -> tuple[int, int, int] | None:
            try:
                found = path.stat()
            except OSError:
                return None
            return found.st_mtime_ns, found.st_size, found.st_ino

        return tuple(look(path) for path in self.rules.files)

    def reload(self) -> None:
        """Read the file again; its rules hold as soon as it is read, if it can be used."""
        if self._loading is None or self._loading.done():
            # Looked at before it is read: a change after that is seen by the next look.
            self._applied = self._look()
            self._loading = asyncio.get_running_loop().create_task(self._load())

    async def _load(self) -> None:
        try:
            rules = await asyncio.to_thread(load_rules, self._path)
            check_packages(rules)
        except InputError as error:
            self._complain(str(error))
            return
        self.rules = rules
        self._remembered.clear()
        self._changed()

    def stop(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._passwords.stop()
        self._tokens.stop()


def check_packages(rules: AccessRules) -> None:
    """Raise InputError at once, and not at the first login, if a package is not installed, or a key is of no use."""
    if any(user.password for user in rules.users.values()):
        is_password("", "")
    for name, issuer in rules.issuers.items():
        check_key(name, issuer)
