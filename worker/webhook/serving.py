"""Serves conversions in every replica, in threads of the io process, so that conversions never wait for its other work.

It keeps the certificate valid, and reads how long each NodePool lets its nodes live, because v1beta1 NodeClaims take
that value over. If it cannot read or write something, it logs that once a minute and continues with what it has:
objects of v1 need none of this.
"""

from __future__ import annotations

import asyncio
import binascii
import threading
from base64 import b64decode
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from activities import loggers
from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError
from activities.kubernetes.resources import CRDS, NODEPOOLS
from tenon.apis.json_object import field_at
from tenon.apis.versions.definitions import NAMES, trusted_authorities
from tenon.apis.versions.objects import DEFAULT_EXPIRY
from worker.log_rate_limit import LogRateLimiter
from worker.own_namespace import own_namespace
from worker.settings import Settings, SettingsError
from worker.webhook.certificates import Served, may_replace
from worker.webhook.secret import SECRET, CertificateSecret
from worker.webhook.server import WebhookServer

log = loggers.WEBHOOK

PERIOD = 10.0
"""Seconds between two reads of the Secret and the NodePools."""
RETRY = 1.0
"""Seconds until the next attempt while there is no certificate."""


def service(settings: Settings) -> tuple[str, str]:
    """The namespace and name of the Service through which the API server reaches the webhook."""
    return own_namespace(), settings.karpenter_service or "tenon"


def served_names(settings: Settings) -> list[str]:
    """The names that the certificate must cover: those of the Service, and the host of WEBHOOK_URL if it is set."""
    namespace, name = service(settings)
    host = urlsplit(settings.webhook_url).hostname if settings.webhook_url else None
    service_name = f"{name}.{namespace}"
    return [f"{service_name}.svc", f"{service_name}.svc.cluster.local", service_name, *([host] if host else [])]


@contextmanager
def conversions_served(settings: Settings) -> Iterator[None]:
    """Serve conversions while the context is open, unless the settings disable them.

    Raises:
        SettingsError: the port cannot be used.
    """
    if settings.disable_webhook:
        yield
        return
    try:
        webhook = Webhook(settings)
    except OSError as error:
        raise SettingsError(
            f"Port {settings.webhook_port} cannot be used ({error.strerror}): set WEBHOOK_PORT to a free one."
        ) from None
    webhook.start()
    try:
        yield
    finally:
        webhook.shutdown()


class Webhook:
    """The conversion webhook of one replica."""

    def __init__(self, settings: Settings, kubeconfig: str | None = None) -> None:
        """Bind the port. ``kubeconfig`` overrides the one of the environment.

        Raises:
            OSError: the port cannot be used.
        """
        self._settings = settings
        self._kubeconfig = kubeconfig
        self._expiry: Mapping[str, str] | None = None
        self._served: Served | None = None
        self._log_limiter = LogRateLimiter()
        self._stopping = threading.Event()
        self._server = WebhookServer(settings.webhook_port, lambda: self._expiry)
        self._thread = threading.Thread(target=self._run, name="webhook-reconciler", daemon=True)

    def start(self) -> None:
        """Start the thread, which serves as soon as there is a certificate."""
        self._thread.start()

    def shutdown(self) -> None:
        """Stop serving and close all connections."""
        self._stopping.set()
        self._server.close()

    def _run(self) -> None:
        asyncio.run(self._reconcile())

    async def _reconcile(self) -> None:
        try:
            kube = await Kube.connect(self._kubeconfig)
        except ConfigError as error:  # the other processes exit because of it
            log.error("The conversion webhook cannot serve", extra={"error": str(error)})
            return
        try:
            while not self._stopping.is_set():
                await self._try("certificate", self._certify(kube))
                await self._try("NodePools", self._read_pools(kube))
                await asyncio.to_thread(self._stopping.wait, PERIOD if self._served else RETRY)
        finally:
            await kube.close()

    async def _try(self, task: str, attempt: Awaitable[None]) -> None:
        try:
            await attempt
        except (ApiError, OSError) as error:
            if self._log_limiter.count(task) is not None:
                log.warning(
                    "The conversion webhook failed to reconcile and retries: v1 is not affected",
                    extra={"object": task, "error": str(error)},
                )
        except Exception:  # the next pass may succeed
            if self._log_limiter.count((task, "fault")) is not None:
                log.exception("The conversion webhook failed to reconcile and retries", extra={"object": task})

    async def _certify(self, kube: Kube) -> None:
        namespace = own_namespace()
        in_use = self._served
        names = served_names(self._settings)
        certificate = await CertificateSecret(kube, namespace).ensure(names, in_use.authorities if in_use else b"")
        if certificate == in_use:
            return
        if in_use and not may_replace(certificate, in_use, await _trusted(kube), utc_now()):
            return  # wait until the leader has written the new authority into the CRDs
        self._server.use(certificate)
        self._served = certificate
        extra = {"port": self._server.port, "secret": f"{namespace}/{SECRET}"}
        log.info("The conversion webhook serves", extra=extra)

    async def _read_pools(self, kube: Kube) -> None:
        pools = {}
        for pool in await kube.list(NODEPOOLS):
            expiry = field_at(pool, "spec", "template", "spec", "expireAfter")
            pools[pool["metadata"]["name"]] = str(expiry or DEFAULT_EXPIRY)
        self._expiry = pools


async def _trusted(kube: Kube) -> list[bytes]:
    """The CA bundles that the API server trusts, one for each CRD that has one."""
    trusted = []
    for name in NAMES:
        authorities = trusted_authorities(await kube.get(CRDS, name) or {})
        with suppress(binascii.Error):
            trusted.append(b64decode(authorities))
    return [bundle for bundle in trusted if bundle]
