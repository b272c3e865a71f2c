"""The sandbox's certificate authority. Each cluster has its own, which exists only in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from worker.webhook import certificate_authority


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in PEM format."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write ``name``.crt and ``name``.key so that only this user can read them. Returns their paths."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        write_private(certificate, self.certificate)
        write_private(key, self.key)
        return certificate, key


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only this user can read."""
    path.touch(mode=0o600, exist_ok=True)
    path.write_bytes(data)


def private_key_pem() -> tuple[ec.EllipticCurvePrivateKey, bytes]:
    """A new P-256 key, and the same key in PEM format."""
    key = certificate_authority.new_key()
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return key, pem


class Authority:
    """Issues the certificates of the API server and its clients."""

    def __init__(self) -> None:
        self._authority = certificate_authority.CertificateAuthority("sandbox-ca", datetime.now(UTC))
        self.certificate = certificate_authority.pem(self._authority.certificate)

    def client(self, user: str, *groups: str) -> Pair:
        """Issue a client certificate. Kubernetes reads the user from CN and the groups from O."""
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH)

    def server(self, names: list[str], addresses: list[str]) -> Pair:
        """Issue a serving certificate for these DNS names and IP addresses."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, [*names, *addresses])

    def _issue(self, subject: x509.Name, usage: x509.ObjectIdentifier, names: Sequence[str] = ()) -> Pair:
        key, text = private_key_pem()
        return Pair(certificate_authority.pem(self._authority.issue(subject, key.public_key(), usage, names)), text)
