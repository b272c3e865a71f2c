"""An in-memory certificate authority, for the webhook, which the API server trusts, and for the sandbox
control plane.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LIFETIME = timedelta(days=365)
CLOCKS_DIFFER = timedelta(hours=1)
"""How far another machine's clock may be behind without rejecting a new certificate."""


class CertificateAuthority:
    """Signs certificates. Its key exists only in this object."""

    def __init__(self, name: str, now: datetime) -> None:
        self._now = now
        self._key = new_key()
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self.certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(self._identifier, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def issue(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        usage: x509.ObjectIdentifier,
        names: Sequence[str] = (),
    ) -> x509.Certificate:
        """Issue a certificate for a key and a usage. ``names`` are the DNS names and addresses that it covers."""
        authority = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier)
        builder = (
            self._builder(subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(authority, critical=False)
        )
        if names:
            alternative_names = x509.SubjectAlternativeName([general_name(name) for name in names])
            builder = builder.add_extension(alternative_names, critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - CLOCKS_DIFFER)
            .not_valid_after(self._now + LIFETIME)
        )


def new_key() -> ec.EllipticCurvePrivateKey:
    """A new P-256 key."""
    return ec.generate_private_key(ec.SECP256R1())


def general_name(name: str) -> x509.GeneralName:
    """A DNS name or an IP address in the form that certificates use."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def pem(certificate: x509.Certificate) -> bytes:
    """The certificate in PEM format."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
