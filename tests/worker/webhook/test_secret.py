"""The Secret of the certificate, whatever state it is found in (OPS-05, OPS-08)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest
from cryptography import x509

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ConflictError, ForbiddenError
from activities.kubernetes.resources import SECRETS
from tests.worker.webhook.kubes import OwnKube
from worker.webhook.certificates import trusts, why_renew
from worker.webhook.secret import SECRET, CertificateSecret

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ["tenon.tenon.svc"]


def empty() -> OwnKube:
    """As it is installed."""
    return OwnKube((SECRETS, {"metadata": {"name": SECRET, "resourceVersion": "1"}, "type": "kubernetes.io/tls"}))


def secret(kube: OwnKube) -> CertificateSecret:
    return CertificateSecret(cast("Kube", kube), "tenon", lambda: NOW)


@pytest.mark.parametrize("kube", [OwnKube(), empty()], ids=["absent", "empty"])
async def test_what_is_absent_or_empty_is_filled_once(kube: OwnKube) -> None:
    first = await secret(kube).ensure(NAMES)
    assert why_renew(first, NAMES, NOW) == ""
    assert await secret(kube).read() == first
    assert await secret(kube).ensure(NAMES) == first


async def test_another_replica_that_was_faster_is_believed() -> None:
    kube, theirs = empty(), empty()
    ensure = await secret(theirs).ensure(NAMES)

    def faster(verb: str, name: str) -> None:
        kube.objects = theirs.objects
        raise ConflictError(409, "Conflict", f"{verb} {name}")

    kube.refuses = faster
    assert await secret(kube).ensure(NAMES) == ensure


async def test_a_worker_that_may_not_make_it_says_what_to_do() -> None:
    def forbidden(verb: str, name: str) -> None:
        raise ForbiddenError(403, "Forbidden", f"{verb} {name}")

    kube = OwnKube()
    kube.refuses = forbidden
    with pytest.raises(ForbiddenError, match=r"apply deploy/rbac\.yaml"):
        await secret(kube).ensure(NAMES)


@pytest.mark.parametrize("remainder", [None, {}, {"ca.crt": "!", "tls.crt": 5, "tls.key": ""}])
async def test_what_is_served_stays_trusted_when_somebody_empties_the_secret(remainder: Any) -> None:
    """The API server knows the old authority until a leader has told it of the new one."""
    kube = empty()
    before = await secret(kube).ensure(NAMES)
    kube.objects["secrets", SECRET]["data"] = remainder
    after = await secret(kube).ensure(NAMES, before.authorities)
    assert after.certificate != before.certificate
    assert trusts(after.authorities, before)
    assert len(x509.load_pem_x509_certificates(after.authorities)) == 2
