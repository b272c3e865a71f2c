"""Every replica serves conversions: a thread of the worker's parent process, which has nothing else to do.

It keeps the certificate good and knows how long each NodePool lets its nodes live, which NodeClaims of v1beta1 take
over. What it cannot read or write it says once a minute, and goes on with what it has: objects of v1 need none of this.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Mapping
from urllib.parse import urlsplit

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError
from activities.kubernetes.resources import NODEPOOLS
from tenon.apis.legacy.v1beta1_nodepool import DEFAULT_EXPIRY
from worker.repeats import Sparingly
from worker.settings import Settings
from worker.settings.place import own_namespace
from worker.webhook.certificates import Served, trusts
from worker.webhook.secret import SECRET, CertificateSecret
from worker.webhook.server import WebhookServer

log = logging.getLogger("worker.webhook")

PERIOD = 10.0
"""Seconds between two looks at the Secret and the NodePools."""
SOON = 1.0
"""Seconds until the next try, while there is no certificate yet."""
TRUSTED_AFTER = 90.0
"""Seconds in which a leader has told the API server of a renewed certificate's authority."""


def service(settings: Settings) -> tuple[str, str]:
    """Namespace and name of the Service by which the API server reaches the webhook."""
    return own_namespace(), settings.karpenter_service or "tenon"


def served_names(settings: Settings) -> list[str]:
    """The names that the certificate has to be for: those of the Service, and the host of an address of its own."""
    namespace, name = service(settings)
    host = urlsplit(settings.webhook_url).hostname if settings.webhook_url else None
    known = f"{name}.{namespace}"
    return [f"{known}.svc", f"{known}.svc.cluster.local", known, *([host] if host else [])]


class Webhook:
    """The conversion webhook of one replica."""

    def __init__(self, settings: Settings, kubeconfig: str | None = None) -> None:
        """Take the port; raises OSError when it cannot be used. ``kubeconfig`` is another than the environment's."""
        self._settings = settings
        self._kubeconfig = kubeconfig
        self._expiry: Mapping[str, str] | None = None
        self._served: Served | None = None
        self._renewed: tuple[Served, float] | None = None
        self._sparingly = Sparingly()
        self._stopping = threading.Event()
        self._server = WebhookServer(settings.webhook_port, lambda: self._expiry)
        self._thread = threading.Thread(target=self._run, name="webhook-keeper", daemon=True)

    def start(self) -> None:
        """Serve, as soon as there is a certificate."""
        self._thread.start()

    def shutdown(self) -> None:
        """Stop serving."""
        self._stopping.set()
        self._server.close()

    def _run(self) -> None:
        asyncio.run(self._keep())

    async def _keep(self) -> None:
        try:
            kube = await Kube.connect(self._kubeconfig)
        except ConfigError as error:  # the other processes end for it
            log.error("the conversion webhook cannot serve", extra={"error": str(error)})
            return
        try:
            while not self._stopping.is_set():
                await self._try("certificate", self._certify(kube))
                await self._try("NodePools", self._read_pools(kube))
                await asyncio.to_thread(self._stopping.wait, PERIOD if self._served else SOON)
        finally:
            await kube.close()

    async def _try(self, what: str, attempt: Awaitable[None]) -> None:
        try:
            await attempt
        except (ApiError, OSError) as error:
            if self._sparingly.count(what) is not None:
                log.warning(
                    "The conversion webhook could not be kept: objects of v1 are served all the same",
                    extra={"what": what, "error": str(error)},
                )
        except Exception:  # another look may find it put right
            if self._sparingly.count((what, "fault")) is not None:
                log.exception("The conversion webhook could not be kept", extra={"what": what})

    async def _certify(self, kube: Kube) -> None:
        namespace = own_namespace()
        found = await CertificateSecret(kube, namespace).ensure(served_names(self._settings))
        if found == self._served:
            return
        now = time.monotonic()
        if self._renewed is None or self._renewed[0] != found:
            self._renewed = (found, now)
        in_use = self._served
        if in_use and trusts(found.authorities, in_use) and now < self._renewed[1] + TRUSTED_AFTER:
            return  # the one that is in use is good for weeks yet, and the API server knows it
        self._server.use(found)
        self._served = found
        extra = {"port": self._server.port, "secret": f"{namespace}/{SECRET}"}
        log.info("objects of v1beta1 are converted", extra=extra)

    async def _read_pools(self, kube: Kube) -> None:
        found = {}
        for pool in await kube.list(NODEPOOLS):
            spec = pool
            for name in ("spec", "template", "spec"):
                spec = spec.get(name) or {}
            found[pool["metadata"]["name"]] = str(spec.get("expireAfter") or DEFAULT_EXPIRY)
        self._expiry = found
