"""Makes and reads certificates: an authority of one's own, and what it signs for brokers, clients and operators.

`certificate_folder.py` says which file is which. Broker certificates are for both ends of a connection, the others for
the dialling end only: a client cannot pass itself off as a broker towards clients. Keys are on P-256. Private keys are
readable by their owner alone, and no file is ever overwritten.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from runnel.errors import InputError
from runnel.operate.certificate_folder import AUTHORITY, CertificateFolder

NAME_CHARACTERS_MAX = 64
"""X.509 has no longer common names."""

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
DAYS = 365
_AUTHORITY_DAYS = 3_650
_CLOCK_SKEW = timedelta(minutes=5)
_SERVES = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
_DIALS = (ExtendedKeyUsageOID.CLIENT_AUTH,)


@dataclass(frozen=True, slots=True)
class FoundCertificate:
    """One certificate of a file."""

    file: Path
    name: str
    role: str  # authority, broker or client
    hosts: tuple[str, ...]
    expires: datetime

    @property
    def days_left(self) -> int:
        """Whole days until it expires; below 0 afterwards."""
        return (self.expires - datetime.now(UTC)) // timedelta(days=1)


# -- making them --------------------------------------------------------------------------------------


def make_authority(folder: Path) -> None:
    """Make an authority in a folder, which is made if it is not there."""
    files = CertificateFolder(folder)
    _refuse_overwriting([files.certificate(AUTHORITY), files.key(AUTHORITY)])
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _subject(f"Runnel authority {datetime.now(UTC):%Y-%m-%d %H:%M}")
    usage = _key_usage(signs_certificates=True)
    builder = _builder(name, name, key.public_key(), _AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    _write(files, AUTHORITY, builder.sign(key, hashes.SHA256()), key)


def make_certificates(
    folder: Path,
    brokers: Sequence[str] = (),
    clients: Sequence[str] = (),
    hosts: Iterable[str] = (),
    days: int = DAYS,
) -> None:
    """Make pairs for brokers and clients, signed by the folder's authority; `hosts`: where brokers are reached."""
    files = CertificateFolder(folder)
    names = [*brokers, *clients]
    for name in names:
        _check_name(name, names)
    _refuse_overwriting([file for n in names for file in (files.certificate(n), files.key(n))])
    authority, signs = _load_authority(files)
    reached_at = dict.fromkeys([*LOCAL_HOSTS, *hosts])
    for name in names:
        is_broker = name in brokers
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_subject(name), authority.subject, key.public_key(), days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(_key_usage(), critical=True)
        builder = builder.add_extension(
            x509.ExtendedKeyUsage(_SERVES if is_broker else _DIALS), critical=False
        )
        known_as = [name, *reached_at] if is_broker else [name]
        if others := list(_general_names(known_as)):
            builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
        by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signs.public_key())
        builder = builder.add_extension(by, critical=False)
        _write(files, name, builder.sign(signs, hashes.SHA256()), key)


def complete_folder(folder: Path, brokers: Sequence[str], clients: Sequence[str]) -> None:
    """Make what is missing for these brokers and clients: everything, or a few pairs, or nothing."""
    files = CertificateFolder(folder)
    if not files.certificate(AUTHORITY).exists():
        make_authority(folder)
    expired = [one.name for one in read_certificates(folder) if one.days_left < 0]
    if expired:
        raise InputError(
            f"{folder}: the certificates of {', '.join(expired)} have expired: remove the folder, and all are made anew"
        )
    make_certificates(
        folder,
        [name for name in brokers if not files.certificate(name).exists()],
        [name for name in clients if not files.certificate(name).exists()],
    )


def _check_name(name: str, names: list[str]) -> None:
    if not name or not name.isprintable() or "/" in name or name.startswith("."):
        raise InputError(f"{name!r}: a name is printable, has no '/' and does not begin with '.'")
    if len(name) > NAME_CHARACTERS_MAX:
        raise InputError(
            f"{name}: a name in a certificate has {NAME_CHARACTERS_MAX} characters at most"
        )
    if name == AUTHORITY:
        raise InputError(f"{name}: this is the name of the authority's files: choose another one")
    if names.count(name) > 1:
        raise InputError(f"{name}: brokers and clients have names of their own")


def _refuse_overwriting(files: list[Path]) -> None:
    if there := [file for file in files if file.exists()]:
        raise InputError(
            f"{', '.join(map(str, there))}: nothing is overwritten; choose another folder, or remove what is "
            "to be made anew"
        )


def _load_authority(
    files: CertificateFolder,
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate(files.certificate(AUTHORITY).read_bytes())
        key = serialization.load_pem_private_key(files.key(AUTHORITY).read_bytes(), None)
    except OSError as error:
        raise InputError(
            f"{error.filename}: {error.strerror}; runnel certs init makes an authority"
        ) from None
    except (ValueError, TypeError):
        raise InputError(f"{files.folder}: the authority's files cannot be read as PEM") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError(f"{files.key(AUTHORITY)}: not a key that runnel certs init has made")
    return certificate, key


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW - timedelta(days=max(0, -days)))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_names(names: Iterable[str]) -> Iterator[x509.GeneralName]:
    """Addresses and host names; a name that can be neither is in the subject alone."""
    for name in names:
        with suppress(ValueError):
            yield x509.IPAddress(ip_address(name))
            continue
        if name.isascii() and " " not in name:
            yield x509.DNSName(name)


def _write(
    files: CertificateFolder,
    name: str,
    certificate: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
) -> None:
    """The key first: a certificate without a key is of no use, and is not left behind."""
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    _write_new(files.key(name), secret, 0o600)
    _write_new(files.certificate(name), certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _write_new(file: Path, content: bytes, mode: int) -> None:
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
            out.write(content)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None


# -- reading them -------------------------------------------------------------------------------------


def certificate_expiry(file: Path) -> datetime:
    """When the first certificate of a file expires: that of whoever shows it."""
    return _read_file(file)[0].expires


def read_certificates(folder: Path) -> list[FoundCertificate]:
    """What the certificates of a folder say, the authority first; InputError if there is none."""
    found = [one for file in sorted(folder.glob("*.pem")) for one in _read_file(file)]
    if not found:
        raise InputError(
            f"{folder}: there are no certificates (*.pem); runnel certs init makes some"
        )
    return sorted(found, key=lambda one: one.role != AUTHORITY)


def _read_file(file: Path) -> list[FoundCertificate]:
    try:
        return [_describe(file, one) for one in x509.load_pem_x509_certificates(file.read_bytes())]
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{file}: this is not a certificate in PEM") from None


def _describe(file: Path, certificate: x509.Certificate) -> FoundCertificate:
    hosts: list[str] = []
    role = "client"
    with suppress(x509.ExtensionNotFound):
        others = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = [str(one.value) for one in others]
    with suppress(x509.ExtensionNotFound):
        use = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        role = "broker" if ExtendedKeyUsageOID.SERVER_AUTH in use else "client"
    with suppress(x509.ExtensionNotFound):
        if certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            role = AUTHORITY
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    name = str(common[0].value) if common else next(iter(hosts), "")
    return FoundCertificate(file, name, role, tuple(hosts), certificate.not_valid_after_utc)
