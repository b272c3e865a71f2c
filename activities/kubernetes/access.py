"""Who this process is to the API server, and whom it trusts: by a kubeconfig, or by the service account of its pod.

The official client reads certificates once, and those that it shows and trusts are renewed while a worker runs. So the
files are looked at now and then, and when one has changed all is read again. The token of a service account is read
again by the official client itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import threading
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import yaml

from activities.kubernetes.errors import ConfigError

log = logging.getLogger(__name__)

READ_BUFFER_BYTES = 2**21
"""As the official client has it: an object may be larger than aiohttp's own buffer."""
LOAD_SECONDS = 60.0
"""For a kubeconfig whose credentials a command hands out."""
LOOK_SECONDS = 30.0
"""Between two looks at the files."""
_LOADING = threading.Lock()
_NO_KUBECONFIG = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError)
"""What the client's loader fails with on a file that is something else."""


class Access:
    """The official client of the moment."""

    def __init__(self, kubeconfig: str | None, context: str | None) -> None:
        self._stated = kubeconfig
        self._context = context
        self.client: Any = None
        self._earlier: Any = None
        """The client before, over whose connections requests may still be under way."""
        self._refresh: asyncio.Task[None] | None = None
        self._files: dict[str, bytes] = {}
        self._next_look = 0.0

    @classmethod
    async def gain(cls, kubeconfig: str | None, context: str | None) -> Self:
        """Access by the kubeconfig file given, else ``KUBECONFIG``, the pod's service account, ``~/.kube/config``.

        Raises:
            ConfigError: none of them can be used.
        """
        access = cls(kubeconfig, context)
        await access._gain()
        return access

    async def renew(self) -> None:
        """Read all again if a file has changed; what cannot be used now leaves all as it is until the next look."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_SECONDS
        if _contents(self._files) == self._files:
            return
        try:
            await self._gain()
        except ConfigError as error:
            log.warning("Credentials for Kubernetes changed, and the old ones stay in use: %s", error)
        else:
            log.info("Credentials for Kubernetes changed, and the new ones are in use")

    async def close(self) -> None:
        """Close all connections; streams that are open end."""
        await self._end_refresh()
        for client in (self._earlier, self.client):
            if client is not None:
                await client.close()

    async def _gain(self) -> None:
        from activities.kubernetes.asynchronous import client, config

        self._next_look = time.monotonic() + LOOK_SECONDS
        settings = client.Configuration()
        loader, path = None, None
        try:
            path = _kubeconfig(self._stated or os.environ.get("KUBECONFIG"))
            files = _contents(path.split(os.pathsep))  # before each is used: what changes from here on is seen later
            if path:
                loader = await asyncio.to_thread(_loaded, path, self._context, settings)
            else:
                config.load_incluster_config(client_configuration=settings)
            settings.proxy = settings.proxy or _proxy_of_environment(settings.host)
            files |= _contents((settings.ssl_ca_cert, settings.cert_file, settings.key_file))
            api = client.ApiClient(settings)  # reads the certificates
        except (config.ConfigException, OSError, *_NO_KUBECONFIG) as error:
            said = _said(error, path or "the service account")
            raise ConfigError(
                f"The Kubernetes client cannot be configured: {said}. "
                "Set KUBECONFIG to a readable kubeconfig file, or run in a pod with a service account."
            ) from error
        _settle_environment(api)
        await self._end_refresh()
        if loader is not None:
            self._refresh = asyncio.create_task(_keep_refreshed(loader, settings), name="kubernetes token refresh")
        if self._earlier is not None:
            await self._earlier.close()
        self._earlier, self.client, self._files = self.client, api, files

    async def _end_refresh(self) -> None:
        if self._refresh is not None:
            self._refresh.cancel()
            await asyncio.gather(self._refresh, return_exceptions=True)


def _contents(files: Iterable[str | None]) -> dict[str, bytes]:
    """What is in each file that is named; a file that cannot be read is taken for empty."""
    found = {}
    for file in filter(None, files):
        try:
            found[file] = Path(file).read_bytes()
        except OSError:
            found[file] = b""
    return found


def _said(error: Exception, source: str) -> str:
    """What is wrong with a configuration, as a sentence's middle."""
    if isinstance(error, ssl.SSLError):
        return f"the certificates of {source} cannot be read ({error.reason or error})"
    return f"{source} is not a kubeconfig" if isinstance(error, _NO_KUBECONFIG) else str(error).rstrip(".")


def _loaded(path: str, context: str | None, settings: Any) -> Any:
    """The loader of a kubeconfig, which has set up ``settings``.

    The client keeps certificates that stand in a kubeconfig in files which all threads of a process share, and hands
    their names out before it has written them: another thread would read an empty one.
    """
    from activities.kubernetes.asynchronous import config

    async def load() -> Any:
        async with asyncio.timeout(LOAD_SECONDS):
            return await config.load_kube_config(path, context, client_configuration=settings, persist_config=False)

    with _LOADING:
        try:
            return asyncio.run(load())
        except TimeoutError:
            sentence = f"the command that {path} names gave no credentials within {LOAD_SECONDS:.0f} s"
            raise config.ConfigException(sentence) from None


async def _keep_refreshed(loader: Any, settings: Any) -> None:
    """Renew the token of a kubeconfig that a command hands out; a command that fails now may succeed in a minute."""
    from activities.kubernetes.asynchronous import config

    while True:
        try:
            await config.refresh_token(loader, settings)
            return  # nothing to renew: the kubeconfig holds lasting credentials
        except (config.ConfigException, OSError, ValueError) as error:
            log.warning("The Kubernetes token could not be renewed; trying again in a minute: %s", error)


def _proxy_of_environment(url: str) -> str | None:
    """The proxy that HTTPS_PROXY, NO_PROXY and the like name for this address."""
    address = urlsplit(url)
    if urllib.request.proxy_bypass(address.hostname or ""):
        return None
    return urllib.request.getproxies().get(address.scheme)


def _settle_environment(api: Any) -> None:
    """The client's session would read the environment's proxies and the netrc file anew for each request, which costs
    more than the rest of it; this one uses the proxy that was found once."""
    first = api.rest_client.pool_manager
    api.rest_client.pool_manager = aiohttp.ClientSession(connector=first.connector, read_bufsize=READ_BUFFER_BYTES)
    first.detach()


def _kubeconfig(stated: str | None) -> str:
    """The kubeconfig path(s) to use; empty inside a pod, whose service account serves when nothing is stated."""
    if stated:
        if not any(Path(part).exists() for part in stated.split(os.pathsep)):
            raise FileNotFoundError(f"there is no file {stated}")
        return stated
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return ""
    default = Path.home() / ".kube" / "config"
    return str(default) if default.exists() else ""
