"""The webhook's certificate: good for its names, renewed in time, trusted all the while."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

from cryptography import x509

from worker.webhook.certificates import LIFETIME, RENEWED_BEFORE, Served, issued, trusts, why_renew

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
    assert "it ends at" in why_renew(served, NAMES, last + timedelta(seconds=1))


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


def test_what_somebody_put_there_instead_is_made_anew() -> None:
    first, second = issued(NAMES, NOW), issued(NAMES, NOW)
    assert why_renew(Served(b"", b"", b""), NAMES, NOW)
    assert why_renew(Served(second.authorities, first.certificate, first.key), NAMES, NOW)
    assert why_renew(Served(first.authorities, first.certificate, second.key), NAMES, NOW)
    assert why_renew(Served(first.authorities, first.certificate, b"junk"), NAMES, NOW)


def test_the_key_shows_in_no_text() -> None:
    served = issued(NAMES, NOW)
    assert "PRIVATE" not in repr(served)
    assert served.key.decode().splitlines()[1] not in f"{served}"
