"""Tokens (JWT): whom one names, if it is signed by an issuer that is believed, and is of now.

A token must say until when it is good (`exp`). Only the algorithm of the issuer's own table counts, never the one that
the token names.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from runnel.errors import InputError
from runnel.node.access.file import TokenIssuer

LEEWAY_S = 5.0  # clocks differ


class TokenClaim(NamedTuple):
    """What a token says."""

    user: str
    until_s: float


def read_token(token: str, issuer: TokenIssuer) -> TokenClaim | None:
    """Whom a token names, and until when; None if it is not to be believed."""
    jwt = import_jwt()
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            issuer.key,
            algorithms=[issuer.algorithm],
            audience=issuer.audience or None,
            issuer=issuer.issuer or None,
            leeway=LEEWAY_S,
            options={
                "require": ["exp"],
                "verify_aud": bool(issuer.audience),
                "verify_iss": bool(issuer.issuer),
            },
        )
    except Exception:  # whatever is wrong with what a stranger has sent: it is not to be believed
        return None
    user, until = claims.get(issuer.claim), claims["exp"]
    if not isinstance(user, str) or not isinstance(until, int | float):
        return None
    return TokenClaim(user, float(until) + LEEWAY_S)


def check_key(name: str, issuer: TokenIssuer) -> None:
    """Raise InputError if no token of an issuer could ever be checked."""
    try:
        import_jwt().get_algorithm_by_name(issuer.algorithm).prepare_key(issuer.key)
    except InputError:
        raise
    except Exception:  # whatever is wrong with it
        raise InputError(f"tokens.{name}.key: is no key for {issuer.algorithm}") from None


def import_jwt() -> Any:
    """The package that checks tokens, which may not be there."""
    try:
        import jwt
        import jwt.algorithms
    except ImportError:
        raise InputError(
            "tokens need a package that is not installed: pip install 'runnel[access]'"
        ) from None
    if not jwt.algorithms.has_crypto:
        raise InputError(
            "tokens need a package that is not installed: pip install 'runnel[access]'"
        )
    return jwt
