"""The certificate that the webhook serves with, and the authority that the API server trusts for it.

An authority signs one certificate and its key is thrown away, so there is no key that could sign another. At a renewal
the API server is given the old authority beside the new one: replicas that still serve with the old certificate are
trusted until they have read the new one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=365)
RENEWED_BEFORE = timedelta(days=90)
MOST_NAMES = 20
MOST_OLDER = 4
"""Authorities that a new certificate brings along: those of the Secret, and of what a replica serves."""
LAST_MOMENT = timedelta(days=1)
"""So long before its end a certificate gives way, trusted or not, to the one after it."""
CLOCKS_DIFFER = timedelta(hours=1)
"""By so much another machine's clock may be behind, and the certificate be valid there all the same."""


@dataclass(frozen=True, slots=True)
class Served:
    """PEM texts: the authorities to trust, and the certificate with its key."""

    authorities: bytes
    certificate: bytes
    key: bytes = field(repr=False)


def issued(names: Sequence[str], now: datetime, before: bytes = b"") -> Served:
    """A new certificate for these DNS names and addresses; ``before`` are authorities to trust besides its own."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tenon-webhook-ca")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tenon-webhook")])
    certificate = (
        _builder(subject, authority_name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    older = dict.fromkeys(_pem(old) for old in _read(before)[:MOST_OLDER] if old.not_valid_after_utc > now)
    known = [_pem(authority), *older]
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Served(b"".join(known), _pem(certificate), private)


def why_renew(served: Served, names: Sequence[str], now: datetime) -> str:
    """Why the certificate has to be made anew; empty while it is good."""
    found, authorities = _read(served.certificate), _read(served.authorities)
    if len(found) != 1 or not authorities:
        return "it cannot be read"
    certificate = found[0]
    try:
        certificate.verify_directly_issued_by(authorities[0])
        key = serialization.load_pem_private_key(served.key, password=None)
    except Exception as error:  # cryptography raises what it likes for what it cannot use
        return f"it does not fit its authority or its key ({type(error).__name__})"
    if key.public_key() != certificate.public_key():
        return "its key is another's"
    if max(certificate.not_valid_before_utc, authorities[0].not_valid_before_utc) > now:
        return "it is not valid yet"
    if certificate.not_valid_after_utc - now < RENEWED_BEFORE:
        return f"it ends at {certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
    stated = _names(certificate)
    missing = [name for name in names if _general(name) not in stated]
    return f"it is not for {', '.join(missing)}" if missing else ""


def trusts(authorities: bytes, served: Served) -> bool:
    """Whether somebody who trusts these authorities trusts the certificate."""
    return any(authority in _read(authorities) for authority in _read(served.authorities)[:1])


def may_replace(found: Served, in_use: Served, bundles: Sequence[bytes], now: datetime) -> bool:
    """Whether what was found may be served with instead: the API server trusts it, or the other is over soon.

    Args:
        bundles: whom the API server trusts, for each definition that says so.
    """
    if all(trusts(bundle, found) for bundle in bundles):
        return True
    return any(certificate.not_valid_after_utc - now < LAST_MOMENT for certificate in _read(in_use.certificate))


def names_of(served: Served) -> list[str]:
    """What the certificate is for: other replicas may be reached by other addresses."""
    found = _read(served.certificate)
    if len(found) != 1:
        return []
    return [str(name.value) for name in _names(found[0])][:MOST_NAMES]


def _names(certificate: x509.Certificate) -> list[x509.GeneralName]:
    """What the certificate is for: nothing, where somebody put one there that says nothing of it."""
    try:
        return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except (x509.ExtensionNotFound, ValueError):
        return []


def _read(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + LIFETIME)
    )


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
