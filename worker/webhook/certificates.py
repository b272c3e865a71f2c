"""The webhook's serving certificate, and the certificate authority that the API server trusts for it.

Each authority signs one certificate and its key is then discarded, so no key exists that could sign another. At a
renewal the API server trusts the old authority together with the new one, so that replicas that still serve the old
certificate remain trusted until they have read the new one.

The cryptography library, 8 MiB in a process, is imported when it is first used. The cluster process only passes on what
the Secret holds and does not use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509

RENEWED_BEFORE = timedelta(days=90)
MAX_NAMES = 20
MAX_OLDER = 4
"""Maximum number of older authorities in a new certificate's bundle: the Secret's, and those that a replica uses."""
LAST_MOMENT = timedelta(days=1)
"""This long before it expires, a certificate is replaced by its successor, whether or not the API server trusts that
one.
"""


@dataclass(frozen=True, slots=True)
class Served:
    """PEM texts: the trusted authorities, and the certificate with its key."""

    authorities: bytes
    certificate: bytes
    key: bytes = field(repr=False)


def issued(names: Sequence[str], now: datetime, before: bytes = b"") -> Served:
    """Issue a certificate for these DNS names and addresses. ``before`` holds older authorities that stay trusted."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    from worker.webhook.certificate_authority import CertificateAuthority, new_key, pem

    authority, key = CertificateAuthority("tenon-webhook-ca", now), new_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tenon-webhook")])
    certificate = authority.issue(subject, key.public_key(), ExtendedKeyUsageOID.SERVER_AUTH, names)
    older = dict.fromkeys(pem(old) for old in _read(before)[:MAX_OLDER] if old.not_valid_after_utc > now)
    certificates = [pem(authority.certificate), *older]
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Served(b"".join(certificates), pem(certificate), private)


def why_renew(served: Served, names: Sequence[str], now: datetime) -> str:
    """Why the certificate must be renewed. Empty while it is good."""
    from cryptography.hazmat.primitives import serialization

    from worker.webhook.certificate_authority import general_name

    parsed, authorities = _read(served.certificate), _read(served.authorities)
    if len(parsed) != 1 or not authorities:
        return "it cannot be read"
    certificate = parsed[0]
    try:
        certificate.verify_directly_issued_by(authorities[0])
        key = serialization.load_pem_private_key(served.key, password=None)
    except Exception as error:  # cryptography does not say which exceptions it raises for bad input
        return f"it does not match its authority or its key ({type(error).__name__})"
    if key.public_key() != certificate.public_key():
        return "its key belongs to another certificate"
    if max(certificate.not_valid_before_utc, authorities[0].not_valid_before_utc) > now:
        return "it is not valid yet"
    if certificate.not_valid_after_utc - now < RENEWED_BEFORE:
        return f"it expires at {certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
    certificate_names = _names(certificate)
    missing = [name for name in names if general_name(name) not in certificate_names]
    return f"it is not for {', '.join(missing)}" if missing else ""


def trusts(authorities: bytes, served: Served) -> bool:
    """Whether a client that trusts these authorities trusts the certificate."""
    return any(authority in _read(authorities) for authority in _read(served.authorities)[:1])


def may_replace(candidate: Served, in_use: Served, bundles: Sequence[bytes], now: datetime) -> bool:
    """Whether a replica may switch to a certificate that it found in the Secret.

    It may if the API server trusts that certificate, or if the one in use is about to expire.

    Args:
        bundles: the CA bundles that the API server trusts, one for each definition that has one.
    """
    if all(trusts(bundle, candidate) for bundle in bundles):
        return True
    return any(certificate.not_valid_after_utc - now < LAST_MOMENT for certificate in _read(in_use.certificate))


def names_of(served: Served) -> list[str]:
    """The names in the certificate, which may include addresses that only other replicas use."""
    parsed = _read(served.certificate)
    if len(parsed) != 1:
        return []
    return [str(name.value) for name in _names(parsed[0])][:MAX_NAMES]


def _names(certificate: x509.Certificate) -> list[x509.GeneralName]:
    """The subject alternative names. Empty if an operator's certificate in the Secret has none."""
    from cryptography import x509

    try:
        return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except (x509.ExtensionNotFound, ValueError):
        return []


def _read(text: bytes) -> list[x509.Certificate]:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError:
        return []
