"""Folders of certificates for tests, each with an authority of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runnel.operate.certificate_folder import CertificateFolder
from runnel.operate.certificates import make_authority, make_certificates


def make_folder(
    folder: Path,
    brokers: Sequence[str] = ("B1",),
    clients: Sequence[str] = ("alice",),
    days: int = 1,
) -> CertificateFolder:
    """An authority, and certificates of these brokers and clients."""
    make_authority(folder)
    make_certificates(folder, brokers, clients, days=days)
    return CertificateFolder(folder)
