"""The webhook's certificate: good for its names, renewed in time, trusted all the while."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from worker.webhook.certificate_authority import LIFETIME
from worker.webhook.certificates import (
    RENEWED_BEFORE,
    Served,
    issued,
    may_replace,
    names_of,
    trusts,
    why_renew,
)

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ["tenon.tenon.svc", "127.0.0.1"]


def authorities(served: Served) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(served.authorities)


def test_a_fresh_certificate_is_good_for_its_names_only() -> None:
    served = issued(NAMES, NOW)
    assert why_renew(served, NAMES, NOW) == ""
    assert "other.svc" in why_renew(served, [*NAMES, "other.svc"], NOW)
    ssl.create_default_context(cadata=served.authorities.decode())


def test_it_is_renewed_long_before_it_ends() -> None:
    served = issued(NAMES, NOW)
    last = NOW + LIFETIME - RENEWED_BEFORE
    assert why_renew(served, NAMES, last) == ""
    assert "it expires at" in why_renew(served, NAMES, last + timedelta(seconds=1))


def test_after_a_renewal_both_authorities_are_trusted_until_the_old_one_ends() -> None:
    """Replicas that have not read the new certificate serve with the old one."""
    first = issued(NAMES, NOW)
    second = issued(NAMES, NOW + timedelta(days=300), before=first.authorities)
    assert len(authorities(second)) == 2
    assert authorities(second)[1] == authorities(first)[0]
    assert trusts(second.authorities, first)
    assert not trusts(first.authorities, second)
    assert why_renew(second, NAMES, NOW + timedelta(days=300)) == ""
    third = issued(NAMES, NOW + timedelta(days=600), before=second.authorities)
    assert authorities(third)[1] == authorities(second)[0]


def test_a_certificate_that_someone_replaced_is_issued_again() -> None:
    first, second = issued(NAMES, NOW), issued(NAMES, NOW)
    assert why_renew(Served(b"", b"", b""), NAMES, NOW)
    assert why_renew(Served(second.authorities, first.certificate, first.key), NAMES, NOW)
    assert why_renew(Served(first.authorities, first.certificate, second.key), NAMES, NOW)
    assert why_renew(Served(first.authorities, first.certificate, b"junk"), NAMES, NOW)
    nameless = without_names()
    assert "it is not for" in why_renew(nameless, NAMES, NOW)
    assert names_of(nameless) == []


def without_names() -> Served:
    """A good certificate that is for nobody."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW).not_valid_after(NOW + LIFETIME)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Served(pem, pem, key.private_bytes(*form))


def test_a_certificate_that_is_not_valid_yet_is_replaced() -> None:
    """It comes from a machine whose clock was fast: the API server would refuse it until then."""
    ahead = issued(NAMES, NOW + timedelta(days=2))
    assert why_renew(ahead, NAMES, NOW) == "it is not valid yet"
    slightly = issued(NAMES, NOW + timedelta(minutes=30))
    assert why_renew(slightly, NAMES, NOW) == ""


def test_a_new_certificate_is_served_when_the_api_server_trusts_it_and_not_before() -> None:
    old = issued(NAMES, NOW)
    new = issued(NAMES, NOW, before=old.authorities)
    assert not may_replace(new, old, [old.authorities], NOW)
    assert not may_replace(new, old, [new.authorities, old.authorities], NOW)
    assert may_replace(new, old, [new.authorities, new.authorities], NOW)
    assert may_replace(new, old, [], NOW)
    assert may_replace(new, old, [old.authorities], NOW + LIFETIME - timedelta(hours=1))


def test_the_key_is_in_no_repr_or_str() -> None:
    served = issued(NAMES, NOW)
    assert "PRIVATE" not in repr(served)
    assert served.key.decode().splitlines()[1] not in f"{served}"
