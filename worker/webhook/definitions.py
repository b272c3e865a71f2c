"""Configures conversion in the CRDs, and rewrites objects that are stored as v1beta1 as v1 (V1B-09). Runs in the
leader.

It reconciles periodically and writes only differences, so that a CRD that a user applies again is soon repaired.
"""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from activities import loggers
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConflictError
from activities.kubernetes.resources import CRDS, EC2NODECLASSES, NODECLAIMS, NODEPOOLS, Resource
from tenon.apis.json_object import JsonObject
from tenon.apis.versions.definitions import (
    NAMES,
    STORED_VERSION_MIGRATED,
    conversion_patch,
    is_to_be_migrated,
    needs_conversion,
)
from tenon.apis.versions.objects import V1
from worker.log_rate_limit import LogRateLimiter
from worker.own_namespace import own_namespace
from worker.settings import Settings
from worker.webhook.secret import SECRET, CertificateSecret
from worker.webhook.server import PATH
from worker.webhook.serving import service

log = loggers.WEBHOOK

PERIOD = 20.0
RETRY = 1.0
"""Seconds before the first retry; each further one waits twice as long, at most `PERIOD`."""
SERVICE_PORT = 8443
_RESOURCES = dict(zip(NAMES, (NODEPOOLS, NODECLAIMS, EC2NODECLASSES), strict=True))


async def reconcile_definitions(kube: Kube, settings: Settings) -> None:
    """Reconcile the CRDs until cancelled. If the webhook is disabled, only log which kinds cannot be read."""
    if settings.disable_webhook:
        await log_disabled_webhook(kube)
        return
    reconciler = DefinitionReconciler(kube, settings)
    retry = RETRY
    while True:
        if await reconciler.reconcile():
            retry = RETRY
            await asyncio.sleep(PERIOD)
        else:
            await asyncio.sleep(retry)
            # a failure that lasts, such as a missing right, is not retried each second; a certificate comes soon
            retry = min(2 * retry, PERIOD) if reconciler.failed else RETRY


async def log_disabled_webhook(kube: Kube) -> None:
    """Log once which kinds need the webhook that the settings disable."""
    while True:
        try:
            definitions = {name: await kube.get(CRDS, name) for name in NAMES}
            break
        except ApiError as error:
            log.warning(
                "The worker failed to read the CustomResourceDefinitions and retries", extra={"error": str(error)}
            )
            await asyncio.sleep(PERIOD)
    needing = [name for name, definition in definitions.items() if definition and needs_conversion(definition)]
    if needing:
        log.error(
            "DISABLE_WEBHOOK is true, but CustomResourceDefinitions serve or store v1beta1: requests for v1beta1 fail, "
            "and objects that are stored as v1beta1 cannot be read. Leave DISABLE_WEBHOOK (webhook.enabled of the "
            "chart) at its default, or install CustomResourceDefinitions that serve v1 alone",
            extra={"customresourcedefinitions": needing},
        )


class DefinitionReconciler:
    """Reconciles the CRDs of the kinds that have two versions."""

    def __init__(self, kube: Kube, settings: Settings) -> None:
        self._kube = kube
        self._settings = settings
        self._secret = CertificateSecret(kube, own_namespace())
        self._log_limiter = LogRateLimiter()
        self._rewritten: dict[str, set[str]] = {}
        self.failed = False
        """Whether the last pass failed to read or write an object."""

    async def reconcile(self) -> bool:
        """Reconcile all CRDs once. Returns False if there is no certificate yet or something failed: retry soon."""
        self.failed = False
        with self._log_failure(f"Secret {SECRET}"):
            served = await self._secret.read()
            if served is None or not served.authorities:
                return False
            authorities = b64encode(served.authorities).decode()
            for name in NAMES:
                with self._log_failure(name):
                    await self._reconcile(name, authorities)
        return not self.failed

    @contextlib.contextmanager
    def _log_failure(self, task: str) -> Iterator[None]:
        """Log a failure at most once a minute, and suppress it so that the remaining work goes on."""
        try:
            yield
        except ApiError as error:
            self.failed = True
            if self._log_limiter.count((task, error.status)) is not None:
                log.warning(
                    "The worker failed to set up the conversion of v1beta1 objects and retries: v1 is not affected",
                    extra={"object": task, "error": str(error)},
                )
        except Exception:  # the next pass may succeed, so no exception may end the loop
            self.failed = True
            if self._log_limiter.count((task, "fault")) is not None:
                log.exception(
                    "The worker failed to reconcile the CustomResourceDefinitions with two versions and retries",
                    extra={"object": task},
                )

    async def _reconcile(self, name: str, authorities: str) -> None:
        definition = await self._kube.get(CRDS, name)
        if definition is None:
            return
        patch = conversion_patch(definition, self._way(), authorities)
        if patch is not None:
            await self._kube.patch(CRDS, name, patch)
            log.info(
                "The worker set up the conversion of v1beta1 objects",
                extra={"customresourcedefinition": name, **self._way()},
            )
        elif is_to_be_migrated(definition):
            await self._migrate(definition, _RESOURCES[name])

    def _way(self) -> dict[str, Any]:
        url = self._settings.webhook_url
        if url:
            return {"url": url if urlsplit(url).path.strip("/") else url.rstrip("/") + PATH}
        namespace, name = service(self._settings)
        return {"service": {"namespace": namespace, "name": name, "path": PATH, "port": SERVICE_PORT}}

    async def _migrate(self, definition: JsonObject, resource: Resource) -> None:
        """Write every object again, so that it is stored as v1. Then remove v1beta1 from the CRD's storedVersions."""
        name = definition["metadata"]["name"]
        objects = await self._kube.list(resource)
        rewritten = self._rewritten.setdefault(name, set())
        refused = []
        for stored_object in objects:
            metadata = stored_object["metadata"]
            if metadata["uid"] in rewritten:
                continue
            mark = {"metadata": {"uid": metadata["uid"], "annotations": {STORED_VERSION_MIGRATED: "true"}}}
            try:
                await self._kube.patch(resource, metadata["name"], mark)
            except ConflictError:
                continue  # the object was deleted and created again, so it is stored as v1
            except ApiError as error:
                refused.append(f"{metadata['name']}: {error}")
                continue
            rewritten.add(metadata["uid"])
        if refused:
            if self._log_limiter.count((name, "refused")) is not None:
                log.warning(
                    "The worker failed to rewrite v1beta1 objects as v1: correct or delete them",
                    extra={"customresourcedefinition": name, "object-count": len(refused), "error": refused[0]},
                )
            return
        status = {"metadata": {"resourceVersion": definition["metadata"]["resourceVersion"]}}
        await self._kube.patch(CRDS, name, {**status, "status": {"storedVersions": [V1]}}, subresource="status")
        del self._rewritten[name]
        log.info(
            "The worker rewrote all v1beta1 objects as v1",
            extra={"customresourcedefinition": name, "object-count": len(objects)},
        )
