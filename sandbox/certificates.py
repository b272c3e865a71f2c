"""The sandbox's own certificate authority: one for each cluster, made in memory, gone with the state folder."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=365)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write ``name``.crt and ``name``.key, for this user only; answers their paths."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        write_private(certificate, self.certificate)
        write_private(key, self.key)
        return certificate, key


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only this user can read."""
    path.touch(mode=0o600, exist_ok=True)
    path.write_bytes(data)


def private_key_pem() -> tuple[ec.EllipticCurvePrivateKey, bytes]:
    """A new P-256 key, and its PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return key, pem


class Authority:
    """Issues the API server's certificate and its clients'."""

    def __init__(self) -> None:
        self._key, _ = private_key_pem()
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sandbox-ca")])
        self._ski = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(self._ski, critical=False)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = certificate.public_bytes(serialization.Encoding.PEM)

    def client(self, user: str, *groups: str) -> Pair:
        """A client certificate: Kubernetes reads the user from CN and the groups from O."""
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def server(self, names: list[str], addresses: list[str]) -> Pair:
        """A serving certificate for these DNS names and IP addresses."""
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(alternatives))

    def _issue(self, subject: x509.Name, usage: x509.ObjectIdentifier, names: x509.ExtensionType | None) -> Pair:
        key, pem = private_key_pem()
        builder = (
            self._builder(subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._ski), critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return Pair(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), pem)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + LIFETIME)
        )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
