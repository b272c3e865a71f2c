"""The Secret in which all replicas have the webhook's certificate: whoever comes first fills it, the others read it.

It is installed empty. A worker that was given the right makes it, too; by the manifests and the chart none is.
"""

from __future__ import annotations

import binascii
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from activities.kubernetes.client import Kube, Object
from activities.kubernetes.errors import Conflict, Forbidden
from activities.kubernetes.resources import SECRETS
from worker.webhook.certificates import Served, issued, names_of, why_renew

log = logging.getLogger("worker.webhook")

SECRET = "tenon-webhook-cert"
ATTEMPTS = 5
"""How often another replica may be faster; each time its certificate is there to be read."""
_KEYS = ("ca.crt", "tls.crt", "tls.key")


class CertificateSecret:
    """The certificate of one namespace."""

    def __init__(self, kube: Kube, namespace: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._kube = kube
        self._namespace = namespace
        self._now = now

    async def read(self) -> Served | None:
        """The certificate as it is stored; None when there is no Secret."""
        found = await self._kube.get(SECRETS, SECRET, self._namespace)
        return None if found is None else _served(found)

    async def ensure(self, names: Sequence[str], trusted: bytes = b"") -> Served:
        """A certificate that is good for these names, made when there is none yet or when it has to be renewed.

        Args:
            trusted: authorities of what is served with now, which stay trusted whatever became of the Secret.

        Raises:
            Conflict: others wrote it again and again.
            Forbidden: there is no Secret, and the worker may not make one.
        """
        for _ in range(ATTEMPTS):
            found = await self._kube.get(SECRETS, SECRET, self._namespace)
            served = None if found is None else _served(found)
            why = (
                why_renew(served, names, self._now()) if served is not None and served.certificate else "there is none"
            )
            if served is not None and not why:
                return served
            wanted = sorted({*names, *(names_of(served) if served else ())})
            fresh = issued(wanted, self._now(), before=trusted + (served.authorities if served else b""))
            try:
                await self._write(found, fresh)
            except Conflict:
                continue  # another replica wrote: what it wrote is read next
            log.info("made a certificate for the conversion webhook", extra={"why": why, "names": wanted})
            return fresh
        raise Conflict(409, "Conflict", f"Secret {self._namespace}/{SECRET} is written by others all the time")

    async def _write(self, found: Object | None, served: Served) -> None:
        values = (served.authorities, served.certificate, served.key)
        data = {key: b64encode(value).decode() for key, value in zip(_KEYS, values, strict=True)}
        if found is None:
            labels = {"app.kubernetes.io/part-of": "tenon"}
            body = {"metadata": {"name": SECRET, "labels": labels}, "type": "kubernetes.io/tls", "data": data}
            try:
                await self._kube.create(SECRETS, body, self._namespace)
            except Forbidden as error:
                raise Forbidden(error.status, error.reason, self._missing()) from error
            return
        patch = {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}, "data": data}
        if await self._kube.patch(SECRETS, SECRET, patch, namespace=self._namespace) is None:
            raise Conflict(409, "Conflict", f"Secret {self._namespace}/{SECRET} is gone")

    def _missing(self) -> str:
        return (
            f"Secret {self._namespace}/{SECRET} is not there and the worker may not make it: apply deploy/rbac.yaml, "
            "or upgrade the chart, again"
        )


def _served(secret: Object) -> Served:
    """What the Secret holds; what is missing or malformed is empty, and so no good certificate."""
    data = secret.get("data") or {}
    values = []
    for key in _KEYS:
        try:
            values.append(b64decode(data.get(key) or "", validate=True))
        except (binascii.Error, TypeError):
            values.append(b"")
    return Served(*values)
