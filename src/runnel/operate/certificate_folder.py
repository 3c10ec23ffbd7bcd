"""The files in a folder of certificates.

authority.pem  authority.key     signs the others; every broker and client has authority.pem, nobody needs the key
B1.pem         B1.key            one pair for each broker; its common name is the broker's name
client.pem     client.key        one pair for each client, operator and monitoring system
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runnel.net.tls import Tls

AUTHORITY = "authority"
OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class CertificateFolder:
    """The files of a folder, by name."""

    folder: Path

    def certificate(self, name: str) -> Path:
        """The certificate of a broker, a client, or the authority."""
        return self.folder / f"{name}.pem"

    def key(self, name: str) -> Path:
        """Its private key."""
        return self.folder / f"{name}.key"

    def tls(self, name: str) -> Tls:
        """What one of them needs."""
        return Tls(self.certificate(AUTHORITY), self.certificate(name), self.key(name))

    def node_table(self, broker: str) -> dict[str, str]:
        """The table [tls] of a broker's configuration."""
        return {
            "certificate": str(self.certificate(broker).absolute()),
            "key": str(self.key(broker).absolute()),
            "authority": str(self.certificate(AUTHORITY).absolute()),
        }
