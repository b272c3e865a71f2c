"""The Secret in which all replicas share the webhook's certificate. The first replica fills it, the others read it.

The manifests and the chart install it empty. A worker creates it only if RBAC allows that, which they do not grant.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from datetime import datetime

from activities import loggers
from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ConflictError, ForbiddenError
from activities.kubernetes.resources import SECRETS
from tenon.apis.json_object import JsonObject
from worker.webhook.certificates import Served, issued, names_of, why_renew

log = loggers.WEBHOOK

SECRET = "tenon-webhook-cert"
ATTEMPTS = 5
"""Attempts to write before giving up. A failed attempt means that another replica wrote a certificate, which is then
read.
"""
_KEYS = ("ca.crt", "tls.crt", "tls.key")


class CertificateSecret:
    """Reads and writes the certificate Secret of one namespace."""

    def __init__(self, kube: Kube, namespace: str, now: Callable[[], datetime] = utc_now) -> None:
        self._kube = kube
        self._namespace = namespace
        self._now = now

    async def read(self) -> Served | None:
        """Read the stored certificate. None if the Secret does not exist."""
        secret = await self._kube.get(SECRETS, SECRET, self._namespace)
        return None if secret is None else _served(secret)

    async def ensure(self, names: Sequence[str], trusted: bytes = b"") -> Served:
        """Return a certificate that is good for these names. Issues one if there is none or if it must be renewed.

        Args:
            trusted: authorities of the certificate in use, which stay trusted even if the Secret has lost them.

        Raises:
            ConflictError: others wrote the Secret at every attempt.
            ForbiddenError: the Secret does not exist and the worker may not create it.
        """
        for _ in range(ATTEMPTS):
            secret = await self._kube.get(SECRETS, SECRET, self._namespace)
            served = None if secret is None else _served(secret)
            why = (
                why_renew(served, names, self._now()) if served is not None and served.certificate else "there is none"
            )
            if served is not None and not why:
                return served
            all_names = sorted({*names, *(names_of(served) if served else ())})
            fresh = issued(all_names, self._now(), before=trusted + (served.authorities if served else b""))
            try:
                await self._write(secret, fresh)
            except ConflictError:
                continue  # another replica wrote: read its certificate
            log.info(
                "The worker issued a certificate for the conversion webhook",
                extra={"reason": why, "dns-names": all_names},
            )
            return fresh
        raise ConflictError(409, "Conflict", f"Secret {self._namespace}/{SECRET} keeps being changed by other clients")

    async def _write(self, secret: JsonObject | None, served: Served) -> None:
        values = (served.authorities, served.certificate, served.key)
        data = {key: b64encode(value).decode() for key, value in zip(_KEYS, values, strict=True)}
        if secret is None:
            labels = {"app.kubernetes.io/part-of": "tenon"}
            body = {"metadata": {"name": SECRET, "labels": labels}, "type": "kubernetes.io/tls", "data": data}
            try:
                await self._kube.create(SECRETS, body, self._namespace)
            except ForbiddenError as error:
                raise ForbiddenError(error.status, error.reason, self._missing()) from error
            return
        patch = {"metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]}, "data": data}
        if await self._kube.patch(SECRETS, SECRET, patch, namespace=self._namespace) is None:
            raise ConflictError(409, "Conflict", f"Secret {self._namespace}/{SECRET} is gone")

    def _missing(self) -> str:
        return (
            f"Secret {self._namespace}/{SECRET} does not exist and the worker may not create it: apply "
            "deploy/rbac.yaml, or upgrade the chart, again"
        )


def _served(secret: JsonObject) -> Served:
    """The certificate in the Secret. A missing or malformed key becomes empty, which `why_renew` rejects."""
    data = secret.get("data") or {}
    values = []
    for key in _KEYS:
        try:
            values.append(b64decode(data.get(key) or "", validate=True))
        except (binascii.Error, TypeError):
            values.append(b"")
    return Served(*values)
