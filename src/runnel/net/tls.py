"""TLS: the files that it is made from, contexts of Python's `ssl` made from them, and errors that say what to do.

Only TLS 1.3 is spoken. Sessions are never resumed, so every connection is judged by the certificates as they are now.
Files are read again for each new context: whoever replaces a file needs to restart nothing.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runnel.errors import InputError

Certificate = Mapping[str, Any]
"""What `ssl` says of a peer's certificate once it has verified it."""

HANDSHAKE_RECORD = 0x16
"""The first byte of whoever speaks TLS."""

VARIABLES = {
    "authority": "RUNNEL_TLS_AUTHORITY",
    "certificate": "RUNNEL_TLS_CERTIFICATE",
    "key": "RUNNEL_TLS_KEY",
}
"""The environment's names of the files."""


class TlsError(ConnectionError):
    """A connection could not be secured, or broke as TLS; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of one side, each in PEM.

    authority    certificates of who may sign the other side's certificate; none: those that the system trusts
    certificate  the certificate to show, with those between it and the authority, if there are any
    key          its private key, not encrypted; none: it is in the same file as the certificate

    >>> Tls(key="alice.key")
    Traceback (most recent call last):
    runnel.errors.InputError: there is a key for TLS, alice.key, but no certificate
    """

    authority: str | os.PathLike[str] | None = None
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.key is not None and self.certificate is None:
            raise InputError(f"there is a key for TLS, {self.key}, but no certificate")

    @classmethod
    def from_environment(cls) -> Tls:
        """What RUNNEL_TLS_AUTHORITY, RUNNEL_TLS_CERTIFICATE and RUNNEL_TLS_KEY name."""
        return cls(**{name: os.environ.get(v) or None for name, v in VARIABLES.items()})

    def as_environment(self) -> dict[str, str]:
        """The variables by which other programs find the same files."""
        files = {v: getattr(self, name) for name, v in VARIABLES.items()}
        return {v: os.fspath(file) for v, file in files.items() if file is not None}


def dialling_context(tls: Tls, *, verifies_host: bool) -> ssl.SSLContext:
    """For connections that this side opens; the other's certificate has to be valid, and for its host if asked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = verifies_host
    return _complete(context, tls)


def accepting_context(tls: Tls, *, demands_certificate: bool) -> ssl.SSLContext:
    """For connections that this side accepts. A certificate that is shown has to be valid; `demands`: one must be."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED if demands_certificate else ssl.CERT_OPTIONAL
    context.num_tickets = 0  # nothing is resumed
    return _complete(context, tls)


def certificate_name(certificate: Certificate | None) -> str:
    """Whom a verified certificate names: its common name; without one, its first DNS name; without any, nobody.

    >>> certificate_name({"subject": ((("commonName", "B1"),),), "subjectAltName": (("DNS", "localhost"),)})
    'B1'
    >>> certificate_name({"subject": (), "subjectAltName": (("IP Address", "127.0.0.1"), ("DNS", "B1"))})
    'B1'
    >>> certificate_name(None), certificate_name({})
    ('', '')
    """
    found = certificate or {}
    common = [v for part in found.get("subject", ()) for k, v in part if k == "commonName"]
    others = [value for kind, value in found.get("subjectAltName", ()) if kind == "DNS"]
    return str(next(iter([*common, *others]), ""))


def _complete(context: ssl.SSLContext, tls: Tls) -> ssl.SSLContext:
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    if tls.authority is None:
        context.load_default_certs()
    else:
        _load_authority(context, Path(tls.authority))
    if tls.certificate is not None:
        _load_certificate(
            context, Path(tls.certificate), None if tls.key is None else Path(tls.key)
        )
    return context


def _load_authority(context: ssl.SSLContext, file: Path) -> None:
    text = _read("authority", file)
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise InputError(f"authority {file}: there is no certificate in PEM") from None


def _load_certificate(context: ssl.SSLContext, file: Path, key: Path | None) -> None:
    _read("certificate", file)
    if key is not None:
        _read("key", key)
    try:
        context.load_cert_chain(file, key, password=_refuse_passphrase)
    except ssl.SSLError as error:
        raise InputError(_explain_files(error, file, key or file)) from None


def _read(what: str, file: Path) -> str:
    """The text of a file; here the error can say which of the files it is."""
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise InputError(
            f"{what} {file}: {error.strerror}; runnel certs init makes a set of certificates"
        ) from None


def _refuse_passphrase() -> str:
    raise InputError(
        "the private key for TLS is encrypted: write it without a passphrase into a file that only its user can "
        "read (openssl pkey -in KEY -out NEW)"
    )


def _explain_files(error: ssl.SSLError, certificate: Path, key: Path) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"the key {key} is not that of the certificate {certificate}"
    if error.reason in ("EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"):
        return f"certificate {certificate}: it is too weak ({error.reason})"
    return f"certificate {certificate}, key {key}: one of them is not what it should be, in PEM"


# -- what went wrong ----------------------------------------------------------------------------------


_EXPLANATIONS = {
    "WRONG_VERSION_NUMBER": "it does not speak TLS: write runnel://, or switch TLS on there",
    "HTTP_REQUEST": "it speaks HTTP without TLS: write https://",
    "UNSUPPORTED_PROTOCOL": "it does not speak TLS 1.3, and nothing older is taken",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it does not speak TLS 1.3, and nothing older is taken",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it demands a certificate, and none was shown: name one with its key "
    "(RUNNEL_TLS_CERTIFICATE, RUNNEL_TLS_KEY)",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it showed no certificate, and one is demanded here",
    "TLSV1_ALERT_UNKNOWN_CA": "it refuses our certificate, which another authority has signed than it trusts",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it refuses our certificate, which has expired: renew it",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "it refuses our certificate, which was revoked",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it refuses our certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses our certificate",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "it refuses our certificate, which is not for this purpose",
}

_UNKNOWN_AUTHORITY = (18, 19, 20, 21)
"""OpenSSL's numbers for certificates without a way to an authority that is trusted."""


def explain(error: BaseException) -> str:
    """Why a connection could not be secured, in plain words; nothing in it was chosen by the peer."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_verification(error)
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        reason = error.reason or type(error).__name__
        return _EXPLANATIONS.get(reason, f"TLS failed: {reason.lower().replace('_', ' ')}")
    return "it ended the connection during the TLS handshake: if TLS is not switched on there, write runnel://"


def _explain_verification(error: ssl.SSLCertVerificationError) -> str:
    said = error.verify_message.rstrip(".")
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return (
            f"its certificate is not signed by the authority that is trusted here ({said}): name the authority's "
            "file (RUNNEL_TLS_AUTHORITY; `authority` in a broker's [tls])"
        )
    if "mismatch" in said:
        return f"its certificate is for another host ({said}): dial it by a name in its certificate"
    return f"its certificate is not valid: {said}"
